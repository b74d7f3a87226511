"""Row groups that were encoded apart make one file that every reader takes for written in one go."""

import io
import itertools
import json
import random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.lake.parquet import footer
from resources.lake.parquet.writer import ParquetFile, encode
from resources.tables import ARTICLE_CHANGES as TABLE
from tests.unit.lake.test_native_and_pure import reader, record_of


@pytest.fixture(scope="module")
def batches_of():
    """`batches_of(sizes)`: batches of made-up rows of a table with every kind of column."""
    rng = random.Random(5)
    lines = [json.dumps(record_of(rng)).encode() for _ in range(600)]
    rows = reader().read(memoryview(b"\n".join(lines))).batch

    def sliced(sizes):
        assert len(rows) >= sum(sizes)
        return [rows.slice(end - size, size) for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]

    return sliced


def written(path, batches):
    with ParquetFile(path, TABLE) as file:
        for one in batches:
            file.add(encode(one, TABLE))
        file.finish({"conversion": "{}", "ключ": "знач" * 100})
    return path


@pytest.mark.parametrize(
    "sizes", [[], [1], [3, 1, 200], [5] * 14, [5] * 15, [1] * 200], ids=lambda sizes: f"{len(sizes)}-groups"
)
def test_all_readers_see_the_same_rows(tmp_path, batches_of, sizes):
    # importing it takes a third of a second, and every worker imports this module
    import polars as pl

    batches = batches_of(sizes)
    path, expected = written(tmp_path / "joined.parquet", batches), pa.Table.from_batches(batches, TABLE.schema)

    file = pq.ParquetFile(path, page_checksum_verification=True)
    assert file.read().equals(expected)
    assert file.schema_arrow.equals(TABLE.schema)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == sizes
    assert file.metadata.metadata == {b"conversion": b"{}", "ключ".encode(): ("знач" * 100).encode()}
    assert file.metadata.created_by.startswith("parquet-cpp-arrow")
    assert pl.read_parquet(path).to_arrow().cast(TABLE.schema).equals(expected)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql("FROM read_parquet($path)", params={"path": str(path)}).to_arrow_table()
        assert found.cast(TABLE.schema).to_pylist() == expected.to_pylist()
        counts = "SELECT num_row_groups, num_rows FROM parquet_file_metadata($path)"
        assert connection.execute(counts, {"path": str(path)}).fetchone() == (len(sizes), sum(sizes))


def test_the_footer_says_what_one_writer_would_have_said(tmp_path, batches_of, monkeypatch):
    monkeypatch.setattr("resources.lake.parquet.writer._UNPACKED_BYTES", 0)
    batches = batches_of((60, 80, 200))
    path = written(tmp_path / "joined.parquet", batches)
    sink, narrow = io.BytesIO(), [column.name for column in TABLE if not column.body]
    options = {"use_dictionary": narrow, "write_statistics": narrow, "write_page_checksum": True, "store_schema": False}
    with pq.ParquetWriter(sink, TABLE.schema, compression="zstd", compression_level=3, **options) as writer:
        for one in batches:
            writer.write_batch(one, row_group_size=len(one))

    def told(metadata):
        groups = [metadata.row_group(number).to_dict() for number in range(metadata.num_row_groups)]
        for group in groups:
            for column in group["columns"]:
                # the Bloom filters stand between the row groups
                for name in (
                    "data_page_offset",
                    "dictionary_page_offset",
                    "bloom_filter_offset",
                    "bloom_filter_length",
                ):
                    column.pop(name, None)
        return groups

    assert told(pq.read_metadata(path)) == told(pq.read_metadata(sink))


def test_rows_and_footers_of_another_form_are_refused(batches_of):
    [rows] = batches_of([5])
    numbers = rows.set_column(0, "batch_hour", rows.column("batch_hour").cast("int64"))
    for other in (rows.select(rows.schema.names[::-1]), numbers):
        with pytest.raises(ValueError, match="a different footer"):
            encode(other, TABLE)
    frame = footer.Frame(b"head", b"tail")
    file = memoryview(b"PAR1" + b"\x00" * 8 + (8).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="a different footer"):
        frame.group(file, 1)
    for kind in (3, 7, 10, 11, 13, 14, 15):
        with pytest.raises(ValueError, match=f"not contain values of type {kind}$"):
            footer.moved(bytes([0x20 | kind, 0, 0]), 10)
