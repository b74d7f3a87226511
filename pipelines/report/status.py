"""Mirror state for `wme status`, read from the data folder and, if configured, the Dask scheduler."""

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from assets.steps.stream import is_kept
from resources import connection, datasets
from resources.data_folder import origin_of
from resources.datasets import ARTICLE_CHANGES, RETENTION, Family
from resources.datasets.live import LIVE_CHANGES, files_of, step_of
from resources.errors import MirrorError, clause
from resources.formatting import counted, hour_text, listed, moment_text, size_text, value_text
from resources.lake import Archive, Converter, Layout, drift_of, find_conversion
from resources.remote import SCHEME, RemoteWorkers
from resources.settings import Settings
from resources.warehouse import Publication, Warehouse, named, next_text
from resources.warehouse.read import coverage as coverage_
from resources.warehouse.read.reading import Reader

#: Name of the fact (one per place) about missing hours that are older than the displayed hours.
OLDER_GAPS = "older gaps"
#: Name of the fact (one per worker) about a cluster's workers.
WORKER = "worker"
#: Time without a reader after which the stream needs attention. The pause between two runs is shorter.
_PAUSE = timedelta(minutes=10)
#: Timeout for the scheduler in seconds.
_PATIENCE = 3.0
#: Number of newest loaded hours searched for fields without a column, and maximum number of fields shown.
_DRIFT_HOURS = 3
_DRIFT_SHOWN = 5
#: Maximum length of an example, in characters.
_SHOWN = 60


@dataclass
class Status:
    """State of the mirror: facts, coverage by hour, and problems.

    Attributes:
        facts: Names and values. A name can occur several times.
        coverage: One row per project and namespace.
        places: Coverage of each hour, by dataset, project and namespace.
        gaps: Missing hours. `troubles` contains a sentence for each gap.
        troubles: Sentences about problems. Sentences about gaps include the command that closes the gaps.
        stream: Figures for the stream's position, or None if the stream has never been read.
        figures: Numeric facts for scripts. Figures about the published file are omitted if the file does not exist.
    """

    facts: list[tuple[str, Any]] = field(default_factory=list)
    coverage: list[tuple[Any, ...]] = field(default_factory=list)
    places: list[coverage_.Place] = field(default_factory=list)
    gaps: list[coverage_.Gap] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    stream: dict[str, Any] | None = None
    figures: dict[str, Any] = field(default_factory=dict)


def collect(settings: Settings, hours: int = coverage_.WATCHED, now: datetime | None = None) -> Status:
    """Collect a data folder's state for the last `hours` hours before `now`. The default is the current time."""
    report, now = Status(), now or datetime.now(UTC)
    origin = origin_of(settings.data)
    mirrored = f"{', '.join(settings.projects)}; namespaces {', '.join(map(str, settings.namespaces))}"
    report.facts += [
        ("service", origin or ("sandbox (not started yet)" if settings.sandbox else settings.base_url)),
        ("mirrored", f"{mirrored}{'; Wikidata' if settings.wikidata else ''}"),
        ("data", settings.data),
    ]
    _tell_engine(report, settings)
    if settings.data.exists():
        free = shutil.disk_usage(settings.data).free
        report.figures["free_bytes"] = free
        report.facts.append(("disk free", size_text(free)))
        if free < settings.min_free_gb * 1e9:
            report.troubles.append(
                f"{size_text(free)} of disk space is free, but runs require {settings.min_free_gb:g} GB of free space "
                "(WME_MIN_FREE_GB). The next run will refuse to start."
            )
    if origin is not None and not settings.sandbox:
        try:
            with connection.client(settings, writes=False) as client:
                report.facts.append(("tokens", client.account.status().sentence(client.account.now())))
        except MirrorError as error:
            report.troubles.append(str(error))
    _tell_stream(report, settings.data, now)
    warehouse = Warehouse(settings.data)
    try:
        with warehouse.opened(published=True) as published:
            _tell_published(report, published, warehouse.published_path, settings)
            _tell_drift(report, published, settings)
            _tell_coverage(report, published, settings, hours, now)
    except MirrorError as error:
        report.troubles.append(str(error))
    if "published_at" not in report.figures:
        report.facts.append(("next publication", next_text(None, settings.publish_every)))
    return report


def _tell_engine(report: Status, settings: Settings) -> None:
    """Report the threads, or the scheduler (which must respond within seconds) and its workers."""
    is_remote = settings.engine.startswith(SCHEME)
    layout, longest = Layout(settings.data), settings.max_record_mb << 20
    try:
        if not is_remote:
            memory_bytes = None if settings.memory_mb is None else settings.memory_mb << 20
            with Converter(memory_bytes=memory_bytes) as converter:
                text = f"threads: {counted(converter.workers, 'worker')} within {converter.memory_bytes >> 20:,} MiB"
            report.facts.append(("engine", text))
            return
        with RemoteWorkers(settings.engine, layout, record_bytes_max=longest, answer_seconds=_PATIENCE) as remote:
            members = remote.cluster.members()
            report.facts.append(("engine", f"{settings.engine}: {counted(len(members), 'worker')}"))
            if not members:
                report.troubles.append(
                    f"The scheduler at {settings.engine} has no workers. Start workers with `wme worker`."
                )
            for member in members:
                versions = ", ".join(f"{name} {value}" for name, value in member.versions.items()) or "no versions"
                at_once = counted(member.threads, "archive")
                report.facts.append((WORKER, f"{member.name} on {member.host}: {at_once} at a time; {versions}"))
                if differences := remote.cluster.differences(member):
                    report.troubles.append(
                        f"The worker {member.name} on {member.host} receives no tasks: {differences}. Install the same "
                        "version on that host and restart the worker."
                    )
    except MirrorError as error:
        report.facts.append(("engine", f"{settings.engine} (unreachable)" if is_remote else "threads"))
        report.troubles.append(str(error))


def _tell_published(report: Status, warehouse: Reader, path: Path, settings: Settings) -> None:
    about = dict(warehouse.sql("SELECT name, value FROM about").rows)
    counts = warehouse.sql(
        # the ledger counts changes that only the lake contains
        "SELECT (SELECT count(*) FROM articles), coalesce(sum(row_count - duplicate_count) FILTER (WHERE table_name = "
        "'article_changes'), 0), (SELECT count(*) FROM rejects), count(*) FILTER (WHERE applied_at IS NULL) FROM loads"
    ).rows[0]
    size = path.stat().st_size
    last = Publication(datetime.fromisoformat(about["published_at"]), int(about["revision"]))
    report.facts.append(("next publication", next_text(last, settings.publish_every)))
    report.figures |= {
        "published_at": about.get("published_at"),
        "published_bytes": size,
        "article_count": counts[0],
        "change_count": int(counts[1]),
        "reject_count": counts[2],
        "unapplied_file_count": counts[3],
    }
    window = ""
    if (first_hour := warehouse.published_window()) is not None:
        [(cold, hot)] = warehouse.sql(
            "SELECT count(DISTINCT batch_hour) FILTER (WHERE batch_hour < $1), count(DISTINCT batch_hour) FILTER "
            "(WHERE batch_hour >= $1) FROM loads WHERE table_name = 'article_changes'",
            [first_hour],
        ).rows
        hours = counted(hot, "hour")
        window = f"; {hours} in the DuckDB files, {cold:,} before {hour_text(first_hour)} UTC in the lake"
    report.facts += [
        ("published", f"{path}, {size_text(size)}, {about.get('published_at', '')}"),
        ("articles", f"{counts[0]:,}"),
        ("changes", f"{counts[1]:,}{window}"),
        ("rejects", f"{counts[2]:,}"),
    ]
    for name, table, column, asked in (
        ("WME_PROJECTS", "projects", "project_id", settings.projects),
        ("WME_NAMESPACES", "namespaces", "namespace_id", settings.namespaces),
    ):
        listed = {row[0] for row in warehouse.sql(f"SELECT {column} FROM {table}").rows}  # noqa: S608  our own names
        unknown = ", ".join(str(one) for one in asked if one not in listed)
        if listed and unknown:
            report.troubles.append(
                f"The service's list of {table} does not contain {unknown}, so no files will arrive. Correct {name}. "
                f"The `{table}` table contains the valid names."
            )
    if counts[3]:
        report.troubles.append(
            f"{counted(counts[3], 'loaded file')} {'has' if counts[3] == 1 else 'have'} not been applied to "
            "`articles`. Run `wme run` to apply all loaded files."
        )
    lake = str(Layout(settings.data).lake.resolve())
    if (written := about.get("lake_root", lake)) != lake:
        report.troubles.append(
            f"The published file refers to lake files in {written}, but the lake is in {lake}. Queries of "
            "`article_bodies` and of other tables in the lake fail. Run `wme relocate` to update the paths."
        )
    faulty = warehouse.faulty_lake_files(published=True)
    report.figures["missing_lake_file_count"] = len(faulty)
    if faulty:
        report.troubles.append(
            f"{counted(len(faulty), 'lake file')} missing or damaged: {named(faulty)}. `article_bodies`, and older "
            "hours of `article_changes`, omit their rows. The next publication restores lake files from the archive. "
            "Run `wme publish` to restore these files now."
        )
    elif count := int(about.get("missing_lake_file_count", "0")):
        report.troubles.append(
            f"{counted(count, 'lake file')} missing from the published file {'is' if count == 1 else 'are'} available "
            "again. The next publication will include these rows. Run `wme publish` to publish now."
        )


def _tell_drift(report: Status, warehouse: Reader, settings: Settings) -> None:
    """Add facts about fields without a column. Such fields are not a problem, because `extra` stores their values."""
    rows = warehouse.sql(
        "SELECT batch_hour, project_id, namespace_id, identifier, version FROM loads "  # noqa: S608  a number
        "WHERE table_name = 'article_changes' AND batch_hour IN (SELECT DISTINCT batch_hour FROM loads "
        f"WHERE table_name = 'article_changes' ORDER BY ALL DESC LIMIT {_DRIFT_HOURS})"
    ).rows
    layout, bodies = Layout(settings.data), frozenset(settings.bodies)
    conversions = []
    for hour, project, namespace, identifier, version in rows:
        path = layout.batch_archive(ARTICLE_CHANGES, hour, identifier, version)
        archive = Archive(path, identifier, version, hour, project, namespace)
        if (conversion := find_conversion(archive, layout, bodies, settings.max_record_mb << 20)) is not None:
            conversions.append((hour, conversion))
    report.facts += [
        ("remark", f"{value_text(made.identifier)} of {hour_text(hour)}: {value_text(remark)}")
        for hour, made in conversions
        for remark in made.remarks
    ][:_DRIFT_SHOWN]
    if drift := drift_of([made for _, made in conversions]):
        told = [
            f"{value_text(d.path)} ({counted(d.count, 'time')}, for example {value_text(d.example)[:_SHOWN]})"
            for d in drift[:_DRIFT_SHOWN]
        ]
        more = f"; {len(drift) - _DRIFT_SHOWN:,} more" if len(drift) > _DRIFT_SHOWN else ""
        hours = len({hour for hour, _ in conversions})
        report.facts.append(
            ("unknown fields", f"{'; '.join(told)}{more} (newest {counted(hours, 'hour')}; kept in `extra`)")
        )


def _tell_coverage(report: Status, warehouse: Reader, settings: Settings, hours: int, now: datetime) -> None:
    scopes = {dataset: settings.scope_of(dataset) for dataset in datasets.datasets(Family.HOURLY)}
    found = coverage_.health(warehouse, scopes, now, hours)
    report.places, report.gaps = found.places, found.gaps
    report.troubles[:0] = found.lagging
    report.troubles += found.troubles[len(found.lagging) :]
    if found.unmirrored:
        report.facts.append(("no longer mirrored", listed(found.unmirrored, 10)))
    exact = {(state.project_id, state.namespace_id): state for state in warehouse.project_states()}
    for place in report.places:
        key = (place.project_id, place.namespace_id)
        # only articles have a range of exact past states
        state = exact.get(key) if place.dataset == ARTICLE_CHANGES.name else None
        spans = (state.exact_from_at, state.exact_until_at) if state is not None else (None, None)
        report.coverage.append(
            (place.name.partition(" namespace")[0], key[1], *place.counts().values(), *spans, place.newest_hour)
        )
        if place.older_gap_at is not None:
            older = f"{counted(place.older_gap_count, 'hour')}, from {hour_text(place.older_gap_at)}"
            report.facts.append((OLDER_GAPS, f"{place.name}: {older}"))


def as_json(report: Status) -> dict[str, Any]:
    """Return the status as JSON values, with facts by name, places with their hours, gaps, and problems."""
    facts: dict[str, Any] = {}
    for name, value in report.facts:
        # facts that occur once per place or worker become a list
        facts[name] = [*facts.get(name, []), str(value)] if name in {OLDER_GAPS, WORKER} else str(value)
    of_gap = ("dataset", "project_id", "namespace_id", "hour_count", "state", "reason")
    document = {
        "facts": facts,
        "figures": report.figures,
        "coverage": [
            {name: value for name, value in vars(place).items() if name != "cells"}
            | {"hours": place.cells, "states": place.counts(), "exact_from_at": row[-3], "exact_until_at": row[-2]}
            for place, row in zip(report.places, report.coverage, strict=True)
        ],
        "gaps": [
            {"first_hour": gap.first, "last_hour": gap.last} | {name: getattr(gap, name) for name in of_gap}
            for gap in report.gaps
        ],
        "stream": report.stream,
        "troubles": report.troubles,
    }
    return TypeAdapter(dict[str, Any]).dump_python(document, mode="json")  # type: ignore[no-any-return]


def _tell_stream(report: Status, data: Path, now: datetime) -> None:
    """Report the stream's position and its reader, unless the stream has never been read."""
    if not (found := files_of(data / "lake" / LIVE_CHANGES)):
        return
    try:
        step = step_of(found[-1].last, found[-1].path)
    except (OSError, ValueError) as error:
        report.troubles.append(
            f"The newest stream file {found[-1].path} cannot be read ({clause(error)}). Run `wme stream` to see "
            "instructions."
        )
        return
    newest, is_running = max(step.published_at.values(), default=step.since), is_kept(data / "state")
    run, lag = step.runs[-1] if step.runs else None, max(0.0, (now - newest).total_seconds())
    counts, events_per_second = "", None
    if run is not None:
        pace = ""
        if run.kept_at > run.began_at:
            events_per_second = run.event_count / (run.kept_at - run.began_at).total_seconds()
            pace = f", {events_per_second:,.1f} a second"
        counts = (
            f"; this run: {counted(run.event_count, 'event')}{pace}, {counted(run.reconnect_count, 'reconnect')}, "
            f"{counted(run.duplicate_count, 'duplicate')} dropped"
        )
        # counts that are zero unless the service sends unexpected data
        for count, sentence, what in (
            (run.reject_count, "rejected {}", "record"),
            (run.too_long_count, "{} longer than WME_MAX_RECORD_MB", "event"),
            (run.reset_count, "offsets reset {}", "time"),
        ):
            counts += f", {sentence.format(counted(count, what))}" if count else ""
    report.stream = {
        "is_running": is_running,
        "newest_published_at": newest.isoformat() if step.published_at else None,
        "lag_seconds": lag,
        "kept_until": step.kept_until.isoformat(),
        "events_per_second": events_per_second,
        "run": run
        and {name: value.isoformat() if isinstance(value, datetime) else value for name, value in vars(run).items()},
        "partitions": {
            partition: {
                "next_offset": following,
                "event_count": step.event_counts.get(partition, 0),
                "newest_published_at": at.isoformat() if (at := step.published_at.get(partition)) else None,
            }
            for partition, following in sorted(step.offsets.items())
        },
    }
    if is_running:
        fact = f"running, {lag:,.0f} s behind, {counted(len(step.offsets), 'partition')}{counts}"
    else:
        fact = f"not running; last event {moment_text(newest)} UTC{counts.replace('this run', 'last run')}"
    report.facts.append(("stream", fact))
    if is_running or now - newest <= _PAUSE:
        return
    report.troubles.append(
        f"The stream was last read at {moment_text(newest)} UTC, and the service no longer retains the next events. "
        "Only hourly files contain the missing events. `wme stream` resumes at the oldest available event. If the "
        "stream is no longer needed, remove lake/live_changes."
        if now - newest > RETENTION
        else f"The stream has not been read since {moment_text(newest)} UTC. The service retains its events until "
        f"{moment_text(newest + RETENTION)} UTC. Run `wme stream` or turn on the keep_streaming sensor to resume. If "
        "the stream is no longer needed, remove lake/live_changes."
    )
