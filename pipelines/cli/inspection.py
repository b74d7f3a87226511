"""Commands that show the mirror's content and state, such as `status`, `metrics`, `report` and `sql`."""

import csv
import functools
import json
import math
import sys
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from pipelines.cli import terminal
from pipelines.cli.terminal import HOUR, hours_option
from resources import files
from resources.errors import clause
from resources.formatting import counted, exact_text, size_text, value_text
from resources.settings import Settings, read_data
from resources.settings import read as read_settings
from resources.tables import HourState
from resources.warehouse import Warehouse

_output_option = functools.partial(
    click.option, "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE"
)


@click.command()
@hours_option
@click.option("--check", is_flag=True, help="Exit with status 1 if any line begins with ! (needs attention).")
@click.option("-q", "--quiet", is_flag=True, help="Print only the lines that need attention, for cron.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every hour, for scripts.")
def status(*, count: int, check: bool, quiet: bool, as_json: bool) -> None:
    """Show the mirror's state: service, account, size, pending work, and each of the newest hours."""
    from pipelines.report import heatmap
    from pipelines.report import status as statuses

    if quiet and as_json:
        raise click.UsageError("--quiet and --json are mutually exclusive.")
    report = statuses.collect(read_settings(), count)
    if as_json:
        terminal.show_json(statuses.as_json(report))
    else:
        for name, value in () if quiet else report.facts:
            terminal.say(f"{name + ':':<18} {value}")
        if report.places and not quiet:
            terminal.OUT.print()
            spare = ("not_yet", "past_retention", "absent", "empty", "exact from (UTC)", "exact until (UTC)")
            columns = ("project", "namespace", *HourState, *spare[-2:], "newest hour (UTC)")
            terminal.show(columns, report.coverage, spare=spare)
            terminal.OUT.print()
            for line in heatmap.lines(report.places, terminal.OUT.width):
                terminal.OUT.print(line, soft_wrap=True)
            terminal.OUT.print()
        for trouble in report.troubles:
            terminal.say(f"! {trouble}")
    if check and report.troubles:
        sys.exit(1)


@click.command()
@_output_option(help="Write the metrics atomically to FILE instead of printing them.")
@hours_option
def metrics(*, output: Path | None, count: int) -> None:
    """Print the figures from `wme status` in Prometheus text format."""
    from pipelines.report import metrics as collected
    from pipelines.report import status as statuses

    now = datetime.now(UTC)
    text = collected.text(statuses.collect(read_settings(), count, now), now)
    if output is None:
        terminal.echo(text.decode(), nl=False)
    else:
        # write atomically, so that a collector never reads a partial file
        files.write(output.absolute(), text)


@click.command(cls=terminal.Writing)
@_output_option(help="File to write.  [default: report.html in the data folder]")
@click.option("--open", "is_shown", is_flag=True, help="Open the page in a browser.")
def report(*, output: Path | None, is_shown: bool) -> None:
    """Write a self-contained HTML page about the mirror. Browsers can display the page offline."""
    from pipelines.report import page

    made = page.write(read_settings(), output)
    count = made.attention_count
    attention = f"Needs attention: {counted(count, 'line')}" if count else "Nothing needs attention"
    terminal.say(f"{made.path} was written ({size_text(made.size_bytes)}, {made.seconds:.1f} s). {attention}.")
    if is_shown:
        click.launch(str(made.path))


@click.command()
@click.argument("query", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output format. The json format has one object per line.",
)
@click.option(
    "--allow-files",
    is_flag=True,
    help="Allow the query to read and write other files, attach databases, load extensions and change settings.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of rows to show (table format only).",
)
def sql(*, query: str | None, form: str, allow_files: bool, limit: int) -> None:
    """Run a read-only query on the published file. QUERY is SQL. Without QUERY, SQL is read from standard input.

    The query can read only the published file and the lake. Network access and writing are disabled.
    """
    text = query if query is not None else terminal.read()
    if not text.strip():
        raise click.UsageError("No query was specified. Pass a query as an argument or on standard input.")
    answer = Warehouse(read_data()).sql(text, is_confined=not allow_files)
    if form == "json":
        for row in answer.rows:
            terminal.echo(_json(dict(zip(answer.columns, row, strict=True))))
    elif form == "csv":
        # programs need the exact bytes, but a terminal must not receive control characters
        shown = SimpleNamespace(write=lambda text: terminal.echo(text, nl=False)) if sys.stdout.isatty() else sys.stdout
        writer = csv.writer(shown, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_cell(value) for value in row] for row in answer.rows)
    elif answer.columns:
        terminal.show(answer.columns, answer.rows[:limit], text=exact_text)
        if len(answer.rows) > limit:
            terminal.OUT.print(f"Showing {limit:,} of {len(answer.rows):,} rows. Raise --limit to see more.")


def _json(value: Any) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, default=_plain, allow_nan=False)


def _finite(value: Any) -> Any:
    """Replace NaN and infinite numbers, which JSON does not have, with the strings NaN, Infinity and -Infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> str:
    if isinstance(value, date | time):
        return value.isoformat()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> Any:
    """Return a value for a CSV file, with lists and structs as JSON and times in ISO 8601."""
    if isinstance(value, list | dict):
        return _json(value)
    return _plain(value) if isinstance(value, date | time | bytes) else _finite(value)


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one page per group of tables to this folder instead of printing the dictionary.",
)
def dictionary(folder: Path | None) -> None:
    """Print the data dictionary in Markdown: all tables, and all columns with their paths in the service's record."""
    from pipelines.report.dictionary import render, write

    if folder is None:
        terminal.echo(render(), nl=False)
    else:
        write(folder)
        terminal.echo(f"The data dictionary was written to {folder}.")


@click.command(cls=terminal.Writing, only="retry")
@click.option("--hour", type=HOUR, help="Show only records from this hour (UTC), for example 2026-11-20T05.")
@click.option("--project", help="Show only records from this project, for example enwiki.")
@click.option("--reason", help="Show only records whose reason contains this text.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of records.  [default: 20, or all with --json]")
@click.option("--raw", is_flag=True, help="Show the records' content (base64 with --json).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for scripts.")
@click.option(
    "--retry",
    is_flag=True,
    help="If the converter has changed, reconvert and reload archives that contain rejected records.",
)
@click.option("--dry-run", is_flag=True, help="With --retry, show the planned work without changing anything.")
def rejects(*, limit: int | None, raw: bool, as_json: bool, retry: bool, dry_run: bool, **chosen: Any) -> None:
    """List rejected records by reason and by location, or convert these records again."""
    from pipelines.operations import rebuild as rejected
    from resources.lake import Layout

    if dry_run and not retry:
        raise click.UsageError("--dry-run requires --retry.")
    if retry and (raw or as_json or limit is not None):
        raise click.UsageError("--retry can be combined only with --hour, --project, --reason and --dry-run.")
    settings = read_settings()
    selection = rejected.Selection(**chosen)
    if retry:
        _retry(settings, selection, dry_run=dry_run)
        return
    warehouse = Warehouse(settings.data)
    if as_json:
        for line in rejected.lines(warehouse, selection, limit=limit, raw=raw):
            try:
                for piece in rejected.as_json(line, Layout(settings.data)):
                    terminal.echo(piece, nl=False)
            except OSError as error:
                raise click.ClickException(
                    f"A long record cannot be read: {clause(error)}. To restore the record, run its hour again."
                ) from error
            click.echo()
        return
    reasons = rejected.by_reason(warehouse, selection)
    count = sum(row[0] for row in reasons.rows)
    if not count:
        terminal.OUT.print(
            "No records were rejected." if selection == rejected.Selection() else "No matching records were rejected."
        )
        return
    shown = limit or 20
    if raw:
        for line in rejected.lines(warehouse, selection, limit=shown, raw=True):
            place = f"{line['archive']} {line['member']} line {line['line_number']} byte {line['byte_offset']:,}"
            terminal.OUT.print(f"{place}: {value_text(line['reason'])}", markup=False, style="bold", soft_wrap=True)
            terminal.say(value_text(line["raw"]))
            if line["raw_path"] is not None:
                terminal.say(
                    f"… ({line['bytes']:,} bytes in total). The complete record is in lake/{line['raw_path']}, in the "
                    f"gzip member at byte {line['raw_offset']:,}. `wme rejects --raw --json` prints the record."
                )
    else:
        terminal.show(reasons.columns, reasons.rows, spare=("begins", "first_hour"))
        terminal.OUT.print()
        found = rejected.places(warehouse, selection, shown)
        terminal.show(found.columns, found.rows, spare=("byte_offset", "bytes", "member"))
    terminal.say(
        f"{counted(count, 'rejected record')}{f', {shown:,} shown' if count > shown else ''}. The `rejects` table "
        "contains the original records."
    )


def _retry(settings: Settings, selection: Any, *, dry_run: bool) -> None:
    from pipelines.operations import rebuild as rejected
    from resources.adapters import ConfiguredEngine

    planned = rejected.plan_retry(settings, selection)
    for sentence in planned.sentences():
        terminal.say(sentence)
    obstacles = planned.obstacles()
    if dry_run:
        for sentence in (*obstacles, "Nothing was changed."):
            terminal.say(sentence)
        return
    if planned.parts:
        warehouse = Warehouse(settings.data)
        # count per hour and snapshot, because a newer converter can reject records for another reason
        before = rejected.count(warehouse, planned.parts)
        with terminal.progress() as reporter:
            done = rejected.rebuild(settings, planned.parts, engine=ConfiguredEngine(settings, reporter))
        obstacles += done.failures
        after = rejected.count(warehouse, planned.parts)
        gained = max(before - after, 0)
        terminal.say(
            f"Converted {counted(gained, 'rejected record')}. Records still rejected in the same hours and snapshots: "
            f"{after:,}."
        )
    if obstacles:
        raise click.ClickException("\n".join(obstacles))
