"""What workers of a Dask cluster say is checked, and what is said of them; without a cluster."""

import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import dask.config
import pytest

from resources import remote
from resources.engine import Outcome
from resources.engine import mapping as errors
from resources.engine.dask import Call, Cluster, worker
from resources.engine.dask.cluster import Member
from resources.files import UnusableFileError
from resources.lake import ArchiveError, Layout
from resources.remote import RemoteWorkers
from tests.unit.lake.conftest import Lake


class Fake(SimpleNamespace):
    """A cluster whose workers answer every call with `result`."""

    def map(self, _function, calls, done):
        self.calls = calls
        outcomes = [Outcome(call, result=self.result) for call in calls]
        for outcome in outcomes:
            done(outcome)
        return outcomes


def test_a_file_that_a_worker_names_must_be_in_the_folder(tmp_path):
    lake, told = Lake(Layout(tmp_path)), []
    archive, layout = lake.archive(lake.lines(lake.record(1), b"bad")), lake.layout
    workers, size = RemoteWorkers("dask://127.0.0.1:1", layout), archive.path.stat().st_size
    with remote.worker_context(tmp_path, memory_bytes=None, record_bytes_max=64 << 20):
        made = remote.convert_here(remote._moved(archive, layout), frozenset())
    fake = vars(workers)["cluster"] = Fake(result=made)
    both = [archive, replace(archive, path=tmp_path / "gone")]
    outcomes = workers.convert_all(both, bodies=frozenset(), advance=told.append)
    assert ([outcome.unwrap().rejects_path.exists() for outcome in outcomes], told) == ([True] * 2, [size, 0])
    assert len({call.key for call in fake.calls}) == 2
    (tmp_path / made.rejects_path).unlink()
    lost, _ = workers.convert_all(both, bodies=frozenset(), advance=told.append)
    assert re.search(r"worker wrote .* does not appear in .*/rejects/", str(lost.error))
    job = SimpleNamespace(digest="d", name="day")
    fake.result = ((SimpleNamespace(lake_path="x.parquet"),), {})
    workers.compact_all([job], told.append)
    assert fake.calls == [Call("compact-d", "The compaction day", (job,), alone=True)]
    assert isinstance(told[-1].error, errors.FolderNotSharedError)
    fake.result = ((SimpleNamespace(lake_path="../archive"),), {})
    with pytest.raises(UnusableFileError, match="not a valid name for a file in"):
        workers.compact_all([job], told.append)
    for column in ("path", "rejects_path"):
        fake.result = replace(made, **{column: archive.path})
        with pytest.raises(UnusableFileError, match="not a valid name for a file in"):
            workers.convert_all(both, bodies=frozenset(), advance=told.append)


def test_what_differs_and_what_died_is_said(tmp_path, caplog):
    connection = Cluster("dask://127.0.0.1:1", {"a": "1", "b": "2"}, tmp_path)
    own = worker.own_versions()
    assert own["Python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    members = [Member("host", "name", 1, {**own, **more}) for more in ({"b": "2", "c": "3"}, {})]
    told = "a unknown instead of 1, c 3 instead of unknown", "a unknown instead of 1, b unknown instead of 2"
    assert tuple(map(connection.differences, members)) == told
    assert connection.differences(replace(members[0], versions={})) == "not started by `wme worker`"
    gone = {"action": "remove-worker", "worker": "x"}
    for event in ({"action": "add-worker", "worker": "new"}, "text", gone | {"processing-tasks": {1: 1, 2: 1}}, gone):
        connection._hear((0.0, event))
    connection._tell_gone()
    told = [f"The worker x disappeared. Other workers will run {count} again." for count in ("2 tasks", "0 tasks")]
    assert caplog.messages == told
    foreign = {"tcp://host:2": {"host": "host", "name": 3, "nthreads": 2}}
    connection._client = SimpleNamespace(scheduler_info=lambda: {"workers": foreign})
    assert connection.members() == [Member("host", "3", 2, {})]


class SilentError(Exception):
    """Pickle loses its text."""

    def __reduce__(self):
        return SilentError, ()


def test_a_worker_answers_with_errors_as_they_are_or_their_first_line(tmp_path, monkeypatch):
    assert str(worker.portable(SilentError("one\ntwo"))) == "SilentError: one"
    assert worker.portable(error := ArchiveError(tmp_path, "no")) is error
    monkeypatch.setattr(worker, "_folder", tmp_path / "none")
    assert "does not find the run in" in str(worker.run(print, (), "probe").error)
    assert worker.resource_of({"a": "1", "b": "2"}) == worker.resource_of({"b": "2", "a": "1"})
    with dask.config.set({"distributed.comm.require-encryption": True}):
        assert worker.url("dask://host:1") == "tls://host:1"
    assert worker.url("dask://host:1") == "tcp://host:1"
