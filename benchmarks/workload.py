"""The archive that every contender converts.

Belongs here: building it, and the plain forms that some contenders start from. Does not belong here: measuring.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from resources.sandbox import Settings
from resources.sandbox.world import World

_MAKER = Path(__file__).resolve().parents[2] / "shared" / "tools" / "make_archive.py"
HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Workload:
    """One archive, and its lines outside of the tar: plain and as `.gz`."""

    archive: Path
    ndjson: Path
    ndjson_gz: Path
    project_id: str
    ndjson_bytes: int
    line_count: int

    @property
    def megabytes(self) -> float:
        """Size of the NDJSON in MB: the unit of account of all figures."""
        return self.ndjson_bytes / 1e6


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
    (batch,) = World(settings).batches(HOUR)
    return Path(batch.path)


def unpack(archive: Path, folder: Path) -> Workload:
    """The workload of an archive: its lines also as one plain and one gzip file in `folder`."""
    ndjson, ndjson_gz = folder / "lines.ndjson", folder / "lines.ndjson.gz"
    with tarfile.open(archive, "r|gz", bufsize=_COPY_BYTES) as tar, ndjson.open("wb") as plain:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None and member.name.endswith(".ndjson"):
                shutil.copyfileobj(content, plain, _COPY_BYTES)
    with ndjson.open("rb") as plain, gzip.open(ndjson_gz, "wb", compresslevel=6) as zipped:
        shutil.copyfileobj(plain, zipped, _COPY_BYTES)
    with ndjson.open("rb") as plain:
        first = json.loads(plain.readline())
        line_count = 1 + sum(1 for _ in plain)
    project = first["is_part_of"]["identifier"]
    return Workload(archive, ndjson, ndjson_gz, project, ndjson.stat().st_size, line_count)
