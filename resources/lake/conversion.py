"""Identity of a conversion, with its digest, file paths and result."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from resources.datasets import datasets
from resources.lake.archive.buffers import RECORD_BYTES_MAX
from resources.lake.archives import Archive, Layout
from resources.lake.decode.strict import DriftCount
from resources.lake.errors import ConversionError
from resources.lake.rejects import lines_file
from resources.lake_files import ConvertedFile, Drift
from resources.storage import UNREADABLE, read_footer
from resources.tables import REJECTED_LINES, Table, version_of

#: Converter version. Increment this number when the same archive would produce different rows. Every file's digest
#: includes this number, so files from an older converter are converted again.
CONVERTER_VERSION = 4
#: Key of the conversion's facts in a Parquet file's metadata.
METADATA_KEY = "conversion"
_CONVERTED = TypeAdapter(ConvertedFile)


def describe(facts: dict[str, Any], archive: Archive, layout: Layout, seconds: float | None) -> ConvertedFile:
    """Return the converted file described by its metadata `facts`. `seconds` is None if the file already existed."""
    target, rejects_target = targets(archive, layout, facts["digest"])
    known = {
        "path": target,
        "rejects_path": rejects_target if facts["reject_count"] else None,
        "batch_hour": archive.batch_hour,
        "source_at": archive.source_at,
        "lake_bytes": layout.storage.size(target),
        "seconds": seconds or 0.0,
        "converted": seconds is not None,
    }
    return _CONVERTED.validate_python(facts | known)


def digest_of(archive: Archive, bodies: frozenset[str] | None = None, record_bytes_max: int = RECORD_BYTES_MAX) -> str:
    """Return a hex digest of all inputs that affect rows: archive, tables, converter, bodies and record limit."""
    parts = [archive.identifier, archive.version, *_made_by(archive.table), sorted(bodies_kept(archive.table, bodies))]
    if archive.snapshot_version:
        parts.append(archive.snapshot_version)
    if record_bytes_max != RECORD_BYTES_MAX:
        parts.append(record_bytes_max)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def conversion_version(table: Table) -> str:
    """Return a short hash of a table's declaration and the converter version."""
    return hashlib.sha256(json.dumps(_made_by(table)).encode()).hexdigest()[:16]


def _made_by(table: Table) -> tuple[int | str, int]:
    return version_of(table, REJECTED_LINES), CONVERTER_VERSION


def bodies_kept(table: Table, bodies: frozenset[str] | None) -> frozenset[str]:
    """Return the body columns in `bodies` (None selects all). Raises ConversionError for unknown names."""
    if bodies is None or bodies == table.bodies:
        return table.bodies
    known = frozenset[str]().union(*(one.table.bodies for one in datasets()))
    if unknown := bodies - known:
        raise ConversionError(
            f"Unknown bodies: {', '.join(sorted(unknown))}. Known bodies are {', '.join(sorted(table.bodies))}."
        )
    return table.bodies & bodies


def targets(archive: Archive, layout: Layout, digest: str) -> tuple[Path, Path]:
    """Return the file paths for rows and for rejects."""
    return archive.lake_file(layout, archive.table.name, digest), archive.lake_file(layout, REJECTED_LINES.name, digest)


def find_conversion(
    archive: Archive, layout: Layout, bodies: frozenset[str] | None = None, record_bytes_max: int = RECORD_BYTES_MAX
) -> ConvertedFile | None:
    """Return the earlier conversion whose file metadata contains the same digest, or None if there is none.

    An unreadable file is treated as missing, so the next conversion replaces it. Data pages are not read.
    """
    target, rejects_target = targets(archive, layout, digest_of(archive, bodies, record_bytes_max))
    try:
        facts = json.loads(read_footer(target, layout.storage).metadata[METADATA_KEY.encode()])
        found = describe(facts, archive, layout, seconds=None)
        if target != found.path:
            return None  # the metadata describes another archive
        # rows can be loaded only together with their rejects and long lines
        if found.reject_count and read_footer(rejects_target, layout.storage).num_rows != found.reject_count:
            return None
        if facts["has_long_lines"]:
            layout.storage.size(lines_file(rejects_target))
    except (*UNREADABLE, KeyError, TypeError):
        return None
    return found


def drift_of(conversions: Iterable[ConvertedFile]) -> list[Drift]:
    """Return the undeclared fields from several conversions, with one entry per path, most frequent first."""
    found = DriftCount()
    for conversion in conversions:
        found.merge(conversion.drift)
    return sorted(found.result(), key=lambda drift: (-drift.count, drift.path))
