"""Articles on demand over HTTP: titles, projects, `limit`, `filters`, `fields`, and what they cost."""

import json
from itertools import product
from unittest.mock import ANY
from urllib.parse import quote

import pytest

from tests.unit.sandbox.conftest import NOW, small_sandbox

HARD_TITLE = 'AC//DC/: "why"? 100% <&#> 東京/'
PATH = f"/v2/articles/{quote(HARD_TITLE, safe='')}"


def article(project, name, hour):
    """One article in both projects, under a title that is hard to write in a path, and one in each alone."""
    if name.replace("_", " ") not in {HARD_TITLE, f"Only {project}"}:
        return None
    return {
        "name": HARD_TITLE, "identifier": 5,
        "version": {"identifier": 1_234_567, "scores": {"revertrisk": {"probability": {"true": 0.25}}}},
        "namespace": {"identifier": 0}, "in_language": {"identifier": project[:2]},
        "categories": [{"name": "Category:A", "url": "https://a"}, {"name": "Category:B"}],
        "is_part_of": {"identifier": project}, "article_body": {"wikitext": "<b> & co"},
        "event": {"date_created": f"{hour:%Y-%m-%dT%H:%M:%SZ}"},
    }  # fmt: skip


@pytest.fixture
def client(client, monkeypatch):
    monkeypatch.setattr(client.sandbox.world, "article", article)
    return client


def found(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def projects(answer):
    return {record["is_part_of"]["identifier"] for record in found(answer)}


@pytest.mark.parametrize("safe", ["", "/", "/:"])
def test_a_title_in_every_spelling_of_a_path(client, safe):
    for method, space in product(("GET", "POST"), " _"):
        answer = client.call(f"/v2/articles/{quote(HARD_TITLE.replace(' ', space), safe=safe)}", method)
        assert projects(answer) == {"enwiki", "frwiki"}
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        assert "\\u003cb\\u003e \\u0026 co" in answer.text
    for name in ("", "nothing", quote(HARD_TITLE.upper(), safe=safe), quote(HARD_TITLE, safe=safe) + "%20"):
        answer = client.call(f"/v2/articles/{name}")
        assert (answer.status_code, answer.json()) == (404, {"status": 404, "message": "Not Found"})


def test_lines_and_numbers_as_in_archives(client):
    lines = client.call(PATH, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert {json.loads(line)["name"] for line in lines} == {HARD_TITLE}
    assert len(lines) == 2
    assert all('"true":0.25}' in line for line in lines)
    answer = client.call(PATH, headers={"Accept": "text/html"})
    assert (answer.headers["Content-Type"], answer.text.splitlines()) == ("", lines)


def test_limits(client):
    too_many = "Key: 'Model.Limit' Error:Field validation for 'Limit' failed on the 'max' tag"
    for limit, message in ((10, ""), (0, ""), (-1, ""), (11, "limit cannot be greater than 10"), (101, too_many)):
        for answer in (client.call(f"{PATH}?limit={limit}"), client.call(PATH, "POST", json={"limit": limit})):
            assert answer.status_code == (422 if message else 200)
            assert not message or answer.json()["message"] == message
    assert len(found(client.call(PATH, "POST", json={"limit": 1}))) == 1
    for project in ("enwiki", "frwiki"):  # one of them is not the first to be looked at
        assert projects(client.call(f"/v2/articles/Only_{project}?limit=1")) == {project}


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("is_part_of.identifier", "frwiki", {"frwiki"}), ("in_language.identifier", "en", {"enwiki"}),
        ("namespace.identifier", 0, {"enwiki", "frwiki"}), ("namespace.identifier", "0", 404),
        ("namespace.identifier", False, 404), ("version.identifier", 1_234_567.0, {"enwiki", "frwiki"}),
        ("version.is_minor_edit", None, {"enwiki", "frwiki"}), ("version.is_minor_edit", False, 404),
        ("categories.0.name", "Category:A", {"enwiki", "frwiki"}), ("categories.name", None, {"enwiki", "frwiki"}),
        ("categories", ["Category:A"], 500),
    ],
)  # fmt: skip
def test_filters_compare_values_with_their_types(client, field, value, wanted):
    condition = {"field": field, "value": value}
    by_post = client.call(PATH, "POST", json={"filters": [condition]})
    by_get = client.call(PATH, params={"filters": json.dumps(condition)})
    for answer in (by_post, by_get):
        assert (projects(answer) if answer.status_code == 200 else answer.status_code) == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (["version.identifier"], {"version": {"identifier": 1_234_567}}),
        (["namespace.*", "identifier"], {"namespace": {"identifier": 0}, "identifier": 5}),
        (["categories.name"], {"categories": {}}),
        (["categories.#.name"], {"categories": {"#": {"name": ["Category:A", "Category:B"]}}}),
        (["categories.#.url"], {"categories": {"#": {"url": ["https://a"]}}}),
        (["categories.1", "categories.2", "categories.²"], {"categories": {"1": {"name": "Category:B"}}}),
        (["categories.#", "in_language"], {"categories": {"#": 2}, "in_language": {"identifier": ANY}}),
        (["version.identifier", "version", "version.identifier"],
         {"version": {"identifier": 1_234_567, "scores": {"revertrisk": {"probability": {"true": 0.25}}}}}),
        (["nothing", "version.nothing.more", "name,identifier"], {"version": {}}),
        (["nothing"], {}),
    ],
)  # fmt: skip
def test_fields_by_path(client, fields, wanted):
    assert found(client.call(PATH, "POST", json={"fields": fields}))[0] == wanted
    assert found(client.call(PATH, params={"fields": fields}))[0] == wanted
    assert len(found(client.call(PATH, params={"fields": [*fields, "*"]}))[0]) == 9


@pytest.fixture(scope="module")
def english(tmp_path_factory, signing_key):
    """A sandbox of the eight English projects, which have the same titles."""
    families = ("wiki", "wikibooks", "wikinews", "wikiquote", "wikisource", "wikivoyage", "wiktionary", "wikiversity")
    projects = tuple(f"en{one}" for one in families)
    with small_sandbox(tmp_path_factory.mktemp("english"), signing_key, projects=projects, body_bytes=200) as client:
        yield client


def test_the_world_is_looked_up_in_as_many_projects_as_asked_which_differ_from_title_to_title(english):
    world = english.sandbox.world
    hour = NOW.replace(hour=6, minute=0)  # its list appeared some minutes after 07:00
    moment = world.export_started_at("enwikivoyage", hour)
    name = next(world.truth("enwikivoyage", 0, moment))["name"]
    path = f"/v2/articles/{quote(name, safe='')}"
    records = found(english.call(f"{path}?limit=10"))
    assert len(records) == 8
    for record in records:
        project = record["is_part_of"]["identifier"]
        assert record == world.article(project, name, hour)
        filters = [{"field": "is_part_of.identifier", "value": project}]
        assert found(english.call(path, "POST", json={"filters": filters})) == [record]
    assert [len(found(english.call(f"{path}{query}"))) for query in ("", "?limit=0", "?limit=-1")] == [3, 3, 3]
    names = [record["name"] for record, _ in zip(world.truth("enwikivoyage", 0, moment), range(8), strict=False)]
    winners = {tuple(projects(english.call(f"/v2/articles/{quote(name, safe='')}?limit=1"))) for name in names}
    assert len(winners) > 1
