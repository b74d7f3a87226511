"""Conversion of an archive to a Parquet file, and to a second Parquet file for any rejects.

The thread that calls `Converter.convert` decompresses the archive, splits blocks, and writes row groups in archive
order. Worker threads parse, encode and compress blocks into row groups in parallel. One calling thread keeps about six
workers busy. Calls from several threads share the workers and the memory. If the archives are small, `readers`
concurrent calls keep all workers busy.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any, Self

from isal import igzip

from resources import files, machine
from resources.formatting import counted
from resources.lake import conversion as conversions
from resources.lake.archive.blocks import BLOCK_BYTES, read_blocks
from resources.lake.archive.buffers import RECORD_BYTES_MAX, Buffers, LongLine
from resources.lake.archives import Archive, Layout
from resources.lake.decode.native import trim
from resources.lake.decode.record_schema import OF_ANOTHER
from resources.lake.decode.records import RecordReader
from resources.lake.decode.strict import DriftCount
from resources.lake.encoded_blocks import encode_block, encoded_blocks
from resources.lake.errors import ArchiveError, ConversionError, LakeError
from resources.lake.parquet.writer import COMPRESSION_LEVEL, ParquetFile
from resources.lake.rejects import RejectsFile, lines_file
from resources.lake_files import ConvertedFile
from resources.storage import UNREADABLE, verify
from resources.tables import REJECTED_LINES, ChangeType, version_of
from resources.tar import DAMAGED, Contents

_log = logging.getLogger(__name__)

#: Lower bound for a converter's default memory, if the machine has enough memory.
_LEAST_BYTES = 512 << 20
#: Divisors of the process's memory limit, for a converter's default share and for its maximum share.
_SHARE, _LEFT = 4, 2
#: Measured maximum memory for a line that exceeds a block, as a multiple of the line's length.
LONG_LINE_FACTOR = 12

#: Measured memory of the interpreter with its libraries.
_BASE_BYTES = 80 << 20
#: Measured memory of a worker. A worker holds a block, its rows, the largest column before and after compression, the
#: row group, a row group that is waiting to be written, and an open archive's incomplete line. Incompressible lines as
#: long as a block need ten times the memory of a block; encyclopedia records need five times.
_WORKER_BYTES = 10 * BLOCK_BYTES
#: Upper bound for records, because the decoder's offsets have 32 bits.
_RECORD_BYTES_BOUND = 1 << 30
_READ_BYTES = 1 << 20


class Converter:
    """Worker threads and memory shared by conversions from all threads. Exiting the context stops the workers.

    Args:
        workers: Number of threads that build row groups. The default is one thread per core (see `machine`), or
            fewer if memory is insufficient.
        memory_bytes: Memory limit for a process that only converts. The default is a quarter of the process's memory
            limit, at least 512 MiB, but at most half of the limit. A line longer than a block needs additional memory
            of up to LONG_LINE_FACTOR times its length. Only one such line is in memory at a time.
        level: zstd compression level.
        record_bytes_max: Maximum length of a line; longer lines are rejected.

    Raises:
        ConversionError: `memory_bytes` is too small for `workers`, or `record_bytes_max` is out of range.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        memory_bytes: int | None = None,
        level: int = COMPRESSION_LEVEL,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:
        if not BLOCK_BYTES <= record_bytes_max <= _RECORD_BYTES_BOUND:
            raise ConversionError(
                f"A record limit of {record_bytes_max:,} bytes is out of range. {BLOCK_BYTES:,} to "
                f"{_RECORD_BYTES_BOUND:,} bytes are allowed. Nothing was converted."
            )
        if memory_bytes is None:
            usable = machine.memory_bytes()
            memory_bytes = max(usable // _SHARE, min(_LEAST_BYTES, usable // _LEFT))
        spare = memory_bytes - _BASE_BYTES - BLOCK_BYTES
        wanted = max(1, min(machine.cores(), spare // _WORKER_BYTES)) if workers is None else workers
        if wanted * _WORKER_BYTES > spare:
            least = _BASE_BYTES + BLOCK_BYTES + wanted * _WORKER_BYTES
            raise ConversionError(
                f"{memory_bytes >> 20} MB of memory is too little for {counted(wanted, 'worker')}. Nothing was "
                f"converted. Allow at least {least >> 20} MB, or use fewer workers."
            )
        self.workers = wanted
        self.memory_bytes = memory_bytes
        self._level = level
        self.record_bytes_max = record_bytes_max
        self._buffers = Buffers(wanted + 1, BLOCK_BYTES, record_bytes_max)
        # one block that is being read, and two blocks per worker: one being converted and one waiting to be written
        self._room = threading.Semaphore(2 * wanted + 1)
        self._pool = ThreadPoolExecutor(wanted, thread_name_prefix="lake")

    @property
    def readers(self) -> int:
        """Number of concurrent conversions needed to keep all workers busy while some open or flush files."""
        return 2 * self.workers + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._pool.shutdown()
        trim()

    def convert(
        self,
        archive: Archive,
        layout: Layout,
        *,
        bodies: frozenset[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
        again: bool = False,
    ) -> ConvertedFile:
        """Convert one archive into the lake. `converted` is False if the same conversion already existed.

        Args:
            archive: The archive on disk and its declared content.
            layout: Paths of the lake.
            bodies: Body columns to store (default: all). Other body columns are null, and other tables' names are
                ignored.
            progress: Callback that receives the number of converted bytes and the archive's total bytes.
            again: If True, convert the archive again if a file of the earlier conversion is damaged. A rename replaces
                the damaged file, so readers always see a complete file. Its rows might be damaged in the warehouse, so
                load the new file.

        Raises:
            ArchiveError: The archive is damaged, truncated or empty, or has no records for its project and namespace.
            LakeError: The archive is missing, or the files could not be written (DiskFull if the disk is full).
            ConversionError: A body is unknown, or rows and rejects do not add up to the number of lines.

        After an error, the lake is unchanged.
        """
        known = conversions.find_conversion(archive, layout, bodies, self.record_bytes_max)
        if known is not None and (not again or _is_whole(known, layout)):
            return known
        digest = conversions.digest_of(archive, bodies, self.record_bytes_max)
        target, rejects_target = conversions.targets(archive, layout, digest)
        is_replaced = again and layout.storage.exists(target)
        for path in (target, rejects_target, lines_file(rejects_target)) if again else ():
            if path.is_dir():
                files.set_aside(path)
        try:
            made = self._converted(archive, layout, conversions.bodies_kept(archive.table, bodies), digest, progress)
        finally:
            if self._buffers.forget_long():
                trim()  # return the memory of long lines to the system, to keep the next archive within the limit
        if is_replaced:
            _log.warning("%s was damaged and has been replaced.", target)
        return made

    def _converted(
        self,
        archive: Archive,
        layout: Layout,
        kept: frozenset[str],
        digest: str,
        progress: Callable[[int, int], None] | None,
    ) -> ConvertedFile:
        started = time.perf_counter()
        target, rejects_target = conversions.targets(archive, layout, digest)
        try:
            archive_bytes = archive.path.stat().st_size
        except FileNotFoundError as error:
            raise LakeError(
                f"The archive {archive.path} is missing. Nothing was converted. Fetch the hour's batches first."
            ) from error
        contents, drift = Contents(), DriftCount()
        changes, line_count, has_strangers = Counter[str](), 0, False
        reader = RecordReader(archive.table, archive.given, kept, archive.latest)
        with (
            ParquetFile(target, archive.table, layout.storage) as rows_file,
            RejectsFile(rejects_target, archive, layout, self._level) as rejects,
            closing(
                encoded_blocks(
                    read_blocks(archive.path, self._buffers, contents),
                    self._pool,
                    partial(encode_block, reader=reader, rejects=rejects, level=self._level),
                    self._room,
                )
            ) as blocks,
        ):
            for block in blocks:
                if isinstance(block, LongLine):
                    rejects.add_long_line(block, self.record_bytes_max)
                    line_count += 1
                else:
                    line_count += block.line_count
                    changes += block.changes
                    drift.merge(block.drift)
                    if block.rows is not None:
                        rows_file.add(block.rows)
                    if block.rejected is not None:
                        reasons = block.rejected[0].column("reason").dictionary.to_pylist()
                        has_strangers |= any(reason.endswith(OF_ANOTHER) for reason in reasons)
                        rejects.add(*block.rejected)
                if progress is not None:
                    progress(block.archive_bytes, archive_bytes)
                del block  # release the memory for the next block
            if has_strangers and not rows_file.row_count:
                raise ArchiveError(
                    archive.path,
                    "It contains only records from other projects or namespaces, and none from "
                    f"{archive.project_id} namespace {archive.namespace_id}",
                )
            if line_count != rows_file.row_count + rejects.row_count:
                raise ConversionError(
                    f"{archive.path.name} has {line_count:,} lines, but produced {rows_file.row_count:,} rows "
                    f"and {rejects.row_count:,} rejects. Nothing was written to the lake. This is a defect in "
                    "the converter: keep the archive and report the defect."
                )
            facts = {
                "identifier": archive.identifier,
                "version": archive.version,
                "batch_hour": None if archive.batch_hour is None else archive.batch_hour.isoformat(),
                "project_id": archive.project_id,
                "namespace_id": archive.namespace_id,
                "schema_version": version_of(archive.table, REJECTED_LINES),
                "converter_version": conversions.CONVERTER_VERSION,
                "bodies": sorted(kept),
                "digest": digest,
                "archive_bytes": archive_bytes,
                "row_count": rows_file.row_count,
                "reject_count": rejects.row_count,
                "ndjson_bytes": contents.ndjson_bytes,
                "has_long_lines": rejects.lines is not None,
                "remarks": contents.remarks(),
                "update_count": changes[ChangeType.UPDATE],
                "delete_count": changes[ChangeType.DELETE],
                "visibility_change_count": changes[ChangeType.VISIBILITY_CHANGE],
                "drift": [asdict(one) for one in drift.result()],
            }
            # the rejects file is renamed first, because visible rows need their rejects
            rejects.land({conversions.METADATA_KEY: json.dumps(facts)})
            rows_file.finish({conversions.METADATA_KEY: json.dumps(facts)})
        return conversions.describe(facts, archive, layout, seconds=time.perf_counter() - started)


def _is_whole(conversion: ConvertedFile, layout: Layout) -> bool:
    """Return True if a conversion's files contain all rows and every data page matches its checksum."""
    storage, rejects = layout.storage, conversion.rejects_path
    try:
        for path, count in ((conversion.path, conversion.row_count), (rejects, conversion.reject_count)):
            if path is not None and verify(path, storage=storage) != count:
                return False
        if rejects is not None and storage.exists(lines_file(rejects)):
            with storage.open(lines_file(rejects)) as raw, igzip.IGzipFile("", "rb", fileobj=raw) as lines:  # type: ignore[no-untyped-call]
                while lines.read(_READ_BYTES):
                    pass
    except (*UNREADABLE, *DAMAGED):
        return False
    return True


def convert(
    archive: Archive,
    layout: Layout,
    *,
    bodies: frozenset[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> ConvertedFile:
    """Convert one archive with a temporary converter, which gets the `settings`. See `Converter.convert`."""
    with Converter(**settings) as converter:
        return converter.convert(archive, layout, bodies=bodies, progress=progress)
