"""The `wme snapshots` commands, which list snapshots, plan downloads, and download snapshots into the archive."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from pipelines.cli import Group, terminal
from pipelines.cli.records import answered
from pipelines.cli.terminal import CHUNK, SNAPSHOT, dataset_option
from resources import connection
from resources.datasets import Dataset, Family
from resources.datasets.paths import short
from resources.enterprise import EnterpriseClient, Listing, Query, SnapshotOptions, SnapshotPlan, endpoints
from resources.enterprise.models import Record
from resources.enterprise.query import Kind
from resources.formatting import counted, refusal, size_text
from resources.settings import read as read_settings

_dataset = dataset_option(Family.SNAPSHOT)


@click.group(cls=Group)
def snapshots() -> None:
    """List project snapshots, plan downloads, and download snapshots into the archive."""


@snapshots.command("list")
@click.option(
    "--project",
    "projects",
    multiple=True,
    help="List only this project, for example enwiki. The option can be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="List all projects, not only mirrored projects.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for scripts.")
@_dataset
def list_snapshots(*, projects: tuple[str, ...], everything: bool, as_json: bool, dataset: Dataset) -> None:
    """List snapshots of mirrored, selected or all projects. Costs no quota."""
    from pipelines.operations import snapshots as snapshots_
    from resources.lake import Layout

    if projects and everything:
        raise click.UsageError("--project and --all are mutually exclusive.")
    settings = read_settings(scoped=not everything and not projects)
    with connection.client(settings, writes=False) as client:
        if projects:
            connection.check_names(client, Layout(settings.data), projects, correct="--project")
        elif not everything:
            connection.check_names(client, Layout(settings.data), settings.projects, settings.namespaces)
        found = sorted(client.snapshots.listing(dataset), key=lambda s: (s.project_id, s.namespace_id, s.identifier))
    scope = settings.scope_of(dataset) or dataset.places
    wanted = () if everything else projects or tuple(dict.fromkeys(project for project, _ in scope))
    if not everything:
        found = [s for s in found if s.project_id in wanted and (projects or (s.project_id, s.namespace_id) in scope)]
    if as_json:
        for snapshot in found:
            terminal.show_json(snapshots_.snapshot_json(snapshot), indent=None)
    elif found:
        rows = [
            (
                *(s.identifier, s.project_id, s.namespace_id, size_text(s.approximate_bytes)),
                *(len(s.chunks), short(s.version), s.date_modified),
            )
            for s in found
        ]
        columns = ("identifier", "project", "namespace", "size", "chunks", "version", "modified (UTC)")
        terminal.show(columns, rows, spare=("project", "namespace", "modified (UTC)"))
    without = [project for project in wanted if project not in {snapshot.project_id for snapshot in found}]
    if without:
        where = "" if projects else f" in the mirrored namespaces ({', '.join(map(str, settings.namespaces))})"
        raise click.ClickException(
            f"The service has no snapshots for {', '.join(without)}{where}. "
            "`wme snapshots list --all` shows all snapshots."
        )


@snapshots.command("show")
@click.argument("identifier", metavar="ID", type=SNAPSHOT)
@_dataset
@functools.partial(answered, Kind.RECORD)
def show_snapshot(client: EnterpriseClient, asked: Query, identifier: str, dataset: Dataset) -> Record:
    """Show the service's record of the snapshot ID. Costs no quota."""
    return client.lists.record(endpoints.record(endpoints.records(dataset), identifier), asked)


@snapshots.command("chunks")
@click.argument("identifier", metavar="ID", type=SNAPSHOT)
@click.argument("chunk", metavar="[CHUNK]", type=CHUNK, required=False)
@_dataset
@functools.partial(answered, Kind.LIST)
def list_chunks(
    client: EnterpriseClient, asked: Query, identifier: str, chunk: str | None, dataset: Dataset
) -> Listing[Record] | Record:
    """List the chunks of the snapshot ID, or only CHUNK (an identifier or a number). Costs no quota."""
    if not dataset.is_chunked:
        raise click.UsageError(f"The snapshots of {dataset.name} have no chunks. Nothing was sent.")
    path = endpoints.chunks(endpoints.record(endpoints.records(dataset), identifier))
    if chunk is not None:
        return client.lists.record(endpoints.record(path, chunk), asked)
    return client.lists.records(path, asked)


def _option(declared: tuple[str, FieldInfo]) -> Callable[..., Any]:
    name, field = declared
    if field.annotation is bool:
        return click.option(f"--{name.replace('_', '-')}", is_flag=True, help=field.description)
    bounds = {key: getattr(one, key) for one in field.metadata for key in ("ge", "le") if hasattr(one, key)}
    numbers = click.IntRange(bounds.get("ge"), bounds.get("le"))
    return click.option(f"--{name.replace('_', '-')}", type=numbers, help=field.description)


def _choice(command: Callable[..., None]) -> Callable[..., None]:
    """Add the parameters that the plan and download commands share."""
    for decorate in (
        _dataset,
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for scripts."),
        *map(_option, reversed(SnapshotOptions.model_fields.items())),
        click.argument("identifiers", metavar="ID...", type=SNAPSHOT, nargs=-1, required=True),
    ):
        command = decorate(command)
    return command


@contextmanager
def _planned(
    identifiers: tuple[str, ...], *, dataset: Dataset, writes: bool = False, **choice: Any
) -> Iterator[tuple[EnterpriseClient, list[SnapshotPlan]]]:
    from assets.steps.snapshot import fetch_options
    from pipelines.operations import snapshots as snapshots_

    try:
        chosen = SnapshotOptions(**choice)
    except ValidationError as error:
        raise click.UsageError(refusal(error)) from None
    settings = read_settings(scoped=False)
    wanted = fetch_options(settings.min_free_gb, chosen)
    with connection.client(settings, writes=writes) as client:
        yield client, snapshots_.plan(client, settings, identifiers, wanted, dataset)


@snapshots.command("plan")
@_choice
def plan_snapshots(*, identifiers: tuple[str, ...], as_json: bool, **choice: Any) -> None:
    """Show the form and the cost of snapshot downloads: quota units, bytes and disk space. Costs no quota.

    ID is an identifier from `wme snapshots list`, for example enwiki_namespace_0. The exit code is 1 if `wme snapshots
    download` would refuse the download.
    """
    from pipelines.operations import snapshots as snapshots_

    with _planned(identifiers, **choice) as (_, plans):
        pass
    found = snapshots_.plan_json(plans)
    if as_json:
        terminal.show_json(found)
    else:
        _show_plan(found)
        terminal.OUT.print("Nothing was downloaded.")
    if found["obstacle"] is not None:
        raise click.ClickException(found["obstacle"])


def _show_plan(found: dict[str, Any]) -> None:
    for plan in found["snapshots"]:
        terminal.say(plan["sentence"])
    units = [counted(count, f"{product} unit") for product, count in found["unit_counts"].items()]
    number = len(found["snapshots"])
    terminal.OUT.print(
        f"{'Total' if number == 1 else f'Total of the {number} snapshots'}: {' and '.join(units) or 'no units'} of "
        f"quota, {size_text(found['missing_bytes'])} to download, {size_text(found['disk_bytes'])} of disk space "
        f"including the lake and DuckDB ({size_text(found['free_bytes'])} free).",
        soft_wrap=True,
    )


@snapshots.command("download", cls=terminal.Writing)
@_choice
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Number of files to download at the same time.",
)
def download_snapshots(*, identifiers: tuple[str, ...], as_json: bool, workers: int, **choice: Any) -> None:
    """Download snapshots into the archive and verify them. Complete files are not downloaded again.

    ID is an identifier from `wme snapshots list`, for example enwiki_namespace_0. Downloads that exceed the remaining
    quota or disk space are not started. --beyond-quota allows downloads that exceed the quota. If interrupted, run the
    command again.
    """
    from pipelines.operations import snapshots as snapshots_

    with _planned(identifiers, writes=True, **choice) as (client, plans):
        if not as_json:
            _show_plan(snapshots_.plan_json(plans))
        with terminal.progress() as reporter:
            report = snapshots_.download(client, plans, workers=workers, reporter=reporter)
    if as_json:
        terminal.show_json(snapshots_.report_json(report))
    else:
        for plan, downloads in report.done:
            found = snapshots_.fetched_json(plan, downloads)
            terminal.say(
                f"{plan.identifier}: {counted(len(downloads), 'file')}, {size_text(found['size_bytes'])}, in "
                f"{plan.folder}; fetched {found['fetched_file_count']:,} of them ({size_text(found['fetched_bytes'])}) "
                f"for {counted(found['used_unit_count'], f'{plan.product} unit')}."
            )
            if names := found["replaced_files"]:
                size = size_text(sum((plan.folder / name).stat().st_size for name in names))
                terminal.say(
                    f"The folder also contains {counted(len(names), 'file')} from other versions or forms ({size})."
                )
    if report.failures:
        raise click.ClickException(report.sentence())
