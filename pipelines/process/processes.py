"""A data folder's Dagster instance (run history and UI), and locks that show which runs are alive.

Each run belongs to a process that holds a file lock. The kernel releases the lock only when the process ends, so a slow
or suspended run keeps its lock. Process IDs are not sufficient, because the operating system reuses process IDs.
"""

import functools
import os
import sys
import threading
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

#: Tags with the name of the process's lock, and with the ID of the run that set the tags, because a retried run
#: inherits the tags of the first run. The Dagster UI hides tags with this prefix, which would clutter its list of runs.
_PROCESS_TAG: Final = f"{RunTag.HIDDEN}wme_process"
_SAID_BY_TAG: Final = f"{RunTag.HIDDEN}wme_process_of"
#: Tag of an unfinished run that a command started, because Dagster retries only runs that its daemon launched.
_AGAIN_TAG: Final = f"{RunTag.HIDDEN}wme_again"

#: Time in seconds after which a run without a recorded process is considered killed.
_SILENT_SECONDS: Final = 60.0
_KILLED: Final = "The run's process was killed, or the machine stopped. Committed work is kept."
#: States of a requested run that has not ended.
UNDER_WAY: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class CommandRuns:
    """Runs that this process executes one after another, and the tags that link these runs to the process's lock."""

    def __init__(self, instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
        self.tags = tags
        self._instance = instance
        self._starting = threading.Lock()
        self._run: str | None = None

    @contextmanager
    def run(self) -> Iterator[str]:
        """Yield the ID for the run that the block executes. After an interrupt, no further run starts."""
        with self._starting:
            self._run = str(uuid.uuid4())
        try:
            yield self._run
        finally:
            self._run = None

    def cancel(self) -> None:
        """Record the run in progress as canceled, once it has started."""
        self._starting.acquire()  # never released, so that no further run starts
        # The main thread continues until the process ends. A run that is not yet recorded or not yet started would be
        # recorded as in progress later. `interrupts` limits the time of this loop.
        while (run_id := self._run) is not None:
            run = self._instance.get_run_by_id(run_id)
            if run is not None and run.status is not dg.DagsterRunStatus.NOT_STARTED:
                if run.status in UNDER_WAY:
                    self._instance.report_run_canceled(
                        run, "Interrupted. Committed work is kept. Start the same run again to continue."
                    )
                    self._instance.event_log_storage.free_concurrency_slots_for_run(run_id)
                break
            time.sleep(0.05)


@contextmanager
def under_way(instance: dg.DagsterInstance) -> Iterator[CommandRuns]:
    """Hold a lock during the block. On an interrupt, the run in progress is recorded as canceled."""
    lock = _take(Path(instance.root_directory))
    runs = CommandRuns(instance, {_PROCESS_TAG: Path(lock.lock_file).stem})

    def tidy() -> None:
        runs.cancel()
        Path(lock.lock_file).unlink(missing_ok=True)

    with interrupts.tidied(tidy):
        try:
            yield runs
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


@dg.executor(name="in_process", config_schema=dg.in_process_executor.config_schema.as_field())
def executor(init_context: dg.InitExecutorContext) -> dg.Executor:
    """Dagster's in-process executor, which also acquires a lock that is held until the process ends.

    The lock is acquired before the run is recorded as started, and held after the last step until the run is finished.
    """
    lock = _held(os.getpid(), Path(init_context.instance.root_directory))
    within: Any = dg.in_process_executor.executor_creation_fn(init_context)  # type: ignore[misc]
    execute = within.execute

    def tagged(plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        run = plan_context.run_id
        plan_context.instance.add_run_tags(run, {_PROCESS_TAG: Path(lock.lock_file).stem, _SAID_BY_TAG: run})
        yield from execute(plan_context, execution_plan)

    within.execute = tagged
    return within  # type: ignore[no-any-return]


def end_killed(instance: dg.DagsterInstance, location: str | None = None, beginning: str = "") -> list[dg.DagsterRun]:
    """End runs whose process has ended, because these runs would otherwise block their pool forever.

    Runs on other machines are not ended, because their locks are not visible. Dagster's monitor ends runs that do not
    start in time. In the `location` code location, runs whose job names begin with `beginning` hold locks. If such a
    run started some time ago but has not recorded a process, this run is also ended.
    """
    home = Path(instance.root_directory)
    ended = []
    with FileLock(home / "killed.lock"):  # two processes that see the same run must not both end it
        for record in instance.get_run_records(dg.RunsFilter(statuses=UNDER_WAY)):
            run = record.dagster_run
            name, origin = _process_of(run), run.remote_job_origin
            if name is not None:
                gone = (path := home / "processes" / f"{name}.lock").exists() and not _is_held(path)
            else:
                gone = (
                    record.start_time is not None
                    and time.time() - record.start_time > _SILENT_SECONDS
                    and origin is not None
                    and origin.location_name == location
                    and run.job_name.startswith(beginning)
                )
            # read again, because the run may have ended or recorded its process meanwhile
            seen = instance.get_run_by_id(run.run_id) if gone else None
            if seen is not None and seen.status == run.status and _process_of(seen) == name:
                _end(instance, seen)
                ended.append(seen)
        # remove the locks of processes that have ended and have no run in progress
        needed = {_process_of(run) for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY))}
        for path in home.glob("processes/*.lock"):
            if path.stem not in needed and not _is_held(path):
                path.unlink(missing_ok=True)
    return ended


def wanted_again(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Return runs that a command started and that were killed within the last day. Dagster does not retry such runs."""
    since = datetime.now(UTC) - timedelta(days=1)
    return list(instance.get_runs(dg.RunsFilter(tags={_AGAIN_TAG: "wanted"}, updated_after=since), limit=100))


def _end(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    if run.status is dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceled(run, _KILLED)
    else:
        if run.remote_job_origin is None:
            instance.add_run_tags(run.run_id, {_AGAIN_TAG: "wanted"})
        retried = "Dagster's daemon retries the run. If no daemon is running, start the same run again to continue."
        instance.report_run_failed(run, f"{_KILLED} {retried}")
    # slots exist only if an operator limits concurrency by step; Dagster frees them when a run ends normally
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _process_of(run: dg.DagsterRun) -> str | None:
    """Return the name of the lock that a run's process holds, or None if the run has not recorded a process."""
    if run.remote_job_origin is not None and run.tags.get(_SAID_BY_TAG) != run.run_id:
        return None
    return run.tags.get(_PROCESS_TAG)


def _take(home: Path) -> FileLock:
    path = home / "processes" / f"{uuid.uuid4().hex}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    lock.acquire()
    # a run can refer to the lock immediately, so the lock file must survive a power failure
    files.sync(path.parent)
    return lock


@functools.cache
def _held(_pid: int, home: Path) -> FileLock:
    """Return the lock that this process holds until it ends. A forked process takes another lock."""
    return _take(home)


def _is_held(path: Path) -> bool:
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


#: SQLite's error names for a damaged file.
_DAMAGED = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})

TEMPLATE = Path(__file__).with_name("dagster.example.yaml")
#: Workspace file with a fixed name for the code location, so that schedules keep their state in every installation.
WORKSPACE = Path(__file__).with_name("workspace.yaml")
#: Name of the instance's folder in the data folder.
FOLDER = "dagster"


class InstanceError(MirrorError):
    """The data folder's Dagster instance cannot be used."""

    ends_run = True


def prepare(home: Path) -> Path:
    """Create the instance's folder with the default dagster.yaml and workspace.yaml, unless these files exist."""
    home = home.absolute()
    ready(home)
    for source, target in ((TEMPLATE, home / "dagster.yaml"), (WORKSPACE, home / WORKSPACE.name)):
        if not target.exists():
            # write atomically, because another process can read the file and this process can be killed
            files.write(target, source.read_bytes())
        # check the file first, because Dagster would block on a named pipe
        files.read(target, most=1 << 20)
    return home


@contextmanager
def opened(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open a folder's Dagster instance for the duration of the block, after ending the runs of killed processes.

    Raises InstanceError or UnusableFileError if the instance's settings or history cannot be used.
    """
    home = prepare(home)
    os.environ.setdefault("DAGSTER_HOME", str(home))
    try:
        with ExitStack() as stack:
            # allow one process at a time, because concurrent creation of the same tables fails
            with FileLock(home / "instance.lock"):
                instance = stack.enter_context(dg.DagsterInstance.from_ref(_settings(home)))
                end_killed(instance)
                known = {pool.name for pool in instance.event_log_storage.get_pool_limits()}
                for pool in set(POOLS) - known:
                    # the daemon's first queue evaluation applies only the limits of known pools
                    instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
            yield instance
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and getattr(cause, "sqlite_errorname", None) not in _DAMAGED:
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise InstanceError(
            f"The run history in {home} is damaged ({clause(cause)}). The mirrored data is not affected. Nothing was "
            "changed. Restore the folder from a backup, or move its `history` and `schedules` folders elsewhere. The "
            "next command then creates new folders, without past runs and with all schedules off."
        ) from error


def _settings(home: Path) -> Any:
    try:
        return dagster_internals.instance_settings(home)
    except OSError:
        raise
    # Dagster and YAML errors, and any Python error from a malformed object
    except Exception as error:
        # never show the file's text, which can contain a database password
        mark = getattr(error, "problem_mark", None)
        why = "the format is not what Dagster expects" if mark is None else f"line {mark.line + 1} is not YAML"
        if isinstance(error, dg.DagsterInvalidConfigError):
            why = error.errors[0].message[:200]
        raise InstanceError(
            f"Dagster's settings file {home / 'dagster.yaml'} cannot be used ({why}). Nothing was changed. Correct or "
            "remove the file. The next command creates a default file if none exists. The run history is kept."
        ) from error


def serve(data: Path, port: int = 3000) -> None:
    """Run the Dagster UI and daemon for a data folder in the foreground. Ctrl-C stops both servers and their runs."""
    data = data.absolute()
    # use absolute paths, because Dagster's processes run in the project's folder
    os.environ |= {"WME_DATA": str(data), "DAGSTER_HOME": str(data / FOLDER)}
    with opened(data / FOLDER):
        pass  # set up the instance and end killed runs before any server opens the instance
    # Dagster loads the `.env` of its working folder even if another settings file is configured
    os.chdir(data / FOLDER if os.environ.get(ENV_FILE) else PROJECT)
    # `dg dev`, which Dagster recommends, is a developer tool that starts the same command
    words = [sys.executable, "-m", supervisor.__name__, str(ui_lock(data))]
    words += [sys.executable, "-W", "ignore:Function `dev_command`", "-m", dagster_internals.__name__]
    words += ["--workspace", str(data / FOLDER / WORKSPACE.name), "--port", str(port), "--log-level", "warning"]
    os.execv(sys.executable, words)  # noqa: S606 - our own environment's command
