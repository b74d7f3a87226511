"""Commands that write to the data folder, such as publish, rebuild, clean, compact, backup and restore."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from pipelines.cli import terminal
from pipelines.cli.terminal import PROJECT, quiet_option
from resources.data_folder import facts_of
from resources.engine import Engine
from resources.formatting import counted, hour_text, moment_text, size_text
from resources.settings import read as read_settings
from resources.settings import read_data
from resources.warehouse import Warehouse, next_text


@click.command(cls=terminal.Writing)
@click.option(
    "--verify",
    is_flag=True,
    help="First verify the checksum of every data page in the lake. Damaged files are restored from the archive.",
)
def publish(*, verify: bool) -> None:
    """Publish all loaded data now, even if no publication is due (WME_PUBLISH).

    Missing and damaged lake files are restored from the archive, or reported.
    """
    settings = read_settings()
    warehouse = Warehouse(settings.data)
    # a new file would be published without the data in the archive, and in place of a mistyped folder
    if not (warehouse.build_path.exists() or warehouse.published_path.exists()):
        raise click.ClickException(
            f"There is nothing to publish, because no data is loaded in {settings.data}. To load the data in its "
            "archive, run `wme rebuild`. If this is not the data folder, set WME_DATA."
        )
    if verify:
        from pipelines.operations.rebuild import verify as verified

        with terminal.progress() as reporter:
            found = verified(warehouse, reporter)
        terminal.say(found)
    before = warehouse.publication()
    # avoid a Dagster run if there is nothing to do, because each run takes seconds
    if before is None or not warehouse.is_published(facts_of(settings.data)) or warehouse.faulty_lake_files():
        from pipelines.cli.run import report_lake
        from pipelines.operations import run as runs

        report = runs.publish(settings)
        report_lake(settings, report)
        if report.failures:
            raise click.ClickException("\n".join(report.failures))
    last = warehouse.publication()
    if last is not None:
        at = f"{moment_text(last.published_at)} UTC"
        told = f"was published at {at}." if last != before else f"already contains all loaded data (published at {at})."
        terminal.say(
            f"{warehouse.published_path} {told} New data will be published {next_text(last, settings.publish_every)}."
        )


@click.command(cls=terminal.Writing)
def relocate() -> None:
    """Update the published file's views after the data folder was moved.

    The command needs only the published file and the lake. The service is not contacted.
    """
    warehouse = Warehouse(read_data())
    moved = warehouse.relocate()
    if moved is None:
        told = "already refers to this lake. Nothing was changed."
    else:
        told = f"now refers to the moved lake and reads {counted(moved, 'file')} there."
        [(missing,)] = warehouse.sql("SELECT value::BIGINT FROM about WHERE name = 'missing_lake_file_count'").rows
        if missing:
            told += (
                f" {counted(missing, 'lake file')} {'is' if missing == 1 else 'are'} missing. Restore the missing "
                f"{'file' if missing == 1 else 'files'}, then run `wme publish`."
            )
    terminal.say(f"{warehouse.published_path} {told}")


@click.command(cls=terminal.Writing)
def rebuild() -> None:
    """Rebuild the mirror from its archive. Converts and loads all archived files that are not yet loaded.

    The service is not contacted. Converted and loaded files are kept. If interrupted, run the command again.
    """
    from pipelines.operations import rebuild as rebuilding
    from resources.adapters import ConfiguredEngine

    settings = read_settings()
    if not (settings.data / "archive").exists():
        raise click.ClickException(
            f"There is no archive in {settings.data}. If this is not the data folder, set WME_DATA."
        )
    with terminal.progress() as reporter:
        done = rebuilding.rebuild(settings, engine=ConfiguredEngine(settings, reporter))
    terminal.say(
        f"Converted {counted(done.file_count, 'archive')}. Loaded {counted(done.snapshot_count, 'snapshot version')} "
        f"and {counted(done.hour_count, 'hour')}. Published {Path(settings.data, 'warehouse.duckdb')}."
    )
    if done.failures:
        raise click.ClickException("\n".join(done.failures))


@click.command(cls=terminal.Writing)
@click.option("--dry-run", is_flag=True, help="List the files without removing them.")
def clean(*, dry_run: bool) -> None:
    """Remove replaced lake and archive files after their grace period (WME_GRACE_HOURS).

    Runs remove these files automatically. Loaded and published files, and files needed to recreate them, are kept.
    """
    from assets.steps import housekeeping
    from resources.lake import Layout

    settings = read_settings()
    grace = timedelta(hours=settings.grace_hours)
    done = housekeeping.clean(Layout(settings.data), Warehouse(settings.data), grace=grace, dry_run=dry_run)
    if dry_run:
        rows = [(file.path, size_text(file.size_bytes), file.due_at, file.why) for file in (*done.freed, *done.waiting)]
        if rows:
            terminal.show(("file", "size", "removable from (UTC)", "reason"), rows, spare=("reason",))
    verb = "would be removed now" if dry_run else "removed"
    if done.is_held:
        terminal.say("A backup is in progress. No files are removed until the backup has finished.")
    terminal.say(
        f"{counted(len(done.freed), 'file')} {verb} ({size_text(done.freed_bytes)}). Kept during the grace period of "
        f"{settings.grace_hours:g} hours: {counted(len(done.waiting), 'replaced file')} "
        f"({size_text(done.waiting_bytes)}).{' Nothing was removed.' if dry_run else ''}"
    )


@click.command(cls=terminal.Writing)
@click.argument("project", type=PROJECT)
@click.option("--dry-run", is_flag=True, help="Show the data that would be removed, but do not remove it.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(*, project: str, dry_run: bool, yes: bool) -> None:
    """Drop all data of a PROJECT that is no longer mirrored: its rows, lake files and archive files.

    The command shows the data, asks for confirmation, removes the data and publishes. Data shared with other projects
    is kept. If interrupted, run the command again.
    """
    from pipelines.operations import drop_project as dropping

    settings = read_settings()
    found = dropping.survey(settings, project)
    if not found:
        terminal.say(f"{settings.data.absolute()} contains no data for {project}.{_held(project, found.dropped_in)}")
        return
    rows = ", ".join(f"{table} {count:,}" for table, count in found.row_counts.items())
    for name, told in (
        ("rows", rows or "none"),
        *(
            (name, f"{counted(len(paths), 'file')}, {size_text(sum(path.stat().st_size for path in paths))}")
            for name, paths in (("lake", found.lake), ("archive", found.archive))
        ),
        ("partitions", ", ".join(dict.fromkeys(name for _, name in found.partitions)) or "none"),
    ):
        terminal.say(f"{name + ':':<12} {told}")
    if dry_run:
        terminal.OUT.print("Nothing was removed.")
        return
    question = (
        "Remove all of this data? The service retains hours for only two days, so older hours of "
        f"{project} cannot be fetched again."
    )
    if project not in settings.projects and not yes and not click.confirm(question):
        terminal.OUT.print("Nothing was removed.")
        return
    dropping.drop_project(settings, project)
    held = dropping.survey(settings, project).dropped_in
    terminal.say(f"All data for {project} was removed. All other data was published.{_held(project, held)}")


def _held(project: str, file_count: int) -> str:
    """Return a sentence about compacted files that contain rows from a dropped project, or an empty string."""
    if not file_count:
        return ""
    return (
        f" {counted(file_count, 'compacted file')} shared with other projects still "
        f"{'contains' if file_count == 1 else 'contain'} hidden rows of {project}. `wme compact` rewrites these files "
        "without the hidden rows. The old files are deleted after the grace period."
    )


@click.command(cls=terminal.Writing)
@click.option("--dry-run", is_flag=True, help="Show which files would be read, written and freed, but change nothing.")
@quiet_option
def compact(*, dry_run: bool, quiet: bool) -> None:
    """Merge hourly lake files and snapshot chunks into a few sorted files for fast access to page text.

    Changes in compacted months are then removed from the DuckDB files and read from the compacted files.

    The compact_each_hour schedule runs compactions automatically. Loads, publications and readers do not wait for
    compactions. If interrupted, run the command again. With a cluster in WME_ENGINE, its workers rewrite the files.
    """
    from assets.published import format_merged
    from assets.steps.compaction import Compacted, compact_lake, planned
    from resources.adapters import ConfiguredEngine, ConfiguredLake
    from resources.lake import Layout

    if dry_run and quiet:
        raise click.UsageError("--dry-run cannot be combined with --quiet.")
    terminal.hush(answers=quiet, progress=quiet)
    settings = read_settings()
    warehouse = Warehouse(settings.data, storage_version=settings.storage_version)
    if not warehouse.build_path.exists():
        terminal.say(f"There is nothing to compact, because no data is loaded in {settings.data.absolute()}.")
        return
    if dry_run:
        plan = [merge for _, merge in planned(warehouse)]
        rows = [(one.label, one.file_count, size_text(one.lake_bytes)) for one in plan]
        if rows:
            terminal.show(("to compact", "files", "size"), rows)
            size = size_text(sum(one.lake_bytes for one in plan))
            terminal.say(
                f"{counted(sum(one.file_count for one in plan), 'file')} would be read ({size}), and at most "
                f"about {size} would be written. After the next publication and a grace period of "
                f"{settings.grace_hours:g} hours, {size} would be freed. Nothing was changed."
            )
        else:
            terminal.say("There is nothing to compact, because the lake already has few files.")
        if (step := warehouse.movable_changes()) is not None:
            terminal.say(
                f"{counted(step.row_count, 'change')} from {hour_text(step.first_hour)} to {hour_text(step.end_hour)} "
                "UTC would be moved from the DuckDB files to compacted files."
            )
        return
    layout = Layout(settings.data)
    with terminal.progress() as reporter, ConfiguredEngine(settings).compactor(ConfiguredLake(settings)) as remote:
        done = compact_lake(
            layout,
            warehouse,
            Engine(workers=1, reporter=reporter),
            compactor=remote,
            threads=settings.threads,
            min_free_gb=settings.min_free_gb,
        )
    for one in done:
        terminal.say(format_merged(one))
    if not done:
        terminal.say("There was nothing to compact.")
        return
    count = sum(isinstance(one, Compacted) for one in done)
    terminal.say(
        f"Finished {counted(count, 'compaction')}. Readers see the result after the next publication (`wme publish`)."
    )


class _Folder(click.Path):
    """Path of a folder. An empty string, for example from an unset variable, does not mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("The path is empty.", param, ctx)
        return super().convert(value, param, ctx)


_FOLDER = _Folder(path_type=Path, file_okay=False)


@click.command(cls=terminal.Writing)
@click.argument("destination", type=_FOLDER)
@click.option("--keep", type=click.IntRange(min=1), help="Number of complete backups to keep, including this one.")
@click.option("--dry-run", is_flag=True, help="Show the files to copy without copying them.")
@quiet_option
def backup(*, destination: Path, keep: int | None, dry_run: bool, quiet: bool) -> None:
    """Back up the mirror to a new folder in DESTINATION while runs continue.

    Only files that are new since the previous backup are copied. All other files are hard links to the previous backup.
    The same command resumes a killed backup. Complete backups are never changed. Tokens and passwords are not backed
    up.
    """
    from pipelines.operations import backup as backups

    if dry_run and quiet:
        raise click.UsageError("--dry-run cannot be combined with --quiet.")
    terminal.hush(answers=quiet, progress=quiet)
    data, destination = read_data(), destination.absolute()
    if dry_run:
        found = backups.plan(data, destination)
        terminal.say(
            f"{counted(found.copied_count, 'file')} ({size_text(found.copied_bytes)}) would be copied. The previous "
            f"backup contains {counted(found.linked_count, 'other file')} ({size_text(found.linked_bytes)}). Nothing "
            "was copied."
        )
        return
    with terminal.progress() as reporter:
        done = backups.take(data, destination, reporter, keep)
    planned = done.plan
    linked = (
        f". About {size_text(planned.copied_bytes)} was copied. All other files are hard links to the previous backup"
        if planned.linked_count
        else ""
    )
    terminal.say(
        f"{data} was backed up to {done.backup.path}: {counted(done.backup.file_count, 'file')} "
        f"({size_text(done.backup.size_bytes)}){linked}."
    )
    if done.removed:
        terminal.say(f"Removed {counted(len(done.removed), 'older backup')}.")
    if lost := done.gone["archive"]:
        terminal.say(
            f"The previous backup contains {counted(lost, 'archive file')} that the data folder no longer contains. If "
            "you did not remove any snapshots or projects, keep the previous backup."
        )
    if done.problems:
        raise click.ClickException("\n".join(done.problems))


@click.command(cls=terminal.Writing)
@click.argument("source", type=_FOLDER)
@click.option("--dry-run", is_flag=True, help="Show the files to restore without copying them.")
def restore(*, source: Path, dry_run: bool) -> None:
    """Restore the backup SOURCE into an empty data folder (WME_DATA), then publish.

    SOURCE is a backup, or a folder whose newest backup is restored. Every file is verified. The same command resumes a
    killed restore. The path of the new data folder can differ from the original path.
    """
    from pipelines.operations import restore as restoring
    from resources.backup import find

    data, source = read_data(), source.absolute()
    if dry_run:
        found = find(source)
        restoring.check(found, data)
        terminal.say(
            f"{found.path} would be restored into {data}: {counted(found.file_count, 'file')} "
            f"({size_text(found.size_bytes)}). Nothing was copied."
        )
        return
    with terminal.progress() as reporter:
        done = restoring.restore(source, data, reporter)
    # a mirror without loaded data has nothing to publish
    published = " and published" if Warehouse(data).published_path.exists() else ""
    terminal.say(
        f"{done.backup.path} was restored into {data}{published}: {counted(done.file_count, 'file')} "
        f"({size_text(done.size_bytes)}). Backups contain no tokens: set WME_PASSWORD or run `wme auth login` before "
        "the next run."
    )
    for path in done.renamed:
        terminal.say(
            f"The backup contains a {path.stem} file, which controls the code that Dagster loads. The file was renamed "
            f"to {path}, and the default file is used. If you trust the file, rename it to {path.stem}."
        )
    if done.damaged:
        names = "\n".join(f"  {name}" for name in done.damaged)
        raise click.ClickException(
            f"{counted(len(done.damaged), 'file')} in the backup {'is' if len(done.damaged) == 1 else 'are'} missing "
            f"or damaged:\n{names}\nAll other files were restored. Copy missing files from an older backup, or restore "
            "lake files from the archive."
        )


@click.command(cls=terminal.Writing)
@click.option("--dry-run", is_flag=True, help="Show the pages to look up without using quota.")
def lookups(*, dry_run: bool) -> None:
    """Look up watched pages that changed and uncertain pages in `articles`, up to WME_LOOKUPS_PER_DAY a day.

    Each page costs one unit of on-demand quota. The responses are loaded, then published if a publication is due.
    """
    from assets.steps import lookup
    from pipelines.operations import run as runs

    settings = read_settings()
    warehouse, now = Warehouse(settings.data), datetime.now(UTC)
    budget = lookup.Budget(settings.data, settings.lookups_per_day, lambda: datetime.now(UTC))
    if dry_run:
        # finding pages creates the warehouse
        if not settings.data.exists():
            raise click.ClickException(
                f"The data folder {settings.data} does not exist. Nothing was sent. If this is not the data folder, "
                "set WME_DATA."
            )
        scope = [(project, number) for project in settings.projects for number in settings.namespaces]
        wanted = lookup.plan(lookup.read_watchlist(settings.watchlist), scope, warehouse, budget.left, now)
        terminal.show(("project", "title", "purpose"), [(one.project_id, one.name, one.purpose) for one in wanted])
        terminal.say(
            f"{counted(len(wanted), 'page')} to look up; {counted(budget.left, 'lookup')} left today. Nothing was sent."
        )
        return
    report = runs.look_up(settings)
    if report.failures:
        raise click.ClickException("\n".join(report.failures))
    answers = warehouse.lookups_since(now)
    found = sum(one.is_found for one in answers)
    uncertain = sum(state.uncertain_count or 0 for state in warehouse.project_states(published=False))
    terminal.say(
        f"Looked up {counted(len(answers), 'page')} and found {found:,}; {counted(budget.left, 'lookup')} left today. "
        f"Uncertain in `articles`: {counted(uncertain, 'page')}."
    )
