"""A run's pending work and its cost.

Pending work consists of snapshots to fetch, missing hours, and archives that are not loaded.

No function in this module writes data, so dry runs call the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from assets.layers import HOUR, recent_hours
from assets.steps import hour as batches
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError
from pipelines.automation.discovery import DONE, due_again
from resources import datasets
from resources.adapters import EnterpriseResource
from resources.datasets import Dataset, Family
from resources.enterprise import EnterpriseClient, SnapshotPlan
from resources.errors import MirrorError
from resources.lake import Layout
from resources.tables import HourState
from resources.warehouse import Warehouse

#: Maximum age of reference lists, which change rarely. The service asks clients to cache these lists.
REFERENCE_AGE = timedelta(days=1)


def snapshots_to_fetch(
    client: EnterpriseClient,
    enterprise: EnterpriseResource,
    warehouse: Warehouse,
    layout: Layout,
    wanted: Iterable[Dataset] = (),
    *,
    newer: bool = False,
) -> dict[Dataset, list[str]]:
    """Return the identifiers of mirrored snapshots that are not loaded, by dataset.

    By default, all datasets are included. With `newer`, also return snapshots whose current version is not archived.
    """
    found = {}
    for dataset in tuple(wanted) or filter(enterprise.scope_of, datasets.datasets(Family.SNAPSHOT)):
        scope = enterprise.scope_of(dataset) or dataset.places
        order = {place: number for number, place in enumerate(scope)}
        loaded = warehouse.snapshot_scopes(dataset) if warehouse.build_path.exists() else frozenset()
        listing = client.snapshots.listing(dataset)
        records = [
            record
            for record in snapshot_sets.mirrored(listing, scope)
            if (record.project_id, record.namespace_id) not in loaded
            or (newer and not snapshot_sets.is_archived(record, layout, dataset))
        ]
        records.sort(key=lambda one: order[one.project_id, one.namespace_id])
        odd = snapshot_sets.odd(listing, scope if newer else [one for one in scope if one not in loaded])
        found[dataset] = [one.identifier for one in records] + list(odd)
    return found


def lacking_hours(
    enterprise: EnterpriseResource, warehouse: Warehouse, layout: Layout, newest: datetime, now: datetime
) -> list[datetime]:
    """Return missing hours up to `newest` that the service still retains and a run can complete, oldest first."""
    recent = [hour for hour in recent_hours(now) if hour <= newest]
    lacking: set[datetime] = set()
    for dataset in datasets.datasets(Family.HOURLY) if recent and warehouse.build_path.exists() else ():
        scope = enterprise.scope_of(dataset)
        mirrored = set(scope)
        begun = {place: hour for place, hour in warehouse.beginnings(dataset).items() if place in mirrored}
        states = {
            (row.batch_hour, row.project_id, row.namespace_id): row.state
            for row in warehouse.coverage(since=recent[0], published=False, dataset=dataset)
        }
        for hour in recent:
            here = [states.get((hour, *place)) for place, first in begun.items() if first <= hour]
            if any(state not in DONE for state in here) or (
                HourState.ABSENT in here and _is_due(layout.batch_list(dataset, hour), hour, now, scope)
            ):
                lacking.add(hour)
    return sorted(lacking)


def _is_due(listing: Path, hour: datetime, now: datetime, scope: Sequence[tuple[str, int]]) -> bool:
    try:
        return due_again(listing, hour, now, scope)
    except MirrorError:
        return True  # the listing is damaged; a run over the hour replaces it


def archived_hours(
    dataset: Dataset, enterprise: EnterpriseResource, warehouse: Warehouse, layout: Layout
) -> list[datetime]:
    """Return a dataset's hours that are fully archived but not fully loaded, oldest first."""
    found = []
    scope = enterprise.scope_of(dataset)
    for hour in warehouse.lacking_hours(dataset) if scope and warehouse.build_path.exists() else ():
        try:
            archived = batches.archived_hour(hour, layout, scope, dataset)
        except MirrorError:
            continue  # a file is missing or damaged: a run over the hour fetches it, or reports the failure
        if not archived.odd:
            found.append(hour)
    return found


def archived_snapshots(
    dataset: Dataset, enterprise: EnterpriseResource, warehouse: Warehouse, layout: Layout
) -> tuple[list[str], list[str]]:
    """Return snapshots whose archived version is newer than the loaded version, and a message for each failure."""
    newest, failures = [], []
    for project, namespace in enterprise.scope_of(dataset):
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
    found = [
        one.identifier
        for one in newest
        for versions in (loaded.get(one.identifier, {}),)
        if one.version not in versions and all(one.exported_at > moment for moment in versions.values())
    ]
    return found, failures


def spans(hours: Iterable[datetime]) -> list[list[datetime]]:
    found: list[list[datetime]] = []
    for hour in sorted(hours):
        if found and found[-1][-1] + HOUR == hour:
            found[-1].append(hour)
        else:
            found.append([hour])
    return found


def reference_due(layout: Layout, now: datetime) -> bool:
    """Return True if a reference list is missing or at least a day old."""
    for dataset in datasets.datasets(Family.LIST):
        path = layout.list_archive(dataset)
        if not path.exists() or datetime.fromtimestamp(path.stat().st_mtime, UTC) < now - REFERENCE_AGE:
            return True
    return False


@dataclass(frozen=True)
class DryRun:
    """Files that a run would fetch. Each snapshot file costs one quota unit. All other files cost no units."""

    plans: tuple[batches.Plan, ...]
    snapshots: tuple[SnapshotPlan, ...]
    reference_due: bool

    @property
    def _plans(self) -> tuple[batches.Plan | SnapshotPlan, ...]:
        return (*self.plans, *self.snapshots)

    @property
    def quota_units(self) -> int:
        """Number of snapshot and chunk units that the run would use."""
        return sum(plan.unit_count for plan in self.snapshots)

    @property
    def file_count(self) -> int:
        return sum(len(plan.missing) for plan in self._plans)

    @property
    def byte_count(self) -> int:
        """Approximate number of bytes to fetch. The service rounds sizes to 500 bytes."""
        return sum(plan.missing_bytes for plan in self._plans)

    @property
    def disk_bytes(self) -> int:
        """Approximate disk space in bytes that the archive and the lake need in total."""
        hours = int(sum(plan.missing_bytes for plan in self.plans) * batches.DISK_FACTOR)
        return hours + sum(plan.disk_bytes for plan in self.snapshots)


def dry_run(
    hours: Iterable[datetime],
    snapshots: Mapping[Dataset, Iterable[str]],
    client: EnterpriseClient,
    enterprise: EnterpriseResource,
    layout: Layout,
) -> DryRun:
    """Plan the hours of every mirrored dataset and the given snapshots, without fetching anything."""
    hourly = [(hour, dataset) for hour in hours for dataset in datasets.datasets(Family.HOURLY)]
    wanted = [(name, dataset) for dataset, names in snapshots.items() for name in names]
    return DryRun(
        tuple(
            batches.plan_hour(hour, client, layout, scope, dataset)
            for hour, dataset in hourly
            if (scope := enterprise.scope_of(dataset))
        ),
        tuple(snapshot_sets.plan_snapshot(name, client, layout, 0, dataset) for name, dataset in wanted),
        reference_due(layout, datetime.now(UTC)),
    )
