"""What commands that show records of the service have in common: the options of a query, and the forms of an answer."""

from __future__ import annotations

import functools
import json
import math
import sys
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli import terminal
from resources.formatting import value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from resources.enterprise import Query
    from resources.enterprise.models import Record

#: Characters of a text, members of an array, and lines of a record that are shown to people.
_LONGEST_TEXT, _MOST_MEMBERS, _MOST_LINES = 300, 6, 200


def queried(*, filters: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options `--fields` and, for lists, `--filter`; the command is given `fields` and `filters`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        if filters:
            command = click.option(
                "--filter",
                "filters",
                multiple=True,
                metavar="FIELD=VALUE",
                help="Only records with this value, for example in_language.identifier=en; can be repeated. Numbers, true, false and null "
                "are JSON values; write them in quotes ('\"0\"') to compare with a text.",
            )(command)
        return click.option(
            "--fields",
            multiple=True,
            metavar="NAMES",
            help="Show only these fields: dotted names, separated by commas; can be repeated.",
        )(command)

    return decorate


def answered(command: Callable[..., None]) -> Callable[..., None]:
    """The options `--json` and `--ndjson`; the command is given `form`: one of them, or `text` for people."""

    @click.option(
        "--json", "as_json", is_flag=True, help="Print the answer as one JSON document, as the service sends it."
    )
    @click.option(
        "--ndjson",
        "as_lines",
        is_flag=True,
        help="Print one JSON object per line. Default if the output is not a terminal.",
    )
    @functools.wraps(command)
    def asked(*, as_json: bool, as_lines: bool, **options: Any) -> None:
        if as_json and as_lines:
            raise click.UsageError("--json and --ndjson exclude each other.")
        form = "json" if as_json else "ndjson" if as_lines or not sys.stdout.isatty() else "text"
        command(form=form, **options)

    return asked


def query(
    fields: Iterable[str] = (), filters: Iterable[str] = (), limit: int | None = None, **equal: str | None
) -> Query:
    """The query of these options; `equal` has further filters, `__` in a name being a dot, None being none."""
    from resources.enterprise import Filter, Query

    conditions = [Filter(name.replace("__", "."), value) for name, value in equal.items() if value is not None]
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(
                f"--filter is {text!r}; write it as FIELD=VALUE, for example in_language.identifier=en."
            )
        conditions.append(Filter(name, _value(value)))
    names = tuple(name.strip() for text in fields for name in text.split(",") if name.strip())
    return Query(fields=names, filters=tuple(conditions), limit=limit)


def _value(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    # Python reads NaN, Infinity and 1e999 too; they are no values of JSON
    is_value = math.isfinite(found) if isinstance(found, float) else not isinstance(found, dict | list)
    return found if is_value else text


def show(raw: bytes, form: str) -> None:
    """An answer of the service: as it is, a line for each record, or for people, a block for each."""
    if form == "json":
        terminal.echo(raw.decode().rstrip("\n"))
        return
    found = json.loads(raw)
    for number, record in enumerate(found if isinstance(found, list) else [found]):
        if form == "ndjson":
            terminal.echo(json.dumps(record, ensure_ascii=False))
            continue
        if number:
            terminal.OUT.print()
        _show_block(record)


def show_record(record: Record, form: str) -> None:
    """One record in the same forms."""
    show(json.dumps(record.model_dump(mode="json", exclude_unset=True), ensure_ascii=False).encode(), form)


def _show_block(record: Any) -> None:
    lines = [line for line, _ in zip(_lines(record, ""), range(_MOST_LINES + 1), strict=False)]
    width = max((len(name) for name, _ in lines[:_MOST_LINES]), default=0)
    for name, text in lines[:_MOST_LINES]:
        terminal.say(value_text(f"{name:<{width}}  {text}"))
    if len(lines) > _MOST_LINES:
        terminal.say("... --json prints all of it.")


def _lines(value: Any, name: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _lines(below, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value:
        for number, member in enumerate(value[:_MOST_MEMBERS]):
            yield from _lines(member, f"{name}.{number}")
        if len(value) > _MOST_MEMBERS:
            yield name, f"... {len(value):,} in all"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        cut = f"... ({len(text):,} characters)" if len(text) > _LONGEST_TEXT else ""
        yield name, " ".join(text[:_LONGEST_TEXT].split()) + cut
