"""The first questions, each on rows whose answer is known."""

import re
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from resources.tables import HourState
from resources.tables.views import MACROS, QUESTIONS
from resources.warehouse import HourStatus, QueryError
from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import statement
from tests.builds import shown


@pytest.fixture
def ask(load, warehouse):
    """`ask(query, hours=[rows, ...], snapshots=[rows, ...])`: loads, applies, and answers as if it were published."""

    def answered(query, hours=(), snapshots=(), parameters=()):
        load(hours, snapshots)
        warehouse.apply_changes()
        with shown(warehouse) as connection:
            return answer(connection, query, parameters)

    return answered


@pytest.fixture
def load(lake, warehouse):
    """`load(hours=[rows, ...], snapshots=[rows, ...])`; rows of hours may be by project."""

    def loaded(hours=(), snapshots=()):
        for number, rows in enumerate(hours):
            of_projects = rows if isinstance(rows, dict) else {"enwiki": rows}
            files = [lake.file(number, its, project) for project, its in of_projects.items()]
            warehouse.load_hour(lake.hour(number), files)
        for rows in snapshots:
            warehouse.load_snapshot(lake.snapshot([rows]))

    return loaded


@pytest.fixture
def publish(load, warehouse):
    """`publish(hours, snapshots)`: loads and publishes."""

    def published(*rows):
        load(*rows)
        warehouse.publish()

    return published


def test_a_moment_before_all_pages_are_known_is_an_error_that_names_the_first_exact_one(lake, publish, warehouse):
    changes = [lake.change(7, "Known from its hour alone", 15), lake.change(7, "Its old title", 16, "delete")]
    publish([changes], [[lake.change(1, "A", 20)]])
    (state,) = warehouse.project_states()
    assert state.exact_from_at == lake.hour(0) + timedelta(minutes=20, microseconds=1)
    early = state.exact_from_at - timedelta(microseconds=1)
    said = (
        "articles_at is not exact at 2026-11-01 00:20:00+00. enwiki namespace 0 is exact from 2026-11-01 "
        "00:20:00.000001+00 on. Use a later moment, a project that is exact then (project := 'name'), or inexact := "
        "true for the known pages only."
    )
    for columns, more in (("*", ""), ("count(*)", ", project := 'enwiki'"), ("url", "")):
        with pytest.raises(QueryError, match=re.escape(said)):
            warehouse.sql(f"SELECT {columns} FROM articles_at(?{more}) WHERE article_id > 0", [early])
    assert len(warehouse.sql("FROM articles_at(?)", [state.exact_from_at]).rows) == 2
    inexact = "SELECT article_id FROM articles_at(?, inexact := true)"
    assert warehouse.sql(inexact, [early]).rows == [(7,)]
    assert warehouse.sql(inexact, [lake.hour(0) + timedelta(minutes=15)]).rows == [], "its change is no older"
    with pytest.raises(QueryError, match="not exact at a moment that is null"):
        warehouse.sql("FROM articles_at(NULL)")


def test_one_project_without_a_snapshot_makes_the_pages_of_all_inexact_and_no_other(lake, publish, warehouse):
    publish([[lake.change(7, "B", 15)]], [[lake.change(1, "A", 20)]])
    for number in range(6):
        warehouse.load_hour(lake.hour(1), [lake.file(1, [lake.change(9, "C", 61)], "frwiki", number)])
    warehouse.publish()
    at = lake.hour(9)
    said = (
        r"not exact at 2026-11-01 09:00:00\+00\. frwiki namespace 0 has no snapshot: only changed pages are known\. "
        r"`wme run --snapshots` fetches it, if the service has one\. "
        r"frwiki namespace 1 .* frwiki namespace 4 has [^.]*\. [^.]*\. And 1 more\. Use a later"
    )
    with pytest.raises(QueryError, match=said):
        warehouse.sql("FROM articles_at(?)", [at])
    with pytest.raises(QueryError, match="frwiki namespace 0 has no snapshot"):
        warehouse.sql("FROM articles_at(?, project := 'frwiki')", [at])
    assert len(warehouse.sql("FROM articles_at(?, project := 'enwiki')", [at]).rows) == 2
    assert len(warehouse.sql("FROM articles_at(?, inexact := true)", [at]).rows) == 8 - 5


def test_history_of_a_page_by_title_and_by_id(lake, ask):
    twice = lake.change(1, "A_b", 59, version_id=7, event_id="twice")
    hours = [
        [lake.change(1, "A b", 5, version_id=5), twice],
        [twice, lake.change(1, "C", 70, version_id=8, event_id="m"), lake.change(1, "A_b", 70, "delete", event_id="m")],
        [lake.change(9, "A b", 130, version_id=9), lake.change(8, "D", 131), lake.change(6, "There", 132)],
    ]
    base = [lake.change(1, "A b", 1, version_id=4), lake.change(1, "A b", 5, version_id=5), lake.change(6, "Here", 2)]
    query = "SELECT article_id, version_id, change_type FROM article_history('enwiki', {})"
    whole = [(1, 4, "update"), (1, 5, "update"), (1, 7, "update"), (1, 8, "update"), (1, 1070, "delete")]
    assert ask(query.format(1), hours, [base]) == whole
    moved = [(6, 1002, "update"), (6, 1132, "update")]
    for page, expected in (("'A b'", [*whole, (9, 9, "update")]), ("'C'", whole), ("'1'", []), ("'Here'", moved)):
        assert ask(query.format(page)) == expected


def test_changes_between_moments_count_once(lake, ask):
    twice = lake.change(1, "A", 61, event_id="e")
    query = "SELECT article_id, batch_hour FROM changes_between('2026-11-01 00:10:00+00', '2026-11-01 01:02:00+00')"
    found = ask(query, [[lake.change(3, "C", 9), lake.change(2, "B", 10), twice], [twice, lake.change(4, "D", 62)]])
    assert found == [(2, lake.hour(0)), (1, lake.hour(0))]
    assert ask("SELECT count(*) FROM distinct_changes") == [(4,)]


def test_activity_per_hour_and_project(lake, ask):
    born, sizes = lake.hour(0) + timedelta(minutes=2), {"size_bytes": 100, "character_count": 90}
    by_passer = {"editor_is_anonymous": True, "is_minor_edit": True}
    hours = [
        [
            lake.change(1, "A", 2, created_at=born, **sizes, **by_passer),
            lake.change(2, "B", 3, previous_version_id=1, previous_character_count=100, editor_is_bot=True, **sizes),
            lake.change(2, "B", 4, created_at=born, modified_at=lake.hour(0), event_id=None, **by_passer),
            lake.change(3, "C", 5, "delete", event_id=None, editor_is_bot=True, **by_passer),
            lake.change(4, "E", 6, event_id="m", previous_version_id=3, is_minor_edit=True, **sizes),
            lake.change(4, "D", 6, "delete", event_id="m"),
            lake.change(5, "F", 7, "visibility-change"),
            lake.change(6, "G", 61, event_id="late", previous_version_id=1),
        ],
        [lake.change(6, "G", 61, event_id="late", previous_version_id=1)],
    ]
    names = [column.name for column in next(one for one in QUESTIONS if one.name == "activity")]
    rows = [dict(zip(names, row, strict=True)) for row in ask("FROM activity ORDER BY hour_at", hours)]
    once = ("creation_count", "deletion_count", "move_count", "visibility_change_count", "bot_count")
    counts = dict.fromkeys(once, 1) | {"edit_count": 2, "anonymous_count": 2, "minor_count": 3, "article_count": 5}
    place = {"hour_at": lake.hour(0), "project_id": "enwiki", "namespace_id": 0}
    assert rows[0] == place | counts | {"size_bytes": 300, "added_character_count": 80}
    assert (rows[1]["hour_at"], rows[1]["edit_count"], rows[1]["bot_count"], len(rows)) == (lake.hour(1), 1, 0, 2)


def test_deleted_articles_are_those_that_are_gone_and_not_those_that_moved_or_came_back(lake, ask):
    hours = [
        [
            *(lake.change(page, f"P {page}", page) for page in range(1, 6)),
            lake.change(1, "P 1", 10, "delete"),  # gone, and its title is another page's since
            lake.change(6, "P 1", 11),
            *(lake.change(2, "P 2", 12, "delete"), lake.change(2, "P 2", 13)),  # restored
            *(lake.change(3, "Q 3", 14, event_id="m"), lake.change(3, "P 3", 14, "delete", event_id="m")),  # moved
            *(lake.change(4, "P_4", minute, "delete") for minute in (14, 15)),
            lake.change(4, "P 4", 15, "visibility-change"),
            lake.change(7, "Never seen", 16, "delete"),
        ],
        [lake.change(4, "P_4", 15, "delete")],
    ]
    hours[0] = {"enwiki": hours[0], "frwiki": [lake.change(1, "Of another project", 17)]}
    deleted = [(7, "Never seen", 16), (4, "P 4", 15), (1, "P 1", 10)]
    found = ask("SELECT article_id, name, deleted_at FROM deleted_articles", hours)
    assert found == [(*page, lake.hour(0) + timedelta(minutes=minute)) for *page, minute in deleted]


def test_most_edited_newest_breaking_reverted_and_vandalized_pages_with_categories_templates_and_titles(lake, ask):
    """The pages of each question are a project."""
    by = (("A", 1, "x"), ("A", 2, "y"), ("Z", 3, None))
    edits = [lake.change(1, name, minute, editor_name=editor) for name, minute, editor in by]
    edits.append(lake.change(2, "B", 4, editor_name="bot", editor_is_bot=True))
    new = [lake.change(1, "A", 5, created_at=lake.hour(0)), lake.change(3, "C", 6)]
    new.append(lake.change(2, "B", 4, created_at=lake.hour(1), is_breaking_news=True))

    def edit(page, **more):
        return lake.change(page, f"P{page}", page, **({"version_comment": "why", "editor_edit_count": 100} | more))

    cut = {"character_count": 10, "previous_character_count": 1000}
    odd = [
        edit(1, revertrisk_prediction=True, revertrisk_probability=0.95, editor_is_anonymous=True),
        edit(2, revertrisk_prediction=True, revertrisk_probability=0.99),
        edit(3, revertrisk_probability=0.2),
        edit(4, editor_edit_count=1, version_comment=None, **cut),
        edit(5, editor_edit_count=1, editor_is_bot=True, **cut),
    ]
    redirects = [{"name": one, "url": f"w {one}"} for one in ("NYC", "Big_Apple", "Big Apple", "Taken_it")]
    lists = {"categories": [{"name": "Category:X", "url": "u"}, {"name": None, "url": None}], "redirects": redirects}
    templates = [{"name": name, "url": "v"} for name in ("Template:T", None)]
    described = lake.change(1, "New York", 1, templates=templates, **lists)
    first = {"edits": edits, "new": new, "odd": odd, "described": [described, lake.change(2, "Taken it", 2)]}
    first["another"] = [lake.change(3, "NYC", 3)]  # which hides no redirect of `described`
    later = edits[0] | {"event_id": "of the same revision", "event_at": lake.hour(1)}
    query = "SELECT * EXCLUDE (project_id, namespace_id, article_id) FROM most_edited WHERE {}"
    found = ask(query.format("project_id = 'edits'"), [first, {"edits": [later], "odd": odd[:1]}])
    at = [row["event_at"] for row in edits]
    assert found == [("Z", 3, 2, 0, at[0], at[2]), ("B", 1, 1, 1, at[3], at[3])]
    assert ask("SELECT name FROM newest_articles") == [("B",), ("A",)]
    assert ask("SELECT name FROM breaking_news") == [("B",)]
    assert ask("SELECT name FROM likely_reverted") == [("P2",), ("P1",)]
    suspects = "SELECT name, sign_count, added_character_count FROM vandalism_candidates WHERE project_id = 'odd'"
    assert ask(suspects) == [("P4", 3, -990), ("P1", 2, None)]
    page = ("described", 0, 1, "New York")
    assert ask("FROM article_categories") == [(*page, "Category:X", "u")]
    assert ask("FROM article_templates") == [(*page, "Template:T", "v")]
    assert ask("FROM redirects")[0] == ("described", "NYC", "w NYC", 1, "New York")
    titles = [(title, "New York", title != "New York") for title in ("Big Apple", "NYC", "New York")]
    query = "SELECT title, name, is_redirect FROM titles WHERE project_id = 'described' ORDER BY ALL"
    assert ask(query) == [*titles, ("Taken it", "Taken it", False)]
    find = "SELECT article_id FROM find_article('described', ?)"
    for title, page in {"New_York": 1, "NYC": 1, "Big Apple": 1, "Taken it": 2}.items():
        assert ask(find, parameters=[title]) == [(page,)]
    assert ask(find, parameters=["Nowhere"]) == []


def test_each_sign_of_vandalism_counts_from_its_bound_on(lake, ask):
    cut, few = {"previous_character_count": 500, "character_count": 249}, {"editor_edit_count": 9}
    signs = [{"revertrisk_probability": 0.9}, {"damaging_prediction": True}, {"goodfaith_prediction": False}]
    signs += [{"editor_is_anonymous": True}, few, cut, cut | few]
    none = [{}, {"revertrisk_probability": 0.89}, {"goodfaith_prediction": True}, {"editor_edit_count": 10}]
    none += [cut | {"character_count": 250}, {"previous_character_count": 499, "character_count": 1}]
    none += [few | one for one in ({"is_minor_edit": True}, {"version_comment": "why"}, {"change_type": "delete"})]
    # the missing comment is a sign by itself
    rows = [lake.change(n, "A", n, **{"version_comment": "", **more}) for n, more in enumerate([*signs, *none])]
    found = ask("SELECT article_id, sign_count FROM vandalism_candidates ORDER BY ALL", [rows])
    assert found == [*((number, 2) for number in range(6)), (6, 3)]


def test_the_page_about_the_mirror_asks_for_changes_gaps_and_edits(lake, warehouse, ask):
    first, last = lake.change(1, "A", 1, url="a"), lake.change(1, "B", 61, url="b")
    other, start, at = lake.change(2, "C", 2), lake.hour(0), last["event_at"]
    hours = [{"zwiki": [first, first, last, other | {"change_type": "delete"}], "awiki": [other]}, {"zwiki": [last]}]
    states = [("awiki", 1, HourState.MISSING), ("bwiki", 0, HourState.MISSING), ("bwiki", 1, HourState.PAST_RETENTION)]
    warehouse.record_statuses([HourStatus(lake.hour(hour), project, 0, state) for project, hour, state in states])
    found = ask(statement("read/page/changes"), hours, parameters=["2 hours", 1])
    assert found == [(start, "zwiki", 4), (start, None, 1)]
    cells = [("bwiki", "past_retention", 2, 0, 0), ("awiki", "missing", 1, 1, 1)]
    found = ask(statement("read/page/coverage"), parameters=["2 hours", 2])
    assert found == [(project, 0, start, *more) for project, *more in cells]
    for since, count in ((start, 2), (lake.hour(1), 1)):
        found = ask(statement("read/page/edited"), parameters=[since, 1])
        assert found == [("zwiki", "B", "b", count, 0, at)]


def test_a_project_that_is_not_mirrored_is_an_error_whatever_is_asked(lake, publish, warehouse):
    publish([{"enwiki": [lake.change(1, "A", 1)], "aawiki": [lake.change(2, "B", 1)]}])
    said = r"The project enwki is not mirrored here\. The nearest name is enwiki\. SELECT DISTINCT"
    with warehouse.connect_published() as connection:
        for macro in (
            "articles_at('2026-11-01 00:30:00+00', project := {}, inexact := true)",
            "article_history({}, 1)",
            "article_history({}, 'A')",
            "find_article({}, 'A')",
        ):
            assert len(connection.execute(f"FROM {macro}".format("'enwiki'")).fetchall()) == 1
            for query in ("SELECT count(*) FROM {}", "SELECT url FROM {} WHERE article_id = 1 AND name = 'A' LIMIT 1"):
                for asked in ("enwki", "ENWIKI"):
                    with pytest.raises(QueryError, match=said.replace("enwki", asked)):
                        warehouse.sql(query.format(macro.format(f"'{asked}'")))


def test_a_project_of_which_there_is_a_snapshot_alone_is_mirrored_and_before_there_is_no_nearest_one(lake, ask):
    query = "SELECT article_id FROM find_article('enwiki', 'A')"
    with pytest.raises(duckdb.Error, match=r"The project enwiki is not mirrored here\. SELECT DISTINCT"):
        ask(query)
    assert ask(query, [], [[lake.change(1, "A", 1)]]) == [(1,)]


def test_title_in_another_case_suggests_those_that_exist(lake, publish, warehouse):
    redirects = [{"name": "The_Blue planet", "url": None}]
    rows = [lake.change(1, "Earth", 1, redirects=redirects), lake.change(2, "EARTH", 2), lake.change(3, "Gone", 3)]
    publish([[*rows, lake.change(3, "Gone", 4, "delete")]])
    assert warehouse.sql("FROM find_article('enwiki', 'Moon')").rows == []
    for asked, found in [
        ("find_article('enwiki', 'earth')", "the title earth. Titles are case-sensitive. There is EARTH, Earth."),
        ("find_article('enwiki', 'the blue_Planet')", "There is The Blue planet."),
        ("article_history('enwiki', 'gone')", "is known by the title gone. Titles are case-sensitive. There is Gone."),
    ]:
        with pytest.raises(QueryError, match=re.escape(found)):
            warehouse.sql(f"SELECT count(*) FROM {asked}")
    assert warehouse.sql("SELECT name FROM find_article('enwiki', 'Earth')").rows == [("Earth",)]
    for spelt in ("The Blue planet", "The_Blue_planet"):
        assert warehouse.sql("SELECT article_id FROM find_article('enwiki', ?)", [spelt]).rows == [(1,)]
    assert warehouse.sql("SELECT name FROM find_article('enwiki', 'gone')").rows == []
    assert len(warehouse.sql("FROM article_history('enwiki', 'Gone')").rows) == 2


def test_argument_that_a_macro_would_take_for_a_column_of_its_own_is_refused(lake, publish, warehouse):
    publish([[lake.change(2, "B", 15)]], [[lake.change(1, "A", 20), lake.change(3, "C", 10)]])
    pages = (
        "articles JOIN project_state USING (project_id, namespace_id), (SELECT boundary_at, 'x' label FROM snapshots)"
    )
    for line in Path(__file__).with_name("arguments.txt").read_text().splitlines():
        call, counts = line.split(" -> ")
        query = f"SELECT (SELECT count(*) FROM {call}) FROM (FROM {pages}) AS page ORDER BY 1"
        with pytest.raises(QueryError, match=r"is a column without the name of its table|Ambiguous reference"):
            warehouse.sql(query.format(""))
        assert str([count for (count,) in warehouse.sql(query.format("page.")).rows]) == counts, call


def test_queries_with_parameters_are_described(ask):
    here = "duckdb_functions() WHERE function_type = 'table_macro' AND database_name = 'warehouse'"
    found = ask(f"SELECT function_name, parameters, comment FROM {here} ORDER BY 1")
    assert found == sorted((macro.name, list(macro.parameters), macro.description) for macro in MACROS)
