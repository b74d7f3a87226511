"""Query parameters (`fields`, `filters` and `limit`), validated before a request is sent.

The service silently accepts most invalid parameters and returns all records or none. This module refuses such requests,
and its messages show the correct spelling. A stream's field names are not checked, because the service refuses invalid
names at no cost.

Source: the service's filtering reference. If the public source code from 2025 differs, the stricter rule applies.
"""

import enum
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from resources.enterprise.errors import InvalidRequest

Scalar = str | int | float | bool | None

_MOST_CHARACTERS: Final = 255
_HIGHEST_LIMIT: Final = 10
#: Code points that represent non-UTF-8 bytes on a command line.
UNPAIRED = re.compile(r"[\ud800-\udfff]")
_NAME = re.compile(r"[\w-]+(\.([\w-]+|#))*(\.\*)?|\*")
_DATES = re.compile(r"date_\w+|expiry|last_revised|since")
#: Arrays of objects in article records. Requests for fields of array members use `#` as a separator.
_ARRAYS: Final = frozenset({"protection", "additional_entities", "categories", "templates", "redirects", "license"})
_PARTS: Final = frozenset({"infoboxes", "sections", "references", "tables"})
#: Field names in the streams' schema, mapped to their JSON names.
_IN_JSON: Final = {"sizes": "size", "contentUrl": "content_url", "truthy": "true", "falsy": "false"}
#: Field names used before 2025, mapped to their current names.
_RENAMED: Final = {"infobox": "infoboxes", "article_sections": "sections"}
#: Streams format numbers differently from this value upward, so filters with such numbers never match.
_COMPARABLE: Final = 1_000_000


class Kind(enum.Enum):
    """Kinds of endpoints, distinguished by their supported query parameters. Messages use the value as the name."""

    LIST = "a list"
    RECORD = "a single record"
    ARTICLES = "a lookup of articles"
    STRUCTURED = "a lookup of structured contents"
    ENTITY = "a lookup of Wikidata"
    STREAM = "a stream"

    @property
    def has_filters(self) -> bool:
        return self not in {Kind.RECORD, Kind.ENTITY}

    @property
    def has_limit(self) -> bool:
        return self in {Kind.ARTICLES, Kind.STRUCTURED}


@dataclass(frozen=True)
class Filter:
    """An equality condition on a field, identified by its dotted name. The service supports no other comparisons."""

    field: str
    value: Scalar


@dataclass(frozen=True)
class Query:
    """Selection of records and fields, and the HTTP method of the request.

    Attributes:
        fields: Dotted names of the requested fields, for example `("name", "version.identifier")`. If empty, all fields
            are returned.
        filters: `Filter` objects that must all match, or a mapping from fields to values.
        limit: Maximum number of records. Only title lookups support a limit (default 3, at most 10).
        method: `POST` sends the query as a JSON body, as the vendor recommends. `GET` sends the query in the URL.

    Raises:
        InvalidRequest: The service would ignore or refuse the query.
    """

    fields: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = field(default=())
    limit: int | None = None
    method: Literal["POST", "GET"] = "POST"

    def __post_init__(self) -> None:
        fields: Any = self.fields
        if isinstance(fields, str):
            _refuse("`fields` is a single string", f"Use a tuple: {_tuple(fields.split(','))}")
        object.__setattr__(self, "fields", tuple(fields))
        for name in self.fields:
            _check_spelling("fields", name)
        given: Any = self.filters
        if isinstance(given, Mapping):
            if set(given) == {"field", "value"}:
                _refuse("`filters` is a single object", f"Use {{{given['field']!r}: {given['value']!r}}}")
            given = [Filter(name, value) for name, value in given.items()]
        object.__setattr__(self, "filters", tuple(given))
        for one in self.filters:
            if not isinstance(one, Filter):
                _refuse(f"`filters` contains {one!r}", 'Write each filter as Filter("in_language.identifier", "en")')
            _check_spelling("filters", one.field)
            _check_value(one)

    def check(self, kind: Kind) -> None:
        """Raise InvalidRequest for parameters that this kind of endpoint does not support."""
        if self.limit is not None and not kind.has_limit:
            _refuse(f"{kind.value} does not support `limit` and would ignore it", "Remove the limit")
        if self.limit is not None and not 1 <= self.limit <= _HIGHEST_LIMIT:
            _refuse(f"`limit` is {self.limit}", f"Use a number from 1 to {_HIGHEST_LIMIT}; the default is 3")
        if self.filters and not kind.has_filters:
            _refuse(f"{kind.value} does not support `filters` and would ignore them", "Remove the filters")
        if kind is Kind.STREAM:
            for one in self.filters:
                value = one.value
                if isinstance(value, int | float) and (isinstance(value, float) or abs(value) >= _COMPARABLE):
                    _refuse(
                        f"the filter on `{one.field}` has the value {value}, but streams match only integers below "
                        f"{_COMPARABLE:,}, so no events would arrive",
                        "Filter the received events",
                    )
            return
        for name in (*self.fields, *(condition.field for condition in self.filters)):
            pieces = name.split(".")
            # an image's thumbnail uses this name in JSON as well
            if not _IN_JSON.keys().isdisjoint(pieces) and "thumbnail" not in pieces:
                right = ".".join(_IN_JSON.get(piece, piece) for piece in pieces)
                _refuse(f"`{name}` is a field name for streams, which {kind.value} would ignore", f"Use {right!r}")
        for name in self.fields:
            _check_field(name, kind)
        if kind is Kind.LIST:
            for condition in self.filters:
                _check_listed(condition)
        if kind is Kind.STRUCTURED and {name.split(".")[0] for name in self.fields} == {"tables"}:
            _refuse(
                "`tables` requires another field, otherwise the response has no tables", 'Use ("sections", "tables")'
            )

    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.fields:
            found["fields"] = list(self.fields)
        if self.filters:
            found["filters"] = [{"field": one.field, "value": one.value} for one in self.filters]
        if self.limit is not None:
            found["limit"] = self.limit
        return found

    def parameters(self) -> list[tuple[str, str]]:
        """Return the parameters of a GET request. Each field and each filter is a separate parameter."""
        found = [("fields", name) for name in self.fields]
        found += [("filters", json.dumps(one, ensure_ascii=False)) for one in self.body().get("filters", ())]
        return found + ([("limit", str(self.limit))] if self.limit is not None else [])


def _check_spelling(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name or len(name) > _MOST_CHARACTERS:
        _refuse(f"`{what}` contains {name!r:.300}", f"Field names are strings of 1 to {_MOST_CHARACTERS} characters")
    if "," in name:
        _refuse(f"`{what}` contains {name!r}, which the service reads as one name", f"Use {_tuple(name.split(','))}")
    if not _NAME.fullmatch(name):
        right = re.sub(r"\[([\w-]*)\]", r".\1", name).strip(". ")
        hint = f"Use {right!r}" if _NAME.fullmatch(right) and right != name else "Separate names by dots"
        _refuse(f"`{what}` contains {name!r}, which is not a field name", f"{hint}, for example 'version.identifier'")


def _check_value(one: Filter) -> None:
    value = one.value
    if isinstance(value, list | tuple | set | frozenset):
        _refuse(
            f"the filter on `{one.field}` has {len(value)} values, but the service supports only one",
            "Send a separate request for each value, or filter the response",
        )
    if not (value is None or isinstance(value, str | int | float)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        _refuse(
            f"the filter on `{one.field}` has the value {value!r:.100}", "Use a string, a number, true, false or null"
        )
    if isinstance(value, str) and UNPAIRED.search(value):
        _refuse(
            f"the filter on `{one.field}` has the value {value!r:.100}, which is not valid UTF-8",
            "Check the character encoding of the terminal or the input file",
        )
    if _DATES.fullmatch(one.field.rpartition(".")[2]):
        _refuse(
            f"the filter on `{one.field}` compares a date, but filters support only exact equality, not `<` or `>`",
            "Filter the response by date",
        )


def _check_field(name: str, kind: Kind) -> None:
    """Refuse a field that this kind of endpoint would omit or return empty."""
    if kind in {Kind.LIST, Kind.RECORD} and name.endswith(".*"):
        _refuse(f"`{name}` would be ignored", f"Use {name.removesuffix('.*')!r} to request the complete object")
    top, _, rest = name.removesuffix(".*").partition(".")
    if kind is Kind.STRUCTURED and top in _RENAMED:
        right = ".".join(filter(None, (_RENAMED[top], rest)))
        _refuse(f"`{name}` is an old field name, which the service has ignored since 2025", f"Use {right!r}")
    is_article = kind in {Kind.ARTICLES, Kind.STRUCTURED}
    if is_article and top in _ARRAYS | _PARTS and rest and not re.match(r"#|\d", rest):
        _refuse(f"`{top}` is an array, so `{name}` would be empty in the response", f"Use {f'{top}.#.{rest}'!r}")


def _check_listed(one: Filter) -> None:
    """Refuse a filter that a list would ignore, or would not evaluate as an equality condition."""
    value, what = one.value, f"the filter on `{one.field}`"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or isinstance(value, bool):
        _refuse(f"{what} has the value {json.dumps(value)}, which lists ignore", "Use a string")
    if is_number and "namespace.identifier" not in one.field:
        _refuse(
            f"{what} compares a number, and lists may evaluate it as `>`",
            "Use a string, or filter the response; only `namespace.identifier` is compared for equality",
        )
    if isinstance(value, float):
        _refuse(f"{what} has the value {value}", f"Use {value:.0f}")
    if isinstance(value, str) and "namespace.identifier" in one.field:
        _refuse(f"{what} compares a number with a string", f"Write {value} without quotes")
    if isinstance(value, str) and "'" in value:
        _refuse(f"{what} contains a single quote, which lists do not support", "Filter the response")


def _tuple(names: list[str]) -> str:
    quoted = [f'"{name.strip()}"' for name in names if name.strip()]
    return f"({', '.join(quoted)}{',' if len(quoted) == 1 else ''})"


def _refuse(what: str, do: str) -> NoReturn:
    raise InvalidRequest(f"{what[0].upper()}{what[1:]}. Nothing was sent. {do}.")
