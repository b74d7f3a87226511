"""Processing steps for a snapshot, from the service to DuckDB: plan, fetch, convert and load.

Source: the service's snapshot endpoints, such as /v2/snapshots for articles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assets.steps.converting import NotArchivedError, known_conversions
from resources.adapters import ConfiguredLake
from resources.datasets import Dataset
from resources.datasets.paths import SET
from resources.engine import Engine
from resources.enterprise import EnterpriseClient, FetchOptions, Listing, SnapshotOptions, SnapshotPlan, read_set
from resources.enterprise.models import Snapshot as SnapshotRecord
from resources.lake import Archive, ConvertedFile, Layout
from resources.warehouse import Snapshot, SnapshotLoad, Warehouse

Scope = Sequence[tuple[str, int]]

#: Disk space per archive byte for the archive, the Parquet files, the build file and the published file. The Parquet
#: files are about as large as the archives, and the DuckDB files are smaller.
DISK_FACTOR = 2.5


@dataclass(frozen=True)
class ArchivedSnapshot:
    """One complete archived version of a snapshot, with a single file or one file per chunk."""

    dataset: Dataset
    identifier: str
    version: str
    exported_at: datetime
    archives: tuple[Archive, ...]


def mirrored(listing: Listing[SnapshotRecord], scope: Scope) -> list[SnapshotRecord]:
    sure = set(scope) - listing.left_out(scope).keys()
    return [record for record in listing.records if (record.project_id, record.namespace_id) in sure]


def odd(listing: Listing[SnapshotRecord], scope: Scope) -> dict[str, str]:
    """Return the identifiers of mirrored snapshots with an unusable record in the listing, each with the reason.

    A run for such a snapshot requests the record separately, and then fetches the snapshot or fails with a message.
    """
    return {f"{project}_namespace_{ns}": why for (project, ns), why in listing.left_out(scope).items()}


def is_archived(record: SnapshotRecord, layout: Layout, dataset: Dataset) -> bool:
    try:
        archived_snapshot(record.identifier, layout, dataset, record.version)
    except NotArchivedError:
        return False
    return True


def fetch_options(min_free_gb: float, options: SnapshotOptions | None = None) -> FetchOptions:
    """Return planner options that reserve disk space for all files derived from the archives."""
    chosen = (options or SnapshotOptions()).model_dump()
    return FetchOptions(**chosen, keep_free_bytes=int(min_free_gb * 1e9), disk_factor=DISK_FACTOR)


def plan_snapshot(
    identifier: str,
    client: EnterpriseClient,
    layout: Layout,
    min_free_gb: float,
    dataset: Dataset,
    options: SnapshotOptions | None = None,
) -> SnapshotPlan:
    """Plan the download of a snapshot and its cost, without using quota. Raises NotFound for an unknown snapshot."""
    folder = layout.snapshot_archive(dataset, identifier)
    return client.snapshots.plan(identifier, folder, fetch_options(min_free_gb, options), dataset)


def fetch_snapshot(plan: SnapshotPlan, client: EnterpriseClient, layout: Layout, engine: Engine) -> ArchivedSnapshot:
    """Download the missing files in parallel, and verify that all have the same version (see `Snapshots.download`)."""
    with engine.task(f"download {plan.identifier}", plan.missing_bytes, "B") as advance:
        client.snapshots.download(plan, workers=engine.workers, progress=advance)
    return archived_snapshot(plan.identifier, layout, plan.dataset, plan.snapshot.version)


def archived_snapshot(
    identifier: str, layout: Layout, dataset: Dataset, version: str | None = None
) -> ArchivedSnapshot:
    """Return an archived version, by default the newest. Raises NotArchivedError if no complete version exists."""
    sets = archived_sets(layout.snapshot_archive(dataset, identifier), dataset).values()
    found = [one for one in sets if version in (None, one.version)]
    if not found:
        raise NotArchivedError(
            f"The archive does not contain all files of {identifier}. Nothing was converted. Materialize "
            f"archive/{dataset.archive} for this snapshot first. Files already fetched are kept."
        )
    newest = max(found, key=lambda one: one.exported_at)
    for archive in newest.archives:
        if not archive.path.exists():
            raise NotArchivedError(
                f"{archive.path.name} of {identifier} was removed from the archive. If the service still offers this "
                f"version, materialize archive/{dataset.archive} for this snapshot to fetch the file again."
            )
    return newest


def archived_sets(folder: Path, dataset: Dataset) -> dict[Path, ArchivedSnapshot]:
    """Return the snapshot versions in an archive folder, by manifest. Files of older versions can be missing."""
    sets = {}
    for manifest in sorted(folder.glob(f"*.{SET}")):
        found = read_set(manifest)
        record = found.snapshot
        # without the time of the export, use the time when the set became complete
        exported_at = record.date_modified or datetime.fromtimestamp(manifest.stat().st_mtime, UTC)
        archives = tuple(
            Archive(
                dataset=dataset,
                path=manifest.with_name(file.name),
                identifier=file.identifier,
                version=file.version,
                batch_hour=None,
                project_id=record.project_id,
                namespace_id=record.namespace_id,
                snapshot_id=record.identifier,
                snapshot_version=record.version,
                exported_at=exported_at,
            )
            for file in found.files
        )
        sets[manifest] = ArchivedSnapshot(dataset, record.identifier, record.version, exported_at, archives)
    return sets


def all_conversions(archived: ArchivedSnapshot, lake: ConfiguredLake) -> list[ConvertedFile]:
    """Return the conversions of all archives. Raises NotArchivedError if an archive is not converted."""
    found = known_conversions(archived.archives, lake)
    if missing := len(archived.archives) - len(found):
        raise NotArchivedError(
            f"{missing} of {len(archived.archives)} archives of {archived.identifier} are not converted. Nothing was "
            f"loaded. Materialize lake/{archived.dataset.name} for this snapshot first."
        )
    return found


def load_snapshot(
    archived: ArchivedSnapshot, conversions: Sequence[ConvertedFile], warehouse: Warehouse, *, reload: bool = False
) -> SnapshotLoad:
    """Load a complete version into DuckDB in one transaction. `reload` also replaces a loaded version."""
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
