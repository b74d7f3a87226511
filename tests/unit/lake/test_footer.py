"""Row groups that were encoded apart make one file that every reader takes for written in one go."""

from __future__ import annotations

import datetime as dt
import io
import random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.lake.parquet import footer
from resources.lake.parquet.writer import ParquetFile, encode
from resources.tables import Column, Table

TABLE = Table(
    "things",
    "Every kind of column that the tables use.",
    (
        Column("number", pa.int64(), "", required=True, lookup=True),
        Column("name", pa.string(), "", lookup=True),
        Column("at", pa.timestamp("us", tz="UTC"), ""),
        Column("share", pa.float64(), ""),
        Column("is_new", pa.bool_(), ""),
        Column("links", pa.list_(pa.struct([("name", pa.string()), ("url", pa.string())])), ""),
        Column("inner", pa.struct([("deep", pa.list_(pa.string())), ("count", pa.int64())]), ""),
        Column("html", pa.string(), "", body=True),
    ),
)


def batch(rng: random.Random, count: int) -> pa.RecordBatch:
    def maybe(value):
        return value if rng.random() < 0.7 else None

    rows = [
        {
            "number": rng.randrange(-(2**63), 2**63),
            "name": maybe(f"Page {rng.randrange(10**6)}"),
            "at": maybe(dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=rng.randrange(10**15))),
            "share": maybe(rng.random()),
            "is_new": maybe(rng.random() < 0.5),
            "links": maybe(
                [maybe({"name": maybe("é" * rng.randrange(4)), "url": None}) for _ in range(rng.randrange(4))]
            ),
            "inner": maybe({"deep": maybe([maybe("x")] * rng.randrange(3)), "count": maybe(rng.randrange(5))}),
            "html": maybe("<p>" * rng.choice([0, 1, 5000])),
        }
        for _ in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TABLE.schema)


def written(path, batches):
    with ParquetFile(path, TABLE) as file:
        for one in batches:
            file.add(encode(one, TABLE))
        file.finish({"conversion": "{}", "ключ": "знач" * 100})
    return path


@pytest.mark.parametrize(
    "sizes", [[], [1], [3, 1, 200], [5] * 14, [5] * 15, [1] * 200], ids=lambda sizes: f"{len(sizes)}-groups"
)
def test_all_readers_see_the_same_rows(tmp_path, sizes):
    # importing it takes a third of a second, and every worker imports this module
    import polars as pl

    rng = random.Random(len(sizes))
    batches = [batch(rng, size) for size in sizes]
    path = written(tmp_path / "joined.parquet", batches)
    expected = pa.Table.from_batches(batches, TABLE.schema)

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
        count, rows = connection.execute(
            "SELECT num_row_groups, num_rows FROM parquet_file_metadata($path)", {"path": str(path)}
        ).fetchone()
    assert (count, rows) == (len(sizes), sum(sizes))


def test_the_footer_says_what_one_writer_would_have_said(tmp_path, monkeypatch):
    monkeypatch.setattr("resources.lake.parquet.writer._UNPACKED_BYTES", 0)
    rng = random.Random(7)
    batches = [batch(rng, size) for size in (40, 7, 300)]
    path = written(tmp_path / "joined.parquet", batches)
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        TABLE.schema,
        compression="zstd",
        compression_level=3,
        use_dictionary=[column.name for column in TABLE if not column.body],
        write_statistics=[column.name for column in TABLE if not column.body],
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for one in batches:
            writer.write_batch(one, row_group_size=len(one))

    def told(metadata):
        groups = [metadata.row_group(number).to_dict() for number in range(metadata.num_row_groups)]
        for group in groups:
            for column in group["columns"]:
                for name in ("file_offset", "data_page_offset", "dictionary_page_offset"):
                    column.pop(name)  # the Bloom filters stand between the row groups
                column.pop("bloom_filter_offset", None)
                column.pop("bloom_filter_length", None)
        return groups

    assert told(pq.read_metadata(path)) == told(pq.read_metadata(sink))


def test_a_type_that_no_footer_holds():
    with pytest.raises(ValueError, match="not contain values of type 15"):
        footer.moved(bytes([0x2F, 0, 0]), 10)


def test_a_footer_of_another_form_is_refused():
    frame = footer.Frame(b"head", b"tail")
    file = memoryview(b"PAR1" + b"\x00" * 8 + (8).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="a different footer"):
        frame.group(file, 1)


def test_rows_of_another_schema_are_refused():
    rows = batch(random.Random(1), 5)
    for other in (
        rows.select(rows.schema.names[::-1]),
        rows.set_column(3, "share", rows.column("share").cast("float32")),
    ):
        with pytest.raises(ValueError, match="a different footer"):
            encode(other, TABLE)
