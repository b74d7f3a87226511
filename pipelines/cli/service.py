"""The service and the data folder of commands: the client, and the line that says which ones are used.

Does not belong here: what a command asks of the service.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli import terminal
from pipelines.settings import SettingsError, read_data
from pipelines.settings import read as read_settings
from pipelines.values import ENV_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.settings import Settings
    from resources.enterprise import EnterpriseClient


_SANDBOX = "the built-in sandbox (synthetic pages; WME_USERNAME and WME_PASSWORD select an account)"


class Writing(click.Command):
    """A command that writes into the data folder. It first says, on standard error, which service and folder that is.

    Args:
        only: Option without which the command writes nothing.
    """

    def __init__(self, *arguments: Any, only: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._only = only

    def invoke(self, ctx: click.Context) -> Any:
        """Say where the command writes, unless it is to be quiet; then run it."""
        if not ctx.params.get("quiet") and (self._only is None or ctx.params[self._only]):
            terminal.warn(_told())
        return super().invoke(ctx)


def _told() -> str:
    """The service, the data folder and the settings file, on one line."""
    try:
        settings = read_settings(scoped=False)
    except SettingsError:
        # the command itself refuses them, where it needs more than the folder
        service, data = "", read_data()
    else:
        service = f"Service: {_SANDBOX if settings.sandbox else settings.base_url}; "
        data = settings.data
    named = os.environ.get(ENV_FILE)
    return f"{service}data folder: {data}{'' if data.exists() else ' (new)'}{f'; settings: {named}' if named else ''}"


@contextmanager
def client(settings: Settings, *, writes: bool = False) -> Iterator[EnterpriseClient]:
    """The client for these settings, open while the block runs; the sandbox is started where they say so.

    Without `writes`, the data folder may be full or read-only, as long as a valid token is stored.
    """
    with settings.access.client(writes=writes) as opened:
        yield opened
