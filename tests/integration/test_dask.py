"""Conversion and compaction by workers of a real Dask cluster: the same files as on threads, and who is refused."""

import hashlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dask.config
import pytest
from distributed import Security

from assets.steps.compaction import compact_lake
from assets.steps.converting import convert_archives
from pipelines.report import status as report_status
from pipelines.report.status import as_json, collect
from resources import datasets, remote
from resources.engine import Engine, line_reporter
from resources.engine import mapping as errors
from resources.engine.dask import Call, Cluster, TimeLimits
from resources.engine.dask import cluster as dask_cluster
from resources.lake import Archive, ArchiveError, Converter, Layout, sweep
from resources.remote import RemoteWorkers, versions
from resources.settings import Settings
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.integration import tasks
from tests.local_cluster import ROOT, cluster, free_port
from tests.unit.assets.conftest import archive_bytes, record

HOUR = datetime(2026, 11, 1, 5, tzinfo=UTC)
QUICK = TimeLimits(answer=120, workers=1, look=0.05)


def archives_in(data, count, lines=40):
    """Archives of some projects, each of its own records and one that is rejected."""
    layout, found = Layout(data), []
    for number in range(count):
        project = f"p{number}wiki"
        records = (record(number * 1000 + line, project) for line in range(lines))
        content = archive_bytes(f"{project}_namespace_0", *records, {})
        path = layout.archive / "batches" / f"{project}.tar.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        version = hashlib.md5(content, usedforsecurity=False).hexdigest()
        found.append(Archive(path, f"{project}_namespace_0", version, HOUR, project, 0))
    return found


def contents(layout):
    found = (path for path in layout.lake.rglob("*") if path.is_file())
    return {path.relative_to(layout.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def on_threads(archives, data, folder):
    """The same archives converted here, in a data folder of their own."""
    shutil.copytree(data / "archive", folder / "archive")
    layout = Layout(folder)
    here = [replace(one, path=folder / one.path.relative_to(data)) for one in archives]
    with Converter(workers=2) as converter:
        made = convert_archives("them", here, layout, bodies=["html"], converter=converter, engine=Engine())
    return contents(layout), [one.row_count for one in made]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(folder, folder / "data", 2) as made:
        yield made, folder / "data"


@pytest.fixture
def client(shared):
    made, data = shared
    with closing(Cluster(made.address, versions(), data / "lake", QUICK)) as connection:
        yield connection


def calls(*arguments):
    return [Call(f"call-{number}-{os.urandom(4).hex()}", f"call {number}", one) for number, one in enumerate(arguments)]


def refusal(connection, kind, match):
    """The error by which a cluster gets no task."""
    with pytest.raises(kind, match=match) as caught:
        connection.map(tasks.double, calls((1,)), print)
    return caught.value


def test_files_and_counts_are_those_of_threads_and_nothing_is_converted_twice(shared, tmp_path):
    made, data = shared
    archives, lines = archives_in(data, 9), []
    engine = Engine(reporter=line_reporter(lines.append))
    with RemoteWorkers(made.address, Layout(data), answer_seconds=QUICK.answer) as converter:
        first = convert_archives("them", archives, Layout(data), bodies=["html"], converter=converter, engine=engine)
        again = convert_archives("them", archives, Layout(data), bodies=["html"], converter=converter, engine=engine)
    assert all(one.converted and one.path.is_file() for one in first)
    assert not any(one.converted for one in again)
    assert [one.path for one in first] == [one.path for one in again]
    expected, counts = on_threads(archives, data, tmp_path / "threads")
    assert contents(Layout(data)) == expected
    assert [one.row_count for one in first] == counts == [40] * 9
    assert len(lines) == 2, "progress from nothing to all, once"
    assert ", ".join(lines[1].split(": ")[:1]) == "convert them"


def test_a_worker_may_see_the_folder_under_another_path(tmp_path):
    (archive,) = archives_in(tmp_path / "here", 1)
    call, layout = remote._moved(archive, Layout(tmp_path / "here")), Layout(tmp_path / "there")
    (tmp_path / "here").rename(layout.root)
    with remote.worker_context(layout.root, memory_bytes=420 << 20, record_bytes_max=32 << 20) as converter:
        made = remote.convert_here(call, frozenset({"html"}))
    assert (converter.memory_bytes, converter.record_bytes_max, made.row_count) == (420 << 20, 32 << 20, 40)
    for path in (made.path, made.rejects_path):
        assert (path.is_absolute(), (layout.root / path).is_file()) == (False, True)
    with pytest.raises(errors.EngineError, match="not started by `wme worker`"):
        remote.convert_here(call, frozenset())
    outside = replace(archive, path=tmp_path / "x.tar.gz")
    assert remote._moved(outside, layout) == outside


def test_results_keep_the_order_and_errors_arrive_as_what_they_are(client):
    told = []
    outcomes = client.map(tasks.double, calls(*((n,) for n in range(30))), told.append)
    assert [outcome.unwrap() for outcome in outcomes] == [2 * n for n in range(30)]
    assert sorted(outcome.item.label for outcome in told) == sorted(f"call {n}" for n in range(30))
    (failed,) = client.map(tasks.fail, calls(("x.tar.gz",)), told.append)
    assert isinstance(failed.error, ArchiveError)
    assert (failed.error.path.name, failed.error.member, failed.error.offset) == ("x.tar.gz", "m", 7)
    (odd,) = client.map(tasks.odd, calls(()), told.append)
    assert isinstance(odd.error, errors.TaskError)
    assert "OddError: unheard of" in str(odd.error)


def test_a_damaged_archive_fails_alone(shared, tmp_path):
    made, data = shared
    archives = archives_in(data, 3, lines=7)
    archives[1].path.write_bytes(archives[1].path.read_bytes()[:200])
    with RemoteWorkers(made.address, Layout(data), answer_seconds=QUICK.answer) as converter:
        outcomes = converter.convert_all(archives, bodies=frozenset({"html"}), advance=lambda _: None)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), ArchiveError, type(None)]


def test_workers_of_other_versions_get_nothing_and_are_named(shared):
    made, data = shared
    others = Cluster(made.address, versions() | {"package": "0.0.1", "converter": "99"}, data / "lake", QUICK)
    facts = r"package [\d.]+ instead of 0\.0\.1, converter \d+ instead of 99"
    differing = rf"worker-[01] on 127\.0\.0\.1: {facts}.*same version"
    with closing(others):
        assert not refusal(others, errors.WorkersDifferError, differing).retryable


def test_status_shows_the_workers_and_their_versions(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(report_status, "_PATIENCE", QUICK.answer)
    made, data = shared
    report = collect(Settings(data=data, engine=made.address), 3)
    facts = [f"{name}: {value}" for name, value in report.facts if name in {"engine", "worker"}]
    assert (facts[0], len(facts)) == (f"engine: {made.address}: 2 workers", 3)
    worker = r"worker: worker-[01] on 127\.0\.0\.1: \d+ archives at a time; package "
    assert all(re.match(worker, fact) for fact in facts[1:])
    assert not [trouble for trouble in report.troubles if "worker" in trouble]
    assert len(as_json(report)["facts"]["worker"]) == 2
    others = collect(Settings(data=data, engine=made.address, max_record_mb=32), 3)
    assert len([one for one in others.troubles if "receives no tasks: WME_MAX_RECORD_MB 64 instead of 32" in one]) == 2


def test_workers_that_do_not_see_the_folder_are_refused(shared, tmp_path):
    made, data = shared
    with closing(Cluster(made.address, versions(), tmp_path / "elsewhere", QUICK)) as connection:
        for _ in range(2):  # the second time at once
            advice = r"does not share the folder .*elsewhere.*Mount this machine's data folder"
            refusal(connection, errors.FolderNotSharedError, advice)
    assert [*(tmp_path / "elsewhere").iterdir(), *(data / "lake").glob("*probe*")] == []


def test_nobody_at_the_address_is_said_within_the_time_allowed_and_then_at_once(tmp_path):
    address = f"dask://127.0.0.1:{free_port()}"
    with closing(Cluster(address, versions(), tmp_path, TimeLimits(answer=0.5))) as connection:
        nobody = r"^No scheduler responded at dask://127\.0\.0\.1:\d+ within 0\.5 s .*dask scheduler"
        first = refusal(connection, errors.EngineUnreachableError, nobody)
        again = refusal(connection, errors.EngineUnreachableError, nobody)
    assert first.retryable
    assert again is first, "nobody waits for the scheduler a second time"


def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['distributed'] = None\nfrom resources.errors import MirrorError\ntry:\n import "
        "resources.engine.dask\nexcept MirrorError as e:\n print(e)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert "pip install -e '.[dask]'" in told
    assert "WME_ENGINE=threads" in told


def test_killed_workers_and_a_killed_scheduler_lose_nothing(tmp_path, caplog, monkeypatch):
    """Of two workers one is killed after the first result, then the scheduler. The rest waits for the kill."""
    monkeypatch.setattr(remote, "convert_here", tasks.convert_one_then_wait)
    data = tmp_path / "data"
    archives = archives_in(data, 9, lines=100)
    expected, counts = on_threads(archives, data, tmp_path / "threads")
    layout = Layout(data)
    (layout.lake / "article_changes").mkdir(parents=True)
    with cluster(tmp_path / "logs", data, 2) as made:
        goes_on = data / tasks.GOES_ON

        def kill_one(_bytes):
            if not goes_on.exists():
                os.killpg(made.workers[0].pid, signal.SIGKILL)
                goes_on.touch()

        with RemoteWorkers(made.address, layout, answer_seconds=QUICK.answer) as converter:
            outcomes = converter.convert_all(archives[:6], bodies=frozenset({"html"}), advance=kill_one)
            assert [outcome.unwrap().row_count for outcome in outcomes] == counts[:6]
            assert made.workers[0].wait(timeout=120) == -signal.SIGKILL
            assert "disappeared" in caplog.text
            goes_on.unlink()
            (data / tasks.FIRST).unlink()

            def kill_scheduler(_bytes):
                os.killpg(made.scheduler.pid, signal.SIGKILL)
                goes_on.touch()

            with pytest.raises(errors.EngineUnreachableError, match=r"was lost\. Completed work is kept"):
                converter.convert_all(archives[6:], bodies=frozenset({"html"}), advance=kill_scheduler)
            assert made.workers[1].wait(timeout=120) == 1
            assert "The scheduler at" in made.log("worker-1")
            sweep(layout)
            assert set(contents(layout).items()) <= set(expected.items())
            made.start_scheduler()
            made.start_worker(data)
            outcomes = converter.convert_all(archives[6:], bodies=frozenset({"html"}), advance=print)
            assert [outcome.unwrap().row_count for outcome in outcomes] == counts[6:]
    assert contents(layout) == expected


def compacted(data, compactor=None):
    """An hour compacted some weeks later: what was read and taken in, and the new files."""
    warehouse = Warehouse(data, clock=lambda: HOUR + timedelta(days=60))
    done = compact_lake(Layout(data), warehouse, Engine(), compactor=compactor, memory_bytes=1 << 17, threads=1)
    with warehouse._connector.build("look") as connection:
        ledger = connection.execute("SELECT * EXCLUDE (compacted_at) FROM compacted_files ORDER BY ALL").fetchall()
    files = {path: of for path, of in contents(Layout(data)).items() if re.search(r"/compacted/.*\.parquet$", path)}
    return [(one.read_files, one.row_count) for one in done], ledger, files


def test_a_worker_compacts_as_threads_do_and_one_that_is_killed_half_way_leaves_what_is_swept(tmp_path, monkeypatch):
    data, layout = tmp_path / "data", Layout(tmp_path / "data")
    archives = archives_in(data, 5, lines=12)
    with Converter(workers=2) as converter:
        made = convert_archives("them", archives, layout, bodies=["html"], converter=converter, engine=Engine())
    Warehouse(lay(data)).load_hour(HOUR, made, dataset=datasets.ARTICLE_CHANGES)
    shutil.copytree(data, tmp_path / "threads")
    expected = compacted(tmp_path / "threads")
    assert expected[0] == [(5, 60)]
    monkeypatch.setattr(remote, "compact_here", tasks.compact_or_die)
    with (
        cluster(tmp_path / "logs", data, 2) as nodes,
        RemoteWorkers(nodes.address, layout, answer_seconds=QUICK.answer) as compactor,
    ):
        assert compacted(data, compactor) == expected
        assert sorted(worker.poll() is None for worker in nodes.workers) == [False, True]
    assert sweep(layout)
    assert not list(layout.lake.rglob("*.unfinished"))


def test_of_tasks_that_are_alone_a_worker_has_one_at_a_time(client):
    meetings = [replace(call, alone=True) for call in calls(*[()] * 4)]
    assert not any(outcome.unwrap() for outcome in client.map(tasks.meet, meetings, print))


@pytest.fixture
def certificate(tmp_path):
    """A certificate that is its own authority, as the settings of `distributed` name it."""
    made = Security.temporary()
    files = {"CERT": tmp_path / "node.pem", "KEY": tmp_path / "node.key"}
    files["CERT"].write_text(made.tls_ca_file)
    files["KEY"].write_text(made.tls_worker_key)
    named = {f"{role}__{kind}": path for role in ("SCHEDULER", "WORKER", "CLIENT") for kind, path in files.items()}
    settings = {"TLS__CA_FILE": files["CERT"], "REQUIRE_ENCRYPTION": True} | {f"TLS__{n}": p for n, p in named.items()}
    return {f"DASK_DISTRIBUTED__COMM__{name}": str(value) for name, value in settings.items()}


def test_tls_admits_no_others_and_a_task_that_kills_its_worker_fails_by_our_words(certificate, tmp_path, monkeypatch):
    environ = certificate | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with cluster(tmp_path / "logs", tmp_path / "data", 2, **environ) as made:
        assert "tls://" in made.log("worker-0")
        place = (made.address, versions(), tmp_path / "data" / "lake")
        with closing(Cluster(*place, TimeLimits(answer=1))) as stranger:
            refusal(stranger, errors.EngineUnreachableError, "same TLS")
        for name, value in certificate.items():
            monkeypatch.setenv(name, value)
        try:
            dask.config.refresh()
            with closing(Cluster(*place, QUICK)) as connection:
                lose_workers(made, connection)
            # a scheduler without workers is said
            moments = itertools.count(0.0, QUICK.answer / 2)
            clock = SimpleNamespace(monotonic=lambda: next(moments), sleep=lambda _: None)
            monkeypatch.setattr(dask_cluster, "time", clock)
            with closing(Cluster(*place, QUICK)) as connection:
                refusal(connection, errors.NoWorkerError, r"has no worker.*wme worker")
        finally:
            monkeypatch.undo()
            dask.config.refresh()


def lose_workers(made, connection):
    """One of two workers is killed by its task, and the other is told to end."""
    (outcome,) = connection.map(tasks.die, [Call("deadly", "enwiki.tar.gz", ())], print)
    assert isinstance(outcome.error, errors.TaskLostError), made.log("scheduler")
    assert str(outcome.error).startswith("enwiki.tar.gz: the task's worker died 1 time. This task wrote no files")
    (fine,) = connection.map(tasks.double, calls((4,)), print)
    assert (fine.unwrap(), len(connection.members())) == (8, 1)
    (left,) = (worker for worker in made.workers if worker.poll() is None)
    left.send_signal(signal.SIGTERM)
    assert (left.wait(timeout=120), connection.members()) == (128 + signal.SIGTERM, [])
    refusal(connection, errors.NoWorkerError, "last worker")
