"""Archives become Parquet: layout, archive reader, converter, rejects, Parquet writer.

Belongs here: everything between the service's bytes on disk and typed files. Does not belong here: fetching archives,
and DuckDB.
"""

from resources.lake import errors
from resources.lake.archive.blocks import RECORD_BYTES_MAX
from resources.lake.archive.described import Archive, SnapshotArchive
from resources.lake.conversion import BODIES, MEMORY_BYTES, Conversion, Converter, convert, digest_of, find_conversion
from resources.lake.decode.drift import Drift
from resources.lake.errors import ArchiveError, ConversionError, DiskFull, LakeError, ReferenceListError
from resources.lake.layout import Layout
from resources.lake.parquet.writer import sweep
from resources.lake.reference import ReferenceConversion, convert_reference

__all__ = [
    "BODIES",
    "MEMORY_BYTES",
    "RECORD_BYTES_MAX",
    "Archive",
    "ArchiveError",
    "Conversion",
    "ConversionError",
    "Converter",
    "DiskFull",
    "Drift",
    "LakeError",
    "Layout",
    "ReferenceConversion",
    "ReferenceListError",
    "SnapshotArchive",
    "convert",
    "convert_reference",
    "digest_of",
    "errors",
    "find_conversion",
    "sweep",
]
