"""`wme sandbox` and `wme ui`: what serves in the foreground until Ctrl-C.

The work is in `resources/sandbox` and `pipelines/process/instance.py`.
"""

from __future__ import annotations

import _thread
import socket
import sys
import threading

import click

from pipelines.cli import service, terminal
from pipelines.process import interrupts
from pipelines.settings import read as read_settings
from pipelines.settings import read_data


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def sandbox(*, arguments: tuple[str, ...]) -> None:
    """Run the built-in local content service in the foreground (`wme sandbox --help` lists its options)."""
    from resources.sandbox.__main__ import main as serve

    ended = threading.Event()

    def end() -> None:
        _thread.interrupt_main()  # it has a handler of its own, and ends in order
        ended.wait()

    try:
        with interrupts.tidied(end):
            sys.exit(serve(arguments, called="wme sandbox", state=read_data() / "sandbox"))
    finally:
        ended.set()


@click.command(cls=service.Writing)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the Dagster UI.")
@click.option(
    "--prepare",
    is_flag=True,
    help="Only set up <WME_DATA>/dagster: its settings if there are none, and its pools. For services that start Dagster themselves.",
)
def ui(*, port: int, prepare: bool) -> None:
    """Start the Dagster UI and daemon for this data folder."""
    from pipelines.process import instance

    settings = read_settings()
    if prepare:
        with instance.opened(settings.dagster_home) as opened:
            terminal.say(f"Dagster's instance: {opened.root_directory}")
        return
    instance.unserved(settings.data)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            # Dagster would report it in the middle of starting, and go on
            raise click.ClickException(
                f"Port {port} cannot be used ({error.strerror}), perhaps because of the `wme ui` of another data folder. Nothing was started; "
                "choose another port with --port."
            ) from None
    terminal.ERR.print(
        f"The Dagster UI will be at http://127.0.0.1:{port} in a few seconds. Ctrl-C stops it.", markup=False
    )
    instance.serve(settings.data, port)
