"""Records of Wikidata: what the lake keeps of them is the record, whichever way the line was read."""

import gzip
import json
import pathlib

import pytest

from resources.datasets import ENTITY_CHANGES
from resources.lake.decode.records import RecordReader
from tests.unit.lake.test_nothing_is_lost import normal_record, rebuilt, with_type

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


def served(page: dict) -> dict:
    """A page of Wikidata's dump as a record; the maps are kept as they are, and those of the dump have more kinds."""
    own = json.loads(page["wikitext"])
    entity = {"identifier": own["id"], "type": own["type"], "statements": own["claims"]}
    entity |= {name: own[name] for name in ("labels", "descriptions", "aliases", "sitelinks") if own.get(name)}
    if "datatype" in own:
        entity["data_type"] = own["datatype"]
    record = {
        "name": own["id"],
        "identifier": int(page["id"]),
        "date_modified": page["rev_timestamp"],
        "entity": entity,
    }
    record |= {"url": f"https://www.wikidata.org/wiki/{page['title']}", "namespace": {"identifier": int(page["ns"])}}
    record |= {"is_part_of": {"identifier": "wikidatawiki", "url": "https://www.wikidata.org"}}
    version = {"identifier": int(page["rev_id"]), "comment": page["rev_comment"]}
    return record | {"version": version, "license": [{"identifier": "CC0-1.0"}]}


@pytest.mark.skipif(not REAL.exists(), reason="the real pages are not on this machine")
def test_real_entities_come_back_as_they_went_in(how):
    with gzip.open(REAL) as lines:
        pages = [json.loads(line) for line in lines]
    records = [served(page) for page in pages if page["rev_model"] in ("wikibase-item", "wikibase-property")]
    assert len(records) == 18
    rows = read(*(json.dumps(record, ensure_ascii=False) for record in records))
    assert not len(rows.rejects)
    table = ENTITY_CHANGES.table
    expected = [with_type(normal_record(record, table)) for record in records]
    assert [rebuilt(row, table) for row in rows.batch.to_pylist()] == expected
    assert {drift.path for drift in rows.drift} == {"version.comment"}


def test_a_delete_has_no_entity_and_a_statement_with_a_key_twice_is_rejected(how):
    gone = f'{START},"event":{{"type":"delete","date_published":"2026-11-19T05:10:12Z"}}}}'
    twice = f'{START},"entity":{{"statements":{{"P1":[],"P1":[]}}}}}}'
    rows = read(gone, twice, START.replace("Q42", "") + "}")
    assert rows.batch["change_type"].to_pylist() == ["delete"]
    assert rows.rejects["reason"].to_pylist() == ["The key P1 appears twice in one object.", "name is empty."]
