"""Loading everything that is archived and not loaded, for a rebuild and after a damaged build file was replaced.

The service is not contacted. Files that are converted and loaded already are kept, so the same call continues a killed
one.
"""

from __future__ import annotations

import logging
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
from assets.steps.converting import attempts
from assets.steps.snapshot import ArchivedSnapshot
from resources import datasets, files
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import LOOKUPS, Dataset, Family
from resources.datasets.paths import hour_folder, hour_folders
from resources.engine import Engine, Outcome
from resources.enterprise import read_listing
from resources.errors import MirrorError, ends_run
from resources.formatting import counted, hour_text
from resources.lake import ConvertedFile, Layout, convert_list
from resources.warehouse import KEEP_REPLACED, Warehouse

#: An hour or a snapshot of a dataset.
Part = tuple[Dataset, datetime | str]
Only = Mapping[Part, AbstractSet[tuple[str, int]]]

_log = logging.getLogger(__name__)


@dataclass
class Rebuilt:
    """Files of the lake, hours, and versions of snapshots that were made or loaded, and a sentence for each failure."""

    file_count: int = 0
    hour_count: int = 0
    snapshot_count: int = 0
    failures: list[str] = field(default_factory=list)


def complete(
    lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource, enterprise: EnterpriseResource
) -> Rebuilt | None:
    """Load again what a build file lacks that has replaced a damaged one. None: The build file is complete.

    Raises:
        MirrorError: What would stop everything else as well: the disk is full, another process holds the warehouse.
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
    """Return the hours of which the ledger names all files of the lake.

    An hour with files that were replaced and not removed yet is loaded again, without effect.
    """
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
    """Convert and load everything that is archived and not loaded. One failure does not stop the rest.

    Args:
        lake: Names the archives.
        warehouse: Is loaded.
        engine: Converts.
        enterprise: Names what is mirrored; it is not contacted.
        only: Hours and snapshots, each with its projects and namespaces; nothing else is made. Default: everything.
        skip: Hours that are left out.

    Raises:
        MirrorError: What would stop everything else as well: the disk is full, another process holds the warehouse.
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
    # they are in the stream alone
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
    """Yield lists, then snapshots with the oldest version first, then hours: the name of each, and its step."""

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
            # without a list, a download was killed: the hour is the next run's
            if is_wanted and layout.batch_list(dataset, hour).exists():
                yield f"{dataset.name} {hour_text(hour)} UTC", partial(load_hour, dataset, hour)


def kept_versions(layout: Layout, dataset: Dataset, identifier: str) -> list[ArchivedSnapshot]:
    """Return the archived versions of a snapshot that the warehouse keeps, the oldest first, if complete."""
    sets = snapshot_sets.archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    complete = [one for one in sets if all(archive.path.exists() for archive in one.archives)]
    count = 1 if dataset.state is None else 1 + KEEP_REPLACED
    return sorted(complete, key=lambda one: one.exported_at)[-count:]


def _scope(dataset: Dataset, hour: datetime, layout: Layout, enterprise: EnterpriseResource) -> list[tuple[str, int]]:
    """Return the archived projects and namespaces of an hour, and the mirrored ones that its list lacks."""
    records = read_listing(layout.batch_list(dataset, hour))
    named = {(record.project_id, record.namespace_id): record for record in records}
    archived = [
        place
        for place, record in named.items()
        if layout.batch_archive(dataset, hour, record.identifier, record.version).exists()
    ]
    return [*archived, *(place for place in enterprise.scope_of(dataset) if place not in named)]
