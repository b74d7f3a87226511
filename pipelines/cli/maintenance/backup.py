"""`wme backup` and `wme restore`. The work is in `pipelines/operations/backup.py`."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli import service, terminal
from pipelines.cli.parameters import quiet_option
from pipelines.settings import read_data
from resources.formatting import counted, size_text

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(cls=service.Writing)
@click.argument("destination", type=_FOLDER)
@click.option("--keep", type=click.IntRange(min=1), help="Complete backups to keep, this one included. Default: all.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied; copy nothing.")
@quiet_option
def backup(*, destination: Path, keep: int | None, dry_run: bool, quiet: bool) -> None:
    """Back up the mirror into a folder of DESTINATION, while runs go on.

    Only files that are new since the previous backup are copied; the others are hard links to it. A backup that was killed is continued by the
    same command, and the complete ones stay as they are. Tokens and passwords are not backed up.
    """
    from pipelines.operations import backup as backups

    if dry_run and quiet:
        raise click.UsageError("--dry-run prints what it found, so it does not go with --quiet.")
    terminal.hush(answers=quiet, progress=quiet)
    data, destination = read_data(), destination.absolute()
    if dry_run:
        found = backups.plan(data, destination)
        terminal.say(
            f"To be copied: {counted(found.copied_count, 'file')} ({size_text(found.copied_bytes)}). In the previous backup already: "
            f"{counted(found.linked_count, 'file')} ({size_text(found.linked_bytes)}). Nothing was copied."
        )
        return
    with terminal.progress() as reporter:
        report = backups.take(data, destination, reporter, keep)
    done, planned = report.taken, report.taken.plan
    linked = (
        f", about {size_text(planned.copied_bytes)} of it copied, the rest linked to the previous backup"
        if planned.linked_count
        else ""
    )
    terminal.say(
        f"{data} is backed up in {done.backup.path}: {counted(done.backup.file_count, 'file')} ({size_text(done.backup.size_bytes)}){linked}."
    )
    if done.removed:
        terminal.say(f"{counted(len(done.removed), 'older backup')} removed.")
    if lost := done.gone["archive"]:
        terminal.say(
            f"{counted(lost, 'file')} of the archive that the previous backup has {'is' if lost == 1 else 'are'} no longer in the data folder. Removed snapshots "
            "and dropped projects are a reason; if there is another, keep that backup."
        )
    if report.problems:
        raise click.ClickException("\n".join(report.problems))


@click.command(cls=service.Writing)
@click.argument("source", type=_FOLDER)
@click.option("--dry-run", is_flag=True, help="Show what would be restored; copy nothing.")
def restore(*, source: Path, dry_run: bool) -> None:
    """Restore the backup SOURCE into an empty data folder (WME_DATA), and publish.

    SOURCE is a backup, or a folder of backups, of which the newest is restored. Every file is verified. A restore that was killed is
    continued by the same command. The path of the data folder may be another one than before.
    """
    from pipelines.operations import backup as backups
    from resources.backup import find
    from resources.warehouse import Warehouse

    data, source = read_data(), source.absolute()
    if dry_run:
        found = find(source)
        backups.check(found, data)
        terminal.say(
            f"{found.path} would be restored into {data}: {counted(found.file_count, 'file')} ({size_text(found.size_bytes)}). Nothing was copied."
        )
        return
    with terminal.progress() as reporter:
        found, done = backups.restore(source, data, reporter)
    # a backup of a mirror that had loaded nothing has nothing to publish
    published = " and published" if Warehouse(data).published_path.exists() else ""
    terminal.say(
        f"{found.path} is restored in {data}{published}: {counted(done.file_count, 'file')} ({size_text(done.size_bytes)}). Backups hold no tokens: "
        "runs log in with WME_PASSWORD, or after `wme auth login`."
    )
    for path in done.renamed:
        terminal.say(
            f"The backup has its own {path.stem}, which decides what Dagster loads and starts. It is {path}, and the usual one is used. If you trust it, "
            f"rename it to {path.stem}."
        )
    if done.damaged:
        names = "\n".join(f"  {name}" for name in done.damaged)
        raise click.ClickException(
            f"{counted(len(done.damaged), 'file')} of the backup {'is' if len(done.damaged) == 1 else 'are'} missing or damaged, and left out:\n{names}\n"
            "All others are restored. Copy them from an older backup; files of the lake can be made again from the archive."
        )
