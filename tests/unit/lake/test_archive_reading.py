"""Damaged, empty and odd archives: what is read, and what is said."""

import gzip
import random
import tarfile
from unittest.mock import Mock

import pytest

from resources.lake import ArchiveError, LakeError, convert
from resources.lake.archive.buffers import Buffers
from resources.lake.decode.records import RecordReader
from tests.unit.lake.conftest import tar_bytes


def refusal(lake, data: bytes) -> ArchiveError:
    """Convert these bytes; nothing may be landed."""
    with pytest.raises(ArchiveError) as caught:
        convert(lake.from_bytes(data), lake.layout)
    assert not [path for path in lake.layout.lake.glob("**/*") if path.is_file()]
    assert str(caught.value).endswith("fetch it again, if the service still offers it.")
    assert not caught.value.retryable
    return caught.value


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_all_forms_of_tar(lake, rows, form):
    name = "x" * 60 + ("/" + "y" * 60 if form == tarfile.USTAR_FORMAT else "é" * 80) + ".ndjson"
    data = tar_bytes([(name, lake.lines(lake.record(1), b"{}"))], format=form, encoding="utf-8")
    # in two gzip members of different levels
    made = convert(lake.from_bytes(gzip.compress(data[:700], 0) + gzip.compress(data[700:], 9)), lake.layout)
    assert (made.row_count, [row["member"] for row in rows(made.rejects_path)]) == (1, [name])


def test_a_member_without_lines_is_an_empty_hour_and_a_missing_archive_none(lake, rows):
    made = convert(lake.archive(b""), lake.layout)
    assert (made.row_count, made.reject_count, made.ndjson_bytes, rows(made.path)) == (0, 0, 0, [])
    assert made.rejects_path is None
    archive = lake.elsewhere("other").archive(b"")
    archive.path.unlink()
    with pytest.raises(LakeError, match=r"is missing. Nothing was converted"):
        convert(archive, lake.elsewhere("other").layout)


def test_what_is_no_archive_is_said_and_keeps_no_buffer(lake, monkeypatch):
    loans, take = [], Buffers.take
    monkeypatch.setattr(Buffers, "take", lambda pool: loans.append(take(pool)) or loans[-1])
    whole = lake.archive(lake.lines(lake.record(1))).path.read_bytes()
    flipped = whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:]
    extended = bytearray(tar_bytes([("é" * 80 + ".ndjson", b"{}\n")], format=tarfile.PAX_FORMAT))
    extended[512:516] = b"oops"
    for data, words in (
        (b"", "the archive is empty (0 bytes)"),
        (b"<html>busy</html>" * 100, "the gzip data is damaged or truncated"),
        (gzip.compress(b"{}\n" * 1000), "the tar is damaged"),
        (gzip.compress(tar_bytes([])), "contains no members"),
        (gzip.compress(tar_bytes([("readme.txt", b"hello"), ("x.json", b"{}")])), "only readme.txt, x.json"),
        (gzip.compress(bytes(extended)), "extended header cannot be read"),
        (flipped, "damaged"),
        (whole[:20] + b"\xff" * 20 + whole[40:], "gzip data is damaged or truncated: Error -1 Invalid deflate block"),
        *((whole[:-cut], "damaged or truncated") for cut in (1, 4, 8)),
    ):
        assert words in str(refusal(lake, data))
    monkeypatch.setattr(RecordReader, "read", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        convert(lake.from_bytes(whole), lake.layout)
    assert {loan._holders for loan in loans} == {0}


def test_cut_off_gzip_names_member_and_offset(lake, small_blocks):
    rng = random.Random(1)
    body = {"html": "", "wikitext": rng.randbytes(2000).hex()}
    whole = lake.archive(lake.lines(*(lake.record(n, article_body=body) for n in range(60)))).path.read_bytes()
    error = refusal(lake, whole[: len(whole) // 2])
    assert error.member == "enwiki_namespace_0_0.ndjson"
    assert 2048 < error.offset < 1_000_000
    assert f"in member {error.member} at byte {error.offset}" in str(error)


def test_damage_of_a_tar_is_told_with_its_place(lake):
    data = tar_bytes([("a.ndjson", lake.lines(*(lake.record(n) for n in range(50))))])
    error = refusal(lake, gzip.compress(data[:4000]))
    assert "the tar file is truncated" in str(error)
    assert (error.member, error.offset) == ("a.ndjson", 4000 - 512)
    content = lake.lines(lake.record(1))
    whole = 512 + -(-len(content) // 512) * 512
    error = refusal(lake, gzip.compress(tar_bytes([("a.ndjson", content)])[:whole]))
    assert "the tar file is truncated" in str(error)
    assert (error.member, error.offset) == (None, whole)
    data = bytearray(tar_bytes([("a.ndjson", b"{}\n"), ("b.ndjson", b"{}\n")]))
    data[1024 + 3] ^= 0x40
    error = refusal(lake, gzip.compress(bytes(data)))
    assert "the tar is damaged: bad checksum" in str(error)
    assert "at byte 1536 of the tar" in str(error)
