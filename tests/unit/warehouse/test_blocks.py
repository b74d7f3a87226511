"""Copying onto an older file: the same bytes afterwards, and no more written than differs."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources.warehouse.publish import blocks

WORD = 8


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Blocks of 64 bytes behind headers of 24, in spans that cut through them."""
    monkeypatch.setattr(blocks, "HEADER_BYTES", 24)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(blocks, "_SPAN_BYTES", 160)


def copied(folder, new, old):
    source, target = folder / "source", folder / "target"
    source.write_bytes(new)
    target.unlink(missing_ok=True)
    if old is not None:
        target.write_bytes(old)
    descriptor = os.open(source, os.O_RDONLY)
    try:
        written = blocks.copy_changed(descriptor, target)
    finally:
        os.close(descriptor)
    assert target.read_bytes() == new
    return written


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 700), st.integers(0, 700), st.lists(st.integers(0, 699), max_size=4), st.booleans())
def test_bytes_are_those_of_the_source_whatever_was_there(tmp_path, new_size, old_size, changed, is_related):
    new = bytes(number % 251 for number in range(new_size))
    old = bytearray(new[:old_size].ljust(old_size, b"y") if is_related else os.urandom(old_size))
    for place in changed:
        if place < old_size:
            old[place] ^= 255
    written = copied(tmp_path, new, bytes(old))
    assert written <= new_size
    assert copied(tmp_path, new, new) == 0 or not new
    if is_related:
        assert written <= 2 * 64 * len(changed) + max(0, new_size - old_size) + 64 * 4


def test_only_the_block_that_differs_is_written(tmp_path):
    new = bytes(24 + 4 * 64)
    old = bytearray(new)
    old[24 + 64 + 5] = 1
    assert copied(tmp_path, new, bytes(old)) == 64
    old[3] = 1
    assert copied(tmp_path, new, bytes(old)) == 64 + 24


def test_the_same_words_in_another_order_differ(tmp_path):
    """DuckDB's checksum of a block, an exclusive or over its words, is the same for both."""
    words = [os.urandom(WORD) for _ in range(64 // WORD)]
    old, new = b"".join(words), b"".join([words[1], words[0], *words[2:]])
    assert copied(tmp_path, bytes(24) + new, bytes(24) + old) == 64


def test_whole_copy_without_help_of_the_kernel(tmp_path, monkeypatch):
    new = os.urandom(24 + 3 * 64 + 10)

    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    assert copied(tmp_path, new, None) == len(new)
    monkeypatch.delattr(os, "copy_file_range")
    assert copied(tmp_path, new, None) == len(new)


@pytest.mark.parametrize("old", [None, b"something"])
def test_source_that_becomes_shorter_is_noticed(tmp_path, monkeypatch, old):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(1000))
    if old is not None:
        target.write_bytes(old)
    size = os.fstat
    descriptor = os.open(source, os.O_RDONLY)

    def shrinking(asked):
        found = size(asked)
        os.truncate(source, 100)
        return found

    monkeypatch.setattr(os, "fstat", shrinking)
    try:
        with pytest.raises(blocks.SourceShrankError):
            blocks.copy_changed(descriptor, target)
    finally:
        os.close(descriptor)


def test_mark_of_a_file_that_is_written_is_another(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    with path.open("r+b", buffering=0) as file:
        first = blocks.mark(file.fileno())
        assert blocks.mark(file.fileno()) == first
        file.write(b"x")
        # a write that the clock does not show is shown by the headers
        os.utime(path, ns=(0, first.file[3]))
        assert blocks.mark(file.fileno()).headers != first.headers
