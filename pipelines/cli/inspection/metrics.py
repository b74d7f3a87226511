"""`wme metrics`: the figures of `wme status` for monitors. The work is in `pipelines/report/metrics.py`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from pipelines.cli import terminal
from pipelines.cli.parameters import hours_option
from pipelines.settings import read as read_settings


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write them to FILE, as a whole, instead of printing them.",
)
@hours_option
def metrics(*, output: Path | None, count: int) -> None:
    """Print the figures of `wme status` in the text format of Prometheus."""
    from pipelines.report import metrics as collected
    from pipelines.report import status as statuses
    from resources import files

    now = datetime.now(UTC)
    text = collected.text(statuses.collect(read_settings(), count, now), now)
    if output is None:
        terminal.echo(text.decode(), nl=False)
    else:
        # a collector that comes at any moment reads all of the file, or the one before
        files.write(output.absolute(), text)
