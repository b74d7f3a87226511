"""`wme lookups`: look up watched pages, and pages that a lost hour or a rejected line made uncertain.

The work is in `assets/steps/lookup.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from pipelines.cli import service, terminal
from pipelines.settings import read as read_settings
from resources.formatting import counted


@click.command(cls=service.Writing)
@click.option("--dry-run", is_flag=True, help="Show which pages would be looked up; spend nothing.")
def lookups(*, dry_run: bool) -> None:
    """Look up watched pages that changed and uncertain pages of `articles`, up to WME_LOOKUPS_PER_DAY a day.

    Each page costs one unit of on-demand quota. The answers are loaded, and published if that is due.
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
        f"{counted(len(answers), 'page')} looked up, {found:,} of them found; {counted(budget.left, 'lookup')} left today. "
        f"Uncertain in `articles`: {counted(uncertain, 'page')}."
    )
