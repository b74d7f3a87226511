"""Reverts, links to a page, other languages, best statements and the size of a project. The rows have known answers."""

import json
import random

import pytest

from resources import datasets
from resources.warehouse import QueryError
from tests.brought import HOUR, Brought
from tests.unit.warehouse.test_current_state import made_rows


def test_reverts_are_told_by_their_tags_each_revision_once(lake, warehouse):
    def edit(page, minute, *tags, **more):
        return lake.change(page, f"P{page}", minute, version_tags=[*tags] or None, **more)

    first = [
        edit(1, 1, version_id=7),
        edit(1, 2, "mw-undo", "visualeditor", version_id=8),
        edit(2, 3, "mw-rollback", "mw-reverted", version_id=9, previous_version_id=5),
        edit(3, 4, "mobile edit", None),
        lake.change(4, "P4", 5, "delete", version_tags=["mw-reverted"]),
    ]
    # the revisions 7 and 8 were published again when they had their tags
    second = [first[1], edit(1, 61, "mw-reverted", version_id=7), edit(4, 62, "mw-manual-revert", version_id=6)]
    second.append(edit(1, 63, "mw-undo", "mw-reverted", version_id=8))
    for hour, rows in enumerate((first, second)):
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
    warehouse.publish()
    query = "SELECT version_id, is_reverted, revert_method, previous_version_id FROM actual_reverts"
    undone = [(8, True, "undo", None), (6, False, "manual-revert", None), (7, True, None, None)]
    assert warehouse.sql(query).rows == [*undone, (9, True, "rollback", 5)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, 2, 3))])
def test_the_size_of_a_project_is_that_of_its_pages_at_the_end_of_each_hour(lake, warehouse, seed):
    chance = random.Random(seed)

    def rows(namespace, first, last):
        # a move between namespaces has two halves; without them, a newer snapshot of one would bring back a page of the
        # other
        apart = namespace if seed % 2 else 0
        for row in made_rows(chance, chance.randint(0, 9), last - first):
            size = {"size_bytes": chance.choice([None, 3, 2**40]), "character_count": chance.choice([None, 2])}
            # of two states that are equal but for their size, none is the newer one
            version = next(numbers)
            page, name = row["article_id"] + apart, row["name"] + "'" * apart
            yield lake.change(page, name, first + row["minute"], row["change_type"], version_id=version, **size)

    numbers = iter(range(1, 10_000))
    for namespace, pages in ((0, range(1, 9)), (14, range(21, 25))):
        size = {"size_bytes": 5, "character_count": 1}
        base = [lake.change(page, f"P {page}", 10, version_id=next(numbers), **size) for page in pages]
        warehouse.load_snapshot(lake.snapshot([base], namespace=namespace))
    for hour in range(3):
        # files overlap: the last minutes are in the next one as well
        made = {namespace: list(rows(namespace, 60 * hour + 11, 60 * hour + 69)) for namespace in (0, 14)}
        made[0].append(lake.change(99, "Last", 60 * hour + 59))
        files = [lake.file(hour, some, namespace=namespace) for namespace, some in made.items()]
        warehouse.load_hour(lake.hour(hour), files)
    if seed % 2:  # a newer snapshot, which is not underneath
        warehouse.publish()
        columns = "article_id, name, change_type, event_at, version_id, event_id, size_bytes, character_count"
        found = warehouse.sql(f"SELECT {columns} FROM articles_at(?) WHERE namespace_id = 0", [lake.hour(2)])
        pages = [dict(zip(columns.split(", "), row, strict=True)) for row in found.rows]
        warehouse.load_snapshot(lake.snapshot([pages]))
    warehouse.publish()
    columns = "namespace_id, hour_at, article_count, size_bytes, character_count"
    sizes = warehouse.sql(f"SELECT {columns} FROM project_size('enwiki')").rows
    assert [(row[1], row[0]) for row in sizes] == [(lake.hour(hour), ns) for hour in range(3) for ns in (0, 14)]
    sums = ", ".join(f"CAST(coalesce(sum({one}), 0) AS BIGINT)" for one in ("size_bytes", "character_count"))
    query = f"SELECT namespace_id, count(*), {sums} FROM articles_at(?, project := 'enwiki') GROUP BY ALL"
    for hour in range(3):
        expected = {namespace: row for namespace, *row in warehouse.sql(query, [lake.hour(hour + 1)]).rows}
        found = {namespace: size for namespace, at, *size in sizes if at == lake.hour(hour)}
        assert found == {namespace: expected.get(namespace, [0, 0, 0]) for namespace in (0, 14)}, hour
    assert len({row[2] for row in sizes}) > 1


def test_the_size_of_a_project_is_known_in_its_exact_range_alone(lake, warehouse):
    def edit(hour, project="enwiki"):
        return lake.file(hour, [lake.change(9, "A", 60 * hour + 5)], project=project)

    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "B", 70)]]))
    for hour in (0, 1, 2, 4):
        warehouse.load_hour(lake.hour(hour), [edit(hour), edit(hour, "frwiki")])
    warehouse.publish()
    query = "SELECT hour_at, article_count FROM project_size({})"
    assert warehouse.sql(query.format("'enwiki'")).rows == [(lake.hour(1), 2), (lake.hour(2), 2)]
    assert warehouse.sql(query.format("'frwiki'")).rows == []
    with pytest.raises(QueryError, match=r"The project enwki is not mirrored here\. The nearest name is enwiki"):
        warehouse.sql("SELECT count(*) FROM project_size('enwki') WHERE article_count > 0")


@pytest.fixture
def mirror(data):
    """Brings well-formed records into a data folder; `ask` publishes and answers."""
    made = Brought(data)
    usual = {"date_modified": "2026-11-19T05:10:11Z", "namespace": {"identifier": 0}}

    def bring(dataset, project, *records):
        whole = usual | {"is_part_of": {"identifier": project}}
        rows = [whole | {"identifier": n, "version": {"identifier": n}} | one for n, one in enumerate(records, 1)]
        known = {"snapshot_id": f"{project}_namespace_0", "snapshot_version": "abcdef01"}
        made.bring(dataset, (project, 0), [*map(json.dumps, rows)], HOUR, **known)

    made.bring_records = bring
    return made


WIKI = "https://en.wikipedia.org/wiki/"


def test_links_to_a_page_are_also_those_to_its_redirects_and_of_its_own_project_alone(mirror):
    titles = {"New York": ["NYC", "Big_Apple"], "London": ["Big Apple, London"], "Çà & là?": []}
    pages = [{"name": name, "redirects": [{"name": one} for one in redirects]} for name, redirects in titles.items()]
    mirror.bring_records(datasets.SNAPSHOT_ARTICLES, "enwiki", *pages)

    def page(name, *urls):
        part = {"type": "paragraph", "links": [{"url": url, "text": "x"} for url in urls]}
        sections = [{"type": "section", "name": "Abstract", "has_parts": [part]}]
        return {"name": name, "url": WIKI + name, "sections": sections}

    mirror.bring_records(
        datasets.STRUCTURED_ARTICLES,
        "enwiki",
        page("One", WIKI + "New_York", WIKI + "Big_Apple#History", WIKI + "London", WIKI + "New_York_City"),
        page("Two", "//en.wikipedia.org/wiki/NYC?oldid=7", "/wiki/New%20York", "https://fr.wikipedia.org/wiki/NYC"),
        page("Three", "https://web.archive.org/web/" + WIKI + "NYC", WIKI, WIKI + "%ff", "NYC", WIKI + "Nowhere"),
        page("Four", WIKI + "%C3%87%C3%A0_%26_l%C3%A0%3F"),
    )
    query = "SELECT name, linked_title, is_redirect FROM links_to('enwiki', ?)"
    expected = [("One", "New York", False), ("One", "Big Apple", True)]
    expected += [("Two", "NYC", True), ("Two", "New York", False)]
    for title in ("New York", "New_York", "NYC", "Big Apple"):
        assert mirror.ask(query, title) == expected
    assert mirror.ask(query, "London") == [("One", "London", False)]
    link = ("enwiki", 0, 1, "One", "London", False, "section", [1, 1, 3], f"{WIKI}London", "x")
    assert mirror.ask("FROM links_to('enwiki', 'London')") == [link]
    assert mirror.ask(query, "Çà & là?") == [("Four", "Çà & là?", False)]
    # a page that is not mirrored, or does not exist
    assert mirror.ask(query, "Nowhere") == [("Three", "Nowhere", False)]
    assert mirror.ask(query, "") == mirror.ask(query, "new york") == []
    with pytest.raises(QueryError, match=r"No structured contents of frwiki are loaded.*--dataset structured_articles"):
        mirror.ask("SELECT count(*) FROM links_to('frwiki', 'NYC') WHERE article_id > 0")


def test_other_languages_are_those_of_the_item_mirrored_or_not(mirror, lake):
    item = {"main_entity": {"identifier": "Q60"}}
    projects = [{"project_id": f"{one}wiki", "code": "wiki", "language_id": one} for one in ("en", "fr", "de")]
    mirror.bring_records(datasets.SNAPSHOT_ARTICLES, "enwiki", {"name": "New York", **item}, {"name": "Lonely"})
    mirror.bring_records(datasets.SNAPSHOT_ARTICLES, "frwiki", {"name": "Autre"}, {"name": "New York (ville)", **item})
    query = "SELECT language_id, project_id, name, article_id, entity_id FROM other_languages('enwiki', ?)"
    french = ("fr", "frwiki", "New York (ville)", 2, "Q60")
    assert mirror.ask(query, "New York") == [(None, *french[1:])]
    mirror.warehouse.load_list(lake.dataset("projects"), lake.reference("projects", projects))
    titles = {"enwiki": "New York", "frwiki": "Ancien titre", "dewiki": "New York City", "enwikiquote": "New York"}
    links = {project: {"title": title} for project, title in titles.items()}
    entities = {"name": "Q60", "entity": {"sitelinks": links}}, {"name": "Q61"}
    mirror.bring_records(datasets.SNAPSHOT_ENTITIES, "wikidatawiki", *entities)
    assert mirror.ask(query, "New York") == [("de", "dewiki", "New York City", None, "Q60"), french]
    assert mirror.ask(query, "Lonely") == []
    with pytest.raises(QueryError, match=r"by the title new york\. Titles are case-sensitive"):
        mirror.ask(query, "new york")


def test_best_statements_are_the_preferred_ones_or_else_the_normal_ones(mirror):
    def statements(*ranks):
        return [{"identifier": str(n), **({"rank": rank} if rank else {})} for n, rank in enumerate(ranks)]

    entity = {"P1": statements("normal", "preferred", "deprecated", "preferred")}
    entity |= {"P2": statements("deprecated", "normal", None), "P3": statements("deprecated")}
    stated = {"Q1": entity, "Q2": {"P1": statements("normal")}}
    entities = [{"name": name, "entity": {"statements": of_entity}} for name, of_entity in stated.items()]
    mirror.bring_records(datasets.SNAPSHOT_ENTITIES, "wikidatawiki", *entities)
    query = "SELECT entity_id, property_id, position FROM best_statements ORDER BY ALL"
    assert mirror.ask(query) == [("Q1", "P1", 2), ("Q1", "P1", 4), ("Q1", "P2", 2), ("Q1", "P2", 3), ("Q2", "P1", 1)]
