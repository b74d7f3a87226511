"""`wme lists`: the service's reference lists.

The work is in `resources/enterprise`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from pipelines.cli import service, terminal
from pipelines.cli.families.records import queried, query
from pipelines.cli.parameters import DatasetName
from pipelines.settings import read as read_settings
from resources import datasets
from resources.datasets import Family
from resources.enterprise import endpoints

if TYPE_CHECKING:
    from resources.datasets import Dataset


@click.command()
@click.argument("dataset", metavar="[NAME]", type=DatasetName(Family.LIST), required=False)
@click.argument("identifier", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, as the service sends it.")
@queried(filters=True)
def lists(
    *, dataset: Dataset | None, identifier: str | None, as_json: bool, fields: tuple[str, ...], filters: tuple[str, ...]
) -> None:
    """Show the entries of the reference list NAME, as the service has it now. Without NAME, name the lists. No quota.

    With ID, for example `wme lists projects enwiki`, only that entry.
    """
    if dataset is None:
        rows = [(one.name, one.table.description) for one in datasets.datasets(Family.LIST)]
        terminal.show(("list", "description"), rows)
        return
    asked = query(fields, filters)
    with service.client(read_settings(scoped=False)) as client:
        path = endpoints.records(dataset)
        if identifier is None:
            records = [dict(record) for record in client.records(path, asked).records]
        else:
            records = [dict(client.record(endpoints.record(path, identifier), asked))]
    if as_json:
        for record in records:
            terminal.echo(json.dumps(record, ensure_ascii=False))
        return
    if not records:
        terminal.say(f"No entry of {dataset.name} passes the filters." if filters else f"{dataset.name} has no entry.")
        return
    columns = list(dict.fromkeys(name for record in records for name in record))
    terminal.show(columns, [[_cell(record.get(name)) for name in columns] for record in records])


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
