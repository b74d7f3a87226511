"""Conversion of archives to Parquet, from the service's bytes on disk to typed files.

Code that fetches archives or uses DuckDB belongs elsewhere.
"""

from resources.lake import errors
from resources.lake.archive.buffers import RECORD_BYTES_MAX
from resources.lake.archives import Archive, Layout
from resources.lake.conversion import conversion_version, digest_of, drift_of, find_conversion
from resources.lake.converter import Converter, convert
from resources.lake.errors import ArchiveError, ConversionError, DamagedFileError, DiskFull, LakeError, ListError
from resources.lake.lists import ListConversion, convert_list, list_version
from resources.lake.parquet.compaction import Compaction, CompactionJob, compact
from resources.lake.parquet.writer import sweep
from resources.lake_files import ConvertedFile

__all__ = [
    "RECORD_BYTES_MAX",
    "Archive",
    "ArchiveError",
    "Compaction",
    "CompactionJob",
    "ConversionError",
    "ConvertedFile",
    "Converter",
    "DamagedFileError",
    "DiskFull",
    "LakeError",
    "Layout",
    "ListConversion",
    "ListError",
    "compact",
    "conversion_version",
    "convert",
    "convert_list",
    "digest_of",
    "drift_of",
    "errors",
    "find_conversion",
    "list_version",
    "sweep",
]
