"""Rebuild missing loads, and missing or damaged lake files, from the archive without contacting the service.

Finished conversions and loads are retained, so repeating the call resumes a killed rebuild. A repair does not change
rows, so Dagster's history of the hour or snapshot stays valid. A damaged file is replaced only after its archive was
converted.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from assets.describe import sentence
from assets.steps import hour as batches
from assets.steps import lookup
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError, attempts
from assets.steps.snapshot import ArchivedSnapshot
from resources import datasets, files
from resources.adapters import ConfiguredLake, EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import LOOKUPS, Dataset, Family, named
from resources.datasets.paths import hour_folder, hour_folders
from resources.engine import Engine, Outcome
from resources.enterprise import read_listing
from resources.errors import MirrorError, ends_run
from resources.formatting import counted, hour_text, listed
from resources.lake import ConvertedFile, Converter, Layout, convert_list, journal
from resources.remote import RemoteWorkers
from resources.warehouse import KEEP_REPLACED, FaultyFile, Warehouse
from resources.warehouse import Part as LoadedPart

#: Dataset with the hour or snapshot to rebuild.
Part = tuple[Dataset, datetime | str]
Only = Mapping[Part, AbstractSet[tuple[str, int]]]

_log = logging.getLogger(__name__)

#: Maximum number of hours and snapshot versions that one run repairs, so that a publication never waits for a month of
#: repairs. The next run continues.
MOST = 48
_SHOWN = 5


@dataclass
class Rebuilt:
    """Counts of a rebuild or a repair, with a message for each failed load.

    `replaced` contains the lake files that a repair replaced. `waiting` counts loads that a repair postponed because of
    its limit or insufficient disk space.
    """

    file_count: int = 0
    hour_count: int = 0
    snapshot_count: int = 0
    load_count: int = 0
    failures: list[str] = field(default_factory=list)
    replaced: list[FaultyFile] = field(default_factory=list)
    waiting: int = 0


@dataclass(frozen=True)
class Loads:
    """Converts archives and loads them. With `repairs`, lake files are verified, and loaded rows are replaced."""

    lake: ConfiguredLake
    store: Warehouse
    converter: Converter | RemoteWorkers
    engine: Engine
    repairs: bool = False
    done: Rebuilt = field(default_factory=Rebuilt)

    def attempt(self, name: str, load: Callable[..., object], *part: Any) -> bool:
        """Return True if the load succeeds, or record its error. Raises errors that would stop all other loads."""
        try:
            load(*part)
        except (MirrorError, OSError) as error:
            if ends_run(error):
                raise
            self.done.failures.append(f"{name}: {sentence(error)}")
            return False
        self.done.load_count += 1
        return True

    def load_list(self, dataset: Dataset) -> None:
        raw = files.read(self.lake.layout.list_archive(dataset))
        self.store.load_list(dataset, convert_list(dataset, raw, self.lake.layout).path)

    def load_snapshot(self, archived: ArchivedSnapshot) -> None:
        made = [one.unwrap() for one in self._convert(archived.identifier, archived.archives, archived.dataset)]
        changed = snapshot_sets.load_snapshot(archived, made, self.store, reload=self.repairs).changed
        self.done.snapshot_count += changed

    def load_hour(self, dataset: Dataset, hour: datetime, places: Sequence[tuple[str, int]]) -> None:
        archived = batches.archived_hour(hour, self.lake.layout, places, dataset)
        if self.repairs and (absent := archived.plan.absent):
            raise NotArchivedError(
                "The hour's archived listing does not contain "
                f"{', '.join(f'{name} {number}' for name, number in absent)}, so there is nothing to convert. "
                "Nothing was changed. Restore the file from a backup."
            )
        outcomes = self._convert(hour_text(hour), archived.archives, dataset)
        if self.repairs:  # a repair replaces the rows of all files or of none
            for outcome in outcomes:
                outcome.unwrap()
        archived, made = archived.converted(outcomes)
        self.done.hour_count += batches.load_hour(archived, made, self.store, reload=self.repairs).changed
        archived.check()

    def load_again(self, parts: Sequence[LoadedPart]) -> None:
        """Repeat the load of an hour, a snapshot version or lookups."""
        dataset, first = named(parts[0].table_name), parts[0]
        if first.batch_hour is not None:
            self.load_hour(dataset, first.batch_hour, sorted({(part.project_id, part.namespace_id) for part in parts}))
        elif first.snapshot_id is not None:
            version = first.snapshot_version
            self.load_snapshot(snapshot_sets.archived_snapshot(first.snapshot_id, self.lake.layout, dataset, version))
        else:
            wanted = {(part.project_id, part.namespace_id, part.source_at) for part in parts}
            known = journal.archives(self.lake.layout)
            archives = [one for one in known if (one.project_id, one.namespace_id, one.source_at) in wanted]
            if len(archives) < len(wanted):
                raise NotArchivedError(
                    "The archived lookup responses are missing, so there is nothing to convert. Nothing was changed. "
                    "Restore the file from a backup."
                )
            made = [one.unwrap() for one in self._convert("the lookups", archives, dataset)]
            self.store.load_lookups(made, reload=True)

    def _convert(self, name: str, archives: Sequence[Any], dataset: Dataset) -> list[Outcome[Any, ConvertedFile]]:
        bodies, converter, engine = self.lake.bodies_of(dataset), self.converter, self.engine
        made = attempts(
            name, archives, self.lake.layout, bodies=bodies, converter=converter, engine=engine, again=self.repairs
        )
        self.done.file_count += sum(one.result is not None and one.result.converted for one in made)
        return made


def complete(
    lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource, enterprise: EnterpriseResource
) -> None:
    """Load missing data into a build file that replaced a damaged file (see `load_archived`)."""
    store = warehouse.warehouse
    if store.is_complete():
        return
    done = load_archived(lake, warehouse, engine, enterprise, skip=_loaded_hours(lake.layout, store))
    store.note_complete()
    failed = f" Failed: {' '.join(done.failures)}" if done.failures else ""
    _log.warning(
        "The build file was replaced. Reloaded %s and %s.%s",
        counted(done.hour_count, "hour"),
        counted(done.snapshot_count, "snapshot version"),
        failed,
    )


def _loaded_hours(layout: Layout, store: Warehouse) -> set[Part]:
    """Return the hours whose lake files are all in the ledger. All other hours must be loaded again."""
    found: set[Part] = set()
    with store.ledger() as ledger:
        for dataset in datasets.datasets(Family.HOURLY):
            for day, hours in groupby(hour_folders(layout.archive / dataset.archive), lambda one: one[0].date()):
                rows, _ = ledger.files(dataset, day)
                named = {file.lake_path for file in rows}
                for hour, _ in hours:
                    folder = f"{dataset.table.name}/{hour_folder(hour)}/"
                    there = {f"{folder}{path.name}" for path in (layout.lake / folder).glob("*.parquet")}
                    loaded = {path for path in named if path.startswith(folder)}
                    if loaded and there <= loaded:
                        found.add((dataset, hour))
    return found


def load_archived(
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
    enterprise: EnterpriseResource,
    only: Only | None = None,
    skip: AbstractSet[Part] = frozenset(),
) -> Rebuilt:
    """Convert and load all archived data that is not yet loaded, without contacting the service.

    Lists are loaded first, then snapshots (oldest version first), then hours. `only` contains the hours and snapshots
    to load, with their projects and namespaces. The hours in `skip` are not loaded. One failure does not stop other
    loads. Raises MirrorError if the error would stop all other loads as well, for example because the disk is full.
    """
    layout, store = lake.layout, warehouse.warehouse

    def load_hour(dataset: Dataset, hour: datetime) -> None:
        if only is not None:
            places = sorted(only[dataset, hour])
        else:  # the archived pairs, and the mirrored pairs that are not in the hour's listing
            listing = read_listing(layout.batch_list(dataset, hour))
            records = {(one.project_id, one.namespace_id): one for one in listing}
            file_of = partial(layout.batch_archive, dataset, hour)
            places = [place for place, one in records.items() if file_of(one.identifier, one.version).exists()]
            places += [place for place in enterprise.settings.scope_of(dataset) if place not in records]
        loads.load_hour(dataset, hour, places)

    with engine.converter(lake) as converter:
        loads = Loads(lake, store, converter, engine.engine(lambda _: None))
        for dataset in datasets.datasets(Family.LIST) if only is None else ():
            if layout.list_archive(dataset).exists():
                loads.attempt(dataset.name, loads.load_list, dataset)
        for dataset in datasets.datasets(Family.SNAPSHOT):
            for folder in sorted((layout.archive / dataset.archive).glob("*/")):
                if only is None or (dataset, folder.name) in only:
                    for archived in kept_versions(layout, dataset, folder.name):
                        loads.attempt(archived.identifier, loads.load_snapshot, archived)
        for dataset in datasets.datasets(Family.HOURLY):
            for hour, _ in hour_folders(layout.archive / dataset.archive):
                is_wanted = (only is None or (dataset, hour) in only) and (dataset, hour) not in skip
                # an hour without a listing was not downloaded completely, so the next run fetches the hour
                if is_wanted and layout.batch_list(dataset, hour).exists():
                    loads.attempt(f"{dataset.name} {hour_text(hour)} UTC", load_hour, dataset, hour)
        if only is None:
            with lookup.alone(layout):
                _, unusable = lookup.load(layout, store, converter, loads.engine, lake.bodies_of(LOOKUPS))
            loads.done.failures += [f"{LOOKUPS.name}: {sentence(error)}" for error in unusable]
    # only the stream has these changes
    loads.attempt("visibility changes", store.keep_visibility_changes)
    return loads.done


def kept_versions(layout: Layout, dataset: Dataset, identifier: str) -> list[ArchivedSnapshot]:
    """Return a snapshot's complete archived versions that the warehouse retains, oldest first."""
    sets = snapshot_sets.archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    complete = [one for one in sets if all(archive.path.exists() for archive in one.archives)]
    count = 1 if dataset.state is None else 1 + KEEP_REPLACED
    return sorted(complete, key=lambda one: one.exported_at)[-count:]


def _units(faulty: Sequence[FaultyFile]) -> Iterator[list[LoadedPart]]:
    """Yield the parts of each load, newest first. A load is an hour, or one part of a dataset that is not hourly."""

    def unit(part: LoadedPart) -> tuple[str, ...]:
        if part.batch_hour is not None:
            return (part.batch_hour.isoformat(), part.table_name)
        return ("", part.table_name, part.project_id, str(part.namespace_id), part.source_at.isoformat())

    parts = sorted({part for file in faulty for part in file.parts}, key=unit, reverse=True)
    for _, together in groupby(parts, unit):
        yield list(together)


def repaired(
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
    say: Callable[[str], None],
    most: int | None = MOST,
) -> Rebuilt:
    """Repair missing or damaged lake files in the build file's ledger, newest hours first.

    `most` is the maximum number of hours and snapshots, or None for no limit. Raises MirrorError if the error would
    stop all other repairs as well.
    """
    store, layout, loaded = warehouse.warehouse, lake.layout, set[LoadedPart]()
    faulty = store.faulty_lake_files()
    units = list(_units(faulty))
    with engine.converter(lake, is_local=True) as converter:
        loads = Loads(lake, store, converter, engine.engine(say), repairs=True)
        for number, parts in enumerate(units):
            is_short = shutil.disk_usage(layout.root).free < lake.settings.min_free_gb * 1e9
            if is_short or (most is not None and number >= most):
                loads.done.waiting = len(units) - number
                break
            first = parts[0]
            what = first.snapshot_id or f"{hour_text(first.batch_hour or first.source_at)} UTC"
            if loads.attempt(f"{first.table_name} {what}", loads.load_again, parts):
                loaded.update(parts)
    done = loads.done
    done.replaced = [file for file in faulty if file.parts and loaded.issuperset(file.parts)]
    for file in done.replaced:
        _log.warning("The lake file %s. The file was replaced from the archive.", file)
    return done


def format_repaired(done: Rebuilt) -> str:
    some = []
    if done.replaced:
        some.append(f"Restored from the archive: {listed([file.lake_path for file in done.replaced], _SHOWN)}.")
    if done.waiting:
        some.append(f"Postponed repairs: {done.waiting}. The next run continues if enough disk space is free.")
    if done.failures:
        some.append(f"{counted(len(done.failures), 'load')} could not be restored: {' '.join(done.failures[:_SHOWN])}")
    return " ".join(some)
