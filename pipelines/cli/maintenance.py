"""Commands that write into the data folder: publish, rebuild, clean, compact, backup, restore and others.

The work is in `pipelines/operations`, `assets/steps` and `resources/warehouse`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from pipelines.cli import terminal
from pipelines.cli.terminal import PROJECT, quiet_option
from resources.data_folder import facts_of
from resources.formatting import counted, hour_text, moment_text, size_text
from resources.settings import read as read_settings
from resources.settings import read_data


@click.command(cls=terminal.Writing)
@click.option(
    "--verify",
    is_flag=True,
    help="First read all lake files and compare every data page with its checksum. Damaged files are restored from "
    "the archive.",
)
def publish(*, verify: bool) -> None:
    """Publish everything that is loaded now, whether or not a publication is due (WME_PUBLISH).

    Missing and damaged lake files are restored from the archive, or reported.
    """
    from resources.warehouse import Warehouse, next_text

    settings = read_settings()
    warehouse = Warehouse(settings.data)
    if verify:
        from pipelines.operations.rebuild import verify as verified

        with terminal.progress() as reporter:
            found = verified(warehouse, reporter)
        terminal.say(found)
    before = warehouse.publication()
    # a Dagster run takes seconds, even if there is nothing to do
    if before is None or not warehouse.is_published(facts_of(settings.data)) or warehouse.faulty_lake_files():
        from pipelines.cli.run import report_lake
        from pipelines.operations import run as runs

        with terminal.progress():
            report = runs.publish(settings)
        report_lake(settings, report)
        if report.failures:
            raise click.ClickException("\n".join(report.failures))
    last = warehouse.publication()
    if last is not None:
        at = f"{moment_text(last.published_at)} UTC"
        told = (
            f"was published at {at}."
            if last != before
            else f"already contains all loaded data (published at {at}); there was nothing to do."
        )
        terminal.say(
            f"{warehouse.published_path} {told} The next publication is made {next_text(last, settings.publish_every)}."
        )


@click.command(cls=terminal.Writing)
def relocate() -> None:
    """Update the views of the published file after the data folder was moved.

    Only the published file and the lake are needed; the service is not contacted.
    """
    from resources.warehouse import Warehouse

    warehouse = Warehouse(read_data())
    moved = warehouse.relocate()
    if moved is None:
        told = "already finds the lake. There was nothing to do."
    else:
        told = f"now finds the lake; its views read {counted(moved, 'file')} there."
        [(missing,)] = warehouse.sql("SELECT value::BIGINT FROM about WHERE name = 'missing_lake_file_count'").rows
        if missing:
            told += (
                f" {counted(missing, 'file')} of the lake {'is' if missing == 1 else 'are'} missing and left out. "
                "Restore the missing files, then run `wme publish`."
            )
    terminal.say(f"{warehouse.published_path} {told}")


@click.command(cls=terminal.Writing)
def rebuild() -> None:
    """Rebuild the mirror from its archive: convert and load all archived files that are not loaded.

    The service is not contacted. Converted and loaded files are kept. After an interrupt, run the command again.
    """
    from pipelines.operations import rebuild as rebuilding

    settings = read_settings()
    if not (settings.data / "archive").exists():
        raise click.ClickException(
            f"There is no archive in {settings.data}. If the data folder is another one, set WME_DATA."
        )
    with terminal.progress():
        done = rebuilding.rebuild(settings, engine=terminal.terminal_engine(settings))
    terminal.say(
        f"Converted: {counted(done.file_count, 'archive')}. Loaded: {counted(done.snapshot_count, 'version')} of "
        f"snapshots, {counted(done.hour_count, 'hour')}. {Path(settings.data, 'warehouse.duckdb')} is published."
    )
    if done.failures:
        raise click.ClickException("\n".join(done.failures))


@click.command(cls=terminal.Writing)
@click.option("--dry-run", is_flag=True, help="List the files, but remove nothing.")
def clean(*, dry_run: bool) -> None:
    """Remove replaced files of the lake and the archive after their grace period (WME_GRACE_HOURS).

    Runs do this automatically. Files that are loaded, published, or needed to recreate such files are always kept.
    """
    from assets.steps import housekeeping
    from resources.lake import Layout
    from resources.warehouse import Warehouse

    settings = read_settings()
    grace = timedelta(hours=settings.grace_hours)
    done = housekeeping.clean(Layout(settings.data), Warehouse(settings.data), grace=grace, dry_run=dry_run)
    if dry_run:
        rows = [(file.path, size_text(file.size_bytes), file.due_at, file.why) for file in (*done.freed, *done.waiting)]
        if rows:
            terminal.show(("file", "size", "removable from (UTC)", "reason"), rows, spare=("reason",))
    verb = "would be removed now" if dry_run else "removed"
    if done.is_held:
        terminal.say("A backup is under way. Nothing is removed until it has finished.")
    terminal.say(
        f"{counted(len(done.freed), 'file')} {verb} ({size_text(done.freed_bytes)}). Replaced less than "
        f"{settings.grace_hours:g} hours ago and kept until then: {counted(len(done.waiting), 'file')} "
        f"({size_text(done.waiting_bytes)}).{' Nothing was removed.' if dry_run else ''}"
    )


@click.command(cls=terminal.Writing)
@click.argument("project", type=PROJECT)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(*, project: str, dry_run: bool, yes: bool) -> None:
    """Drop all data of PROJECT, which is no longer mirrored: its rows and its files of the lake and the archive.

    Shows the data, asks for confirmation, removes it, and publishes. Data shared with other projects is kept. After an
    interrupt, run the command again.
    """
    from pipelines.operations import drop_project as dropping

    settings = read_settings()
    found = dropping.survey(settings, project)
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
    question = (
        "Remove all of this data? The service keeps hours for two days only, so older hours of "
        f"{project} cannot be fetched again."
    )
    if project not in settings.projects and not yes and not click.confirm(question):
        terminal.OUT.print("Nothing was removed.")
        return
    dropping.drop_project(settings, project)
    held = dropping.survey(settings, project).dropped_in
    terminal.say(f"All data of {project} was removed, and the rest was published.{_held(project, held)}")


def _held(project: str, file_count: int) -> str:
    """Return a sentence about compacted files that contain rows of a dropped project; empty if there are none."""
    if not file_count:
        return ""
    return (
        f" {counted(file_count, 'compacted file')} of several projects still {'holds' if file_count == 1 else 'hold'} "
        f"rows of {project}, which no query shows. `wme compact` rewrites the files without these rows; the old "
        "files are deleted after the grace period."
    )


@click.command(cls=terminal.Writing)
@click.option("--dry-run", is_flag=True, help="Show what would be read, written and freed; change nothing.")
@quiet_option
def compact(*, dry_run: bool, quiet: bool) -> None:
    """Merge lake files of hours and of snapshots' chunks into a few sorted files, so that page text reads fast.

    Changes of compacted months are then moved out of the DuckDB files and read from the compacted files.

    The schedule compact_each_hour does this automatically. Loads, publications and readers do not wait for a
    compaction. After an interrupt, run the command again. If WME_ENGINE names a cluster, its workers rewrite the
    files.
    """
    from assets.published import format_merged
    from assets.steps.compaction import Compacted, compact_lake, planned
    from resources.engine import Engine
    from resources.lake import Layout
    from resources.remote import compactor
    from resources.warehouse import Warehouse

    if dry_run and quiet:
        raise click.UsageError("--dry-run prints what it found, so it does not go with --quiet.")
    terminal.hush(answers=quiet, progress=quiet)
    settings = read_settings()
    warehouse = Warehouse(settings.data, storage_version=settings.storage_version)
    if not warehouse.build_path.exists():
        terminal.say(f"Nothing is loaded in {settings.data.absolute()} yet, so there is nothing to compact.")
        return
    if dry_run:
        plan = [merge for _, merge in planned(warehouse)]
        rows = [(one.label, one.file_count, size_text(one.lake_bytes)) for one in plan]
        if rows:
            terminal.show(("to compact", "files", "size"), rows)
            size = size_text(sum(one.lake_bytes for one in plan))
            terminal.say(
                f"{counted(sum(one.file_count for one in plan), 'file')} would be read ({size}), and at most about as "
                f"many bytes written. After the next publication and {settings.grace_hours:g} hours of grace, {size} "
                "would be freed. Nothing was changed."
            )
        else:
            terminal.say("There is nothing to compact: the lake already has few files.")
        if (step := warehouse.movable_changes()) is not None:
            terminal.say(
                f"{counted(step.row_count, 'change')} of the hours from {hour_text(step.first_hour)} until "
                f"{hour_text(step.end_hour)} UTC would leave the DuckDB files and be read from compacted files."
            )
        return
    layout = Layout(settings.data)
    workers = compactor(settings.engine, layout, record_bytes_max=settings.max_record_mb << 20)
    with terminal.progress() as reporter, workers as remote:
        done = compact_lake(
            layout,
            warehouse,
            Engine(workers=1, reporter=reporter),
            compactor=remote,
            min_free_gb=settings.min_free_gb,
        )
    for one in done:
        terminal.say(format_merged(one))
    if not done:
        terminal.say("There was nothing to compact.")
        return
    count = sum(isinstance(one, Compacted) for one in done)
    terminal.say(
        f"{counted(count, 'compaction')} done. The result takes effect with the next publication (`wme publish`)."
    )


_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(cls=terminal.Writing)
@click.argument("destination", type=_FOLDER)
@click.option("--keep", type=click.IntRange(min=1), help="Complete backups to keep, including this one. Default: all.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied; copy nothing.")
@quiet_option
def backup(*, destination: Path, keep: int | None, dry_run: bool, quiet: bool) -> None:
    """Back up the mirror into a new folder in DESTINATION, while runs continue.

    Only files that are new since the previous backup are copied; all others are hard links to it. The same command
    continues a killed backup. Complete backups are never changed. Tokens and passwords are not backed up.
    """
    from pipelines.operations import backup as backups

    if dry_run and quiet:
        raise click.UsageError("--dry-run prints what it found, so it does not go with --quiet.")
    terminal.hush(answers=quiet, progress=quiet)
    data, destination = read_data(), destination.absolute()
    if dry_run:
        found = backups.plan(data, destination)
        terminal.say(
            f"To copy: {counted(found.copied_count, 'file')} ({size_text(found.copied_bytes)}). Already in the "
            f"previous backup: {counted(found.linked_count, 'file')} ({size_text(found.linked_bytes)}). Nothing was "
            "copied."
        )
        return
    with terminal.progress() as reporter:
        done = backups.take(data, destination, reporter, keep)
    planned = done.plan
    linked = (
        f", about {size_text(planned.copied_bytes)} of it copied, the rest linked to the previous backup"
        if planned.linked_count
        else ""
    )
    terminal.say(
        f"{data} is backed up in {done.backup.path}: {counted(done.backup.file_count, 'file')} "
        f"({size_text(done.backup.size_bytes)}){linked}."
    )
    if done.removed:
        terminal.say(f"{counted(len(done.removed), 'older backup')} removed.")
    if lost := done.gone["archive"]:
        terminal.say(
            f"{counted(lost, 'file')} of the archive {'is' if lost == 1 else 'are'} in the previous backup and no "
            "longer in the data folder. If neither snapshots nor projects were removed, keep that backup."
        )
    if done.problems:
        raise click.ClickException("\n".join(done.problems))


@click.command(cls=terminal.Writing)
@click.argument("source", type=_FOLDER)
@click.option("--dry-run", is_flag=True, help="Show what would be restored; copy nothing.")
def restore(*, source: Path, dry_run: bool) -> None:
    """Restore the backup SOURCE into an empty data folder (WME_DATA), and publish.

    SOURCE is a backup, or a folder of backups, of which the newest is restored. Every file is verified. The same
    command continues a killed restore. The data folder may have another path than the original one.
    """
    from pipelines.operations import restore as restoring
    from resources.backup import find
    from resources.warehouse import Warehouse

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
    # a backup of a mirror without loaded data has nothing to publish
    published = " and published" if Warehouse(data).published_path.exists() else ""
    terminal.say(
        f"{done.backup.path} was restored into {data}{published}: {counted(done.file_count, 'file')} "
        f"({size_text(done.size_bytes)}). Backups contain no tokens: set WME_PASSWORD or run `wme auth login` before "
        "the next run."
    )
    for path in done.renamed:
        terminal.say(
            f"The backup has its own {path.stem}, which determines what Dagster loads and starts. It was renamed to "
            f"{path}, and the default is used. If you trust it, rename it to {path.stem}."
        )
    if done.damaged:
        names = "\n".join(f"  {name}" for name in done.damaged)
        raise click.ClickException(
            f"{counted(len(done.damaged), 'file')} of the backup {'is' if len(done.damaged) == 1 else 'are'} missing "
            f"or damaged, and left out:\n{names}\nAll others are restored. Copy the missing ones from an older backup; "
            "files of the lake can be restored from the archive."
        )


@click.command(cls=terminal.Writing)
@click.option("--dry-run", is_flag=True, help="Show which pages would be looked up; use no quota.")
def lookups(*, dry_run: bool) -> None:
    """Look up watched pages that changed and uncertain pages of `articles`, up to WME_LOOKUPS_PER_DAY a day.

    Each page costs one unit of on-demand quota. The responses are loaded, and published if a publication is due.
    """
    from assets.steps import lookup
    from pipelines.operations import run as runs
    from resources.warehouse import Warehouse

    settings = read_settings()
    warehouse, now = Warehouse(settings.data), datetime.now(UTC)
    budget = lookup.Budget(settings.data, settings.lookups_per_day, lambda: datetime.now(UTC))
    if dry_run:
        scope = [(project, number) for project in settings.projects for number in settings.namespaces]
        wanted = lookup.plan(lookup.read_watchlist(settings.watchlist), scope, warehouse, budget.left, now)
        terminal.show(("project", "title", "purpose"), [(one.project_id, one.name, one.purpose) for one in wanted])
        terminal.say(
            f"{counted(len(wanted), 'page')} to look up; {counted(budget.left, 'lookup')} left today. Nothing was sent."
        )
        return
    with terminal.progress():
        report = runs.look_up(settings)
    if report.failures:
        raise click.ClickException("\n".join(report.failures))
    answers = warehouse.lookups_since(now)
    found = sum(one.is_found for one in answers)
    uncertain = sum(state.uncertain_count or 0 for state in warehouse.project_states(published=False))
    terminal.say(
        f"{counted(len(answers), 'page')} looked up, {found:,} of them found; {counted(budget.left, 'lookup')} left "
        f"today. Uncertain in `articles`: {counted(uncertain, 'page')}."
    )
