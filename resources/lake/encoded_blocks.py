"""Encoding of an archive's blocks into row groups and rejects, in the converter's threads and ahead of the writer."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Semaphore

import pyarrow.compute as pc

from resources.lake.archive.buffers import Block, LongLine
from resources.lake.decode.records import RecordReader
from resources.lake.decode.rejected import Rejects
from resources.lake.parquet.footer import Group
from resources.lake.parquet.writer import encode
from resources.lake.rejects import Rejected, RejectTable
from resources.lake_files import Drift


@dataclass(frozen=True)
class EncodedBlock:
    """Row group, rejects and counts for a block."""

    rows: Group | None
    rejected: Rejected | None
    line_count: int
    changes: Counter[str]
    drift: list[Drift]
    archive_bytes: int


@dataclass(frozen=True)
class BlockEncoder:
    """Decoder and encoder for single blocks, which runs in the converter's threads."""

    reader: RecordReader
    rejects: RejectTable
    level: int

    def __call__(self, block: Block) -> EncodedBlock:
        try:
            # positions are relative to the block; `of_block` maps them to the block's members
            rows = self.reader.read(block.view, "", 0, 0)
            block.release()
            rejected = self.rejects.of_block(rows.rejects, block) if rows.rejects else None
            rows.rejects = Rejects.of(())
            changes = rows.batch.column("change_type") if "change_type" in rows.batch.schema.names else []
            return EncodedBlock(
                rows=encode(rows.batch, self.reader.table, level=self.level) if len(rows.batch) else None,
                rejected=rejected,
                line_count=rows.line_count,
                changes=Counter({one["values"].as_py(): one["counts"].as_py() for one in pc.value_counts(changes)})
                if len(changes)
                else Counter(),
                drift=rows.drift,
                archive_bytes=block.archive_bytes,
            )
        finally:
            block.done()


@dataclass
class EncodedBlocks:
    """An archive's encoded blocks, in archive order, encoded ahead of the consumer.

    `room` limits the number of blocks in all archives that have been read but not yet written. To prevent deadlocks, a
    reader without room first hands over its pending blocks. The reader waits for other readers only if no blocks are
    pending. A line that is too long for a block is yielded after all previous blocks, and must be read before the next
    item. Exiting the context waits for running work and returns every buffer.
    """

    blocks: Generator[Block | LongLine, None, None]
    pool: ThreadPoolExecutor
    work: BlockEncoder
    room: Semaphore
    _waiting: deque[tuple[Block, Future[EncodedBlock]]] = field(default_factory=deque)
    _made: Generator[EncodedBlock | LongLine, None, None] | None = None

    def __enter__(self) -> Iterator[EncodedBlock | LongLine]:
        self._made = self._encoded()
        return self._made

    def __exit__(self, *_exception: object) -> None:
        if self._made is not None:
            self._made.close()
        for block, future in self._waiting:
            if future.cancel():
                block.done()
        wait([future for _, future in self._waiting])
        for _ in self._waiting:
            self.room.release()
        self.blocks.close()

    def _encoded(self) -> Generator[EncodedBlock | LongLine, None, None]:
        has_room = False
        try:
            while True:
                while not has_room:
                    has_room = self.room.acquire(blocking=not self._waiting)
                    if not has_room:
                        yield from self._written()
                block = next(self.blocks, None)
                if block is None:
                    break
                if isinstance(block, LongLine):
                    while self._waiting:
                        yield from self._written()
                    # Keep the block's room, because its memory is freed only when the next block is read. Readers that
                    # wait for this memory already have room.
                    yield block
                    continue
                self._waiting.append((block, self.pool.submit(self.work, block)))
                has_room = False
                while self._waiting and self._waiting[0][1].done():
                    yield from self._written()
        finally:
            if has_room:
                self.room.release()
        while self._waiting:
            yield from self._written()

    def _written(self) -> Generator[EncodedBlock, None, None]:
        """Yield the next encoded block, and free the block's room when the consumer resumes the generator."""
        yield self._waiting[0][1].result()
        self._waiting.popleft()
        self.room.release()
