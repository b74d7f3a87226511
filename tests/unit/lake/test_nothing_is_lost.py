"""Every record can be rebuilt from its row: absent, null and empty are the same, everything else is equal."""

from __future__ import annotations

import gzip
import json
import pathlib
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources.lake import Layout, convert
from resources.tables import ARTICLE_CHANGES, Table

REAL = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise" / "articles"
COMPUTED = {"batch_hour", "event_at", "extra"}


def normal(value, declared: pa.DataType | None = None):
    """A value with times as moments, and without what is null or empty."""
    if isinstance(value, dict):
        types = {field.name: field.type for field in declared} if declared is not None else {}
        inner = {key: normal(item, types.get(key)) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [normal(item, declared.value_type if declared is not None else None) for item in value]
    if declared is not None and pa.types.is_timestamp(declared) and isinstance(value, str):
        return datetime.fromisoformat(value)
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
            *parents, last = column.path.split(".")
            place = tree
            for part in parents:
                place = place.setdefault(part, {})
            place[last] = column.type
    return normal(typed(record, tree))


def overlay(base, extra):
    """`extra` laid over what the columns gave."""
    if isinstance(base, dict) and isinstance(extra, dict):
        return base | {key: overlay(base.get(key), value) for key, value in extra.items()}
    if isinstance(base, list) and isinstance(extra, list):
        return [overlay(left, right) for left, right in zip(base, extra, strict=True)]
    return base if extra == {} and base is not None else extra


def rebuilt(row: dict, table: Table = ARTICLE_CHANGES) -> dict:
    """The record that a row was made of, less what is kept as JSON."""
    record: dict = {}
    for column in table:
        value = row[column.name]
        if column.name in COMPUTED or column.path is None or column.json or value is None:
            continue
        *parents, last = column.path.split(".")
        place = record
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value
    return normal(overlay(record, json.loads(row["extra"] or "{}")))


def with_type(record: dict) -> dict:
    """A record without an event counts as an update."""
    return record | {"event": {"type": "update"} | record.get("event", {})}


def real_records() -> list[dict]:
    found = []
    for path in sorted(REAL.glob("*.gz")):
        text = gzip.decompress(path.read_bytes()).decode()
        for part in text.splitlines() if path.name.endswith(".ndjson.gz") else [text]:
            value = json.loads(part)
            found += value if isinstance(value, list) else [value]
    return found


def as_the_service_writes(record: dict) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()


def plainly(record: dict) -> bytes:
    return json.dumps(record, indent=None, ensure_ascii=False).encode()


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded articles are not beside this checkout")
@pytest.mark.parametrize("encode", [as_the_service_writes, plainly])
def test_recorded_articles_convert_without_reject_or_loss(lake, rows, encode):
    records = real_records()
    assert len(records) == 15
    projects = sorted({record["is_part_of"]["identifier"] for record in records})
    assert len(projects) > 4
    for project in projects:
        mine = [record for record in records if record["is_part_of"]["identifier"] == project]
        archive = lake.archive(lake.lines(*map(encode, mine)), identifier=f"{project}_namespace_0")
        made = convert(archive, lake.layout)
        assert (made.row_count, made.rejects_path) == (len(mine), None)
        for record, row in zip(mine, rows(made.path), strict=True):
            assert rebuilt(row) == with_type(normal_record(record))
            event = record.get("event", {})
            moment = event.get("date_published") or event.get("date_created") or record["date_modified"]
            assert row["event_at"] == datetime.fromisoformat(moment)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
# names that the declaration surely does not know at any place
NEW_NAMES = st.text(min_size=1, max_size=6).map(lambda text: f"new_{text}")
EXTRA = st.dictionaries(NEW_NAMES, JSON, max_size=2)
TEXT = st.text(max_size=12)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.isoformat() + "Z")  # noqa: DTZ001
#: Those of which one orders the states of a page: a record is rejected where it lies a day after the hour of its file.
ORDERING = st.datetimes(datetime(1, 1, 2), datetime(2026, 11, 20, 5)).map(lambda moment: moment.isoformat() + "Z")  # noqa: DTZ001


def value_of(declared: pa.DataType):
    """Any value of a declared type, with unknown fields inside objects."""
    if pa.types.is_struct(declared):
        return st.builds(
            lambda known, extra: known | extra,
            st.fixed_dictionaries({}, optional={item.name: value_of(item.type) for item in declared}),
            EXTRA,
        )
    if pa.types.is_list(declared):
        return st.lists(value_of(declared.value_type), max_size=3)
    if pa.types.is_timestamp(declared):
        return MOMENTS
    if pa.types.is_boolean(declared):
        return st.booleans()
    if pa.types.is_integer(declared):
        return st.integers(-(2**63), 2**63 - 1)
    return TEXT if pa.types.is_string(declared) else st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def made_up_records(draw):
    """Records with any of the declared fields, and unknown ones at every depth."""
    record: dict = {}
    places = [record]
    optional = [c for c in ARTICLE_CHANGES if c.path is not None and not c.required]
    for column in draw(st.lists(st.sampled_from(optional), max_size=12, unique_by=lambda c: c.name)):
        *parents, last = column.path.split(".")
        place = record
        for part in parents:
            place = place.setdefault(part, {})
            places.append(place)
        is_ordering = column.name in ARTICLE_CHANGES["event_at"].first_of
        values = ORDERING if is_ordering else value_of(column.type)
        place[last] = draw(st.integers(0, 2**53 - 1) if column.wire is not None else values)
    for place in draw(st.lists(st.sampled_from(places), max_size=3)):
        place.update(draw(EXTRA))
    record["name"] = draw(st.text(min_size=1, max_size=9))
    record["identifier"] = draw(st.integers(0, 2**40))
    record["date_modified"] = draw(ORDERING)
    record.setdefault("version", {})["identifier"] = draw(st.integers(0, 2**40))
    record.setdefault("namespace", {})["identifier"] = 0
    record.setdefault("is_part_of", {})["identifier"] = "enwiki"
    record.setdefault("event", {})["type"] = draw(st.sampled_from(["update", "delete", "visibility-change"]))
    return record


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(made_up_records(), min_size=1, max_size=12))
def test_made_up_records_convert_without_loss(records, tmp_path_factory, lake, rows):
    folder = tmp_path_factory.mktemp("lake", numbered=True)
    inside = type(lake)(Layout(folder))
    made = inside.convert(*records)
    assert [row["reason"] for row in rows(made.rejects_path)] == []
    assert [rebuilt(row) for row in rows(made.path)] == [normal_record(record) for record in records]


def test_unknown_fields_keep_their_place(lake, rows):
    record = lake.record(
        2,
        version={"identifier": 5, "mood": "calm", "scores": {"novelty": {"high": [1, {"a": None}]}}},
        categories=[{"name": "A", "url": "u"}, {"name": "B", "rank": 2}],
        has_parts=[{"type": "section"}],
        image={"content_url": "u", "thumbnail": {"width": 3, "dpi": 72}},
        digits=123456789012345678901234567890,
        nothing=None,
    )
    made = lake.convert(lake.record(1), record, lake.record(3, version={"identifier": 6, "mood": "grim"}))
    found = rows(made.path)
    assert found[0]["extra"] is None
    assert json.loads(found[1]["extra"]) == {
        "version": {"mood": "calm", "scores": {"novelty": {"high": [1, {"a": None}]}}},
        "categories": [{}, {"rank": 2}],
        "has_parts": [{"type": "section"}],
        "image": {"thumbnail": {"dpi": 72}},
        "digits": 123456789012345678901234567890,
        "nothing": None,
    }
    assert [(drift.path, drift.count, drift.example) for drift in made.drift] == [
        ("categories[].rank", 1, "2"),
        ("digits", 1, "123456789012345678901234567890"),
        ("has_parts", 1, '[{"type":"section"}]'),
        ("image.thumbnail.dpi", 1, "72"),
        ("nothing", 1, "null"),
        ("version.mood", 2, '"calm"'),
        ("version.scores.novelty", 1, '{"high":[1,{"a":null}]}'),
    ]


def test_nulls_where_objects_and_lists_are_declared(lake, rows):
    made = lake.convert(
        lake.record(1, categories=None, in_language=None, main_entity={}, image=None),
        lake.record(
            2, categories=[None, {"name": "A"}], version={"identifier": 1, "tags": ["a", None], "editor": None}
        ),
    )
    first, second = rows(made.path)
    assert (first["categories"], first["language_id"], first["image_url"]) == (None, None, None)
    assert second["categories"] == [None, {"name": "A", "url": None}]
    assert second["version_tags"] == ["a", None]


def test_text_of_every_kind_survives(lake, rows):
    text = '<b>&\u2028 "quoted" \\ back\tslash \u0000 null 🐿 é \u200f'
    for encode in (as_the_service_writes, plainly, lambda record: json.dumps(record).encode()):
        elsewhere = lake.elsewhere(str(id(encode)))
        made = elsewhere.convert(encode(lake.record(1, abstract=text, article_body={"html": text})))
        (row,) = rows(made.path)
        assert (row["abstract"], row["html"], row["wikitext"]) == (text, text, None)
