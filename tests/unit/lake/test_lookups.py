"""Whoever looks one page up reads the row groups that may hold it, and no other."""

from __future__ import annotations

import duckdb
import pyarrow.parquet as pq
import pytest

from resources.lake.archive.blocks import read_blocks
from resources.lake.archive.buffers import Buffers


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("column", "value"), [("name", "Page 217"), ("article_id", 317)])
def test_a_look_up_reads_one_row_group_of_many(lake, column, value):
    # titles and page ids in no order, as in an archive
    made = lake.convert(*(lake.record(n * 77 % 300) for n in range(300)))
    file = pq.ParquetFile(made.path)
    assert file.num_row_groups > 50
    with duckdb.connect() as connection:
        opened = {
            group
            for group, excluded in connection.execute(
                "SELECT row_group_id, bloom_filter_excludes FROM parquet_bloom_probe($path, $column, $value)",
                {"path": str(made.path), "column": column, "value": value},
            ).fetchall()
            if not excluded
        }
    holding = [n for n in range(file.num_row_groups) if value in file.read_row_group(n, [column])[column].to_pylist()]
    assert len(holding) == 1
    assert set(holding) <= opened
    assert len(opened) <= 3

    # the proof: with the column destroyed in all other row groups, the query still finds its row
    data = bytearray(made.path.read_bytes())
    place = [field.name for field in file.schema_arrow].index(column)
    for number in set(range(file.num_row_groups)) - opened:
        chunk = file.metadata.row_group(number).column(place)
        assert chunk.path_in_schema == column
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    made.path.write_bytes(data)
    with duckdb.connect() as connection:
        look_up = f"SELECT html FROM read_parquet($path) WHERE {column} = $value"
        assert connection.execute(look_up, {"path": str(made.path), "value": value}).fetchall() == [("<p>217</p>",)]
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT max({column}) FROM read_parquet('{made.path}') WHERE html <> ''").fetchall()


def test_short_lines_fill_a_row_group_by_their_number(lake, monkeypatch):
    monkeypatch.setattr("resources.lake.archive.blocks.BLOCK_LINES_MAX", 7)
    archive = lake.archive(b"\n".join(b"%d" % n for n in range(20)), b"a\nb\n" * 7)
    counts, content = [], []
    for block in read_blocks(archive.path, Buffers(1, 1000)):
        counts.append(block.line_count)
        content += bytes(block.view).split()
        block.release()
    assert counts == [7, 7, 7, 7, 6]
    assert content == [b"%d" % n for n in range(20)] + [b"a", b"b"] * 7
