"""A run is ended when its process is gone, and never before."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage import tags
from dagster._core.test_utils import create_run_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from assets.layers import RunTag
from pipelines import cli
from pipelines.definitions import build_defs
from pipelines.process import dagster_internals, interrupts, processes
from resources.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
HERE = "here"
#: Holds a lock as a run's process does, tells its tags, and stays until it is ended.
HOLDER = """
import json, sys
import dagster as dg
from pipelines.process.processes import under_way
with dg.DagsterInstance.ephemeral(tempdir=sys.argv[1]) as instance, under_way(instance) as runs:
    print(json.dumps(runs.tags), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@contextmanager
def holding(instance: dg.DagsterInstance) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A process that holds a lock, and the tags by which a run names it."""
    words = [sys.executable, "-c", HOLDER, instance.root_directory]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def run_of(instance: dg.DagsterInstance, tags: dict[str, str], *, location: str | None = None) -> str:
    """A run in the history; of a code location, or of a command."""
    origin = None
    if location is not None:
        target = LoadableTargetOrigin(executable_path=sys.executable, module_name="any")
        place = InProcessCodeLocationOrigin(target, location_name=location)
        origin = RemoteJobOrigin(RemoteRepositoryOrigin(place, "any"), "hours")
    status = dg.DagsterRunStatus.STARTED
    return create_run_for_test(instance, job_name="hours", status=status, tags=tags, remote_job_origin=origin).run_id


def statuses(instance: dg.DagsterInstance, *runs: str) -> list[str]:
    return [instance.get_run_by_id(run).status.value for run in runs]


def test_runs_are_ended_when_their_process_was_killed_and_a_commands_are_asked_for_again_once(instance, monkeypatch):
    freed: list[str] = []
    monkeypatch.setattr(instance.event_log_storage, "free_concurrency_slots_for_run", freed.append)
    with holding(instance) as (process, tags):
        run, canceled = run_of(instance, tags), run_of(instance, tags)
        instance.report_run_canceling(instance.get_run_by_id(canceled))
        first = run_of(instance, {}, location=HERE)
        instance.add_run_tags(first, tags | {".dagster/wme_process_of": first})
        # a run that is tried again has the tags of the first, and is not taken for it
        again = instance.get_run_by_id(first).tags | {"dagster/retry_number": "1"}
        second = run_of(instance, again, location=HERE)
        assert processes.end_killed(instance) == []
        # a process that was stopped is not dead
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert (processes.end_killed(instance), processes.wanted_again(instance)) == ([], [])
        process.kill()
        process.wait()
    ended = [one.run_id for one in processes.end_killed(instance)]
    assert sorted(ended) == sorted(set(freed)) == sorted([run, canceled, first])
    assert processes.end_killed(instance) == []
    assert statuses(instance, run, canceled, first, second) == ["FAILURE", "CANCELED", "FAILURE", "STARTED"]
    # nobody wants what was canceled, and Dagster's daemon tries again what it has launched
    assert [one.run_id for one in processes.wanted_again(instance)] == [run]
    later = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(days=1))
    monkeypatch.setattr(processes, "datetime", later)
    assert processes.wanted_again(instance) == []
    told = [" ".join(entry.message for entry in instance.all_logs(one)) for one in (run, canceled)]
    assert ["Committed work is kept" in text for text in told] == [True, True]
    assert ["retries the run" in text for text in told] == [True, False]
    assert list((Path(instance.root_directory) / "processes").iterdir()) == []


@pytest.mark.parametrize("looks", [0, 1, 20])
def test_an_interrupt_ends_a_run_that_is_recorded_while_it_looks(instance, monkeypatch, looks):
    freed: list[str] = []
    monkeypatch.setattr(instance.event_log_storage, "free_concurrency_slots_for_run", freed.append)
    monkeypatch.setattr(interrupts.os, "_exit", bool)
    began = dg.DagsterEvent(event_type_value="PIPELINE_START", job_name="hours")
    seen: list[dg.DagsterRun | None] = []

    def goes_on(_seconds=0):
        seen.append(instance.get_run_by_id(run))
        if len(seen) == looks + 1:
            create_run_for_test(instance, run_id=run, tags=runs.tags)
        elif len(seen) == looks + 2:
            instance.report_dagster_event(began, run_id=run)

    monkeypatch.setattr(processes.time, "sleep", goes_on)
    # what fails to tidy up leaves the rest to be done
    with processes.under_way(instance) as runs, interrupts.tidied(lambda: 1 / 0), runs.run() as run:
        interrupts._tidy(0)
        assert (statuses(instance, run), freed, len(seen)) == (["CANCELED"], [run], looks + 2)
        assert list((Path(instance.root_directory) / "processes").iterdir()) == []


def test_an_interrupt_lets_no_further_run_start_and_leaves_alone_what_has_ended(instance):
    with processes.under_way(instance) as runs:
        with runs.run() as run:
            create_run_for_test(instance, run_id=run, tags=runs.tags, status=dg.DagsterRunStatus.SUCCESS)
            runs.cancel()
        assert (statuses(instance, run), runs._starting.locked(), runs._run) == (["SUCCESS"], True, None)
        runs._starting = None  # who does not wait for it notices nothing
        with pytest.raises(TypeError, match="context manager"), runs.run():
            pass


def test_a_run_that_never_said_its_process_is_ended_after_a_while_and_another_machines_is_not(instance, monkeypatch):
    # its lock lies there
    of_another = run_of(instance, {".dagster/wme_process": "0" * 32})
    assert processes.end_killed(instance) == []
    run, foreign = (run_of(instance, {}, location=place) for place in (HERE, "elsewhere"))
    for one in (run, foreign):
        instance.report_dagster_event(dg.DagsterEvent(event_type_value="PIPELINE_START", job_name="hours"), run_id=one)
    assert processes.end_killed(instance, HERE) == []  # it has begun just now
    monkeypatch.setattr(processes, "_SILENT_SECONDS", -1.0)
    assert processes.end_killed(instance) == []
    with processes.under_way(instance):  # a process without runs keeps its lock
        assert processes.end_killed(instance) == []
        assert len(list((Path(instance.root_directory) / "processes").iterdir())) == 1
    records = instance.get_run_records()
    assert [one.run_id for one in processes.end_killed(instance, HERE)] == [run]
    monkeypatch.setattr(instance, "get_run_records", lambda _: records)  # as another process has just read them
    assert processes.end_killed(instance, HERE) == []
    assert statuses(instance, run, foreign, of_another) == ["FAILURE", "STARTED", "STARTED"]


def test_every_run_of_the_code_location_says_its_process_before_its_first_step(tmp_path):
    seen: list[Any] = []

    @dg.op
    def look(context):
        tags = context.instance.get_run_by_id(context.run_id).tags
        seen.append((tags[".dagster/wme_process_of"] == context.run_id, tags[".dagster/wme_process"]))

    @dg.job(executor_def=processes.executor)
    def looking() -> None:
        look()

    assert build_defs(Settings(data=tmp_path)).executor is processes.executor
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as instance:
        for _ in range(2):
            assert execute_run(InMemoryJob(looking), instance.create_run_for_job(looking), instance).success
        (_, name), _ = seen
        assert seen == [(True, name)] * 2  # a process has one lock
        forked = [Path(processes._held(number, tmp_path).lock_file).stem for number in range(2)]
        assert processes.end_killed(instance) == []
        assert {path.stem for path in (tmp_path / "processes").iterdir()} == {name, *forked}


#: Dagster's names of tags that are not called as ours are.
TAGS = {
    "BACKFILL": "BACKFILL_ID_TAG", "FAILURE_REASON": "RUN_FAILURE_REASON_TAG", "HIDDEN": "HIDDEN_TAG_PREFIX",
    "PARTITION": "PARTITION_NAME_TAG", "ROOT_RUN": "ROOT_RUN_ID_TAG", "RANGE_END": "ASSET_PARTITION_RANGE_END_TAG",
    "RANGE_START": "ASSET_PARTITION_RANGE_START_TAG", "SCHEDULE": "SCHEDULE_NAME_TAG", "SENSOR": "SENSOR_NAME_TAG",
}  # fmt: skip


def test_only_one_module_names_what_dagster_does_not_publish_and_that_is_still_there():
    sources = [path for folder in ("pipelines", "assets", "resources") for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in sources if re.search(r"\bdagster\._", path.read_text())] == ["dagster_internals.py"]
    found = {name: value for name, value in vars(RunTag).items() if name.isupper()}
    assert found == {name: getattr(tags, TAGS.get(name, f"{name}_TAG")) for name in found}
    # importing it takes half a second, and every worker imports this module
    from dagster_webserver import app

    assert callable(app.DagsterWebserver.build_middleware)


def test_dagster_dev_gets_its_options_and_starts_the_guarded_server(monkeypatch):
    from dagster import _cli  # half a second
    from dagster._cli import dev

    seen: list[list[str]] = []
    monkeypatch.setattr(dagster_internals.supervisor, "end_with_supervisor", lambda: None)
    monkeypatch.setattr(dev, "open_ipc_subprocess", seen.append)
    monkeypatch.setattr(_cli, "main", lambda: dev.open_ipc_subprocess(["python", "-m", "dagster_webserver", *sys.argv]))
    monkeypatch.setattr(sys, "argv", ["x", "--port", "7"])
    dagster_internals.development()
    assert seen == [["python", "-m", "pipelines.process.webserver", "dagster", "dev", "--port", "7"]]
    with pytest.raises(KeyError, match="another"):
        dev.open_ipc_subprocess(["python", "-m", "another"])


def test_an_instance_of_this_process_copies_no_output_and_knows_each_pool(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "of the user")
    for pools in ({"one"}, {"one", "another"}):  # the second is new, as in a later version
        monkeypatch.setattr(processes, "POOLS", pools)
        with processes.opened(tmp_path) as opened:
            assert type(opened.compute_log_manager).__name__ == "NoOpComputeLogManager"
            found = {pool.name for pool in opened.event_log_storage.get_pool_limits()}
        assert (found, os.environ["DAGSTER_HOME"]) == (pools, "of the user")


@pytest.mark.parametrize("what", ["disk I/O error", "unable to open database file"])
def test_a_history_that_the_disk_refuses_is_a_sentence(tmp_path, monkeypatch, capsys, what):
    home = processes.prepare(tmp_path / "home")

    def command(**_):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if what.startswith("unable"):
            (home / "history/runs.db").mkdir(parents=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            with processes.opened(home):
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setattr(cli.wme, "main", command)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    told = " ".join(capsys.readouterr().err.split())
    assert f"Dagster's run history could not be read or written ({what}). The disk is full or failing." in told
