"""What the converter's workers make of the blocks of an archive: row groups and rejects, ahead of whoever writes them."""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from resources.lake.archive.buffers import Block, LongLine
from resources.lake.parquet.writer import encode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from resources.lake.decode.drift import Drift
    from resources.lake.decode.records import RecordReader
    from resources.lake.parquet.footer import Group
    from resources.lake.rejects import Rejected, RejectTable


@dataclass(frozen=True)
class Piece:
    """What came of one block: its row group and its rejects, and what there is to count."""

    rows: Group | None
    rejected: Rejected | None
    line_count: int
    changes: Counter[str]
    drift: list[Drift]
    archive_bytes: int


@dataclass(frozen=True)
class Work:
    """What a worker does with a block."""

    reader: RecordReader
    rejects: RejectTable
    level: int

    def __call__(self, block: Block) -> Piece:
        try:
            # places are those in the block, whatever members it is of
            rows = self.reader.read(block.view, "", 0, 0, block.line_count)
            block.release()
            rejected = self.rejects.of_block(rows.rejects, block) if rows.rejects else None
            rows.rejects.clear()
            changes = rows.batch.column("change_type") if "change_type" in rows.batch.schema.names else []
            return Piece(
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
class Pieces:
    """The pieces of every block of an archive, in its order, made ahead of the consumer, `ahead` at most.

    A line that is too long for a block comes by itself, when all before it has come, to be read before the next is asked
    for. Leaving the context waits for what is under way, and gives every buffer back.
    """

    blocks: Generator[Block | LongLine, None, None]
    pool: ThreadPoolExecutor
    work: Work
    ahead: int
    _waiting: deque[tuple[Block, Future[Piece]]] = field(default_factory=deque)

    def __enter__(self) -> Iterator[Piece | LongLine]:
        return self._pieces()

    def __exit__(self, *_exception: object) -> None:
        for block, future in self._waiting:
            if future.cancel():
                block.done()
        wait([future for _, future in self._waiting])
        self.blocks.close()

    def _pieces(self) -> Iterator[Piece | LongLine]:
        for block in self.blocks:
            if isinstance(block, LongLine):
                yield from self._rest()
                yield block
                continue
            self._waiting.append((block, self.pool.submit(self.work, block)))
            while self._waiting and (len(self._waiting) > self.ahead or self._waiting[0][1].done()):
                yield self._next()
        yield from self._rest()

    def _rest(self) -> Iterator[Piece]:
        while self._waiting:
            yield self._next()

    def _next(self) -> Piece:
        piece = self._waiting[0][1].result()
        self._waiting.popleft()
        return piece
