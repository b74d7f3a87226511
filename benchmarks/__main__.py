"""Command line of the benchmarks."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from rich.console import Console

from benchmarks import endurance, growth, lakes, report, streams
from benchmarks.contenders import OURS, PEERS, Job
from benchmarks.measure import Figures, best, measure, measured_bound
from benchmarks.ours import COMPRESSION_LEVEL
from benchmarks.warehouse import measure as measure_warehouse
from benchmarks.workers import scaling
from benchmarks.workload import CASES, Workload, build, unpack, variants
from resources.datasets import last_complete_hour
from resources.formatting import size_text

_HARDER = tuple(name for name in CASES if name != "clean")


def _named(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = {"all": _HARDER, "none": ()}.get(text, tuple(text.split(",")))
    if unknown := [name for name in names if name not in _HARDER]:
        raise click.BadParameter(f"{', '.join(unknown)}: known are all, none, {', '.join(_HARDER)}.")
    return names


def _worker_counts(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"([1-9]\d?(,[1-9]\d?)*)?", text):
        raise click.BadParameter("numbers from 1 to 99, with commas.")
    return tuple(map(int, text.split(","))) if text else ()


@click.group()
def main() -> None:
    """Measured work with its peers beside it."""


@main.command()
@click.option("--megabytes", default=600.0, show_default=True, help="NDJSON in the archive that is built.")
@click.option("--archive", type=click.Path(path_type=Path, exists=True), help="Convert this archive instead.")
@click.option("--cores", default=len(os.sched_getaffinity(0)), show_default="all", help="Cores each contender gets.")
@click.option("--level", default=COMPRESSION_LEVEL, show_default=True, help="zstd level.")
@click.option("--rounds", default=2, show_default=True, help="Runs of each contender; the fastest counts.")
@click.option("--only", help="Only contenders whose name holds this text (ours always runs).")
@click.option(
    "--cases",
    callback=_named,
    default="none",
    show_default=True,
    help="Ours on harder archives too: all, none, or some with commas: "
    + "; ".join(f"{name} ({report.WORDS[name]})" for name in _HARDER),
)
@click.option(
    "--workers",
    callback=_worker_counts,
    default="",
    help="Ours alone, with so many workers (with commas), on one archive and on many small ones: MB/s by workers and archives at a time.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Keep our Parquet files in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def convert(
    megabytes: float,
    archive: Path | None,
    cores: int,
    level: int,
    rounds: int,
    only: str | None,
    cases: tuple[str, ...],
    workers: tuple[int, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Convert one tar.gz of NDJSON to Parquet: ours and its peers, same columns and codec, one process each."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as text:
        folder = Path(text)
        with console.status("Building the archive"):
            workload = unpack(archive or build(folder, megabytes), folder)
        if workers:
            _scaling(workload, workers, rounds, console, as_json=as_json)
            return
        job = Job(workload, folder, cores, level)
        names = [OURS.name, *(peer.name for peer in PEERS if not only or only in peer.name)]
        with console.status("Measuring") as status:
            found = best({name: (name, job) for name in names}, rounds, status.update)
            status.update("Measuring the bound")
            bound = measured_bound(job)
        mine = _sound(OURS.name, found.pop(OURS.name), workload)
        if isinstance(bound, str):
            raise click.ClickException(f"The bound could not be measured: {bound}")
        workloads, harder = _harder(job, cases, rounds, console) if cases else ({}, {})
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            measure(OURS.name, Job(workload, out.resolve(), cores, level))
    if not as_json:
        printer = Console(width=None if sys.stdout.isatty() else 120)
        printer.print(report.contenders(job, mine, found, bound))
        if harder:
            printer.print(report.cases(workloads, harder))
        printer.print(report.provenance(), soft_wrap=True, highlight=False)
        return
    starts = {peer.name: peer.starts_from for peer in PEERS}
    facts = {
        "megabytes": round(workload.megabytes, 3),
        "rows": workload.line_count,
        "ours": asdict(mine),
        "peers": {
            name: {"starts_from": starts[name]} | ({"error": seen} if isinstance(seen, str) else asdict(seen))
            for name, seen in found.items()
        },
        **asdict(bound),
        "cases": {
            name: {
                "megabytes": round(workloads[name].megabytes, 3),
                "archives": len(workloads[name].archives),
                "to_clean": report.compared(workloads, harder, name),
                **asdict(seen),
            }
            for name, seen in harder.items()
        },
        "provenance": report.provenance(),
    }
    sys.stdout.write(json.dumps(facts) + "\n")


def _scaling(workload: Workload, counts: tuple[int, ...], rounds: int, console: Console, *, as_json: bool) -> None:
    """Ours with so many workers each, on the archive itself and on its lines in small ones."""
    with console.status("Making small archives") as status:
        made = variants(workload, ("small",), len(os.sched_getaffinity(0)))
        found = scaling(
            {"one archive": made["clean"], "archives of 2 MB": made["small"]},
            counts,
            workload.folder,
            rounds,
            status.update,
        )
    if as_json:
        facts = {"scaling": [asdict(one) for one in found], "provenance": report.provenance()}
        sys.stdout.write(json.dumps(facts) + "\n")
        return
    printer = Console(width=None if sys.stdout.isatty() else 120)
    printer.print(report.scaling(found))
    printer.print(report.provenance(), soft_wrap=True, highlight=False)


@main.command()
@click.option("--archives", "count", default=24, show_default=True, help="Archives, of the same lines.")
@click.option("--megabytes", default=25.0, show_default=True, help="NDJSON in each.")
@click.option("--workers", default=2, show_default=True, help="Worker processes of the Dask cluster.")
@click.option("--rounds", default=2, show_default=True, help="Runs of each; the fastest counts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def engine(count: int, megabytes: float, workers: int, rounds: int, *, as_json: bool) -> None:
    """Convert the same archives on threads, and by worker processes of a Dask cluster on this machine."""
    from benchmarks.engines import measure as measure_engines  # noqa: PLC0415  Dask is an extra

    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as text, console.status("Building the archives") as status:
        folder = Path(text)
        one = unpack(build(folder, megabytes), folder)
        workload = replace(
            one, archives=one.archives * count, ndjson_bytes=one.ndjson_bytes * count, line_count=one.line_count * count
        )
        found = measure_engines(workload, folder, workers, rounds, status.update)
    if as_json:
        sys.stdout.write(json.dumps(asdict(found) | {"ratio": found.ratio, "provenance": report.provenance()}) + "\n")
        return
    printer = Console(width=None if sys.stdout.isatty() else 120)
    printer.print(report.engines(found))
    printer.print(report.provenance(), soft_wrap=True, highlight=False)


def _harder(
    job: Job, names: tuple[str, ...], rounds: int, console: Console
) -> tuple[dict[str, Workload], dict[str, Figures]]:
    """The cases, and our figures of each; the clean one first, which the others are compared with."""
    with console.status("Making the harder archives"):
        workloads = variants(job.workload, names, job.cores)
    runs = {name: (OURS.name, Job(work, job.folder, job.cores, job.level)) for name, work in workloads.items()}
    with console.status("Measuring the cases") as status:
        found = best(runs, rounds, status.update)
    return workloads, {name: _sound(name, seen, workloads[name]) for name, seen in found.items()}


def _sound(name: str, seen: Figures | str, workload: Workload) -> Figures:
    """Our figures, if they are of the whole work: nothing lost, nothing refused that was good."""
    if isinstance(seen, str):
        raise click.ClickException(f"Our own conversion failed ({name}): {seen}")
    if (seen.rows, seen.rejects) != (workload.line_count - workload.bad_count, workload.bad_count):
        raise click.ClickException(
            f"Our own conversion ({name}) gave {seen.rows:,} rows and {seen.rejects:,} rejects of "
            f"{workload.line_count:,} lines, {workload.bad_count:,} of them bad."
        )
    return seen


@main.command()
@click.option("--pages", default="500000,2000000,10000000", show_default=True, help="Numbers of pages, with commas.")
@click.option("--changes", default=20_000, show_default=True, help="Changes of an hour.")
@click.option("--plain/--no-plain", default=True, show_default=True, help="Measure the plain ways too.")
@click.option("--days/--no-days", default=True, show_default=True, help="Measure 24 hours in one run and in 24 runs.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where to work; 20 GB for all sizes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def warehouse(pages: str, changes: int, folder: Path | None, *, plain: bool, days: bool, as_json: bool) -> None:
    """An hour, a rebuild, a publication and first questions in a warehouse of growing size."""
    console = Console(stderr=as_json)
    with tempfile.TemporaryDirectory(dir=folder) as place, console.status("") as status:
        counts = [int(count) for count in pages.split(",")]
        sizes = measure_warehouse(Path(place), counts, changes, plain=plain, days=days, say=status.update)
    if as_json:
        facts = {"sizes": [size.facts() for size in sizes], "provenance": report.provenance()}
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        console.print(report.warehouse(sizes))
        console.print(report.provenance())


def _numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers with commas.") from None


@main.command(name="growth")
@click.option(
    "--days", callback=_numbers, default="7,30,90", show_default=True, help="Lengths of history in days, with commas."
)
@click.option("--projects", default=40, show_default=True, help="Projects, each with a file an hour.")
@click.option("--year", is_flag=True, help="Measure 365 days of 10 projects too.")
@click.option("--rounds", default=3, show_default=True, help="Hours, and askings of each question; the median counts.")
@click.option("--loaded/--no-loaded", default=True, show_default=True, help="Ask questions before the compaction too.")
@click.option("--limit", default=60.0, show_default=True, help="Seconds after which a question is interrupted.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where to work.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def grow(
    days: tuple[int, ...],
    projects: int,
    rounds: int,
    limit: float,
    folder: Path | None,
    *,
    year: bool,
    loaded: bool,
    as_json: bool,
) -> None:
    """What analysts and hours wait for in mirrors of a week, a month and a year: questions for bodies, an hour, a publication, the status."""
    console = Console(stderr=as_json)
    plan = growth.Plan(rounds, limit, loaded)
    histories = [(days, projects), *([((365,), 10)] if year else [])]
    needed = max(growth.disk_bytes(24 * lengths[-1] * count) for lengths, count in histories)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        free = shutil.disk_usage(place).free
        said = f"This takes up to {size_text(needed)} of disk in {place}, which has {size_text(free)} free"
        if needed > free:
            raise click.ClickException(
                f"{said}. Nothing was measured. Name another folder (--folder), or fewer --days."
            )
        console.print(f"{said}; all of it is removed afterwards.")
        ages = []
        with console.status("") as status:
            for number, (lengths, count) in enumerate(histories):
                work = Path(place) / f"{number}"
                last = last_complete_hour(datetime.now(UTC)) + timedelta(hours=1)
                hours = 24 * lengths[-1] + rounds
                stock = lakes.Stock.make(work / "stock", lakes.projects(count), last, hours, status.update)
                ages += [growth.measure(work, stock, length, plan, status.update) for length in lengths]
                shutil.rmtree(work)
    if as_json:
        sys.stdout.write(json.dumps({"ages": [age.facts() for age in ages], "provenance": report.provenance()}) + "\n")
        return
    for table in report.growth(ages):
        console.print(table)
    console.print(report.provenance())


@main.command()
@click.option("--events", type=click.IntRange(100), default=100_000, show_default=True, help="Events that are read.")
@click.option("--event-bytes", default=20_000, show_default=True, help="Bytes of an event, about.")
@click.option("--throttled", default=20.0, show_default=True, help="Seconds of a stream at the service's pace.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Instead, let wme stream run for so long, and sample its memory.",
)
@click.option("--rate", default=100.0, show_default=True, help="Events a second, with --minutes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def stream(
    events: int, event_bytes: int, throttled: float, minutes: float | None, rate: float, *, as_json: bool
) -> None:
    """Read a stream: ours, which keeps every event in Parquet, beside plain loops that store nothing, and row by row in DuckDB."""
    console = Console(stderr=True)
    found: streams.Streams | endurance.Endurance
    with tempfile.TemporaryDirectory(prefix="benchmark-") as text, console.status("") as status:
        if minutes is None:
            found = streams.measure(Path(text), events, event_bytes, throttled, status.update)
            table = report.streams(found)
        else:
            found = endurance.measure(Path(text), minutes, rate, event_bytes, status.update)
            table = report.endurance(found)
    if as_json:
        sys.stdout.write(json.dumps(found.facts() | {"provenance": report.provenance()}) + "\n")
        return
    printer = Console(width=None if sys.stdout.isatty() else 120)
    printer.print(table)
    printer.print(report.provenance(), soft_wrap=True, highlight=False)


@main.command("orchestration")
@click.option("--hours", type=click.IntRange(2, 40), default=24, show_default=True, help="Hours that are brought in.")
@click.option(
    "--megabytes", default=50.0, show_default=True, help="NDJSON (MB) of each hour that is not empty; 0: none."
)
@click.option("--rounds", default=3, show_default=True, help="Rounds, of which the median counts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def orchestrate(hours: int, megabytes: float, rounds: int, *, as_json: bool) -> None:
    """Hours under Dagster beside the same functions in a loop, and what a run, a step and the start of each command cost."""
    # it imports Dagster, which takes longer than everything that the others need
    from benchmarks import orchestration  # noqa: PLC0415

    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as text, console.status("") as status:
        found = orchestration.measure(Path(text), hours, megabytes, rounds, status.update)
    if as_json:
        sys.stdout.write(json.dumps(found.facts() | {"provenance": report.provenance()}) + "\n")
        return
    printer = Console(width=None if sys.stdout.isatty() else 120)
    for table in report.orchestration(found):
        printer.print(table)
    printer.print(report.provenance(), soft_wrap=True, highlight=False)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--days", default=7, show_default=True, help="Days of history, up to the last full hour.")
@click.option("--projects", default=40, show_default=True, help="Projects, each with a file an hour.")
def lake(folder: Path, days: int, projects: int) -> None:
    """Make a data folder with a history, as the pipeline would have made it in that time, for measurements of your own.

    FOLDER must not be there; it takes 65 kB for each file, and 24 files for a project's day.
    """
    console = Console(stderr=True)
    if folder.exists():
        raise click.ClickException(f"{folder} is there already. Nothing was changed; name a folder that is not.")
    last = last_complete_hour(datetime.now(UTC)) + timedelta(hours=1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # beside the folder, because files are handed over as hard links
    with tempfile.TemporaryDirectory(dir=folder.parent) as place, console.status("") as status:
        chosen = lakes.projects(projects)
        stock = lakes.Stock.make(Path(place), chosen, last, 24 * days, status.update)
        stock.mirror(folder, last, 24 * days, status.update)
    console.print(
        f"{folder}: {24 * days * projects:,} lake files. WME_PROJECTS={','.join(p.project_id for p in chosen)}"
    )


if __name__ == "__main__":
    main()
