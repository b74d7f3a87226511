"""Command line for the benchmarks. Each command imports only one benchmark, so child processes load nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from resources.formatting import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of a table.")
_FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Working folder (default: a temporary folder).",
)


@contextmanager
def _working(folder: Path | None = None) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """Yield a temporary working folder and a function that displays progress."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=folder) as place, console.status("") as status:
        yield Path(place), status.update


def _numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a comma-separated list of numbers.") from None


def _cases(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    from benchmarks.workload import HARDER  # noqa: PLC0415

    names = {"all": tuple(HARDER), "none": ()}.get(text, tuple(text.split(",")))
    if unknown := [name for name in names if name not in HARDER]:
        raise click.BadParameter(f"{', '.join(unknown)} is not a case; use all, none or some of {', '.join(HARDER)}.")
    return names


@click.group()
def main() -> None:
    """Measure this package and its alternatives in the same session."""


@main.command()
@click.option("--megabytes", default=600.0, show_default=True, help="NDJSON size of the generated archive in MB.")
@click.option("--archive", type=click.Path(path_type=Path, exists=True), help="Convert this existing archive.")
@click.option("--cores", default=len(os.sched_getaffinity(0)), show_default="all", help="Cores for each contender.")
@click.option("--level", default=3, show_default=True, help="zstd level.")
@click.option("--rounds", default=2, show_default=True, help="Number of rounds. The fastest round is reported.")
@click.option("--only", help="Run only peers whose name contains this string.")
@click.option(
    "--cases",
    callback=_cases,
    default="none",
    show_default=True,
    help="Difficult archives to convert with this package: all, none or comma-separated names.",
)
@_JSON
def convert(
    megabytes: float,
    archive: Path | None,
    cores: int,
    level: int,
    rounds: int,
    only: str | None,
    cases: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Convert an NDJSON tar.gz to Parquet with this package and its peers, using the same columns and codec."""
    from benchmarks import convert as benchmark  # noqa: PLC0415
    from benchmarks.contenders import Job  # noqa: PLC0415
    from benchmarks.workload import build, unpack  # noqa: PLC0415

    with _working() as (folder, say):
        say("Building the archive")
        job = Job(unpack(archive or build(folder, megabytes), folder), folder, cores, level)
        report = benchmark.compare(job, only, rounds, say)
        if cases:
            benchmark.add_cases(report, job, cases, rounds, say)
    report.show(as_json=as_json)


@main.command()
@click.option("--pages", callback=_numbers, default="500000,2000000,10000000", show_default=True, help="Sizes.")
@click.option("--changes", default=20_000, show_default=True, help="Changes per hour.")
@click.option("--plain/--no-plain", default=True, show_default=True, help="Also measure the alternatives.")
@click.option("--rounds", default=3, show_default=True, help="Hours and publications to measure. Reports the median.")
@_FOLDER
@_JSON
def warehouse(
    pages: tuple[int, ...], changes: int, rounds: int, folder: Path | None, *, plain: bool, as_json: bool
) -> None:
    """Load an hour, publish, query and rebuild in warehouses of several sizes. This benchmark needs 20 GB of disk."""
    from benchmarks import warehouse as benchmark  # noqa: PLC0415

    with _working(folder) as (place, say):
        report = benchmark.compare(place, pages, changes, rounds, plain=plain, say=say)
    report.show(as_json=as_json)


@main.command()
@click.option("--events", type=click.IntRange(100), default=100_000, show_default=True, help="Number of events.")
@click.option("--event-bytes", default=20_000, show_default=True, help="Approximate size of an event in bytes.")
@click.option(
    "--rate", default=0.0, help="Events per second. At 100, 360,000 events take an hour.  [default: no limit]"
)
@click.option("--throttled", default=20.0, show_default=True, help="Duration of the lag measurement in seconds.")
@_JSON
def stream(events: int, event_bytes: int, rate: float, throttled: float, *, as_json: bool) -> None:
    """Read a stream with this package, which stores all events, and with simple loops for comparison."""
    from benchmarks import streams as benchmark  # noqa: PLC0415

    with _working() as (folder, say):
        report = benchmark.compare(folder, events, event_bytes, rate, throttled, say)
    report.show(as_json=as_json)


@main.command()
@click.option("--days", callback=_numbers, default="7,30,90", show_default=True, help="History lengths in days.")
@click.option("--projects", default=40, show_default=True, help="Number of projects, each with a file per hour.")
@click.option("--rounds", default=3, show_default=True, help="Hours and runs per query. Reports the median.")
@click.option("--before/--no-before", default=True, show_default=True, help="Also run queries before the compaction.")
@click.option("--limit", default=60.0, show_default=True, help="Time limit for a query in seconds.")
@_FOLDER
@_JSON
def growth(
    days: tuple[int, ...],
    projects: int,
    rounds: int,
    limit: float,
    folder: Path | None,
    *,
    before: bool,
    as_json: bool,
) -> None:
    """Measure how loading, publication, compaction, queries and startup depend on a mirror's age."""
    from benchmarks import growth as benchmark  # noqa: PLC0415
    from resources.datasets import last_complete_hour  # noqa: PLC0415

    needed = benchmark.disk_bytes(days[-1], projects)
    plan = benchmark.Plan(rounds, limit, before)
    last = last_complete_hour(datetime.now(UTC)) + timedelta(hours=1 - rounds)
    with _working(folder) as (place, say):
        free = shutil.disk_usage(place).free
        if needed > free:
            raise click.ClickException(
                f"This benchmark needs up to {size_text(needed)} in {place}, which has {size_text(free)} free. Nothing"
                " was measured. Choose another folder (--folder) or fewer --days."
            )
        report = benchmark.compare(place, days, projects, last, plan, say)
    report.show(as_json=as_json)


if __name__ == "__main__":
    main()
