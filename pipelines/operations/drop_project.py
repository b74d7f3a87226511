"""Removal of a project that is no longer mirrored.

Rows are removed first, in one transaction. Then the published file is replaced, because it refers to lake files.
Finally, the files are removed. If the process is killed, the next call finds the remaining files by their names.
Reference lists, batch listings that cover other projects, accounts, and Dagster's run history are shared, so they are
kept.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipelines.process import processes as instances
from resources import datasets
from resources.data_folder import BackupUnderWayError, facts_of, removing
from resources.datasets import Family
from resources.datasets.paths import hour_folders
from resources.lake import Layout
from resources.settings import Settings, SettingsError
from resources.warehouse import Warehouse


@dataclass(frozen=True)
class Remains:
    """A project's data: row counts by warehouse table, and lake and archive files in the order of removal.

    `partitions` contains Dagster's partitions for the project's snapshots. `dropped_in` is the number of compacted
    files that are shared with other projects and still contain masked rows from this project. The next compaction
    removes these rows.
    """

    row_counts: Mapping[str, int]
    lake: tuple[Path, ...]
    archive: tuple[Path, ...]
    partitions: tuple[tuple[str, str], ...]
    dropped_in: int = 0

    def __bool__(self) -> bool:
        return bool(self.row_counts or self.lake or self.archive or self.partitions)


def survey(settings: Settings, project: str) -> Remains:
    """Find a project's data in the warehouse, the archive and the lake, without changing anything."""
    layout, warehouse = Layout(settings.data), Warehouse(settings.data, storage_version=settings.storage_version)
    built = warehouse.build_path.exists()
    # match names that begin with the project's identifier. A leading dot marks an unfinished file
    its = re.compile(rf"\.?{re.escape(project)}_namespace_\d+([._].*)?")
    lake = _files(layout.lake, its)
    lists: list[Path] = []
    for dataset in datasets.datasets(Family.HOURLY):
        shared = warehouse.hours_of_others(project, dataset) if built else frozenset()
        # batch listings of hours in which only this project has archives or rows
        for hour, folder in hour_folders(layout.archive / dataset.archive):
            listing = layout.batch_list(dataset, hour).name
            theirs = [path for path in folder.iterdir() if not path.name.startswith(listing)]
            if theirs and all(its.fullmatch(path.name) for path in theirs) and hour not in shared:
                lists += sorted(folder.glob(f"{listing}*"))
    partitions: tuple[tuple[str, str], ...] = ()
    if settings.dagster_home.exists():
        with instances.opened(settings.dagster_home) as instance:
            partitions = tuple(
                (dataset.archive, name)
                for dataset in datasets.datasets(Family.SNAPSHOT)
                for name in instance.get_dynamic_partitions(dataset.archive)
                if its.fullmatch(name)
            )
    return Remains(
        row_counts=warehouse.project_rows(project) if built else {},
        lake=lake,
        archive=(*lists, *_files(layout.archive, its)),
        partitions=partitions,
        dropped_in=warehouse.dropped_in(project) if built else 0,
    )


def drop_project(settings: Settings, project: str) -> Remains:
    """Remove all of a project's data, publish, and return an overview. Repeating the call resumes a killed removal.

    The project's rows in compacted files are masked until a compaction removes them (see `Remains.dropped_in`). Readers
    of an older published file immediately lose access to the project's page text.

    Raises:
        SettingsError: The settings still contain the project. Nothing was removed.
        WarehouseBusyError: Another process kept the warehouse locked until the timeout. Nothing was removed.
        BackupUnderWayError: A backup is copying files. Nothing was removed.
        OSError: A file could not be removed. Files earlier in the removal order have already been removed.
    """
    if project in settings.projects:
        raise SettingsError(
            f"{project} is in WME_PROJECTS, so the next run would load the project again. Nothing was removed. Remove "
            f"{project} from WME_PROJECTS, including for Dagster, then run the command again."
        )
    layout, warehouse = Layout(settings.data), Warehouse(settings.data, storage_version=settings.storage_version)
    found = survey(settings, project)
    if not found:
        return found
    with removing(settings.data) as may_remove:
        if not may_remove:
            raise BackupUnderWayError(
                f"A backup of {settings.data} is in progress. Nothing was removed. Wait until the backup ends, then "
                "run the command again."
            )
        if found.row_counts:
            warehouse.drop_project(project)
        if warehouse.build_path.exists():
            warehouse.publish(facts_of(settings.data))
        if found.partitions:
            with instances.opened(settings.dagster_home) as instance:
                for snapshots, name in found.partitions:
                    instance.delete_dynamic_partition(snapshots, name)
        for root, files in ((layout.lake, found.lake), (layout.archive, found.archive)):
            for path in files:
                path.unlink(missing_ok=True)
                folder, kept = path.parent, {root, *(root.iterdir() if root.exists() else ())}
                with suppress(OSError):  # the folder is not empty
                    while folder not in kept:
                        folder.rmdir()
                        folder = folder.parent
    return found


def _files(root: Path, its: re.Pattern[str]) -> tuple[Path, ...]:
    """Return the files with a matching name, or in a folder with a matching name."""
    found = (path for path in sorted(root.rglob("*")) if any(map(its.fullmatch, path.relative_to(root).parts)))
    return tuple(path for path in found if path.is_file())
