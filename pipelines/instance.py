"""The Dagster instance of a data folder: its history of runs, shared by the command line and the web page.

Belongs here: where the instance lies and how it is set up. Does not belong here: running anything.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = Path(__file__).resolve().parents[1] / "dagster.example.yaml"
WORKSPACE = "workspace.yaml"
#: Folder of the instance below the data folder.
FOLDER = "dagster"


def prepare(home: Path) -> Path:
    """Make the instance's folder, with our dagster.yaml unless the operator put one there."""
    home = home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    target = home / "dagster.yaml"
    if not target.exists():
        shutil.copyfile(TEMPLATE, target)
    return home


@contextmanager
def opened(home: Path) -> Iterator[dg.DagsterInstance]:
    """The instance of a folder, closed at the end."""
    home = prepare(home)
    os.environ.setdefault("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def serve(data: Path, port: int = 3000) -> None:
    """Open Dagster's pages and its daemon on the instance of a data folder, in the foreground; Ctrl-C ends both.

    Raises:
        FileNotFoundError: Dagster's command `dg` is not in this environment.
    """
    dg_command = Path(sys.executable).with_name("dg")
    if not dg_command.exists():
        raise FileNotFoundError(
            f"Dagster's command `dg` is not beside {sys.executable}; `make setup` installs it with the other tools."
        )
    data = data.absolute()
    # absolute, because Dagster's processes run in the project's folder and not in the caller's
    os.environ |= {"WME_DATA": str(data), "DAGSTER_HOME": str(prepare(data / FOLDER))}
    os.chdir(TEMPLATE.parent)
    # the workspace file names the code location, so that schedules keep their state whatever the folder is called
    words = [str(dg_command), "dev", "--workspace", WORKSPACE, "--port", str(port), "--log-level", "warning"]
    os.execv(dg_command, words)  # noqa: S606 - our own environment's command
