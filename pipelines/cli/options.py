"""The parameters that several commands share, and the line that names the service and the data folder in use."""

from __future__ import annotations

import os
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli import terminal
from resources import datasets
from resources.settings import ENV_FILE, SettingsError, read_data
from resources.settings import read as read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.adapters import ConfiguredEngine
    from resources.datasets import Dataset, Family
    from resources.settings import Settings


class _Hour(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An hour (UTC) as people, the tables of this program or Dagster's partition keys write it."""

    name = "hour"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The start of the hour."""
        found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T -](\d\d)(:00(:00)?)?Z?", str(value))
        try:
            return datetime.fromisoformat(f"{found[1]}T{found[2]}:00+00:00" if found else "")
        except ValueError:
            self.fail(f"{str(value)!r} is not an hour; write it as 2026-11-20T05 (UTC).", param, ctx)


class _Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name of the service that may become one of a folder, as it is."""

    def __init__(self, kind: str, pattern: str, named: str, example: str) -> None:
        self.name, self._pattern, self._named, self._example = kind, re.compile(pattern), named, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        if not self._pattern.fullmatch(str(value)):
            self.fail(f"{str(value)!r} names no {self._named}; write it as {self._example}.", param, ctx)
        return str(value)


class DatasetName(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The name of a declared dataset of one family."""

    name = "name"

    def __init__(self, family: Family) -> None:
        self._family = family

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Dataset:
        """The dataset."""
        if isinstance(value, datasets.Dataset):
            return value  # the default
        declared = {one.name: one for one in datasets.datasets(self._family)}
        if value not in declared:
            self.fail(f"{value!r} is not one of {', '.join(declared)}.", param, ctx)
        return declared[value]


#: The option `--hours`, for commands that say how the mirror is.
hours_option = click.option(
    "--hours",
    "count",
    type=click.IntRange(1, 24 * 31),
    default=48,
    show_default=True,
    help="Hours to look back (for example 72).",
)


#: The option `--quiet`, for commands that cron runs.
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but failures, for cron.")


def dataset_option(family: Family, default: Dataset) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `--dataset`, for commands that handle any dataset of a family."""
    return click.option(
        "--dataset",
        type=DatasetName(family),
        default=default,
        metavar="NAME",
        help=f"The dataset, by the name of its table.  [default: {default.name}]",
    )


HOUR = _Hour()
PROJECT = _Name("project", r"[a-z0-9_]+", "project", "enwiki")
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9_-]*"
SNAPSHOT = _Name("id", _IDENTIFIER, "snapshot", "enwiki_namespace_0")
CHUNK = _Name("chunk", _IDENTIFIER, "chunk", "enwiki_namespace_0_chunk_0, or 0")
FILE = _Name("id", _IDENTIFIER, "file of an hour", "enwiki_namespace_0")


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
            terminal.warn(_destination())
        return super().invoke(ctx)


def _destination() -> str:
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


def terminal_engine(settings: Settings) -> ConfiguredEngine:
    """The engine of the settings, which shows its progress on the terminal instead of in Dagster's log."""
    from resources.adapters import ConfiguredEngine
    from resources.engine import Engine

    class TerminalEngine(ConfiguredEngine):
        def engine(self, say: Callable[[str], None]) -> Engine:  # noqa: ARG002  the terminal is watched, not the log
            return Engine(workers=self.settings.workers, reporter=terminal.reporter())

    return TerminalEngine(settings)
