"""What was published last, as written down beside it: by which words it is recognised."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from resources import files
from resources.warehouse.records import Publication

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path


class _Last(BaseModel):
    """Facts of the publication in a receipt."""

    published_at: AwareDatetime
    revision: int
    copied: str = ""


_LAST = TypeAdapter(_Last)


@dataclass(frozen=True)
class Receipt:
    """The receipt of `published_path`; lost or unreadable, it says nothing."""

    path: Path
    published_path: Path

    def holds(self, words: Mapping[str, Any]) -> bool:
        """Whether what is published is the file that was put there, and is recognised by these words."""
        try:
            return self._words().items() >= {**words, "file": self._mark()}.items()
        except FileNotFoundError:
            return False

    def says(self, words: Mapping[str, Any]) -> bool:
        """The same without a look at the file, which somebody may have replaced."""
        return self.last() is not None and self._words().items() >= words.items()

    def last(self) -> Publication | None:
        """The publication that analysts open now; None: there is none, or its receipt is lost."""
        try:
            last = _LAST.validate_python(self._words())
        except ValidationError:
            return None
        return Publication(**dict(last)) if self.published_path.exists() else None

    def write(self, words: Mapping[str, Any], now: datetime) -> None:
        """Remember the file that has just been put there."""
        known = {**words, "file": self._mark(), "published_at": now.isoformat()}
        files.write(self.path, json.dumps(known).encode())

    def _words(self) -> dict[str, Any]:
        return files.read_cache(self.path, files.JSON_OBJECT) or {}

    def _mark(self) -> list[int]:
        """Tells whether the published file is still the one that was put there."""
        found = self.published_path.stat()
        return [found.st_ino, found.st_size, found.st_mtime_ns]
