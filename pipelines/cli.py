"""`wme`: the mirror from the command line.

Belongs here: commands, their options and help, sentences on failure, exit codes (0 done, 1 failed, 2 wrong call).
Does not belong here: work. Every command is a few lines over a function that Python can call as well.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import sys
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

import click
from dotenv import load_dotenv

from pipelines import settings as settings_module
from pipelines import terminal
from resources.engine.progress import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipelines.settings import Settings
    from resources.enterprise import EnterpriseClient

# Dagster takes a second to import: only the commands that run it do so, so that `--help` and `sql` answer at once.


class _Hour(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An hour (UTC) as people, the tables of this program or Dagster's partition keys write it."""

    name = "hour"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The start of the hour."""
        found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T -](\d\d)(:00(:00)?)?Z?", str(value))
        try:
            return datetime.fromisoformat(f"{found[1]}T{found[2]}:00+00:00" if found else "")
        except ValueError:
            self.fail(f"{str(value)!r} is not an hour; write it as 2026-11-20T05 (UTC).", param, ctx)


class _Identifier(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The service's name of a snapshot; it becomes the name of a folder."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(value)):
            self.fail(f"{str(value)!r} names no snapshot; write it as enwiki_namespace_0.", param, ctx)
        return str(value)


_HOUR = _Hour()

#: The questions of the closing table, each with its SQL: what an analyst could ask first.
EXAMPLES = {
    "Which pages were edited most?": """\
SELECT project_id, name, count(*) AS edits
FROM article_changes WHERE change_type = 'update'
GROUP BY ALL ORDER BY edits DESC, project_id, name LIMIT 3""",
    # null means no, so the flags are counted where they are true
    "Who edits: bots, anonymous, registered?": """\
SELECT project_id, count(*) FILTER (editor_is_bot) AS bots, count(*) FILTER (editor_is_anonymous) AS anonymous,
       count(*) - bots - anonymous AS registered
FROM article_changes WHERE change_type = 'update'
GROUP BY project_id ORDER BY project_id""",
    "How long are the current articles?": """\
SELECT a.project_id, count(*) AS articles, median(length(b.wikitext))::INT AS median_characters
FROM articles a JOIN article_bodies b USING (project_id, article_id, version_id, batch_hour)
GROUP BY ALL ORDER BY a.project_id""",
}


def main() -> None:
    """Entry point: failures that were foreseen are a sentence on standard error and exit code 1."""
    load_dotenv()
    try:
        wme.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        terminal.ERR.print("Stopped. What was committed stays; run the same command again to go on.")
        sys.stdout.flush()
        # not sys.exit, which would wait for downloads under way; they go on from their parts
        os._exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        terminal.ERR.print(sentence, markup=False)
        sys.exit(1)


def _sentence(error: Exception) -> str | None:
    """What to tell people of a failure that was foreseen: the library's own sentences, and what the system refused."""
    if type(error).__module__.split(".")[0] in {"resources", "assets", "pipelines"}:
        return str(error)
    if isinstance(error, OSError):
        from assets.failures import sentence

        return sentence(error)
    return None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="enterprise-content-mirror")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what is done.")
@click.pass_context
def wme(context: click.Context, *, verbose: bool) -> None:
    """A local, verified, always-current mirror of an Enterprise Content Service.

    Without an account (WME_USERNAME, WME_PASSWORD) everything runs against the built-in sandbox.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    context.call_on_close(terminal.OUT.file.flush)


def _settings() -> Settings:
    return settings_module.read()


@contextmanager
def _client(settings: Settings) -> Iterator[EnterpriseClient]:
    from pipelines.definitions import build_enterprise

    with build_enterprise(settings).client() as client:
        yield client


@wme.command()
@click.option("--hours", "count", type=click.IntRange(1, 48), help="Newest hours to bring in.  [default: 3]")
@click.option("--from", "first", type=_HOUR, help="First hour (UTC), for example 2026-11-20T05, instead of --hours.")
@click.option("--to", "last", type=_HOUR, help="Last hour (UTC); default: the same as --from.")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched (files, GB, quota units) and stop.")
@click.option("--reference/--no-reference", default=None, help="Pull the reference lists, or not; default: once a day.")
@click.option(
    "--snapshots/--no-snapshots",
    default=None,
    help="Begin with the snapshots of projects that have none yet, or not; default: with the sandbox only, because they "
    "cost an account quota and hold whole projects.",
)
def run(
    *,
    count: int | None,
    first: datetime | None,
    last: datetime | None,
    dry_run: bool,
    reference: bool | None,
    snapshots: bool | None,
) -> None:
    """Run the main job: reference lists, snapshots and hours, from the service to the published DuckDB file."""
    if first is not None and count is not None:
        raise click.UsageError("--hours and --from exclude each other.")
    if last is not None and first is None:
        raise click.UsageError("--to needs --from.")
    if first is not None and last is not None and last < first:
        raise click.UsageError("--to lies before --from.")

    from pipelines import run as runs
    from pipelines.definitions import build_enterprise
    from resources.lake import Layout
    from resources.warehouse import Warehouse

    settings = _settings()
    enterprise = build_enterprise(settings)
    _say_where(settings)
    with enterprise.client() as client:
        if first is not None:
            hours = runs.hours_between(first, last or first)
        else:
            hours = runs.newest_hours(client, count or 3, datetime.now(UTC))
        missing = (
            runs.missing_snapshots(client, enterprise.scope, Warehouse(settings.data))
            if (settings.sandbox if snapshots is None else snapshots)
            else []
        )
        if dry_run:
            _show_dry_run(runs.dry_run(hours, missing, client, enterprise.scope, Layout(settings.data)))
            return
    with terminal.progress():
        report = runs.run(settings, hours, snapshots=missing, refresh_reference=reference, engine=_engine())
    _show_run(settings, hours, report.seconds)
    if report.failures:
        raise click.ClickException("\n".join(report.failures))


def _engine() -> Any:
    from pipelines.terminal_engine import TerminalEngine

    return TerminalEngine()


def _say_where(settings: Settings) -> None:
    if settings.sandbox:
        terminal.ERR.print(
            "Service: the built-in sandbox (synthetic pages). Set WME_USERNAME, WME_PASSWORD and WME_PROJECTS for a real account."
        )
    else:
        terminal.ERR.print(f"Service: {settings.base_url}")


def _show_dry_run(plan: Any) -> None:
    from assets.partitions import hour_text

    rows = [
        (hour_text(p.hour), record.project_id, record.namespace_id, record.approximate_bytes)
        for p in plan.plans
        for record in p.wanted
    ]
    rows += [("snapshot", p.snapshot.project_id, p.snapshot.namespace_id, p.size_bytes) for p in plan.snapshots]
    terminal.show(("hour (UTC)", "project", "namespace", "bytes"), rows)
    lists = " and the reference lists" if plan.reference_due else ""
    terminal.OUT.print(
        f"To fetch: {plan.file_count} files, {plan.byte_count / 1e9:.3f} GB{lists}; {plan.quota_units} quota units. "
        f"In the end about {plan.disk_bytes / 1e9:.3f} GB of disk. Nothing was fetched."
    )


def _show_run(settings: Settings, hours: list[datetime], seconds: dict[tuple[datetime, str], float]) -> None:
    from resources.warehouse import NotPublishedError, QueryError, Warehouse

    warehouse = Warehouse(settings.data)
    try:
        summary = warehouse.summary(hours=hours)
    except (NotPublishedError, QueryError):  # what failed is told by the run itself
        return
    rows = [
        (
            row.batch_hour,
            row.project_id,
            row.namespace_id,
            row.state,
            row.file_count,
            row.row_count,
            row.duplicate_count,
            row.update_count,
            row.delete_count,
            row.reject_count,
            amount(row.archive_bytes, "B"),
            amount(row.ndjson_bytes, "B"),
            seconds.get((row.batch_hour, f"{row.project_id}_namespace_{row.namespace_id}"), 0.0),
        )
        for row in summary
    ]
    columns = (
        *("hour (UTC)", "project", "ns", "state", "files", "rows", "duplicates", "update", "delete", "rejects"),
        *("archive", "ndjson", "seconds"),
    )
    terminal.show(columns, rows, spare=("duplicates", "ndjson", "files", "seconds", "ns"))
    terminal.OUT.print(
        f"\nDuckDB file: {warehouse.published_path} (open it read-only; it is replaced whole, never locked)\n",
        markup=False,
        soft_wrap=True,
    )
    for question, query in EXAMPLES.items():
        answer = warehouse.sql(query)
        terminal.OUT.print(question, style="bold")
        terminal.OUT.print(query, markup=False, style="dim")
        terminal.show(answer.columns, answer.rows)
        terminal.OUT.print()


@wme.command()
@click.option(
    "--hours", "count", type=click.IntRange(1, 24 * 31), default=48, show_default=True, help="How far back, say 72."
)
@click.option("--check", is_flag=True, help="Exit with 1 when something needs attention (a line that begins with !).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, hour by hour, for scripts.")
def status(*, count: int, check: bool, as_json: bool) -> None:
    """Say how the mirror stands: service, account, size, what is pending, and every one of the newest hours."""
    from pipelines import heatmap
    from pipelines import status as statuses

    report = statuses.collect(_settings(), count)
    if as_json:
        click.echo(json.dumps(statuses.as_json(report), ensure_ascii=False, indent=2))
    else:
        for name, value in report.facts:
            terminal.OUT.print(f"{name + ':':<18} {value}", markup=False, soft_wrap=True)
        if report.places:
            terminal.OUT.print()
            spare = ("not_yet", "past_retention", "absent", "empty", "exact from (UTC)", "exact until (UTC)")
            terminal.show(report.columns, report.coverage, spare=spare)
            terminal.OUT.print()
            for line in heatmap.lines(report.places, terminal.OUT.width):
                terminal.OUT.print(line, soft_wrap=True)
            terminal.OUT.print()
        for trouble in report.troubles:
            terminal.OUT.print(f"! {trouble}", markup=False, soft_wrap=True)
    if check and report.troubles:
        sys.exit(1)


@wme.command()
@click.argument("query", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Form of the answer; json is one object a line.",
)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows shown; for table only.")
def sql(*, query: str | None, form: str, limit: int) -> None:
    """Ask the published file, read-only. QUERY is SQL, or comes from standard input."""
    from resources.warehouse import Warehouse

    text = query if query is not None else sys.stdin.read()
    if not text.strip():
        raise click.UsageError("There is no query: give one as an argument or on standard input.")
    answer = Warehouse(_settings().data).sql(text)
    if form == "json":
        for row in answer.rows:
            click.echo(json.dumps(dict(zip(answer.columns, row, strict=True)), ensure_ascii=False, default=_plain))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_cell(value) for value in row] for row in answer.rows)
    elif answer.columns:
        terminal.show(answer.columns, answer.rows[:limit])
        if len(answer.rows) > limit:
            terminal.OUT.print(f"{len(answer.rows):,} rows, {limit:,} shown; --limit shows more.")


def _plain(value: Any) -> str:
    """A value that JSON has no form for."""
    if isinstance(value, date | time):
        return value.isoformat()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> Any:
    """A value in a CSV file: lists and structs as JSON, times in ISO 8601."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return _plain(value) if isinstance(value, date | time | bytes) else value


@wme.group()
def auth() -> None:
    """The account: log in, look at the tokens, revoke them, change the password."""


@auth.command()
def login() -> None:
    """Log in with WME_USERNAME and WME_PASSWORD and keep the tokens for every process of this data folder."""
    with _client(_settings()) as client:
        client.login()
        _show_tokens(client)


@auth.command("status")
def auth_status() -> None:
    """Say how long the tokens last, and, when logged in, the account's groups and quotas."""
    with _client(_settings()) as client:
        _show_tokens(client)
        if client.token_status().logged_in:
            terminal.OUT.print(terminal.account_text(client.user()), markup=False, soft_wrap=True)


@auth.command()
def refresh() -> None:
    """Get a new access token from the refresh token (90 uses, 90 days)."""
    with _client(_settings()) as client:
        client.refresh()
        _show_tokens(client)


@auth.command()
def revoke() -> None:
    """Revoke the refresh token and forget both tokens; the next request logs in again."""
    with _client(_settings()) as client:
        client.revoke()
    terminal.OUT.print("Revoked. The next request logs in again.")


def _show_tokens(client: EnterpriseClient) -> None:
    terminal.OUT.print(terminal.tokens_text(client.token_status()), markup=False, soft_wrap=True)


@auth.command("forgot-password")
def forgot_password() -> None:
    """Have a confirmation code sent to the account's e-mail address (in the sandbox: to its outbox folder)."""
    with _client(_settings()) as client:
        client.forgot_password()
    terminal.OUT.print("A confirmation code is on its way; set the new password with `wme auth confirm-password`.")


@auth.command("confirm-password")
@click.option("--code", prompt=True, help="Confirmation code.")
@click.option("--password", "new", prompt=True, hide_input=True, confirmation_prompt=True, help="New password.")
def confirm_password(*, code: str, new: str) -> None:
    """Set a new password with a confirmation code."""
    with _client(_settings()) as client:
        client.confirm_password(code, new)
    terminal.OUT.print("The new password is set; put it into WME_PASSWORD.")


@auth.command("change-password")
@click.option(
    "--previous", envvar="WME_PASSWORD", prompt=True, hide_input=True, help="Old password; default: WME_PASSWORD."
)
@click.option("--password", "new", prompt=True, hide_input=True, confirmation_prompt=True, help="New password.")
def change_password(*, previous: str, new: str) -> None:
    """Change the password."""
    with _client(_settings()) as client:
        client.change_password(previous, new)
    terminal.OUT.print("The new password is set; put it into WME_PASSWORD.")


@auth.command("new-password")
@click.option("--password", "new", prompt=True, hide_input=True, confirmation_prompt=True, help="New password.")
def new_password(*, new: str) -> None:
    """Answer the service's demand for a new password (challenge NEW_PASSWORD_REQUIRED)."""
    with _client(_settings()) as client:
        client.new_password(new)
    terminal.OUT.print("The new password is set; put it into WME_PASSWORD.")


@wme.command()
@click.argument("hour", type=_HOUR, required=False)
@click.option("--all", "everything", is_flag=True, help="All projects of the service, not only the mirrored ones.")
def batches(*, hour: datetime | None, everything: bool) -> None:
    """List the service's files of an hour (UTC), for example 2026-11-20T05; default: the newest hour there is."""
    from pipelines import run as runs

    settings = _settings()
    with _client(settings) as client:
        chosen = hour or runs.newest_hours(client, 1, datetime.now(UTC))[0]
        records = [
            record
            for record in client.batches(chosen).records
            if everything or (record.project_id in settings.projects and record.namespace_id in settings.namespaces)
        ]
    terminal.OUT.print(f"{terminal.moment(chosen)} UTC", style="bold")
    terminal.show(
        ("identifier", "version", "modified", "bytes"),
        [(r.identifier, r.version, r.date_modified, r.approximate_bytes) for r in records],
    )


@wme.group()
def snapshots() -> None:
    """Whole projects: list the snapshots, see what having them takes, bring their files into the archive."""


@snapshots.command("list")
@click.option("--project", "projects", multiple=True, help="A project, for example enwiki; may be given again.")
@click.option("--all", "everything", is_flag=True, help="All projects of the service, not only the mirrored ones.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for scripts.")
def list_snapshots(*, projects: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """List the snapshots of the mirrored projects, of some projects, or all. Costs no quota."""
    from pipelines import snapshots as snapshots_

    if projects and everything:
        raise click.UsageError("--project and --all exclude each other.")
    settings = _settings()
    with _client(settings) as client:
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
                amount(s.approximate_bytes, "B"),
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
        click.argument("identifiers", metavar="ID...", type=_Identifier(), nargs=-1, required=True),
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
    from pipelines import snapshots as snapshots_

    if whole and chunks:
        raise click.UsageError("--whole and --chunks exclude each other.")
    settings = _settings()
    wishes = snapshots_.wishes_of(settings, whole=whole, chunks=chunks, beyond_quota=beyond_quota)
    with _client(settings) as client:
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
    units = [f"{count:,} {product} unit{'' if count == 1 else 's'}" for product, count in together.unit_counts.items()]
    count = len(together.plans)
    terminal.OUT.print(
        f"{'In all' if count == 1 else f'The {count} snapshots together'}: {' and '.join(units) or 'no unit'} of quota, "
        f"{amount(together.missing_bytes, 'B')} to fetch, {amount(together.disk_bytes, 'B')} of disk for the archive "
        f"({amount(together.free_bytes, 'B')} free).",
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
    from pipelines import snapshots as snapshots_

    if whole and chunks:
        raise click.UsageError("--whole and --chunks exclude each other.")
    settings = _settings()
    _say_where(settings)
    wishes = snapshots_.wishes_of(settings, whole=whole, chunks=chunks, beyond_quota=beyond_quota)
    with _client(settings) as client:
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
    count = len(fetched.downloads)
    terminal.OUT.print(
        f"{fetched.plan.identifier}: {count:,} file{'' if count == 1 else 's'}, {amount(fetched.size_bytes, 'B')}, in "
        f"{fetched.plan.folder}; fetched {fetched.fetched_count:,} of them ({amount(fetched.fetched_bytes, 'B')}) for "
        f"{fetched.unit_count:,} {fetched.plan.product} units.",
        markup=False,
        soft_wrap=True,
    )
    if fetched.replaced:
        size = amount(sum(path.stat().st_size for path in fetched.replaced), "B")
        terminal.OUT.print(
            f"Beside it lie {len(fetched.replaced):,} files of another version or form ({size}).",
            markup=False,
            soft_wrap=True,
        )


@wme.command()
@click.option("--hour", type=_HOUR, help="Lines of this hour (UTC) only, for example 2026-11-20T05.")
@click.option("--project", help="Lines of this project only, for example enwiki.")
@click.option("--reason", help="Lines whose reason holds this text only.")
@click.option("--limit", type=click.IntRange(1), help="Lines shown.  [default: 20; with --json: all]")
@click.option("--raw", is_flag=True, help="The lines themselves; with --json in base64.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for scripts.")
@click.option("--retry", is_flag=True, help="Read the lines again, and do again the hours that gain rows.")
@click.option("--dry-run", is_flag=True, help="With --retry: say what would be done and stop.")
def rejects(
    *,
    hour: datetime | None,
    project: str | None,
    reason: str | None,
    limit: int | None,
    raw: bool,
    as_json: bool,
    retry: bool,
    dry_run: bool,
) -> None:
    """List the lines that could not be converted, by reason and by place, or try them again."""
    from pipelines import rejects as rejected
    from resources.warehouse import Warehouse

    if dry_run and not retry:
        raise click.UsageError("--dry-run needs --retry.")
    if retry and (raw or as_json or limit is not None):
        raise click.UsageError("--retry goes with --hour, --project, --reason and --dry-run only.")
    settings = _settings()
    selection = rejected.Selection(hour, project, reason)
    if retry:
        _retry(settings, selection, dry_run=dry_run)
        return
    warehouse = Warehouse(settings.data)
    if as_json:
        for line in rejected.lines(warehouse, selection, limit=limit, raw=raw):
            click.echo(json.dumps(rejected.as_json(line), ensure_ascii=False))
        return
    reasons = rejected.by_reason(warehouse, selection)
    count = sum(row[0] for row in reasons.rows)
    if not count:
        terminal.OUT.print(
            "No line was rejected." if selection == rejected.Selection() else "No such line was rejected."
        )
        return
    shown = limit or 20
    if raw:
        for line in rejected.lines(warehouse, selection, limit=shown, raw=True):
            place = f"{line['archive']} {line['member']} line {line['line_number']} byte {line['byte_offset']:,}"
            terminal.OUT.print(f"{place}: {terminal.text(line['reason'])}", markup=False, style="bold", soft_wrap=True)
            terminal.OUT.print(terminal.text(line["raw"]), markup=False, soft_wrap=True)
    else:
        terminal.show(reasons.columns, reasons.rows, spare=("begins", "first_hour"))
        terminal.OUT.print()
        found = rejected.places(warehouse, selection, shown)
        terminal.show(found.columns, found.rows, spare=("byte_offset", "bytes", "member"))
    terminal.OUT.print(
        f"{count:,} lines rejected{f', {shown:,} shown' if count > shown else ''}; their bytes are in the table `rejects`.",
        markup=False,
        soft_wrap=True,
    )


def _retry(settings: Settings, selection: Any, *, dry_run: bool) -> None:
    """Try rejected lines again, and tell what came of it."""
    from pipelines import retry
    from pipelines.rejects import count
    from resources.warehouse import Warehouse

    trial = retry.attempt(settings, selection)
    for sentence in trial.sentences():
        terminal.OUT.print(sentence, markup=False, soft_wrap=True)
    obstacles = trial.obstacles()
    if dry_run:
        for sentence in (*obstacles, "Nothing was changed."):
            terminal.OUT.print(sentence, markup=False, soft_wrap=True)
        return
    if trial.hours:
        # by hours, because a newer converter may reject what is left for another reason
        before = count(Warehouse(settings.data), trial.hours)
        with terminal.progress():
            report = retry.redo(settings, trial, engine=_engine())
        obstacles += report.failures
        after = count(Warehouse(settings.data), trial.hours)
        terminal.OUT.print(
            f"Done: {max(before - after, 0):,} rejected lines are rows now. Lines of these hours that are still rejected: {after:,}.",
            markup=False,
            soft_wrap=True,
        )
    if obstacles:
        raise click.ClickException("\n".join(obstacles))


@wme.command()
def dictionary() -> None:
    """Print the data dictionary (Markdown): every table and column, with its place in the service's record."""
    from pipelines.dictionary import render

    click.echo(render(), nl=False)


@wme.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def sandbox(*, arguments: tuple[str, ...]) -> None:
    """Serve the built-in local content service in the foreground (`wme sandbox --help` lists its options)."""
    from resources.sandbox.__main__ import main as serve

    own_state = (
        [] if any(word.startswith("--state") for word in arguments) else ["--state", str(_settings().data / "sandbox")]
    )
    sys.exit(serve(["serve", *own_state, *arguments]))


@wme.command()
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of Dagster's pages.")
def ui(*, port: int) -> None:
    """Open Dagster with everything in place: its own folder below the data folder, daemon included."""
    from pipelines.instance import serve

    settings = _settings()
    _say_where(settings)
    terminal.ERR.print(f"Dagster answers at http://127.0.0.1:{port} in some seconds. Ctrl-C ends it.", markup=False)
    serve(settings.data, port)
