"""Wikidata in the sandbox: its world, its snapshots and hours, and how both agree."""

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from resources.sandbox import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.sandbox.world.entities import SPECIAL_ITEMS, Numbers
from tests.entity_truth import truth
from tests.unit.sandbox.conftest import records_of, small_sandbox

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 22, tzinfo=UTC)
WIKI = "wikidatawiki"


def world_of(state, **options):
    usual = {"projects": ("frwiki",), "changes_per_hour": 20, "body_bytes": 500, "entities": 125}
    return ArchivedWorld(Settings(state=state, **{**usual, **options}))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return world_of(tmp_path_factory.mktemp("entities"))


def test_hours_folded_by_the_newest_event_of_each_entity_are_the_truth(world):
    hours = [START + number * HOUR for number in range(4)]
    records = [record for hour in hours for file in world.batches(hour, [WIKI]) for record in records_of(file)]
    records.sort(key=lambda record: datetime.fromisoformat(record["event"]["date_published"]))
    newest = {record["name"]: record for record in records}
    live = {name: record for name, record in newest.items() if record["event"]["type"] == "update"}
    assert live == truth(world, world.export_started_at(WIKI, hours[-1]), hours[0])
    assert len(live) > 50
    # both are there also where they are empty; of events that are in no topic's partition nothing is said
    assert {bool(record["protection"]) for record in live.values()} == {True, False}
    assert all(isinstance(record["redirects"], list) for record in live.values())
    assert not any({"partition", "offset"} & record["event"].keys() for record in live.values())
    kinds = Counter(event.kind for event in world.events(WIKI, hours[0], hours[-1] + HOUR))
    assert not {kind: count for kind, count in kinds.items() if count < 5}, kinds
    assert len(kinds) == 8


def test_articles_point_to_items_that_point_back(world):
    items, about = truth(world, START), {}
    for record in world.truth("frwiki", 0, START):
        if (item := record.get("main_entity", {}).get("identifier")) in items:
            about[item] = record
    assert len(about) > 50
    homes = sum(items[item]["entity"]["sitelinks"]["frwiki"]["title"] == about[item]["name"] for item in about)
    assert homes > 0.7 * len(about)  # the others were moved


def test_an_entity_may_have_400_languages_or_megabytes_of_statements(tmp_path):
    world = world_of(tmp_path, body_bytes=6000)
    vast, polyglot = (world.entity(Numbers().settled(SPECIAL_ITEMS + number), START)["entity"] for number in range(2))
    assert len(polyglot["labels"]) == 400
    assert 3e6 < len(json.dumps(vast["statements"])) < 8e6


def test_statements_have_every_form_of_value(world):
    by_property = [record["entity"]["statements"].values() for record in truth(world, START).values()]
    values = [snak["value"] for statements in by_property for snaks in statements for snak in snaks]
    assert {value["type"] for value in values} == {"value", "somevalue", "novalue"}
    objects = {frozenset(value["content_data"]) for value in values if "content_data" in value}
    for keys in ("time precision calendarmodel", "Time Precision Calendarmodel", "amount unit", "language text"):
        assert frozenset(keys.split()) in objects
    assert any("content" in value and "labels" in value for value in values)


@pytest.fixture(scope="module")
def client(tmp_path_factory, signing_key):
    with small_sandbox(tmp_path_factory.mktemp("wikidata"), signing_key, changes_per_hour=20, entities=125) as client:
        yield client


def test_snapshots_and_hours_are_listed_beside_those_of_articles_and_exports_and_faults_reach_them(client):
    for path in ("/v2/snapshots", "/v2/batches/2025-03-09/05"):
        group = "/".join(path.split("/")[:3])
        own = path.replace(group, f"{group}/wikidata")
        assert {record["identifier"] for record in client.call(path).json()} == {"enwiki_namespace_0"}
        found = client.call(own, "POST", json={"filters": [{"field": "in_language.identifier", "value": "en"}]}).json()
        assert {record["identifier"] for record in found} == {f"{WIKI}_namespace_0", f"{WIKI}_namespace_120"}
        assert client.call(f"{path}/{WIKI}_namespace_0").status_code == 404
        assert client.call(f"{own}/enwiki_namespace_0").status_code == 404
        assert client.fetch(client.signed(f"{path}/{WIKI}_namespace_0/download")).status_code == 404
    places = ["batches/wikidata/2025-03-09/05", "snapshots/wikidata", f"snapshots/wikidata/{WIKI}_namespace_0/chunks"]
    for place in places:
        record = client.call(f"/v2/{place}").json()[0]
        assert (record["is_part_of"], record["in_language"]) == ({"identifier": WIKI}, {"identifier": "en"})
        download = f"/v2/{place}/{record['identifier']}/download"
        content = client.fetch(client.signed(download)).content
        assert hashlib.md5(content).hexdigest() == record["version"]
        assert client.call(download, "HEAD").headers["Content-Length"] == str(len(content))
        client.sandbox.faults.add(download, kind="empty", listed=True)
        assert client.call(f"/v2/{place}").json()[0]["version"] != record["version"]
        client.sandbox.faults.clear()
    path = f"/v2/snapshots/wikidata/{WIKI}_namespace_120"
    before = client.call(path).json()["version"]
    client.call("/sandbox/snapshots", "POST", json={"identifier": f"{WIKI}_namespace_120"})
    assert client.call(path).json()["version"] != before
    client.sandbox.faults.add(f"{path}/download", kind="flip")
    content = client.fetch(client.signed(f"{path}/download")).content
    assert hashlib.md5(content).hexdigest() != client.call(path).json()["version"]


def test_lookups_answer_with_an_array_of_one_and_read_fields_alone(client):
    world, hour = client.sandbox.world, datetime(2025, 3, 9, 6, tzinfo=UTC)
    there = truth(world, world.export_started_at(WIKI, hour))
    item = next(name for name, record in there.items() if name[0] == "Q" and "labels" in record["entity"])
    made = max((name for name in there if name[0] == "Q"), key=lambda name: int(name[1:]))
    for name in (item, made):
        assert client.call(f"/v2/wikidata/items/{name}").json() == [there[name]]
    assert client.call("/v2/wikidata/properties/P3", "POST", json={}).json() == [there["P3"]]
    bare = next(name for name, record in there.items() if "labels" not in record["entity"])
    for name in (item, bare):
        assert client.call(f"/v2/wikidata/labels/{name}").json() == [there[name]["entity"].get("labels", {})]
    chosen = client.call(f"/v2/wikidata/items/{item}?fields=entity.identifier&filters={{}}").json()
    assert chosen == [{"entity": {"identifier": item}}]
    ended = (event.title.text for event in world.hour_events(WIKI, hour) if event.type == "delete")
    gone = next(name for name in ended if name not in there)
    for path in (f"items/{gone}", "items/P3", f"properties/{item}", "items/Q32", "labels/X", "items/Q" + 5000 * "1"):
        assert client.call(f"/v2/wikidata/{path}").status_code == 404
    assert client.call("/v2/wikidata/items/Q31", "POST", json={"limit": 2}).status_code in (200, 404)
