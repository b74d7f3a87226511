"""The `lists`, `batches`, `article`, `structured` and `entity` commands, which show the service's current records."""

import functools
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import click

from pipelines.cli import terminal
from pipelines.cli.terminal import FILE, HOUR, PROJECT, dataset_name, dataset_option
from resources import connection, datasets
from resources.datasets import Dataset, Family
from resources.enterprise import EnterpriseClient, Filter, Listing, Query, endpoints
from resources.enterprise.models import Record
from resources.enterprise.query import Kind
from resources.formatting import moment_text, value_text
from resources.settings import read as read_settings

Command = Callable[..., None]

#: Limits for text output: characters per value, members per array, lines per record.
_LONGEST_TEXT, _MOST_MEMBERS, _MOST_LINES = 300, 6, 200
_fields = click.option(
    "--fields",
    multiple=True,
    metavar="NAMES",
    help="Show only these fields (dotted names, separated by commas). The option can be repeated.",
)
_filter = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Show only records with this value, for example in_language.identifier=en. The option can be repeated. "
    "Unquoted numbers, true, false and null are JSON values. Quote them ('\"0\"') to compare strings.",
)
#: Options for lookups by title. Several projects can have a page with the same title.
_TITLED = (
    click.option("--limit", type=click.IntRange(1, 10), help="Maximum number of projects in the response. Default: 3."),
    click.option("--language", metavar="CODE", help="Show only projects in this language, for example fr."),
    click.option("--project", type=PROJECT, metavar="PROJECT", help="Show only this project, for example enwiki."),
)
_json_lines = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for scripts.")


def queried(kind: Kind, command: Command) -> Command:
    """Add the query options that endpoints of this kind support. The command receives the query as `asked`."""

    @functools.wraps(command)
    def run(
        *,
        fields: tuple[str, ...],
        filters: tuple[str, ...] = (),
        project: str | None = None,
        language: str | None = None,
        limit: int | None = None,
        **own: Any,
    ) -> None:
        equal = {"is_part_of.identifier": project, "in_language.identifier": language}
        conditions = [Filter(name, value) for name, value in equal.items() if value is not None]
        for text in filters:
            name, equals, value = text.partition("=")
            if not equals:
                raise click.UsageError(
                    f"The filter {text!r} is not valid. Use the form FIELD=VALUE, for example "
                    "in_language.identifier=en."
                )
            conditions.append(Filter(name, _value(value)))
        names = tuple(name.strip() for text in fields for name in text.split(",") if name.strip())
        command(asked=Query(fields=names, filters=tuple(conditions), limit=limit), **own)

    added = [*_TITLED * kind.has_limit, *[_filter] * kind.has_filters, _fields]
    return functools.reduce(lambda changed, option: option(changed), added, run)


def answered(kind: Kind, ask: Callable[..., Listing[Record] | Record]) -> Command:
    """Add options for a query and its output. The decorated function sends the query and returns the response."""

    @functools.partial(queried, kind)
    @click.option(
        "--json", "as_json", is_flag=True, help="Print the response as one JSON document, as the service sends it."
    )
    @click.option(
        "--ndjson",
        "as_lines",
        is_flag=True,
        help="Print one JSON object per line. This is the default if the output is not a terminal.",
    )
    @functools.wraps(ask)
    def run(*, as_json: bool, as_lines: bool, asked: Query, **own: Any) -> None:
        if as_json and as_lines:
            raise click.UsageError("--json and --ndjson are mutually exclusive.")
        form = "json" if as_json else "ndjson" if as_lines or not sys.stdout.isatty() else "text"
        with connection.client(read_settings(scoped=False), writes=False) as client:
            _show(ask(client, asked, **own), form)

    return run


def _value(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    # Python also parses NaN, Infinity and 1e999, which are not JSON values
    is_value = math.isfinite(found) if isinstance(found, float) else not isinstance(found, dict | list)
    return found if is_value else text


def _show(answer: Listing[Record] | Record, form: str) -> None:
    """Print a response unmodified, as one JSON line per record, or as one block per record."""
    if isinstance(answer, Listing):
        found = json.loads(answer.raw)
        records = found if isinstance(found, list) else [found]
        document = answer.raw.decode().rstrip("\n")
    else:
        records = [answer.model_dump(mode="json", exclude_unset=True)]
        document = json.dumps(records[0], ensure_ascii=False)
    if form == "json":
        terminal.echo(document)
        return
    for number, record in enumerate(records):
        if form == "ndjson":
            terminal.echo(json.dumps(record, ensure_ascii=False))
            continue
        if number:
            terminal.OUT.print()
        lines = list(itertools.islice(_lines(record, ""), _MOST_LINES + 1))
        width = max((len(name) for name, _ in lines[:_MOST_LINES]), default=0)
        for name, text in lines[:_MOST_LINES]:
            terminal.say(value_text(f"{name:<{width}}  {text}"))
        if len(lines) > _MOST_LINES:
            terminal.say("... --json prints the complete record.")


def _lines(value: Any, name: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _lines(below, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value:
        for number, member in enumerate(value[:_MOST_MEMBERS]):
            yield from _lines(member, f"{name}.{number}")
        if len(value) > _MOST_MEMBERS:
            yield name, f"... {len(value):,} in total"
    else:
        text = _cell(value)
        cut = f"... ({len(text):,} characters)" if len(text) > _LONGEST_TEXT else ""
        yield name, " ".join(text[:_LONGEST_TEXT].split()) + cut


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@click.command()
@click.argument("dataset", metavar="[NAME]", type=dataset_name(Family.LIST), required=False)
@click.argument("identifier", metavar="[ID]", required=False)
@functools.partial(queried, Kind.LIST)
@_json_lines
def lists(*, dataset: Dataset | None, identifier: str | None, as_json: bool, asked: Query) -> None:
    """Show the current entries of the reference list NAME. Without NAME, show the lists' names.

    With ID, show only one entry, for example `wme lists projects enwiki`. Costs no quota.
    """
    if dataset is None:
        rows = [(one.name, one.table.description) for one in datasets.datasets(Family.LIST)]
        terminal.show(("list", "description"), rows)
        return
    with connection.client(read_settings(scoped=False), writes=False) as client:
        if identifier is None:
            records = [dict(record) for record in client.lists.records(endpoints.records(dataset), asked).records]
        else:
            path = endpoints.record(endpoints.records(dataset), identifier)
            records = [dict(client.lists.record(path, asked))]
    if as_json:
        for record in records:
            terminal.echo(json.dumps(record, ensure_ascii=False))
    elif records:
        columns = list(dict.fromkeys(name for record in records for name in record))
        cells = [[record.get(name) for name in columns] for record in records]
        terminal.show(columns, [[_cell(v) if isinstance(v, list | dict) else v for v in row] for row in cells])
    else:
        filtered = f"No entry in {dataset.name} matches the filters."
        terminal.say(filtered if asked.filters else f"{dataset.name} has no entries.")


@click.command()
@click.argument("hour", type=HOUR, required=False)
@click.argument("identifier", metavar="[ID]", type=FILE, required=False)
@click.option("--all", "everything", is_flag=True, help="Show all projects, not only mirrored projects.")
@_json_lines
@dataset_option(Family.HOURLY)
def batches(
    *, hour: datetime | None, identifier: str | None, everything: bool, as_json: bool, dataset: Dataset
) -> None:
    """List the service's files for an HOUR (UTC), for example 2026-11-20T05. The default is the newest hour.

    With ID, show only one file's record, for example enwiki_namespace_0.
    """
    from pipelines.operations import run as runs
    from resources.lake import Layout

    settings = read_settings(scoped=not everything and identifier is None)
    with connection.client(settings, writes=False) as client:
        if hour is not None and identifier is not None:
            _show(client.hours.record(hour, identifier, dataset), "ndjson" if as_json else "text")
            return
        if not everything:
            connection.check_names(client, Layout(settings.data), settings.projects, settings.namespaces)
        chosen = hour or runs.newest_hours(client, 1, datetime.now(UTC), dataset)[0]
        scope = settings.scope_of(dataset) or dataset.places
        records = [
            record
            for record in client.hours.listing(chosen, dataset).records
            if everything or (record.project_id, record.namespace_id) in scope
        ]
    if as_json:
        for record in records:
            _show(record, "ndjson")
        return
    terminal.OUT.print(f"{moment_text(chosen)} UTC", style="bold")
    terminal.show(
        ("identifier", "version", "modified", "bytes"),
        [(r.identifier, r.version, r.date_modified, r.approximate_bytes) for r in records],
    )


@click.command()
@click.argument("name")
@functools.partial(answered, Kind.ARTICLES)
def article(client: EnterpriseClient, asked: Query, name: str) -> Listing[Record]:
    """Look up the current state of the article NAME in all projects. Costs one unit of on-demand quota.

    NAME is the exact, case-sensitive title with its namespace prefix (for example Category:Physics). Redirects are not
    resolved. Without --project or --language, the service chooses the projects in the response.
    """
    return client.lookups.articles(name, asked)


@click.command()
@click.argument("name")
@functools.partial(answered, Kind.STRUCTURED)
def structured(client: EnterpriseClient, asked: Query, name: str) -> Listing[Record]:
    """Look up the structured contents of the article NAME: infoboxes, sections and tables. Costs one unit of quota.

    NAME is the exact title, as in `wme article`. --filter applies to the article's record, and --fields applies to the
    structured contents.
    """
    return client.lookups.structured(name, asked)


@click.command()
@click.argument("identifier", metavar="ID")
@click.option("--labels", is_flag=True, help="Show only the labels, in all languages.")
@functools.partial(answered, Kind.ENTITY)
def entity(client: EnterpriseClient, asked: Query, identifier: str, *, labels: bool) -> Listing[Record]:
    """Look up the Wikidata item or property ID, for example Q42 or P31. Costs one unit of on-demand quota."""
    kind = "labels" if labels else "properties" if identifier.upper().startswith("P") else "items"
    return client.lookups.entity(kind, identifier, asked)
