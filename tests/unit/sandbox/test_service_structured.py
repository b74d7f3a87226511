"""Structured contents over HTTP: snapshots that are free, without chunks and listed twice, and lookups."""

import hashlib
import json
from pathlib import Path
from unittest.mock import ANY

import pytest

from resources.sandbox.store.exports import newest_hour
from resources.sandbox.world.structured import BASIC, structured
from tests.unit.sandbox.conftest import NOW, lines_of, logged_in, members_of, small_sandbox

LIST = "/v2/snapshots/structured-contents"
ONE = f"{LIST}/enwiki_namespace_0"
KINDS = {"infobox", "section", "field", "image", "list", "list_item", "paragraph", "table"}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory, signing_key):
    folder = tmp_path_factory.mktemp("structured")
    shape = {"projects": ("enwiki", "frwiki", "simplewiki"), "namespaces": (0, 14), "changes_per_hour": 20}
    with small_sandbox(folder, signing_key, chunk_bytes=200_000, body_bytes=6000, **shape) as client:
        yield client.sandbox


@pytest.fixture
def client(sandbox):
    with logged_in(sandbox) as client:
        yield client
    sandbox.accounts.set_groups("sandbox", ["group_3"])


@pytest.fixture(scope="module")
def lines(sandbox):
    """The lines of the current snapshot."""
    with logged_in(sandbox) as client:
        content = client.fetch(client.signed(f"{ONE}/download")).content
        assert hashlib.md5(content).hexdigest() == client.call(ONE).json()["version"]
    names = [info.name for info, _ in members_of(content)]
    assert names == [f"enwiki_namespace_0_{n}.ndjson" for n in range(len(names))]
    assert len(names) > 1
    return lines_of(content)


@pytest.fixture(scope="module")
def pages(sandbox, lines):
    """A page with tables, and one that comes as an article; neither has changed since the snapshot."""
    hour = newest_hour(sandbox.world, NOW)

    def first(member: str):
        for record in map(json.loads, lines):
            now = sandbox.world.article("enwiki", record["name"], hour) if member in record else None
            if now is not None and now["version"]["identifier"] == record["version"]["identifier"]:
                return record
        raise AssertionError(member)

    return first("tables"), first("article_body")


def test_the_list_holds_each_snapshot_twice_the_older_ones_last(client):
    for method, path in (("GET", LIST), ("GET", f"{LIST}/"), ("POST", LIST), ("POST", f"{LIST}/")):
        records = client.call(path, method).json()
        names = [record["identifier"] for record in records]
        assert names == ["enwiki_namespace_0", "frwiki_namespace_0"] * 2  # the service has none of simplewiki
    assert all("chunks" not in record for record in records)
    assert records[0] == client.call(ONE).json()
    assert [record["date_modified"][:10] for record in records] == ["2025-03-09"] * 2 + ["2025-03-08"] * 2
    assert len({record["version"] for record in records}) == 4
    older = {"version": ANY, "date_modified": records[0]["date_modified"].replace("-09T", "-08T")}
    size = {"value": pytest.approx(0.99 * records[0]["size"]["value"], abs=0.001), "unit_text": "MB"}
    assert records[2] == records[0] | older | {"size": size}
    filters = [{"field": "is_part_of.identifier", "value": "frwiki"}]
    found = client.call(LIST, "POST", json={"filters": filters, "fields": ["identifier"]}).json()
    assert found == [{"identifier": "frwiki_namespace_0"}] * 2
    for path in (f"{LIST}/simplewiki_namespace_0", f"{LIST}/enwiki_namespace_14", f"{ONE}/chunks"):
        assert client.call(path).status_code == 404, path
    assert client.call(f"{LIST}/simplewiki_namespace_0/download", "HEAD").status_code == 404


def test_it_is_free_for_everyone(client):
    for group in ("group_1", "group_2", "group_3"):
        client.sandbox.accounts.set_groups("sandbox", [group])
        client.login()
        assert client.call(ONE).json() in client.call(LIST).json()
        answer = client.fetch(client.signed(f"{ONE}/download"))
        assert hashlib.md5(answer.content).hexdigest() == client.call(ONE).json()["version"]
        head = client.call(f"{ONE}/download", "HEAD")
        assert (head.status_code, int(head.headers["Content-Length"])) == (200, len(answer.content))
        user = client.call("/v1/get-user", "POST").json()
        assert (user.get("snapshot_requests_count", 0), user.get("chunk_requests_count", 0)) == (0, 0)


def test_lines_are_the_pages_in_parts(client, lines, sandbox):
    records, world = [json.loads(line) for line in lines], sandbox.world
    started, _ = world.snapshot_times("enwiki_namespace_0", NOW)
    articles = [world.record(entry.event) for entry in world.snapshot_entries("enwiki_namespace_0", started)]
    assert [record["identifier"] for record in records] == [article["identifier"] for article in articles]
    assert records == [structured(article) or article for article in articles]
    whole = [record for record in records if "article_body" not in record]
    assert 0 < len(records) - len(whole) < len(records) / 10
    seen = set()
    for record in whole:
        assert (record["event"]["type"], record["sections"][0]["name"]) == ("update", "Abstract")
        assert record["license"][0]["identifier"] == "CC-BY-SA-4.0"
        parts = [*inner(record.get("infoboxes", [])), *inner(record["sections"])]
        seen |= {part["type"] for part in parts}
        cited = {one["identifier"] for part in parts for one in part.get("citations", [])}
        named = {one["identifier"] for part in parts for one in part.get("table_references", [])}
        assert cited <= {one["identifier"] for one in record["references"]}
        assert named == {table["identifier"] for table in record.get("tables", [])}
        counts = record["attribution"]["editors_count"]
        assert all(isinstance(count, str) for count in counts.values())
    assert seen == KINDS
    rows = [row for record in whole for table in record.get("tables", []) for row in table["rows"]]
    nested = [cell["nested_table"] for row in rows for cell in row if "nested_table" in cell]
    assert nested
    assert all(json.loads(text)["rows"] for text in nested)


def inner(parts):
    """The parts, and all that are within them."""
    for part in parts:
        yield part
        yield from inner(part.get("has_parts", []))


def look(client, page, **body):
    filters = [{"field": "is_part_of.identifier", "value": "enwiki"}, *body.pop("filters", [])]
    return client.call(f"/v2/structured-contents/{page['name']}", "POST", json={"filters": filters, **body})


def test_a_lookup_brings_a_page_in_parts_without_its_event_or_as_an_article_if_it_could_not_be_parsed(client, pages):
    (record,) = look(client, pages[0]).json()
    assert record.keys() == pages[0].keys() - {"event"}
    assert (record["name"], record["sections"][0]["name"]) == (pages[0]["name"], "Abstract")
    (record,) = look(client, pages[1], fields=["sections"]).json()
    assert record["article_body"]["html"]
    for field, value, status in (("namespace.identifier", 0, 200), ("event.type", "delete", 404)):
        assert look(client, pages[0], filters=[{"field": field, "value": value}]).status_code == status
    for fields, found in (
        (["name", "sections"], {"name", "sections", "tables"}), (["tables"], BASIC),
        (["article_body", "event"], BASIC), (["references", "infobox"], {"references"}),
        (["version.identifier"], {"version"}),
    ):  # fmt: skip
        (record,) = look(client, pages[0], fields=fields).json()
        assert record.keys() == {*found} & pages[0].keys()


def test_sections_nest_and_tables_are_numbered_within_their_section():
    def shape(section):
        parts = section.get("has_parts")
        return section["name"], parts and [shape(one) if one["type"] == "section" else one["type"] for one in parts]

    page = {"identifier": 1, "is_part_of": {"identifier": "enwiki", "url": "https://w"}, "namespace": {"identifier": 0}}
    page |= {"name": "P", "date_modified": "2026-11-20T05:00:00Z"}
    text = Path(__file__).with_name("sections.wikitext").read_text()
    record = structured(page | {"article_body": {"wikitext": text}})
    nested = ["list", "paragraph", "table", "table", ("B", ["paragraph"]), ("C", None)]
    found = [*map(shape, record["sections"])]
    assert found == [("Abstract", ["paragraph", "list"]), ("Z", None), ("A", nested), ("D", ["paragraph", "table"])]
    tables = [(one["identifier"], len(one["rows"])) for one in record["tables"]]
    assert tables == [("a_table1", 1), ("a_table2", 1), ("d_table1", 1)]
    paragraph = record["sections"][2]["has_parts"][4]["has_parts"][0]
    link = {"url": "https://w/wiki/Some_page", "text": "label"}
    assert paragraph == paragraph | {"value": "bold label", "links": [link]}
    assert structured(page) is None
