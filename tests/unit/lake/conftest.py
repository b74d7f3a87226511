"""Archives made in a test, and the lake they are converted into."""

import ctypes
import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.datasets import ARTICLE_CHANGES
from resources.lake import Archive, ConvertedFile, Layout, convert
from resources.lake.decode import native

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


def tar_bytes(members: list[tuple[str, bytes]], **options: Any) -> bytes:
    """A tar in memory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The record, with a value at a path like `version.editor.name`; `...` leaves it out."""
    *parents, last = path.split(".")
    place = record
    for part in parents:
        place = place.setdefault(part, {})
    place[last] = value
    if value is ...:
        del place[last]
    return record


def page_record(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A record of the service's form, with the required fields and a body; `changes` replace whole fields."""
    return {
        "name": f"Page {number}",
        "identifier": 100 + number,
        "date_modified": "2026-11-19T05:10:11Z",
        "version": {"identifier": 9000 + number, "size": {"value": 12, "unit_text": "B"}},
        "namespace": {"identifier": 0},
        "is_part_of": {"identifier": "enwiki", "url": "https://en.wikipedia.org"},
        "article_body": {"html": f"<p>{number}</p>", "wikitext": f"text {number}"},
        "event": {
            "identifier": f"00000000-0000-4000-8000-{number:012d}",
            "type": "update",
            "date_created": "2026-11-19T05:10:11.123Z",
            "date_published": "2026-11-19T05:10:12.123456Z",
        },
    } | changes


@dataclass(frozen=True)
class Lake:
    """Makes archives and converts them."""

    layout: Layout
    hour: datetime = HOUR

    def record(self, number: int = 1, **changes: Any) -> dict[str, Any]:
        return page_record(number, **changes)

    def lines(self, *records: Any) -> bytes:
        """NDJSON; bytes go in as they are."""
        encoded = (item if isinstance(item, bytes) else json.dumps(item).encode() for item in records)
        return b"".join(line + b"\n" for line in encoded)

    def from_bytes(self, data: bytes, identifier: str = "enwiki_namespace_0") -> Archive:
        """An archive of exactly these bytes."""
        version = hashlib.md5(data).hexdigest()
        path = self.layout.batch_archive(ARTICLE_CHANGES, self.hour, identifier, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return Archive(path, identifier, version, self.hour, identifier.partition("_")[0], 0)

    def archive(self, *members: bytes, identifier: str = "enwiki_namespace_0") -> Archive:
        """An archive with these members, named as the service names them."""
        named = [(f"{identifier}_{index}.ndjson", data) for index, data in enumerate(members)]
        return self.from_bytes(gzip.compress(tar_bytes(named), 1, mtime=0), identifier)

    def convert(self, *records: Any, **options: Any) -> ConvertedFile:
        """Convert an archive with one member of these records or lines."""
        return convert(self.archive(self.lines(*records)), self.layout, **options)

    def elsewhere(self, name: str) -> Self:
        """Another, empty lake."""
        return replace(self, layout=Layout(self.layout.root / name))


def rows_of(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a Parquet file; none where there is no file."""
    return [] if path is None else pq.read_table(path).to_pylist()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Layout(tmp_path / "data"))


@pytest.fixture
def layout(lake: Lake) -> Layout:
    return lake.layout


@pytest.fixture
def rows():
    return rows_of


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The native decoder, which a mirror can do without but which the tests need."""
    found = native.library()
    assert found is not None, "The native decoder is not built: install a C compiler, `make clean` and `make setup`."
    return found


@pytest.fixture(params=["native", "pure"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs twice: records are read by the native decoder, then without it."""
    if request.param == "native":
        request.getfixturevalue("library")
    monkeypatch.setenv("WME_NATIVE", "1" if request.param == "native" else "0")
    return request.param


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, and so row groups, of two kilobytes: the seams of large archives in small ones."""
    monkeypatch.setattr("resources.lake.converter.BLOCK_BYTES", 2048)


@pytest.fixture(autouse=True)
def no_leak_of_arrow_memory():
    """Conversions hand their memory back."""
    yield
    assert pa.total_allocated_bytes() < 256 << 20
