"""`wme publish`, `relocate`, `clean` and `forget`: keeping what analysts open, and the folder, as they should be.

The work is in `pipelines/operations/run.py`, `pipelines/operations/forget.py`, `resources/warehouse` and `assets/housekeeping.py`.
"""

from __future__ import annotations

from datetime import timedelta

import click

from pipelines import terminal
from pipelines.cli.parameters import PROJECT
from pipelines.settings import read as read_settings
from resources.formatting import counted, moment_text, size_text


@click.command()
def publish() -> None:
    """Publish now what is loaded, whether it is due or not (WME_PUBLISH)."""
    from assets.published import next_text
    from pipelines.operations import run as runs
    from resources.warehouse import Warehouse

    settings = read_settings()
    warehouse = Warehouse(settings.data)
    before = warehouse.publication()
    with terminal.progress():
        report = runs.publish(settings)
    if report.failures:
        raise click.ClickException("\n".join(report.failures))
    last = warehouse.publication()
    if last is not None:
        at = f"{moment_text(last.published_at)} UTC"
        told = (
            f"was published at {at}."
            if last != before
            else f"holds all that is loaded since {at}: nothing was to be done."
        )
        terminal.OUT.print(
            f"{warehouse.published_path} {told} It is published next {next_text(last, settings.publish_every)}.",
            markup=False,
            soft_wrap=True,
        )


@click.command()
def relocate() -> None:
    """After the data folder was moved: make the published file's views find the lake where it lies now.

    Only the published file and the lake are needed, and no service.
    """
    from resources.warehouse import Warehouse

    warehouse = Warehouse(read_settings().data)
    moved = warehouse.relocate()
    if moved is None:
        told = "finds the lake where it lies. Nothing was to be done."
    else:
        told = f"was mended: its views read {counted(moved, 'file')} of the lake where it lies now."
        [(missing,)] = warehouse.sql("SELECT value::BIGINT FROM about WHERE name = 'missing_lake_file_count'").rows
        if missing:
            told += (
                f" Of the files that it names, {missing:,} {'is' if missing == 1 else 'are'} not there, and left out; bring "
                "what is missing there, then `wme publish`."
            )
    terminal.OUT.print(f"{warehouse.published_path} {told}", markup=False, soft_wrap=True)


@click.command()
@click.option("--dry-run", is_flag=True, help="List the files and stop; nothing is removed.")
def clean(*, dry_run: bool) -> None:
    """Remove files of the lake and the archive that were replaced, after their grace period (WME_GRACE_HOURS).

    Runs do so by themselves. What is loaded, what is published and what is needed to make it again always stays.
    """
    from assets import housekeeping
    from resources.lake import Layout
    from resources.warehouse import Warehouse

    settings = read_settings()
    grace = timedelta(hours=settings.grace_hours)
    done = housekeeping.clean(Layout(settings.data), Warehouse(settings.data), grace=grace, dry_run=dry_run)
    if dry_run:
        rows = [(file.path, size_text(file.size_bytes), file.due_at, file.why) for file in (*done.freed, *done.waiting)]
        if rows:
            terminal.show(("file", "size", "may go from (UTC)", "because"), rows, spare=("because",))
    verb = "would be removed now" if dry_run else "removed"
    terminal.OUT.print(
        f"{counted(len(done.freed), 'file')} {verb}, {size_text(done.freed_bytes)}; {len(done.waiting):,} more, "
        f"{size_text(done.waiting_bytes)}, were replaced less than {settings.grace_hours:g} hours ago, or are seen so for "
        f"the first time.{' Nothing was removed.' if dry_run else ''}",
        markup=False,
        soft_wrap=True,
    )


@click.command()
@click.argument("project", type=PROJECT)
@click.option("--dry-run", is_flag=True, help="Say what would be removed and stop.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(*, project: str, dry_run: bool, yes: bool) -> None:
    """Remove everything of PROJECT, which is mirrored no longer: rows, files of the lake and the archive; then publish.

    Says first what that is, and asks. What other projects share stays. After an interrupt run it again.
    """
    from pipelines.operations import forget as forgetting

    settings = read_settings()
    found = forgetting.survey(settings, project)
    if not found:
        terminal.OUT.print(
            f"There is nothing of {project} in {settings.data.absolute()}.", markup=False, soft_wrap=True
        )
        return
    rows = ", ".join(f"{table} {count:,}" for table, count in found.row_counts.items())
    for name, told in (
        ("rows", rows or "none"),
        ("lake", f"{counted(len(found.lake), 'file')}, {size_text(found.lake_bytes)}"),
        ("archive", f"{counted(len(found.archive), 'file')}, {size_text(found.archive_bytes)}"),
        ("partitions", ", ".join(found.partitions) or "none"),
    ):
        terminal.OUT.print(f"{name + ':':<12} {told}", markup=False, soft_wrap=True)
    if dry_run:
        terminal.OUT.print("Nothing was removed.")
        return
    question = (
        f"Remove all of it? The service keeps hours for two days only, so older hours of {project} cannot come back."
    )
    if project not in settings.projects and not yes and not click.confirm(question):
        terminal.OUT.print("Nothing was removed.")
        return
    forgetting.forget(settings, project)
    terminal.OUT.print(
        f"{project} is forgotten: its rows and files are removed, and the rest is published.", markup=False
    )
