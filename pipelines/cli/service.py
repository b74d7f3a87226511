"""The service that commands speak to: its client, and the line that says which service it is.

Does not belong here: what a command asks of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipelines.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.settings import Settings
    from resources.enterprise import EnterpriseClient


@contextmanager
def client(settings: Settings) -> Iterator[EnterpriseClient]:
    """The client for these settings, open while the block runs; the sandbox is started where they say so."""
    with settings.access.client() as opened:
        yield opened


def announce(settings: Settings) -> None:
    """Say on standard error which service and which data folder it will be."""
    new = "" if settings.data.exists() else " (new)"
    terminal.warn(f"Data folder: {settings.data}{new}")
    if settings.sandbox:
        terminal.ERR.print(
            "Service: the built-in sandbox (synthetic pages). For a real account set WME_USERNAME, WME_PASSWORD and WME_PROJECTS."
        )
    else:
        terminal.ERR.print(f"Service: {settings.base_url}")
