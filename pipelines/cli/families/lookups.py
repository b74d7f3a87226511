"""`wme article`, `wme structured` and `wme entity`: what the service has at this moment of one title or entity.

The work is in `resources/enterprise`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import click

from pipelines.cli import service
from pipelines.cli.families.records import answered, queried, query, show
from pipelines.cli.parameters import PROJECT
from pipelines.settings import read as read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.enterprise import EnterpriseClient, Listing, Query
    from resources.enterprise.models import Record


def _titled(look_up: Callable[[EnterpriseClient, str, Query], Listing[Record]]) -> Callable[..., None]:
    """A command with the parameters of a lookup by title, which shows what the lookup finds."""

    @functools.wraps(look_up)
    def run(
        *,
        name: str,
        project: str | None,
        language: str | None,
        limit: int | None,
        fields: tuple[str, ...],
        filters: tuple[str, ...],
        form: str,
    ) -> None:
        asked = query(fields, filters, limit, is_part_of__identifier=project, in_language__identifier=language)
        with service.client(read_settings(scoped=False)) as client:
            show(look_up(client, name, asked).raw, form)

    command: Callable[..., None] = run
    for decorate in (
        click.option(
            "--limit", type=click.IntRange(1, 10), help="Greatest number of projects in the answer. Default: 3."
        ),
        click.option("--language", metavar="CODE", help="Only projects in this language, for example fr."),
        click.option("--project", type=PROJECT, help="Only this project, for example enwiki."),
        queried(filters=True),
        answered,
        click.argument("name"),
    ):
        command = decorate(command)
    return command


@click.command()
@_titled
def article(client: EnterpriseClient, name: str, asked: Query) -> Listing[Record]:
    """Look up the article NAME as it is now, in all projects that have one. Costs a unit of on-demand quota.

    NAME is the exact title, case-sensitive, with the prefix of its namespace (for example Category:Physics). Redirects are
    not resolved. Without --project or --language, the service chooses which projects are in the answer.
    """
    return client.article(name, asked)


@click.command()
@_titled
def structured(client: EnterpriseClient, name: str, asked: Query) -> Listing[Record]:
    """Look up the structured contents of the article NAME: infoboxes, sections, tables. Costs a unit of on-demand quota.

    NAME is the exact title, as for `wme article`. --filter applies to the article's record, --fields to the structured
    contents.
    """
    return client.structured(name, asked)


@click.command()
@click.argument("identifier", metavar="ID")
@click.option("--labels", is_flag=True, help="Show only its labels, in all languages.")
@queried(filters=False)
@answered
def entity(*, identifier: str, labels: bool, fields: tuple[str, ...], form: str) -> None:
    """Look up the Wikidata item or property ID, for example Q42 or P31. Costs a unit of on-demand quota."""
    kind = "labels" if labels else "properties" if identifier.upper().startswith("P") else "items"
    with service.client(read_settings(scoped=False)) as client:
        show(client.entity(kind, identifier, query(fields)).raw, form)
