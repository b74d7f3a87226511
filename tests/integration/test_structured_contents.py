"""Structured contents from the archive to the published file: what went in comes out, and all derived agrees."""

import gzip
import hashlib
import json
import pathlib
from collections import defaultdict
from functools import cache, partial

import duckdb
import pytest

from assets.steps import snapshot
from resources.datasets import STRUCTURED_ARTICLES
from resources.engine import Engine
from resources.lake import convert
from resources.sandbox.world.structured import structured
from tests.brought import HOUR, Brought
from tests.builds import close_all
from tests.unit.lake.test_nothing_is_lost import normal_record, rebuilt, with_type

REAL = pathlib.Path(__file__).resolve().parents[3] / "shared/data/real/enterprise/structured-contents"
JSON = {column.name: column.path for column in STRUCTURED_ARTICLES.table if column.json}


class Library(Brought):
    """A data folder with snapshots of structured contents that a test makes."""

    def load(self, project: str, lines: list[bytes], minute: int = 0):
        """A snapshot of these lines, converted and loaded."""
        version = hashlib.md5(b"".join(lines)).hexdigest()
        known = {"snapshot_id": f"{project}_namespace_0", "snapshot_version": version}
        return self.bring(STRUCTURED_ARTICLES, (project, 0), lines, HOUR.replace(minute=minute), **known)


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path / "data")


def real() -> dict[str, list[dict]]:
    """The real records by project, the later of two of one page."""
    records = [
        record
        for name in ("montreal-2024-infobox", "montreal-2025-infoboxes")
        for record in json.loads(gzip.decompress((REAL / f"{name}.json.gz").read_bytes()))
    ]
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


def parts(place: list, position: tuple[int, ...] = ()):
    """All parts with their positions, in order."""
    for number, part in enumerate(place or [], 1):
        here = (*position, number)
        yield here, part
        yield from parts(part.get("has_parts"), here)


def test_real_records_come_back_as_they_went_in(published):
    records, found = published
    rows = (
        found.sql(
            "SELECT page.*, body.* EXCLUDE (project_id, namespace_id, article_id, name, version_id) "
            "FROM structured_articles AS page JOIN structured_bodies AS body USING (project_id, article_id)"
        )
        .to_arrow_table()
        .to_pylist()
    )
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


def test_everything_derived_from_real_records_agrees_with_them(published):
    records, warehouse = published

    @cache
    def of_all(table: str, columns: str) -> dict[tuple[str, int], list[tuple]]:
        found = defaultdict(list)
        page = "project_id, article_id"
        query = f"SELECT {page}, {columns} FROM {table} ORDER BY {page}, position"
        for project, number, *values in warehouse.execute(query).fetchall():
            found[project, number].append(tuple(values))
        return found

    def rows(table: str, columns: str, record: dict) -> list[tuple]:
        return of_all(table, columns)[record["is_part_of"]["identifier"], record["identifier"]]

    for record in (record for lines in records.values() for record in lines):
        boxes = record.get("infoboxes") or record.get("infobox") or []
        sections = record.get("sections") or record.get("article_sections") or []
        fields = [
            (list(position), part["type"], part.get("name"), part.get("value"), len(part.get("links") or []))
            for position, part in parts(boxes)
            if part["type"] not in ("infobox", "section")
        ]
        assert rows("infobox_fields", "position, part_type, label, value, link_count", record) == fields
        named = [(list(position), part["name"]) for position, part in parts(sections) if part["type"] == "section"]
        assert rows("sections", "position, heading", record) == named
        texts = [
            "\n".join(
                inner["value"]
                for own in part.get("has_parts") or []
                if own["type"] != "section"
                for _, inner in parts([own])
                if inner.get("value") is not None
            )
            or None
            for _, part in parts(sections)
            if part["type"] == "section"
        ]
        assert [text for (text,) in rows("sections", "text", record)] == texts
        references = record.get("references") or []
        compact = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
        assert rows("article_references", "reference_id, text, CAST(metadata_json AS JSON)", record) == [
            (one["identifier"], one["text"]["value"], compact(one["metadata"])) for one in references
        ]

        def cells(lines: list) -> list:
            return [[cell["value"] for cell in line] for line in lines]

        assert rows("article_tables", "table_id, rows, headers, confidence_score", record) == [
            (one["identifier"], cells(one["rows"]), cells(one["headers"]), one["confidence_score"])
            for one in record.get("tables") or []
        ]
        links = [
            (origin, link.get("url"), link.get("text"))
            for origin, place in (("infobox", boxes), ("section", sections))
            for _, part in parts(place)
            for link in part.get("links") or []
        ] + [
            ("reference", link.get("url"), link.get("text"))
            for one in references
            for side in ("text", "source")
            for link in (one.get(side) or {}).get("links") or []
        ]
        found = rows("article_links", "origin, url, text, position", record)
        kinds = ["infobox", "section", "reference"]
        assert [one[:3] for one in sorted(found, key=lambda one: kinds.index(one[0]))] == links


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
        assert [text and json.loads(text) for text in (sections, boxes)] == [
            parsed.get("sections"),
            parsed.get("infoboxes"),
        ]
    (label,) = library.ask("SELECT mode(label) FROM infobox_fields")[0]
    assert len(library.ask("FROM infobox_values(upper(?))", label)) > 1
    (title,) = library.ask("SELECT name FROM article_links ORDER BY len(position) DESC, name LIMIT 1")[0]
    assert library.ask("SELECT heading FROM page_sections('enwiki', replace(?, ' ', '_'))", title)[0] == ("Abstract",)
    assert library.ask("FROM page_links('enwiki', ?)", title)
    library.warehouse.drop_project("enwiki")
    with duckdb.connect(str(library.warehouse.build_path)) as build:
        for table in ("structured_articles", "infobox_fields", "internal.hidden_rows"):
            assert build.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


def line_of(page: int, revision: int = 1, **parts: object) -> bytes:
    record = {
        "name": f"Page {page}",
        "identifier": page,
        "version": {"identifier": revision},
        "date_modified": f"2026-11-19T05:00:{revision % 60:02d}Z",
        "is_part_of": {"identifier": "enwiki"},
    }
    return json.dumps(record | parts).encode()


def test_a_page_counts_once_and_a_new_version_takes_the_place_of_the_old(library):
    def line(page: int, revision: int, heading: str) -> bytes:
        return line_of(page, revision, sections=[{"name": heading, "type": "section"}])

    first = [line(1, 10, "old"), line(2, 20, "two"), line(1, 11, "new"), line(2, 20, "two"), b"bad"]
    made, loaded = library.load("enwiki", first)
    assert (made.reject_count, loaded.row_count, loaded.duplicate_count) == (1, 4, 2)
    question = (
        "SELECT article_id, version_id, heading FROM sections JOIN structured_articles USING (project_id, article_id) "
        "ORDER BY ALL"
    )
    assert library.ask(question) == [(1, 11, "new"), (2, 20, "two")]
    assert library.ask("SELECT article_id, version_id FROM structured_bodies ORDER BY ALL") == [(1, 11), (2, 20)]
    _, loaded = library.load("enwiki", [line(1, 12, "newer"), line(3, 30, "three")], minute=30)
    assert len(loaded.dropped_versions) == 1
    assert library.ask(question) == [(1, 12, "newer"), (3, 30, "three")]
    assert library.ask("SELECT reason FROM rejects") == []
    with duckdb.connect(str(library.warehouse.build_path)) as build:
        assert build.execute("SELECT count(*) FROM internal.hidden_rows").fetchall() == [(0,)]


def test_forms_that_no_sample_has_are_asked_without_an_error(library):
    """Texts, numbers and objects where lists are expected; parts at every depth; names that are JSON paths."""
    deep: dict = {"type": "paragraph", "value": "bottom", "links": [{"url": "https://deep"}]}
    for number in range(11):
        deep = {"type": "section", "name": f"level {number}", "has_parts": [deep]}
    odd = [
        {
            "sections": "text",
            "infoboxes": 7,
            "references": {"identifier": "one", "text": {"value": "t"}},
            "tables": "x",
        },
        {
            "sections": [1, "a", None, [{"type": "section"}]],
            "infoboxes": [{"has_parts": {"type": "field"}}],
            "tables": [3],
        },
        {"sections": [deep], "tables": {"identifier": "t", "rows": [["a"], "b"], "confidence_score": "high"}},
        {"infoboxes": [{"type": "infobox", "has_parts": [{"type": "field", "name": "$.x[0]", "values": "v"}]}]},
        {"references": [{"metadata": "m", "text": "plain"}, 5], "attribution": [1]},
    ]
    made, _ = library.load("enwiki", [line_of(number, **parts) for number, parts in enumerate(odd)])
    assert made.reject_count == 0
    for table in (*STRUCTURED_ARTICLES.derived, STRUCTURED_ARTICLES.bodies):
        library.ask(f"SELECT * FROM {table.name}")
    for query, row in (
        ("SELECT level, heading FROM sections WHERE article_id = 2 ORDER BY level DESC LIMIT 1", (11, "level 0")),
        ("SELECT url, len(position) FROM article_links WHERE article_id = 2", ("https://deep", 13)),
        ("SELECT label FROM infobox_fields WHERE article_id = 3", ("$.x[0]",)),
        ("SELECT reference_id, text FROM article_references WHERE article_id = 0", ("one", "t")),
        ("SELECT table_id, confidence_score FROM article_tables WHERE article_id = 2", ("t", None)),
    ):
        assert library.ask(query) == [row], query


def test_nothing_is_derived_from_the_version_before_where_no_line_of_the_new_one_could_be_read(library):
    _, loaded = library.load("enwiki", [line_of(1, infoboxes=[{"type": "field", "name": "Area", "value": "7"}])])
    assert loaded.row_count == 1
    assert library.ask("SELECT label FROM infobox_fields") == [("Area",)]
    made, _ = library.load("enwiki", [b"{"], minute=1)
    assert made.reject_count == 1
    assert library.ask("FROM structured_articles") == library.ask("FROM infobox_fields") == []
