"""Command line of the benchmarks."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.bound import bound_mb_s
from benchmarks.contenders import OURS, PEERS, Job
from benchmarks.measure import Figures, best
from benchmarks.workload import Workload, build, unpack
from resources.lake.files import COMPRESSION_LEVEL


@click.group()
def main() -> None:
    """Measured work with its peers beside it."""


@main.command()
@click.option("--megabytes", default=200.0, show_default=True, help="NDJSON in the archive that is built.")
@click.option("--archive", type=click.Path(path_type=Path, exists=True), help="Convert this archive instead.")
@click.option("--cores", default=len(os.sched_getaffinity(0)), show_default="all", help="Cores each contender gets.")
@click.option("--level", default=COMPRESSION_LEVEL, show_default=True, help="zstd level.")
@click.option("--rounds", default=2, show_default=True, help="Runs of each contender; the fastest counts.")
@click.option("--only", help="Only contenders whose name holds this text (ours always runs).")
@click.option("--out", type=click.Path(path_type=Path), help="Keep our Parquet files in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def convert(
    megabytes: float,
    archive: Path | None,
    cores: int,
    level: int,
    rounds: int,
    only: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Convert one tar.gz of NDJSON to Parquet: ours and its peers, same columns and codec, one process each."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as text:
        folder = Path(text)
        with console.status("Building the archive"):
            workload = unpack(archive or build(folder, megabytes), folder)
        job = Job(workload, folder, cores, level)
        with console.status("Measuring the bound"):
            bound = bound_mb_s(workload, folder, cores, level)
        names = [OURS.name, *(peer.name for peer in PEERS if not only or only in peer.name)]
        with console.status("Measuring") as status:
            found = best(names, job, rounds, status.update)
        mine = found.pop(OURS.name)
        if isinstance(mine, str):
            raise click.ClickException(f"Our own conversion failed: {mine}")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            OURS.run(Job(workload, out, cores, level))
    if as_json:
        sys.stdout.write(json.dumps(_facts(workload, mine, found, bound)) + "\n")
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(_table(workload, mine, found, bound, cores, level))


def _facts(workload: Workload, mine: Figures, found: dict[str, Figures | str], bound: float) -> dict[str, object]:
    starts = {peer.name: peer.starts_from for peer in PEERS}
    return {
        "megabytes": round(workload.megabytes, 3),
        "rows": workload.line_count,
        "ours": asdict(mine),
        "peers": {
            name: {"starts_from": starts[name]} | ({"error": seen} if isinstance(seen, str) else asdict(seen))
            for name, seen in found.items()
        },
        "bound_mb_s": round(bound, 1),
    }


def _table(
    workload: Workload, mine: Figures, found: dict[str, Figures | str], bound: float, cores: int, level: int
) -> Table:
    title = f"{workload.megabytes:,.0f} MB of NDJSON, {workload.line_count:,} records, {cores} cores, zstd {level}"
    table = Table(title=title, caption=f"Bound of gunzip + parse + write on these cores: {bound:,.0f} MB/s")
    table.add_column("contender")
    table.add_column("starts from")
    for name in ("MB/s", "ours is", "CPU s", "peak MiB", "MB out", "rows"):
        table.add_column(name, justify="right")
    starts = {peer.name: peer.starts_from for peer in (OURS, *PEERS)}
    for name, seen in {OURS.name: mine, **found}.items():
        if isinstance(seen, str):
            table.add_row(name, starts[name], "-", "-", "-", "-", "-", seen[:60])
            continue
        table.add_row(
            name,
            starts[name],
            f"{seen.mb_s:,.0f}",
            f"{mine.mb_s / seen.mb_s:.2f} x",
            f"{seen.cpu_s:.2f}",
            f"{seen.rss_mb:,.0f}",
            f"{seen.bytes_out / 1e6:,.1f}",
            f"{seen.rows:,}",
        )
    return table


if __name__ == "__main__":
    main()
