"""Lookups on demand: what the service has at this moment of one title, or of one entity of Wikidata.

Source: the service's reference for on-demand articles, structured contents and Wikidata. Each costs a unit of
`ondemand`, also one that finds nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, TypeAdapter

from resources.datasets import LOOKUPS
from resources.enterprise import endpoints, errors, models
from resources.enterprise.http.workarounds import guarded
from resources.enterprise.query import UNPAIRED, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.enterprise.data_api import DataApi
    from resources.enterprise.listing import Listing
    from resources.enterprise.query import Query


_MOST: Final = Field(max_length=models.LONGEST_LIST, fail_fast=True)
_RECORDS: Final = TypeAdapter(Annotated[tuple[models.Record, ...], _MOST])
#: One object where the texts of the service say so, and an array where its description does.
_RECORD_OR_LIST: Final = TypeAdapter(models.Record | list[models.Record])
#: No wiki allows them in a title.
_ILLEGAL = re.compile(r"[#<>\[\]{}|\x00-\x1f\x7f]")
_LONGEST_TITLE: Final = 512  # bytes: 255 of the title, and the prefix of its namespace
_ENTITY: Final = {"items": r"Q[1-9]\d{0,9}", "properties": r"P[1-9]\d{0,9}", "labels": r"[QP][1-9]\d{0,9}"}


@guarded
class Lookups:
    """Lookups on demand. Each costs one unit of `ondemand`, also if it finds nothing. Safe for several threads."""

    def __init__(self, api: DataApi) -> None:
        self._api = api
        self.redactor = api.redactor

    def articles(self, name: str, query: Query | None = None) -> Listing[models.Record]:
        """Look up the articles of that title, one of each project that has one (`/v2/articles/{name}`).

        The limit is 3 by default and 10 at most. The order of projects under the limit is undefined: filter by
        `is_part_of.identifier` to be exact.

        Raises:
            NotFound: No project has an article of exactly that title; the unit is spent.
            QuotaExceeded: The account has no lookup left.
            InvalidRequest: The title or the query cannot be right; nothing was sent, no unit is spent.
        """
        return self._titled(name, endpoints.article, query, Kind.ARTICLES)

    def structured(self, name: str, query: Query | None = None) -> Listing[models.Record]:
        """Look up the structured contents of that title (`/v2/structured-contents/{name}`).

        A record has the form of an article (`article_body`) where the service could not parse its page.

        Raises:
            EnterpriseError: As for `articles`.
        """
        return self._titled(name, endpoints.structured, query, Kind.STRUCTURED)

    def entity(self, kind: str, identifier: str, query: Query | None = None) -> Listing[models.Record]:
        """Look up an entity of Wikidata (`/v2/wikidata/{kind}/{identifier}`).

        Args:
            kind: `items`, `properties` or `labels`.
            identifier: For example `Q42` or `P31`.
            query: Its `fields`.

        Raises:
            EnterpriseError: As for `articles`.
        """
        if kind not in _ENTITY:
            raise errors.InvalidRequest(
                f"Wikidata has no {kind!r} to look up. Nothing was sent. Write one of {', '.join(_ENTITY)}."
            )
        if not re.fullmatch(_ENTITY[kind], identifier, re.ASCII):
            meant = identifier.strip().upper()
            example = "P31" if kind == "properties" else "Q42"
            raise errors.InvalidRequest(
                f"{identifier[:100]!r} is not an identifier of Wikidata's {kind}. Nothing was sent. Write it as "
                f"{meant if re.fullmatch(_ENTITY[kind], meant, re.ASCII) else example}."
            )
        try:
            return self._ask(
                endpoints.entity(kind, identifier), _RECORD_OR_LIST, f"look up {identifier}", query, Kind.ENTITY
            )
        except errors.NotFound:
            pass
        raise errors.NotFound(
            f"The service has no {identifier} among Wikidata's {kind}. Nothing was changed; the lookup cost a unit. "
            "Entities that were merged or deleted are gone, and scholarly articles are not served.",
            status=404,
        )

    def _titled(self, name: str, path: Callable[[str], str], query: Query | None, kind: Kind) -> Listing[models.Record]:
        _check_title(name)
        try:
            return self._ask(path(name), _RECORDS, f"look up {name!r}", query, kind)
        except errors.NotFound:
            filtered = " that passes the filters" if query is not None and query.filters else ""
        raise errors.NotFound(
            f"No project has an article called {name!r}{filtered}. Nothing was changed; the lookup cost a unit. Titles "
            "are exact and case-sensitive, with the prefix of their namespace (Template:...), and redirects are not "
            "resolved.",
            status=404,
        )

    def _ask(self, path: str, form: TypeAdapter[Any], doing: str, query: Query | None, kind: Kind) -> Listing[Any]:
        return self._api.listing(
            path, form, doing, query, kind=kind, quota=LOOKUPS.quota, longest=self._api.limits.lookup_bytes
        )


def _check_title(name: str) -> None:
    problem = None
    if name.strip(" _") == "" or name in {".", ".."}:
        problem = "is not a title", "Write the title as the article has it"
    elif found := _ILLEGAL.search(name):
        problem = f"contains {found[0]!r}, which no title can", "Leave out sections (#) and markup"
    elif UNPAIRED.search(name):
        problem = "is not in UTF-8", "Check the character set of the terminal or of the file that it comes from"
    elif len(name.encode()) > _LONGEST_TITLE:
        problem = "is longer than any title", "Write the title alone"
    if problem is not None:
        raise errors.InvalidRequest(
            f"{name[:100]!r} {problem[0]}. Nothing was sent, and no unit was spent. {problem[1]}."
        )
