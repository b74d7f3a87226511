"""The engine of the command line, which reports to the terminal. It needs Dagster, which `terminal` must not wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.cli import terminal
from resources.adapters import ConfiguredEngine
from resources.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable


class TerminalEngine(ConfiguredEngine):
    """Tells its progress to whoever watches the terminal, instead of to Dagster's log."""

    def engine(self, say: Callable[[str], None]) -> Engine:  # noqa: ARG002 - the log is not watched here
        """The engine, with the terminal's reporter."""
        return Engine(workers=self.workers, reporter=terminal.reporter())
