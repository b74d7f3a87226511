"""Incremental = rebuild = the rule, written naively here, for rows in which everything collides."""

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations

import duckdb
import pytest

from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, SNAPSHOT_ARTICLES
from resources.tables import ARTICLES
from resources.warehouse import Auditor, Findings, Snapshot
from resources.warehouse.database.connect import Build
from resources.warehouse.database.schema import ensure
from resources.warehouse.load.hours import load_hour
from resources.warehouse.load.snapshots import load_snapshot
from resources.warehouse.read.lake_parts import lake_parts
from resources.warehouse.state import articles as current
from resources.warehouse.state.articles import apply_changes, rebuild_articles
from resources.warehouse.views.analysts import questions
from resources.warehouse.views.lake import make_views, sources
from tests.builds import ask
from tests.unit.warehouse.conftest import START, TABLES, lasting

NOW = datetime(2026, 11, 3, tzinfo=UTC)
KINDS = ("update", "update", "update", "delete", "delete", "visibility-change")


def made_rows(chance, count, minutes):
    """Rows in which titles, pages, moments, revisions and events collide."""
    return [
        {
            "article_id": chance.randint(1, 4),
            "name": chance.choice(["A b", "A_b", "B", "C", "D_e_f", "D e_f"]),
            "minute": chance.randint(0, minutes),
            "version_id": chance.randint(1, 3),
            "change_type": chance.choice(KINDS),
            "event_id": chance.choice([None, "e1", "e2", "e3", "e4", "e5"]),
            "abstract": chance.choice([None, "x", "y"]),
        }
        for _ in range(count)
    ]


def made_steps(chance):
    """Steps that load a file (hour, project, namespace, rows) or a snapshot (project, namespace, version, two files).

    Some load a place again, some apply. Rows appear again in a file or a step, and boundaries fall among the changes.
    """
    steps, known = [], []
    for _ in range(chance.randint(1, 7)):
        namespace = chance.choice([0, 14])
        again = chance.sample(known, min(len(known), chance.choice([0, 1, 3])))
        if chance.random() < 2 / 3:
            rows = [*made_rows(chance, chance.randint(0, 5), 5), *again]
            rows += rows[: chance.choice([0, 0, 2])]
            loaded = (chance.randint(0, 2), chance.choice(["enwiki", "frwiki"]), namespace, rows)
        else:
            rows = [*made_rows(chance, chance.randint(1, 4), 14), *again]
            loaded = ("enwiki", namespace, chance.choice("ab") * 32, rows, made_rows(chance, chance.randint(0, 2), 5))
        known += rows
        steps.append((loaded, chance.random() < 0.5, chance.random() < 0.5))
    return steps


#: The changes with the columns of `articles`.
CHANGES = "(SELECT * RENAME (batch_hour AS source_at) FROM article_changes)"


def by_rule(row):
    """The order of the rule itself; rows may be equal in it."""
    return (row["event_at"], row["version_id"])


def by_total_order(row):
    """The order that is documented in `resources.warehouse.state.articles`: the rule, and what breaks its ties."""
    kind = row["change_type"] == "update"
    earlier_hour_first = -row["source_at"].timestamp()
    return (*by_rule(row), kind, row["event_key"], earlier_hour_first, -row["namespace_id"])


def title(row):
    return (row["project_id"], row["name"].replace("_", " "))


def page(row):
    return (row["project_id"], row["article_id"])


def live_rows(rows, order):
    """Updates that no update or delete of the title and no update of the page is newer than: straight from the rule."""
    deciding = [row for row in rows if row["change_type"] != "visibility-change"]
    updates = [row for row in deciding if row["change_type"] == "update"]
    return [
        row
        for row in updates
        if not any(title(other) == title(row) and order(other) > order(row) for other in deciding)
        and not any(page(other) == page(row) and order(other) > order(row) for other in updates)
    ]


def has_ties(rows, order=by_rule):
    """Return True if an order, by default the rule's, leaves open which row of a title or page is newer."""
    deciding = [row for row in rows if row["change_type"] != "visibility-change"]
    pairs = [(row, other) for row, other in combinations(deciding, 2) if order(row) == order(other)]
    return any(title(row) == title(other) or page(row) == page(other) for row, other in pairs)


def comparable(rows):
    """Rows as text, each with the type of its event as it was sent."""
    return sorted(
        repr(
            {
                name: row.get("kept_type", value) if name == "change_type" else value
                for name, value in row.items()
                if name not in ("event_key", "kept_type")
            }
        )
        for row in rows
    )


class Memory:
    """The warehouse's operations on one connection that stays open: many small cases in little time."""

    def __init__(self, lake_root):
        self.lake_root = lake_root
        self.connection = duckdb.connect(config={"threads": "1"})
        self.connection.execute("SET TimeZone = 'UTC'")
        ensure(self.connection)
        self.build = Build(self.connection, lake_root, NOW)

    def empty(self):
        for table in TABLES:
            self.connection.execute(f"DELETE FROM {table}")

    def load(self, file):
        if isinstance(file, Snapshot):
            return load_snapshot(self.build, file, keep_replaced=5)
        return load_hour(self.build, file.batch_hour, [file], dataset=ARTICLE_CHANGES)

    def apply(self):
        return apply_changes(self.build)

    def rebuild(self):
        # as where the rows of one pass are all that fits into the memory
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(current, "_passes", lambda _: 3)
            return rebuild_articles(self.build)

    def overlooked(self):
        """What the checks find in `articles` after any history."""
        auditor = Auditor(self.connection, self.lake_root)
        # of all hours, as if they had been taken in at once
        self.connection.execute("UPDATE loads SET applied_at = (SELECT max(applied_at) FROM loads)")
        lost = [one for found in auditor.overlooked(ARTICLES, 100, name=20) for one in found.named]
        return [*lost, *auditor.repeated(ARTICLES, name=20).named]

    def state(self):
        return lasting(self.connection)

    def ask_at(self, moment):
        """The rows of `articles_at`, made as in the published file over views that stand in for tables."""
        [macro] = [one for one in questions() if "CREATE MACRO main.articles_at" in one]
        self.connection.execute("BEGIN")
        try:
            make_views(self.connection, sources(self.connection, self.lake_root))
            self.connection.execute(macro)
            return self.rows(f"articles_at(TIMESTAMPTZ '{moment}', inexact := true)")
        finally:
            self.connection.execute("ROLLBACK")

    def counting_rows(self, moment=START + timedelta(days=1)):
        """The rows before a moment that take part: those of the bases, and changes not older than their base."""
        snapshots = self.connection.sql("FROM snapshots").to_arrow_table().to_pylist()
        whole = [snapshot for snapshot in snapshots if snapshot["newest_event_at"] < moment]
        whole.sort(key=lambda snapshot: (snapshot["boundary_at"], snapshot["snapshot_version"]))
        newest = {(snapshot["project_id"], snapshot["namespace_id"]): snapshot for snapshot in whole}
        boundaries = {pair: snapshot["boundary_at"] for pair, snapshot in newest.items()}
        hours = {snapshot["source_at"] for snapshot in newest.values()}
        parts = lake_parts(self.connection, self.lake_root, SNAPSHOT_ARTICLES)
        bases = [base for base in parts if base.source_at in hours]
        changes = [row for row in self.rows(CHANGES, "event_key") if row["event_at"] < moment]
        counting = [
            row
            for row in changes
            if row["change_type"] == "delete"
            or row["event_at"] >= boundaries.get((row["project_id"], row["namespace_id"]), row["event_at"])
        ]
        for base in bases:
            keys = f"(SELECT article_id, version_id, event_key, is_update, source_at FROM ({base.states()}))"
            found = self.rows(f"{base.rows()} JOIN {keys} USING (article_id, version_id)", "event_key", "is_update")
            for row in found:
                row["kept_type"] = row["change_type"]
                row["change_type"] = "update" if row.pop("is_update") else "delete"
            counting += found
        return counting

    def rows(self, table, *more):
        names = ", ".join([*(column.name for column in ARTICLES), *more])
        return self.connection.sql(f"SELECT {names} FROM {table}").to_arrow_table().to_pylist()


@pytest.fixture
def memory(data):
    memory = Memory(data / "lake")
    yield memory
    memory.connection.close()


@pytest.mark.parametrize("seeds", [(446, 543, 867, 1660), pytest.param(range(1000, 1300), marks=pytest.mark.soak)])
def test_any_order_repetition_and_redo_gives_the_state_of_the_rule(lake, memory, seeds):
    reached = set()
    for seed in seeds:
        chance = random.Random(seed)
        steps = made_steps(chance)
        try:
            reached |= check(lake, memory, steps, chance)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {steps}")
            raise
    all_of_it = "an hour", "a snapshot", "done again", "applied between", "at a moment", "by the rule", "articles"
    assert reached == {*all_of_it}


def check(lake, memory, steps, order):
    """Load and apply the steps, and see the rule's state, in any order of the files. Returns what was seen."""
    memory.empty()
    reached, final = set(), {}
    for (key, one, two, *lists), again, apply in steps:
        chunks, place = [[lake.change(**row) for row in rows] for rows in lists], (key, one, two)
        reached |= {"an hour" if isinstance(key, int) else "a snapshot"} | ({"done again"} if place in final else set())
        if isinstance(key, int):
            file = lake.file(key, chunks[0], one, two, rejects=[b"x"] * (len(chunks[0]) % 3))
            final[place] = file
        else:
            file = lake.snapshot([*chunks, chunks[0][:1]], key, one, version=two)
            final[place] = file
        memory.load(file)
        if again:
            assert not memory.load(file).changed
        if apply:
            memory.apply()
            reached.add("applied between")
    memory.apply()
    assert memory.overlooked() == [], "what the checks look for is never there"
    advanced = memory.state()
    memory.rebuild()
    assert memory.overlooked() == []
    rebuilt = memory.state()
    # an event of a title has one page id; where made-up rows give it two, no order tells which of them is newer
    counting, articles = memory.counting_rows(), memory.rows("articles")
    moments = [START + timedelta(minutes=minute, microseconds=order.randrange(2)) for minute in (1, 3, 4, 6, 12, 20)]
    for moment in order.sample(moments, 1):
        rows = memory.counting_rows(moment)
        if not has_ties(rows, by_total_order):
            assert comparable(memory.ask_at(moment)) == comparable(live_rows(rows, by_total_order))
            reached |= {"at a moment"} if live_rows(rows, by_total_order) else set()

    # The same files into an empty warehouse, each once, in another order, applied one by one.
    memory.empty()
    files = list(final.values())
    order.shuffle(files)
    for file in files:
        memory.load(file)
        memory.apply()

    assert advanced == memory.state() == rebuilt

    if not has_ties(counting, by_total_order):
        assert comparable(articles) == comparable(live_rows(counting, by_total_order))
    if not has_ties(counting):
        assert comparable(articles) == comparable(live_rows(counting, by_rule))
        reached |= {"by the rule"} | ({"articles"} if articles else set())
    return reached


def test_nothing_pending_is_said_and_other_content_of_a_row_is_news(lake, warehouse):
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])])
    assert warehouse.pending_hours() == [lake.hour(0)]
    first = warehouse.apply_changes()
    assert (first.changed, first.hours, first.written_count) == (True, (lake.hour(0),), 1)
    assert warehouse.pending_hours() == []
    second = warehouse.apply_changes()
    assert (second.changed, second.hours, second.row_count) == (False, (), 1)
    news = {
        "categories": [{"name": "Category:X", "url": "u"}, {"name": "Category:Y", "url": None}],
        "editor_groups": ["bot", "user"],
        "image_thumbnail": {"contentUrl": None, "content_url": "c", "width": 3, "height": 4},
        "event_published_at": lake.hour(0) + timedelta(microseconds=123456),
        "revertrisk_probability": 0.1,
        "extra": '{"a":1}',
    }
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1, **news)])])
    warehouse.apply_changes()
    assert ask(warehouse, f"SELECT {', '.join(news)} FROM articles") == [tuple(news.values())]


def test_checks_look_at_the_newest_applied_hours_and_count_both_kinds_of_findings(lake, warehouse, clock):
    for hour in range(2):
        rows = [lake.change(10 * hour + n, f"P {hour}{n}", 60 * hour + n) for n in range(1 + 2 * hour)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
    assert warehouse.apply_changes().hours == (lake.hour(0), lake.hour(1))
    clock.now += timedelta(hours=1)
    entity = {"entity_id": "Q1", "change_type": "update", "event_at": START}
    warehouse.load_hour(START, [lake.file(0, [entity], "wikidatawiki", dataset=ENTITY_CHANGES)], dataset=ENTITY_CHANGES)
    warehouse.apply_entity_changes()
    with warehouse._connector.build("spoil") as connection:
        connection.execute("DELETE FROM articles WHERE article_id > 10")
        later = "change_type = 'delete', event_at = event_at + INTERVAL 1 SECOND"
        connection.execute(f"UPDATE article_changes SET {later} WHERE article_id = 10")
        spelt = "SELECT * REPLACE (replace(name, ' ', '_') AS name, 99 + article_id AS article_id)"
        connection.execute(f"INSERT INTO articles {spelt} FROM articles")
    with warehouse.auditing() as auditor:
        found = auditor.overlooked(ARTICLES, 1, name=1)
        assert [(one.count, one.looked_at, len(one.named)) for one in found] == [(1, 3, 1), (2, 3, 1)]
        assert auditor.repeated(ARTICLES, name=1) == Findings((("enwiki", "P 00", 2),), 2, 4)
    warehouse.load_snapshot(lake.snapshot([[lake.change(10, "P 10", 60)]]))  # changes the project when it is applied
    with warehouse.auditing() as auditor:
        assert [one.count for one in auditor.overlooked(ARTICLES, 1, name=1)] == [0, 0]


def test_a_page_has_its_newest_title_also_where_another_page_took_that(lake, warehouse):
    hours = [
        ([lake.change(1, "A", 5), lake.change(2, "A", 7)], [(2, "A")], (1, 0, 1)),
        ([lake.change(1, "B", 4)], [(2, "A")], (0, 0, 1)),
        ([lake.change(2, "C", 70)], [(2, "C")], (1, 0, 1)),
        ([lake.change(2, "C", 71, "delete")], [], (0, 1, 0)),
        # of one moment, the newest revision decides
        ([lake.change(3, "D", 80), lake.change(3, "D", 80, "delete", version_id=1081)], [], (0, 0, 0)),
    ]
    for hour, (rows, pages, counts) in enumerate(hours):
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        applied = warehouse.apply_changes()
        assert (applied.written_count, applied.removed_count, applied.row_count) == counts
        assert ask(warehouse, "SELECT article_id, name FROM articles") == pages
