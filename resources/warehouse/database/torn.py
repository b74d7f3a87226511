"""Blocks of metadata that a kill tore, made whole.

What the header of a DuckDB file refers to is never written again before a newer header is, with one exception. A block of metadata
holds 64 parts; when a checkpoint needs a part, it takes a free one and writes the whole block again, in place. A process that is killed amid that
write leaves a block of which one half is old and the other new, and so does a loss of power. The parts that the header refers to
are the same in both halves. Only the checksum at the beginning of the block is not that of its bytes, and for this DuckDB refuses the file.

So the checksum is computed again, of a block that DuckDB refuses while it reads metadata, and only after somebody did not close the file: what is wrong
otherwise is damage of another kind, and stays refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from resources import files
from resources.warehouse.database.file_format import BLOCK_BYTES, HEADER_BYTES, checksum
from resources.warehouse.database.sql import quoted, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

_log = logging.getLogger(__name__)

_REFUSED: Final = re.compile(r"Corrupt database file: computed checksum .* in block at location (\d+)")


@contextlib.contextmanager
def noted(path: Path) -> Iterator[Torn]:
    """Note, in a file beside it, that a DuckDB file is open for writing; yields what is to be mended, if the last one did not close it.

    The note outlasts a loss of power. The caller holds the lock.
    """
    note = path.with_name(f"{path.name}.open")
    was_left_open = note.exists()
    if not was_left_open:
        note.touch()
        files.sync(note.parent)
    torn = Torn(path, was_left_open)
    try:
        yield torn
    finally:
        # whoever could not open it leaves the rest to the next one
        if not torn.was_left_open:
            note.unlink(missing_ok=True)


@dataclass
class Torn:
    """A file and whether it was left open and not looked at since; until then its torn blocks can be mended, each once."""

    path: Path
    was_left_open: bool
    mended: set[int] = field(default_factory=set)

    def look(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Read all metadata, which DuckDB reads only when it is needed, of a file that was left open.

        Raises:
            duckdb.Error: a block is torn.
        """
        if not self.was_left_open:
            return
        for (table,) in connection.execute(statement("database/tables")).fetchall():
            connection.execute(f"SELECT count(*) FROM pragma_storage_info({quoted(table)})").fetchall()  # noqa: S608  our own tables
        self.was_left_open = False

    def mend(self, error: duckdb.Error) -> bool:
        """Mend the block that DuckDB refuses; False: it was not torn, or DuckDB refuses something else. No connection may be open."""
        found = _REFUSED.search(str(error))
        if not self.was_left_open or found is None or (start := int(found[1])) in self.mended:
            return False
        with self.path.open("r+b") as file:
            block = os.pread(file.fileno(), BLOCK_BYTES, start)
            if (start - HEADER_BYTES) % BLOCK_BYTES or len(block) < BLOCK_BYTES:
                return False
            os.pwrite(file.fileno(), struct.pack("<Q", checksum(block)), start)
            os.fsync(file.fileno())
        self.mended.add(start)
        _log.warning(
            "A process was killed, or the power failed, while DuckDB wrote %s: the checksum of a block of metadata (at byte %s) was not "
            "that of its content. It is now. Everything that was committed is there.",
            self.path.name,
            f"{start:,}",
        )
        return True
