"""Cards on the report page, each with a sentence, a chart and a table of the same data.

The size of the page is bounded, regardless of the mirror's size. Charts combine the less busy projects into one series.
Longer periods are shown by day or week instead of by hour.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from pipelines.report.page import figures
from pipelines.report.status import Status
from resources.datasets import ARTICLE_CHANGES
from resources.formatting import counted, hour_text, printable, size_text
from resources.tables import HourState
from resources.warehouse.database.sql import filled, statement
from resources.warehouse.read.coverage import OUTSIDE, Place, gap_hours
from resources.warehouse.read.reading import Reader

# First and last loaded hours, and times of the first and last loads.
SPAN = """
SELECT min(batch_hour), max(batch_hour), (SELECT min(loaded_at) FROM loads), (SELECT max(loaded_at) FROM loads)
FROM hours WHERE table_name = 'article_changes' AND state IN ('loaded', 'empty')
"""
# Load times of the files that are now in the warehouse.
LOADED = """
SELECT time_bucket(CAST($1 AS INTERVAL), loaded_at) AS span_at, count(*) AS file_count,
  CAST(sum(ndjson_bytes) AS BIGINT), CAST(sum(archive_bytes) AS BIGINT), CAST(sum(lake_bytes) AS BIGINT)
FROM loads GROUP BY ALL ORDER BY ALL
"""
# Titles that no longer exist. A move event is also an update of the page's new title.
GONE = """
SELECT project_id, name,
  (project_id, event_id) IN (
    SELECT (project_id, event_id) FROM article_changes
    WHERE batch_hour >= $1 AND change_type = 'update' AND event_id IS NOT NULL
  ) IS TRUE AS is_move,
  min(event_at) AS event_at
FROM article_changes
WHERE batch_hour >= $1 AND change_type = 'delete'
GROUP BY project_id, event_id, name
"""
GONE_SPANS = """
SELECT time_bucket(CAST($2 AS INTERVAL), event_at) AS span_at,
  count(*) FILTER (WHERE NOT is_move), count(*) FILTER (WHERE is_move)
FROM ({gone}) GROUP BY ALL ORDER BY ALL
"""
GONE_NEWEST = """
SELECT project_id, name, is_move, event_at FROM ({gone}) ORDER BY event_at DESC, project_id, name LIMIT $2
"""
REASONS = """
SELECT reason, count(*) AS line_count, count(DISTINCT project_id) AS project_count, max(batch_hour) AS newest_hour
FROM rejects GROUP BY reason ORDER BY line_count DESC, reason LIMIT $1
"""
# Quota units of loaded data: one for each lookup and each file of a snapshot.
UNITS = """
SELECT time_bucket(CAST($1 AS INTERVAL), paid_at) AS span_at, CAST(sum(lookups) AS BIGINT), CAST(sum(files) AS BIGINT)
FROM (
  SELECT looked_up_at AS paid_at, 1 AS lookups, 0 AS files FROM lookups
  UNION ALL SELECT loaded_at, 0, file_count FROM snapshots
)
GROUP BY span_at ORDER BY span_at
"""


_HOUR, _DAY, _WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
#: Origin of DuckDB's time_bucket, a Monday.
_ORIGIN: Final = datetime(2000, 1, 3, tzinfo=UTC)
#: Period for which changes are read. For older hours, only the ledger is read.
_RECENT: Final = timedelta(days=7)
_PROJECTS, PLACES, _TITLES, _ROWS = 5, 24, 12, 31


class Table(NamedTuple):
    """Table whose rows are collapsed unless `is_open` is true."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_open: bool = False


@dataclass
class Card:
    """A question and its answer. `legend` contains labels, each with the style-sheet variable for its colour."""

    title: str
    sentence: str
    picture: str | None = None
    legend: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


class _Axis:
    """Time spans of equal length, which is an hour, a day or a week."""

    def __init__(self, first: datetime, last: datetime) -> None:
        days = (last - first) / _DAY
        self.step, self.name = (_HOUR, "hour") if days <= 4 else (_DAY, "day") if days <= 400 else (_WEEK, "week")
        self.interval = f"{self.step // _HOUR} hours"
        begin, end = (_ORIGIN + (moment - _ORIGIN) // self.step * self.step for moment in (first, last))
        self.edges = [begin + n * self.step for n in range((end - begin) // self.step + 2)]

    def values(self, rows: Sequence[tuple[Any, ...]], column: int, default: Any = 0) -> list[Any]:
        known = {row[0]: row[column] for row in rows}
        return [known.get(edge, default) for edge in self.edges[:-1]]


def cards(published: Reader, status: Status, build_bytes: int) -> Iterator[Card]:
    """Yield the cards that follow the list of problems, most urgent first."""
    [(first, last, first_load, last_load)] = published.sql(SPAN).rows
    places = [place for place in status.places if place.dataset == ARTICLE_CHANGES.name]
    yield _newest_hours(places, gap_hours(status.gaps))
    if first is None:
        sentence = "No hours have been loaded yet. Run `wme run` to fetch the newest hours."
        yield Card("History", sentence)
    else:
        axis, recent = _Axis(first, last), last - _RECENT
        if axis.step > _HOUR:
            yield _history(published, axis)
        yield _delay(published, axis)
        yield _changes(published, axis)
        yield _edited(published, recent)
        yield _gone(published, max(first, recent), last)
        yield _rejects(published, axis)
    if first_load is not None:
        loading = _Axis(first_load, last_load)
        rows = published.sql(LOADED, [loading.interval]).rows
        yield _throughput(loading, rows)
        yield _units(published, loading)
        yield _storage(loading, rows, status, build_bytes)


def _newest_hours(places: Sequence[Place], lacking: Counter[tuple[str, str, int]]) -> Card:
    """Show the coverage from `wme status`, first for projects with missing hours, then for the busiest projects."""
    if not places or not places[0].cells:
        return Card("Newest hours", "None of the newest hours has been published.")
    missing = [lacking[place.dataset, place.project_id, place.namespace_id] for place in places]
    busy = [sum(cell.row_count or 0 for cell in place.cells) for place in places]
    order = sorted(range(len(places)), key=lambda number: (-missing[number], -busy[number]))
    shown = [places[number] for number in order[:PLACES]]
    edges = [*(cell.batch_hour for cell in shown[0].cells), shown[0].cells[-1].batch_hour + _HOUR]
    rows = {_label(place.project_id, place.namespace_id): [cell.state for cell in place.cells] for place in shown}
    found = list(filter(None, missing))
    sentence = (
        f"{hour_text(edges[0])} to {hour_text(edges[-2])} UTC, {counted(len(places), 'project namespace')}: "
        + (f"{counted(sum(found), 'hour')} missing, in {len(found):,} of these." if found else "no hours are missing.")
        + _cut(len(places))
    )
    columns = ("project", *(figures.STATES[state][0] for state in HourState), "newest hour (UTC)")
    values = [(name, *place.counts().values(), place.newest_hour) for name, place in zip(rows, shown, strict=True)]
    return _map("Newest hours", sentence, edges, rows, Table("Newest hours by state", columns, values))


def _history(published: Reader, axis: _Axis) -> Card:
    found = published.sql(statement("read/page/coverage"), [axis.interval, PLACES]).rows
    places = "SELECT count(DISTINCT (project_id, namespace_id)) FROM hours WHERE table_name = ?"
    [(count,)] = published.sql(places, [ARTICLE_CHANGES.name]).rows
    states: dict[str, dict[datetime, str]] = {}
    totals: dict[str, tuple[Any, ...]] = {}
    for project, namespace, span, state, *rest in found:
        states.setdefault(_label(project, namespace), {})[span] = state
        totals[_label(project, namespace)] = tuple(rest)
    rows = {name: [known.get(edge, OUTSIDE) for edge in axis.edges[:-1]] for name, known in states.items()}
    lacking = sum(gaps > 0 for gaps, *_ in totals.values())
    some = f"{counted(lacking, 'row')} {'has' if lacking == 1 else 'have'} missing hours."
    sentence = (
        f"All hours since {hour_text(axis.edges[0])} UTC. A {axis.name} with a missing hour is shown as missing. "
        f"{some if lacking else 'No hours are missing.'}{_cut(count)}"
    )
    columns = ("project", "hours missing or lost", "hours loaded", "changes")
    table = Table("All hours by project", columns, [(name, *map(int, values)) for name, values in totals.items()])
    return _map(f"Coverage by {axis.name}", sentence, axis.edges, rows, table)


def _map(title: str, sentence: str, edges: list[datetime], rows: dict[str, list[str]], table: Table) -> Card:
    """Build a card with a coverage map that has a row for each project and a cell for each time span."""
    there = {state for states in rows.values() for state in states}
    legend = [(words, f"state-{n}") for n, (state, (words, _)) in enumerate(figures.STATES.items()) if state in there]
    return Card(title, sentence, figures.coverage(edges, rows, sentence), legend, [table])


def _delay(published: Reader, axis: _Axis) -> Card:
    rows = published.sql(statement("read/page/hours"), [axis.interval]).rows
    median, last = ([None if v is None else v / 60 for v in axis.values(rows, n, None)] for n in (2, 3))
    # the upper edge of both areas is the last file
    rest = [None if v is None or m is None else v - m for m, v in zip(median, last, strict=True)]
    sentence = (
        f"Hours from the end of each hour until it was loaded, by {axis.name}, for the median file and the last file. "
        "Hours that were reloaded, and hours from before a project was mirrored, are omitted."
    )
    picture = figures.areas(axis.edges, [median, rest], "h", sentence) if len(axis.edges) > 2 and any(median) else None
    legend = [("median file", "series-0"), ("last file", "series-1")]
    table = _over_time(axis, ("median file (h)", "last file (h)"), [median, last])
    return Card("Lag and freshness", sentence, picture, legend, [table])


def _changes(published: Reader, axis: _Axis) -> Card:
    rows = published.sql(statement("read/page/changes"), [axis.interval, _PROJECTS]).rows
    totals: dict[str | None, int] = {}
    for _, project, count in rows:
        totals[project] = totals.get(project, 0) + count
    order = sorted(totals, key=lambda project: (project is None, -totals[project]))
    if totals.get(None) == 0:
        order.remove(None)
    hours = axis.step / _HOUR
    series = [
        [value / hours for value in axis.values([row[::2] for row in rows if row[1] == project], 1)]
        for project in order
    ]
    names = ["all others" if project is None else project for project in order]
    total = sum(totals.values())
    sentence = f"{counted(total, 'change')} since {hour_text(axis.edges[0])} UTC"
    sentence += f", averaged over each {axis.name}." if axis.step > _HOUR else "."
    if total:
        sentence += f" {names[0]} has the largest share: {totals[order[0]] / total:.1%}."
    return _chart("Changes per hour", sentence, axis, names, series)


def _edited(published: Reader, recent: datetime) -> Card:
    title = "Most edited pages"
    rows = published.sql(statement("read/page/edited"), [recent, _TITLES]).rows
    if not rows:
        return Card(title, "No page was edited in the newest seven days.")
    columns = ("page", "project", "edits", "editors", "last edit (UTC)")
    cells = [(_page(name, url), project, *rest) for project, name, url, *rest in rows]
    sentence = (
        f"Data from the seven days up to the newest hour. The most edited page has {counted(rows[0][3], 'edit')} by "
        f"{counted(rows[0][4], 'editor')}."
    )
    return Card(title, sentence, tables=[Table(title, columns, cells, is_open=True)])


def _gone(published: Reader, first: datetime, last: datetime) -> Card:
    axis, gone = _Axis(first, last), GONE
    rows = published.sql(filled(GONE_SPANS, gone=gone), [first, axis.interval]).rows
    deleted, moved = (sum(row[n] for row in rows) for n in (1, 2))
    counts = f"{counted(deleted, 'deletion')}, {counted(moved, 'move')}"
    sentence = f"Changes by {axis.name} in the seven days up to the newest hour. Total: {counts}."
    if not rows:
        return Card("Deletions and moves", sentence)
    newest = [
        (name, project, "moved away" if is_move else "deleted", at)
        for project, name, is_move, at in published.sql(filled(GONE_NEWEST, gone=gone), [first, _TITLES]).rows
    ]
    names, series = ("deletions", "moves"), [axis.values(rows, 1), axis.values(rows, 2)]
    table = Table("The newest", ("title", "project", "what", "when (UTC)"), newest)
    return _chart("Deletions and moves", sentence, axis, names, series, table)


def _rejects(published: Reader, axis: _Axis) -> Card:
    values = axis.values(published.sql(statement("read/page/hours"), [axis.interval]).rows, 1)
    reasons = published.sql(REASONS, [_TITLES]).rows
    if not sum(values) and not reasons:
        return Card("Rejects", "No records were rejected.")
    sentence = (
        f"{counted(sum(values), 'record')} in hourly files could not be converted. `wme rejects` shows rejected "
        "records. After an upgrade, `wme rejects --retry` converts their archives again."
    )
    table = Table("By reason", ("reason", "lines", "projects", "newest hour (UTC)"), reasons, is_open=True)
    return _chart("Rejects", sentence, axis, ("lines",), [values], table)


def _throughput(axis: _Axis, rows: Sequence[tuple[Any, ...]]) -> Card:
    values = axis.values(rows, 2)
    sentence = (
        f"Loaded {counted(sum(row[1] for row in rows), 'file')} with {size_text(sum(values))} of NDJSON, by "
        f"{axis.name} of loading. A reloaded file is counted only once, at the time of its latest load. The Dagster UI "
        "shows the duration of each step."
    )
    return _chart("Throughput", sentence, axis, ("NDJSON",), [values], unit="B")


def _units(published: Reader, axis: _Axis) -> Card:
    known = "The mirror does not record the account's quota over time. `wme auth status` shows the remaining units."
    rows = published.sql(UNITS, [axis.interval]).rows
    rows = [row for row in rows if axis.edges[0] <= row[0] < axis.edges[-1]]
    if not rows:
        return Card("Quota", f"No lookups or snapshots are loaded, and hourly files cost no units. {known}")
    names, series = ("lookups", "snapshot files"), [axis.values(rows, 1), axis.values(rows, 2)]
    sentence = (
        f"The loaded data has cost at least {counted(sum(map(sum, series)), 'unit')}. Each lookup and each stored "
        f"snapshot file costs one unit. {known}"
    )
    return _chart("Quota", sentence, axis, names, series)


def _storage(axis: _Axis, rows: Sequence[tuple[Any, ...]], status: Status, build_bytes: int) -> Card:
    names, series = ("archive", "lake"), [list(accumulate(axis.values(rows, column))) for column in (3, 4)]
    sizes = [*(values[-1] for values in series), build_bytes]
    archive, lake, build, published, free = map(
        size_text, (*sizes, status.figures.get("published_bytes", 0), status.figures.get("free_bytes", 0))
    )
    sentence = (
        f"The loaded files use {archive} in the archive and {lake} in the lake before compaction. `build.duckdb` has "
        f"{build}, and the published file has {published}. {free} of disk space is free. Replaced files are not "
        "included."
    )
    return _chart("Storage", sentence, axis, names, series, unit="B")


def _chart(
    title: str,
    sentence: str,
    axis: _Axis,
    names: Sequence[str],
    series: Sequence[Sequence[float]],
    *tables: Table,
    unit: str = "",
) -> Card:
    """Build a card with a stacked area chart over time, or without a chart if there is only one time span.

    The last table contains the charted values.
    """
    picture = figures.areas(axis.edges, series, unit, sentence) if len(axis.edges) > 2 else None
    legend = [(name, f"series-{number}") for number, name in enumerate(names)]
    values = [list(map(size_text if unit == "B" else round, one)) for one in series]
    return Card(title, sentence, picture, legend, [*tables, _over_time(axis, names, values)])


def _over_time(axis: _Axis, names: Sequence[str], series: Sequence[Sequence[Any]]) -> Table:
    rows = list(zip(axis.edges[:-1], *series, strict=True))[: -_ROWS - 1 : -1]
    cut = f", the newest {_ROWS}" if len(axis.edges) - 1 > _ROWS else ""
    return Table(f"By {axis.name}{cut}", (f"{axis.name} (UTC)", *names), rows)


def _label(project: str, namespace: int) -> str:
    return project if namespace == 0 else f"{project} {namespace}"


def _cut(count: int) -> str:
    return (
        f" Only {PLACES} of {count:,} project namespaces are shown: first those with missing hours, then the busiest."
        if count > PLACES
        else ""
    )


def _page(name: str, url: str | None) -> str:
    """Return a link if the URL, which comes from the service, is a web address. Otherwise, return the title."""
    title = name.replace("_", " ")
    link = Markup('<a href="{}" rel="noreferrer">{}</a>')
    return link.format(url, printable(title)) if url and url.startswith("https://") else title
