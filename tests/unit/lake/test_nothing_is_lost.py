"""Every record can be rebuilt from its row: absent, null and empty are the same, everything else is equal."""

import gzip
import json
import pathlib
import random
from datetime import datetime

import pyarrow as pa
import pytest

from resources.lake import convert, drift_of
from resources.tables import ARTICLE_CHANGES, Table
from tests.unit.lake.conftest import put
from tests.unit.lake.test_native_and_pure import record_of

REAL = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise" / "articles"


def normal(value, declared: pa.DataType | None = None):
    """A value with times as moments, and without what is null or empty."""
    if isinstance(value, dict):
        types = {field.name: field.type for field in declared} if declared is not None else {}
        inner = {key: normal(item, types.get(key)) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [normal(item, declared.value_type if declared is not None else None) for item in value]
    if declared is not None and pa.types.is_timestamp(declared) and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo else value  # as it is in `extra`
    return value


def normal_record(record: dict, table: Table = ARTICLE_CHANGES) -> dict:
    """A record as it is compared: the times of the declared places as moments."""

    def typed(place: dict, fields: dict) -> dict:
        return {
            key: typed(value, fields[key])
            if isinstance(fields.get(key), dict) and isinstance(value, dict)
            else normal(value, fields.get(key) if not isinstance(fields.get(key), dict) else None)
            for key, value in place.items()
        }

    tree: dict = {}
    for column in table:
        if column.path is not None:
            put(tree, column.path, None if column.json else column.type)
    return normal(typed(record, tree))


def overlay(base, extra):
    """`extra` laid over what the columns gave."""
    if isinstance(base, dict) and isinstance(extra, dict):
        return base | {key: overlay(base.get(key), value) for key, value in extra.items()}
    if isinstance(base, list) and isinstance(extra, list):
        return [overlay(left, right) for left, right in zip(base, extra, strict=True)]
    return base if extra == {} else extra


def rebuilt(row: dict, table: Table = ARTICLE_CHANGES) -> dict:
    """The record that a row was made of."""
    record: dict = {}
    for column in table:
        value = row[column.name]
        if column.name not in {"batch_hour", "event_at", "extra"} and column.path is not None and value is not None:
            put(record, column.path, json.loads(value) if column.json else value)
    return normal(overlay(record, json.loads(row["extra"] or "{}")))


def with_type(record: dict) -> dict:
    """A record without an event counts as an update."""
    return record | {"event": {"type": "update"} | record.get("event", {})}


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded articles are not beside this checkout")
def test_recorded_articles_convert_without_reject_or_loss(lake, rows, how):
    records = []
    for path in sorted(REAL.glob("*.gz")):
        text = gzip.decompress(path.read_bytes()).decode()
        for part in text.splitlines() if path.name.endswith(".ndjson.gz") else [text]:
            value = json.loads(part)
            records += value if isinstance(value, list) else [value]
    assert len(records) == 15
    projects = sorted({record["is_part_of"]["identifier"] for record in records})
    assert len(projects) > 4
    for project in projects:
        mine = [record for record in records if record["is_part_of"]["identifier"] == project]
        lines = lake.lines(*(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() for record in mine))
        for char in "<>&\u2028\u2029":  # as the service writes them
            lines = lines.replace(char.encode(), f"\\u{ord(char):04x}".encode())
        made = convert(lake.archive(lines, identifier=f"{project}_namespace_0"), lake.layout)
        assert (made.row_count, made.rejects_path) == (len(mine), None)
        for record, row in zip(mine, rows(made.path), strict=True):
            assert rebuilt(row) == with_type(normal_record(record))
            event = record.get("event", {})
            moment = event.get("date_published") or event.get("date_created") or record["date_modified"]
            assert row["event_at"] == datetime.fromisoformat(moment)


def test_made_up_records_convert_without_loss(lake, rows):
    rng = random.Random(1)
    records = [record_of(rng) for _ in range(300)]
    made = lake.convert(*records)
    rejected = {row["line_number"] for row in rows(made.rejects_path)}
    kept = [record for number, record in enumerate(records, 1) if number not in rejected]
    assert len(kept) > 100
    for record, row in zip(kept, rows(made.path), strict=True):
        expected = with_type(normal_record(record))
        assert rebuilt(row) == expected
        event = expected["event"]
        happened = event.get("date_published") or event.get("date_created") or expected["date_modified"]
        assert row["event_at"] == happened


def test_counts_add_up_over_blocks_and_every_list_element_counts(lake, small_blocks):
    records = [lake.record(n, categories=[{"name": "A", "rank": n}, {"name": "B", "rank": 2}]) for n in range(30)]
    made = lake.convert(*records, lake.record(30, article_body={"mood": None}))
    found = [(drift.path, drift.count, drift.example) for drift in drift_of([made, made])]
    assert found == [("categories[].rank", 120, "0"), ("article_body.mood", 2, "null")]
