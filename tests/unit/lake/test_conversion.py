"""What a conversion tells, and that the same archive gives the same file."""

from __future__ import annotations

import gzip
import os
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.datasets import LISTS, SNAPSHOT_ARTICLES
from resources.lake import Archive, ArchiveError, ConversionError, convert, convert_list, digest_of
from resources.lake.encoded_blocks import encode_block
from resources.tables import ARTICLE_CHANGES, REJECTED_LINES, version_of


def changes(lake, count: int) -> list:
    kinds = ["update", "update", "delete", "update", "visibility-change"]
    return [lake.record(n, event={"type": kinds[n % 5], "date_created": "2026-11-19T05:00:00Z"}) for n in range(count)]


def test_counts_and_places(lake, rows):
    made = lake.convert(*changes(lake, 10), b"bad")
    archive = lake.archive(lake.lines(*changes(lake, 10), b"bad"))
    assert (made.row_count, made.reject_count) == (10, 1)
    assert (made.update_count, made.delete_count, made.visibility_change_count) == (6, 2, 2)
    assert made.archive_bytes == archive.path.stat().st_size
    assert made.ndjson_bytes == len(lake.lines(*changes(lake, 10), b"bad"))
    assert made.lake_bytes == made.path.stat().st_size
    assert made.converted
    assert made.seconds > 0
    assert made.digest == digest_of(archive)
    assert made.path == archive.lake_file(lake.layout, "article_changes", made.digest)
    assert made.rejects_path == archive.lake_file(lake.layout, "rejects", made.digest)
    assert {row["batch_hour"] for row in rows(made.path)} == {lake.hour}


def test_converted_once(lake):
    archive = lake.archive(lake.lines(*changes(lake, 10), b"bad", lake.record(11, mood="calm")))
    first = convert(archive, lake.layout)
    stamp = first.path.stat()
    archive.path.unlink()
    again = convert(archive, lake.layout)
    assert again == replace(first, converted=False, seconds=0.0)
    assert (first.path.stat().st_mtime_ns, first.path.stat().st_ino) == (stamp.st_mtime_ns, stamp.st_ino)
    assert pickle.loads(pickle.dumps(again)) == again


def test_rejects_that_were_removed_are_made_again(lake):
    archive = lake.archive(lake.lines(*changes(lake, 10), b"bad"))
    first = convert(archive, lake.layout)
    content = first.path.read_bytes(), first.rejects_path.read_bytes()
    first.rejects_path.unlink()
    again = convert(archive, lake.layout)
    assert again.converted
    assert (again.path.read_bytes(), again.rejects_path.read_bytes()) == content


@pytest.mark.usefixtures("small_blocks")
def test_same_bytes_in_same_bytes_out(lake):
    records = [*changes(lake, 60), b"bad", lake.record(1, mood="calm")]
    files = set()
    for name, options in {
        "one": {"workers": 1},
        "three": {"workers": 3, "memory_bytes": 576 << 20},
        "little": {"workers": 2, "memory_bytes": 416 << 20},
    }.items():
        made = lake.elsewhere(name).convert(*records, **options)
        files.add((made.path.read_bytes(), made.rejects_path.read_bytes()))
        assert pq.ParquetFile(made.path).num_row_groups > 3
    assert len(files) == 1


def test_digest_tells_what_decides_the_rows(lake, monkeypatch):
    archive = lake.archive(b"")
    digests = {
        digest_of(archive),
        digest_of(archive, frozenset()),
        digest_of(archive, frozenset({"html"})),
        digest_of(replace(archive, version="f" * 32)),
        digest_of(replace(archive, identifier="frwiki_namespace_0")),
    }
    monkeypatch.setattr("resources.lake.conversion.CONVERTER_VERSION", 10_000)
    digests.add(digest_of(archive))
    monkeypatch.setattr("resources.lake.conversion.version_of", lambda *_tables: 2)
    digests.add(digest_of(archive))
    assert len(digests) == 7


def test_files_of_the_first_declarations_are_found_again(lake):
    """Whoever changes a column has every archive converted again: then, and only then, these digests change as well."""
    made = Archive(Path("x"), "enwiki_namespace_0", "0" * 32, lake.hour, "enwiki", 0)
    assert digest_of(made) == "9c28bff18c7ee8073df3011d8103ba1f895854b78a795f75c1861ea7d4b3632d"
    assert digest_of(made, frozenset({"html"})).startswith("98f193e1c394fde8")
    known = {"snapshot_id": made.identifier, "snapshot_version": "1" * 32, "dataset": SNAPSHOT_ARTICLES}
    of_snapshot = Archive(Path("x"), made.identifier, made.version, None, "enwiki", 0, **known)
    assert digest_of(of_snapshot).startswith("5138b76aebf3ea1f")
    assert digest_of(of_snapshot, frozenset(), 64 << 20 | 1).startswith("75a80e1c5c97d4ac")
    assert {convert_list(one, b"[]", lake.layout).digest[:16] for one in LISTS} == {"2d9f567e42a88784"}
    # a column that says another thing of the rows makes them others; a description does not
    column = ARTICLE_CHANGES["url"]
    others = {}
    for change in (
        {},
        {"description": "x"},
        {"path": "uri"},
        {"required": True},
        {"lookup": True},
        {"type": pa.int64()},
    ):
        columns = tuple(replace(c, **change) if c is column else c for c in ARTICLE_CHANGES)
        others[str(change)] = version_of(replace(ARTICLE_CHANGES, columns=columns), REJECTED_LINES)
    assert [version == 1 for version in others.values()] == [True, True, False, False, False, False]
    assert len(set(others.values())) == 5


def test_bodies_are_kept_as_asked(lake, rows):
    kept = {"html": "<p>1</p>", "wikitext": "text 1"}
    for bodies in (frozenset(), frozenset({"html"}), frozenset({"wikitext"}), None):
        (row,) = rows(lake.convert(lake.record(1), bodies=bodies).path)
        expected = {name: text if bodies is None or name in bodies else None for name, text in kept.items()}
        assert {name: row[name] for name in kept} == expected
    with pytest.raises(ConversionError, match=r"Unknown bodies: pdf. Known bodies are html, wikitext."):
        lake.convert(lake.record(1), bodies=frozenset({"pdf"}))


def test_too_little_memory_is_said_before_anything_is_read(lake):
    with pytest.raises(
        ConversionError,
        match=r"100 MB of memory is too little for 2 workers. Nothing was converted. Allow at least \d+ MB",
    ):
        lake.convert(lake.record(1), memory_bytes=100 << 20, workers=2)
    assert not lake.layout.lake.exists()


def test_moment_of_a_change(lake, rows):
    event = {"type": "update"}
    created = event | {"date_created": "2026-11-19T05:00:01.5Z"}
    published = created | {"date_published": "2026-11-19T05:00:02.000001Z"}
    made = lake.convert(
        lake.record(1, event=published),
        lake.record(2, event=created),
        lake.record(3, event=event),
        lake.record(4, event=None),
    )
    found = rows(made.path)
    assert [row["event_at"] for row in found] == [
        datetime(2026, 11, 19, 5, 0, 2, 1, tzinfo=UTC),
        datetime(2026, 11, 19, 5, 0, 1, 500_000, tzinfo=UTC),
        datetime(2026, 11, 19, 5, 10, 11, tzinfo=UTC),
        datetime(2026, 11, 19, 5, 10, 11, tzinfo=UTC),
    ]
    assert [row["change_type"] for row in found] == ["update"] * 4


def test_file_is_as_declared(lake):
    made = lake.convert(*changes(lake, 20), b"bad")
    for path, table in ((made.path, ARTICLE_CHANGES), (made.rejects_path, REJECTED_LINES)):
        file = pq.ParquetFile(path)
        assert file.schema_arrow.equals(table.schema)
        assert b"conversion" in file.metadata.metadata
        group = file.metadata.row_group(0)
        columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        assert {column.compression for column in columns.values()} <= {"ZSTD", "UNCOMPRESSED"}
        for column in table:
            if column.name in columns:
                # texts of rejects, which may be equal in millions of rows, would take longer for them than for all else
                is_given = table is REJECTED_LINES and column.name in {
                    "project_id", "archive", "member", "reason", "raw",
                }  # fmt: skip
                assert columns[column.name].is_stats_set is not (column.body or is_given)
                told = columns[column.name].statistics
                empty = told is not None and told.null_count == group.num_rows
                assert ("RLE_DICTIONARY" in columns[column.name].encodings) is not (
                    column.body or column.rising or str(column.type) == "bool" or empty
                )
                assert ("DELTA_BINARY_PACKED" in columns[column.name].encodings) is column.rising
                assert (columns[column.name].bloom_filter_offset is not None) is column.lookup
    assert [column.name for column in ARTICLE_CHANGES][-2:] == ["html", "wikitext"]


@pytest.mark.usefixtures("small_blocks")
def test_progress_rises_to_the_whole_archive(lake):
    seen: list[tuple[int, int]] = []
    made = lake.convert(*changes(lake, 120), progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (made.archive_bytes, made.archive_bytes)
    assert len(seen) > 5


@pytest.mark.usefixtures("small_blocks")
def test_an_error_of_the_caller_stops_all_threads(lake):
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    import threading

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        lake.convert(*changes(lake, 300), progress=interrupt)
    assert set(threading.enumerate()) <= before
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]


def test_rows_that_do_not_add_up_are_never_landed(lake, monkeypatch):
    def miscounted(block, **more):
        return replace(encode_block(block, **more), line_count=5)

    monkeypatch.setattr("resources.lake.converter.encode_block", miscounted)
    with pytest.raises(ConversionError, match="5 lines, but produced 1 rows and 0 rejects"):
        lake.convert(lake.record(1))
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]


@pytest.mark.usefixtures("small_blocks")
def test_damage_after_good_blocks_lands_nothing(lake):
    archive = lake.archive(lake.lines(*(lake.record(n, abstract=os.urandom(2000).hex()) for n in range(120))))
    data = archive.path.read_bytes()
    archive.path.write_bytes(data[: len(data) * 3 // 4])
    seen: list[int] = []
    with pytest.raises(ArchiveError, match=r"member enwiki_namespace_0_0.ndjson at byte"):
        convert(archive, lake.layout, progress=lambda done, _total: seen.append(done))
    assert seen
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]


def test_archive_from_elsewhere(lake, rows, tmp_path):
    archive = lake.archive(lake.lines(lake.record(1), b"bad"))
    moved = tmp_path / "moved.tar.gz"
    archive.path.rename(moved)
    made = convert(replace(archive, path=moved), lake.layout)
    assert rows(made.rejects_path)[0]["archive"] == "moved.tar.gz"


def test_gzip_of_any_level(lake, make_tar):
    tar = make_tar([("a.ndjson", lake.lines(*changes(lake, 50)))])
    assert {convert(lake.from_bytes(gzip.compress(tar, level)), lake.layout).row_count for level in (0, 1, 9)} == {50}
