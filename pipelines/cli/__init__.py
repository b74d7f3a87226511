"""The `wme` command line, with one module per command group.

This package contains the commands, their options, help texts and error messages. The exit codes are 0 for success, 1
for failure and 2 for incorrect usage. Each command is a thin wrapper around a function that Python code can also call.

Importing Dagster takes a second, and importing HTTP and Arrow takes half a second. To keep `--help` and `sql` fast,
each command's module is imported on demand, and each command imports its dependencies in its body.
"""

import ast
import importlib
import io
import logging
import os
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import click

#: Command names by module. Each command is a function with the command's name.
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


class _Commands(UserDict[str, Any]):
    """Commands by name, each of which is imported when it is used."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(importlib.import_module(f"pipelines.cli.{self.data[name]}"), name)
        return command


class Group(click.Group):
    """Group that lists each command with the complete first sentence of its help, which click would shorten."""

    def sentences(self) -> dict[str, str]:
        return {name: command.get_short_help_str(limit=1000) for name, command in self.commands.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.sentences().items()))


class _Lazy(Group):
    def sentences(self) -> dict[str, str]:
        """Return the first sentence of each docstring. The source code is parsed, because imports take a second."""
        sources = (Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8") for module in _MODULES)
        return {
            node.name: click.Command(node.name, help=ast.get_docstring(node)).get_short_help_str(limit=1000)
            for source in sources
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef) and node.name in _MODULE_OF
        }


def main() -> None:
    """Run a command. Expected failures print a message to standard error and exit with code 1."""
    code = 1
    try:
        sys.exit(wme.main(prog_name="wme", standalone_mode=False))
    except click.ClickException as error:
        shown, code = io.StringIO(), error.exit_code
        error.show(shown)
        text = shown.getvalue().removesuffix("\n")
    except click.Abort:
        text = "The command needs a reply, but standard input has ended. Nothing was changed."
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        text = _sentence(error) or ""
        if not text:
            raise
    from pipelines.cli import terminal

    terminal.echo(text, err=True)
    sys.exit(code)


def _sentence(error: Exception) -> str | None:
    """Return the message of an expected error, or None for an unexpected error."""
    from resources.errors import MirrorError, clause

    if isinstance(error, MirrorError):
        return str(error)
    if isinstance(error, OSError):
        from assets.describe import sentence

        return sentence(error)
    # errors from Dagster's SQLite history are a hundred lines long
    cause: BaseException | None = error
    while cause is not None:
        name = getattr(cause, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            return "The disk is full. Committed work is kept. Free some disk space, then run the command again."
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                "Another process has locked Dagster's run history. Committed work is kept. End the process that uses "
                "`dagster/history`, then run the command again."
            )
        if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")):
            return (
                f"Dagster's run history could not be read or written ({clause(cause)}). The disk is full or failing. "
                "Committed work is kept. Free some space or check the disk, then run the command again."
            )
        cause = cause.__cause__ or cause.__context__
    return None


@click.group(cls=_Lazy, commands=_Commands(_MODULE_OF), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="enterprise-content-mirror")
@click.option("-v", "--verbose", is_flag=True, help="Print more log messages.")
@click.option(
    "--env-file",
    type=click.Path(exists=True, dir_okay=False),
    envvar="WME_ENV_FILE",
    help="Settings file to use instead of .env. Relative paths in the file are relative to the file's folder.",
)
@click.pass_context
def wme(context: click.Context, *, verbose: bool, env_file: str | None) -> None:
    """A local, verified mirror of an Enterprise Content Service.

    Without an account (WME_USERNAME, WME_PASSWORD), all commands use the built-in sandbox.
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
