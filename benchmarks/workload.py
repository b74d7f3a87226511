"""The archives that are converted.

Belongs here: building one of the service's shape, unpacking it for those who start from plain lines, and the harder
archives made of its lines. Does not belong here: converting and measuring.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
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

_MAKER = Path(__file__).resolve().parents[2] / "shared" / "tools" / "make_archive.py"
HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)
_COPY_BYTES = 1 << 20
_GZIP_LEVEL = 6
_MEMBER_BYTES = 100_000_000
#: Lines beyond this many bytes are left out of the cases.
SAMPLE_BYTES = 300_000_000
SMALL_BYTES = 2_000_000
BAD_EVERY = 100
HUGE_LINE_BYTES = 20_000_000
#: A huge line stands before every so many bytes of others.
_HUGE_EVERY_BYTES = 40_000_000
GIANT_LINE_BYTES = 50_000_000
_GIANT_EVERY_BYTES = 150_000_000
#: Deletions are the shortest records that the service sends: 199 bytes.
SHORT_BYTES = 100_000_000
MEMBER_COUNT = 4_000
LONG_BYTES = 3_000_000_000
#: Structured contents, and Wikidata: this much, and at the most so many times what the archive holds in articles.
STRUCTURED_BYTES = 1_000_000_000
_STRUCTURED_TIMES = 4
#: Items of Wikidata that are told apart: some 20 MB, or one for so many bytes of articles where these are few.
ENTITY_COUNT = 2_000
_BYTES_PER_ENTITY = 50_000
_BLOCK = 512


@dataclass(frozen=True)
class Workload:
    """Archives of one project, and how much is in them; `folder` holds their lines outside of the tar, if anybody asks."""

    archives: tuple[Path, ...]
    folder: Path
    project_id: str
    ndjson_bytes: int
    line_count: int
    bad_count: int = 0
    dataset: str = "article_changes"

    @property
    def megabytes(self) -> float:
        """Size of the NDJSON in MB (10^6 bytes): the unit of account of all figures."""
        return self.ndjson_bytes / 1e6

    @property
    def ndjson(self) -> Path:
        """The lines as they are."""
        return self.folder / "lines.ndjson"

    @property
    def ndjson_gz(self) -> Path:
        """The lines in one gzip file, without a tar around them."""
        return self.folder / "lines.ndjson.gz"


def build(folder: Path, megabytes: float) -> Path:
    """Make an archive of about `megabytes` of NDJSON: of real pages where the tool for it is there, else synthetic."""
    if _MAKER.exists():
        archive = folder / "enwiki_namespace_0.tar.gz"
        command = [sys.executable, str(_MAKER), str(archive), "--megabytes", str(megabytes)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return archive
    per_change = 10_000
    changes = max(100, int(megabytes * 1e6 / per_change))
    now = HOUR + timedelta(hours=3)
    settings = Settings(
        state=folder / "world",
        projects=("enwiki",),
        namespaces=(0,),
        changes_per_hour=changes,
        body_bytes=per_change,
        now=now,
    )
    (batch,) = ArchivedWorld(settings).batches(HOUR)
    return Path(batch.path)


def unpack(archive: Path, folder: Path) -> Workload:
    """The workload of an archive: its lines also as one plain and one gzip file in `folder`."""
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
    """The named cases (see CASES), made of the workload's own lines, and `clean`: those lines as they are."""
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
    """As many archives as an hour has, each of a few dozen records."""
    archives = []
    for number, part in enumerate(_parts(lines, SMALL_BYTES)):
        archives.append(workload.folder / f"{name}-{number}.tar.gz")
        _pack(archives[-1], part)
    return replace(_counted(workload, lines), archives=tuple(archives))


def _bad(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """One bad line in a hundred, of every kind in turn."""
    spoilt = list(lines)
    for turn, place in enumerate(range(BAD_EVERY // 2, len(lines), BAD_EVERY)):
        spoilt[place] = _SPOILERS[turn % len(_SPOILERS)](lines[place])
    bad_count = sum(one is not other for one, other in zip(spoilt, lines, strict=True))
    return replace(_single(workload, name, spoilt), bad_count=bad_count)


def _drift(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """A field that nobody declared, in every record."""
    return _single(workload, name, [b'{"field_of_tomorrow":{"value":7},' + line[1:] for line in lines])


def _huge(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Lines of 20 MB among the others."""
    return _single(workload, name, _with_inflated(lines, HUGE_LINE_BYTES, _HUGE_EVERY_BYTES))


def _giant(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Lines of 50 MB among the others: not far from the longest that are converted."""
    return _single(workload, name, _with_inflated(lines, GIANT_LINE_BYTES, _GIANT_EVERY_BYTES))


def _with_inflated(lines: list[bytes], size: int, every: int) -> list[bytes]:
    return [line for part in _parts(lines, every) for line in (_inflated(part, size), *part)]


def _short(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """Deletions of 199 bytes and nothing else, at most 100 MB of them."""
    wanted = min(SHORT_BYTES, sum(map(len, lines)))
    found = [
        _deletion(workload.project_id, number) for number in range(wanted // len(_deletion(workload.project_id, 0)))
    ]
    return _single(workload, name, found)


def _members(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """The lines in 4,000 members instead of a few, or in as many as there are lines."""
    count = min(MEMBER_COUNT, len(lines))
    parts = [lines[len(lines) * n // count : len(lines) * (n + 1) // count] for n in range(count)]
    archive = workload.folder / f"{name}.tar.gz"
    archive.write_bytes(_zipped((*_tar(parts), _END)))
    return replace(_counted(workload, lines), archives=(archive,))


def _long(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """The same members again and again: the archive is long, what it takes to convert a part of it stays the same."""
    return _repeated(workload, lines, name, LONG_BYTES)


def _structured(workload: Workload, lines: list[bytes], name: str) -> Workload:
    """The same pages as structured contents, again and again until there is a gigabyte."""
    pages = ((structured(decode(line)), line) for line in lines)
    parsed = [line if page is None else encode(page) + b"\n" for page, line in pages]
    wanted = min(STRUCTURED_BYTES, _STRUCTURED_TIMES * workload.ndjson_bytes)
    return replace(_repeated(workload, parsed, name, wanted), dataset="structured_articles")


def _entities(workload: Workload, _lines: list[bytes], name: str) -> Workload:
    """Items of Wikidata, one with megabytes of statements and one with 400 languages among them, again and again."""
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


#: What each case is, by name. Only `long`, `structured` and `entities` are larger than the sample that all are made of.
CASES: dict[str, Callable[[Workload, list[bytes], str], Workload]] = {
    "clean": _clean,
    "small": _small,
    "bad": _bad,
    "drift": _drift,
    "short": _short,
    "members": _members,
    "huge": _huge,
    "giant": _giant,
    "long": _long,
    "structured": _structured,
    "entities": _entities,
}
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
    """The lines in parts of about `size` bytes."""
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
    """A record of 199 bytes, if the project has the name that most have."""
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
    """A record whose page is as long as pages can be, of the text that it had."""
    for line in lines:
        start = line.find(b'"html":"') + len(b'"html":"')
        end = line.find(b'","wikitext"', start)
        if start < end:
            return line[:start] + line[start:end] * (size // (end - start)) + line[start:]
    raise ValueError("No record has a page to make a huge one of.")


_END = bytes(2 * _BLOCK)


def _pack(archive: Path, lines: list[bytes]) -> None:
    """A tar.gz of these lines, with members of at most 100 MB as the service makes them."""
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
