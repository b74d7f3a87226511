"""Progress bars, tables and texts on a terminal."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
from pydantic import TypeAdapter
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from resources.engine import LineReporter
from resources.formatting import amount_text, printable, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.progress import TaskID

    from resources.engine import Reporter, Task


class _Console(Console):
    """A console that removes from texts what a terminal would obey; elsewhere they stay exact."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as it is printed."""
        return super().render_str(printable(text) if self.is_terminal else text, **options)


#: Answers go to standard output, everything about the way there to standard error: `wme sql --format csv > file` works.
#: Where there is no terminal there is no width to fit: whoever reads the lines breaks them.
OUT = _Console(highlight=False, width=None if sys.stdout.isatty() else 100_000)
ERR = _Console(stderr=True, highlight=False, soft_wrap=True)
_ANY: TypeAdapter[object] = TypeAdapter(object)
#: Shorter texts are never folded, longer ones never into less.
_READABLE = 40


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text exactly; on a terminal, without anything that the terminal would obey."""
    shown = printable(text) if (sys.stderr if err else sys.stdout).isatty() else text
    click.echo(shown, nl=nl, err=err)


def read(most: int = -1, *, line_count: int | None = None) -> str:
    """Standard input to its end.

    Args:
        most: Characters after which reading stops; below 0, nowhere.
        line_count: Lines after which reading stops at a terminal. None: people end the input.

    Raises:
        UsageError: It is not text.
    """
    try:
        if line_count is not None and sys.stdin.isatty():
            text = "".join(sys.stdin.readline(most) for _ in range(line_count))
        else:
            text = sys.stdin.read(most)
        text.encode()
    except UnicodeError:
        raise click.UsageError("Standard input is not UTF-8 text. Nothing was done. Write it in UTF-8.") from None
    return text


def show_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON: dataclasses and mappings as objects, paths as texts, moments in ISO 8601."""
    echo(_ANY.dump_json(value, indent=indent).decode())


def say(text: str) -> None:
    """Print an answer as it is: on one line, with nothing in it that is markup."""
    OUT.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """The same on standard error."""
    ERR.print(text, markup=False)


def log_handler() -> logging.Handler:
    """A handler of log lines for standard error."""
    handler = logging.StreamHandler(sys.stderr)
    # where nobody reads along, in a journal or a file, lines need their time
    handler.setFormatter(
        _Printable("%(message)s") if sys.stderr.isatty() else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    return handler


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def hush(*, answers: bool, progress: bool) -> None:
    """Print no answers, or nothing of the way there, until the command ends. Failures are printed by other means."""

    def apply(out: bool, err: bool) -> None:
        OUT.quiet, ERR.quiet = out, err

    apply(answers, progress)
    click.get_current_context().call_on_close(lambda: apply(False, False))


class _BarTask:
    def __init__(self, progress: Progress, task: TaskID, unit: str) -> None:
        self._progress, self._task, self._unit = progress, task, unit

    def advance(self, done: float) -> None:
        self._progress.advance(self._task, done)

    def finish(self) -> None:
        self._progress.update(self._task, visible=False)


class BarReporter:
    """One bar per task under way, gone when it is over."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, label: str, total: float, unit: str) -> Task:
        """Draw a bar of `total` units."""
        task = self._progress.add_task(printable(label), total=max(total, 1), size=amount_text(total, unit))
        return _BarTask(self._progress, task, unit)


_current: list[Reporter] = []


def reporter() -> Reporter:
    """The reporter of this process: bars inside `progress()` on a terminal, else plain lines on standard error."""
    return _current[-1] if _current else LineReporter(lambda line: ERR.print(line, markup=False))


@contextmanager
def progress() -> Iterator[Reporter]:
    """Show progress while the block runs: bars on a terminal, plain lines elsewhere."""
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
    """Rows as a table; numbers to the right, with thousands separators unless they name something."""
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
    """Rows on standard output: as a table where it fits, else one below the other, a line per column.

    Args:
        columns: Their names.
        rows: Their values.
        spare: Columns that may be left out, in this order, until the table fits.
        varying: Columns that are left out where every row says the same.
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
    """Characters below which a table would cut what names things, or fold long texts too narrow to be read."""
    widths = []
    for column in drawn.columns:
        cells = [cell_len(str(cell)) for cell in (column.header, *column.cells)]
        widths.append(max(cells) if column.no_wrap else min(max(cells), _READABLE))
    return sum(widths) + 2 * (len(widths) - 1)
