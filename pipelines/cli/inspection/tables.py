"""`wme sql` and `wme dictionary`: what the tables hold, and what it means.

The work is in `resources/warehouse` and `pipelines/report/dictionary.py`.
"""

from __future__ import annotations

import csv
import json
import sys
from datetime import date, time
from types import SimpleNamespace
from typing import Any

import click

from pipelines.cli import terminal
from pipelines.settings import read_data


@click.command()
@click.argument("query", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output format; json prints one object per line.",
)
@click.option(
    "--allow-files",
    is_flag=True,
    help="Let the query read and write other files, attach databases, load extensions and change settings.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of rows shown (table format only).",
)
def sql(*, query: str | None, form: str, allow_files: bool, limit: int) -> None:
    """Query the published file, read-only. QUERY is SQL; without it, SQL is read from standard input.

    One query is answered. It reads the published file and the lake, no other file and no network, and it writes nothing.
    """
    from resources.warehouse import Warehouse

    text = query if query is not None else terminal.read()
    if not text.strip():
        raise click.UsageError("There is no query. Pass one as an argument or on standard input.")
    answer = Warehouse(read_data()).sql(text, is_confined=not allow_files)
    if form == "json":
        for row in answer.rows:
            terminal.echo(json.dumps(dict(zip(answer.columns, row, strict=True)), ensure_ascii=False, default=_plain))
    elif form == "csv":
        # a spreadsheet or a program reads the exact bytes, a person sees no control characters
        shown = SimpleNamespace(write=lambda text: terminal.echo(text, nl=False)) if sys.stdout.isatty() else sys.stdout
        writer = csv.writer(shown, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_cell(value) for value in row] for row in answer.rows)
    elif answer.columns:
        terminal.show(answer.columns, answer.rows[:limit])
        if len(answer.rows) > limit:
            terminal.OUT.print(f"{len(answer.rows):,} rows, {limit:,} shown. Raise --limit to see more.")


def _plain(value: Any) -> str:
    """A value that JSON has no form for."""
    if isinstance(value, date | time):
        return value.isoformat()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> Any:
    """A value in a CSV file: lists and structs as JSON, times in ISO 8601."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return _plain(value) if isinstance(value, date | time | bytes) else value


@click.command()
def dictionary() -> None:
    """Print the data dictionary (Markdown): every table and column, with its path in the service's record."""
    from pipelines.report.dictionary import render

    terminal.echo(render(), nl=False)
