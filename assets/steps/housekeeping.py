"""Detection of replaced files, and their removal once no process can still be reading them.

A lake file is replaced if neither the ledger nor the published file names it, and if something else was loaded into its
scope (an hour's project and namespace, or a snapshot) after the file was written. An archive is replaced if it belongs
neither to the loaded data nor to the current listing of the service. Files that were never loaded, loaded files, files
needed to restore them, and unrelated files are retained.

A file is removed after it has been replaced for the whole grace period, since a reader may have opened an older
published file. A journal records when a file was first found replaced; a lost journal makes the wait longer, never
shorter. After a kill at any point, the next call removes the remaining files.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from pathlib import Path

from pydantic import AwareDatetime, TypeAdapter

from assets.steps.snapshot import archived_sets
from resources import datasets, files
from resources.data_folder import removing
from resources.datasets import Dataset, Family, paths
from resources.datasets.live import LIVE_CHANGES, files_of
from resources.enterprise import read_listing
from resources.lake import Layout
from resources.lake.rejects import lines_file
from resources.storage import LOCAL, Storage
from resources.tables import REJECTS
from resources.warehouse import Ledger, Named, Warehouse, WarehouseBusyError
from resources.warehouse.read.ledger import LoadedFile

GRACE = timedelta(hours=24)
#: Longest time that stream events may lack a file of their hour, with a margin.
_STREAMED = datasets.RETENTION + timedelta(hours=2)
#: Time between searches: each search lists every file of the lake, and the space is not needed within a day.
_BETWEEN_LOOKS = timedelta(days=1)
#: The journal: the time when each file was first found replaced.
_SEEN = TypeAdapter(dict[str, AwareDatetime])
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Replaced:
    """A file that is not needed any more: its path in the data folder, the reason, and the earliest time of removal."""

    path: str
    size_bytes: int
    why: str
    due_at: datetime


@dataclass(frozen=True)
class Cleaning:
    """Files that are or would be removed, and files that still wait; `is_held`: all files wait for a backup."""

    freed: tuple[Replaced, ...]
    waiting: tuple[Replaced, ...]
    is_held: bool = False

    @property
    def freed_bytes(self) -> int:
        return sum(file.size_bytes for file in self.freed)

    @property
    def waiting_bytes(self) -> int:
        return sum(file.size_bytes for file in self.waiting)


def is_due(layout: Layout, *, grace: timedelta = GRACE, now: datetime | None = None) -> bool:
    """Return True if a run should search for replaced files: once a day, or once in a shorter grace period."""
    try:
        looked_at = datetime.fromtimestamp(_journal(layout).stat().st_mtime, UTC)
    except FileNotFoundError:
        return True
    # a clock that was set back must not delay the next search
    return not timedelta(0) <= (now or datetime.now(UTC)) - looked_at < min(grace, _BETWEEN_LOOKS)


def clean(
    layout: Layout,
    warehouse: Warehouse,
    *,
    grace: timedelta = GRACE,
    now: datetime | None = None,
    dry_run: bool = False,
) -> Cleaning:
    """Remove files that have been replaced for the whole grace period; `dry_run` only reports them.

    No process loads or publishes in the meantime. During a backup, all files wait for the next call. Searching a
    hundred thousand files takes a few seconds, one day of files at a time.

    Raises:
        OSError: A file cannot be removed; the files before it are removed.
    """
    now = now or datetime.now(UTC)
    journal = _journal(layout)
    # the ledger of a build file that replaced a damaged one does not name all files that are needed
    if not warehouse.build_path.exists() or not warehouse.is_complete():
        return Cleaning((), ())
    with warehouse.ledger() as ledger, removing(layout.root) as may_remove:
        since = _read(journal)
        found = []
        for path, why in _replaced(layout, ledger, now, compacts=_compacts(warehouse)):
            with contextlib.suppress(FileNotFoundError):  # its journal entry was removed with it
                name = layout.relative(path)
                # an entry in the future (the clock was set back) starts its grace period now
                size = _storage(layout, path).size(path)
                found.append(Replaced(name, size, why, min(since.get(name, now), now) + grace))
        # a process that copies the files for a backup finds all files that its copy of the ledger names
        until = now if may_remove else _NEVER
        cleaning = Cleaning(
            tuple(file for file in found if file.due_at <= until),
            tuple(file for file in found if file.due_at > until),
            is_held=not may_remove,
        )
        if dry_run:
            return cleaning
        seen = {file.path: (file.due_at - grace).isoformat() for file in found}
        files.write(journal, json.dumps(seen).encode())
        for file in cleaning.freed:
            path = layout.absolute(file.path)
            _storage(layout, path).delete(path)
    return cleaning


def _journal(layout: Layout) -> Path:
    return layout.root / "state" / "replaced.json"


def _read(journal: Path) -> dict[str, datetime]:
    return files.read_cache(journal, _SEEN) or {}


def _compacts(warehouse: Warehouse) -> bool:
    """Return True if a compaction is running, whose new files may not be in the ledger yet."""
    try:
        with warehouse.compacting():
            return False
    except WarehouseBusyError:
        return True


def _replaced(layout: Layout, ledger: Ledger, now: datetime, *, compacts: bool) -> Iterator[tuple[Path, str]]:
    """Return replaced files in order of removal, so that after a kill the next call still finds the rest."""
    for dataset in datasets.datasets(Family.HOURLY):
        for day, hours in groupby(_hours(layout, dataset), datetime.date):
            named = ledger.of_day(day, dataset)
            of_hours: dict[str, list[LoadedFile]] = {}
            for file in named.files:
                of_hours.setdefault(file.lake_path.partition("/")[2].rpartition("/")[0], []).append(file)
            for hour in hours:
                loaded = of_hours.get(paths.hour_folder(hour), [])
                yield from _of_hour(layout, dataset, hour, loaded, named)
                yield from _archives_of_hour(layout, dataset, hour, loaded)
    for dataset in datasets.datasets(Family.SNAPSHOT):
        versions = ledger.versions(dataset)
        yield from _of_snapshots(layout, dataset, versions, ledger.of_snapshots(dataset))
        for identifier in sorted({identifier for identifier, _, _ in versions}):
            kept = {version for name, version, _ in versions if name == identifier}
            yield from _archives_of_snapshot(layout, dataset, identifier, kept)
    for dataset in () if compacts else datasets.datasets():
        yield from _compacted(layout, dataset, ledger)
    yield from _of_stream(layout, now)


def _of_stream(layout: Layout, now: datetime) -> Iterator[tuple[Path, str]]:
    """Return the replaced files of the stream.

    A file is replaced if a larger file has its events, or if its hours have hourly files or never will. The newest file
    is retained: it holds the offset at which the stream resumes.
    """
    folder = layout.lake / LIVE_CHANGES
    counting = files_of(folder)
    kept = {file.path for file in counting}
    for hour, of_hour in paths.hour_folders(folder):
        found = (layout.storage.list(of_hour, pattern) for pattern in ("*.parquet", "*.parquet.damaged*"))
        for path in sorted(chain.from_iterable(found)):
            if path not in kept and path.suffix == ".parquet":
                yield path, "a larger file has its events"
            elif now - hour > _STREAMED and path != (counting[-1].path if counting else None):
                yield path, "the service no longer has files of these hours"


def _hours(layout: Layout, dataset: Dataset) -> list[datetime]:
    roots = (layout.lake / dataset.name, layout.archive / dataset.archive)
    return sorted({hour for root in roots for hour, _ in paths.hour_folders(root)})


def _of_hour(
    layout: Layout, dataset: Dataset, hour: datetime, loads: list[LoadedFile], named: Named
) -> Iterator[tuple[Path, str]]:
    folder = f"{dataset.name}/{paths.hour_folder(hour)}"
    loaded = {file.identifier: file.loaded_at for file in loads}
    compacted = {file.lake_path for file in loads if file.is_compacted}
    for path in layout.storage.list(layout.lake / folder, f"*.{paths.PARQUET}"):
        name = paths.parse(path.name)
        since = loaded.get(name.identifier) if name is not None else None
        if f"{folder}/{path.name}" in named.paths:
            continue
        if f"{folder}/{path.name}" in compacted:
            # its rejects still belong to it; a file restored from the archive is as dispensable as before
            yield path, "its rows are in a compacted file"
        elif since is not None and _older(layout.storage, path, since):
            yield from _with_rejects(layout, path, "another conversion of the hour is loaded")


def _compacted(layout: Layout, dataset: Dataset, ledger: Ledger) -> Iterator[tuple[Path, str]]:
    """Return compacted files that were compacted again, belong to a dropped version, or were never committed."""
    named = ledger.compacted(dataset)
    for path in layout.storage.list(layout.compacted_folder(dataset.name), f"*.{paths.PARQUET}"):
        if path.relative_to(layout.lake).as_posix() not in named:
            yield path, "no compaction names it any more"


def _of_snapshots(
    layout: Layout, dataset: Dataset, versions: Iterable[tuple[str, str, datetime]], named: Named
) -> Iterator[tuple[Path, str]]:
    compacted = {file.lake_path for file in named.files if file.is_compacted}
    newest: dict[str, datetime] = {}
    for identifier, _, loaded_at in versions:
        newest[identifier] = max(loaded_at, newest.get(identifier, loaded_at))
    for identifier, since in newest.items():
        for path in layout.storage.list(layout.lake / dataset.name / identifier, "*/*.parquet"):
            name = path.relative_to(layout.lake).as_posix()
            if name in compacted - named.paths:
                yield path, "its rows are in a compacted file"
            elif name not in named.paths | compacted and _older(layout.storage, path, since):
                yield from _with_rejects(layout, path, "newer versions of the snapshot are loaded")


def _with_rejects(layout: Layout, path: Path, why: str) -> Iterator[tuple[Path, str]]:
    table = path.relative_to(layout.lake).parts[0]
    rejects = layout.lake / REJECTS.name / path.relative_to(layout.lake / table)
    for beside in (rejects, lines_file(rejects)):
        if layout.storage.exists(beside):
            yield beside, why
    yield path, why


def _archives_of_hour(
    layout: Layout, dataset: Dataset, hour: datetime, loads: list[LoadedFile]
) -> Iterator[tuple[Path, str]]:
    """Return earlier exports of an hour's projects; they exist only if the service exported the hour again."""
    listing = layout.batch_list(dataset, hour)
    archives: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(listing.parent.glob(f"*.{paths.ARCHIVE}")):
        if (name := paths.parse(path.name)) is not None:
            archives.setdefault(name.identifier, []).append((name.digits, path))
    if not listing.exists() or all(len(found) == 1 for found in archives.values()):
        return
    loaded: dict[str, set[str]] = {}
    for file in loads:
        loaded.setdefault(file.identifier, set()).add(paths.short(file.version))
    listed = {(record.identifier, paths.short(record.version)) for record in read_listing(listing)}
    listed_at = datetime.fromtimestamp(listing.stat().st_mtime, UTC)
    for identifier, found in archives.items():
        kept = loaded.get(identifier, set())
        # until the listed export is loaded, an earlier export may be the only one
        for digits, path in found if any((identifier, digits) in listed for digits in kept) else ():
            if digits not in kept and _older(LOCAL, path, listed_at):
                note = path.with_name(f"{path.name}.json")
                for one in (note, path) if note.exists() else (path,):
                    yield one, "a newer export of the hour is loaded"


def _archives_of_snapshot(
    layout: Layout, dataset: Dataset, identifier: str, versions: Collection[str]
) -> Iterator[tuple[Path, str]]:
    """Return archives and partial files that belong neither to a loaded version nor to the newest set."""
    folder = layout.snapshot_archive(dataset, identifier)
    sets = archived_sets(folder, dataset)
    if not sets:
        return
    newest = max(sets.values(), key=lambda one: one.exported_at)
    kept = {manifest: one for manifest, one in sets.items() if one.version in versions or one == newest}
    wanted = {manifest.name for manifest in kept}
    wanted |= {archive.path.name for one in kept.values() for archive in one.archives}
    wanted |= {f"{name}.json" for name in wanted}
    complete_at = max(datetime.fromtimestamp(manifest.stat().st_mtime, UTC) for manifest in kept)
    # manifests last: files without a manifest would count as a download in progress forever
    for path in sorted(folder.iterdir(), key=lambda path: (path.name.endswith(paths.SET), path.name)):
        if paths.is_of_snapshot(path.name, identifier) and path.name not in wanted and _older(LOCAL, path, complete_at):
            yield path, "newer versions of the snapshot are complete"


def _storage(layout: Layout, path: Path) -> Storage:
    """Return the storage of a file of the data folder: only the lake has a separate storage."""
    return layout.storage if path.is_relative_to(layout.lake) else LOCAL


def _older(storage: Storage, path: Path, moment: datetime) -> bool:
    try:
        return storage.modified(path) < moment
    except FileNotFoundError:  # a download has renamed it to its final name
        return False
