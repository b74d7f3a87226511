"""`wme`: the mirror from the command line, a module per group of commands.

Belongs here: commands, their options and help, sentences on failure, exit codes (0 done, 1 failed, 2 wrong call); in
this module what puts them together. Does not belong here: work. Every command is a few lines over a
function that Python can call as well.

Dagster takes a second to import: a command imports what it runs in its own body, so that `--help` and `sql` answer at
once.
"""

from __future__ import annotations

import logging
import sqlite3
import sys

import click

from pipelines.cli import auth, maintenance, rejects, run, serve, status, tables, terminal
from pipelines.cli.families import batches, lists, snapshots
from pipelines.settings import load_env_file, unknown
from resources.errors import MirrorError


def main() -> None:
    """Run a command: failures that were foreseen are a sentence on standard error and exit code 1. Interrupts: see `interrupts`."""
    load_env_file()
    for warning in unknown():
        terminal.warn(warning)
    try:
        wme.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        terminal.ERR.print("An answer was needed, but standard input has ended. Nothing was changed.")
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        terminal.warn(sentence)
        sys.exit(1)


def _sentence(error: Exception) -> str | None:
    """What to tell people of a failure that was foreseen: the library's own sentences, and what the system refused."""
    if isinstance(error, MirrorError):
        return str(error)
    if isinstance(error, OSError):
        from assets.failures import sentence

        return sentence(error)
    # Dagster's history is in SQLite, and says so in a hundred lines
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.OperationalError) and "full" in str(cause):
            return "The disk is full. What was committed stays. Make room and run the same command again."
        cause = cause.__cause__ or cause.__context__
    return None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="enterprise-content-mirror")
@click.option("-v", "--verbose", is_flag=True, help="Log more of what is done.")
@click.pass_context
def wme(context: click.Context, *, verbose: bool) -> None:
    """A local, verified, always-current mirror of an Enterprise Content Service.

    Without an account (WME_USERNAME, WME_PASSWORD) everything runs against the built-in sandbox.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    context.call_on_close(terminal.OUT.file.flush)


for _command in (
    run.run,
    maintenance.publish,
    maintenance.relocate,
    maintenance.clean,
    maintenance.forget,
    status.status,
    tables.sql,
    tables.dictionary,
    auth.auth,
    batches.batches,
    snapshots.snapshots,
    lists.lists,
    rejects.rejects,
    serve.sandbox,
    serve.ui,
):
    wme.add_command(_command)
