"""The forms that words of a call have: an hour, a snapshot's name, a project's.

Belongs here: types of parameters that more than one command could take. Does not belong here: options of one command.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click


class _Hour(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An hour (UTC) as people, the tables of this program or Dagster's partition keys write it."""

    name = "hour"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The start of the hour."""
        found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T -](\d\d)(:00(:00)?)?Z?", str(value))
        try:
            return datetime.fromisoformat(f"{found[1]}T{found[2]}:00+00:00" if found else "")
        except ValueError:
            self.fail(f"{str(value)!r} is not an hour; write it as 2026-11-20T05 (UTC).", param, ctx)


class _Identifier(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The service's name of a snapshot; it becomes the name of a folder."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(value)):
            self.fail(f"{str(value)!r} names no snapshot; write it as enwiki_namespace_0.", param, ctx)
        return str(value)


class _Project(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The database name of a project."""

    name = "project"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        if not re.fullmatch(r"[a-z0-9_]+", str(value)):
            self.fail(f"{str(value)!r} names no project; write it as enwiki.", param, ctx)
        return str(value)


HOUR = _Hour()
PROJECT = _Project()
IDENTIFIER = _Identifier()
