"""`wme publish` and `relocate`: keeping what analysts open as it should be.

The work is in `pipelines/run.py` and `resources/warehouse`.
"""

from __future__ import annotations

import click

from pipelines import terminal
from pipelines.settings import read as read_settings


@click.command()
def publish() -> None:
    """Publish now what is loaded, whether it is due or not (WME_PUBLISH)."""
    from assets.published import next_text
    from pipelines import run as runs
    from resources.warehouse import Warehouse

    settings = read_settings()
    with terminal.progress():
        report = runs.publish(settings)
    if report.failures:
        raise click.ClickException("\n".join(report.failures))
    warehouse = Warehouse(settings.data)
    last = warehouse.publication()
    if last is not None:
        terminal.OUT.print(
            f"{warehouse.published_path} is of {terminal.moment(last.published_at)} UTC. It is published next "
            f"{next_text(last, settings.publish_every)}.",
            markup=False,
            soft_wrap=True,
        )


@click.command()
def relocate() -> None:
    """After the data folder was moved: make the published file's views find the lake where it lies now.

    Only the published file and the lake are needed, and no service.
    """
    from resources.warehouse import Warehouse

    warehouse = Warehouse(read_settings().data)
    moved = warehouse.relocate()
    if moved is None:
        told = "finds the lake where it lies. Nothing was to be done."
    else:
        told = f"was mended: its views read {moved:,} files of the lake where it lies now."
        [(missing,)] = warehouse.sql("SELECT value::BIGINT FROM about WHERE name = 'missing_lake_file_count'").rows
        if missing:
            told += f" {missing:,} files that it names are not there and are left out; bring them there, then `wme publish`."
    terminal.OUT.print(f"{warehouse.published_path} {told}", markup=False, soft_wrap=True)
