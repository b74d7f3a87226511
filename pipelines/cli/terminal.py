"""Shared command parameters, and terminal output such as progress bars, tables and text."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import click
from pydantic import TypeAdapter
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from resources import datasets
from resources.datasets import Dataset, Family
from resources.engine import Reporter, line_reporter
from resources.enterprise.models import in_range
from resources.formatting import amount_text, printable, value_text
from resources.settings import ENV_FILE, SettingsError, read_data
from resources.settings import read as read_settings


class _Console(Console):
    """Console that removes control sequences from terminal output, but not from redirected output."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text) if self.is_terminal else text, **options)


#: Console for results (standard output). All other output goes to standard error, so that `wme sql --format csv > file`
#: works. Redirected output is not wrapped.
OUT = _Console(highlight=False, width=None if sys.stdout.isatty() else 100_000)
ERR = _Console(stderr=True, highlight=False, soft_wrap=True)
_ANY: TypeAdapter[object] = TypeAdapter(object)
#: Minimum width of wrapped cells. Shorter cells are not wrapped.
_READABLE = 40


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print text unchanged, except that control sequences are removed on a terminal."""
    shown = printable(text) if (sys.stderr if err else sys.stdout).isatty() else text
    click.echo(shown, nl=nl, err=err)


def read(line_count: int | None = None) -> str:
    """Read standard input. At a terminal, read up to `line_count` lines."""
    try:
        if line_count is not None and sys.stdin.isatty():
            text = "".join(sys.stdin.readline() for _ in range(line_count))
        else:
            text = sys.stdin.read()
        text.encode()
    except UnicodeError:
        raise click.UsageError("Standard input is not UTF-8 text. Nothing was done. Use UTF-8.") from None
    return text


def show_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON, with dataclasses as objects, paths as strings and times in ISO 8601."""
    echo(_ANY.dump_json(value, indent=indent).decode())


def say(text: str) -> None:
    """Print text without wrapping lines or interpreting markup."""
    OUT.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    ERR.print(text, markup=False)


def log_handler() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    # lines in a journal or a file need a timestamp
    handler.setFormatter(
        _Printable("%(message)s") if sys.stderr.isatty() else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    return handler


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def hush(*, answers: bool, progress: bool) -> None:
    """Suppress results or progress output, but not failures, until the command ends."""
    OUT.quiet, ERR.quiet = answers, progress
    for out in (OUT, ERR):
        click.get_current_context().call_on_close(partial(setattr, out, "quiet", False))


@contextmanager
def progress() -> Iterator[Reporter]:
    """Show progress while the block runs, as bars on a terminal and as plain lines elsewhere."""
    if not ERR.is_terminal:
        yield line_reporter(warn)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% of {task.fields[size]}"),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=ERR, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bars:

        @contextmanager
        def bar(label: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
            task = bars.add_task(printable(label), total=max(total, 1), size=amount_text(total, unit))
            try:
                yield partial(bars.advance, task)
            finally:
                bars.update(task, visible=False)

        yield bar


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], text: Callable[[Any, str], str] = value_text) -> Table:
    """Build a table. Numbers are right-aligned and have thousands separators unless they are identifiers."""
    rows = [list(row) for row in rows]
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(
            isinstance(row[number], int | float | Decimal) or row[number] is None for row in rows
        )
        short = all(len(text(row[number], column)) < _READABLE for row in rows)
        drawn.add_column(
            Text(printable(column)), justify="right" if numeric else "left", overflow="fold", no_wrap=short
        )
    for row in rows:
        drawn.add_row(*(Text(text(value, column)) for column, value in zip(columns, row, strict=True)))
    return drawn


def show(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    spare: Sequence[str] = (),
    varying: Sequence[str] = (),
    text: Callable[[Any, str], str] = value_text,
) -> None:
    """Print rows as a table if it fits the terminal width. Otherwise, print one line per value.

    `text` formats a value of a column.

    Columns in `spare` are removed in the given order until the table fits. Columns in `varying` are removed if all rows
    have the same value.
    """
    same = {columns.index(name) for name in varying if len({row[columns.index(name)] for row in rows}) < 2}
    places = [place for place in range(len(columns)) if place not in same]
    left_out = [place for place in map(columns.index, spare) if place in places]
    for count in range(len(left_out) + 1):
        shown = [place for place in places if place not in left_out[:count]]
        drawn = table([columns[n] for n in shown], [[row[n] for n in shown] for row in rows], text)
        # minimum width at which short cells are complete and long cells are readable
        widths = [max(cell_len(str(cell)) for cell in (one.header, *one.cells)) for one in drawn.columns]
        widths = [n if one.no_wrap else min(n, _READABLE) for n, one in zip(widths, drawn.columns, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= OUT.width:
            OUT.print(drawn)
            return
    width = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        OUT.print(Text(f"row {number}", style="bold"))
        for n in places:
            OUT.print(Text(f"{printable(columns[n]):<{width}}  {text(row[n], columns[n])}"), soft_wrap=True)


def hour(value: str) -> datetime:
    """Parse an hour (UTC) in ISO 8601, in the format of printed tables, or as a Dagster partition key."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T -](\d\d)(:00(:00)?)?Z?", value)
    try:
        return in_range(datetime.fromisoformat(f"{found[1]}T{found[2]}:00+00:00" if found else ""))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a valid hour. A valid example is 2026-11-20T05 (UTC).") from None


def _name(pattern: str, named: str, example: str) -> Callable[[str], str]:
    """Return a parser for names from the service that are also used as folder names."""

    def parse(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise click.BadParameter(f"{value!r} is not a valid {named}. A valid example is {example}.")
        return value

    return parse


def dataset_name(family: Family) -> Callable[[str], Dataset]:
    """Return a parser for names of the declared datasets in a family."""

    def parse(value: str) -> Dataset:
        declared = {one.name: one for one in datasets.datasets(family)}
        if value not in declared:
            raise click.BadParameter(f"{value!r} is not one of {', '.join(declared)}.")
        return declared[value]

    return parse


#: The `--hours` option of commands that show the mirror's state.
hours_option = click.option(
    "--hours",
    "count",
    type=click.IntRange(1, 24 * 31),
    default=48,
    show_default=True,
    help="Number of hours to look back (for example 72).",
)
#: The `--quiet` option of commands that run in cron.
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print only failures, for cron.")


def dataset_option(family: Family) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Build the `--dataset` option for commands that support every dataset in a family."""
    return click.option(
        "--dataset",
        type=dataset_name(family),
        default=datasets.default(family).name,
        show_default=True,
        metavar="NAME",
        help="Name of the dataset's table.",
    )


HOUR = hour
PROJECT = _name(r"[a-z0-9_]+", "project", "enwiki")
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9_-]*"
SNAPSHOT = _name(_IDENTIFIER, "snapshot", "enwiki_namespace_0")
CHUNK = _name(_IDENTIFIER, "chunk", "enwiki_namespace_0_chunk_0 or 0")
FILE = _name(_IDENTIFIER, "file identifier", "enwiki_namespace_0")
_SANDBOX = "the built-in sandbox (synthetic pages; to use an account, set WME_USERNAME and WME_PASSWORD)"


class Writing(click.Command):
    """Command that first prints its service and folder to standard error. With `only`, that option must be set."""

    def __init__(self, *arguments: Any, only: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._only = only

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.params.get("quiet") and (self._only is None or ctx.params[self._only]):
            try:
                settings = read_settings(scoped=False)
            except SettingsError:
                # a command that needs the settings rejects invalid settings itself
                service, data = "", read_data()
            else:
                service = f"Service: {_SANDBOX if settings.sandbox else settings.base_url}; "
                data = settings.data
            is_new = "" if data.exists() else " (new)"
            named = f"; settings: {os.environ[ENV_FILE]}" if os.environ.get(ENV_FILE) else ""
            warn(f"{service}data folder: {data}{is_new}{named}")
        return super().invoke(ctx)
