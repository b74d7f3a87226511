"""Combined plans for several snapshots, and sequential downloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.steps import snapshot as snapshot_sets
from resources import connection
from resources.datasets import Dataset
from resources.engine import Engine, Reporter
from resources.enterprise import (
    Download,
    EnterpriseClient,
    FetchOptions,
    SnapshotPlan,
    check_together,
    errors,
    superseded,
)
from resources.enterprise.models import Snapshot
from resources.lake import Layout
from resources.settings import Settings

_IDENTIFIER = re.compile(r"(\w+)_namespace_(\d+)")


@dataclass(frozen=True)
class CombinedPlan:
    """Cost of downloading several snapshots, one after another."""

    plans: tuple[SnapshotPlan, ...]

    @property
    def unit_counts(self) -> dict[str, int]:
        """Quota units by counter (`snapshot`, `chunk`), without unused counters."""
        units: Counter[str] = Counter()
        for plan in self.plans:
            if plan.product is not None:
                units[plan.product] += plan.unit_count
        return {product: count for product, count in units.items() if count}

    @property
    def missing_bytes(self) -> int:
        return sum(plan.missing_bytes for plan in self.plans)

    @property
    def disk_bytes(self) -> int:
        return sum(plan.disk_bytes for plan in self.plans)

    @property
    def free_bytes(self) -> int:
        return min((plan.free_bytes for plan in self.plans), default=0)

    def check(self) -> None:
        """Check that all downloads can finish. Raises the same errors as `check_together`."""
        for plan in self.plans:
            plan.check()
        check_together(self.plans)

    @property
    def obstacle(self) -> str | None:
        """Message that explains why the download would be refused, or None if it would start."""
        try:
            self.check()
        except (errors.QuotaExceeded, errors.BudgetExceeded, errors.DiskFull) as error:
            return error.message
        return None


def plan(
    client: EnterpriseClient,
    settings: Settings,
    identifiers: Iterable[str],
    options: FetchOptions,
    dataset: Dataset,
) -> CombinedPlan:
    """Plan the download of snapshots into the archive, without using quota or changing anything.

    `identifiers` are the service's names, for example enwiki_namespace_0.

    Raises:
        NotFound: A snapshot does not exist.
        UnknownNameError: A snapshot's project or namespace does not exist.
        InvalidRequest: Chunks were requested, but the snapshot has no chunks.
    """
    layout = Layout(settings.data)
    plans = []
    for name in dict.fromkeys(identifiers):
        try:
            plans.append(_planned(client, name, layout.snapshot_archive(dataset, name), options, dataset))
        except errors.NotFound:
            if found := _IDENTIFIER.fullmatch(name):
                connection.check_names(client, layout, [found[1]], [int(found[2])], correct=name)
            raise
    return CombinedPlan(tuple(plans))


@dataclass(frozen=True)
class Fetched:
    """A complete and verified snapshot in the archive."""

    plan: SnapshotPlan
    downloads: tuple[Download, ...]

    @property
    def fetched_count(self) -> int:
        """Number of files that this call downloaded."""
        return sum(download.fetched for download in self.downloads)

    @property
    def fetched_bytes(self) -> int:
        """Number of bytes that this call downloaded."""
        return sum(d.size_bytes - d.resumed_bytes for d in self.downloads if d.fetched)

    @property
    def size_bytes(self) -> int:
        return sum(download.size_bytes for download in self.downloads)

    @property
    def unit_count(self) -> int:
        return sum(download.unit_count for download in self.downloads)

    @property
    def replaced(self) -> tuple[Path, ...]:
        """Files in the same folder that belong to other versions or have the other form."""
        return superseded(self.plan)


@dataclass(frozen=True)
class Report:
    """Outcome of a download: complete snapshots, failures, and snapshots that were not started."""

    done: tuple[Fetched, ...]
    failures: tuple[tuple[str, errors.EnterpriseError], ...]
    not_begun: tuple[str, ...]

    def sentence(self) -> str:
        """Description of the failures, or an empty string."""
        if not self.failures:
            return ""
        if len(self.failures) == 1 and not self.done and not self.not_begun:
            return self.failures[0][1].message
        count = len(self.done) + len(self.failures) + len(self.not_begun)
        told = [f"{len(self.failures)} of {count} snapshots failed."]
        told += [f"- {identifier}: {error.message}" for identifier, error in self.failures]
        if self.not_begun:
            told.append(f"Downloads that were not started: {', '.join(self.not_begun)}.")
        return "\n".join(told)


def download(client: EnterpriseClient, combined: CombinedPlan, *, workers: int = 4, reporter: Reporter) -> Report:
    """Download planned snapshots into the archive, one after another, each with its files in parallel.

    No download starts unless all downloads can finish (see `CombinedPlan.check`). Archived files are not fetched again,
    and unfinished downloads are resumed. If the download is interrupted, the data that was already fetched is kept.
    """
    combined.check()
    done: list[Fetched] = []
    failures: list[tuple[str, errors.EnterpriseError]] = []
    rest = list(combined.plans)
    while rest:
        plan = rest.pop(0)
        try:
            if done or failures:  # plan this snapshot again, because earlier downloads might have taken hours
                plan = _planned(client, plan.identifier, plan.folder, plan.options, plan.dataset)
            done.append(Fetched(plan, snapshot_sets.download(plan, client, Engine(workers, reporter))))
        except errors.EnterpriseError as error:
            failures.append((plan.identifier, error))
            if error.ends_run:
                break
    return Report(tuple(done), tuple(failures), tuple(plan.identifier for plan in rest))


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot's record as JSON values, with sizes in bytes."""
    return _values(snapshot, "identifier project_id namespace_id version date_modified") | {
        "size_bytes": snapshot.approximate_bytes,
        "chunk_count": len(snapshot.chunks),
    }


def plan_json(combined: CombinedPlan) -> dict[str, Any]:
    """Return plans and their combined cost as JSON values."""
    costs = "missing_bytes disk_bytes free_bytes"
    own = (
        f"identifier form reason sentence product unit_count units_left size_bytes {costs} fits_quota fits_disk folder"
    )
    plans = [
        _values(plan, own)
        | {"version": plan.snapshot.version, "file_count": len(plan.files), "missing_file_count": len(plan.missing)}
        for plan in combined.plans
    ]
    return {"snapshots": plans} | _values(combined, f"unit_counts {costs} obstacle")


def report_json(report: Report) -> dict[str, Any]:
    """Return the outcome of a download as JSON values."""
    done = [
        _values(fetched.plan, "identifier form folder")
        | _values(fetched, "size_bytes fetched_bytes")
        | {
            "version": fetched.plan.snapshot.version,
            "manifest": fetched.plan.manifest.name,
            "file_count": len(fetched.downloads),
            "fetched_file_count": fetched.fetched_count,
            "used_unit_count": fetched.unit_count,
            "replaced_files": [path.name for path in fetched.replaced],
        }
        for fetched in report.done
    ]
    failures = [
        {"identifier": name, "error": type(error).__name__, "message": error.message} for name, error in report.failures
    ]
    return {"snapshots": done, "failures": failures, "not_begun": report.not_begun}


def _values(of: object, names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names.split()}


def _planned(
    client: EnterpriseClient, identifier: str, folder: Path, options: FetchOptions, dataset: Dataset
) -> SnapshotPlan:
    try:
        return client.snapshots.plan(identifier, folder, options, dataset)
    except errors.NotFound as error:
        raise errors.NotFound(
            f"The service has no snapshot {identifier}. No part of this snapshot was fetched. `wme snapshots list "
            "--all` shows all snapshots.",
            status=error.status,
        ) from error
