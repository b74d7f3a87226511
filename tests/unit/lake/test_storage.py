"""The lake works on another storage than the local file system, and touches paths only through `Storage`."""

import errno
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.datasets import ARTICLE_CHANGES, named
from resources.lake import CompactionJob, Converter, Layout, compact, convert_list, find_conversion
from resources.lake.rejects import RAW_BYTES_MAX, whole_line
from resources.lake_files import CompactionSource
from resources.storage import Storage, is_damage, verify
from tests.unit.lake.conftest import Lake


class MemoryStorage(Storage):
    """Files in memory, by their paths."""

    def __init__(self) -> None:
        self.files: dict[Path, tuple[bytes, datetime]] = {}

    def put(self, finished: Path, path: Path) -> None:
        self.files[path] = (finished.read_bytes(), datetime.now(UTC))
        finished.unlink()

    def open(self, path: Path) -> pa.NativeFile:
        return pa.BufferReader(self._found(path)[0])

    def exists(self, path: Path) -> bool:
        return path in self.files

    def list(self, folder: Path, pattern: str = "**/*") -> list[Path]:
        below = (path for path in self.files if path.is_relative_to(folder))
        return sorted(path for path in below if path.relative_to(folder).match(pattern.removeprefix("**/")))

    def delete(self, path: Path) -> None:
        self.files.pop(path, None)

    def modified(self, path: Path) -> datetime:
        return self._found(path)[1]

    def size(self, path: Path) -> int:
        return len(self._found(path)[0])

    def _found(self, path: Path) -> tuple[bytes, datetime]:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]


def test_a_link_to_a_file_on_another_disk_is_read(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"rows")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with Storage().open(tmp_path / "link") as file:
        assert file.read() == b"rows"


def test_what_passes_is_no_damage():
    passing = [pa.ArrowMemoryError("malloc"), *(OSError(one, "") for one in (errno.EMFILE, errno.ENOENT, errno.EACCES))]
    errors = [*passing, OSError(errno.EIO, ""), ValueError("it is a directory"), pa.ArrowInvalid("no magic")]
    assert [is_damage(one) for one in errors] == [False] * 4 + [True] * 3


def test_a_file_without_rows_and_one_with_large_rows_are_verified(tmp_path):
    for rows in ([], ["x" * (5 << 20)] * 2):
        path = tmp_path / f"{len(rows)}.parquet"
        pq.write_table(pa.table({"text": pa.array(rows, pa.string())}), path, compression="none", use_dictionary=False)
        assert verify(path) == len(rows)


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(Layout(tmp_path / "data", storage=MemoryStorage()))


def rows_in(lake: Lake, path: Path) -> list[dict]:
    with lake.layout.storage.open(path) as file:
        return pq.read_table(file).to_pylist()


def test_files_are_converted_listed_read_and_deleted(lake):
    storage, folder = lake.layout.storage, lake.layout.lake
    made = lake.convert(lake.record(1), b"x" * (RAW_BYTES_MAX + 5), lake.record(2))
    assert storage.list(folder, "**/*.parquet") == sorted([made.path, made.rejects_path])
    assert not made.path.exists()
    assert storage.size(made.path) == made.lake_bytes
    assert [row["name"] for row in rows_in(lake, made.path)] == ["Page 1", "Page 2"]
    (rejected,) = rows_in(lake, made.rejects_path)
    assert b"".join(whole_line(lake.layout, rejected["raw_path"], 0)) == b"x" * (RAW_BYTES_MAX + 5)
    archive = lake.archive(lake.lines(lake.record(1), b"x" * (RAW_BYTES_MAX + 5), lake.record(2)))
    assert find_conversion(archive, lake.layout).row_count == 2
    storage.delete(made.rejects_path)
    assert find_conversion(archive, lake.layout) is None
    for path in storage.list(folder):
        storage.delete(path)
    assert storage.list(folder) == []
    assert not [path for path in folder.rglob("*") if path.is_file()]  # no local file is left behind


def test_a_damaged_file_is_replaced_by_a_second_conversion(lake, monkeypatch, caplog):
    monkeypatch.setattr("resources.lake.rejects.RAW_BYTES_MAX", 3)
    monkeypatch.setattr("resources.lake.converter._READ_BYTES", 10)
    archive = lake.archive(lake.lines(lake.record(1), b"bad", b"b" * 10_000))
    storage = lake.layout.storage
    with Converter(workers=1) as converter:
        made = converter.convert(archive, lake.layout, again=True)
        assert (made.row_count, caplog.text) == (1, "")
        before = dict(storage.files)
        assert not converter.convert(archive, lake.layout, again=True).converted
        assert (storage.files, len(before)) == (before, 3)
        for path, (whole, when) in before.items():
            changed = whole.replace(b"Page", b"page").replace(b"bad", b"Bad")
            for wrong in (changed, whole[:-30] + whole[-25:], whole[:-5]):
                storage.files[path] = (wrong, when)
                caplog.clear()
                assert converter.convert(archive, lake.layout, again=True).converted is (wrong != whole)
                assert storage.files[path][0] == whole
                assert caplog.messages == [f"{made.path} was damaged and has been replaced."] * (wrong != whole)


def test_files_are_compacted(lake):
    made = [lake.convert(lake.record(number)) for number in (2, 1)]
    sources = tuple(CompactionSource(one.path.relative_to(lake.layout.lake).as_posix(), 1) for one in made)
    job = CompactionJob(ARTICLE_CHANGES.name, sources, "day", "0" * 64, 1 << 20, 1 << 20, 64 << 20, 3, 1)
    ((file,), _) = compact(job, lake.layout)
    assert sorted(row["name"] for row in rows_in(lake, lake.layout.lake / file.lake_path)) == ["Page 1", "Page 2"]


def test_a_list_is_converted_once(lake):
    raw = b'[{"identifier": "enwiki", "name": "Wikipedia"}]'
    first, second = (convert_list(named("projects"), raw, lake.layout) for _ in range(2))
    assert (first.converted, second.converted) == (True, False)
    assert rows_in(lake, second.path)[0]["project_id"] == "enwiki"
