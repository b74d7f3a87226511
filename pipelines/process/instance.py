"""The Dagster instance of a data folder: its history of runs, shared by the command line and the Dagster UI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import FileLock

from pipelines.process import dagster_internals, supervisor
from pipelines.process.processes import end_killed
from resources import files
from resources.adapters import POOLS
from resources.data_folder import ready, ui_lock
from resources.errors import MirrorError, clause
from resources.settings import ENV_FILE, PROJECT

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
    """See that no `wme ui` serves a data folder.

    Raises:
        InstanceError: One does; nothing was started.
    """
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
