"""Shared command parameters, and terminal output such as progress bars, tables and text."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
from pydantic import TypeAdapter
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from resources import datasets
from resources.datasets import Dataset, Family
from resources.engine import Engine, LineReporter, Reporter, Task
from resources.formatting import amount_text, printable, value_text
from resources.settings import ENV_FILE, Settings, SettingsError, read_data
from resources.settings import read as read_settings

if TYPE_CHECKING:
    from resources.adapters import ConfiguredEngine


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


def read(most: int = -1, *, line_count: int | None = None) -> str:
    """Read standard input, up to `most` characters. At a terminal, read up to `line_count` lines."""
    try:
        if line_count is not None and sys.stdin.isatty():
            text = "".join(sys.stdin.readline(most) for _ in range(line_count))
        else:
            text = sys.stdin.read(most)
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

    def apply(out: bool, err: bool) -> None:
        OUT.quiet, ERR.quiet = out, err

    apply(answers, progress)
    click.get_current_context().call_on_close(lambda: apply(False, False))


class _BarTask:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, done: float) -> None:
        self._progress.advance(self._task, done)

    def finish(self) -> None:
        self._progress.update(self._task, visible=False)


class BarReporter:
    """Reporter that shows one progress bar per running task."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, label: str, total: float, unit: str) -> Task:
        task = self._progress.add_task(printable(label), total=max(total, 1), size=amount_text(total, unit))
        return _BarTask(self._progress, task)


_current: list[Reporter] = []


def reporter() -> Reporter:
    """Return the current `progress()` block's reporter, or a reporter that prints lines to standard error."""
    return _current[-1] if _current else LineReporter(lambda line: ERR.print(line, markup=False))


@contextmanager
def progress() -> Iterator[Reporter]:
    """Show progress while the block runs, as bars on a terminal and as plain lines elsewhere."""
    if not ERR.is_terminal:
        yield reporter()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% of {task.fields[size]}"),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=ERR, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bars:
        _current.append(BarReporter(bars))
        try:
            yield _current[-1]
        finally:
            _current.pop()


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Build a table. Numbers are right-aligned and have thousands separators unless they are identifiers."""
    rows = [list(row) for row in rows]
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(
            isinstance(row[number], int | float | Decimal) or row[number] is None for row in rows
        )
        short = all(len(value_text(row[number], column)) < _READABLE for row in rows)
        drawn.add_column(
            Text(printable(column)), justify="right" if numeric else "left", overflow="fold", no_wrap=short
        )
    for row in rows:
        drawn.add_row(*(Text(value_text(value, column)) for column, value in zip(columns, row, strict=True)))
    return drawn


def show(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, spare: Sequence[str] = (), varying: Sequence[str] = ()
) -> None:
    """Print rows as a table if it fits the terminal width. Otherwise, print one line per value.

    Columns in `spare` are removed in the given order until the table fits. Columns in `varying` are removed if all rows
    have the same value.
    """
    same = {columns.index(name) for name in varying if len({row[columns.index(name)] for row in rows}) < 2}
    places = [place for place in range(len(columns)) if place not in same]
    left_out = [place for place in map(columns.index, spare) if place not in same]
    while True:
        drawn = table([columns[n] for n in places], [[row[n] for n in places] for row in rows])
        if _needed_width(drawn) <= OUT.width:
            OUT.print(drawn)
            return
        if not left_out:
            break
        places.remove(left_out.pop(0))
    width = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        OUT.print(Text(f"row {number}", style="bold"))
        for column, value in ((columns[n], row[n]) for n in range(len(columns)) if n not in same):
            OUT.print(Text(f"{printable(column):<{width}}  {value_text(value, column)}"), soft_wrap=True)


def _needed_width(drawn: Table) -> int:
    """Return the minimum table width in characters at which short cells are complete and long cells are readable."""
    widths = []
    for column in drawn.columns:
        cells = [cell_len(str(cell)) for cell in (column.header, *column.cells)]
        widths.append(max(cells) if column.no_wrap else min(max(cells), _READABLE))
    return sum(widths) + 2 * (len(widths) - 1)


class _Hour(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An hour (UTC) in ISO 8601, in the format of printed tables, or as a Dagster partition key."""

    name = "hour"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T -](\d\d)(:00(:00)?)?Z?", str(value))
        try:
            return datetime.fromisoformat(f"{found[1]}T{found[2]}:00+00:00" if found else "")
        except ValueError:
            self.fail(f"{str(value)!r} is not a valid hour. A valid example is 2026-11-20T05 (UTC).", param, ctx)


class _Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name from the service that is also used as a folder name."""

    def __init__(self, kind: str, pattern: str, named: str, example: str) -> None:
        self.name, self._pattern, self._named, self._example = kind, re.compile(pattern), named, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not self._pattern.fullmatch(str(value)):
            self.fail(f"{str(value)!r} is not a valid {self._named}. A valid example is {self._example}.", param, ctx)
        return str(value)


class DatasetName(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Name of a declared dataset in one family."""

    name = "name"

    def __init__(self, family: Family) -> None:
        self._family = family

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Dataset:
        if isinstance(value, datasets.Dataset):
            return value  # the default
        declared = {one.name: one for one in datasets.datasets(self._family)}
        if value not in declared:
            self.fail(f"{value!r} is not one of {', '.join(declared)}.", param, ctx)
        return declared[value]


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
        type=DatasetName(family),
        default=datasets.default(family),
        metavar="NAME",
        help=f"Name of the dataset's table.  [default: {datasets.default(family).name}]",
    )


HOUR = _Hour()
PROJECT = _Name("project", r"[a-z0-9_]+", "project", "enwiki")
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9_-]*"
SNAPSHOT = _Name("id", _IDENTIFIER, "snapshot", "enwiki_namespace_0")
CHUNK = _Name("chunk", _IDENTIFIER, "chunk", "enwiki_namespace_0_chunk_0 or 0")
FILE = _Name("id", _IDENTIFIER, "file identifier", "enwiki_namespace_0")


_SANDBOX = "the built-in sandbox (synthetic pages; to use an account, set WME_USERNAME and WME_PASSWORD)"


class Writing(click.Command):
    """Command that first prints its service and folder to standard error. With `only`, that option must be set."""

    def __init__(self, *arguments: Any, only: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._only = only

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.params.get("quiet") and (self._only is None or ctx.params[self._only]):
            warn(_destination())
        return super().invoke(ctx)


def _destination() -> str:
    try:
        settings = read_settings(scoped=False)
    except SettingsError:
        # a command that needs the settings rejects invalid settings itself
        service, data = "", read_data()
    else:
        service = f"Service: {_SANDBOX if settings.sandbox else settings.base_url}; "
        data = settings.data
    named = os.environ.get(ENV_FILE)
    return f"{service}data folder: {data}{'' if data.exists() else ' (new)'}{f'; settings: {named}' if named else ''}"


def terminal_engine(settings: Settings) -> ConfiguredEngine:
    """Build an engine that reports progress on the terminal, not in Dagster's log."""
    from resources.adapters import ConfiguredEngine

    class TerminalEngine(ConfiguredEngine):
        def engine(self, say: Callable[[str], None]) -> Engine:  # noqa: ARG002  the terminal is watched, not the log
            return Engine(workers=self.settings.workers, reporter=reporter())

    return TerminalEngine(settings)
