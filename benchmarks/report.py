"""The figures for people: tables that can be pasted with all that is needed to judge them.

Belongs here: titles, columns, captions. Does not belong here: measuring.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.contenders import OURS, PEERS
from benchmarks.streams import THROTTLE
from benchmarks.warehouse import PLAIN_WAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bound import Bound
    from benchmarks.contenders import Job
    from benchmarks.costs import Cost
    from benchmarks.endurance import Endurance
    from benchmarks.engines import Engines
    from benchmarks.growth import Age
    from benchmarks.measure import Figures
    from benchmarks.orchestration import Orchestration
    from benchmarks.streams import Streams
    from benchmarks.warehouse import Size
    from benchmarks.workers import Scaling
    from benchmarks.workload import Workload

#: Numbers from this on are told without decimals.
_WHOLE = 100
_LIBRARIES = ("pyarrow", "isal", "duckdb", "polars", "distributed")
#: The cases in a few words.
WORDS = {
    "clean": "as they are",
    "small": "archives of 2 MB",
    "bad": "1 % bad",
    "drift": "unknown fields",
    "short": "199-byte records",
    "members": "many members",
    "huge": "20 MB lines too",
    "giant": "50 MB lines too",
    "long": "3 GB",
    "structured": "structured contents, 1 GB",
    "entities": "Wikidata, 1 GB",
}


def contenders(job: Job, mine: Figures, found: dict[str, Figures | str], bound: Bound) -> Table:
    """Ours and its peers on one archive."""
    size = f"{job.workload.megabytes:,.0f} MB of NDJSON, {job.workload.line_count:,} records"
    table = Table(title=f"{size}, {job.cores} cores, zstd {job.level}", caption=_bound_words(job.cores, bound, mine))
    table.add_column("contender")
    table.add_column("starts from")
    for name in ("MB/s", "ours is", "CPU s", "peak MiB", "MB out", "rows"):
        table.add_column(name, justify="right")
    starts = {peer.name: peer.starts_from for peer in (OURS, *PEERS)}
    for name, seen in {OURS.name: mine, **found}.items():
        if isinstance(seen, str):
            table.add_row(name, starts[name], "-", "-", "-", "-", "-", seen[:60])
        else:
            table.add_row(name, starts[name], f"{seen.mb_s:,.0f}", f"{mine.mb_s / seen.mb_s:.2f} x", *_common(seen))
    return table


def scaling(found: Sequence[Scaling]) -> Table:
    """Ours by workers and archives at a time."""
    table = Table(
        title="By number of workers, and of archives converted at a time",
        caption=f"on {len(os.sched_getaffinity(0))} cores",
    )
    table.add_column("case")
    for name in ("workers", "at a time", "MB/s", "CPU s", "peak MiB", "of MiB allowed"):
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(
            one.case,
            str(one.workers),
            str(one.at_once),
            f"{one.mb_s:.0f}",
            f"{one.cpu_s:.2f}",
            f"{one.rss_mb:.0f}",
            str(one.allowed_mb),
        )
    return table


def engines(found: Engines) -> Table:
    """Threads and Dask on the same archives."""
    table = Table(
        title=f"{found.archives} archives, {found.megabytes:,.0f} MB of NDJSON",
        caption=f"Dask: {found.workers} worker processes on this machine, {found.connect_s:.2f} s to connect and see that they fit, "
        f"{found.task_ms:.1f} ms for a task by itself.",
    )
    table.add_column("engine")
    for name in ("seconds", "MB/s", "to threads"):
        table.add_column(name, justify="right")
    for name, seconds in (("threads", found.threads_s), ("Dask", found.dask_s)):
        table.add_row(name, f"{seconds:.2f}", f"{found.megabytes / seconds:.0f}", f"{seconds / found.threads_s:.2f}")
    return table


def streams(found: Streams) -> Table:
    """Events a second, and what an event costs."""
    median, slowest = found.lag_ms
    table = Table(
        title=f"Events of {found.event_bytes / 1000:,.1f} kB from a process of its own, each contender in another",
        caption=f"Memory: the most in the second quarter of the events, and in the last. At the service's pace ({THROTTLE} a second) ours took "
        f"{found.throttled_events_s:.1f} a second, {median:.1f} ms after they were sent, the slowest hundredth after {slowest:.1f} ms or more.",
    )
    table.add_column("contender")
    for name in ("events", "events/s", "CPU us/event", "MiB", "MB out"):
        table.add_column(name, justify="right")
    for name, read in found.found.items():
        memory = f"{read.early_mib:,.0f} - {read.late_mib:,.0f}"
        figures = f"{read.events:,}", f"{read.events_s:,.0f}", f"{read.cpu_us:,.0f}"
        table.add_row(name, *figures, memory, f"{read.bytes_out / 1e6:,.1f}")
    return table


def endurance(found: Endurance) -> Table:
    """Memory of a long run, part by part."""
    table = Table(
        title=f"wme stream for {found.minutes:g} minutes: {found.rate:,.0f} events a second of {found.event_bytes / 1000:,.1f} kB",
        caption=f"{found.events:,} events kept, {found.shown:,} shown to analysts; {found.cpu_seconds / found.events * 1e6:,.0f} us of processor time for "
        "each, publications and the source included. Memory is the most in each sixth of the time, in MiB; what it and the process of a publication have of the same file "
        "counts twice.",
    )
    table.add_column("memory")
    for part in range(len(found.resident_mib)):
        table.add_column(f"{part + 1}/{len(found.resident_mib)}", justify="right")
    for name, figures in (
        ("resident, with publications", found.resident_mib),
        ("of it anonymous", found.anonymous_mib),
        ("resident, by itself", found.own_mib),
    ):
        table.add_row(name, *(f"{figure:,.0f}" for figure in figures))
    return table


def orchestration(found: Orchestration) -> list[Table]:
    """What each way costs, and the ratios that are to stay small."""
    costs = Table(
        title=f"Seconds, processor seconds, peak MiB; full hours have {found.megabytes:g} MB",
        caption="Processor seconds are those of the process, without the sandbox's.",
    )
    costs.add_column("what")
    costs.add_column("cost", justify="right")
    for name, cost in found.costs.items():
        costs.add_row(name, _cost_words(cost))
    ratios = Table(title="Ratios of processor seconds")
    ratios.add_column("what")
    ratios.add_column("times", justify="right")
    for name, ratio in found.ratios.items():
        ratios.add_row(name, f"{ratio:.2f}")
    return [costs, ratios]


def cases(workloads: dict[str, Workload], found: dict[str, Figures]) -> Table:
    """Ours on harder archives of the same lines; CPU and MB/s are compared per MB of NDJSON."""
    table = Table(title="Ours on the first 300 MB of those lines, at the most")
    table.add_column("case")
    for name in ("MB", "archives", "MB/s", "to clean", "CPU per MB", "CPU s", "peak MiB", "MB out", "rows", "rejects"):
        table.add_column(name, justify="right")
    for name, seen in found.items():
        ratios = compared(workloads, found, name)
        table.add_row(
            WORDS[name],
            f"{workloads[name].megabytes:,.0f}",
            f"{len(workloads[name].archives):,}",
            f"{seen.mb_s:,.0f}",
            f"{ratios['mb_s']:.2f} x",
            f"{ratios['cpu']:.2f} x",
            *_common(seen),
            f"{seen.rejects:,}",
        )
    return table


def compared(workloads: dict[str, Workload], found: dict[str, Figures], name: str) -> dict[str, float]:
    """A case against the clean one: MB/s, processor time per MB, and peak memory, each as a ratio."""
    seen, clean = found[name], found["clean"]
    per_mb = seen.cpu_s / workloads[name].megabytes
    return {
        "mb_s": round(seen.mb_s / clean.mb_s, 3),
        "cpu": round(per_mb / (clean.cpu_s / workloads["clean"].megabytes), 3),
        "rss": round(seen.rss_mb / clean.rss_mb, 3),
    }


def warehouse(sizes: Sequence[Size]) -> Table:
    """What was done, in seconds by the clock and of processor time, for each number of pages."""
    first, last = sizes[0], sizes[-1]
    growth = last.costs["hour"].seconds / first.costs["hour"].seconds
    live = last.costs["live publication"].cpu_seconds / first.costs["live publication"].cpu_seconds
    table = Table(
        title=f"A warehouse of growing size; hours of {first.changes:,} changes; seconds, processor seconds, peak MiB",
        caption=f"An hour takes {growth:.2f} times as long at {last.pages:,} pages as at {first.pages:,}, a live publication {live:.2f} times the processor time.",
    )
    table.add_column("what")
    for size in sizes:
        table.add_column(f"{size.pages:,} pages", justify="right")
    for title in first.costs:
        found = [size.costs.get(title) for size in sizes]
        table.add_row(title, *("-" if cost is None else _cost_words(cost) for cost in found))
    table.add_row("published, GB", *(f"{size.notes['published_gb']:.2f}" for size in sizes))
    for key, title in (("delta", "publish"), ("whole", "publish, everything copied")):
        table.add_row(f"{title}: locked, s", *(f"{size.notes[f'{key}_locked_seconds']:.2f}" for size in sizes))
        for share, words in (("copied", "copied"), ("written", "written to disk")):
            table.add_row(
                f"{title}: {words}, of the file", *(f"{size.notes[f'{key}_{share}_share']:.1%}" for size in sizes)
            )
    for way in PLAIN_WAYS:
        ratios = [size.ratio(way) for size in sizes]
        if any(ratios):
            table.add_row(f"{way} to ours", *("-" if ratio is None else f"{ratio:.1f} x" for ratio in ratios))
    return table


def growth(ages: Sequence[Age]) -> list[Table]:
    """What was done with each length of history: a table for each number of projects."""
    tables = []
    for projects in dict.fromkeys(age.projects for age in ages):
        some = [age for age in ages if age.projects == projects]
        first, last = some[0], some[-1]
        table = Table(
            title=f"{projects} projects; seconds, processor seconds, peak MiB",
            caption="Ratios are of processor seconds, which other work on the machine changes less.",
        )
        table.add_column("what")
        for age in some:
            table.add_column(f"{age.days} days", justify="right")
        if len(some) > 1:
            table.add_column(f"{last.days} to {first.days}", justify="right")
        for title in first.costs:
            costs = [age.costs[title] for age in some]
            ratio = [f"{costs[-1].cpu_seconds / costs[0].cpu_seconds:.2f} x"] if len(some) > 1 else []
            table.add_row(title, *map(_cost_words, costs), *ratio)
        for title in first.notes:
            notes = [age.notes[title] for age in some]
            ratio = [f"{notes[-1] / notes[0]:.2f} x"] if len(some) > 1 and notes[0] else []
            table.add_row(title, *(f"{note:,.0f}" if note >= _WHOLE else f"{note:.3f}" for note in notes), *ratio)
        tables.append(table)
    return tables


def _cost_words(cost: Cost) -> str:
    peak = "" if cost.peak_mib is None else f"  {cost.peak_mib:,.0f}"
    return f"{cost.seconds:.2f}  {cost.cpu_seconds:.2f}{peak}"


def provenance() -> str:
    """When, on what, with what, and by which command."""
    versions = ", ".join(f"{name} {found}" for name in _LIBRARIES if (found := _version(name)))
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    when = datetime.now(UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC, {machine()}; Python {platform.python_version()}, {versions}; {command}"


def machine() -> str:
    """The processor of this machine, by its model."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _common(seen: Figures) -> tuple[str, str, str, str]:
    return f"{seen.cpu_s:.2f}", f"{seen.rss_mb:,.0f}", f"{seen.bytes_out / 1e6:,.1f}", f"{seen.rows:,}"


def _bound_words(cores: int, bound: Bound, mine: Figures) -> str:
    return (
        f"Bound of gunzip + parse + write on {cores} cores: {bound.bound_mb_s:,.0f} MB/s, of which ours is "
        f"{mine.mb_s / bound.bound_mb_s:.2f} (with pyarrow's parser {bound.bound_pyarrow_mb_s:,.0f}); they are "
        f"{bound.bound_cpu_s:.2f} s of CPU, {bound.bound_cpu_s / mine.cpu_s:.2f} of ours. "
        f"Alone, per core: gunzip {bound.gunzip_mb_s:,.0f}, parse {bound.parse_mb_s:,.0f} "
        f"(pyarrow {bound.parse_pyarrow_mb_s:,.0f}), write {bound.write_mb_s:,.0f}."
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
