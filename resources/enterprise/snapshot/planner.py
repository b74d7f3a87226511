"""Download of a snapshot's files as one consistent set, even though the service replaces files under the same names.

Each export reuses the identifiers of a snapshot and its chunks, and rewrites the chunks one after another. A plan
therefore pins the versions. The versions are read again before each download and, for chunks, after the last download.
A single file whose bytes match the pinned version is always consistent.

Source: the service's reference for snapshots (`/v2/snapshots`), their chunks and downloads.
"""

import logging
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from resources import files
from resources.datasets import SNAPSHOT_ARTICLES, Dataset
from resources.datasets.paths import name_of
from resources.enterprise import endpoints, errors
from resources.enterprise.data_api import Section
from resources.enterprise.download.archived import SetFile, SnapshotSet, is_landed
from resources.enterprise.download.downloader import Download, ReplacedError, version_change
from resources.enterprise.download.object_reader import Progress
from resources.enterprise.download.partial import Part, others
from resources.enterprise.listing import Listing, list_of
from resources.enterprise.models import Chunk, Snapshot
from resources.enterprise.snapshot.plan import (
    FetchOptions,
    PlannedFile,
    SnapshotPlan,
    check_together,
    plan_snapshot,
)
from resources.errors import ends_run, retryable
from resources.files import StrPath
from resources.formatting import counted, moment_text, size_text

_log = logging.getLogger(__name__)

#: Maximum difference between an export's end and the current time. Clocks may differ by hours.
_AHEAD: Final = timedelta(days=1)


class Snapshots(Section):
    """Lists, plans and downloads snapshots and their chunks. Thread-safe."""

    def listing(self, dataset: Dataset = SNAPSHOT_ARTICLES) -> Listing[Snapshot]:
        """List the account's snapshots for all projects and namespaces (`GET /v2/snapshots`). Uses no quota."""
        return self._api.listing(endpoints.records(dataset), list_of(Snapshot), f"list the {dataset.endpoint}")

    def record(self, identifier: str, dataset: Dataset = SNAPSHOT_ARTICLES) -> Snapshot:
        """Read a snapshot's record (`GET /v2/snapshots/{identifier}`). Uses no quota.

        Raises NotFound if the snapshot does not exist, for example because its namespace has no pages, and
        UnexpectedAnswer if the record belongs to another snapshot or its export ends more than a day in the future.
        """
        found = self._api.record(_path(dataset, identifier), Snapshot, f"read the record of {identifier}")
        clock, ended = self._api.clock, found.date_modified
        if ended is not None and ended - max(clock.local(), clock.now()) > _AHEAD:
            raise errors.UnexpectedAnswer(
                f"According to its record, the export of {identifier} ended at {moment_text(ended)} UTC, which is in "
                "the future. Nothing was fetched, because later exports would count as older than this one. Check this "
                "machine's clock. If it is correct, the record is wrong: report the error to the vendor."
            )
        return found

    def chunks(self, identifier: str, dataset: Dataset = SNAPSHOT_ARTICLES) -> Listing[Chunk]:
        """List a snapshot's chunks in arbitrary order (`GET .../chunks`). Raises NotFound if there are none."""
        path = endpoints.chunks(_path(dataset, identifier))
        return self._api.listing(path, list_of(Chunk), f"list the chunks of {identifier}")

    def plan(
        self,
        identifier: str,
        folder: StrPath,
        options: FetchOptions | None = None,
        dataset: Dataset = SNAPSHOT_ARTICLES,
    ) -> SnapshotPlan:
        """Plan a snapshot's download, as one file or in chunks, with its cost in quota units and bytes.

        Planning reads the records of the snapshot and its chunks, the account's counters, and the folder's contents.
        The plan pins the versions. Planning uses no quota and changes nothing. Raises NotFound for an unknown snapshot.
        """
        folder, options = Path(folder), options or FetchOptions()
        snapshot = self.record(identifier, dataset)
        chunks: tuple[Chunk, ...] = ()
        if dataset.is_chunked and snapshot.chunks and options.form != "whole":
            try:
                chunks = self.chunks(identifier, dataset).records
            except errors.NotFound:  # an export is running, or the chunks were deleted; the plan reports the problem
                _log.info("The record of %s lists chunks, but the service has no chunk list.", identifier)
        existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        return plan_snapshot(
            snapshot,
            planned_file(folder, snapshot),
            [planned_file(folder, chunk) for chunk in chunks],
            quotas=self._api.account.quotas(),
            free_bytes=shutil.disk_usage(existing).free,
            options=options,
            dataset=dataset,
        )

    def fetch(self, plan: SnapshotPlan, file: PlannedFile, progress: Progress | None = None) -> Download:
        """Download and verify one planned file, and write its sidecar.

        First, the pinned versions are checked again. A file costs at most one quota unit. An existing file costs
        nothing. Resuming a partial file costs another unit. Separate threads can fetch and retry files independently.

        Raises StaleSnapshot if the service has replaced the snapshot or the chunk since the plan was created, and the
        errors of `Hours.download` and `check_together`.
        """
        try:
            return self._fetch(plan, file, progress)
        except ReplacedError as error:
            raise self._stale(plan, error) from error

    def _fetch(self, plan: SnapshotPlan, file: PlannedFile, progress: Progress | None) -> Download:
        check_together((plan,))
        if not is_landed(file.target, file.version):
            self._check_version(plan, file)
        path = _path(plan.dataset, plan.identifier, None if plan.form == "whole" else file.identifier)
        again = partial(self._read, plan, file)
        try:
            transfer = self._api.transfer(path, file.record, plan.product, again, pinned=True)
            done = transfer.fetch(file.target, progress)
        except errors.NotFound:
            self._check_version(plan, file)
            raise  # the record is unchanged, but the object store does not have the archive
        if done.version != file.version:
            raise ReplacedError(version_change(file.record, done.version))
        return done

    def confirm(self, plan: SnapshotPlan) -> Path:
        """Check that all files of a plan exist and are consistent. Write the manifest, and return its path.

        Raises StaleSnapshot if the service replaced the snapshot or a chunk during the download, and StateError if a
        file is missing. Uses no quota.
        """
        for file in plan.files:
            if not is_landed(file.target, file.version):
                raise errors.StateError(
                    f"{file.target.name} is not in {plan.folder}, so {plan.identifier} is incomplete. The other files "
                    "are kept. Plan the snapshot again, and run the plan: only missing files are fetched."
                )
        if plan.form == "chunks" and (changes := self._changes_of_set(plan)):
            raise self._stale(plan, ReplacedError(*changes))
        complete = [
            SetFile(name=file.target.name, identifier=file.identifier, version=file.version) for file in plan.files
        ]
        manifest = SnapshotSet(snapshot=plan.snapshot, form=plan.form, files=tuple(complete))
        files.write(plan.manifest, manifest.model_dump_json(indent=2, exclude_none=True).encode() + b"\n")
        return plan.manifest

    def download(
        self, plan: SnapshotPlan, *, workers: int = 4, progress: Progress | None = None
    ) -> tuple[Download, ...]:
        """Download all files of a plan, `workers` at a time, and confirm the set. Return the downloads in order.

        If one file fails, the download continues with other files, unless they would fail for the same reason: the
        snapshot was replaced, the quota is spent, or the disk is full. If all failures are temporary, the failed files
        are retried once. Raises the same errors as `fetch` and `confirm`. Complete and partial files are retained.
        """
        check_together((plan,))
        done: dict[str, Download] = {}
        failures: dict[str, Exception] = {}
        over: list[Exception] = []  # errors that would affect every other file as well, so no further file is started
        interrupted = threading.Event()
        reporting = threading.Lock()

        def report(count: int) -> None:
            if interrupted.is_set():
                raise CancelledError
            if progress is not None:
                with reporting:
                    progress(count)

        def fetch(file: PlannedFile) -> None:
            if over or interrupted.is_set():
                return
            try:
                done[file.identifier] = self._fetch(plan, file, report)
            except Exception as error:  # noqa: BLE001  the other files are worth having
                failures[file.identifier] = error
                if isinstance(error, ReplacedError) or ends_run(error):
                    over.append(error)

        files: Sequence[PlannedFile] = plan.files
        for _ in range(2):
            failures.clear()
            with ThreadPoolExecutor(max(1, workers), thread_name_prefix="snapshot") as pool:
                try:
                    list(pool.map(fetch, files))
                except BaseException:  # downloads in progress stop at their next byte, and their bytes are retained
                    interrupted.set()
                    raise
            files = [file for file in plan.files if file.identifier in failures]
            if over or not all(map(retryable, failures.values())):
                break
        for error in (*over, *(failures[file.identifier] for file in files)):
            if isinstance(error, ReplacedError):  # after all downloads, so the retained files are known
                raise self._stale(plan, error) from error
            raise error
        self.confirm(plan)
        return tuple(done[file.identifier] for file in plan.files)

    def _check_version(self, plan: SnapshotPlan, file: PlannedFile) -> None:
        """Raise ReplacedError if a file's record differs from the plan."""
        try:
            record = self._read(plan, file)
        except errors.NotFound:
            raise ReplacedError(f"{file.identifier} no longer exists") from None
        if record.version != file.version:
            raise ReplacedError(version_change(file.record, record.version))

    def _changes_of_set(self, plan: SnapshotPlan) -> list[str]:
        try:
            snapshot = self.record(plan.identifier, plan.dataset)
            if snapshot.version != plan.snapshot.version:
                return [version_change(plan.snapshot, snapshot.version)]
            now = {chunk.identifier: chunk.version for chunk in self.chunks(plan.identifier, plan.dataset)}
        except errors.NotFound:
            return [f"{plan.identifier} or its chunk list no longer exists"]
        pinned = {file.identifier: file.record for file in plan.files}
        return [
            *(f"{name} no longer exists" for name in pinned if name not in now),
            *(f"{name} is new" for name in sorted(now.keys() - pinned)),
            *(version_change(one, now[n]) for n, one in pinned.items() if now.get(n, one.version) != one.version),
        ]

    def _stale(self, plan: SnapshotPlan, replaced: ReplacedError) -> errors.StaleSnapshot:
        changes = replaced.args
        kept = [file for file in plan.files if is_landed(file.target, file.version)]
        size = size_text(sum(file.target.stat().st_size for file in kept))
        kept_text = (
            f"{counted(len(kept), 'complete file')} ({size}) of this version are kept in {plan.folder}"
            if kept
            else "No file of this version was complete"
        )
        more = f", and {len(changes) - 3} more" if len(changes) > 3 else ""
        what = f"The service replaced {plan.identifier} after it was planned: {', '.join(changes[:3])}{more}."
        try:
            fresh = self.plan(plan.identifier, plan.folder, plan.options, plan.dataset)
        except errors.EnterpriseError as error:
            _log.info("Could not determine the current cost of %s: %s", plan.identifier, error)
            return errors.StaleSnapshot(
                f"{what} {kept_text}. The cost of a new download is unknown, because the service does not list the "
                "complete snapshot yet. Plan the snapshot again later (planning is free), then run the plan."
            )
        return errors.StaleSnapshot(
            f"{what} {kept_text}. If you start over, {fresh.cost[0].lower()}{fresh.cost[1:]}. Plan the snapshot again, "
            "and run the plan: files with an unchanged version are not fetched again."
        )

    def _read(self, plan: SnapshotPlan, file: PlannedFile) -> Snapshot | Chunk:
        """Return the current record of a planned file."""
        if plan.form == "whole":
            return self.record(plan.identifier, plan.dataset)
        doing = f"read the record of chunk {file.identifier} of {plan.identifier}"
        return self._api.record(_path(plan.dataset, plan.identifier, file.identifier), Chunk, doing)


def planned_file(folder: Path, record: Snapshot | Chunk) -> PlannedFile:
    """Return a file to fetch into a folder, and the number of its bytes that exist. Only the sidecar is read."""
    target = folder / name_of(record.identifier, record.version)
    if is_landed(target, record.version):
        size = target.stat().st_size
        return PlannedFile(record, target, size, size, is_landed=True)
    part = Part.path_of(target)
    there = part.stat().st_size + sum(other.length for other in others(part)) if part.is_file() else 0
    return PlannedFile(record, target, record.approximate_bytes, there, is_landed=False)


def _path(dataset: Dataset, identifier: str, chunk: str | int | None = None) -> str:
    snapshot = endpoints.record(endpoints.records(dataset), identifier)
    return snapshot if chunk is None else endpoints.record(endpoints.chunks(snapshot), chunk)
