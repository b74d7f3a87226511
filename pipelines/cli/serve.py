"""The `sandbox`, `ui`, `worker` and `stream` commands, which run in the foreground until they receive Ctrl-C."""

import _thread
import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import click

from pipelines.cli import terminal
from pipelines.process import interrupts
from resources.data_folder import ui_lock
from resources.datasets.live import LIVE_CHANGES, Step
from resources.enterprise import StreamOptions
from resources.formatting import counted
from resources.settings import read as read_settings
from resources.settings import read_data
from resources.tables import ARTICLE_CHANGES


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def sandbox(*, arguments: tuple[str, ...]) -> None:
    """Run the built-in local content service in the foreground. `wme sandbox --help` lists its options."""
    from resources.sandbox.__main__ import main as serve

    def end() -> None:
        _thread.interrupt_main()  # the sandbox handles signals itself and ends gracefully
        threading.main_thread().join()

    with interrupts.tidied(end):
        sys.exit(serve(arguments, called="wme sandbox", state=read_data() / "sandbox"))


@click.command(cls=terminal.Writing)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the Dagster UI.")
@click.option(
    "--prepare",
    is_flag=True,
    help="Only create <WME_DATA>/dagster, with settings (if absent) and pools, for services that start Dagster "
    "themselves.",
)
def ui(*, port: int, prepare: bool) -> None:
    """Start the Dagster UI and daemon for this data folder."""
    from pipelines.process import processes, supervisor

    settings = read_settings()
    if prepare:
        with processes.opened(settings.dagster_home) as opened:
            terminal.say(f"Dagster's instance: {opened.root_directory}")
        return
    if (lock := ui_lock(settings.data)).exists():
        supervisor.hold(lock).release()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            # Dagster would report the busy port while starting, and continue
            raise click.ClickException(
                f"Port {port} is not available ({error.strerror}). A `wme ui` for another data folder might be using "
                "the port. Nothing was started. Choose another port with --port."
            ) from None
    terminal.warn(f"The Dagster UI will be at http://127.0.0.1:{port} in a few seconds. Ctrl-C stops it.")
    processes.serve(settings.data, port)


@click.command()
@click.argument("address", required=False)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Path on this machine to the data folder that the runs use.  [default: WME_DATA]",
)
@click.option("--name", help="Worker name to show in run messages.  [default: host and process]")
def worker(*, address: str | None, data: Path | None, name: str | None) -> None:
    """Convert archives and compact lake files as a worker of the Dask scheduler at ADDRESS.

    ADDRESS has the form dask://host:port. The default is WME_ENGINE. Each worker uses all cores and WME_MEMORY_MB, so
    one worker per machine is enough. A worker ends when the scheduler ends, or within seconds on Ctrl-C or SIGTERM.
    Other workers then take over the tasks.
    """
    settings = read_settings(scoped=False)
    address = address or settings.engine
    from resources import remote

    if not address.startswith(remote.SCHEME):
        raise click.UsageError(
            "No scheduler was specified. Specify an address, for example `wme worker dask://127.0.0.1:8786`, or set "
            "WME_ENGINE."
        )
    folder = (data or settings.data).resolve()
    if not folder.is_dir():
        raise click.ClickException(
            f"The data folder {folder} does not exist. Nothing was started. Mount the runs' data folder, and specify "
            "its path with --data or WME_DATA."
        )
    from resources.engine import dask

    name = name or f"{socket.gethostname()}-{os.getpid()}"
    record_bytes_max = settings.max_record_mb << 20
    memory_bytes = None if settings.memory_mb is None else settings.memory_mb << 20
    with remote.worker_context(folder, memory_bytes=memory_bytes, record_bytes_max=record_bytes_max) as converter:
        leaving: list[Callable[[], None]] = []

        def started(place: str, leave: Callable[[], None]) -> None:
            leaving.append(leave)
            terminal.warn(
                f"Worker {name} at {place}, for {address}: {converter.workers} threads, "
                f"{converter.memory_bytes >> 20} MiB, data folder {folder}. Press Ctrl-C to stop the worker."
            )

        with interrupts.tidied(lambda: [leave() for leave in leaving]):
            versions = remote.versions(record_bytes_max)
            asyncio.run(
                dask.serve(address, versions, folder / "lake", threads=converter.readers, name=name, started=started)
            )
    raise click.ClickException(
        f"The scheduler at {address} has stopped. Converted files are kept. Restart the scheduler, then the worker."
    )


@click.command(cls=terminal.Writing)
@click.option(
    "--since",
    "hours",
    type=click.FloatRange(0, 48),
    help="Number of hours to look back on the first run.  [default: 0]",
)
@click.option(
    "--for", "seconds", type=click.FloatRange(0, min_open=True), help="Stop after this many seconds.  [default: never]"
)
@click.option(
    "--every",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    help="Seconds between files. Queries return events as soon as their file is written.",
)
@click.option(
    "--connections", type=click.IntRange(1, 10), default=10, show_default=True, help="Number of parallel connections."
)
def stream(*, hours: float | None, seconds: float | None, every: float, connections: int) -> None:
    """Store every event of the mirrored projects in the lake (live_changes) seconds after it occurs.

    The live_changes table contains events from hours that have no file yet. The articles_live table contains pages with
    their newest events.

    The command resumes at the last stored offset and runs until Ctrl-C or SIGTERM. Buffered events are stored on exit.
    The service retains events for 48 hours.
    """
    from assets.steps.stream import format_step, keep, loaded_hours
    from resources.adapters import build_resources
    from resources.lake import Layout
    from resources.lake.live import LiveLake
    from resources.warehouse import Warehouse

    settings = read_settings()
    enterprise = build_resources(settings)["enterprise"]
    lake = LiveLake(Layout(settings.data), LIVE_CHANGES, ARTICLE_CHANGES, frozenset(settings.bodies), settings.scope)
    warehouse = Warehouse(settings.data, lock_timeout=2.0)  # enough to read the loaded hours
    now = datetime.now(UTC)
    ended = threading.Event()
    until = None if seconds is None else time.monotonic() + seconds
    count = 0

    def say(step: Step, lag_seconds: float | None) -> None:
        nonlocal count
        count += step.row_count
        terminal.say(f"{datetime.now(UTC):%H:%M:%S} {format_step(step, lag_seconds)}")

    def end() -> None:
        ended.set()
        threading.main_thread().join(2.5)  # until the buffered events are stored

    with interrupts.tidied(end), enterprise.client() as client:
        keep(
            client,
            lake,
            settings.data / "state",
            since=None if hours is None else now - timedelta(hours=hours),
            clock=lambda: datetime.now(UTC),
            ended=lambda: ended.is_set() or (until is not None and time.monotonic() >= until),
            say=say,
            warn=terminal.warn,
            options=StreamOptions(connections=connections, record_bytes=settings.max_record_mb << 20),
            step_seconds=every,
            loaded=partial(loaded_hours, warehouse, settings.scope),
        )
    terminal.say(f"Stored {counted(count, 'event')} in {lake.folder}. The next run resumes at the next event.")
