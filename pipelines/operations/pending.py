"""A run's pending work (snapshots to fetch, missing hours, and archives that are not loaded) and its cost."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from assets.steps import hour as batches
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError
from pipelines.automation.discovery import missing_hours
from resources import datasets
from resources.datasets import Dataset, Family
from resources.enterprise import EnterpriseClient, SnapshotPlan
from resources.errors import MirrorError
from resources.lake import Layout
from resources.settings import Settings
from resources.warehouse import Warehouse

#: Maximum age of reference lists, which change rarely. The service asks clients to cache these lists.
REFERENCE_AGE = timedelta(days=1)


def snapshots_to_fetch(
    client: EnterpriseClient, settings: Settings, wanted: Iterable[Dataset] = (), *, newer: bool = False
) -> dict[Dataset, list[str]]:
    """Return the identifiers of mirrored snapshots that are not loaded, by dataset.

    By default, all datasets are included. With `newer`, also return snapshots whose current version is not archived.
    """
    found = {}
    layout, warehouse = Layout(settings.data), Warehouse(settings.data)
    for dataset in tuple(wanted) or filter(settings.scope_of, datasets.datasets(Family.SNAPSHOT)):
        scope = settings.scope_of(dataset) or dataset.places
        loaded = warehouse.snapshot_scopes(dataset) if warehouse.build_path.exists() else frozenset()
        listing = client.snapshots.listing(dataset)
        records = [
            record
            for record in snapshot_sets.mirrored(listing, scope)
            if (record.project_id, record.namespace_id) not in loaded
            or (newer and not snapshot_sets.is_archived(record, layout, dataset))
        ]
        records.sort(key=lambda one: scope.index((one.project_id, one.namespace_id)))
        odd = snapshot_sets.odd(listing, scope if newer else [one for one in scope if one not in loaded])
        found[dataset] = [one.identifier for one in records] + list(odd)
    return found


def lacking_hours(settings: Settings, newest: datetime, now: datetime) -> list[datetime]:
    """Return missing hours up to `newest` that the service still retains and that a run can complete, oldest first."""
    warehouse, lacking = Warehouse(settings.data), set[datetime]()
    for dataset in datasets.datasets(Family.HOURLY) if warehouse.build_path.exists() else ():
        scope, beginnings = settings.scope_of(dataset), warehouse.beginnings(dataset)
        lacking.update(missing_hours(now, warehouse, scope, dataset, beginnings))
    return sorted(hour for hour in lacking if hour <= newest)


def archived_hours(dataset: Dataset, settings: Settings) -> list[datetime]:
    """Return a dataset's hours that are fully archived but not fully loaded, oldest first."""
    found = []
    layout, warehouse, scope = Layout(settings.data), Warehouse(settings.data), settings.scope_of(dataset)
    for hour in warehouse.lacking_hours(dataset) if warehouse.build_path.exists() else ():
        try:
            archived = batches.archived_hour(hour, layout, scope, dataset)
        except MirrorError:
            continue  # a file is missing or damaged: a run over the hour fetches it, or reports the failure
        if not archived.plan.odd:
            found.append(hour)
    return found


def archived_snapshots(dataset: Dataset, settings: Settings) -> tuple[list[str], list[str]]:
    """Return snapshots whose archived version is newer than the loaded version, and a message for each failure."""
    newest, failures = [], []
    layout, warehouse = Layout(settings.data), Warehouse(settings.data)
    for project, namespace in settings.scope_of(dataset):
        name = f"{project}_namespace_{namespace}"
        if not layout.snapshot_archive(dataset, name).is_dir():
            continue
        try:
            newest.append(snapshot_sets.archived_snapshot(name, layout, dataset))
        except NotArchivedError:
            continue  # its download is not complete yet
        except MirrorError as error:
            failures.append(str(error))
    # another process may hold the warehouse, so open it only if there is something to compare
    loaded = warehouse.snapshot_versions(dataset) if newest and warehouse.build_path.exists() else {}
    found = []
    for one in newest:
        versions = loaded.get(one.identifier, {})
        if one.version not in versions and all(one.exported_at > moment for moment in versions.values()):
            found.append(one.identifier)
    return found, failures


def reference_due(layout: Layout, now: datetime) -> bool:
    """Return True if a reference list is missing or at least a day old."""
    paths = [layout.list_archive(dataset) for dataset in datasets.datasets(Family.LIST)]
    oldest = now - REFERENCE_AGE
    return any(not path.exists() or datetime.fromtimestamp(path.stat().st_mtime, UTC) < oldest for path in paths)


def plans(
    hours: Iterable[datetime], snapshots: Mapping[Dataset, Iterable[str]], client: EnterpriseClient, settings: Settings
) -> tuple[list[batches.Plan], list[SnapshotPlan]]:
    """Plan the hours of every mirrored dataset and the given snapshots, without fetching anything."""
    layout = Layout(settings.data)
    hourly = [
        batches.plan_hour(client.hours.listing(hour, dataset), hour, layout, settings.scope_of(dataset), dataset)
        for hour in hours
        for dataset in filter(settings.scope_of, datasets.datasets(Family.HOURLY))
    ]
    planned = [
        snapshot_sets.plan_snapshot(name, client, layout, 0, dataset)
        for dataset, names in snapshots.items()
        for name in names
    ]
    return hourly, planned
