"""Steps of a snapshot, from the service to DuckDB, and its representation in the archive.

    plan     one file or chunks, the cost, and the files already archived
    fetch    the missing archives, each verified, then the set as a whole
    convert  the archives to Parquet, with rejects in a separate file
    load     the complete version into DuckDB, in one transaction

Source: the service's snapshot endpoints, for articles /v2/snapshots and below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from assets.steps.converting import NotArchivedError, known_conversions
from resources.datasets import Dataset
from resources.engine import Engine
from resources.enterprise import (
    Download,
    EnterpriseClient,
    FetchOptions,
    Listing,
    SnapshotOptions,
    SnapshotPlan,
    SnapshotSet,
    read_sets,
)
from resources.enterprise.models import Snapshot as SnapshotRecord
from resources.lake import ConvertedFile, Layout, SnapshotArchive
from resources.warehouse import Snapshot, SnapshotLoad, Warehouse

Scope = Sequence[tuple[str, int]]

#: Total disk space for each byte of archive, the archive included: the Parquet files are about as large as the
#: archives, and DuckDB holds the narrow columns of the pages twice, in the build file and in the published file.
DISK_FACTOR = 2.5


@dataclass(frozen=True)
class ArchivedSnapshot:
    """One complete version of a snapshot in the archive: one file, or one file for each chunk."""

    dataset: Dataset
    identifier: str
    version: str
    exported_at: datetime
    archives: tuple[SnapshotArchive, ...]

    @property
    def archive_bytes(self) -> int:
        return sum(archive.path.stat().st_size for archive in self.archives)


def mirrored(listing: Listing[SnapshotRecord], scope: Scope) -> list[SnapshotRecord]:
    sure = set(scope) - listing.left_out(scope).keys()
    return [record for record in listing.records if (record.project_id, record.namespace_id) in sure]


def odd(listing: Listing[SnapshotRecord], scope: Scope) -> dict[str, str]:
    """Return the mirrored snapshots whose record in the list is unusable, by identifier, each with the reason.

    A run of such a snapshot requests its record separately: it either fails with a message about this snapshot or
    fetches it.
    """
    return {f"{project}_namespace_{ns}": why for (project, ns), why in listing.left_out(scope).items()}


def is_archived(record: SnapshotRecord, layout: Layout, dataset: Dataset) -> bool:
    """Return True if exactly this version of a snapshot is archived and complete."""
    try:
        archived_snapshot(record.identifier, layout, dataset, record.version)
    except NotArchivedError:
        return False
    return True


def fetch_options(min_free_gb: float, options: SnapshotOptions | None = None) -> FetchOptions:
    """Return the options for the planner; disk space is reserved for all files derived from the archives."""
    options = options or SnapshotOptions()
    return FetchOptions(
        form=options.form,
        beyond_quota=options.beyond_quota,
        most_units=options.most_units,
        keep_free_bytes=int(min_free_gb * 1e9),
        disk_factor=DISK_FACTOR,
    )


def plan_snapshot(
    identifier: str,
    client: EnterpriseClient,
    layout: Layout,
    min_free_gb: float,
    dataset: Dataset,
    options: SnapshotOptions | None = None,
) -> SnapshotPlan:
    """Plan how to fetch the snapshot and at what cost, without quota. Raises NotFound if the service has none."""
    folder = layout.snapshot_archive(dataset, identifier)
    return client.snapshots.plan(identifier, folder, fetch_options(min_free_gb, options), dataset)


def download(plan: SnapshotPlan, client: EnterpriseClient, engine: Engine) -> tuple[Download, ...]:
    """Download the missing files, several at once, and check that they belong together.

    Raises:
        StaleSnapshot: The service replaced the snapshot in the meantime.
        EnterpriseError: A file could not be downloaded. Complete files and its partial file are retained.
    """
    with engine.task(f"download {plan.identifier}", plan.missing_bytes, "B") as advance:
        return client.snapshots.download(plan, workers=engine.workers, progress=advance)


def fetch_snapshot(plan: SnapshotPlan, client: EnterpriseClient, layout: Layout, engine: Engine) -> ArchivedSnapshot:
    """Download the snapshot into the archive, unless complete, and return it. Raises as `download`."""
    download(plan, client, engine)
    return archived_snapshot(plan.identifier, layout, plan.dataset, plan.snapshot.version)


def archived_snapshot(
    identifier: str, layout: Layout, dataset: Dataset, version: str | None = None
) -> ArchivedSnapshot:
    """Return a version from the archive, by default the newest. Raises NotArchivedError if no set is complete."""
    sets = archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    found = [one for one in sets if version in (None, one.version)]
    if not found:
        raise NotArchivedError(
            f"No complete set of files of {identifier} is archived, so there is nothing to convert. Materialize "
            f"archive/{dataset.archive} of this snapshot first; files already fetched are kept."
        )
    newest = max(found, key=lambda one: one.exported_at)
    for archive in newest.archives:
        if not archive.path.exists():
            raise NotArchivedError(
                f"{archive.path.name} of {identifier} was removed from the archive. Materialize "
                f"archive/{dataset.archive} of this snapshot to fetch it again, if the service still offers this "
                "version."
            )
    return newest


def archived_sets(folder: Path, dataset: Dataset) -> dict[Path, ArchivedSnapshot]:
    """Return the complete sets in a snapshot's archive folder, by manifest; files of old sets may be missing."""
    return {one.path: _archived(one, dataset) for one in read_sets(folder)}


def _archived(found: SnapshotSet, dataset: Dataset) -> ArchivedSnapshot:
    record = found.snapshot
    archives = tuple(
        SnapshotArchive(
            dataset=dataset,
            path=found.path.with_name(file.name),
            identifier=file.identifier,
            version=file.version,
            project_id=record.project_id,
            namespace_id=record.namespace_id,
            snapshot_id=record.identifier,
            snapshot_version=record.version,
            exported_at=found.exported_at,
        )
        for file in found.files
    )
    return ArchivedSnapshot(dataset, record.identifier, record.version, found.exported_at, archives)


def all_conversions(
    archived: ArchivedSnapshot, layout: Layout, bodies: Iterable[str], record_bytes_max: int
) -> list[ConvertedFile]:
    """Return the existing conversions of all its archives. Raises NotArchivedError if one is missing."""
    found = known_conversions(archived.archives, layout, bodies, record_bytes_max)
    if missing := len(archived.archives) - len(found):
        raise NotArchivedError(
            f"{missing} of the {len(archived.archives)} archives of {archived.identifier} are not converted. Nothing "
            f"was loaded. Materialize lake/{archived.dataset.name} of this snapshot first."
        )
    return found


def load_snapshot(
    archived: ArchivedSnapshot, conversions: Sequence[ConvertedFile], warehouse: Warehouse, *, reload: bool = False
) -> SnapshotLoad:
    """Load the complete version into DuckDB or nothing; `reload` also replaces a version already loaded."""
    first = archived.archives[0]
    return warehouse.load_snapshot(
        Snapshot(
            dataset=archived.dataset,
            snapshot_id=archived.identifier,
            snapshot_version=archived.version,
            project_id=first.project_id,
            namespace_id=first.namespace_id,
            files=tuple(conversions),
            file_count=len(archived.archives),
            exported_at=archived.exported_at,
        ),
        reload=reload,
    )
