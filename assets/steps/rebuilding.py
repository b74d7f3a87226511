"""Rebuilding of lake and warehouse from the archive: loads that are absent, and lake files that are missing or damaged.

The service is not contacted. Finished conversions and loads are retained, so the same call resumes after a kill. A
repair does not change rows, so Dagster's history of the hour or the snapshot stays valid. A damaged file is removed
only after its archive was found, and is restored if the conversion fails. A kill in between leaves a missing file,
which the next run creates again.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from assets.describe import sentence
from assets.steps import hour as batches
from assets.steps import lookup
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError, attempts, convert_archives
from assets.steps.snapshot import ArchivedSnapshot
from resources import datasets, files
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import LOOKUPS, Dataset, Family, named
from resources.datasets.paths import hour_folder, hour_folders
from resources.engine import Engine, Outcome
from resources.enterprise import read_listing
from resources.errors import MirrorError, ends_run
from resources.files import set_aside
from resources.formatting import counted, hour_text, listed
from resources.lake import Archive, ConvertedFile, Converter, Layout, convert_list, journal
from resources.remote import RemoteConverter
from resources.warehouse import KEEP_REPLACED, FaultyFile, Warehouse
from resources.warehouse import Part as LoadedPart

#: An hour or a snapshot of a dataset.
Part = tuple[Dataset, datetime | str]
Only = Mapping[Part, AbstractSet[tuple[str, int]]]

_log = logging.getLogger(__name__)


@dataclass
class Rebuilt:
    """Lake files, hours and versions of snapshots that were created or loaded, and a message for each failure."""

    file_count: int = 0
    hour_count: int = 0
    snapshot_count: int = 0
    failures: list[str] = field(default_factory=list)


def complete(
    lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource, enterprise: EnterpriseResource
) -> Rebuilt | None:
    """Reload what is missing from a build file that replaced a damaged one. None: the build file is complete.

    Raises:
        MirrorError: An error that would stop all other loads as well: the disk is full, or another process holds the
            warehouse.
    """
    store = warehouse.warehouse
    if store.is_complete():
        return None
    done = load_archived(lake, warehouse, engine, enterprise, skip=_loaded_hours(lake.layout, store))
    store.note_complete()
    failed = f" Failed: {' '.join(done.failures)}" if done.failures else ""
    _log.warning(
        "The build file was replaced. Loaded again: %s, %s of snapshots.%s",
        counted(done.hour_count, "hour"),
        counted(done.snapshot_count, "version"),
        failed,
    )
    return done


def _loaded_hours(layout: Layout, store: Warehouse) -> set[Part]:
    """Return the hours whose lake files are all in the ledger; other hours are loaded again."""
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
    """Convert and load all archived data that is not loaded. One failure does not stop the rest.

    `only` limits the work to hours and snapshots, each with its projects and namespaces; the hours in `skip` are left
    out. `enterprise` provides the mirrored scope; the service is not contacted.

    Raises:
        MirrorError: An error that would stop all other loads as well: the disk is full, or another process holds the
            warehouse.
    """
    store, layout, done = warehouse.warehouse, lake.layout, Rebuilt()
    workers: Engine = engine.engine(lambda _: None)
    with engine.converter(lake) as converter:

        def convert(name: str, archives: Sequence[Any], dataset: Dataset) -> list[Outcome[Any, ConvertedFile]]:
            bodies = lake.bodies_of(dataset)
            made = attempts(name, archives, layout, bodies=bodies, converter=converter, engine=workers)
            done.file_count += sum(one.result is not None and one.result.converted for one in made)
            return made

        for name, step in _steps(layout, store, enterprise, convert, done, only, skip):
            try:
                step()
            except (MirrorError, OSError) as error:
                if ends_run(error):
                    raise
                done.failures.append(f"{name}: {sentence(error)}")
        if only is None:
            with lookup.alone(layout):
                lookup.load(layout, store, converter, workers, lake.bodies_of(LOOKUPS))
    # only the stream has these changes
    try:
        store.keep_visibility_changes()
    except MirrorError as error:
        done.failures.append(f"changes of visibility: {sentence(error)}")
    return done


def _steps(
    layout: Layout,
    store: Warehouse,
    enterprise: EnterpriseResource,
    convert: Callable[[str, Sequence[Any], Dataset], list[Outcome[Any, ConvertedFile]]],
    done: Rebuilt,
    only: Only | None,
    skip: AbstractSet[Part],
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield name and step of each load: lists, then snapshots with the oldest version first, then hours."""

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

    for dataset in datasets.datasets(Family.LIST) if only is None else ():
        if layout.list_archive(dataset).exists():
            yield dataset.name, partial(load_list, dataset)
    for dataset in datasets.datasets(Family.SNAPSHOT):
        for folder in sorted((layout.archive / dataset.archive).glob("*/")):
            is_wanted = only is None or (dataset, folder.name) in only
            for archived in kept_versions(layout, dataset, folder.name) if is_wanted else ():
                yield archived.identifier, partial(load_snapshot, dataset, archived)
    for dataset in datasets.datasets(Family.HOURLY):
        for hour, _ in hour_folders(layout.archive / dataset.archive):
            is_wanted = (only is None or (dataset, hour) in only) and (dataset, hour) not in skip
            # without a listing, the download was killed: the next run fetches the hour
            if is_wanted and layout.batch_list(dataset, hour).exists():
                yield f"{dataset.name} {hour_text(hour)} UTC", partial(load_hour, dataset, hour)


def kept_versions(layout: Layout, dataset: Dataset, identifier: str) -> list[ArchivedSnapshot]:
    """Return the archived versions of a snapshot that the warehouse retains, oldest first, without incomplete ones."""
    sets = snapshot_sets.archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    complete = [one for one in sets if all(archive.path.exists() for archive in one.archives)]
    count = 1 if dataset.state is None else 1 + KEEP_REPLACED
    return sorted(complete, key=lambda one: one.exported_at)[-count:]


def _scope(dataset: Dataset, hour: datetime, layout: Layout, enterprise: EnterpriseResource) -> list[tuple[str, int]]:
    """Return the archived projects and namespaces of an hour, and the mirrored ones that its listing lacks."""
    records = read_listing(layout.batch_list(dataset, hour))
    named = {(record.project_id, record.namespace_id): record for record in records}
    archived = [
        place
        for place, record in named.items()
        if layout.batch_archive(dataset, hour, record.identifier, record.version).exists()
    ]
    return [*archived, *(place for place in enterprise.scope_of(dataset) if place not in named)]


#: Hours and versions of snapshots repaired by one run, so that a publication never waits for a month of them. The next
#: run continues.
MOST = 48
_SHOWN = 5


@dataclass
class Repaired:
    """Outcome of a repair.

    Attributes:
        replaced: Files whose rows were loaded again from intact files.
        failed: A message for each hour, snapshot or lookup that could not be repaired.
        waiting: Hours and snapshots left to the next run, or without room on the disk now.
        load_count: Hours, snapshots and lookups that were loaded again.
    """

    replaced: list[FaultyFile] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    waiting: int = 0
    load_count: int = 0


@dataclass(frozen=True)
class Repair:
    """Repair of lake files from the archive."""

    layout: Layout
    store: Warehouse
    converter: Converter | RemoteConverter
    engine: Engine
    bodies_of: Callable[[Dataset], frozenset[str]]
    min_free_bytes: int = 0

    def run(self, faulty: Sequence[FaultyFile], most: int | None = MOST) -> Repaired:
        """Repair the files, those of the newest hours first; `most`: maximum number of hours and snapshots (None: all).

        Raises:
            MirrorError: An error that would stop all other repairs as well: the disk is full, or another process holds
                the warehouse.
        """
        done = Repaired()
        bad: set[LoadedPart] = set()
        units = list(_units(faulty))
        for number, parts in enumerate(units):
            is_short = shutil.disk_usage(self.layout.root).free < self.min_free_bytes
            if is_short or (most is not None and number >= most):
                done.waiting = len(units) - number
                bad.update(part for rest in units[number:] for part in rest)
                break
            own = [file for file in faulty if file.parts and set(file.parts) <= set(parts)]
            try:
                self._load(parts, [files.within(self.layout.lake, file.lake_path) for file in own])
                done.load_count += 1
            except (MirrorError, OSError) as error:
                if ends_run(error):
                    raise
                bad.update(parts)
                done.failed.append(f"{_name(parts[0])}: {sentence(error)}")
        done.replaced = [file for file in faulty if file.parts and bad.isdisjoint(file.parts)]
        for file in done.replaced:
            _log.warning("The lake file %s. It was replaced from the archive.", file)
        return done

    def _load(self, parts: Sequence[LoadedPart], damaged: Sequence[Path]) -> None:
        """Convert and load the files of one load; `damaged`: its files to replace, missing ones included."""
        dataset, first = named(parts[0].table_name), parts[0]
        if dataset.family is Family.SNAPSHOT:
            assert first.snapshot_id is not None
            archived = snapshot_sets.archived_snapshot(first.snapshot_id, self.layout, dataset, first.snapshot_version)
            made = self._converted(archived.identifier, archived.archives, dataset, damaged)
            snapshot_sets.load_snapshot(archived, made, self.store, reload=True)
        elif dataset.family is Family.HOURLY:
            assert first.batch_hour is not None
            places = sorted({(part.project_id, part.namespace_id) for part in parts})
            hour = batches.archived_hour(first.batch_hour, self.layout, places, dataset)
            if hour.absent:
                raise NotArchivedError(
                    "The archived listing of the hour does not name "
                    f"{', '.join(f'{name} {number}' for name, number in hour.absent)}, so there is nothing to convert. "
                    "Nothing was changed. Restore the file from a backup."
                )
            made = self._converted(hour_text(first.batch_hour), hour.archives, dataset, damaged)
            batches.load_hour(hour, made, self.store, reload=True)
        else:
            self._load_lookups(
                dataset, {(part.project_id, part.namespace_id, part.source_at) for part in parts}, damaged
            )

    def _load_lookups(self, dataset: Dataset, wanted: set[tuple[str, int, datetime]], damaged: Sequence[Path]) -> None:
        archives = [
            one for one in journal.archives(self.layout) if (one.project_id, one.namespace_id, one.source_at) in wanted
        ]
        if len(archives) < len(wanted):
            raise NotArchivedError(
                "The archive of the responses is missing, so there is nothing to convert. Nothing was changed. "
                "Restore the file from a backup."
            )
        made = self._converted("the lookups", archives, dataset, damaged)
        self.store.load_lookups(made, reload=True)

    def _converted(
        self, name: str, archives: Sequence[Archive], dataset: Dataset, damaged: Sequence[Path]
    ) -> list[ConvertedFile]:
        how: dict[str, Any] = {"bodies": self.bodies_of(dataset), "converter": self.converter, "engine": self.engine}
        aside = [(path, set_aside(path)) for path in damaged if os.path.lexists(path)]
        try:
            made = convert_archives(name, archives, self.layout, **how)
        except BaseException:
            for path, kept in aside:
                if not path.exists():
                    kept.replace(path)
            raise
        # also remove leftovers of a killed repair; a folder is left alone, since a user may want its contents
        for kept in [kept for path in damaged for kept in path.parent.glob(f"{path.name}.damaged*")]:
            if not kept.is_dir():
                kept.unlink()
        return made


def _units(faulty: Sequence[FaultyFile]) -> Iterator[list[LoadedPart]]:
    """Group the parts that load together, an hour or one other part: newest first."""

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
    """Repair missing or damaged lake files of the build file's ledger (`Repair.run`) if their archives exist."""
    store = warehouse.warehouse
    faulty = store.faulty_lake_files()
    with engine.converter(lake) as converter:
        floor = int(lake.settings.min_free_gb * 1e9)
        return Repair(lake.layout, store, converter, engine.engine(say), lake.bodies_of, floor).run(faulty, most)


def format_repaired(done: Repaired) -> str:
    some = []
    if done.replaced:
        some.append(f"Restored from the archive: {listed([file.lake_path for file in done.replaced], _SHOWN)}.")
    if done.waiting:
        some.append(
            f"{counted(done.waiting, 'hour')} or versions of snapshots wait for the next run, or for free disk space."
        )
    if done.failed:
        some.append(f"{counted(len(done.failed), 'load')} cannot be restored: {' '.join(done.failed[:_SHOWN])}")
    return " ".join(some)
