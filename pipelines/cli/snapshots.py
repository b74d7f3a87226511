"""`wme snapshots`: whole projects, from the list to their files in the archive.

The work is in `pipelines/operations/snapshots.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pipelines import terminal
from pipelines.cli import service
from pipelines.cli.parameters import IDENTIFIER
from pipelines.settings import read as read_settings
from resources.formatting import counted, size_text

if TYPE_CHECKING:
    from collections.abc import Callable


@click.group()
def snapshots() -> None:
    """Whole projects: list the snapshots, see what having them takes, bring their files into the archive."""


@snapshots.command("list")
@click.option("--project", "projects", multiple=True, help="A project, for example enwiki; may be given again.")
@click.option("--all", "everything", is_flag=True, help="All projects of the service, not only the mirrored ones.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for scripts.")
def list_snapshots(*, projects: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """List the snapshots of the mirrored projects, of some projects, or all. Costs no quota."""
    from assets import names
    from pipelines.operations import snapshots as snapshots_
    from resources.lake import Layout

    if projects and everything:
        raise click.UsageError("--project and --all exclude each other.")
    settings = read_settings()
    with service.client(settings) as client:
        if projects:
            names.check(client, Layout(settings.data), projects, correct="--project")
        elif not everything:
            names.check(client, Layout(settings.data), settings.projects, settings.namespaces)
        found = snapshots_.listed(client)
    if projects:
        found = [snapshot for snapshot in found if snapshot.project_id in projects]
    elif not everything:
        found = [s for s in found if s.project_id in settings.projects and s.namespace_id in settings.namespaces]
    if as_json:
        for snapshot in found:
            click.echo(json.dumps(snapshots_.snapshot_json(snapshot), ensure_ascii=False))
    elif found:
        rows = [
            (
                s.identifier,
                s.project_id,
                s.namespace_id,
                size_text(s.approximate_bytes),
                len(s.chunks),
                s.version[:8],
                s.date_modified,
            )
            for s in found
        ]
        columns = ("identifier", "project", "namespace", "size", "chunks", "version", "modified (UTC)")
        terminal.show(columns, rows, spare=("project", "namespace", "modified (UTC)"))
    wanted = () if everything else projects or settings.projects
    without = [project for project in wanted if project not in {snapshot.project_id for snapshot in found}]
    if without:
        where = "" if projects else f" in the mirrored namespaces ({', '.join(map(str, settings.namespaces))})"
        raise click.ClickException(
            f"The service has no snapshot of {', '.join(without)}{where}. "
            "`wme snapshots list --all` names those that there are."
        )


def _choice(command: Callable[..., None]) -> Callable[..., None]:
    """What planning and fetching have in common."""
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document, for scripts."),
        click.option("--beyond-quota", is_flag=True, help="Begin although the quota does not suffice; the rest later."),
        click.option("--chunks", is_flag=True, help="In chunks, whatever seems better."),
        click.option("--whole", is_flag=True, help="As one file each, whatever seems better."),
        click.argument("identifiers", metavar="ID...", type=IDENTIFIER, nargs=-1, required=True),
    ):
        command = decorate(command)
    return command


@snapshots.command("plan")
@_choice
def plan_snapshots(
    *, identifiers: tuple[str, ...], whole: bool, chunks: bool, beyond_quota: bool, as_json: bool
) -> None:
    """Say what having snapshots takes: in which form and why, quota units, GB, disk. Fetches nothing, costs nothing.

    ID is a snapshot as `wme snapshots list` names it, for example enwiki_namespace_0. The exit code is 1 where
    `wme snapshots download` would not begin.
    """
    from pipelines.operations import snapshots as snapshots_

    if whole and chunks:
        raise click.UsageError("--whole and --chunks exclude each other.")
    settings = read_settings()
    wishes = snapshots_.wishes_of(settings, whole=whole, chunks=chunks, beyond_quota=beyond_quota)
    with service.client(settings) as client:
        together = snapshots_.plan(client, settings, identifiers, wishes)
    if as_json:
        click.echo(json.dumps(snapshots_.together_json(together), ensure_ascii=False, indent=2))
    else:
        _show_together(together)
        terminal.OUT.print("Nothing was fetched.")
    if together.obstacle is not None:
        raise click.ClickException(together.obstacle)


def _show_together(together: Any) -> None:
    for plan in together.plans:
        terminal.OUT.print(plan.sentence, markup=False, soft_wrap=True)
    units = [counted(count, f"{product} unit") for product, count in together.unit_counts.items()]
    count = len(together.plans)
    terminal.OUT.print(
        f"{'In all' if count == 1 else f'The {count} snapshots together'}: {' and '.join(units) or 'no unit'} of quota, "
        f"{size_text(together.missing_bytes)} to fetch, {size_text(together.disk_bytes)} of disk in the end, with the lake and DuckDB "
        f"({size_text(together.free_bytes)} free).",
        soft_wrap=True,
    )


@snapshots.command("download")
@_choice
@click.option("--workers", type=click.IntRange(1, 64), default=4, show_default=True, help="Files fetched at once.")
def download_snapshots(
    *, identifiers: tuple[str, ...], whole: bool, chunks: bool, beyond_quota: bool, as_json: bool, workers: int
) -> None:
    """Bring snapshots into the archive, verified. What is there is not fetched again; run it again to go on.

    ID is a snapshot as `wme snapshots list` names it, for example enwiki_namespace_0. Nothing is begun that the quota
    or the disk would not let end, unless --beyond-quota allows it.
    """
    from pipelines.operations import snapshots as snapshots_

    if whole and chunks:
        raise click.UsageError("--whole and --chunks exclude each other.")
    settings = read_settings()
    service.announce(settings)
    wishes = snapshots_.wishes_of(settings, whole=whole, chunks=chunks, beyond_quota=beyond_quota)
    with service.client(settings) as client:
        together = snapshots_.plan(client, settings, identifiers, wishes)
        if not as_json:
            _show_together(together)
        with terminal.progress() as reporter:
            report = snapshots_.download(client, together, workers=workers, reporter=reporter)
    if as_json:
        click.echo(json.dumps(snapshots_.report_json(report), ensure_ascii=False, indent=2))
    else:
        for fetched in report.done:
            _show_fetched(fetched)
    if report.failures:
        raise click.ClickException(report.sentence())


def _show_fetched(fetched: Any) -> None:
    terminal.OUT.print(
        f"{fetched.plan.identifier}: {counted(len(fetched.downloads), 'file')}, {size_text(fetched.size_bytes)}, in "
        f"{fetched.plan.folder}; fetched {fetched.fetched_count:,} of them ({size_text(fetched.fetched_bytes)}) for "
        f"{counted(fetched.unit_count, f'{fetched.plan.product} unit')}.",
        markup=False,
        soft_wrap=True,
    )
    if fetched.replaced:
        size = size_text(sum(path.stat().st_size for path in fetched.replaced))
        terminal.OUT.print(
            f"Beside it: {counted(len(fetched.replaced), 'file')} of another version or form ({size}).",
            markup=False,
            soft_wrap=True,
        )
