"""What a sandbox is made of: the values that shape its world, its clock, and where it keeps its state.

The sandbox reads no environment variables for them. Only the standard library is imported, so that every module may
import this one.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

#: Bytes read at either end of a corpus file for its digest: names, sizes and ends distinguish corpora without reading
#: gigabytes at every start.
_PROBE_BYTES = 65_536
#: Page numbers of more would meet those of new pages.
MOST_ARTICLES = 400_000
#: Years of the sandbox's clock: before the first the numbers of revisions would be negative, after the last beyond 32 bits.
YEARS = range(2021, 2041)
#: A day in four minutes: faster than that the archives of an hour are not made in time.
MOST_SPEED = 360
#: The events of an hour are held in memory while its archives are made.
MOST_CHANGES = 100_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides what a sandbox answers. Equal settings make byte-identical worlds.

    Attributes:
        seed: Seed of the world.
        projects: Projects (database names) that have articles. Further projects may be listed in the reference data.
        namespaces: Namespaces that have articles.
        articles: About how many pages namespace 0 of each project has, most of them edited seldom; never so few that
            `changes_per_hour` could not be made on them (1.5 for each). None: as many as those changes touch within
            two days, at most some 5,000.
        changes_per_hour: Events per hour and project in namespace 0; the other namespaces have a few per cent of it.
        entities: About how many items of Wikidata there are, beside some properties; 0: no Wikidata. The first are the main
            entities of the first articles of each project.
        state: Folder for keys, accounts, counters, archives and the outbox.
        now: Start of the sandbox's clock, timezone-aware; the clock then stands still until it is set or advanced.
            None: the real time.
        overlap: Hour files run on until their own export starts, as the service's do. False: they end with the hour.
        source_2025: Behaviour of the service's public source of August 2025 where it differs from the documentation.
        corpus: Folder of real records (NDJSON, plain or .gz) to take records and bodies from.
        body_bytes: Mean size of html and wikitext together.
        chunk_bytes: Uncompressed bytes after which a chunk of a snapshot ends. The service's are 100,000,000.
        stream_rate: Messages a second on a stream of all parts; one of fewer has its share. 0: no throttle.
        speed: How many times as fast as real time the clock runs, where it does not stand still.
        snapshot_hour: Hour of the day (UTC) in which the exports of snapshots start.
        single_member: Snapshots have a single member, as newer documentation describes. False: one for every chunk.
    """

    state: Path
    seed: int = 1
    projects: tuple[str, ...] = ("enwiki", "frwiki", "simplewiki")
    namespaces: tuple[int, ...] = (0, 10, 14)
    articles: int | None = None
    changes_per_hour: int = 2200
    entities: int = 400
    now: datetime | None = None
    overlap: bool = True
    source_2025: bool = False
    corpus: Path | None = None
    body_bytes: int = 6000
    chunk_bytes: int = 8_000_000
    stream_rate: float = 50.0
    speed: float = 1.0
    snapshot_hour: int = 0
    single_member: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that no world can be made from.

        Raises:
            ValueError: A value is out of range; the message names it.
        """
        object.__setattr__(self, "state", Path(self.state))  # callers may pass a string
        if self.corpus is not None:
            object.__setattr__(self, "corpus", Path(self.corpus))
        if self.now is not None:
            if self.now.tzinfo is None:
                raise ValueError("The sandbox's clock needs a timezone-aware moment; add tzinfo to `now`.")
            object.__setattr__(self, "now", self.now.astimezone(UTC))
        if not 0 <= self.stream_rate < math.inf:
            raise ValueError(f"`stream_rate` must be 0 or more; it is {self.stream_rate:g}.")
        if not 0 < self.speed <= MOST_SPEED:
            raise ValueError(f"`speed` must be above 0 and at most {MOST_SPEED:,}; it is {self.speed:g}.")
        if not self.projects or not self.namespaces:
            raise ValueError("A sandbox needs at least one project and one namespace.")
        if self.body_bytes < 1 or self.chunk_bytes < 1:
            raise ValueError("`body_bytes` and `chunk_bytes` must be at least 1.")
        if not 1 <= self.changes_per_hour <= MOST_CHANGES:
            raise ValueError(
                f"`changes_per_hour` must be between 1 and {MOST_CHANGES:,}; it is {self.changes_per_hour:,}."
            )
        if self.articles is not None and not 1 <= self.articles <= MOST_ARTICLES:
            raise ValueError(f"`articles` must be between 1 and {MOST_ARTICLES:,}; it is {self.articles:,}.")
        if not 0 <= self.entities <= MOST_ARTICLES:
            raise ValueError(f"`entities` must be between 0 and {MOST_ARTICLES:,}; it is {self.entities:,}.")
        if not 0 <= self.snapshot_hour < 24:
            raise ValueError(f"`snapshot_hour` must be between 0 and 23; it is {self.snapshot_hour}.")
        if self.corpus is not None and not self.corpus.is_dir():
            raise ValueError(f"The corpus {self.corpus} is not a folder; name a folder of .ndjson or .ndjson.gz files.")

    @cached_property
    def corpus_digest(self) -> str | None:
        """Digest (16 hex digits) of the corpus by names, sizes and ends of its files; None without a corpus."""
        if self.corpus is None:
            return None
        digest = hashlib.sha256()
        for path in sorted(p for p in self.corpus.rglob("*") if p.is_file()):
            size = path.stat().st_size
            digest.update(f"{path.relative_to(self.corpus).as_posix()}\0{size}\0".encode())
            with path.open("rb") as file:
                digest.update(file.read(_PROBE_BYTES))
                file.seek(max(0, size - _PROBE_BYTES))
                digest.update(file.read(_PROBE_BYTES))
        return digest.hexdigest()[:16]

    @cached_property
    def identity(self) -> str:
        """What the sandbox's data comes from: `sandbox-<seed>-<digest of everything else that shapes the world>`.

        Neither the address, nor the state folder, nor the clock, nor the hour of snapshots, nor the pace of streams is part of it.
        """
        shape = json.dumps(
            [
                self.projects,
                self.namespaces,
                self.articles,
                self.changes_per_hour,
                self.entities,
                self.overlap,
                self.source_2025,
                self.body_bytes,
                self.chunk_bytes,
                self.single_member,
                self.corpus_digest,
            ]
        )
        return f"sandbox-{self.seed}-{hashlib.sha256(shape.encode()).hexdigest()[:12]}"
