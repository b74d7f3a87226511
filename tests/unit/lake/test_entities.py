"""Records of Wikidata: what the lake keeps of them is the record, whichever way the line was read."""

from __future__ import annotations

import gzip
import json
import pathlib

import pytest

from resources.datasets import ENTITY_CHANGES
from resources.lake.decode.records import RecordReader

REAL = pathlib.Path(__file__).resolve().parents[4] / "shared/data/real/wikitext/pages.ndjson.gz"
GIVEN = {"project_id": "wikidatawiki"}
START = (
    '{"name":"Q42","identifier":138,"date_modified":"2026-11-19T05:10:11Z","namespace":{"identifier":0},'
    '"is_part_of":{"identifier":"wikidatawiki"}'
)


def read(*lines: str):
    table, block = ENTITY_CHANGES.table, "".join(f"{line}\n" for line in lines).encode()
    rows = RecordReader(table, GIVEN, table.bodies).read(memoryview(block))
    rows.batch.validate(full=True)
    return rows


def rest_value(snak: dict) -> dict:
    """A snak of Wikibase's own JSON as the service's value."""
    if snak["snaktype"] != "value":
        return {"type": snak["snaktype"]}
    value = snak["datavalue"]["value"]
    if isinstance(value, str):
        return {"type": "value", "content": value}
    if snak["datavalue"]["type"] == "wikibase-entityid":
        return {"type": "value", "content": value.get("id") or f"Q{value['numeric-id']}"}
    return {"type": "value", "content_data": {name.capitalize(): one for name, one in value.items()}}


def snak_of(snak: dict) -> dict:
    return {"property": {"identifier": snak["property"]}, "value": rest_value(snak)}


def statement_of(claim: dict) -> dict:
    made = {"identifier": claim["id"], "rank": claim["rank"], **snak_of(claim["mainsnak"])}
    if claim.get("qualifiers"):
        made["qualifiers"] = [snak_of(snak) for snaks in claim["qualifiers"].values() for snak in snaks]
    if claim.get("references"):
        made["references"] = [
            {"identifier": one["hash"], "parts": [snak_of(snak) for snaks in one["snaks"].values() for snak in snaks]}
            for one in claim["references"]
        ]
    return made


def served(page: dict) -> dict:
    """A page of Wikidata's dump in the form in which the service serves it.

    Empty maps are lists there, as in the dump.
    """
    own = json.loads(page["wikitext"])

    def texts(of: str) -> dict | list:
        return {language: term["value"] for language, term in own[of].items()} if own[of] else []

    entity = {
        "identifier": own["id"],
        "type": own["type"],
        "labels": texts("labels"),
        "descriptions": texts("descriptions"),
        "aliases": {language: [term["value"] for term in terms] for language, terms in dict(own["aliases"]).items()},
        "statements": {of: [statement_of(claim) for claim in claims] for of, claims in own["claims"].items()},
    }
    if "datatype" in own:
        entity["data_type"] = own["datatype"]
    if own.get("sitelinks"):
        entity["sitelinks"] = {
            site: {"title": link["title"], "badges": link["badges"], "url": f"https://{site}/{link['title']}"}
            for site, link in own["sitelinks"].items()
        }
    return {
        "name": own["id"],
        "identifier": int(page["id"]),
        "date_modified": page["rev_timestamp"],
        "url": f"https://www.wikidata.org/wiki/{page['title']}",
        "namespace": {"identifier": int(page["ns"])},
        "is_part_of": {"identifier": "wikidatawiki", "url": "https://www.wikidata.org"},
        "version": {"identifier": int(page["rev_id"]), "comment": page["rev_comment"]},
        "entity": entity,
        "license": [{"identifier": "CC0-1.0"}],
    }


def real_records() -> list[dict]:
    if not REAL.exists():
        pytest.skip("the real pages are not on this machine")
    with gzip.open(REAL) as lines:
        pages = [json.loads(line) for line in lines]
    return [served(page) for page in pages if page["rev_model"] in ("wikibase-item", "wikibase-property")]


def record_of(row: dict) -> dict:
    """The record that a row of the lake came from, put together by the paths of its columns."""
    record: dict = json.loads(row["extra"] or "{}")
    for column in ENTITY_CHANGES.table:
        value = row[column.name]
        if column.path is None or value is None or column.name == "change_type":
            continue
        *parents, last = column.path.split(".")
        place = record
        for part in parents:
            place = place.setdefault(part, {})
        if column.json:
            value = json.loads(value)
        elif hasattr(value, "isoformat"):
            value = f"{value:%Y-%m-%dT%H:%M:%SZ}"
        elif isinstance(value, list):
            value = [{name: one for name, one in item.items() if one is not None} for item in value]
        place[last] = value
    return record


def test_real_entities_come_back_as_they_went_in(how):
    records = real_records()
    assert len(records) == 18
    rows = read(*(json.dumps(record, ensure_ascii=False) for record in records))
    assert not len(rows.rejects)
    assert [record_of(row) for row in rows.batch.to_pylist()] == records
    assert {drift.path for drift in rows.drift} == {"version.comment"}


def test_maps_and_statements_are_kept_as_they_are_written(how):
    texts = {
        "labels": '{ "en" : "Ad\\u0061ms",\t"ja":"ダグラス" }',
        "descriptions": "[]",
        "aliases": '{"en":["D. N. A."]}',
        "statements": '{"P569":[{"value":{"content_data":{"Time":"+1952-03-11T00:00:00Z","calendarmodel":1e0}}}]}',
        "sitelinks": "null",
    }
    entity = ",".join(f'"{name}":{text}' for name, text in texts.items())
    (row,) = read(f'{START},"entity":{{"type":"item",{entity},"lexicalCategory":"Q1"}},"novel":[1]}}').batch.to_pylist()
    found = {name: row[f"{name}_json"] for name in texts}
    assert found == {**texts, "sitelinks": None}
    assert json.loads(row["extra"]) == {"entity": {"lexicalCategory": "Q1"}, "novel": [1]}
    assert (row["entity_id"], row["entity_type"], row["change_type"]) == ("Q42", "item", "update")


def test_a_delete_has_no_entity_and_a_statement_with_a_key_twice_is_rejected(how):
    gone = f'{START},"event":{{"type":"delete","date_published":"2026-11-19T05:10:12Z"}}}}'
    twice = f'{START},"entity":{{"statements":{{"P1":[],"P1":[]}}}}}}'
    empty = START.replace("Q42", "") + "}"
    rows = read(gone, twice, empty)
    assert rows.batch["change_type"].to_pylist() == ["delete"]
    assert rows.rejects["reason"].to_pylist() == ["The key P1 appears twice in one object.", "name is empty."]


def test_an_entity_of_five_megabytes_and_400_languages_is_a_row(how):
    statement = {"rank": "normal", "value": {"type": "value", "content": "x" * 700}}
    record = json.loads(START + "}") | {
        "entity": {
            "labels": {f"l{number}": "Adams" for number in range(400)},
            "statements": {f"P{number}": [statement] * 20 for number in range(350)},
        }
    }
    (row,) = read(json.dumps(record)).batch.to_pylist()
    assert len(row["statements_json"]) > 5e6
    assert json.loads(row["labels_json"]) == record["entity"]["labels"]
