"""Rebuild missing loads, and missing or damaged lake files, from the archive without contacting the service.

Finished conversions and loads are retained, so repeating the call resumes a killed rebuild. A repair does not change
rows, so Dagster's history of the hour or snapshot stays valid. A damaged file is replaced only after its archive was
converted.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from assets.describe import sentence
from assets.steps import hour as batches
from assets.steps import lookup
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError, attempts
from assets.steps.snapshot import ArchivedSnapshot
from resources import datasets, files
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import LOOKUPS, Dataset, Family, named
from resources.datasets.paths import hour_folder, hour_folders
from resources.engine import Engine, Outcome
from resources.enterprise import read_listing
from resources.errors import MirrorError, ends_run
from resources.formatting import counted, hour_text, listed
from resources.lake import Archive, ConvertedFile, Converter, Layout, convert_list, journal
from resources.remote import RemoteWorkers
from resources.warehouse import KEEP_REPLACED, FaultyFile, Warehouse
from resources.warehouse import Part as LoadedPart

#: Dataset with the hour or snapshot to rebuild.
Part = tuple[Dataset, datetime | str]
Only = Mapping[Part, AbstractSet[tuple[str, int]]]

_log = logging.getLogger(__name__)


@dataclass
class Rebuilt:
    """Numbers of created lake files, loaded hours and loaded snapshot versions, and a message for each failure."""

    file_count: int = 0
    hour_count: int = 0
    snapshot_count: int = 0
    failures: list[str] = field(default_factory=list)


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
                named = ledger.of_day(day, dataset)
                of_hours: dict[str, set[str]] = {}
                for file in named.files:
                    of_hours.setdefault(file.lake_path.rpartition("/")[0], set()).add(file.lake_path)
                for hour, _ in hours:
                    folder = layout.lake / dataset.table.name / hour_folder(hour)
                    there = {path.relative_to(layout.lake).as_posix() for path in folder.glob("*.parquet")}
                    loaded = of_hours.get(folder.relative_to(layout.lake).as_posix(), set())
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
    store, layout, done = warehouse.warehouse, lake.layout, Rebuilt()
    workers: Engine = engine.engine(lambda _: None)

    def convert(name: str, archives: Sequence[Any], dataset: Dataset) -> list[Outcome[Any, ConvertedFile]]:
        bodies = lake.bodies_of(dataset)
        made = attempts(name, archives, layout, bodies=bodies, converter=converter, engine=workers)
        done.file_count += sum(one.result is not None and one.result.converted for one in made)
        return made

    def load_list(dataset: Dataset) -> None:
        store.load_list(dataset, convert_list(dataset, files.read(layout.list_archive(dataset)), layout).path)

    def load_snapshot(dataset: Dataset, archived: ArchivedSnapshot) -> None:
        made = [one.unwrap() for one in convert(archived.identifier, archived.archives, dataset)]
        done.snapshot_count += snapshot_sets.load_snapshot(archived, made, store).changed

    def load_hour(dataset: Dataset, hour: datetime) -> None:
        scope = _scope(dataset, hour, layout, enterprise) if only is None else sorted(only[dataset, hour])
        archived = batches.archived_hour(hour, layout, scope, dataset)
        archived, made = archived.converted(convert(hour_text(hour), archived.archives, dataset))
        done.hour_count += batches.load_hour(archived, made, store).changed
        archived.check()

    def attempt(name: str, load: Callable[..., object], *part: Any) -> None:
        try:
            load(*part)
        except (MirrorError, OSError) as error:
            if ends_run(error):
                raise
            done.failures.append(f"{name}: {sentence(error)}")

    with engine.converter(lake) as converter:
        for dataset in datasets.datasets(Family.LIST) if only is None else ():
            if layout.list_archive(dataset).exists():
                attempt(dataset.name, load_list, dataset)
        for dataset in datasets.datasets(Family.SNAPSHOT):
            for folder in sorted((layout.archive / dataset.archive).glob("*/")):
                if only is None or (dataset, folder.name) in only:
                    for archived in kept_versions(layout, dataset, folder.name):
                        attempt(archived.identifier, load_snapshot, dataset, archived)
        for dataset in datasets.datasets(Family.HOURLY):
            for hour, _ in hour_folders(layout.archive / dataset.archive):
                is_wanted = (only is None or (dataset, hour) in only) and (dataset, hour) not in skip
                # an hour without a listing was not downloaded completely, so the next run fetches the hour
                if is_wanted and layout.batch_list(dataset, hour).exists():
                    attempt(f"{dataset.name} {hour_text(hour)} UTC", load_hour, dataset, hour)
        if only is None:
            with lookup.alone(layout):
                lookup.load(layout, store, converter, workers, lake.bodies_of(LOOKUPS))
    # only the stream has these changes
    attempt("visibility changes", store.keep_visibility_changes)
    return done


def kept_versions(layout: Layout, dataset: Dataset, identifier: str) -> list[ArchivedSnapshot]:
    """Return a snapshot's complete archived versions that the warehouse retains, oldest first."""
    sets = snapshot_sets.archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    complete = [one for one in sets if all(archive.path.exists() for archive in one.archives)]
    count = 1 if dataset.state is None else 1 + KEEP_REPLACED
    return sorted(complete, key=lambda one: one.exported_at)[-count:]


def _scope(dataset: Dataset, hour: datetime, layout: Layout, enterprise: EnterpriseResource) -> list[tuple[str, int]]:
    """Return an hour's archived (project, namespace) pairs, and the mirrored pairs that are not in its listing."""
    records = read_listing(layout.batch_list(dataset, hour))
    named = {(record.project_id, record.namespace_id): record for record in records}
    archived = [
        place
        for place, record in named.items()
        if layout.batch_archive(dataset, hour, record.identifier, record.version).exists()
    ]
    return [*archived, *(place for place in enterprise.settings.scope_of(dataset) if place not in named)]


#: Maximum number of hours and snapshot versions that one run repairs, so that a publication never waits for a month of
#: repairs. The next run continues.
MOST = 48
_SHOWN = 5


@dataclass
class Repaired:
    """Outcome of a repair: replaced files, a message for each failure, and the numbers of postponed and finished loads.

    A load is postponed because of the limit or insufficient disk space.
    """

    replaced: list[FaultyFile] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    waiting: int = 0
    load_count: int = 0


@dataclass(frozen=True)
class Repair:
    layout: Layout
    store: Warehouse
    converter: Converter | RemoteWorkers
    engine: Engine
    bodies_of: Callable[[Dataset], frozenset[str]]
    min_free_bytes: int = 0

    def run(self, faulty: Sequence[FaultyFile], most: int | None = MOST) -> Repaired:
        """Repair files, newest hours first. `most` is the maximum number of hours and snapshots, or None for no limit.

        Raises MirrorError if the error would stop all other repairs as well.
        """
        done, loaded = Repaired(), set[LoadedPart]()
        units = list(_units(faulty))
        for number, parts in enumerate(units):
            is_short = shutil.disk_usage(self.layout.root).free < self.min_free_bytes
            if is_short or (most is not None and number >= most):
                done.waiting = len(units) - number
                break
            try:
                self._load(parts)
                done.load_count += 1
                loaded.update(parts)
            except (MirrorError, OSError) as error:
                if ends_run(error):
                    raise
                done.failed.append(f"{_name(parts[0])}: {sentence(error)}")
        done.replaced = [file for file in faulty if file.parts and loaded.issuperset(file.parts)]
        for file in done.replaced:
            _log.warning("The lake file %s. The file was replaced from the archive.", file)
        return done

    def _load(self, parts: Sequence[LoadedPart]) -> None:
        """Convert the archives of missing and damaged files, then load the parts of one load."""
        dataset, first = named(parts[0].table_name), parts[0]
        if dataset.family is Family.SNAPSHOT:
            assert first.snapshot_id is not None
            archived = snapshot_sets.archived_snapshot(first.snapshot_id, self.layout, dataset, first.snapshot_version)
            made = self._converted(archived.identifier, archived.archives, dataset)
            snapshot_sets.load_snapshot(archived, made, self.store, reload=True)
        elif dataset.family is Family.HOURLY:
            assert first.batch_hour is not None
            places = sorted({(part.project_id, part.namespace_id) for part in parts})
            hour = batches.archived_hour(first.batch_hour, self.layout, places, dataset)
            if absent := hour.plan.absent:
                raise NotArchivedError(
                    "The hour's archived listing does not contain "
                    f"{', '.join(f'{name} {number}' for name, number in absent)}, so there is nothing to convert. "
                    "Nothing was changed. Restore the file from a backup."
                )
            made = self._converted(hour_text(first.batch_hour), hour.archives, dataset)
            batches.load_hour(hour, made, self.store, reload=True)
        else:
            wanted = {(part.project_id, part.namespace_id, part.source_at) for part in parts}
            known = journal.archives(self.layout)
            archives = [one for one in known if (one.project_id, one.namespace_id, one.source_at) in wanted]
            if len(archives) < len(wanted):
                raise NotArchivedError(
                    "The archived lookup responses are missing, so there is nothing to convert. Nothing was changed. "
                    "Restore the file from a backup."
                )
            made = self._converted("the lookups", archives, dataset)
            self.store.load_lookups(made, reload=True)

    def _converted(self, name: str, archives: Sequence[Archive], dataset: Dataset) -> list[ConvertedFile]:
        bodies = self.bodies_of(dataset)
        outcomes = attempts(
            name, archives, self.layout, bodies=bodies, converter=self.converter, engine=self.engine, again=True
        )
        return [outcome.unwrap() for outcome in outcomes]


def _units(faulty: Sequence[FaultyFile]) -> Iterator[list[LoadedPart]]:
    """Yield the parts of each load, newest first. A load is an hour, or one part of a dataset that is not hourly."""

    def unit(part: LoadedPart) -> tuple[str, ...]:
        if part.batch_hour is not None:
            return (part.batch_hour.isoformat(), part.table_name)
        return ("", part.table_name, part.project_id, str(part.namespace_id), part.source_at.isoformat())

    parts = sorted({part for file in faulty for part in file.parts}, key=unit, reverse=True)
    for _, together in groupby(parts, unit):
        yield list(together)


def _name(part: LoadedPart) -> str:
    if part.snapshot_id is not None:
        return f"{part.table_name} {part.snapshot_id}"
    moment = part.batch_hour or part.source_at
    return f"{part.table_name} {hour_text(moment)} UTC"


def repaired(
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
    say: Callable[[str], None],
    most: int | None = MOST,
) -> Repaired:
    """Repair missing or damaged lake files in the build file's ledger (see `Repair.run`)."""
    store = warehouse.warehouse
    faulty = store.faulty_lake_files()
    with engine.converter(lake, is_local=True) as converter:
        floor = int(lake.settings.min_free_gb * 1e9)
        return Repair(lake.layout, store, converter, engine.engine(say), lake.bodies_of, floor).run(faulty, most)


def format_repaired(done: Repaired) -> str:
    some = []
    if done.replaced:
        some.append(f"Restored from the archive: {listed([file.lake_path for file in done.replaced], _SHOWN)}.")
    if done.waiting:
        some.append(f"Postponed repairs: {done.waiting}. The next run continues if enough disk space is free.")
    if done.failed:
        some.append(f"{counted(len(done.failed), 'load')} could not be restored: {' '.join(done.failed[:_SHOWN])}")
    return " ".join(some)
