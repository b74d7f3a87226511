"""`wme worker`: a process that converts archives and compacts lake files for runs elsewhere.

The work is in `resources/engine/dask` and `resources/remote.py`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import click

from pipelines.cli import terminal
from pipelines.process import interrupts
from pipelines.settings import read as read_settings


@click.command()
@click.argument("address", required=False)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The data folder of the runs, as it is mounted here.  [default: WME_DATA]",
)
@click.option("--name", help="Name in messages of runs.  [default: host and process]")
def worker(*, address: str | None, data: Path | None, name: str | None) -> None:
    """Convert archives and compact lake files for the runs of other machines, as a worker of the Dask scheduler at ADDRESS.

    ADDRESS is dask://host:port, by default that of WME_ENGINE. All cores and WME_MEMORY_MB are used; one worker on each machine is
    enough. It ends when the scheduler ends, and within seconds on Ctrl-C or SIGTERM; runs then give its work to others.
    """
    settings = read_settings(scoped=False)
    address = address or settings.engine
    from resources import remote

    if not address.startswith(remote.SCHEME):
        raise click.UsageError(
            "No scheduler is named. Write its address, for example `wme worker dask://127.0.0.1:8786`, or set WME_ENGINE."
        )
    folder = (data or settings.data).resolve()
    if not folder.is_dir():
        raise click.ClickException(
            f"The data folder {folder} is not there. Nothing was started. Mount the folder of the runs, and name it with --data or WME_DATA."
        )
    from resources.engine import dask

    name = name or f"{socket.gethostname()}-{os.getpid()}"
    record_bytes_max = settings.max_record_mb << 20
    memory_bytes = None if settings.memory_mb is None else settings.memory_mb << 20
    with remote.seated(folder, memory_bytes=memory_bytes, record_bytes_max=record_bytes_max) as converter:
        at_work: list[dask.Worker] = []

        def leave() -> None:
            for one in at_work:
                one.leave()

        def started(one: dask.Worker) -> None:
            at_work.append(one)
            terminal.warn(
                f"Worker {name} at {one.address}, for {address}: {converter.workers} threads, {converter.memory_bytes >> 20} MiB, data folder "
                f"{folder}. Ctrl-C ends it."
            )

        with interrupts.tidied(leave):
            versions = remote.versions(record_bytes_max)
            asyncio.run(
                dask.serve(address, versions, folder / "lake", threads=converter.readers, name=name, started=started)
            )
    raise click.ClickException(
        f"The scheduler at {address} is gone. What was converted is kept. Start the worker again when the scheduler runs."
    )
