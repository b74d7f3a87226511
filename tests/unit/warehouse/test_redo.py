"""An hour or a snapshot that is done again, with other content than before.

What is left is what a first load would have left.
"""

from contextlib import ExitStack
from itertools import cycle, product

import duckdb
import pytest

from resources.datasets import ARTICLE_CHANGES
from resources.warehouse.database.connect import Build
from resources.warehouse.load.hours import load_hour
from resources.warehouse.state.articles import apply_changes
from tests.builds import lay, looking

#: Each pair of files of an hour, in namespaces 0 and 14: rows and rejected lines.
CONTENTS = {
    "clean": lambda change: (([change(1, "A", 1), change(2, "B", 2)], ()), ([change(3, "T", 3)], ())),
    "repeated": lambda change: (
        ([change(2, "B", 2), change(2, "B", 2), change(1, "A", 1), change(1, "A", 1, event_id="event-1-1-update")], ()),
        ([change(3, "T", 3)] * 2, ()),
    ),
    "rejects": lambda change: (([change(1, "A", 9)], (b"{", b"\xff")), ([], (b"x",))),
    "drift": lambda change: (
        (
            [change(2, "B", 8, extra='{"new": 1}'), change(1, "A", 7, event_id=None), change(1, "A", 7, event_id=None)],
            (),
        ),
        ([change(4, "U", 1, extra='{"new": 2}')], (b"y",)),
    ),
    # a page that changes its namespace stands in both files with one revision
    "moved": lambda change: (
        ([change(1, "A", 5, "delete", event_id="m", version_id=77), change(2, "B", 6)], ()),
        ([change(1, "T:A", 5, event_id="m", version_id=77)], ()),
    ),
    "deleted": lambda change: (([change(1, "A", 4, "delete")], (b"z",)), ([change(3, "T", 3, "delete")], ())),
    "empty": lambda change: (([], ()), ([], ())),
}
#: What tells of when and how often, and not of what.
_APART = {"hours": "load_count, checked_at", "loads": "loaded_at, applied_at", "snapshots": "loaded_at, applied_at"}
_TABLES = (
    *("article_changes", "articles", "hours", "loads", "rejects", "redirects", "snapshots", "project_state"),
    *("internal.titles", "internal.pages", "internal.hidden_rows"),
)


def files(lake, name, hour=0):
    both = CONTENTS[name](lambda *words, **more: lake.change(*words, html=f"<p>{words}", **more))
    return [
        lake.file(hour, rows, "enwiki", number, rejects) for number, (rows, rejects) in zip((0, 14), both, strict=True)
    ]


def content(connection):
    """All that is in a build file, as comparable text."""
    return {
        table: sorted(
            repr(row)
            for row in connection.execute(
                f"SELECT * {f'EXCLUDE ({_APART[table]})' if table in _APART else ''} FROM {table}"
            ).fetchall()
        )
        for table in _TABLES
    }


@pytest.fixture
def open_build(tmp_path):
    """A new build file that stays open: what is done between its being opened and closed is the same."""
    count = iter(range(1_000_000))
    with ExitStack() as stack:

        def opened():
            path = lay(tmp_path / f"{next(count)}") / "warehouse" / "build.duckdb"
            connection = stack.enter_context(duckdb.connect(path))
            connection.execute("SET search_path = 'internal,main'")
            return connection

        yield opened


#: Those first that leave something behind: passed-over rows, rejects, two files of one page.
_BEFORE = ("repeated", "moved", "rejects")


@pytest.mark.parametrize(
    "pairs",
    [
        [*zip(cycle(_BEFORE), CONTENTS, strict=False), *product(_BEFORE[1:], ("empty",))],
        pytest.param([*product(_BEFORE, CONTENTS)], marks=pytest.mark.soak),
    ],
    ids=len,
)
def test_an_hour_done_again_leaves_what_a_first_load_would_have_left(lake, clock, open_build, pairs):
    def load(connection, name):
        build = Build(connection, lake.data / "lake", clock.now)
        load_hour(build, lake.hour(0), written[name], dataset=ARTICLE_CHANGES)

    written = {name: files(lake, name) for name in CONTENTS}
    first = {}
    for name in CONTENTS:
        connection = open_build()
        load(connection, name)
        apply_changes(Build(connection, lake.data / "lake", clock.now))
        first[name] = content(connection)
    assert len({repr(one) for one in first.values()}) == len(CONTENTS)
    for before, after in pairs:
        load(connection, before)
        load(connection, after)
        apply_changes(Build(connection, lake.data / "lake", clock.now))
        assert content(connection) == first[after], (before, after)


def test_bodies_of_an_hour_that_had_repeated_rows_are_all_there_when_it_is_done_again(lake, warehouse):
    bodies = "SELECT article_id, html FROM article_bodies ORDER BY ALL"
    twice = lake.change(1, "A", 1, html="<p>a")
    warehouse.load_hour(lake.hour(0), [lake.file(0, [twice, twice, lake.change(2, "B", 2, html="<p>b")])])
    warehouse.publish()
    assert warehouse.sql(bodies).rows == [(1, "<p>a"), (2, "<p>b")]
    again = [lake.change(number, "ABC"[number], number, html=f"<p>{number}") for number in range(3)]
    warehouse.load_hour(lake.hour(0), [lake.file(0, again)])
    warehouse.publish()
    assert warehouse.sql(bodies).rows == [(0, "<p>0"), (1, "<p>1"), (2, "<p>2")]


def test_a_snapshot_replaced_while_hours_are_pending(make):
    """With repeated rows and rejects in all of them; whatever is done again on top changes nothing."""

    def load(made, name):
        lake, warehouse = made.lake, made.warehouse
        base = [lake.change(1, "A", 1, html="1"), lake.change(2, "B", 30, html="2")]
        if name == "first":
            warehouse.load_snapshot(lake.snapshot([[*base, base[0]]]))
        elif name == "second":
            warehouse.load_snapshot(lake.snapshot([[lake.change(3, "C", 70, html="3"), *base], [base[1]]]))
        else:
            warehouse.load_hour(lake.hour(0), files(lake, "repeated"))
            warehouse.load_hour(lake.hour(1), [lake.file(1, [lake.change(2, "B", 65, "delete")] * 2, rejects=[b"r"])])

    def applied(made):
        made.warehouse.apply_changes()
        with looking(made.warehouse) as connection:
            return content(connection)

    plain = make()
    for name in ("first", "second", "hours"):
        load(plain, name)
        plain.warehouse.apply_changes()
    wanted = applied(plain)
    for order in (("first", "hours", "second"), ("hours", "second", "first")):
        here = make()
        for _ in range(2):
            for name in order:
                load(here, name)
            assert applied(here) == wanted, order
        here.warehouse.rebuild_articles()
        assert applied(here) == wanted, order


def test_an_update_exactly_at_the_boundary_of_a_snapshot_counts(lake, warehouse, state):
    """The boundary is minute 90; an update before it is in the snapshot, or of a page that ended."""
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 100), lake.change(2, "B", 10)]]))
    rows = [lake.change(3, "At", 90), lake.change(2, "Moved", 90), lake.change(4, "Before", 89)]
    warehouse.load_hour(lake.hour(1), [lake.file(1, rows)])
    warehouse.publish()
    for pages in ("articles", "articles_at('2026-11-02', inexact := true)"):
        found = warehouse.sql(f"SELECT article_id, name FROM {pages} ORDER BY ALL").rows
        assert found == [(1, "A"), (2, "Moved"), (3, "At")], pages
    advanced = state(warehouse)
    warehouse.rebuild_articles()
    assert state(warehouse) == advanced


def test_of_copies_of_one_event_the_newest_is_kept(lake, warehouse):
    """Within a file by moment, then revision, then an update before a delete; and the same of copies in two files.

    It comes first in the file of one project, and last in that of another.
    """
    event = lake.change(1, "A", 30, event_id="e", version_id=5)
    older = lake.change(1, "A", 29, event_id="e", version_id=6)
    copies = [older, event | {"version_id": 4}, event | {"change_type": "delete"}]
    files = {"enwiki": [event, *copies], "frwiki": [*copies, event]}
    warehouse.load_hour(lake.hour(0), [lake.file(0, rows, project) for project, rows in files.items()])
    warehouse.load_hour(lake.hour(1), [lake.file(1, [older, older], project) for project in files])
    warehouse.publish()
    query = "SELECT project_id, version_id, change_type, event_at FROM {} ORDER BY ALL"
    kept = [(project, 5, "update", event["event_at"]) for project in files]
    others = [(project, 6, "update", older["event_at"]) for project in files]
    assert warehouse.sql(query.format("article_changes")).rows == sorted([*kept, *others])
    for once in ("distinct_changes", "articles", "changes_between('2026-11-01 00:00:00+00', '2026-11-02')"):
        assert warehouse.sql(query.format(once)).rows == kept, once
