"""Columns without a value are made without a Parquet writer, and every reader takes them for written ones."""

from __future__ import annotations

import io
import itertools

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.lake.parquet.footer import Leaf
from resources.lake.parquet.writer import ParquetFile, encode
from resources.tables import ARTICLE_CHANGES, Column, Table

VALUES = {
    "number": 7,
    "is_new": True,
    "share": 0.5,
    "name": "Earth",
    "tags": ["a", None],
    "links": [{"name": "x", "aspects": ["y"]}],
    "inner": {"deep": {"count": 1}},
    "html": "<p>",
}
TABLE = Table(
    "things",
    "Every kind of column that the tables use.",
    (
        Column("number", pa.int64(), ""),
        Column("is_new", pa.bool_(), ""),
        Column("share", pa.float64(), ""),
        Column("name", pa.string(), "", lookup=True),
        Column("tags", pa.list_(pa.string()), ""),
        Column("links", pa.list_(pa.struct([("name", pa.string()), ("aspects", pa.list_(pa.string()))])), ""),
        Column("inner", pa.struct([("deep", pa.struct([("count", pa.int64())]))]), ""),
        Column("html", pa.string(), "", body=True),
    ),
)
#: Row groups by the columns that hold something: all, none, each alone, all but each.
GIVEN = [set(VALUES), set(), *({name} for name in VALUES), *(set(VALUES) - {name} for name in VALUES)]


def written(path, batches, table=TABLE):
    with ParquetFile(path, table) as file:
        for batch in batches:
            file.add(encode(batch, table))
        file.finish({"conversion": "{}"})
    return path


def batch(given, count):
    # a value in the last row alone is enough to be written
    rows = [{}] * (count - 1) + [{name: VALUES[name] for name in given}]
    return pa.RecordBatch.from_pylist(rows, schema=TABLE.schema)


@pytest.mark.parametrize("count", [1, 8, 200, 40_000])
def test_all_readers_see_nulls(tmp_path, count):
    batches = [batch(given, count) for given in (GIVEN if count < 1000 else GIVEN[:3])]
    path = written(tmp_path / "a.parquet", batches)
    expected = pa.Table.from_batches(batches, TABLE.schema)
    assert pq.ParquetFile(path, page_checksum_verification=True).read().equals(expected)
    assert pl.read_parquet(path).to_arrow().cast(TABLE.schema).equals(expected)
    with duckdb.connect() as connection:
        found = connection.sql("FROM read_parquet($path)", params={"path": str(path)}).to_arrow_table()
        assert found.cast(TABLE.schema).equals(expected)
        for name in VALUES:
            query = f'SELECT count(*) FROM read_parquet($path) WHERE "{name}" IS NOT NULL'
            (counted,) = connection.execute(query, {"path": str(path)}).fetchone()
            assert counted == count * len(batches) - expected[name].null_count, name


@pytest.mark.parametrize("count", [1, 8, 200])
def test_the_footer_says_of_them_what_a_writer_would_have_said(tmp_path, count):
    batches = [batch(given, count) for given in GIVEN]
    path = written(tmp_path / "a.parquet", batches)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.schema, compression="none", store_schema=False) as writer:
        for one in batches:
            writer.write_batch(one, row_group_size=count)
    mine, theirs = pq.read_metadata(path), pq.read_metadata(sink)
    assert mine.schema.equals(theirs.schema)
    places = []
    for number in range(len(GIVEN)):
        group, other = mine.row_group(number), theirs.row_group(number)
        columns = [group.column(place) for place in range(group.num_columns)]
        for column, place in zip(columns, range(other.num_columns), strict=True):
            same = other.column(place)
            for name in ("path_in_schema", "physical_type", "num_values"):
                assert getattr(column, name) == getattr(same, name)
            if column.statistics is not None:  # bodies have none
                assert column.statistics.null_count == same.statistics.null_count
            start = column.dictionary_page_offset or column.data_page_offset
            places.append((start, start + column.total_compressed_size))
            assert column.total_compressed_size > 0
        assert group.num_rows == count
        assert group.total_byte_size == sum(column.total_uncompressed_size for column in columns)
    places.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
    assert places[-1][1] < path.stat().st_size


def test_what_has_no_value_is_told_by_the_statistics(tmp_path):
    (group,) = (pq.read_metadata(written(tmp_path / "a.parquet", [batch(set(), 30)])).row_group(0),)
    for place in range(1, group.num_columns):
        assert group.column(place).statistics.null_count == 30


def test_values_that_look_like_the_footer_mislead_nobody(tmp_path):
    """Columns are found in a footer by their paths.

    A title may hold the very same bytes, and stand in the statistics.
    """
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.schema):
        pass
    schema = pq.ParquetFile(sink).schema
    for place in range(len(schema)):
        leaf = Leaf.of(schema.column(place))
        column = leaf.path.partition(".")[0]
        for text in ((leaf.head + b" ").decode(), leaf.marker.decode()):
            # nothing lies between the title and the column that it speaks of but columns without a value
            batches = [pa.RecordBatch.from_pylist([{column: VALUES[column]} | {"name": text}], schema=TABLE.schema)]
            path = written(tmp_path / "a.parquet", batches)
            assert pq.read_table(path).to_batches() == batches


def test_half_of_an_archive_goes_without_the_writer(lake):
    made = lake.convert(lake.record(1))
    metadata = pq.read_metadata(made.path)
    group = metadata.row_group(0)
    empty = [
        place
        for place in range(group.num_columns)
        if (found := group.column(place).statistics) is not None and found.null_count == 1
    ]
    assert len(empty) > len(ARTICLE_CHANGES.columns) / 2
    assert pq.read_table(made.path)["name"].to_pylist() == ["Page 1"]
