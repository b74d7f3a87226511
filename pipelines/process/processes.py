"""The Dagster instance of a data folder (its history of runs, its UI), and the processes of its runs.

A run belongs to a process, which holds a lock that ends with it, however it ends. The kernel releases the lock of a
dead process, also when the machine stops, and of no other. A run that is slow or suspended retains its lock. Process
numbers would not do, since they are used again.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import dagster as dg
from filelock import FileLock, Timeout

from assets.layers import RunTag
from pipelines.process import dagster_internals, interrupts, supervisor
from resources import files
from resources.adapters import POOLS
from resources.data_folder import ready, ui_lock
from resources.errors import MirrorError, clause
from resources.settings import ENV_FILE, PROJECT

#: The lock of the run's process, by name; and the run that said so, because a run that is tried again inherits its
#: tags. Dagster's UI does not show tags with this prefix, which would be on every run of its list.
_PROCESS_TAG: Final = f"{RunTag.HIDDEN}wme_process"
_SAID_BY_TAG: Final = f"{RunTag.HIDDEN}wme_process_of"
#: On a run that a command began and did not end: Dagster tries again only what its daemon has launched.
_AGAIN_TAG: Final = f"{RunTag.HIDDEN}wme_again"

#: A run says which process it has at once. One that has not, for so many seconds, was killed before it could.
_SILENT_SECONDS: Final = 60.0
#: An interrupt looks for runs of its process until so many looks, so far apart, have found none. Interrupts give it
#: some seconds.
_QUIET_LOOKS: Final = 3
_LOOK_SECONDS: Final = 0.05
_SENTENCE: Final = (
    "The process of this run ended without a word: it was killed, or the machine stopped. What it had committed stays. "
    "Dagster's daemon runs it again; where none is running, run the same again to go on."
)
_UNDER_WAY: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

_held: dict[tuple[int, Path], FileLock] = {}


@contextmanager
def under_way(instance: dg.DagsterInstance) -> Iterator[dict[str, str]]:
    """Tags for the runs of this process, by which others see that it lives; at its end, they are noted as canceled."""
    lock = _take(Path(instance.root_directory))
    tags = {_PROCESS_TAG: _name(lock)}

    def cancel() -> None:
        quiet = 0
        # the run goes on meanwhile, and may be about to be recorded
        while quiet < _QUIET_LOOKS:
            runs = instance.get_runs(dg.RunsFilter(tags=tags, statuses=_UNDER_WAY))
            for run in runs:
                instance.report_run_canceled(
                    run, "Interrupted. What it had committed stays. Run the same again to go on."
                )
                instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            quiet = 0 if runs else quiet + 1
            time.sleep(_LOOK_SECONDS)
        Path(lock.lock_file).unlink(missing_ok=True)

    with interrupts.tidied(cancel):
        try:
            yield tags
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


@dg.executor(name="in_process", config_schema=dg.in_process_executor.config_schema.as_field())
def executor(init_context: dg.InitExecutorContext) -> dg.Executor:
    """Dagster's in-process executor, in a process that others can see live.

    The lock is taken here, which is before the run counts as started, and kept until the process ends: the run is not
    over when its last step is.
    """
    home = Path(init_context.instance.root_directory)
    place = os.getpid(), home
    if place not in _held:
        _held[place] = _take(home)
    return _Held(dg.in_process_executor.executor_creation_fn(init_context), _name(_held[place]))  # type: ignore[misc]


class _Held(dg.Executor):
    """An executor whose runs say which lock their process holds."""

    def __init__(self, within: dg.Executor, name: str) -> None:
        self._within = within
        self._name = name

    @property
    def retries(self) -> Any:
        return self._within.retries

    @property
    def step_dependency_config(self) -> Any:
        return self._within.step_dependency_config

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        run = plan_context.run_id
        plan_context.instance.add_run_tags(run, {_PROCESS_TAG: self._name, _SAID_BY_TAG: run})
        yield from self._within.execute(plan_context, execution_plan)


def end_killed(instance: dg.DagsterInstance, location: str | None = None, beginning: str = "") -> list[dg.DagsterRun]:
    """End the runs whose process is gone. They would be shown as under way for ever, and keep their place in a pool.

    Runs of which this cannot be said for certain are left alone: those of other machines, whose locks are not here, and
    those that are still being started, which Dagster's monitor ends by its timeout. Runs of the code location
    `location` take locks, if the names of their jobs begin with `beginning`: those that began and have said nothing are
    ended too.
    """
    home = Path(instance.root_directory)
    ended = []
    with FileLock(home / "killed.lock"):  # two that see the same must not both say it
        for record in instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY)):
            run = record.dagster_run
            name = _process_of(run)
            if name is not None:
                gone = _lock_path(home, name).exists() and not _is_held(home, name)
            else:
                began = record.start_time
                gone = (
                    location is not None
                    and began is not None
                    and _origin(run) == location
                    and run.job_name.startswith(beginning)
                    and time.time() - began > _SILENT_SECONDS
                    and not _nameless(instance, home)
                )
            # looked at again, because it may have ended, or said its process, meanwhile
            seen = instance.get_run_by_id(run.run_id) if gone else None
            if seen is not None and seen.status == run.status and _process_of(seen) == name:
                _end(instance, seen)
                ended.append(seen)
        _sweep(instance, home)
    return ended


def wanted_again(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Runs of killed commands of the last day, which nobody but us asks for again."""
    since = datetime.now(UTC) - timedelta(days=1)
    return list(instance.get_runs(dg.RunsFilter(tags={_AGAIN_TAG: "wanted"}, updated_after=since), limit=100))


def _end(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    if run.status is dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceled(run, _SENTENCE.partition(" What")[0])
        return
    if run.remote_job_origin is None:
        instance.add_run_tags(run.run_id, {_AGAIN_TAG: "wanted"})
    instance.report_run_failed(run, _SENTENCE)
    # taken only where an operator has limits by step; Dagster gives them back at a run's own end
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _sweep(instance: dg.DagsterInstance, home: Path) -> None:
    """Remove the locks of processes that are gone and have no run under way."""
    needed = {_process_of(run) for run in instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY))}
    for path in _locks(home):
        if path.stem not in needed and not _is_held(home, path.stem):
            path.unlink(missing_ok=True)


def _nameless(instance: dg.DagsterInstance, home: Path) -> bool:
    """Return True if a live process has not reported its run: any run without a known process may be its own."""
    return any(
        _is_held(home, path.stem) and not instance.get_runs(dg.RunsFilter(tags={_PROCESS_TAG: path.stem}), limit=1)
        for path in _locks(home)
    )


def _process_of(run: dg.DagsterRun) -> str | None:
    """The lock that a run's process holds; None: it has not said so."""
    if run.remote_job_origin is not None and run.tags.get(_SAID_BY_TAG) != run.run_id:
        return None
    return run.tags.get(_PROCESS_TAG)


def _origin(run: dg.DagsterRun) -> str | None:
    return None if run.remote_job_origin is None else run.remote_job_origin.location_name


def _take(home: Path) -> FileLock:
    path = _lock_path(home, uuid.uuid4().hex)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    lock.acquire()
    # a run may name it in the next moment: then it must be here after a power cut
    files.sync(path.parent)
    return lock


def _is_held(home: Path, name: str) -> bool:
    try:
        with FileLock(_lock_path(home, name), timeout=0):
            return False
    except Timeout:
        return True


def _locks(home: Path) -> list[Path]:
    return sorted((home / "processes").glob("*.lock"))


def _lock_path(home: Path, name: str) -> Path:
    return home / "processes" / f"{name}.lock"


def _name(lock: FileLock) -> str:
    return Path(lock.lock_file).stem


#: Longest settings of an instance, in bytes.
_SETTINGS_BYTES = 1 << 20
#: What SQLite calls a file that is damaged.
_DAMAGED = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})

TEMPLATE = Path(__file__).with_name("dagster.example.yaml")
#: Names the code location, so that schedules keep their state wherever the package is installed.
WORKSPACE = Path(__file__).with_name("workspace.yaml")
#: Folder of the instance below the data folder.
FOLDER = "dagster"


class InstanceError(MirrorError):
    """Dagster's instance of the data folder cannot be used."""

    ends_run = True


def prepare(home: Path) -> Path:
    """Make the instance's folder, with our dagster.yaml and workspace.yaml unless the operator put others there."""
    home = home.absolute()
    ready(home)
    for source, target in ((TEMPLATE, home / "dagster.yaml"), (WORKSPACE, home / WORKSPACE.name)):
        if not target.exists():
            # another process may read it at this moment, and this one may be killed
            files.write(target, source.read_bytes())
        # Dagster would wait for somebody who writes into a named pipe
        files.read(target, most=_SETTINGS_BYTES)
    return home


@contextmanager
def opened(home: Path) -> Iterator[dg.DagsterInstance]:
    """The instance of a folder, closed at the end. Runs of killed processes are ended in its history first.

    Raises:
        InstanceError: Its settings or its history are damaged.
        UnusableFileError: Something else lies in the place of its settings.
    """
    home = prepare(home)
    os.environ.setdefault("DAGSTER_HOME", str(home))
    with _damage_named(home), ExitStack() as stack:
        # opened by one process at a time: two that make the same tables would be in each other's way
        with FileLock(home / "instance.lock"):
            instance = stack.enter_context(dg.DagsterInstance.from_ref(_settings(home)))
            end_killed(instance)
            known = {pool.name for pool in instance.event_log_storage.get_pool_limits()}
            for pool in POOLS:
                if pool not in known:
                    # the daemon's first look at the queue heeds only pools that it knows already
                    instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
        yield instance


def _settings(home: Path) -> Any:
    try:
        return dagster_internals.instance_settings(home)
    except OSError:
        raise
    # one of Dagster's, of YAML's, or whatever Python says of an object that has not the expected form
    except Exception as error:
        # no text of the file itself, which may hold the password of a database
        mark = getattr(error, "problem_mark", None)
        why = "it does not have the form that Dagster expects" if mark is None else f"line {mark.line + 1} is not YAML"
        if isinstance(error, dg.DagsterInvalidConfigError):
            why = error.errors[0].message[:200]
        raise InstanceError(
            f"Dagster's settings {home / 'dagster.yaml'} cannot be used ({why}). Nothing was changed. Correct the "
            "file, or move it away: the next command writes the usual one. The history of runs stays."
        ) from error


@contextmanager
def _damage_named(home: Path) -> Iterator[None]:
    """Say in a sentence that a file of Dagster's history is damaged."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and getattr(cause, "sqlite_errorname", None) not in _DAMAGED:
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise InstanceError(
            f"The history of runs in {home} is damaged ({clause(cause)}). What is mirrored is not affected, and "
            "nothing was changed. Restore the folder from a backup, or move its folders history and schedules away: "
            "the next command makes new ones, in which past runs are missing and schedules are off."
        ) from error


def unserved(data: Path) -> None:
    """See that no `wme ui` serves a data folder: raises InstanceError, and nothing was started."""
    lock = ui_lock(data)
    if lock.exists():
        if (taken := supervisor.hold(lock)) is None:
            raise InstanceError(supervisor.refusal(lock))
        taken.release()


def serve(data: Path, port: int = 3000) -> None:
    """Run the Dagster UI and daemon of a data folder in the foreground; Ctrl-C stops both and their runs."""
    data = data.absolute()
    # absolute, because Dagster's processes run in the project's folder and not in the caller's
    os.environ |= {"WME_DATA": str(data), "DAGSTER_HOME": str(data / FOLDER)}
    with opened(data / FOLDER):
        pass  # set up and tidied before anything else opens it
    # Dagster takes the `.env` of the folder that it is started in, also where another file was named
    os.chdir(data / FOLDER if os.environ.get(ENV_FILE) else PROJECT)
    # `dg dev`, which Dagster recommends instead, is a tool of the developer's and starts the same command
    words = [sys.executable, "-W", "ignore:Function `dev_command`", "-m", "pipelines.process.dagster_internals"]
    words += ["--workspace", str(data / FOLDER / WORKSPACE.name), "--port", str(port), "--log-level", "warning"]
    os.execv(sys.executable, supervisor.words(ui_lock(data), words))  # noqa: S606 - our own environment's command
