"""Fields that go beyond the declaration: counted by path, with an example, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.lake.decode.strict import unknown_fields
from resources.lake.decode.strict_json import text_of
from resources.lake_files import Drift

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resources.lake.decode.record_schema import Node

#: Paths that are counted separately, the first in alphabetical order. Identifiers as keys would give a path per record.
PATHS_MAX = 1_000
#: The path under which all others are counted.
OTHERS = "(other fields)"
_LENGTH = 200


@dataclass
class _Seen:
    count: int
    line: int
    example: str


class DriftCount:
    """The fields seen so far. The order of the calls makes no difference to the result."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._others = 0

    def add(self, extra: dict[str, Any], root: Node, line: int) -> None:
        """Count what one line holds beyond its declared form; the first line gives the example."""
        for path, value in unknown_fields(extra, root):
            self._count(_cut(path), line, value)

    def merge(self, found: Iterable[Drift]) -> None:
        """Add the counts of later lines."""
        for drift in found:
            if drift.path == OTHERS:
                self._others += drift.count
            elif (seen := self._seen.get(drift.path)) is not None:
                seen.count += drift.count
            else:
                self._seen[drift.path] = _Seen(drift.count, 0, drift.example)
        self._forget(2 * PATHS_MAX)

    def _count(self, path: str, line: int, value: Any) -> None:
        seen = self._seen.get(path)
        if seen is None:
            self._seen[path] = _Seen(1, line, _cut(text_of(value)))
            self._forget(2 * PATHS_MAX)
            return
        seen.count += 1
        if line < seen.line:
            seen.line, seen.example = line, _cut(text_of(value))

    def _forget(self, limit: int) -> None:
        """Keep only the first paths if there are more than `limit`. No later path can bring back a dropped one."""
        if len(self._seen) > limit:
            for path in sorted(self._seen)[PATHS_MAX:]:
                self._others += self._seen.pop(path).count

    def result(self) -> list[Drift]:
        """Return the unknown fields by path."""
        self._forget(PATHS_MAX)
        found = [Drift(path, seen.count, seen.example) for path, seen in sorted(self._seen.items())]
        return [*found, Drift(OTHERS, self._others, '"…"')] if self._others else found


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"
