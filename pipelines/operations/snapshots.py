"""Combined plans for several snapshots, and sequential downloads."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def check(plans: Sequence[SnapshotPlan]) -> None:
    """Check that each plan, and all plans together, can finish. Raises the same errors as `check_together`."""
    for some in (*((plan,) for plan in plans), plans):
        check_together(some)


def plan(
    client: EnterpriseClient, settings: Settings, identifiers: Iterable[str], options: FetchOptions, dataset: Dataset
) -> list[SnapshotPlan]:
    """Plan the download of snapshots (for example enwiki_namespace_0), without using quota or changing anything.

    Raises NotFound or UnknownNameError if a snapshot does not exist, and InvalidRequest if it has no requested chunks.
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
    return plans


@dataclass(frozen=True)
class Report:
    """Outcome of a download: complete snapshots with their files, failures, and snapshots that were not started."""

    done: tuple[tuple[SnapshotPlan, tuple[Download, ...]], ...]
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


def download(
    client: EnterpriseClient, plans: Sequence[SnapshotPlan], *, workers: int = 4, reporter: Reporter
) -> Report:
    """Download planned snapshots into the archive, one after another, each with its files in parallel.

    No download starts unless all downloads can finish (see `check`). Archived files are not fetched again, and
    unfinished downloads are resumed. If the download is interrupted, the data that was already fetched is kept.
    """
    check(plans)
    done: list[tuple[SnapshotPlan, tuple[Download, ...]]] = []
    failures: list[tuple[str, errors.EnterpriseError]] = []
    rest, engine = list(plans), Engine(workers, reporter)
    while rest:
        plan = rest.pop(0)
        try:
            if done or failures:  # plan this snapshot again, because earlier downloads might have taken hours
                plan = _planned(client, plan.identifier, plan.folder, plan.options, plan.dataset)
            with engine.task(f"download {plan.identifier}", plan.missing_bytes, "B") as advance:
                done.append((plan, client.snapshots.download(plan, workers=workers, progress=advance)))
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


def plan_json(plans: Sequence[SnapshotPlan]) -> dict[str, Any]:
    """Return plans and their combined cost as JSON values.

    `unit_counts` contains the quota units by counter (`snapshot`, `chunk`). `obstacle` is the message that explains why
    the download would be refused, or None if it would start.
    """
    own = (
        "identifier form reason sentence product unit_count units_left size_bytes missing_bytes disk_bytes free_bytes "
        "fits_quota fits_disk folder"
    )
    each = [
        _values(plan, own)
        | {"version": plan.snapshot.version, "file_count": len(plan.files), "missing_file_count": len(plan.missing)}
        for plan in plans
    ]
    units: Counter[str] = Counter()
    for plan in plans:
        if plan.product is not None and plan.unit_count:
            units[plan.product] += plan.unit_count
    obstacle = None
    try:
        check(plans)
    except (errors.QuotaExceeded, errors.BudgetExceeded, errors.DiskFull) as error:
        obstacle = error.message
    return {
        "snapshots": each,
        "unit_counts": dict(units),
        "missing_bytes": sum(plan.missing_bytes for plan in plans),
        "disk_bytes": sum(plan.disk_bytes for plan in plans),
        "free_bytes": min(plan.free_bytes for plan in plans),
        "obstacle": obstacle,
    }


def fetched_json(plan: SnapshotPlan, downloads: Sequence[Download]) -> dict[str, Any]:
    """Return a complete snapshot as JSON values. Figures whose names contain `fetched` or `used` count only new files.

    `replaced_files` contains files in the same folder that belong to other versions or have the other form.
    """
    new = [one for one in downloads if one.fetched]
    return _values(plan, "identifier form folder") | {
        "size_bytes": sum(one.size_bytes for one in downloads),
        "fetched_bytes": sum(one.size_bytes - one.resumed_bytes for one in new),
        "version": plan.snapshot.version,
        "manifest": plan.manifest.name,
        "file_count": len(downloads),
        "fetched_file_count": len(new),
        "used_unit_count": sum(one.unit_count for one in downloads),
        "replaced_files": [path.name for path in superseded(plan)],
    }


def report_json(report: Report) -> dict[str, Any]:
    """Return the outcome of a download as JSON values."""
    failures = [
        {"identifier": name, "error": type(error).__name__, "message": error.message} for name, error in report.failures
    ]
    done = [fetched_json(*one) for one in report.done]
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
