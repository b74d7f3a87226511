"""Whoever looks one page up reads the row groups that may hold it, and no other."""

import duckdb
import pyarrow.parquet as pq
import pytest


@pytest.mark.usefixtures("small_blocks")
def test_a_look_up_reads_one_row_group_of_many(lake):
    # titles and page ids in no order, as in an archive
    path = lake.convert(*(lake.record(n * 77 % 150) for n in range(150))).path
    file, whole = pq.ParquetFile(path), path.read_bytes()
    assert file.num_row_groups > 25
    probe = "SELECT row_group_id FROM parquet_bloom_probe($path, $column, $value) WHERE NOT bloom_filter_excludes"
    for column, value in (("name", "Page 117"), ("article_id", 217)):
        with duckdb.connect() as connection:
            found = connection.execute(probe, {"path": str(path), "column": column, "value": value}).fetchall()
        opened, groups = {group for (group,) in found}, range(file.num_row_groups)
        holding = [n for n in groups if value in file.read_row_group(n, [column])[column].to_pylist()]
        assert len(holding) == 1
        assert set(holding) <= opened
        assert len(opened) <= 3

        # the proof: with the column destroyed in all other row groups, the query still finds its row
        data, place = bytearray(whole), [field.name for field in file.schema_arrow].index(column)
        for number in set(groups) - opened:
            chunk = file.metadata.row_group(number).column(place)
            assert chunk.path_in_schema == column
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        path.write_bytes(data)
        with duckdb.connect() as connection:
            look_up = f"SELECT html FROM read_parquet($path) WHERE {column} = $value"
            assert connection.execute(look_up, {"path": str(path), "value": value}).fetchall() == [("<p>117</p>",)]
            with pytest.raises(duckdb.Error):
                connection.execute(f"SELECT max({column}) FROM read_parquet('{path}') WHERE html <> ''").fetchall()
