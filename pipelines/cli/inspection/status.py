"""`wme status`: the state of the mirror.

The work is in `pipelines/report/status.py`, the map of hours in `pipelines/report/heatmap.py`.
"""

from __future__ import annotations

import json
import sys

import click

from pipelines.cli import terminal
from pipelines.cli.parameters import hours_option
from pipelines.settings import read as read_settings


@click.command()
@hours_option
@click.option("--check", is_flag=True, help="Exit with 1 if anything needs attention (a line that begins with !).")
@click.option("-q", "--quiet", is_flag=True, help="Print only the lines that need attention, for cron.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, hour by hour, for scripts.")
def status(*, count: int, check: bool, quiet: bool, as_json: bool) -> None:
    """Show the state of the mirror: service, account, size, pending work, and each of the newest hours."""
    from pipelines.report import heatmap
    from pipelines.report import status as statuses

    if quiet and as_json:
        raise click.UsageError("--quiet and --json exclude each other.")
    report = statuses.collect(read_settings(), count)
    if as_json:
        terminal.echo(json.dumps(statuses.as_json(report), ensure_ascii=False, indent=2))
    else:
        for name, value in () if quiet else report.facts:
            terminal.say(f"{name + ':':<18} {value}")
        if report.places and not quiet:
            terminal.OUT.print()
            spare = ("not_yet", "past_retention", "absent", "empty", "exact from (UTC)", "exact until (UTC)")
            terminal.show(report.columns, report.coverage, spare=spare)
            terminal.OUT.print()
            for line in heatmap.lines(report.places, terminal.OUT.width):
                terminal.OUT.print(line, soft_wrap=True)
            terminal.OUT.print()
        for trouble in report.troubles:
            terminal.say(f"! {trouble}")
    if check and report.troubles:
        sys.exit(1)
