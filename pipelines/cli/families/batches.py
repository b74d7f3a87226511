"""`wme batches`: the service's files of an hour.

The work is in `resources/enterprise`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pipelines.cli import service, terminal
from pipelines.cli.families.records import show_record
from pipelines.cli.parameters import FILE, HOUR, dataset_option
from pipelines.settings import read as read_settings
from resources.datasets import ARTICLE_CHANGES, Family
from resources.formatting import moment_text

if TYPE_CHECKING:
    from resources.datasets import Dataset


@click.command()
@click.argument("hour", type=HOUR, required=False)
@click.argument("identifier", metavar="[ID]", type=FILE, required=False)
@click.option("--all", "everything", is_flag=True, help="All projects of the service, not only the mirrored ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for scripts.")
@dataset_option(Family.HOURLY, ARTICLE_CHANGES)
def batches(
    *, hour: datetime | None, identifier: str | None, everything: bool, as_json: bool, dataset: Dataset
) -> None:
    """List the service's files of an HOUR (UTC), for example 2026-11-20T05; by default of the newest hour.

    With ID, for example enwiki_namespace_0, show that file's record.
    """
    from assets import names
    from pipelines.operations import run as runs
    from resources.lake import Layout

    settings = read_settings(scoped=not everything and identifier is None)
    with service.client(settings) as client:
        if hour is not None and identifier is not None:
            show_record(client.batch(hour, identifier, dataset), "ndjson" if as_json else "text")
            return
        if not everything:
            names.check(client, Layout(settings.data), settings.projects, settings.namespaces)
        chosen = hour or runs.newest_hours(client, 1, datetime.now(UTC), dataset)[0]
        records = [
            record
            for record in client.batches(chosen, dataset).records
            if everything or (record.project_id, record.namespace_id) in (settings.scope_of(dataset) or dataset.places)
        ]
    if as_json:
        for record in records:
            show_record(record, "ndjson")
        return
    terminal.OUT.print(f"{moment_text(chosen)} UTC", style="bold")
    terminal.show(
        ("identifier", "version", "modified", "bytes"),
        [(r.identifier, r.version, r.date_modified, r.approximate_bytes) for r in records],
    )
