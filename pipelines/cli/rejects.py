"""`wme rejects`: the lines that could not be converted, and trying them again.

The work is in `pipelines/operations/rejects.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipelines.cli import options, terminal
from pipelines.cli.options import HOUR
from resources.errors import clause
from resources.formatting import counted, value_text
from resources.settings import read as read_settings

if TYPE_CHECKING:
    from datetime import datetime

    from resources.settings import Settings


@click.command(cls=options.Writing, only="retry")
@click.option("--hour", type=HOUR, help="Only lines of this hour (UTC), for example 2026-11-20T05.")
@click.option("--project", help="Only lines of this project, for example enwiki.")
@click.option("--reason", help="Only lines whose reason contains this text.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of lines shown.  [default: 20; with --json: all]")
@click.option("--raw", is_flag=True, help="Show the lines themselves; with --json, in base64.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for scripts.")
@click.option(
    "--retry",
    is_flag=True,
    help="Convert archives with rejected lines again if the converter has changed, and load them.",
)
@click.option("--dry-run", is_flag=True, help="With --retry: show what would be done; change nothing.")
def rejects(
    *,
    hour: datetime | None,
    project: str | None,
    reason: str | None,
    limit: int | None,
    raw: bool,
    as_json: bool,
    retry: bool,
    dry_run: bool,
) -> None:
    """List the lines that could not be converted, by reason and by location, or try them again."""
    from pipelines.operations import rejects as rejected
    from resources.lake import Layout
    from resources.warehouse import Warehouse

    if dry_run and not retry:
        raise click.UsageError("--dry-run needs --retry.")
    if retry and (raw or as_json or limit is not None):
        raise click.UsageError("--retry can be combined with --hour, --project, --reason and --dry-run only.")
    settings = read_settings()
    selection = rejected.Selection(hour, project, reason)
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
                    f"A long line cannot be read: {clause(error)}. Run its hour again to restore it."
                ) from error
            click.echo()
        return
    reasons = rejected.by_reason(warehouse, selection)
    count = sum(row[0] for row in reasons.rows)
    if not count:
        terminal.OUT.print(
            "No line was rejected." if selection == rejected.Selection() else "No such line was rejected."
        )
        return
    shown = limit or 20
    if raw:
        for line in rejected.lines(warehouse, selection, limit=shown, raw=True):
            place = f"{line['archive']} {line['member']} line {line['line_number']} byte {line['byte_offset']:,}"
            terminal.OUT.print(f"{place}: {value_text(line['reason'])}", markup=False, style="bold", soft_wrap=True)
            terminal.say(value_text(line["raw"]))
            if line["raw_path"] is not None:
                terminal.say(_rest(line))
    else:
        terminal.show(reasons.columns, reasons.rows, spare=("begins", "first_hour"))
        terminal.OUT.print()
        found = rejected.places(warehouse, selection, shown)
        terminal.show(found.columns, found.rows, spare=("byte_offset", "bytes", "member"))
    terminal.say(
        f"{counted(count, 'rejected line')}{f', {shown:,} shown' if count > shown else ''}; the bytes are in the table "
        "`rejects`."
    )


def _rest(line: dict[str, Any]) -> str:
    """The location of the rest of a long line."""
    return (
        f"… {line['bytes']:,} bytes in all; the whole line is in lake/{line['raw_path']}, gzip from byte "
        f"{line['raw_offset']:,} on (`wme rejects --raw --json` gives it)."
    )


def _retry(settings: Settings, selection: Any, *, dry_run: bool) -> None:
    """Convert archives with rejected lines again, and show the result."""
    from pipelines.operations import rejects as rejected
    from resources.warehouse import Warehouse

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
        # by hours and snapshots, because a newer converter may reject the remaining lines for another reason
        before = rejected.count(warehouse, planned.parts)
        with terminal.progress():
            done = rejected.retry(settings, planned, engine=options.terminal_engine(settings))
        obstacles += done.failures
        after = rejected.count(warehouse, planned.parts)
        gained = max(before - after, 0)
        terminal.say(
            f"Done: {counted(gained, 'rejected line')} became {'a row' if gained == 1 else 'rows'}. Lines of the same "
            f"hours and snapshots that are still rejected: {after:,}."
        )
    if obstacles:
        raise click.ClickException("\n".join(obstacles))
