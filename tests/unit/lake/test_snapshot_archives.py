"""An archive of a snapshot becomes rows of `snapshot_articles`, which say what they are of."""

from dataclasses import replace

import pyarrow.parquet as pq

from resources import datasets
from resources.lake import Archive, convert, digest_of, find_conversion
from resources.tables import REJECTED_LINES, SNAPSHOT_ARTICLES

VERSION = "0123456789abcdef0123456789abcdef"


def snapshot(lake, *lines) -> Archive:
    archive = lake.archive(lake.lines(*lines), identifier="enwiki_namespace_0")
    return Archive(
        path=archive.path,
        identifier="enwiki_namespace_0_chunk_3",
        version=archive.version,
        batch_hour=None,
        project_id="enwiki",
        namespace_id=0,
        snapshot_id="enwiki_namespace_0",
        snapshot_version=VERSION,
        dataset=datasets.SNAPSHOT_ARTICLES,
    )


def test_rows_and_rejects(lake, rows, how):
    plain = lake.record(2)
    plain.pop("event")
    archive = snapshot(lake, lake.record(1), plain, b"bad", lake.record(3, mood="calm"))
    made = convert(archive, lake.layout)
    assert made.path == (
        lake.layout.lake
        / "snapshot_articles/enwiki_namespace_0/01234567"
        / f"enwiki_namespace_0_chunk_3.{made.digest[:8]}.parquet"
    )
    assert made.rejects_path == (
        lake.layout.lake / f"rejects/enwiki_namespace_0/01234567/enwiki_namespace_0_chunk_3.{made.digest[:8]}.parquet"
    )
    assert pq.read_schema(made.path).equals(SNAPSHOT_ARTICLES.schema)
    assert pq.read_schema(made.rejects_path).equals(REJECTED_LINES.schema)
    found = rows(made.path)
    assert {(row["snapshot_id"], row["snapshot_version"]) for row in found} == {("enwiki_namespace_0", VERSION)}
    assert [(row["name"], row["change_type"], row["extra"]) for row in found] == [
        ("Page 1", "update", None),
        ("Page 2", "update", None),
        ("Page 3", "update", '{"mood":"calm"}'),
    ]
    assert found[1]["event_at"] == found[1]["modified_at"]
    (reject,) = rows(made.rejects_path)
    assert (reject["batch_hour"], reject["line_number"], reject["raw"]) == (None, 3, b"bad")
    assert find_conversion(archive, lake.layout) == replace(made, converted=False, seconds=0.0)
    assert digest_of(replace(archive, snapshot_version="f" * 32)) != made.digest
