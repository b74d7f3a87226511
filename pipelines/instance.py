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


def serve(home: Path, port: int = 3000) -> None:
    """Open Dagster's pages and its daemon on this instance, in the foreground; Ctrl-C ends both.

    Raises:
        FileNotFoundError: Dagster's command `dg` is not in this environment.
    """
    dg_command = Path(sys.executable).with_name("dg")
    if not dg_command.exists():
        raise FileNotFoundError(
            f"Dagster's command `dg` is not beside {sys.executable}; `make setup` installs it with the other tools."
        )
    os.environ["DAGSTER_HOME"] = str(prepare(home))
    os.chdir(TEMPLATE.parent)
    os.execv(dg_command, [str(dg_command), "dev", "--port", str(port)])  # noqa: S606 - our own environment's command
