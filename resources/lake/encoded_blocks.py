"""Encoding of an archive's blocks into row groups and rejects, in the converter's threads and ahead of the writer."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Semaphore

import pyarrow as pa

from resources.lake.archive.buffers import Block, LongLine
from resources.lake.decode.records import RecordReader
from resources.lake.decode.rejected import rejects_of
from resources.lake.parquet.footer import Group
from resources.lake.parquet.writer import encode
from resources.lake.rejects import RejectsFile
from resources.lake_files import Drift


@dataclass(frozen=True)
class EncodedBlock:
    """Row group, rejects and counts for a block."""

    rows: Group | None
    rejected: tuple[pa.RecordBatch, bytes] | None
    line_count: int
    changes: Counter[str]
    drift: list[Drift]
    archive_bytes: int


def encode_block(block: Block, reader: RecordReader, rejects: RejectsFile, level: int) -> EncodedBlock:
    """Decode and encode a block, and return its buffer to the pool."""
    try:
        rows = reader.read(block.view)
        block.release()
        rejected = rejects.of_block(rows.rejects, block) if len(rows.rejects) else None
        rows.rejects = rejects_of(())
        has_changes = "change_type" in rows.batch.schema.names
        return EncodedBlock(
            rows=encode(rows.batch, reader.table, level=level) if len(rows.batch) else None,
            rejected=rejected,
            line_count=rows.line_count,
            changes=Counter(rows.batch.column("change_type").to_pylist() if has_changes else ()),
            drift=rows.drift,
            archive_bytes=block.archive_bytes,
        )
    finally:
        block.done()


def encoded_blocks(
    blocks: Generator[Block | LongLine, None, None],
    pool: ThreadPoolExecutor,
    work: Callable[[Block], EncodedBlock],
    room: Semaphore,
) -> Generator[EncodedBlock | LongLine, None, None]:
    """Yield an archive's blocks in archive order, encoded in the pool's threads ahead of the consumer.

    Across all archives, `room` limits the number of blocks that have been read but not yet written. To prevent
    deadlocks, a reader without room first hands over its pending blocks. The reader waits for other readers only if no
    blocks are pending. A line that is too long for a block is yielded after all previous blocks, and must be read
    before the next item. Closing the generator waits for running work and returns every buffer.
    """
    waiting: deque[tuple[Block, Future[EncodedBlock]]] = deque()
    has_room = False

    def first() -> Iterator[EncodedBlock]:
        """Yield the first pending block, and free its room when the consumer resumes the generator."""
        yield waiting[0][1].result()
        waiting.popleft()
        room.release()

    try:
        while True:
            while not has_room:
                has_room = room.acquire(blocking=not waiting)
                if not has_room:
                    yield from first()
            block = next(blocks, None)
            if block is None:
                break
            if isinstance(block, LongLine):
                while waiting:
                    yield from first()
                # Keep the block's room, because its memory is freed only when the next block is read. Readers that wait
                # for this memory already have room.
                yield block
                continue
            waiting.append((block, pool.submit(work, block)))
            has_room = False
            while waiting and waiting[0][1].done():
                yield from first()
        room.release()
        has_room = False
        while waiting:
            yield from first()
    finally:
        for block, future in waiting:
            if future.cancel():
                block.done()
        wait([future for _, future in waiting])
        for _ in range(len(waiting) + has_room):
            room.release()
        blocks.close()
