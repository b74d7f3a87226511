"""Structured contents from the archive to the published file: what went in comes out, and all derived agrees."""

import gzip
import hashlib
import json
import pathlib
from collections import Counter, defaultdict

import duckdb
import pytest

from assets.steps import snapshot
from resources.datasets import STRUCTURED_ARTICLES
from resources.engine import Engine
from resources.lake import convert
from resources.sandbox.world.structured import structured
from resources.warehouse import QueryError
from tests.brought import HOUR, Brought
from tests.builds import close_all
from tests.unit.lake.test_nothing_is_lost import normal_record, rebuilt, with_type

REAL = pathlib.Path(__file__).resolve().parents[3] / "shared/data/real/enterprise/structured-contents"
#: Parts of a page, and the rows of each table that is derived from them.
PARTS = pathlib.Path(__file__).with_name("parts.json")
JSON = {column.name: column.path for column in STRUCTURED_ARTICLES.table if column.json}


class Library(Brought):
    """A data folder with snapshots of structured contents that a test makes."""

    def load(self, project: str, lines: list[bytes], minute: int = 0, namespace: int = 0):
        """A snapshot of these lines, converted and loaded."""
        version = hashlib.md5(b"".join(lines)).hexdigest()
        known = {"snapshot_id": f"{project}_namespace_{namespace}", "snapshot_version": version}
        return self.bring(STRUCTURED_ARTICLES, (project, namespace), lines, HOUR.replace(minute=minute), **known)


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path / "data")


def real() -> dict[str, list[dict]]:
    """The real records by project, the later of two of one page."""
    samples = [REAL / f"{name}.json.gz" for name in ("montreal-2024-infobox", "montreal-2025-infoboxes")]
    records = [record for path in samples for record in json.loads(gzip.decompress(path.read_bytes()))]
    (fields,) = json.loads(gzip.decompress((REAL / "montreal-2025-fields.json.gz").read_bytes()))
    # an answer of three fields says of no page which it is; put over one, it is a record
    records.append({**records[1], "identifier": 1, **fields})
    elections = REAL / "us-elections-2025-sdk-serialised.ndjson.gz"
    records += map(json.loads, gzip.decompress(elections.read_bytes()).splitlines())
    by_page = {(record["is_part_of"]["identifier"], record["identifier"]): record for record in records}
    by_project: dict[str, list[dict]] = {}
    for (project, _), record in by_page.items():
        by_project.setdefault(project, []).append(record)
    return by_project


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The real records by project, and the published file that has them."""
    if not REAL.is_dir():
        pytest.skip("the real samples are not on this machine")
    library, records = Library(tmp_path_factory.mktemp("real") / "data"), real()
    for project, lines in records.items():
        made, loaded = library.load(project, [json.dumps(record).encode() for record in lines])
        assert (made.reject_count, loaded.row_count) == (0, len(lines))
    library.warehouse.publish()
    close_all()
    with duckdb.connect(str(library.warehouse.published_path), read_only=True) as found:
        yield records, found


def parts(place: list):
    for part in place or []:
        yield part
        yield from parts(part.get("has_parts"))


def test_real_records_come_back_as_they_went_in(published):
    records, found = published
    pages = "structured_articles AS page JOIN structured_bodies AS body USING (project_id, article_id)"
    known = "project_id, namespace_id, article_id, name, version_id"
    rows = found.sql(f"SELECT page.*, body.* EXCLUDE ({known}) FROM {pages}").to_arrow_table().to_pylist()
    assert len(rows) == sum(map(len, records.values()))
    by_page = {(row["project_id"], row["article_id"]): row for row in rows}
    for project, lines in records.items():
        for record in lines:
            row = by_page[project, record["identifier"]]
            texts = {path: row[column] for column, path in JSON.items() if row[column] is not None}
            assert texts == {path: json.dumps(record[path]) for path in JSON.values() if record.get(path) is not None}
            # the archive knows the namespace, which a structured record does not name
            whole = with_type({"namespace": {"identifier": 0}} | record)
            assert rebuilt(row, STRUCTURED_ARTICLES.table) == normal_record(whole, STRUCTURED_ARTICLES.table)


def test_parts_of_real_records_have_derived_rows_with_their_words(published):
    records, warehouse = published
    wanted: defaultdict[str, list[tuple]] = defaultdict(list)
    for record in (record for lines in records.values() for record in lines):
        boxes = [*parts(record.get("infoboxes") or record.get("infobox"))]
        sections = [*parts(record.get("sections") or record.get("article_sections"))]
        notes, tables = record.get("references") or [], record.get("tables") or []
        texts = (one.get(side) or {} for one in notes for side in ("text", "source"))
        links = [link for part in (*boxes, *sections, *texts) for link in part.get("links") or []]
        fields = [(part["type"], part.get("name"), part.get("value")) for part in boxes]
        named = [one for one in fields if one[0] not in ("infobox", "section")]
        wanted["part_type, label, value FROM infobox_fields"] += named
        wanted["heading FROM sections"] += [(part["name"],) for part in sections if part["type"] == "section"]
        notes = [(one["identifier"], one["text"]["value"]) for one in notes]
        wanted["reference_id, text FROM article_references"] += notes
        tables = [(one["identifier"], one["confidence_score"]) for one in tables]
        wanted["table_id, confidence_score FROM article_tables"] += tables
        wanted["url, text FROM article_links"] += [(link.get("url"), link.get("text")) for link in links]
    for query, rows in wanted.items():
        assert Counter(warehouse.execute(f"SELECT {query}").fetchall()) == Counter(rows), query


def test_from_the_sandbox_to_a_question(client, sandbox, library):
    """What the published file says of a snapshot is what the sandbox's world says of it; nothing of it costs quota."""
    listed = client.snapshots.listing(STRUCTURED_ARTICLES)
    assert len(json.loads(listed.raw)) == 2 * len(listed.records)
    name = "enwiki_namespace_0"
    record = client.snapshots.record(name, STRUCTURED_ARTICLES)
    assert {one.identifier: one.version for one in listed}[name] == record.version
    plan = snapshot.plan_snapshot(name, client, library.layout, 0, STRUCTURED_ARTICLES)
    assert (plan.form, plan.unit_count, len(plan.files)) == ("whole", 0, 1)
    archived = snapshot.fetch_snapshot(plan, client, library.layout, Engine())
    conversions = [convert(archive, library.layout) for archive in archived.archives]
    loaded = snapshot.load_snapshot(archived, conversions, library.warehouse)
    assert loaded.reject_count == 0
    started, _ = sandbox.world.snapshot_times(name, record.date_modified)
    newest: dict[int, dict] = {}
    for entry in sandbox.world.snapshot_entries(name, started):
        article = sandbox.world.record(entry.event)
        known = newest.setdefault(article["identifier"], article)
        if article["event"]["date_published"] > known["event"]["date_published"]:
            newest[article["identifier"]] = article
    assert len(newest) == loaded.row_count - loaded.duplicate_count
    rows = library.ask("SELECT article_id, version_id, sections_json, infoboxes_json FROM structured_bodies")
    assert len(rows) == len(newest)
    for page, version, sections, boxes in rows:
        parsed = structured(newest[page]) or {}
        assert version == newest[page]["version"]["identifier"]
        found = [text and json.loads(text) for text in (sections, boxes)]
        assert found == [parsed.get("sections"), parsed.get("infoboxes")]
    (label,) = library.ask("SELECT mode(label) FROM infobox_fields")[0]
    assert len(library.ask("FROM infobox_values(upper(?))", label)) > 1
    library.warehouse.drop_project("enwiki")
    with duckdb.connect(str(library.warehouse.build_path)) as build:
        for table in ("structured_articles", "infobox_fields", "internal.hidden_rows"):
            assert build.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


def line_of(page: int, revision: int = 1, **parts: object) -> bytes:
    record = {
        "name": f"Page {page}", "identifier": page, "version": {"identifier": revision},
        "date_modified": f"2026-11-19T05:00:{revision % 60:02d}Z", "is_part_of": {"identifier": "enwiki"},
    }  # fmt: skip
    return json.dumps(record | parts).encode()


def test_a_page_counts_once_and_a_new_version_takes_the_place_of_the_old(library):
    def line(page: int, revision: int, heading: str) -> bytes:
        return line_of(page, revision, sections=[{"name": heading, "type": "section"}])

    first = [line(1, 10, "old"), line(2, 20, "two"), line(1, 11, "new"), line(2, 20, "two"), b"bad"]
    made, loaded = library.load("enwiki", first)
    assert (made.reject_count, loaded.row_count, loaded.duplicate_count) == (1, 4, 2)
    joined = "sections JOIN structured_articles USING (project_id, article_id)"
    question = f"SELECT article_id, version_id, heading FROM {joined} ORDER BY ALL"
    assert library.ask(question) == [(1, 11, "new"), (2, 20, "two")]
    assert library.ask("SELECT article_id, version_id FROM structured_bodies ORDER BY ALL") == [(1, 11), (2, 20)]
    _, loaded = library.load("enwiki", [line(1, 12, "newer"), line(3, 30, "three")], minute=30)
    assert (len(loaded.dropped_versions), library.ask(question)) == (1, [(1, 12, "newer"), (3, 30, "three")])
    assert library.ask("SELECT reason FROM rejects") == []
    with duckdb.connect(str(library.warehouse.build_path)) as build:
        assert build.execute("SELECT count(*) FROM internal.hidden_rows").fetchall() == [(0,)]


def test_each_derived_column_shows_its_part_of_a_page_also_under_the_names_of_before_2025(library):
    page, derived = json.loads(PARTS.read_bytes()).values()
    old = {"infobox": page["infoboxes"], "article_sections": page["sections"]}
    both = page | {"infobox": [], "article_sections": []}
    library.load("enwiki", [line_of(0, **both), line_of(1, **page | old | {"infoboxes": None, "sections": None})])

    def rows(query, *words):
        return sorted(map(repr, map(list, library.ask(query, *words))))

    for table in STRUCTURED_ARTICLES.derived:
        query = f"SELECT * EXCLUDE (project_id, namespace_id, article_id, name) FROM {table.name} WHERE article_id = ?"
        for number in range(2):
            assert rows(query, number) == sorted(map(repr, derived[table.name])), table.name
    assert len(library.ask("FROM infobox_values('nAME')")) == 2
    found = [list(row) for row in library.ask("FROM page_links('enwiki', 'Page_0')")]
    assert found == [[*row[:2], *row[3:]] for row in derived["article_links"]]
    found = [list(row) for row in library.ask("FROM page_sections('enwiki', 'Page_0')")]
    assert found == [[row[0], *row[2:4], *row[5:8]] for row in derived["sections"]]
    for macro in ("page_links", "page_sections", "links_to"):
        query = (
            f"SELECT (SELECT count(*) > 0 FROM {macro}('enwiki', {{}}name)) FROM structured_articles AS page LIMIT 1"
        )
        assert library.ask(query.format("page.")) == [(macro != "links_to",)]
        with pytest.raises(QueryError, match=f"An argument of {macro} is a column without the name of its table"):
            library.ask(query.format(""))


def test_forms_that_no_sample_has_are_asked_without_an_error(library):
    """Texts, numbers and objects where lists are expected; parts at every depth; names that are JSON paths."""
    deep: dict = {"type": "paragraph", "value": "bottom", "links": [{"url": "https://deep"}]}
    for number in range(11):
        deep = {"type": "section", "name": f"level {number}", "has_parts": [deep]}
    odd = [
        {"sections": "x", "infoboxes": 7, "references": {"identifier": "one", "text": {"value": "t"}}, "tables": "x"},
        {"sections": [1, "a", None, [{"type": "section"}]], "infoboxes": [{"has_parts": {"type": "field"}}]},
        {"tables": [3]},
        {"sections": [deep], "tables": {"identifier": "t", "rows": [["a"], "b"], "confidence_score": "high"}},
        {"infoboxes": [{"type": "infobox", "has_parts": [{"type": "field", "name": "$.x[0]", "values": "v"}]}]},
        {"references": [{"metadata": "m", "text": "plain"}, 5], "attribution": [1]},
    ]
    made, _ = library.load("enwiki", [line_of(number, **parts) for number, parts in enumerate(odd)])
    assert made.reject_count == 0
    for table in (*STRUCTURED_ARTICLES.derived, STRUCTURED_ARTICLES.bodies):
        library.ask(f"SELECT * FROM {table.name}")
    for query, row in (
        ("SELECT level, heading FROM sections WHERE article_id = 3 ORDER BY level DESC LIMIT 1", (11, "level 0")),
        ("SELECT url, len(position) FROM article_links WHERE article_id = 3", ("https://deep", 13)),
        ("SELECT label FROM infobox_fields WHERE article_id = 4", ("$.x[0]",)),
        ("SELECT reference_id, text FROM article_references WHERE article_id = 0", ("one", "t")),
        ("SELECT table_id, confidence_score FROM article_tables WHERE article_id = 3", ("t", None)),
    ):
        assert library.ask(query) == [row], query


def test_nothing_is_derived_from_the_version_before_where_no_line_of_the_new_one_could_be_read(library):
    boxes = [{"type": "field", "name": "Area", "value": "7"}]
    for namespace in (0, 10):
        line = line_of(1, infoboxes=boxes, namespace={"identifier": namespace})
        _, loaded = library.load("enwiki", [line], namespace=namespace)
        assert (loaded.row_count, library.ask("SELECT DISTINCT label FROM infobox_fields")) == (1, [("Area",)])
    made, _ = library.load("enwiki", [b"{"], minute=1)
    assert made.reject_count == 1
    for table in ("structured_articles", "infobox_fields"):
        assert library.ask(f"SELECT namespace_id FROM {table}") == [(10,)]
