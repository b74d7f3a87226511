"""`wme`: the mirror from the command line, a module per group of commands.

Belongs here: commands, their options and help, sentences on failure, exit codes (0 done, 1 failed, 2 wrong call); in
this module what puts them together. Does not belong here: work. Every command is a few lines over a
function that Python can call as well.

Dagster takes a second to import, HTTP and Arrow half of one: the module of a command is imported when that is called, and a
command imports what it runs in its own body, so that `--help` and `sql` answer at once.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import NoReturn

import click

#: The module of every command, which is a function of the same name there, and its help in a sentence: that of its
#: docstring, which would cost the import.
_COMMANDS = {
    "article": ("families.lookups", "Look up the article NAME as it is now, in all projects that have one."),
    "auth": ("account.auth", "Manage the account: log in, show or revoke the tokens, change the password."),
    "backup": ("maintenance.backup", "Back up the mirror into a folder of DESTINATION, while runs go on."),
    "batches": (
        "families.batches",
        "List the service's files of an HOUR (UTC), for example 2026-11-20T05; by default of the newest hour.",
    ),
    "clean": (
        "maintenance.data_folder",
        "Remove replaced files of the lake and the archive after their grace period (WME_GRACE_HOURS).",
    ),
    "compact": (
        "maintenance.compaction",
        "Write files of hours and of snapshots' chunks together into few, sorted ones, which makes bodies fast to find.",
    ),
    "dictionary": (
        "inspection.tables",
        "Print the data dictionary (Markdown): every table and column, with its path in the service's record.",
    ),
    "entity": ("families.lookups", "Look up the Wikidata item or property ID, for example Q42 or P31."),
    "forget": (
        "maintenance.data_folder",
        "Remove all data of PROJECT, which is no longer mirrored: its rows and its files of the lake and the archive.",
    ),
    "lists": ("families.lists", "Show the entries of the reference list NAME, as the service has it now."),
    "lookups": (
        "families.repairs",
        "Look up watched pages that changed and uncertain pages of `articles`, up to WME_LOOKUPS_PER_DAY a day.",
    ),
    "metrics": ("inspection.metrics", "Print the figures of `wme status` in the text format of Prometheus."),
    "publish": (
        "maintenance.data_folder",
        "Publish everything that is loaded now, whether or not a publication is due (WME_PUBLISH).",
    ),
    "rebuild": (
        "maintenance.data_folder",
        "Convert and load everything that is archived and not loaded, without the service: a whole mirror from its archive.",
    ),
    "rejects": (
        "inspection.rejects",
        "List the lines that could not be converted, by reason and by location, or try them again.",
    ),
    "relocate": (
        "maintenance.data_folder",
        "Point the views of the published file to the lake after the data folder was moved.",
    ),
    "report": ("inspection.report", "Write one HTML page about the mirror, which any browser shows without a network."),
    "restore": ("maintenance.backup", "Restore the backup SOURCE into an empty data folder (WME_DATA), and publish."),
    "run": (
        "run",
        "Run the main job: reference lists, snapshots and hours, from the service to the published DuckDB file.",
    ),
    "sandbox": (
        "serve",
        "Run the built-in local content service in the foreground (`wme sandbox --help` lists its options).",
    ),
    "snapshots": (
        "families.snapshots",
        "Snapshots of whole projects: list them, plan a download, download them into the archive.",
    ),
    "sql": ("inspection.tables", "Query the published file, read-only."),
    "status": (
        "inspection.status",
        "Show the state of the mirror: service, account, size, pending work, and each of the newest hours.",
    ),
    "stream": (
        "stream",
        "Keep every event of the mirrored projects in the lake (live_changes), seconds after it happened.",
    ),
    "structured": (
        "families.lookups",
        "Look up the structured contents of the article NAME: infoboxes, sections, tables.",
    ),
    "ui": ("serve", "Start the Dagster UI and daemon for this data folder."),
    "worker": (
        "worker",
        "Convert archives and compact lake files for the runs of other machines, as a worker of the Dask scheduler at ADDRESS.",
    ),
}


class _Commands(MutableMapping[str, click.Command]):
    """The commands by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module = importlib.import_module(f"pipelines.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)

    def __setitem__(self, name: str, command: click.Command) -> NoReturn:
        raise TypeError("Commands are declared in this module.")

    def __delitem__(self, name: str) -> NoReturn:
        raise TypeError("Commands are declared in this module.")


class Group(click.Group):
    """A group that lists each command with its whole sentence, which click would cut to a line."""

    def sentences(self) -> dict[str, str]:
        """What each command does, by name."""
        return {name: command.get_short_help_str(limit=1000) for name, command in self.commands.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """List the commands by name."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.sentences().items()))


class _Lazy(Group):
    def sentences(self) -> dict[str, str]:
        """What each command does, without importing it."""
        return {name: text for name, (_, text) in _COMMANDS.items()}


def main() -> None:
    """Run a command: failures that were foreseen are a sentence on standard error and exit code 1. Interrupts: see `interrupts`."""
    try:
        wme.main(prog_name="wme", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        from pipelines.cli import terminal

        told = io.StringIO()
        error.show(told)
        terminal.echo(told.getvalue(), nl=False, err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("An answer was needed, but standard input has ended. Nothing was changed.", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        from pipelines.cli import terminal

        terminal.echo(sentence, err=True)
        sys.exit(1)


def _sentence(error: Exception) -> str | None:
    """What to tell people of a failure that was foreseen: the library's own sentences, and what the system refused."""
    import sqlite3

    from resources.errors import MirrorError, clause

    if isinstance(error, MirrorError):
        return str(error)
    if isinstance(error, OSError):
        from assets.failures import sentence

        return sentence(error)
    # Dagster's history is in SQLite, and says so in a hundred lines
    cause: BaseException | None = error
    while cause is not None:
        name = getattr(cause, "sqlite_errorname", "") if isinstance(cause, sqlite3.OperationalError) else ""
        if name == "SQLITE_FULL":
            return "The disk is full. What was committed stays. Make room and run the same command again."
        if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")):
            return (
                f"The history of runs could not be read or written ({clause(cause)}): its disk is full, or failing. What was committed stays. "
                "Make room, or check the disk, and run the same command again."
            )
        cause = cause.__cause__ or cause.__context__
    return None


@click.group(cls=_Lazy, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="enterprise-content-mirror")
@click.option("-v", "--verbose", is_flag=True, help="Log more of what is done.")
@click.option(
    "--env-file",
    type=click.Path(exists=True, dir_okay=False),
    envvar="WME_ENV_FILE",
    help="Settings file, in place of .env. Relative paths in the settings start at its folder.",
)
@click.pass_context
def wme(context: click.Context, *, verbose: bool, env_file: str | None) -> None:
    """A local, verified mirror of an Enterprise Content Service.

    Without an account (WME_USERNAME, WME_PASSWORD) everything runs against the built-in sandbox.
    """
    from pipelines.cli import terminal
    from pipelines.settings import load_env_file, unknown
    from pipelines.values import ENV_FILE

    if env_file is not None:
        os.environ[ENV_FILE] = env_file
    load_env_file()
    for warning in unknown():
        terminal.warn(warning)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[terminal.log_handler()])
    context.call_on_close(terminal.OUT.file.flush)
