"""Names of files in the archive and the lake: `<identifier>.<digits>.<kind of file>`.

The digits are the first ones of a version or digest, so that whatever is new has a name of its own, and a file is written
once and never replaced.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: Digits of a version or digest that stand in a name.
DIGITS = 8
ARCHIVE, SET, PARQUET, LINES = "tar.gz", "set.json", "parquet", "lines.gz"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NAME = re.compile(rf"({_SAFE.pattern})\.([A-Za-z0-9][A-Za-z0-9_-]{{{DIGITS - 1}}})\.(\w+\.\w+|\w+)")


class Name(NamedTuple):
    """A name, read: `digits` are the first ones of the version or digest, `kind` is what follows the last of them."""

    identifier: str
    digits: str
    kind: str

    @property
    def text(self) -> str:
        """The name as it stands on disk."""
        return ".".join(self)


def name_of(identifier: str, version: str, kind: str = ARCHIVE) -> str:
    """The name of a file, by default of an archive. Raises ValueError for what cannot be part of a name."""
    return Name(safe(identifier), short(version), kind).text


def parse(name: str) -> Name | None:
    """What `name_of` made a name of; None where it made no such name."""
    found = _NAME.fullmatch(name)
    return Name(*found.groups()) if found else None


def short(version: str) -> str:
    """The digits of a version or digest that stand in a name. Raises ValueError where there are too few."""
    if len(version) < DIGITS:
        raise ValueError(f"{version!r} is too short for a version or digest: at least {DIGITS} digits are needed.")
    return safe(version[:DIGITS])


def safe(name: str) -> str:
    """A name that came from outside and becomes part of a path. Raises ValueError where it cannot."""
    if not _SAFE.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a file name: letters, digits, '_', '-' and '.' can.")
    return name
