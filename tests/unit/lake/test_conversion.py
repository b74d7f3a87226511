"""What a conversion tells, and that the same archive gives the same file."""

import json
import pickle
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import machine
from resources.datasets import LISTS, SNAPSHOT_ARTICLES, datasets
from resources.lake import Archive, ConversionError, Converter, convert, convert_list, digest_of, find_conversion
from resources.lake.archive.blocks import BLOCK_BYTES
from resources.lake.conversion import conversion_version
from resources.lake.encoded_blocks import encode_block
from resources.tables import ARTICLE_CHANGES, REJECTED_LINES, version_of


def changes(lake, count: int) -> list:
    kinds = ["update", "update", "delete", "update", "visibility-change", "delete"]
    return [lake.record(n, event={"type": kinds[n % 6], "date_created": "2026-11-19T05:00:00Z"}) for n in range(count)]


def test_counts_and_places(lake, rows, tmp_path):
    archive = lake.archive(lines := lake.lines(*changes(lake, 10), b"bad"))
    made = convert(archive, lake.layout)
    assert (made.row_count, made.reject_count) == (10, 1)
    assert (made.update_count, made.delete_count, made.visibility_change_count) == (6, 3, 1)
    sizes = (archive.path.stat().st_size, len(lines), made.path.stat().st_size)
    assert (made.archive_bytes, made.ndjson_bytes, made.lake_bytes) == sizes
    assert (made.converted, made.seconds > 0, made.digest) == (True, True, digest_of(archive))
    assert made.path == archive.lake_file(lake.layout, "article_changes", made.digest)
    assert made.rejects_path == archive.lake_file(lake.layout, "rejects", made.digest)
    assert {row["batch_hour"] for row in rows(made.path)} == {lake.hour}
    assert f"archive/{rows(made.rejects_path)[0]['archive']}" == lake.layout.relative(archive.path)
    archive = lake.archive(lake.lines(lake.record(1, namespace={"identifier": 14}), b"bad"))
    archive = replace(archive, path=archive.path.rename(tmp_path / "moved.tar.gz"), namespace_id=14)
    made = convert(archive, lake.elsewhere("other").layout)
    assert (made.version, made.project_id, made.namespace_id) == (archive.version, "enwiki", 14)
    places = {(row["archive"], row["batch_hour"], row["namespace_id"]) for row in rows(made.rejects_path)}
    assert places == {("moved.tar.gz", lake.hour, 14)}


def test_converted_once(lake):
    archive = lake.archive(lake.lines(*changes(lake, 10), b"bad", lake.record(11, mood="calm")))
    first = convert(archive, lake.layout)
    stamp = first.path.stat()
    archive.path.unlink()
    with Converter(workers=1) as converter:  # what is as it should be is not read again, if asked to, either
        again, checked = (converter.convert(archive, lake.layout, again=one) for one in (False, True))
    assert again == checked == replace(first, converted=False, seconds=0.0)
    assert (first.path.stat().st_mtime_ns, first.path.stat().st_ino) == (stamp.st_mtime_ns, stamp.st_ino)
    assert pickle.loads(pickle.dumps(again)) == again


def test_what_lies_in_the_place_of_a_conversion_is_not_taken_for_it(lake, tmp_path):
    archive, other = (lake.archive(lake.lines(lake.record(n), b"bad")) for n in (1, 2))
    made, odd, bare = convert(archive, lake.layout), tmp_path / "odd", tmp_path / "bare"
    for path in (odd, bare):  # without the facts, and without any metadata
        pq.write_table(pa.table({"x": [1, 2]}), path, store_schema=path == odd)
    others = [convert(other, lake.layout).path, odd, bare, odd]
    for ours, theirs in zip([*[made.path] * 3, made.rejects_path], others, strict=True):
        content = ours.read_bytes()
        ours.write_bytes(theirs.read_bytes())
        assert find_conversion(archive, lake.layout) is None
        ours.write_bytes(content)
    assert find_conversion(archive, lake.layout) == replace(made, converted=False, seconds=0.0)


def test_workers_and_memory_follow_from_the_machine(monkeypatch):
    known = [(8, 65536, 8, 16384), (16, 8040, 11, 2010), (4, 1024, 2, 512), (2, 600, 1, 300)]
    for cores, usable, workers, memory in known:
        monkeypatch.setattr(machine, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(machine, "memory_bytes", lambda usable=usable: usable << 20)
        with Converter() as made:
            assert (made.workers, made.memory_bytes >> 20, made.readers) == (workers, memory, 2 * workers + 1)
    with Converter(workers=3, memory_bytes=1 << 30) as made:
        assert (made.workers, made.memory_bytes) == (3, 1 << 30)  # as given, although there are two cores


def test_digest_tells_what_decides_the_rows(lake, monkeypatch):
    archive = lake.archive(b"")
    others = (replace(archive, version="f" * 32), replace(archive, identifier="frwiki_namespace_0"))
    digests = {*map(digest_of, (archive, *others)), *(digest_of(archive, frozenset(one)) for one in ((), {"html"}))}
    digests.add(digest_of(archive, frozenset({"html", "labels_json"})))  # what only another table has changes nothing
    for name, value in (("CONVERTER_VERSION", 10_000), ("version_of", lambda *_tables: 2)):
        monkeypatch.setattr(f"resources.lake.conversion.{name}", value)
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
    later = [conversion_version(one.table)[:8] for one in datasets()[-4:]]
    assert later == ["a54d4f07", "625aced2", "43d1951e", "c22188f6"]
    # a column that says another thing of the rows makes them others; a description does not
    column = ARTICLE_CHANGES["url"]
    changes = ({}, {"description": "x"}, {"path": "uri"}, {"required": True}, {"lookup": True}, {"type": pa.int64()})
    versions = []
    for change in changes:
        columns = tuple(replace(c, **change) if c is column else c for c in ARTICLE_CHANGES)
        versions.append(version_of(replace(ARTICLE_CHANGES, columns=columns), REJECTED_LINES))
    assert [version == 1 for version in versions] == [True, True, False, False, False, False]
    assert len(set(versions)) == 5


def test_bodies_are_kept_as_asked(lake, rows):
    kept = {"html": "<p>1</p>", "wikitext": "text 1"}
    for bodies in (frozenset(), frozenset({"html"}), frozenset({"wikitext"}), None):
        (row,) = rows(path := lake.convert(lake.record(1), bodies=bodies).path)
        noted = json.loads(pq.read_metadata(path).metadata[b"conversion"])["bodies"]
        assert noted == sorted(kept if bodies is None else bodies)
        expected = {name: text if bodies is None or name in bodies else None for name, text in kept.items()}
        assert {name: row[name] for name in kept} == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bodies": frozenset({"pdf"})}, r"Unknown bodies: pdf. Known bodies are html, wikitext."),
        (
            {"memory_bytes": 100 << 20, "workers": 2},
            r"100 MB of memory is too little for 2 workers. Nothing was converted. Allow at least 416 MB, or use fewer",
        ),
        *(
            ({"record_bytes_max": size}, f"limit of {size:,} bytes is out of range. 16,777,216 to 1,073,741,824 bytes")
            for size in (0, BLOCK_BYTES - 1, (1 << 30) + 1)
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_read(lake, options, words):
    with pytest.raises(ConversionError, match=words):
        lake.convert(lake.record(1), **options)
    assert not lake.layout.lake.exists()


def test_columns_are_encoded_as_they_are_declared(lake):
    made = lake.convert(*changes(lake, 300), b"bad")
    # statistics of texts that may be equal in millions of rejects would take longer than all else
    repeated = {REJECTED_LINES[name] for name in ("project_id", "archive", "member", "reason", "raw")}
    for path, table, left_out in ((made.path, ARTICLE_CHANGES, set()), (made.rejects_path, REJECTED_LINES, repeated)):
        metadata = pq.read_metadata(path)
        assert b"conversion" in metadata.metadata
        leaves = map(metadata.row_group(0).column, range(metadata.num_columns))
        for leaf in (leaf for leaf in leaves if "." not in leaf.path_in_schema):
            column = table[leaf.path_in_schema]
            assert leaf.is_stats_set is not (column.body or column in left_out)
            is_empty = leaf.is_stats_set and leaf.statistics.null_count == metadata.num_rows
            is_plain = column.body or column.rising or is_empty or column.type == pa.bool_()
            assert ("RLE_DICTIONARY" in leaf.encodings) is not is_plain
            assert ("DELTA_BINARY_PACKED" in leaf.encodings) is column.rising
            assert (leaf.bloom_filter_offset is not None) is column.lookup
            assert (leaf.bloom_filter_length or 0) >= metadata.num_rows * column.lookup  # otherwise it excludes nothing
            assert leaf.compression == "ZSTD" or not column.body


def test_rows_and_rejects_have_the_level_that_is_asked_for(lake):
    rng = random.Random(1)
    texts = [" ".join(rng.choices(["lake", "river", "sea", "spring"], k=200)) for _ in range(100)]
    records = [lake.record(n, abstract=text) for n, text in enumerate(texts)]
    made = [lake.elsewhere(str(n)).convert(*records, *map(str.encode, texts), level=n) for n in (1, 19)]
    for low, high in zip(*[(one.path, one.rejects_path) for one in made], strict=True):
        assert high.stat().st_size < 0.9 * low.stat().st_size


@pytest.mark.usefixtures("small_blocks")
def test_progress_rises_to_the_whole_archive(lake):
    seen: list[tuple[int, int]] = []
    how = {"record_bytes_max": 10_000, "progress": lambda *numbers: seen.append(numbers)}
    made = lake.convert(*changes(lake, 120), b"x" * 10_001, **how)
    assert (seen, seen[-1]) == (sorted(seen), (made.archive_bytes, made.archive_bytes))
    assert len(seen) > 5
    seen.clear()
    made = lake.convert(b"x" * 10_001, **how)
    assert seen == [(made.archive_bytes, made.archive_bytes)]


def test_rows_that_do_not_add_up_are_never_landed(lake, monkeypatch):
    def miscounted(block, **more):
        return replace(encode_block(block, **more), line_count=5)

    monkeypatch.setattr("resources.lake.converter.encode_block", miscounted)
    with pytest.raises(ConversionError, match="5 lines, but produced 1 rows and 0 rejects"):
        lake.convert(lake.record(1))
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]


VERSION = "0123456789abcdef0123456789abcdef"


def test_rows_and_rejects_of_a_snapshot(lake, rows, how):
    plain = lake.record(2)
    plain.pop("event")
    hourly = lake.archive(lake.lines(lake.record(1), plain, b"bad", lake.record(3, mood="calm")))
    known = {"snapshot_id": "enwiki_namespace_0", "snapshot_version": VERSION, "dataset": SNAPSHOT_ARTICLES}
    archive = replace(hourly, identifier="enwiki_namespace_0_chunk_3", batch_hour=None, **known)
    made = convert(archive, lake.layout)
    name = f"enwiki_namespace_0/01234567/enwiki_namespace_0_chunk_3.{made.digest[:8]}.parquet"
    places = (lake.layout.lake / "snapshot_articles" / name, lake.layout.lake / "rejects" / name)
    assert (made.path, made.rejects_path) == places
    assert pq.read_schema(made.path).equals(SNAPSHOT_ARTICLES.table.schema)
    assert pq.read_schema(made.rejects_path).equals(REJECTED_LINES.schema)
    found = rows(made.path)
    assert {(row["snapshot_id"], row["snapshot_version"]) for row in found} == {("enwiki_namespace_0", VERSION)}
    expected = [(f"Page {n}", "update", '{"mood":"calm"}' if n == 3 else None) for n in (1, 2, 3)]
    assert [(row["name"], row["change_type"], row["extra"]) for row in found] == expected
    assert found[1]["event_at"] == found[1]["modified_at"]
    (reject,) = rows(made.rejects_path)
    assert (reject["batch_hour"], reject["line_number"], reject["raw"]) == (None, 3, b"bad")
    assert find_conversion(archive, lake.layout) == replace(made, converted=False, seconds=0.0)
    assert digest_of(replace(archive, snapshot_version="f" * 32)) != made.digest
