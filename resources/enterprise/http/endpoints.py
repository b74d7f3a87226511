"""Paths of the service: arithmetic from a dataset, an hour or an identifier to a path.

Source: the service's reference for metadata (`/v2/codes` ...), realtime batches (`/v2/batches/{date}/{hour}`) and
snapshots (`/v2/snapshots`).
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING
from urllib.parse import quote

from resources.enterprise.errors import InvalidRequest
from resources.enterprise.query import UNPAIRED

if TYPE_CHECKING:
    from datetime import datetime

    from resources.datasets import Dataset

LOGIN = "/v1/login"
TOKEN_REFRESH = "/v1/token-refresh"  # noqa: S105  a path
TOKEN_REVOKE = "/v1/token-revoke"  # noqa: S105  a path
FORGOT_PASSWORD = "/v1/forgot-password"  # noqa: S105  a path
FORGOT_PASSWORD_CONFIRM = "/v1/forgot-password-confirm"  # noqa: S105  a path
CHANGE_PASSWORD = "/v1/change-password"  # noqa: S105  a path
NEW_PASSWORD_REQUIRED = "/v1/new-password-required"  # noqa: S105  a path
GET_USER = "/v1/get-user"
ARTICLE_STREAM = "/v2/articles"
ENTITY_STREAM = "/v2/wikidata"


def reference(kind: str) -> str:
    """Path of a reference list: `codes`, `languages`, `projects` or `namespaces`."""
    return f"/v2/{kind}"


def records(dataset: Dataset) -> str:
    """Path of the list of all records of a reference list, or of all snapshots."""
    return f"/v2/{dataset.endpoint}"


def hourly(dataset: Dataset, hour: datetime) -> str:
    """Path of the list of an hour's files; the service writes dates and hours in UTC, two digits each.

    Raises:
        InvalidRequest: The hour has no time zone, or is not the start of one.
    """
    if hour.tzinfo is None:
        raise InvalidRequest(
            f"The hour {hour.isoformat()} has no time zone, so it could be any of 24. Nothing was sent. Pass an aware "
            "datetime in UTC."
        )
    hour = hour.astimezone(UTC)
    if hour.minute or hour.second or hour.microsecond:
        raise InvalidRequest(
            f"{hour.isoformat()} is not the start of an hour in UTC. Nothing was sent. Pass the moment the hour begins."
        )
    return f"{records(dataset)}/{hour:%Y-%m-%d}/{hour:%H}"


def record(listing: str, identifier: str | int) -> str:
    """Path of one record, given the path of the list that it is in.

    Raises:
        InvalidRequest: The identifier would lead to another path, or cannot be sent.
    """
    if identifier in {"", ".", ".."} or UNPAIRED.search(str(identifier)):
        raise InvalidRequest(
            f"{identifier!r} is the identifier of no record. Nothing was sent. Write it as the list has it."
        )
    return f"{listing}/{quote(str(identifier), safe='')}"


def article(name: str) -> str:
    """Path of the lookup of articles by title; a slash of the title is escaped like all that is not a letter."""
    return f"/v2/articles/{quote(name, safe='')}"


def structured(name: str) -> str:
    """Path of the lookup of structured contents by title."""
    return f"/v2/structured-contents/{quote(name, safe='')}"


def entity(kind: str, identifier: str) -> str:
    """Path of a lookup of Wikidata: `items`, `properties` or `labels`, and the identifier."""
    return f"/v2/wikidata/{kind}/{quote(identifier, safe='')}"


def chunks(snapshot: str) -> str:
    """Path of the list of a snapshot's chunks, given the snapshot's own path."""
    return f"{snapshot}/chunks"


def download(record: str) -> str:
    """Path of the download of a file, given the path of its record."""
    return f"{record}/download"
