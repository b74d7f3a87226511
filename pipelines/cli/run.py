"""The `wme run` command, which fetches, loads and publishes hours and snapshots, and shows the result."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli import terminal
from pipelines.cli.terminal import HOUR, dataset_name, quiet_option
from resources import connection, datasets
from resources.datasets import Dataset, Family
from resources.enterprise import EnterpriseClient
from resources.enterprise.errors import UnreachableError
from resources.formatting import counted, hour_text, size_text
from resources.lake import Layout
from resources.settings import Settings
from resources.settings import read as read_settings
from resources.tables import HourState
from resources.warehouse import Row, Warehouse, named, next_text
from resources.warehouse.read import coverage

if TYPE_CHECKING:
    from pipelines.operations.run import RunReport


#: Default and maximum wait in minutes. The service retains each hour for two days.
_DEFAULT_MINUTES, _MOST_MINUTES = 60, 48 * 60
#: Example questions with the SQL that answers them. The first run shows the results.
EXAMPLES = {
    "Which pages were edited most?": """\
SELECT project_id, name, edit_count, editor_count
FROM most_edited LIMIT 3""",
    # count only flags that are true, because null means false
    "Who edits: bots, anonymous or registered users?": """\
SELECT project_id, count(*) FILTER (editor_is_bot) AS bots, count(*) FILTER (editor_is_anonymous) AS anonymous,
       count(*) - bots - anonymous AS registered
FROM distinct_changes WHERE change_type = 'update'
GROUP BY project_id ORDER BY project_id""",
    "How long are the current articles?": """\
SELECT a.project_id, count(*) AS articles, median(length(b.wikitext))::INT AS median_characters
FROM articles a JOIN article_bodies b USING (project_id, article_id, version_id, source_at)
GROUP BY ALL ORDER BY a.project_id""",
}


@click.command(cls=terminal.Writing)
@click.option(
    "--hours",
    "count",
    type=click.IntRange(1, 48),
    help="Number of recent hours to fetch and load.  [default: 3, plus earlier missing hours that the service "
    "still retains]",
)
@click.option("--from", "first", type=HOUR, help="First hour (UTC), for example 2026-11-20T05, instead of --hours.")
@click.option("--to", "last", type=HOUR, help="Last hour (UTC).  [default: the same as --from]")
@click.option("--dry-run", is_flag=True, help="Show the number of files, GB and quota units without fetching anything.")
@click.option(
    "--reference/--no-reference", default=None, help="Fetch or skip the reference lists.  [default: once a day]"
)
@click.option(
    "--snapshots",
    type=click.Choice(["missing", "newer"]),
    is_flag=False,
    flag_value="missing",
    help="Fetch snapshots first. 'missing', or no value, selects projects without a snapshot. 'newer' also selects "
    "snapshots with a newer version. With an account, snapshots count against your quota.  [default: missing with the "
    "sandbox, otherwise none]",
)
@click.option("--no-snapshots", is_flag=True, help="Fetch no snapshots, even with the sandbox.")
@click.option(
    "--dataset",
    "wanted",
    type=dataset_name(Family.SNAPSHOT),
    metavar="NAME",
    multiple=True,
    help="Fetch only snapshots of this dataset. The option can be repeated.  [default: every dataset with --snapshots, "
    "otherwise articles only]",
)
@click.option(
    "--wait",
    type=click.IntRange(1, _MOST_MINUTES),
    is_flag=False,
    flag_value=_DEFAULT_MINUTES,
    metavar="[MINUTES]",
    help="If a host is unreachable, wait up to this many minutes for the host, then continue. Without a number, the "
    f"limit is {_DEFAULT_MINUTES} minutes.",
)
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables, for scripts.")
def run(
    *,
    count: int | None,
    first: datetime | None,
    last: datetime | None,
    dry_run: bool,
    reference: bool | None,
    snapshots: str | None,
    no_snapshots: bool,
    wanted: tuple[Dataset, ...],
    wait: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Fetch, load and publish reference lists, snapshots and hours."""
    if dry_run and (quiet or as_json):
        raise click.UsageError("--dry-run cannot be combined with --quiet or --json.")
    if snapshots and no_snapshots:
        raise click.UsageError("--snapshots and --no-snapshots are mutually exclusive.")
    if first is not None and count is not None:
        raise click.UsageError("--hours and --from are mutually exclusive.")
    if last is not None and first is None:
        raise click.UsageError("--to needs --from.")
    if first is not None and last is not None and last < first:
        raise click.UsageError("--to is before --from.")
    if first is not None and (last or first) + timedelta(hours=1) > datetime.now(UTC):
        # a future hour would be recorded, and all hours before that hour would be reported as missing
        raise click.UsageError(
            "The range contains an hour that has not ended yet (UTC). Nothing was done. Choose earlier hours."
        )

    from pipelines.automation import discovery
    from pipelines.operations import run as runs
    from resources.adapters import ConfiguredEngine

    terminal.hush(answers=quiet or as_json, progress=quiet)
    settings = read_settings()
    hours: list[datetime] = runs.hours_between(first, last or first) if first is not None else []
    with_lacking = first is None and count is None

    def choose(client: EnterpriseClient) -> dict[Dataset, list[str]]:
        """Check the names, choose the hours, and return the snapshots to load first."""
        connection.check_names(client, Layout(settings.data), settings.projects, settings.namespaces)
        if first is None:
            hours[:] = runs.newest_hours(client, count or 3, datetime.now(UTC), datasets.default(Family.HOURLY))
        if no_snapshots or not (snapshots or settings.sandbox):
            return {}
        terminal.warn("Listing the service's snapshots")
        # by default, only snapshots of articles, because each dataset downloads complete projects
        chosen = wanted or (() if snapshots else (datasets.default(Family.SNAPSHOT),))
        return discovery.snapshots_to_fetch(client, settings, chosen, newer=snapshots == "newer")

    def attempt() -> "RunReport":
        try:
            if settings.sandbox and connection.found_sandbox(settings) is None:
                terminal.warn("Starting the sandbox. Creating its first archives takes about 30 seconds.")
            terminal.warn("Looking for the newest hours")
            with connection.client(settings) as client:
                missing = choose(client)
        except UnreachableError as error:
            return runs.RunReport([str(error)], unreachable=True)
        with terminal.progress() as reporter:
            return runs.run(
                settings,
                hours,
                snapshots=missing,
                refresh_reference=reference,
                with_lacking=with_lacking,
                say=terminal.warn,
                engine=ConfiguredEngine(settings, reporter),
            )

    if dry_run:
        with connection.client(settings) as client:
            missing = choose(client)
            if with_lacking:
                lacking = discovery.lacking_hours(settings, hours[-1], datetime.now(UTC))
                hours = sorted({*hours, *lacking})
            _show_dry_run(hours, missing, client, settings)
        if with_lacking and any(missing.values()):
            terminal.say(
                "Hours after a new snapshot's export are also fetched if the service still retains these hours."
            )
        return
    report = runs.outlast(attempt, partial(runs.is_reachable, settings), wait or 0, terminal.warn)
    report_lake(settings, report)
    if as_json:
        terminal.show_json(_as_json(settings, report))
    elif hours and not quiet:
        _show_run(settings, report)
    if report.failures:
        raise click.ClickException("\n".join(report.failures))


def report_lake(settings: Settings, report: "RunReport") -> None:
    """Print missing and damaged lake files. The run fails if a damaged file was not restored."""
    if not report.repaired:
        return
    terminal.warn(report.repaired)
    faulty = Warehouse(settings.data).faulty_lake_files(published=True)
    if gone := [file for file in faulty if file.is_gone]:
        terminal.warn(f"Rows from missing lake files are not in the published file: {named(gone)}.")
    if damaged := [file for file in faulty if not file.is_gone]:
        report.failures.append(
            f"{counted(len(damaged), 'damaged lake file')} could not be restored: {named(damaged)}. All other data is "
            "published. If the archive does not contain the files' content, restore the files from a backup "
            "(docs/recover.md, Damaged lake files)."
        )


def _show_dry_run(
    hours: list[datetime], missing: dict[Dataset, list[str]], client: EnterpriseClient, settings: Settings
) -> None:
    """Print the files that a run would fetch, and their cost. Hourly files and reference lists cost no quota."""
    from assets.steps.hour import DISK_FACTOR, plan_hour
    from assets.steps.snapshot import plan_snapshot
    from pipelines.automation.discovery import reference_due

    layout = Layout(settings.data)
    hourly = [
        plan_hour(hour, client, layout, settings.scope_of(one), one)
        for hour in hours
        for one in filter(settings.scope_of, datasets.datasets(Family.HOURLY))
    ]
    snapshots = [plan_snapshot(name, client, layout, 0, one) for one, names in missing.items() for name in names]
    found: list[Any] = [
        (p, hour_text(p.hour), r, r.approximate_bytes, r in p.missing) for p in hourly for r in p.wanted
    ]
    found += [(p, "snapshot", p.snapshot, p.size_bytes, bool(p.missing)) for p in snapshots]
    rows = [
        (p.dataset.name, hour, record.project_id, record.namespace_id, size, "yes" if is_missing else "no")
        for p, hour, record, size, is_missing in found
    ]
    terminal.show(("table", "hour (UTC)", "project", "namespace", "bytes", "to fetch"), rows, varying=("table",))
    is_due = reference_due(layout, Warehouse(settings.data), datetime.now(UTC))
    lists = " and the reference lists" if is_due else ""
    every: list[Any] = [*hourly, *snapshots]
    file_count, byte_count = sum(len(plan.missing) for plan in every), sum(plan.missing_bytes for plan in every)
    disk_bytes = sum(plan.missing_bytes for plan in hourly) * DISK_FACTOR + sum(plan.disk_bytes for plan in snapshots)
    unit_count = sum(plan.unit_count for plan in snapshots)
    terminal.OUT.print(
        f"To fetch: {counted(file_count, 'file')}, {byte_count / 1e9:.3f} GB{lists}; "
        f"{counted(unit_count, 'quota unit')}. Disk space needed: about {disk_bytes / 1e9:.3f} GB. Nothing was fetched."
    )


def _as_json(settings: Settings, report: "RunReport") -> dict[str, Any]:
    """Return the outcome of a run as JSON values, with files by hour, the publication state, and failures."""
    warehouse = Warehouse(settings.data)
    has_file = warehouse.publication() is not None
    return {
        "data": settings.data,
        "published_file": warehouse.published_path if has_file else None,
        "is_published": has_file and warehouse.unpublished_revision() is None,
        "hours": [
            {"table": dataset.name, **vars(row), "seconds": seconds}
            for dataset, row, seconds in _rows(warehouse, report)
        ],
        "failures": report.failures,
        "repaired": report.repaired,
        "is_unreachable": report.unreachable,
    }


def _rows(warehouse: Warehouse, report: "RunReport") -> Iterator[tuple[Dataset, Row, float]]:
    """Yield the dataset, the summary row, and the download and conversion seconds for each hour."""
    # use the build file, because the published file can be outdated
    for dataset in datasets.datasets(Family.HOURLY) if report.hours else ():
        for row in warehouse.summary(hours=report.hours, published=False, dataset=dataset):
            archive = f"{row.project_id}_namespace_{row.namespace_id}"
            yield dataset, row, report.seconds.get((dataset.name, row.batch_hour, archive), 0.0)


def _show_run(settings: Settings, report: "RunReport") -> None:
    warehouse = Warehouse(settings.data)
    rows = [
        (
            *(dataset.name, row.batch_hour, row.project_id, row.namespace_id, row.state, row.file_count, row.row_count),
            *(row.duplicate_count, row.update_count, row.delete_count, row.reject_count),
            *(size_text(row.archive_bytes), size_text(row.ndjson_bytes), seconds),
        )
        for dataset, row, seconds in _rows(warehouse, report)
    ]
    columns = (
        *("table", "hour (UTC)", "project", "ns", "state", "files", "rows", "duplicates", "update", "delete"),
        *("rejects", "archive", "ndjson", "seconds"),
    )
    if rows:
        spare = ("table", "duplicates", "ndjson", "files", "seconds", "ns")
        terminal.show(columns, rows, spare=spare, varying=("table",))
    if warehouse.unpublished_revision() is not None:
        when = next_text(warehouse.publication(), settings.publish_every)
        terminal.say(f"\nThe loaded data will be published {when}.")
    if warehouse.publication() is None:
        return
    scopes = {one: settings.scope_of(one) for one in datasets.datasets(Family.HOURLY)}
    found = coverage.health(warehouse, scopes, datetime.now(UTC), published=False)
    missing = len({hour for gap in found.gaps if gap.state != HourState.PAST_RETENTION for hour in gap.hours})
    for sentence in found.without_snapshot:
        terminal.say(f"\n{sentence}")
    if missing:
        terminal.say(f"\n{counted(missing, 'hour')} missing. See `wme status` for commands that fetch missing hours.")
    terminal.say(
        f"\nDuckDB file: {warehouse.published_path} (open it read-only; each publication replaces the file "
        "atomically)\n"
    )
    shown = settings.data / "state" / "examples"
    if report.failures or shown.exists():
        return  # failures must be the last output, and the examples are shown only once
    for question, query in EXAMPLES.items():
        answer = warehouse.sql(query)
        terminal.OUT.print(question, style="bold")
        terminal.OUT.print(query, markup=False, style="dim")
        terminal.show(answer.columns, answer.rows)
        terminal.OUT.print()
    shown.touch()
