"""Conversion benchmark for this package and its peers, and for this package with difficult archives."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import OURS, PEERS, Contender, Job, count
from benchmarks.harness import MeasurementError, Work, in_turn, least, measure
from benchmarks.report import Report
from benchmarks.workload import variants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.harness import Cost
    from benchmarks.workload import Workload

ARCHIVE, CLEAN = OURS.starts_from, "clean"


def compare(job: Job, only: str | None, rounds: int, say: Callable[[str], None]) -> Report:
    """Convert the job's archive with this package and its peers (filtered by `only`). Report the fastest rounds."""
    workload = job.workload
    title = (
        f"{workload.megabytes:,.0f} MB of NDJSON, {workload.line_count:,} records, {job.cores} cores, zstd {job.level}"
    )
    chosen = [OURS, *(peer for peer in PEERS if not only or only in peer.name)]
    found = in_turn({one.name: _measured(one, job) for one in chosen}, rounds, say)
    report = Report(title, "MB")
    for one in chosen:
        costs = found[one.name]
        cost = costs if isinstance(costs, str) else least(costs)
        report.add(one.starts_from, one.name, cost, workload.megabytes, (ARCHIVE, OURS.name))
    _require_complete(report.rows[0].cost or report.rows[0].error, workload)
    return report


def add_cases(report: Report, job: Job, names: Iterable[str], rounds: int, say: Callable[[str], None]) -> None:
    """Measure difficult archives of the same lines, and compare them with an archive of the unmodified lines."""
    say("Building the difficult archives")
    workloads = variants(job.workload, names, job.cores)
    works = {name: _measured(OURS, replace(job, workload=workload)) for name, workload in workloads.items()}
    for name, costs in in_turn(works, rounds, say).items():
        cost = _require_complete(costs if isinstance(costs, str) else least(costs), workloads[name])
        cost.facts["archives"] = len(workloads[name].archives)
        report.add(name, OURS.name, cost, workloads[name].megabytes, (CLEAN, OURS.name))


def _measured(contender: Contender, job: Job) -> Callable[[int], Cost]:
    def measured(_round: int) -> Cost:
        with tempfile.TemporaryDirectory(dir=job.folder) as folder:
            own = replace(job, folder=Path(folder))
            return measure(Work(contender.run, (own,), count, job.cores, (contender.library,)))

    return measured


def _require_complete(cost: Cost | str, workload: Workload) -> Cost:
    """Raise MeasurementError if this package lost a row or rejected a valid record."""
    if isinstance(cost, str):
        raise MeasurementError(f"This package's conversion failed: {cost}")
    found, expected = (cost.facts["rows"], cost.facts["rejects"]), workload.line_count - workload.bad_count
    if found != (expected, workload.bad_count):
        raise MeasurementError(
            f"This package wrote {found[0]:,.0f} rows and {found[1]:,.0f} rejects instead of {expected:,} "
            f"rows and {workload.bad_count:,} rejects."
        )
    return cost
