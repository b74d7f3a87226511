"""Lines longer than any record, and bad lines too long for a row, which are whole in a file beside the rejects."""

import gzip
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from resources.lake import ArchiveError, Converter, convert, digest_of, find_conversion
from resources.lake.rejects import RAW_BYTES_MAX, lines_file, whole_line

LONGEST = 16 << 20


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two kilobytes, records of ten thousand bytes, rows with a thousand of a bad line."""
    monkeypatch.setattr("resources.lake.converter.BLOCK_BYTES", 2048)
    monkeypatch.setattr("resources.lake.rejects.RAW_BYTES_MAX", 1000)
    monkeypatch.setattr("resources.lake.rejects.RAW_BEGINNING_BYTES", 100)


def whole(lake, reject) -> bytes:
    if reject["raw_path"] is None:
        return reject["raw"]
    return b"".join(whole_line(lake.layout, reject["raw_path"], reject["raw_offset"]))


def lines_of(lake, rng: random.Random, count: int) -> list[bytes]:
    lines = []
    for number in range(count):
        size = rng.choice([0, 10, 900, 1001, 2500, 9000, 10_000, 10_001, 10_002, 13_000, 50_000])
        text = rng.randbytes(size).hex()[:size]
        line = json.dumps(lake.record(number, abstract=text)).encode()
        lines.append(line if rng.random() < 0.6 else rng.choice([text.encode(), line[: rng.randrange(len(line))]]))
    return lines


@pytest.mark.usefixtures("short_limits", "how")
def test_lines_of_every_length_become_rows_or_rejects_whole(lake, rows):
    rng = random.Random(0)
    datas = [b"\n".join(lines_of(lake, rng, rng.randrange(1, 30))) + rng.choice([b"", b"\n"]) for _ in range(3)]
    datas.append(b"x" * 10_000 + b"\n" + b"y" * 10_001)
    made = convert(lake.archive(*datas), lake.layout, record_bytes_max=10_000, workers=rng.choice([1, 3]))
    every = {f"enwiki_namespace_0_{number}.ndjson": data for number, data in enumerate(datas)}
    rejected = rows(made.rejects_path)
    expected = sum(1 for data in datas for line in data.split(b"\n") if line.strip(b" \t\r"))
    assert (made.row_count + made.reject_count, made.ndjson_bytes) == (expected, sum(map(len, datas)))
    places = [(r["member"], r["line_number"]) for r in rejected]
    assert places == sorted(places)
    for reject in rejected:
        data = every[reject["member"]]
        line = data.split(b"\n")[reject["line_number"] - 1]
        assert (whole(lake, reject), reject["raw_bytes"]) == (line, len(line))
        assert data[reject["byte_offset"] :].startswith(line)
        assert reject["raw"] == (line if len(line) <= 1000 else line[:100])
        told = f"{len(line):,} bytes long; the maximum record length is 10,000 bytes (WME_MAX_RECORD_MB)."
        assert (reject["reason"] == f"The line is {told}") == (len(line) > 10_000)
    long = [whole(lake, reject) for reject in rejected if reject["raw_path"] is not None]
    assert gzip.decompress(lines_file(made.rejects_path).read_bytes()) == b"".join(line + b"\n" for line in long)
    lines = (line for data in datas for line in data.split(b"\n"))
    good = [json.loads(line)["identifier"] for line in lines if len(line) <= 10_000 and line.endswith(b"}")]
    assert [row["article_id"] for row in rows(made.path)] == good


@pytest.mark.usefixtures("short_limits")
def test_the_same_lines_give_the_same_files(lake):
    data, files = b"\n".join(lines_of(lake, random.Random(7), 30)), set()
    for name, workers in (("one", 1), ("three", 3), ("again", 3)):
        there = lake.elsewhere(name)
        made = convert(there.archive(data), there.layout, record_bytes_max=10_000, workers=workers)
        files.add(tuple(path.read_bytes() for path in (made.path, made.rejects_path, lines_file(made.rejects_path))))
    assert len(files) == 1


@pytest.mark.usefixtures("short_limits")
def test_a_conversion_whose_long_lines_were_removed_is_made_again(lake, monkeypatch):
    archive, trims = lake.archive(b"x" * 3000), []
    monkeypatch.setattr("resources.lake.converter.trim", lambda: trims.append(1))
    made = convert(archive, lake.layout)
    assert len(trims) == 2  # after a line that exceeds a block, and at the end
    with Converter(workers=1, record_bytes_max=10_000) as converter:
        for line in (b"y" * 3000, b"z"):
            converter.convert(lake.archive(line, identifier=f"{line[:1].decode()}_namespace_0"), lake.layout)
        assert len(trims) == 3, "a short line leaves nothing to give back"
    assert find_conversion(archive, lake.layout) is not None
    lines_file(made.rejects_path).unlink()
    assert find_conversion(archive, lake.layout) is None
    assert convert(archive, lake.layout).converted
    assert lines_file(made.rejects_path).exists()


@pytest.mark.usefixtures("short_limits")
def test_an_error_leaves_no_file_of_long_lines(lake):
    archive = lake.archive(b"\n".join(lines_of(lake, random.Random(3), 30)))

    def interrupt(_done: int, _total: int) -> None:
        if list(lake.layout.lake.glob("**/*.lines.gz.*.unfinished")):
            raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        convert(archive, lake.layout, record_bytes_max=10_000, progress=interrupt)
    assert set(threading.enumerate()) <= before
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]
    assert convert(archive, lake.layout, record_bytes_max=10_000).reject_count


@pytest.mark.usefixtures("short_limits")
def test_a_long_line_whose_file_is_cut_off_is_told_of(lake, rows):
    made = lake.convert(random.Random(1).randbytes(3000).hex().encode())
    [reject] = rows(made.rejects_path)
    path = lines_file(made.rejects_path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(OSError, match="ends in the middle of a line"):
        whole(lake, reject)
    path.write_bytes(b"x" + path.read_bytes())
    with pytest.raises(OSError, match=rf"{path.name} is damaged: "):
        whole(lake, reject)
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=rf"{path.name} cannot be read: it is a directory"):
        whole(lake, reject)


def test_the_longest_record_decides_the_digest_where_it_is_not_the_usual_one(lake):
    archive = lake.archive(b"")
    assert digest_of(archive) == digest_of(archive, record_bytes_max=64 << 20)
    assert len({digest_of(archive, record_bytes_max=size << 20) for size in (16, 64, 128)}) == 3
    made = convert(archive, lake.layout, record_bytes_max=LONGEST)
    assert find_conversion(archive, lake.layout) is None
    again = [do(archive, lake.layout, record_bytes_max=LONGEST) for do in (find_conversion, convert)]
    assert again == [replace(made, converted=False, seconds=0.0)] * 2


def test_lines_of_a_mebibyte_are_whole_in_their_rows(lake, rows):
    lines = b"y" * RAW_BYTES_MAX + b"\r", b"z" * (RAW_BYTES_MAX + 1)
    first, second, third = rows(lake.convert(b"x" * RAW_BYTES_MAX, *lines).rejects_path)
    assert (len(first["raw"]), first["raw_path"]) == (RAW_BYTES_MAX, None)
    assert (len(second["raw"]), second["raw_offset"]) == (4096, 0)
    assert (whole(lake, second), whole(lake, third)) == lines


@pytest.mark.usefixtures("short_limits")
def test_many_callers_with_long_lines_wait_for_one_another_and_never_for_ever(lake):
    """Long lines take turns, buffers are few, every third archive is cut off, every fourth caller gives up."""
    rng, archives = random.Random(5), []
    for number in range(12):
        members = (b"\n".join(lines_of(lake, rng, 10)) for _ in range(2))
        archive = lake.archive(*members, identifier=f"enwiki_namespace_{number}")
        if number % 3 == 1:
            data = archive.path.read_bytes()
            archive.path.write_bytes(data[: len(data) * 2 // 3])
        archives.append(archive)

    def one(converter: Converter, number: int):
        def give_up(_done: int, _total: int) -> None:
            if number % 4 == 2:
                raise KeyboardInterrupt

        try:
            return converter.convert(archives[number], lake.layout, progress=give_up).reject_count
        except (ArchiveError, KeyboardInterrupt) as error:
            return type(error).__name__

    with Converter(workers=2, record_bytes_max=10_000) as converter, ThreadPoolExecutor(6) as callers:
        futures = [callers.submit(one, converter, number) for number in range(12)]
        found = [future.result(timeout=120) for future in futures]
        again = converter.convert(lake.archive(b"x" * 9000), lake.layout)  # everything was given back
    assert again.reject_count == 1
    assert {"ArchiveError", "KeyboardInterrupt"} < set(found)
    whole = [number for number in range(12) if number % 3 != 1 and number % 4 != 2]
    assert all(isinstance(found[number], int) for number in whole)
    assert not list(lake.layout.lake.glob("**/*.unfinished"))


def test_row_groups_of_rejects_are_neither_many_nor_large(lake, small_blocks):
    made = lake.convert(*(b"bad" if n % 3 else b"b" * 1000 for n in range(1000)))
    groups = pq.ParquetFile(made.rejects_path).metadata
    assert (made.reject_count, groups.num_row_groups) == (1000, 1)
    made = lake.elsewhere("monster").convert(*(b"%d" % n + b"b" * 1_000_000 for n in range(25)))
    groups = pq.ParquetFile(made.rejects_path).metadata
    sizes = [groups.row_group(number).total_byte_size for number in range(groups.num_row_groups)]
    assert (len(sizes), max(sizes) < 20 << 20) == (3, True)
