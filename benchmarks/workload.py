"""Archives for the conversion benchmark. Difficult archives are built from the lines of a realistic archive.

This module builds the archives and unpacks them for contenders that read uncompressed lines.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from resources.sandbox import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.sandbox.world.structured import structured
from resources.sandbox.world.wire import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)
_COPY_BYTES = 1 << 20
_GZIP_LEVEL = 6
_MEMBER_BYTES = 100_000_000
#: Size of a synthetic change in bytes.
_CHANGE_BYTES = 10_000
#: Maximum size of the sample for the cases. The sample contains the first lines of the archive.
SAMPLE_BYTES = 300_000_000
SMALL_BYTES = 2_000_000
BAD_EVERY = 100
HUGE_LINE_BYTES = 20_000_000
#: Number of bytes between two huge lines.
_HUGE_EVERY_BYTES = 40_000_000
SHORT_BYTES = 100_000_000
MEMBER_COUNT = 4_000
LONG_BYTES = 3_000_000_000
#: Size of the cases `structured` and `entities`, and the size limit as a multiple of the archive's size.
STRUCTURED_BYTES = 1_000_000_000
_STRUCTURED_TIMES = 4
#: Number of different Wikidata items (20 MB), and bytes of articles per item in small archives.
ENTITY_COUNT = 2_000
_BYTES_PER_ENTITY = 50_000
_BLOCK = 512


@dataclass(frozen=True)
class Workload:
    """Archives of one project with their counts. `folder` contains the archives' lines without the tar."""

    archives: tuple[Path, ...]
    folder: Path
    project_id: str
    ndjson_bytes: int
    line_count: int
    bad_count: int = 0
    dataset: str = "article_changes"

    @property
    def megabytes(self) -> float:
        """NDJSON size in MB (10^6 bytes)."""
        return self.ndjson_bytes / 1e6

    @property
    def ndjson(self) -> Path:
        """File with the uncompressed lines."""
        return self.folder / "lines.ndjson"

    @property
    def ndjson_gz(self) -> Path:
        """Gzip file with the lines but without a tar."""
        return self.folder / "lines.ndjson.gz"


def build(folder: Path, megabytes: float) -> Path:
    """Build an archive of synthetic pages with about `megabytes` of NDJSON."""
    settings = Settings(
        state=folder / "world",
        projects=("enwiki",),
        namespaces=(0,),
        changes_per_hour=max(100, int(megabytes * 1e6 / _CHANGE_BYTES)),
        body_bytes=_CHANGE_BYTES,
        now=HOUR + timedelta(hours=3),
    )
    (batch,) = ArchivedWorld(settings).batches(HOUR)
    return Path(batch.path)


def unpack(archive: Path, folder: Path) -> Workload:
    """Return an archive's workload. Write the archive's lines to an uncompressed file and to a gzip file."""
    found = Workload((archive,), folder, "", 0, 0)
    with tarfile.open(archive, "r|gz", bufsize=_COPY_BYTES) as tar, found.ndjson.open("wb") as plain:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None and member.name.endswith(".ndjson"):
                shutil.copyfileobj(content, plain, _COPY_BYTES)
    with found.ndjson.open("rb") as plain, gzip.open(found.ndjson_gz, "wb", compresslevel=_GZIP_LEVEL) as zipped:
        shutil.copyfileobj(plain, zipped, _COPY_BYTES)
    with found.ndjson.open("rb") as plain:
        first = json.loads(plain.readline())
        line_count = 1 + sum(1 for _ in plain)
    project = first["is_part_of"]["identifier"]
    return replace(found, project_id=project, ndjson_bytes=found.ndjson.stat().st_size, line_count=line_count)


def variants(workload: Workload, names: Iterable[str], threads: int) -> dict[str, Workload]:
    """Build the named cases (see CASES) from the workload's lines, and the case `clean` with unmodified lines."""
    lines = _sample(workload.ndjson)
    wanted = dict.fromkeys(("clean", *names))
    with ThreadPoolExecutor(threads) as pool:
        made = {name: pool.submit(CASES[name], workload, lines, name) for name in wanted}
        return {name: future.result() for name, future in made.items()}


def _sample(ndjson: Path) -> list[bytes]:
    lines = []
    size = 0
    with ndjson.open("rb") as file:
        for line in file:
            lines.append(line)
            size += len(line)
            if size >= SAMPLE_BYTES:
                break
    return lines


def _clean(workload: Workload, lines: list[bytes], name: str) -> Workload:
    return _single(workload, name, lines)


def _small(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Build many archives of 2 MB each, like an hour's archives."""
    archives = []
    for number, part in enumerate(_parts(lines, SMALL_BYTES)):
        archives.append(workload.folder / f"{name}-{number}.tar.gz")
        _pack(archives[-1], part)
    return replace(_counted(workload, lines), archives=tuple(archives))


def _bad(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Damage one line in a hundred. The types of damage alternate."""
    spoilt = list(lines)
    for turn, place in enumerate(range(BAD_EVERY // 2, len(lines), BAD_EVERY)):
        spoilt[place] = _SPOILERS[turn % len(_SPOILERS)](lines[place])
    bad_count = sum(one is not other for one, other in zip(spoilt, lines, strict=True))
    return replace(_single(workload, name, spoilt), bad_count=bad_count)


def _drift(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Add an undeclared field to every record."""
    return _single(workload, name, [b'{"field_of_tomorrow":{"value":7},' + line[1:] for line in lines])


def _huge(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Insert lines of 20 MB between the other lines."""
    some = _parts(lines, _HUGE_EVERY_BYTES)
    return _single(workload, name, [line for part in some for line in (_inflated(part, HUGE_LINE_BYTES), *part)])


def _short(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Write at most 100 MB of deletions, which are the service's shortest records (199 bytes)."""
    wanted = min(SHORT_BYTES, sum(map(len, lines)))
    found = [
        _deletion(workload.project_id, number) for number in range(wanted // len(_deletion(workload.project_id, 0)))
    ]
    return _single(workload, name, found)


def _members(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Split the lines into 4,000 members instead of a few members. With fewer lines, write one member per line."""
    count = min(MEMBER_COUNT, len(lines))
    parts = [lines[len(lines) * n // count : len(lines) * (n + 1) // count] for n in range(count)]
    archive = workload.folder / f"{name}.tar.gz"
    archive.write_bytes(_zipped((*_tar(parts), _END)))
    return replace(_counted(workload, lines), archives=(archive,))


def _long(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Repeat the members until the archive reaches 3 GB."""
    return _repeated(workload, lines, name, LONG_BYTES)


def _structured(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Convert the pages to structured contents, and repeat them up to a size of 1 GB."""
    pages = ((structured(decode(line)), line) for line in lines)
    parsed = [line if page is None else encode(page) + b"\n" for page, line in pages]
    wanted = min(STRUCTURED_BYTES, _STRUCTURED_TIMES * workload.ndjson_bytes)
    return replace(_repeated(workload, parsed, name, wanted), dataset="structured_articles")


def _entities(workload: Workload, _lines: list[bytes], name: str) -> Workload:
    """Write up to 1 GB of repeated Wikidata items. Some have megabytes of statements or labels in 400 languages."""
    count = min(ENTITY_COUNT, workload.ndjson_bytes // _BYTES_PER_ENTITY)
    settings = Settings(state=workload.folder / name, projects=("enwiki",), entities=count, body_bytes=6_000)
    world = ArchivedWorld(settings)
    found = [world.line(event) + b"\n" for event in world.pages_at("wikidatawiki", 0, HOUR)]
    wanted = min(STRUCTURED_BYTES, _STRUCTURED_TIMES * workload.ndjson_bytes)
    repeated = _repeated(workload, found, name, wanted)
    return replace(repeated, dataset="snapshot_entities", project_id="wikidatawiki")


def _repeated(workload: Workload, lines: list[bytes], name: str, size: int) -> Workload:
    counted = _counted(workload, lines)
    times = max(2, round(size / counted.ndjson_bytes))
    archive = workload.folder / f"{name}.tar.gz"
    members = _zipped(_tar(_parts(lines, _MEMBER_BYTES)))
    with archive.open("wb") as file:
        for _ in range(times):
            file.write(members)
        file.write(_zipped([_END]))
    return replace(
        counted, archives=(archive,), ndjson_bytes=times * counted.ndjson_bytes, line_count=times * counted.line_count
    )


#: Case builders by name. Only `long`, `structured` and `entities` can exceed the sample size.
CASES: dict[str, Callable[[Workload, list[bytes], str], Workload]] = {
    "clean": _clean,
    "small": _small,
    "bad": _bad,
    "drift": _drift,
    "short": _short,
    "members": _members,
    "huge": _huge,
    "long": _long,
    "structured": _structured,
    "entities": _entities,
}
HARDER = tuple(name for name in CASES if name != "clean")
_SPOILERS: tuple[Callable[[bytes], bytes], ...] = (
    lambda line: line[: len(line) // 2] + b"\n",
    lambda line: re.sub(rb'"identifier":\d+', b'"identifier":"none"', line, count=1),
    lambda line: line.replace(b'"name":"', b'"name":"\xff', 1),
    lambda _line: b"<html><title>502 Bad Gateway</title></html>\n",
    lambda line: line.replace(b'"is_part_of":{', b'"is_part_of_":{', 1),
)


def _counted(workload: Workload, lines: list[bytes]) -> Workload:
    return replace(workload, ndjson_bytes=sum(map(len, lines)), line_count=len(lines))


def _single(workload: Workload, name: str, lines: list[bytes]) -> Workload:
    archive = workload.folder / f"{name}.tar.gz"
    _pack(archive, lines)
    return replace(_counted(workload, lines), archives=(archive,))


def _parts(lines: list[bytes], size: int) -> Iterator[list[bytes]]:
    """Group the lines into parts of about `size` bytes."""
    part: list[bytes] = []
    filled = 0
    for line in lines:
        if part and filled + len(line) > size:
            yield part
            part, filled = [], 0
        part.append(line)
        filled += len(line)
    if part:
        yield part


def _deletion(project: str, number: int) -> bytes:
    """Return a deletion record, which has 199 bytes if the project name has a typical length."""
    event = {"type": "delete", "date_created": "2026-11-19T05:10:11Z"}
    facts = {
        "name": f"P{number:08}",
        "identifier": 1_000_000 + number,
        "event": event,
        "version": {"identifier": 2},
    }
    scope = {"namespace": {"identifier": 0}, "is_part_of": {"identifier": project}}
    return json.dumps(facts | scope, separators=(",", ":")).encode() + b"\n"


def _inflated(lines: list[bytes], size: int) -> bytes:
    """Return a copy of the record whose HTML is repeated up to `size` bytes."""
    for line in lines:
        start = line.find(b'"html":"') + len(b'"html":"')
        end = line.find(b'","wikitext"', start)
        if start < end:
            return line[:start] + line[start:end] * (size // (end - start)) + line[start:]
    raise ValueError("A huge record cannot be built, because no record has HTML.")


_END = bytes(2 * _BLOCK)


def _pack(archive: Path, lines: list[bytes]) -> None:
    """Write a tar.gz file with members of at most 100 MB, as the service does."""
    archive.write_bytes(_zipped((*_tar(_parts(lines, _MEMBER_BYTES)), _END)))


def _tar(members: Iterable[list[bytes]]) -> Iterator[bytes]:
    for number, part in enumerate(members):
        info = tarfile.TarInfo(f"enwiki_namespace_0_{number}.ndjson")
        info.size = sum(map(len, part))
        yield info.tobuf()
        yield from part
        yield bytes(-info.size % _BLOCK)


def _zipped(parts: Iterable[bytes]) -> bytes:
    zipper = zlib.compressobj(_GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    found = [zipper.compress(part) for part in parts]
    return b"".join((*found, zipper.flush()))
