"""A run is ended when its process is gone, and never before."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import create_run_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from pipelines.definitions import build_defs
from pipelines.process import interrupts, processes
from resources.settings import Settings

HERE = "here"
#: Holds a lock as a run's process does, tells its tags, and stays until it is ended.
HOLDER = """
import json, sys
import dagster as dg
from pipelines.process.processes import under_way
with dg.DagsterInstance.ephemeral(tempdir=sys.argv[1]) as instance, under_way(instance) as tags:
    print(json.dumps(tags), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@contextmanager
def holding(instance: dg.DagsterInstance) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A process that holds a lock, and the tags by which a run names it."""
    words, here = [sys.executable, "-c", HOLDER, instance.root_directory], Path(__file__).resolve().parents[3]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=here) as process:
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
    run = create_run_for_test(instance, job_name="hours", status=status, tags=tags, remote_job_origin=origin)
    return run.run_id


def statuses(instance: dg.DagsterInstance, *runs: str) -> list[str]:
    return [instance.get_run_by_id(run).status.value for run in runs]


def test_runs_are_ended_when_their_process_was_killed_and_those_of_a_command_asked_for_again_once(instance):
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
        assert processes.end_killed(instance) == []
        assert processes.wanted_again(instance) == []
        process.kill()
        process.wait()
    assert sorted(one.run_id for one in processes.end_killed(instance)) == sorted([run, canceled, first])
    assert processes.end_killed(instance) == []
    assert statuses(instance, run, canceled, first, second) == ["FAILURE", "CANCELED", "FAILURE", "STARTED"]
    # nobody wants what was canceled, and Dagster's daemon tries again what it has launched
    assert [one.run_id for one in processes.wanted_again(instance)] == [run]
    told = [" ".join(entry.message for entry in instance.all_logs(one)) for one in (run, canceled)]
    assert ["Committed work is kept" in text for text in told] == [True, True]
    assert ["retries the run" in text for text in told] == [True, False]
    assert list((Path(instance.root_directory) / "processes").iterdir()) == []


def test_an_interrupt_ends_a_run_that_is_recorded_while_it_looks(instance, monkeypatch):
    with processes.under_way(instance) as tags:
        made: list[dg.DagsterRun] = []
        record = lambda _seconds: made or made.append(create_run_for_test(instance, tags=tags))  # noqa: E731
        monkeypatch.setattr(processes.time, "sleep", record)
        interrupts._tidying[-1]()
        assert instance.get_run_by_id(made[0].run_id).status is dg.DagsterRunStatus.CANCELED


def test_a_run_of_another_machine_is_left_alone(instance):
    # its lock lies there
    run = run_of(instance, {".dagster/wme_process": "0" * 32})
    assert processes.end_killed(instance) == []
    assert statuses(instance, run) == ["STARTED"]


def test_a_run_that_never_said_its_process_is_ended_after_a_while(instance, monkeypatch):
    run, foreign = (run_of(instance, {}, location=place) for place in (HERE, "elsewhere"))
    for one in (run, foreign):
        instance.report_dagster_event(dg.DagsterEvent(event_type_value="PIPELINE_START", job_name="hours"), run_id=one)
    assert processes.end_killed(instance, HERE) == []  # it has begun just now
    monkeypatch.setattr(processes, "_SILENT_SECONDS", -1.0)
    assert processes.end_killed(instance) == []
    with processes.under_way(instance):  # a process without runs keeps its lock
        assert processes.end_killed(instance) == []
        assert len(list((Path(instance.root_directory) / "processes").iterdir())) == 1
    assert [one.run_id for one in processes.end_killed(instance, HERE)] == [run]
    assert statuses(instance, run, foreign) == ["FAILURE", "STARTED"]


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
            run = instance.create_run_for_job(looking)
            assert execute_run(InMemoryJob(looking), run, instance).success
        (_, name), _ = seen
        assert seen == [(True, name)] * 2  # a process has one lock
        assert [path.stem for path in (tmp_path / "processes").iterdir()] == [name]
        assert processes.end_killed(instance) == []
