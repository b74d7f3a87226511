"""`wme compact`: files of the lake written together into few. The work is in `assets/maintenance/compaction.py`."""

from __future__ import annotations

from datetime import timedelta

import click

from pipelines.cli import service, terminal
from pipelines.cli.parameters import quiet_option
from pipelines.settings import read as read_settings
from resources.formatting import counted, hour_text, size_text


@click.command(cls=service.Writing)
@click.option("--dry-run", is_flag=True, help="Show what would be read, written and freed; change nothing.")
@quiet_option
def compact(*, dry_run: bool, quiet: bool) -> None:
    """Write files of hours and of snapshots' chunks together into few, sorted ones, which makes bodies fast to find.

    Changes of hours older than WME_HOT_DAYS then leave the DuckDB files, and are read from the compacted ones.

    The schedule compact_each_hour does this automatically. Nobody who loads, publishes or reads waits for it; after an interrupt, run it again. Where WME_ENGINE names a cluster,
    its workers do the rewriting.
    """
    from assets.maintenance.compacted import told
    from assets.maintenance.compaction import Compacted, compact_lake, hot_from, planned
    from resources.engine import Engine
    from resources.lake import Layout
    from resources.remote import compactor
    from resources.warehouse import Warehouse

    if dry_run and quiet:
        raise click.UsageError("--dry-run prints what it found, so it does not go with --quiet.")
    terminal.hush(answers=quiet, progress=quiet)
    settings = read_settings()
    hot = None if settings.hot_days is None else timedelta(days=settings.hot_days)
    warehouse = Warehouse(settings.data, storage_version=settings.storage_version)
    if not warehouse.build_path.exists():
        terminal.say(f"Nothing is loaded in {settings.data.absolute()} so far, so there is nothing to compact.")
        return
    if dry_run:
        plan = [merge for _, merge in planned(warehouse)]
        rows = [(one.label, one.file_count, size_text(one.lake_bytes)) for one in plan]
        if rows:
            terminal.show(("to compact", "files", "size"), rows)
            size = size_text(sum(one.lake_bytes for one in plan))
            terminal.say(
                f"{counted(sum(one.file_count for one in plan), 'file')} would be read ({size}), and about as many bytes written at most. After the next "
                f"publication and {settings.grace_hours:g} hours of grace, {size} would be freed. Nothing was changed."
            )
        else:
            terminal.say("There is nothing to compact: where files are few already, compaction would gain nothing.")
        if hot is not None and (step := warehouse.movable_changes(hot_from(hot))) is not None:
            terminal.say(
                f"{counted(step.row_count, 'change')} of the hours from {hour_text(step.first_hour)} until {hour_text(step.end_hour)} UTC would leave the "
                "DuckDB files and be read from compacted files (WME_HOT_DAYS)."
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
            hot=hot,
        )
    for one in done:
        terminal.say(told(one))
    if not done:
        terminal.say("There was nothing to compact.")
        return
    count = sum(isinstance(one, Compacted) for one in done)
    terminal.say(
        f"{counted(count, 'compaction')} done. All this takes effect with the next publication (`wme publish`)."
    )
