"""Damage never gets from one lake file into another: rewriting compares the pages' checksums."""

import os
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import storage
from resources.lake import CompactionJob, DamagedFileError, LakeError, compact
from resources.lake_files import CompactedFile, CompactionSource

ROWS = 300


@pytest.fixture
def written(lake):
    """A lake file with repeated values (dictionaries), looked-up columns (Bloom filters) and bodies."""
    chance = random.Random(1)

    def body():
        return {"html": f"<p>{chance.getrandbits(512):x}</p>" * 3, "wikitext": f"{chance.getrandbits(512):x}"}

    return lake.convert(*(lake.record(number, article_body=body()) for number in range(ROWS))).path


def job(layout, *paths):
    sources = tuple(CompactionSource(path.relative_to(layout.lake).as_posix(), ROWS) for path in paths)
    return CompactionJob("article_changes", sources, "day_x", "ab" * 32, 1 << 30, 1 << 24, 1 << 28, 1, 1)


def compacted(layout, *paths):
    """The rows of both new files."""
    files = compact(job(layout, *paths), layout)[0]
    halves = [layout.lake / path for f in files for path in (f.lake_path, f.lake_path.replace(".rows.", ".bodies."))]
    return [pq.read_table(half, page_checksum_verification=True) for half in halves], halves


def test_every_writer_gives_all_pages_checksums(layout, written):
    """Of what lies in the lake: conversions, compactions, rejects, lists and the stream use one writer."""
    for one in (written, *compacted(layout, written)[1]):
        content, group = one.read_bytes(), pq.read_metadata(one).row_group(0)
        for leaf in map(group.column, range(0, group.num_columns, 5)):
            last = (leaf.dictionary_page_offset or leaf.data_page_offset) + leaf.total_compressed_size - 1
            one.write_bytes(content[:last] + bytes([content[last] ^ 8]) + content[last + 1 :])
            with pytest.raises(storage.UNREADABLE):
                storage.verify(one)
            one.write_bytes(content)


def test_one_half_is_damaged(layout, written):
    _, (rows_file, bodies_file) = compacted(layout, written)
    for half in (rows_file, bodies_file):
        content = half.read_bytes()
        half.write_bytes(content[: len(content) // 2])
        again = CompactionJob(**vars(job(layout, rows_file)) | {"name": "month_x"})
        with pytest.raises(DamagedFileError, match=half.name.replace(".", r"\.")) as told:
            compact(again, layout)
        assert told.value.lake_path == half.relative_to(layout.lake).as_posix()
        half.write_bytes(content)
    # a file of before a column was declared is whole
    pq.write_table(pq.read_table(written).drop_columns(["abstract"]), written)
    assert compacted(layout, written)[0][0]["abstract"].null_count == ROWS


SWAPPED = {"name": "article_id", "article_id": "name"}
OTHERS = {
    "gone": (lambda *_: None, "is missing, so it was not compacted; nothing was changed"),
    "empty": (lambda path, _: path.touch(), "cannot be read .*Parquet file size is 0 bytes"),
    "directory": (lambda path, _: path.mkdir(), "it is a directory"),
    "fifo": (lambda path, _: os.mkfifo(path), "cannot be read"),
    "other rows": (lambda path, table: pq.write_table(table[1:], path), "has 299 rows, but the ledger says 300"),
    "other columns": (lambda path, table: pq.write_table(table.rename_columns(SWAPPED), path), "undeclared columns"),
}


@pytest.mark.parametrize(("make", "words"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_file_of_these_rows_is_named(layout, written, make, words):
    table = pq.read_table(written)
    written.unlink()
    make(written, table)
    is_there = written.exists()
    with pytest.raises(LakeError, match=f"{written.name} .*{words}"):
        compact(job(layout, written), layout)
    assert written.exists() == is_there


def test_rows_that_get_lost_and_what_was_read_are_noticed(layout, written, monkeypatch):
    read = []
    (made,), counts = compact(job(layout, written), layout, read.append)
    sizes = [path.stat().st_size for path in (layout.lake / "compacted").rglob("*.parquet")]
    assert made == CompactedFile(made.lake_path, ROWS, sum(sizes), "enwiki", "enwiki")
    assert (read, sum(counts.values())) == ([written.stat().st_size], ROWS)
    pair = replace(job(layout, layout.lake / made.lake_path), digest="12" * 32)
    compact(pair, layout, read.append)  # rows and bodies
    assert read[1:] == [sum(sizes)]
    (smaller,), _ = compact(replace(job(layout, written), level=19, digest="ef" * 32), layout)
    assert smaller.lake_bytes < made.lake_bytes
    monkeypatch.setattr("resources.lake.parquet.compaction.rows_at_once", lambda *_: 7)
    source = replace(job(layout, written).sources[0], dropped_rows=(0, 6, 7, 8, 150, ROWS - 1))
    dropped = replace(job(layout, written), sources=(source,), digest="cd" * 32)
    ((made,), _), before = compact(dropped, layout), pq.read_table(written)["name"].to_pylist()
    expected = sorted(name for place, name in enumerate(before) if place not in source.dropped_rows)
    assert sorted(pq.read_table(layout.lake / made.lake_path)["name"].to_pylist()) == expected
    without_first = lambda some, *_: [pa.Table.from_batches(some)[1:]]  # noqa: E731
    monkeypatch.setattr("resources.lake.parquet.compaction.in_order", without_first)
    with pytest.raises(LakeError, match="wrote more or fewer rows than it read; nothing was changed"):
        compact(job(layout, written), layout)
