"""Conversion of archives to Parquet, from the service's bytes on disk to typed files.

Code that fetches archives or uses DuckDB belongs elsewhere.
"""

from resources.lake import errors as errors
from resources.lake.archive.buffers import RECORD_BYTES_MAX as RECORD_BYTES_MAX
from resources.lake.archives import Archive as Archive
from resources.lake.archives import Layout as Layout
from resources.lake.conversion import conversion_version as conversion_version
from resources.lake.conversion import digest_of as digest_of
from resources.lake.conversion import drift_of as drift_of
from resources.lake.conversion import find_conversion as find_conversion
from resources.lake.converter import Converter as Converter
from resources.lake.converter import convert as convert
from resources.lake.errors import ArchiveError as ArchiveError
from resources.lake.errors import ConversionError as ConversionError
from resources.lake.errors import DamagedFileError as DamagedFileError
from resources.lake.errors import DiskFull as DiskFull
from resources.lake.errors import LakeError as LakeError
from resources.lake.errors import ListError as ListError
from resources.lake.lists import ListConversion as ListConversion
from resources.lake.lists import convert_list as convert_list
from resources.lake.lists import list_version as list_version
from resources.lake.parquet.compaction import Compaction as Compaction
from resources.lake.parquet.compaction import CompactionJob as CompactionJob
from resources.lake.parquet.compaction import compact as compact
from resources.lake.parquet.writer import sweep as sweep
from resources.lake_files import ConvertedFile as ConvertedFile
