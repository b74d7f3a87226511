"""`wme`: the mirror from the command line, a module per group of commands.

Belongs here: commands, their options and help, sentences on failure, exit codes (0 done, 1 failed, 2 wrong call); in
this module what puts them together. Does not belong here: work. Every command is a few lines over a
function that Python can call as well.

Dagster takes a second to import, HTTP and Arrow half of one. So the module of a command is imported when the command is
called, and a command imports what it runs in its own body: `--help` and `sql` answer at once.
"""

from __future__ import annotations

import ast
import importlib
import io
import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import NoReturn

import click

#: The commands by the module that has a function of the same name for each.
_MODULES = {
    "account": ("auth",),
    "inspection": ("dictionary", "metrics", "rejects", "report", "sql", "status"),
    "maintenance": (*("backup", "clean", "compact", "forget", "lookups", "publish", "rebuild", "relocate", "restore"),),
    "records": ("article", "batches", "entity", "lists", "structured"),
    "run": ("run",),
    "serve": ("sandbox", "stream", "ui", "worker"),
    "snapshots": ("snapshots",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


class _Commands(MutableMapping[str, click.Command]):
    """The commands by name. A command is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(importlib.import_module(f"pipelines.cli.{_MODULE_OF[name]}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULE_OF)

    def __len__(self) -> int:
        return len(_MODULE_OF)

    def __setitem__(self, name: str, command: click.Command) -> NoReturn:
        raise TypeError("Commands are declared in this module.")

    def __delitem__(self, name: str) -> NoReturn:
        raise TypeError("Commands are declared in this module.")


class Group(click.Group):
    """A group that lists each command with its whole sentence, which click would cut to a line."""

    def sentences(self) -> dict[str, str]:
        return {name: command.get_short_help_str(limit=1000) for name, command in self.commands.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.sentences().items()))


class _Lazy(Group):
    def sentences(self) -> dict[str, str]:
        """Return the first sentence of each docstring, read from the source, because an import takes a second."""
        found = {}
        for module, names in _MODULES.items():
            tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    stub = click.Command(node.name, help=ast.get_docstring(node))
                    found[node.name] = stub.get_short_help_str(limit=1000)
        return found


def main() -> None:
    """Run a command. A foreseen failure is a sentence on standard error and exit code 1. Interrupts: `interrupts`."""
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
    """The message of a foreseen failure: the library's own sentence, or the refusal of the system."""
    import sqlite3

    from resources.errors import MirrorError, clause

    if isinstance(error, MirrorError):
        return str(error)
    if isinstance(error, OSError):
        from assets.describe import sentence

        return sentence(error)
    # Dagster's history is in SQLite, and says so in a hundred lines
    cause: BaseException | None = error
    while cause is not None:
        name = getattr(cause, "sqlite_errorname", "") if isinstance(cause, sqlite3.OperationalError) else ""
        if name == "SQLITE_FULL":
            return "The disk is full. What was committed stays. Make room and run the same command again."
        if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")):
            return (
                f"The history of runs could not be read or written ({clause(cause)}): its disk is full, or failing. "
                "What was committed stays. Make room, or check the disk, and run the same command again."
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
    from resources.settings import ENV_FILE, load_env_file, unknown

    if env_file is not None:
        os.environ[ENV_FILE] = env_file
    load_env_file()
    for warning in unknown():
        terminal.warn(warning)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[terminal.log_handler()])
    context.call_on_close(terminal.OUT.file.flush)
