"""Command line of the benchmarks. Each command imports only its benchmark, so that child processes load no other."""

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

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
_FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Working folder (default: temporary).",
)


@contextmanager
def _working(folder: Path | None = None) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """Yield a temporary folder and a function that displays progress."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=folder) as place, console.status("") as status:
        yield Path(place), status.update


def _numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers, separated by commas.") from None


def _cases(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    from benchmarks.workload import HARDER  # noqa: PLC0415

    names = {"all": tuple(HARDER), "none": ()}.get(text, tuple(text.split(",")))
    if unknown := [name for name in names if name not in HARDER]:
        raise click.BadParameter(f"{', '.join(unknown)}: known are all, none, {', '.join(HARDER)}.")
    return names


@click.group()
def main() -> None:
    """Measure this package and its alternatives in the same session."""


@main.command()
@click.option("--megabytes", default=600.0, show_default=True, help="Size of the NDJSON in the generated archive.")
@click.option("--archive", type=click.Path(path_type=Path, exists=True), help="Convert this archive instead.")
@click.option("--cores", default=len(os.sched_getaffinity(0)), show_default="all", help="Cores of each contender.")
@click.option("--level", default=3, show_default=True, help="zstd level.")
@click.option("--rounds", default=2, show_default=True, help="Number of rounds; the fastest counts.")
@click.option("--only", help="Run only peers whose name contains this text.")
@click.option(
    "--cases",
    callback=_cases,
    default="none",
    show_default=True,
    help="More difficult archives for this package: all, none, or names separated by commas.",
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
    """Convert one tar.gz of NDJSON to Parquet with this package and its peers, using the same columns and codec."""
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
@click.option("--plain/--no-plain", default=True, show_default=True, help="Measure the alternatives too.")
@click.option("--rounds", default=3, show_default=True, help="Number of hours and of publications; the median counts.")
@_FOLDER
@_JSON
def warehouse(
    pages: tuple[int, ...], changes: int, rounds: int, folder: Path | None, *, plain: bool, as_json: bool
) -> None:
    """Load an hour, publish, query and rebuild in warehouses of growing size (20 GB of disk for all sizes)."""
    from benchmarks import warehouse as benchmark  # noqa: PLC0415

    with _working(folder) as (place, say):
        report = benchmark.compare(place, pages, changes, rounds, plain=plain, say=say)
    report.show(as_json=as_json)


@main.command()
@click.option("--events", type=click.IntRange(100), default=100_000, show_default=True, help="Number of events.")
@click.option("--event-bytes", default=20_000, show_default=True, help="Approximate size of an event.")
@click.option(
    "--rate", default=0.0, help="Events per second; at 100, 360,000 events take an hour.  [default: no limit]"
)
@click.option("--throttled", default=20.0, show_default=True, help="Seconds of the lag measurement.")
@_JSON
def stream(events: int, event_bytes: int, rate: float, throttled: float, *, as_json: bool) -> None:
    """Read a stream with this package, which stores all events, and with loops that store nothing or insert rows."""
    from benchmarks import streams as benchmark  # noqa: PLC0415

    with _working() as (folder, say):
        report = benchmark.compare(folder, events, event_bytes, rate, throttled, say)
    report.show(as_json=as_json)


@main.command()
@click.option("--days", callback=_numbers, default="7,30,90", show_default=True, help="Lengths of the history in days.")
@click.option("--projects", default=40, show_default=True, help="Number of projects, each with one file per hour.")
@click.option("--rounds", default=3, show_default=True, help="Number of hours, and runs per query; the median counts.")
@click.option("--before/--no-before", default=True, show_default=True, help="Also query before the compaction.")
@click.option("--limit", default=60.0, show_default=True, help="Seconds after which a query is interrupted.")
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
    """Measure loading, publication, compaction, queries and startup of mirrors of growing age."""
    from benchmarks import growth as benchmark  # noqa: PLC0415
    from resources.datasets import last_complete_hour  # noqa: PLC0415

    needed = benchmark.disk_bytes(days[-1], projects)
    plan = benchmark.Plan(rounds, limit, before)
    last = last_complete_hour(datetime.now(UTC)) + timedelta(hours=1 - rounds)
    with _working(folder) as (place, say):
        free = shutil.disk_usage(place).free
        if needed > free:
            raise click.ClickException(
                f"This takes up to {size_text(needed)} of disk in {place}, which has {size_text(free)} free. Nothing"
                " was measured. Choose another folder (--folder) or fewer --days."
            )
        report = benchmark.compare(place, days, projects, last, plan, say)
    report.show(as_json=as_json)


if __name__ == "__main__":
    main()
