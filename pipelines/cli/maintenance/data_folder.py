"""`wme publish`, `relocate`, `rebuild`, `clean` and `forget`: maintenance of the published file and the data folder.

The work is in `pipelines/operations/run.py`, `pipelines/operations/rebuild.py`, `pipelines/operations/forget.py`, `resources/warehouse` and `assets/maintenance/housekeeping.py`.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from pipelines.cli import service, terminal
from pipelines.cli.parameters import PROJECT
from pipelines.settings import read as read_settings
from pipelines.settings import read_data
from resources.data_folder import facts_of
from resources.formatting import counted, moment_text, size_text


@click.command(cls=service.Writing)
@click.option(
    "--verify",
    is_flag=True,
    help="First read all lake files and compare every data page with its checksum. Damaged files are made again from the archive.",
)
def publish(*, verify: bool) -> None:
    """Publish everything that is loaded now, whether or not a publication is due (WME_PUBLISH).

    Lake files that are missing or damaged are made again from the archive, or named.
    """
    from resources.warehouse import Warehouse, next_text

    settings = read_settings()
    warehouse = Warehouse(settings.data)
    if verify:
        from pipelines.operations import verify as verifying

        with terminal.progress() as reporter:
            found = verifying.verify(warehouse, reporter)
        terminal.say(found)
    before = warehouse.publication()
    # a run of Dagster's takes seconds, even to find that there is nothing to do
    if before is None or not warehouse.is_published(facts_of(settings.data)) or warehouse.faulty_lake_files():
        from pipelines.cli.run import told_of_lake
        from pipelines.operations import run as runs

        with terminal.progress():
            report = runs.publish(settings)
        told_of_lake(settings, report)
        if report.failures:
            raise click.ClickException("\n".join(report.failures))
    last = warehouse.publication()
    if last is not None:
        at = f"{moment_text(last.published_at)} UTC"
        told = (
            f"was published at {at}. Copied: {last.copied}."
            if last != before
            else f"has held everything that is loaded since {at}; nothing had to be done."
        )
        terminal.say(
            f"{warehouse.published_path} {told} The next publication is made {next_text(last, settings.publish_every)}."
        )


@click.command(cls=service.Writing)
def relocate() -> None:
    """Point the views of the published file to the lake after the data folder was moved.

    Only the published file and the lake are needed; the service is not contacted.
    """
    from resources.warehouse import Warehouse

    warehouse = Warehouse(read_data())
    moved = warehouse.relocate()
    if moved is None:
        told = "already finds the lake. Nothing had to be done."
    else:
        told = f"now finds the lake: its views read {counted(moved, 'file')} there."
        [(missing,)] = warehouse.sql("SELECT value::BIGINT FROM about WHERE name = 'missing_lake_file_count'").rows
        if missing:
            told += (
                f" {counted(missing, 'file')} that it names {'is' if missing == 1 else 'are'} missing and left out. Restore the "
                "missing files, then run `wme publish`."
            )
    terminal.say(f"{warehouse.published_path} {told}")


@click.command(cls=service.Writing)
def rebuild() -> None:
    """Convert and load everything that is archived and not loaded, without the service: a whole mirror from its archive.

    What is converted or loaded already is kept. After an interrupt, run it again.
    """
    from pipelines.cli.terminal_engine import TerminalEngine
    from pipelines.operations import rebuild as rebuilding
    from pipelines.wiring import engine_fields

    settings = read_settings()
    if not (settings.data / "archive").exists():
        raise click.ClickException(
            f"There is no archive in {settings.data}. If another data folder is meant, set WME_DATA."
        )
    with terminal.progress():
        done = rebuilding.rebuild(settings, engine=TerminalEngine(**engine_fields(settings)))
    terminal.say(
        f"Converted: {counted(done.file_count, 'archive')}. Loaded: {counted(done.snapshot_count, 'version')} of snapshots, "
        f"{counted(done.hour_count, 'hour')}. {Path(settings.data, 'warehouse.duckdb')} is published."
    )
    if done.failures:
        raise click.ClickException("\n".join(done.failures))


@click.command(cls=service.Writing)
@click.option("--dry-run", is_flag=True, help="List the files; remove nothing.")
def clean(*, dry_run: bool) -> None:
    """Remove replaced files of the lake and the archive after their grace period (WME_GRACE_HOURS).

    Runs do this automatically. Files that are loaded, published, or needed to make those again are always kept.
    """
    from assets.maintenance import housekeeping
    from resources.lake import Layout
    from resources.warehouse import Warehouse

    settings = read_settings()
    grace = timedelta(hours=settings.grace_hours)
    done = housekeeping.clean(Layout(settings.data), Warehouse(settings.data), grace=grace, dry_run=dry_run)
    if dry_run:
        rows = [(file.path, size_text(file.size_bytes), file.due_at, file.why) for file in (*done.freed, *done.waiting)]
        if rows:
            terminal.show(("file", "size", "may be removed from (UTC)", "reason"), rows, spare=("reason",))
    verb = "would be removed now" if dry_run else "removed"
    if done.is_held:
        terminal.say("A backup is under way: nothing is removed until it has finished.")
    terminal.say(
        f"{counted(len(done.freed), 'file')} {verb} ({size_text(done.freed_bytes)}). Replaced less than {settings.grace_hours:g} hours ago "
        f"and kept until then: {counted(len(done.waiting), 'file')} ({size_text(done.waiting_bytes)}).{' Nothing was removed.' if dry_run else ''}"
    )


@click.command(cls=service.Writing)
@click.argument("project", type=PROJECT)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(*, project: str, dry_run: bool, yes: bool) -> None:
    """Remove all data of PROJECT, which is no longer mirrored: its rows and its files of the lake and the archive. Then publish.

    Shows what that is and asks for confirmation. Data shared with other projects is kept. After an interrupt, run it again.
    """
    from pipelines.operations import forget as forgetting

    settings = read_settings()
    found = forgetting.survey(settings, project)
    if not found:
        terminal.say(f"There is no data of {project} in {settings.data.absolute()}.{_held(project, found.dropped_in)}")
        return
    rows = ", ".join(f"{table} {count:,}" for table, count in found.row_counts.items())
    for name, told in (
        ("rows", rows or "none"),
        ("lake", f"{counted(len(found.lake), 'file')}, {size_text(found.lake_bytes)}"),
        ("archive", f"{counted(len(found.archive), 'file')}, {size_text(found.archive_bytes)}"),
        ("partitions", ", ".join(dict.fromkeys(name for _, name in found.partitions)) or "none"),
    ):
        terminal.say(f"{name + ':':<12} {told}")
    if dry_run:
        terminal.OUT.print("Nothing was removed.")
        return
    question = f"Remove all of it? The service keeps hours for two days only, so older hours of {project} cannot be fetched again."
    if project not in settings.projects and not yes and not click.confirm(question):
        terminal.OUT.print("Nothing was removed.")
        return
    forgetting.forget(settings, project)
    held = forgetting.survey(settings, project).dropped_in
    terminal.say(f"All data of {project} was removed, and the rest was published.{_held(project, held)}")


def _held(project: str, file_count: int) -> str:
    """What compacted files hold of a dropped project, as a sentence behind another."""
    if not file_count:
        return ""
    return (
        f" {counted(file_count, 'compacted file')} of several projects still {'holds' if file_count == 1 else 'hold'} rows of {project}, which no query shows. "
        "`wme compact` writes the files again without these rows; the old files go after the grace period."
    )
