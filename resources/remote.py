"""Conversion of archives and compaction of lake files by workers on other machines.

This module contains both sides of remote work and the values that they exchange. `engine` contains the transport, and
`lake` contains the work itself. Workers see the same data folder, possibly at a different path, so transmitted paths
are relative to the data folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from resources import datasets, files, lake
from resources.engine import Outcome
from resources.engine.mapping import EngineError, FolderNotSharedError
from resources.lake import Archive, Compaction, CompactionJob, ConvertedFile, Converter, Layout, compact, digest_of
from resources.lake.conversion import CONVERTER_VERSION
from resources.lake_files import COMPACTED
from resources.tables import version_of

if TYPE_CHECKING:
    from resources.engine.dask import Cluster

#: URL scheme of a cluster in WME_ENGINE.
SCHEME = "dask://"
_DISTRIBUTION = "enterprise-content-mirror"


class RemoteWorkers:
    """Converts archives and compacts lake files on a cluster's workers. The connection is opened on first use.

    The workers of the scheduler at `address` (`dask://host:port`) must see the same data folder and have the same
    maximum record length. `answer_seconds` limits the scheduler's response time.
    """

    def __init__(
        self,
        address: str,
        layout: Layout,
        *,
        record_bytes_max: int = lake.RECORD_BYTES_MAX,
        answer_seconds: float = 10.0,
    ) -> None:
        self.record_bytes_max = record_bytes_max
        self._address, self._layout, self._answer_seconds = address, layout, answer_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if "cluster" in vars(self):
            self.cluster.close()

    @cached_property
    def cluster(self) -> Cluster:
        """Connection to the cluster. Accessing this property raises ExtraMissingError if Dask is not installed."""
        from resources.engine.dask import Cluster, TimeLimits  # noqa: PLC0415  half a second, and an extra

        limits = TimeLimits(answer=self._answer_seconds)
        return Cluster(self._address, versions(self.record_bytes_max), self._layout.lake, limits)

    def convert_all(
        self, archives: Sequence[Archive], *, bodies: frozenset[str], advance: Callable[[float], None]
    ) -> list[Outcome[Archive, ConvertedFile]]:
        """Convert archives, and return the outcomes in the same order.

        `advance` receives the size of each finished archive. Raises EngineError if the cluster cannot be used or was
        lost. Converted archives are retained.
        """
        from resources.engine.dask import Call  # noqa: PLC0415

        calls, sizes = [], {}
        for place, archive in enumerate(archives):
            key = f"convert-{place}-{digest_of(archive, bodies, self.record_bytes_max)}"
            calls.append(Call(key, archive.path.name, (_moved(archive, self._layout), bodies)))
            sizes[key] = archive.path.stat().st_size if archive.path.exists() else 0
        made = self.cluster.map(convert_here, calls, lambda one: advance(sizes[one.item.key])) if calls else []
        return [self._landed(archive, outcome) for archive, outcome in zip(archives, made, strict=True)]

    def _landed(self, archive: Archive, outcome: Outcome[Any, Any]) -> Outcome[Archive, ConvertedFile]:
        """Return the worker's conversion with file paths for this machine."""
        if outcome.error is not None:
            return Outcome(archive, error=outcome.error)
        made: ConvertedFile = outcome.unwrap()
        # a worker's responses are untrusted, like any other message
        rejects = made.rejects_path
        here = replace(
            made,
            path=files.within(self._layout.root, made.path.as_posix()),
            rejects_path=None if rejects is None else files.within(self._layout.root, rejects.as_posix()),
        )
        fault = _not_shared(path for path in (here.path, here.rejects_path) if path is not None)
        return Outcome(archive, result=here) if fault is None else Outcome(archive, error=fault)

    def compact_all(
        self, jobs: Sequence[CompactionJob], done: Callable[[Outcome[CompactionJob, Compaction]], None]
    ) -> None:
        """Rewrite each job's files, one job at a time on each worker. `done` receives each outcome when available.

        Raises EngineError if the cluster cannot be used or was lost. Jobs reported to `done` are complete.
        """
        from resources.engine.dask import Call  # noqa: PLC0415

        calls = [Call(f"compact-{job.digest}", f"The compaction {job.name}", (job,), alone=True) for job in jobs]
        by_key = {call.key: job for call, job in zip(calls, jobs, strict=True)}

        def landed(outcome: Outcome[Call, Compaction]) -> None:
            job, error = by_key[outcome.item.key], outcome.error
            if error is None:
                error = _not_shared(files.within(self._layout.lake, file.lake_path) for file in outcome.unwrap()[0])
            done(Outcome(job, result=outcome.result, error=error))

        self.cluster.map(compact_here, calls, landed)


def versions(record_bytes_max: int = lake.RECORD_BYTES_MAX) -> dict[str, str]:
    """Return the versions, by name, that a worker and the run must share to write identical files."""
    forms = (*datasets.tables(), *COMPACTED.values())
    tables = json.dumps({table.name: version_of(table) for table in forms}, sort_keys=True)
    try:
        package = metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        package = "not installed"
    return {
        "package": package,
        "converter": str(CONVERTER_VERSION),
        "tables": hashlib.sha256(tables.encode()).hexdigest()[:8],
        "WME_MAX_RECORD_MB": str(record_bytes_max >> 20),
    }


# --- on a worker -----------------------------------------------------------------------------------------------------


#: Layout and converter of this worker process, which every task uses.
_context: tuple[Layout, Converter] | None = None


@contextmanager
def worker_context(data: Path, *, memory_bytes: int | None, record_bytes_max: int) -> Iterator[Converter]:
    """Allow this process to convert a data folder's archives within the context."""
    global _context  # noqa: PLW0603  tasks are functions of plain arguments, and find here what they share
    with Converter(memory_bytes=memory_bytes, record_bytes_max=record_bytes_max) as converter:
        _context = Layout(data), converter
        try:
            yield converter
        finally:
            _context = None


def _of_worker() -> tuple[Layout, Converter]:
    if _context is None:
        raise EngineError("This process was not started by `wme worker`, so it has no data folder and no converter.")
    return _context


def convert_here(archive: Archive, bodies: frozenset[str]) -> ConvertedFile:
    """Convert one archive on this worker. The archive's path and the returned paths are relative to the data folder."""
    layout, converter = _of_worker()
    made = converter.convert(replace(archive, path=layout.root / archive.path), layout, bodies=bodies)
    return replace(
        made,
        path=made.path.relative_to(layout.root),
        rejects_path=None if made.rejects_path is None else made.rejects_path.relative_to(layout.root),
    )


def compact_here(job: CompactionJob) -> Compaction:
    """Rewrite a job's files on this worker, using all of its threads."""
    layout, converter = _of_worker()
    return compact(replace(job, threads=converter.workers), layout)


def _moved(archive: Archive, layout: Layout) -> Archive:
    """Return an archive with a path relative to the data folder. An outside path must also exist on the workers."""
    inside = archive.path.is_relative_to(layout.root)
    return replace(archive, path=archive.path.relative_to(layout.root)) if inside else archive


def _not_shared(landed: Iterable[Path]) -> FolderNotSharedError | None:
    """Return an error if a file that a worker wrote is not visible on this machine."""
    for path in landed:
        # a network file system may have cached the file's absence, but lists the folder again
        if not (path.exists() or (path.parent.exists() and path in path.parent.iterdir())):
            return FolderNotSharedError(
                f"A worker wrote {path.name}, but the file does not appear in {path.parent}. The file is kept where "
                "the worker wrote it. Mount the same data folder on all machines, then try again."
            )
    return None
