"""Paths of the service, and what of an hour or an identifier may stand in one.

Belongs here: pure arithmetic from an hour, a kind or an identifier to a path.
Does not belong here: requests.

Source: the service's reference for metadata (`/v2/codes` ...), realtime batches (`/v2/batches/{date}/{hour}`) and
snapshots (`/v2/snapshots`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import quote

from resources.enterprise.errors import InvalidRequest

ReferenceKind = Literal["codes", "languages", "projects", "namespaces"]

LOGIN = "/v1/login"
TOKEN_REFRESH = "/v1/token-refresh"  # noqa: S105  a path
TOKEN_REVOKE = "/v1/token-revoke"  # noqa: S105  a path
FORGOT_PASSWORD = "/v1/forgot-password"  # noqa: S105  a path
FORGOT_PASSWORD_CONFIRM = "/v1/forgot-password-confirm"  # noqa: S105  a path
CHANGE_PASSWORD = "/v1/change-password"  # noqa: S105  a path
NEW_PASSWORD_REQUIRED = "/v1/new-password-required"  # noqa: S105  a path
GET_USER = "/v1/get-user"

#: How long the service keeps the files of an hour.
BATCH_RETENTION = timedelta(hours=48)


def reference(kind: ReferenceKind) -> str:
    """Path of one of the four reference lists."""
    return f"/v2/{kind}"


def batches(hour: datetime) -> str:
    """Path of the list of an hour's batches; the service writes dates and hours in UTC, two digits each.

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
    return f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}"


def batch(hour: datetime, identifier: str) -> str:
    """Path of one batch of an hour."""
    return f"{batches(hour)}/{quote(identifier, safe='')}"


#: Path of the list of all snapshots.
SNAPSHOTS = "/v2/snapshots"


def snapshot(identifier: str) -> str:
    """Path of one snapshot."""
    return f"{SNAPSHOTS}/{quote(identifier, safe='')}"


def chunks(identifier: str) -> str:
    """Path of the list of a snapshot's chunks."""
    return f"{snapshot(identifier)}/chunks"


def chunk(identifier: str, chunk: str | int) -> str:
    """Path of one chunk, by its whole identifier or its number."""
    return f"{chunks(identifier)}/{quote(str(chunk), safe='')}"


def download(path: str) -> str:
    """Path of the download of a snapshot, chunk or batch, given its own path."""
    return f"{path}/download"


def product(path: str) -> str:
    """Which of the account's counters a path draws on, in the words of `get-user`.

    Of snapshots and chunks only the downloads are counted, not their records and lists. `batch` stands for everything
    that the service does not count today.
    """
    if path.startswith(("/v2/articles/", "/v2/structured-contents/")):
        return "ondemand"
    if path.startswith(f"{SNAPSHOTS}/") and path.endswith("/download"):
        return "chunk" if "/chunks/" in path else "snapshot"
    return "batch"
