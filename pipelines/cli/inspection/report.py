"""`wme report`: the mirror as one HTML page. The work is in `pipelines/report/page/`."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli import service, terminal
from pipelines.settings import read as read_settings
from resources.formatting import counted, size_text


@click.command(cls=service.Writing)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the page.  [default: report.html in the data folder]",
)
@click.option("--open", "is_shown", is_flag=True, help="Open it in a browser.")
def report(*, output: Path | None, is_shown: bool) -> None:
    """Write one HTML page about the mirror, which any browser shows without a network."""
    from pipelines.report import page

    made = page.write(read_settings(), output)
    attention = (
        "Nothing needs attention"
        if not made.attention_count
        else f"What needs attention: {counted(made.attention_count, 'line')}"
    )
    terminal.say(f"{made.path} is written ({size_text(made.size_bytes)}, {made.seconds:.1f} s). {attention}.")
    if is_shown:
        click.launch(str(made.path))
