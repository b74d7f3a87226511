"""Making the lake and the warehouse again from the archive alone. The service is not contacted.

Files that are converted and loaded already are kept, so the same call continues a killed rebuild, and a rebuild of a
complete mirror changes nothing. Dagster's history stays as it is: its hours are materialized, which is true again
in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from assets.failures import sentence
from assets.published import fill_coverage
from assets.steps import hour as batches
from assets.steps import lookup
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import attempts
from resources import datasets, files
from resources.adapters import build_resources
from resources.data_folder import facts_of
from resources.datasets import LOOKUPS, SNAPSHOT_ARTICLES, Family
from resources.datasets.paths import hour_folders
from resources.enterprise import read_listing
from resources.errors import MirrorError, ends_run
from resources.formatting import hour_text
from resources.lake import convert_list
from resources.warehouse import KEEP_REPLACED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from assets.steps.snapshot import ArchivedSnapshot
    from resources.adapters import EnterpriseResource
    from resources.datasets import Dataset
    from resources.engine import Engine, Outcome
    from resources.lake import ConvertedFile, Layout
    from resources.settings import Settings
    from resources.warehouse import Warehouse

    #: An hour or a snapshot of a dataset.
    Part = tuple[Dataset, datetime | str]
    Only = Mapping[Part, AbstractSet[tuple[str, int]]]


@dataclass
class Rebuilt:
    """Files of the lake, hours, and versions of snapshots that were made or loaded, and a sentence for each failure."""

    file_count: int = 0
    hour_count: int = 0
    snapshot_count: int = 0
    failures: list[str] = field(default_factory=list)


def rebuild(settings: Settings, only: Only | None = None, **overrides: Any) -> Rebuilt:
    """Convert and load everything that is archived and not loaded, and publish. One failure does not stop the rest.

    Args:
        settings: The settings. Projects that they do not name are loaded as well if they are archived.
        only: Hours and snapshots, each with its projects and namespaces; nothing else is made. Default: everything.
        overrides: Resources in place of the settings' own, for example `engine`.

    Raises:
        MirrorError: What would stop everything else as well: the disk is full, another process holds the warehouse.
    """
    resources = build_resources(settings) | overrides
    lake, engine, store = resources["lake"], resources["engine"], resources["warehouse"].warehouse
    enterprise, layout, done = resources["enterprise"], lake.layout, Rebuilt()
    workers: Engine = engine.engine(lambda _: None)
    with engine.converter(lake) as converter:

        def convert(name: str, archives: Sequence[Any], dataset: Dataset) -> list[Outcome[Any, ConvertedFile]]:
            bodies = lake.bodies_of(dataset)
            made = attempts(name, archives, layout, bodies=bodies, converter=converter, engine=workers)
            done.file_count += sum(one.result is not None and one.result.converted for one in made)
            return made

        for name, step in _steps(layout, store, enterprise, convert, done, only):
            try:
                step()
            except (MirrorError, OSError) as error:
                if ends_run(error):
                    raise
                done.failures.append(f"{name}: {sentence(error)}")
        if only is None:
            with lookup.alone(layout):
                lookup.load(layout, store, converter, workers, lake.bodies_of(LOOKUPS))
    fill_coverage(enterprise, store)
    try:
        store.keep_visibility_changes()
    except MirrorError as error:
        done.failures.append(f"changes of visibility: {sentence(error)}")
    store.publish(facts_of(settings.data))
    return done


def _steps(
    layout: Layout,
    store: Warehouse,
    enterprise: EnterpriseResource,
    convert: Callable[[str, Sequence[Any], Dataset], list[Outcome[Any, ConvertedFile]]],
    done: Rebuilt,
    only: Only | None,
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
        done.hour_count += batches.load_hour(archived, made, store, dataset).changed
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
            is_wanted = only is None or (dataset, hour) in only
            # without a list, a download was killed: the hour is the next run's
            if is_wanted and layout.batch_list(dataset, hour).exists():
                yield f"{dataset.name} {hour_text(hour)} UTC", partial(load_hour, dataset, hour)


def kept_versions(layout: Layout, dataset: Dataset, identifier: str) -> list[ArchivedSnapshot]:
    """Return the archived versions of a snapshot that the warehouse keeps, the oldest first, if complete."""
    sets = snapshot_sets.archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    complete = [one for one in sets if all(archive.path.exists() for archive in one.archives)]
    count = 1 + KEEP_REPLACED if dataset == SNAPSHOT_ARTICLES else 1
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
