"""Converting an archive again whose file exists: a damaged file is replaced, and any other one stays.

A file's name holds the digest of all that decides its rows. The ledger, DuckDB's tables and the published file rely on
its rows by number, so no file may be replaced by one with other rows. The archive is converted in a scratch folder, and
the result is compared. If the rows are equal, the file stays. A file that cannot be read is replaced by a rename, so
that readers always see a complete file. Other rows are a defect, and nothing is changed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from resources import files
from resources.damage import UNREADABLE
from resources.lake.conversion import find_conversion, targets
from resources.lake.errors import ConversionError
from resources.lake.layout import Layout
from resources.lake.parquet.writer import UNFINISHED
from resources.lake.rejects import lines_file
from resources.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resources.lake.archives import Archive
    from resources.lake.converter import Converter
    from resources.lake_files import ConvertedFile
    from resources.storage import Storage

#: Rows that are compared at a time, bodies and all.
_ROWS = 256
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class _ScratchLayout(Layout):
    """The layout of a data folder with a local scratch folder for its lake."""

    scratch: Path = field(kw_only=True)

    @property
    def lake(self) -> Path:
        return self.scratch


def convert_again(
    converter: Converter,
    archive: Archive,
    layout: Layout,
    *,
    bodies: frozenset[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[ConvertedFile, bool]:
    """Convert an archive even if its file exists.

    Returns the conversion, and True if a damaged file was replaced. Rows that were loaded from a damaged file may be
    damaged too: load the new file after a replacement.

    Raises:
        ConversionError: The file that is there is whole and has other rows; nothing was changed.
        ArchiveError: As by `Converter.convert`, as are all others.
    """
    with _folder(layout) as beside:
        made = converter.convert(archive, beside, bodies=bodies, progress=progress)
        # in the order in which they may appear: visible rows rely on their rejects, and these on their lines
        old, new = (
            (lines_file(rejects), rejects, rows)
            for rows, rejects in (targets(archive, place, made.digest) for place in (layout, beside))
        )
        storage = layout.storage
        is_there = storage.exists(old[-1])
        if is_there and (other := next((a for a, b in zip(old, new, strict=True) if _differs(a, b, storage)), None)):
            raise ConversionError(
                f"{archive.path} was converted again and gave other rows than {other} holds, which is whole and of the "
                "same converter. Nothing was changed. The converter was changed and its version was not: raise "
                "CONVERTER_VERSION in resources/lake/conversion.py (a release does) and convert it again."
            )
        landed = [a for a, b in zip(old, new, strict=True) if b.exists() and not _is_same(a, b, storage)]
        for a, b in zip(old, new, strict=True):
            if a in landed:
                if a.is_dir():
                    files.set_aside(a)
                storage.put(b, a)
    known = find_conversion(archive, layout, bodies, converter.record_bytes_max)
    if known is None:
        raise ConversionError(f"{old[-1]} was removed while its archive was converted. Convert it again.")
    if landed:
        known = replace(known, seconds=made.seconds, converted=True)
    return known, bool(landed and is_there)


@contextmanager
def _folder(layout: Layout) -> Iterator[_ScratchLayout]:
    """Create a scratch folder for a lake's files, locked while in use so that `sweep` removes it after a kill."""
    folder = layout.lake / f"again.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}"
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        files.take(handle)
        yield _ScratchLayout(layout.root, scratch=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _is_same(old: Path, new: Path, storage: Storage) -> bool:
    """Return whether the existing file is correct."""
    return storage.exists(old) and (
        _has_same_bytes(old, new, storage) or (old.suffix == ".parquet" and _agree(old, new, storage) is True)
    )


def _differs(old: Path, new: Path, storage: Storage) -> bool:
    """Return whether the existing file is undamaged and has other rows."""
    if old.suffix != ".parquet" or not storage.exists(old):
        return False
    return not new.exists() or (not _has_same_bytes(old, new, storage) and _agree(old, new, storage) is False)


def _has_same_bytes(old: Path, new: Path, storage: Storage) -> bool:
    try:
        with storage.open(old) as one, LOCAL.open(new) as other:
            if one.size() != other.size():
                return False
            return all(a == b for a, b in iter(lambda: (one.read(_READ_BYTES), other.read(_READ_BYTES)), (b"", b"")))
    except UNREADABLE:
        return False


def _agree(old: Path, new: Path, storage: Storage) -> bool | None:
    """Return whether two files hold the same rows in the same order; None if the first one is damaged."""
    with pq.ParquetFile(new) as right:
        try:
            with (
                storage.open(old) as source,
                pq.ParquetFile(source, page_checksum_verification=True) as left,
            ):
                is_alike = True
                # all of the first file is read: a damaged page after a difference is damage
                for a, b in zip_longest(left.iter_batches(_ROWS), right.iter_batches(_ROWS)):
                    is_alike &= a is not None and b is not None and a.equals(b)
                return is_alike
        except UNREADABLE:
            return None
