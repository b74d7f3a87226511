"""Detection and removal of replaced files.

A lake file is considered replaced if neither the ledger nor the published file references the file, and newer data has
been loaded for the same scope. A scope is a project and namespace in a snapshot or in an hour. An archive is considered
replaced if it belongs neither to the loaded data nor to the service's current listing. All other files are retained.

A replaced file is removed after a grace period, because readers might still be using an older published file. A journal
records when each file was first found to be replaced. If the journal is lost, the grace period restarts.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
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
from resources.warehouse import Ledger, Row, Warehouse, WarehouseBusyError

GRACE = timedelta(hours=24)
#: Maximum time until the hourly file of a stream event is available, with a margin.
_STREAMED = datasets.RETENTION + timedelta(hours=2)
#: Minimum time between searches, because each search lists every lake file.
_BETWEEN_LOOKS = timedelta(days=1)
#: Journal, and its format: the time at which each file was first found to be replaced, by path.
_JOURNAL = "state/replaced.json"
_SEEN = TypeAdapter(dict[str, AwareDatetime])
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Replaced:
    """A replaced file with its path in the data folder, the reason, and the earliest removal time."""

    path: str
    size_bytes: int
    why: str
    due_at: datetime


@dataclass(frozen=True)
class Cleaning:
    """Files to remove now, and files still in their grace period. `is_held` is true if a backup delays all removals."""

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
    """Return True if the last search is older than a day or the grace period, whichever is shorter."""
    try:
        looked_at = datetime.fromtimestamp((layout.root / _JOURNAL).stat().st_mtime, UTC)
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
    """Remove replaced files whose grace period has passed. With `dry_run`, these files are only reported.

    Other processes cannot load or publish during the search. While a backup is running, no files are removed. Raises
    OSError if a file cannot be removed. Files earlier in the removal order have already been removed.
    """
    now = now or datetime.now(UTC)
    journal = layout.root / _JOURNAL
    # the ledger of an incomplete build file omits files that are still needed
    if not warehouse.build_path.exists() or not warehouse.is_complete():
        return Cleaning((), ())
    with warehouse.ledger() as ledger, removing(layout.root) as may_remove:
        try:
            with warehouse.compacting():
                compacts = False
        except WarehouseBusyError:
            compacts = True  # the compaction might have written files that are not yet in the ledger
        since = files.read_cache(journal, _SEEN) or {}
        found = []
        for path, why in _replaced(layout, ledger, now, compacts=compacts):
            with contextlib.suppress(FileNotFoundError):  # the file has disappeared
                name = layout.relative(path)
                # the grace period of an entry in the future starts now, because the clock was set back
                size = _storage(layout, path).size(path)
                found.append(Replaced(name, size, why, min(since.get(name, now), now) + grace))
        # a running backup must find all files in its copy of the ledger
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


def _replaced(layout: Layout, ledger: Ledger, now: datetime, *, compacts: bool) -> Iterator[tuple[Path, str]]:
    """Yield replaced files in removal order. If the process is killed, the next call finds the remaining files."""
    for dataset in datasets.datasets(Family.HOURLY):
        roots = (layout.lake / dataset.name, layout.archive / dataset.archive)
        every = sorted({hour for root in roots for hour, _ in paths.hour_folders(root)})
        for day, hours in groupby(every, datetime.date):
            rows, used = ledger.files(dataset, day)
            compacted = {file.lake_path for file in rows if file.is_compacted}
            for hour in hours:
                folder = f"{dataset.name}/{paths.hour_folder(hour)}"
                loads = [file for file in rows if file.lake_path.rpartition("/")[0] == folder]
                since = {file.identifier: file.loaded_at for file in loads}
                found = layout.storage.list(layout.lake / folder, f"*.{paths.PARQUET}")
                dated = {path: since.get(name.identifier) for path in found if (name := paths.parse(path.name))}
                yield from _lake_files(layout, dated, used, compacted, "another conversion of the hour is loaded")
                yield from _archives_of_hour(layout, dataset, hour, loads)
    for dataset in datasets.datasets(Family.SNAPSHOT):
        rows, used = ledger.files(dataset)
        compacted = {file.lake_path for file in rows if file.is_compacted}
        versions: dict[str, dict[str, datetime]] = defaultdict(dict)
        for identifier, version, loaded_at in ledger.versions(dataset):
            versions[identifier][version] = loaded_at
        for identifier, kept in versions.items():
            found = layout.storage.list(layout.lake / dataset.name / identifier, "*/*.parquet")
            dated = dict.fromkeys(found, max(kept.values()))
            yield from _lake_files(layout, dated, used, compacted, "newer versions of the snapshot are loaded")
            yield from _archives_of_snapshot(layout, dataset, identifier, kept)
    for dataset in () if compacts else datasets.datasets():
        # compacted files that were compacted again, belong to a dropped version, or were never committed
        committed = ledger.compacted(dataset)
        for path in layout.storage.list(layout.compacted_folder(dataset.name), f"*.{paths.PARQUET}"):
            if path.relative_to(layout.lake).as_posix() not in committed:
                yield path, "no compaction references the file"
    yield from _of_stream(layout, now)


def _of_stream(layout: Layout, now: datetime) -> Iterator[tuple[Path, str]]:
    """Yield replaced stream files. The newest file is retained, because the stream resumes at this file's offset."""
    folder = layout.lake / LIVE_CHANGES
    counting = files_of(folder)
    kept = {file.path for file in counting}
    for hour, of_hour in paths.hour_folders(folder):
        found = (layout.storage.list(of_hour, pattern) for pattern in ("*.parquet", "*.parquet.damaged*"))
        for path in sorted(chain.from_iterable(found)):
            if path not in kept and path.suffix == ".parquet":
                yield path, "a larger file contains its events"
            elif now - hour > _STREAMED and path != (counting[-1].path if counting else None):
                yield path, "the service no longer has files for these hours"


def _lake_files(
    layout: Layout, since: Mapping[Path, datetime | None], used: Collection[str], compacted: Collection[str], why: str
) -> Iterator[tuple[Path, str]]:
    """Yield the unreferenced files among the keys of `since`, which maps each file to its scope's newest load."""
    for path, loaded_at in since.items():
        name = path.relative_to(layout.lake).as_posix()
        if name in used:
            continue
        if name in compacted:
            # its rejects are retained, because the compacted file contains no rejects
            yield path, "its rows are in a compacted file"
        elif loaded_at is not None and _older(layout.storage, path, loaded_at):
            rejects = layout.lake / REJECTS.name / name.partition("/")[2]
            for beside in (rejects, lines_file(rejects), path):
                if layout.storage.exists(beside):
                    yield beside, why


def _archives_of_hour(layout: Layout, dataset: Dataset, hour: datetime, loads: list[Row]) -> Iterator[tuple[Path, str]]:
    """Yield earlier exports of an hour, which exist only if the service exported the hour again."""
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
        # keep earlier exports until the listed export is loaded
        for digits, path in found if any((identifier, digits) in listed for digits in kept) else ():
            if digits not in kept and _older(LOCAL, path, listed_at):
                note = path.with_name(f"{path.name}.json")
                for one in (note, path) if note.exists() else (path,):
                    yield one, "a newer export of the hour is loaded"


def _archives_of_snapshot(
    layout: Layout, dataset: Dataset, identifier: str, versions: Collection[str]
) -> Iterator[tuple[Path, str]]:
    """Yield archives and partial files that belong neither to a loaded version nor to the newest archived version."""
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
    # remove manifests last, because files without a manifest look like a download in progress
    for path in sorted(folder.iterdir(), key=lambda path: (path.name.endswith(paths.SET), path.name)):
        if paths.is_of_snapshot(path.name, identifier) and path.name not in wanted and _older(LOCAL, path, complete_at):
            yield path, "newer versions of the snapshot are complete"


def _storage(layout: Layout, path: Path) -> Storage:
    """Return the storage that contains a file. Only lake files can be in remote storage."""
    return layout.storage if path.is_relative_to(layout.lake) else LOCAL


def _older(storage: Storage, path: Path, moment: datetime) -> bool:
    try:
        return storage.modified(path) < moment
    except FileNotFoundError:  # a finished download has renamed the file
        return False
