"""Our converter as the benchmarks call it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workload import HOUR, Workload
from resources.datasets import Family, named
from resources.engine import Engine
from resources.lake import Archive, Converter, Layout, SnapshotArchive
from resources.lake.archive.blocks import BLOCK_BYTES, read_blocks
from resources.lake.archive.buffers import Block, Buffers
from resources.lake.decode.records import RecordReader
from resources.lake.decode.shape import shape_of
from resources.lake.parquet.writer import COMPRESSION_LEVEL, ParquetFile, encode
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.lake import Conversion

__all__ = [
    "BODIES",
    "COMPRESSION_LEVEL",
    "RECORD_SCHEMA",
    "ParquetFile",
    "archives",
    "blocks",
    "convert",
    "encode",
    "reader",
    "workload_of",
]

BODIES = ARTICLE_CHANGES.bodies
#: The records as pyarrow is told to parse them: nested, and without what nobody asks for.
RECORD_SCHEMA = shape_of(ARTICLE_CHANGES).schema


def convert(workload: Workload, folder: Path, level: int) -> list[Conversion]:
    """Convert all archives of a workload as the pipeline does: with the settings that it has by default."""
    layout = Layout(folder)
    with Converter(level=level) as converter:
        outcomes = Engine().map(
            lambda archive: converter.convert(archive, layout), archives(workload), workers=converter.readers
        )
    return [outcome.unwrap() for outcome in outcomes]


def workload_of(facts: dict[str, Any]) -> Workload:
    """A workload that came as JSON."""
    return Workload(
        **facts | {"archives": tuple(map(Path, facts["archives"])), "folder": Path(facts["folder"])},
    )


def reader(workload: Workload) -> RecordReader:
    """What turns blocks of the workload's lines into rows."""
    return RecordReader(ARTICLE_CHANGES, archives(workload)[0].given, ARTICLE_CHANGES.bodies)


def blocks(workload: Workload) -> Iterator[bytes]:
    """The blocks that the first archive is read in, each in memory of its own."""
    for block in read_blocks(workload.archives[0], Buffers(1, BLOCK_BYTES)):
        if isinstance(block, Block):  # there is no line that is too long for one
            yield _taken(block)


def _taken(block: Block) -> bytes:
    data = bytes(block.view)
    block.release()
    return data


def archives(workload: Workload) -> list[Archive]:
    """The archives of a workload, as the pipeline would know them."""
    if (dataset := named(workload.dataset)).family is Family.SNAPSHOT:
        snapshot = f"{workload.project_id}_namespace_0"
        return [
            SnapshotArchive(
                path,
                snapshot,
                f"{number:032x}",
                workload.project_id,
                0,
                snapshot_id=snapshot,
                snapshot_version=f"{number:032x}",
                dataset=dataset,
            )
            for number, path in enumerate(workload.archives)
        ]
    return [
        Archive(path, f"archive_{number}", "0" * 32, HOUR, workload.project_id, 0)
        for number, path in enumerate(workload.archives)
    ]
