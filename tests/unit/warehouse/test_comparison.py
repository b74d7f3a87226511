"""The stream compared with the files of hours: nothing where they agree, else exactly the differences."""

import random
from collections import Counter
from datetime import timedelta
from operator import attrgetter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.datasets.live import LIVE_CHANGES, METADATA_KEY, Step, facts_of, path_of
from resources.tables import ARTICLE_CHANGES, HourState
from resources.warehouse import HourStatus, LakeFileError
from tests.builds import ask
from tests.unit.warehouse.conftest import START

#: The stream is kept from the middle of the first hour until the middle of the fourth.
SINCE, UNTIL = 30, 210
NONE = (0, 0, 0)


def events(lake, first=0, end=4):
    """Rows of hours by hour, project and namespace; changes of visibility among them."""
    chance = random.Random(1)
    hours = {(hour, "enwiki", namespace): [] for hour in range(first, end) for namespace in (0, 14)}
    for minute in range(60 * first, 60 * end, 2):
        page, kind = chance.randint(1, 400), chance.choice(["update", "update", "delete", "visibility-change"])
        row = lake.change(page, f"T {page}", minute, kind, abstract=chance.choice("abc"), html=f"<p>{minute}")
        hours[minute // 60, "enwiki", chance.choice([0, 0, 14])].append(row)
    return hours


def stream(mirror, hours, *, lacks=(), number=2, until=UNTIL, kept_since=None):
    """Write what a stream kept of the rows, less those of some events, as one file."""
    lake = mirror.lake
    kept = [
        dict.fromkeys(ARTICLE_CHANGES.schema.names)
        | row
        | {"batch_hour": lake.hour(hour), "project_id": project, "namespace_id": namespace, "event_partition": 3}
        for (hour, project, namespace), of_hour in sorted(hours.items())
        for row in of_hour
        if row["event_id"] not in lacks and lake.hour(0) + timedelta(minutes=SINCE) <= row["event_at"] < at(lake, until)
    ]
    for place, row in enumerate(kept):
        row["event_offset"] = place
    path = path_of(lake.data / "lake" / LIVE_CHANGES, lake.hour(4), number, number)
    known = {"offsets": {3: 9}, "published_at": {3: at(lake, until)}, "kept_since": kept_since or {}}
    step = Step(number, path, at(lake, SINCE), **known)
    schema = ARTICLE_CHANGES.schema.with_metadata({METADATA_KEY: facts_of(step)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(kept, schema=schema), path)
    return path


def at(lake, minute):
    return lake.hour(0) + timedelta(minutes=minute)


def load(mirror, hours, *, lacks=(), other=None, tag=""):
    """Load the files of hours, which have no changes of visibility."""
    for number in sorted({hour for hour, *_ in hours}):
        files = []
        for (hour, project, namespace), of_hour in hours.items():
            if hour == number:
                kept = [r for r in of_hour if r["change_type"] != "visibility-change" and r["event_id"] not in lacks]
                kept = [row | (other or {}).get(row["event_id"], {}) for row in kept]
                files.append(mirror.lake.file(hour, kept, project, namespace, tag=tag))
        mirror.warehouse.load_hour(mirror.lake.hour(number), files)


def compare(mirror, hours=range(50)):
    return mirror.warehouse.compare_stream([mirror.lake.hour(hour) for hour in hours])


def counts(found):
    """By hour and namespace: only in the stream, only in the file, different."""
    numbers = attrgetter("only_in_stream_count", "only_in_file_count", "different_count")
    return {((one.batch_hour - START) // timedelta(hours=1), one.namespace_id): numbers(one) for one in found}


def compared(mirror, hours=range(50)):
    return counts(compare(mirror, hours))


def chosen(hours, hour, count, kinds=("update", "delete")):
    """Some rows of an hour that the stream was kept for and that no newer row of their title follows."""
    found = [row for key, of_hour in hours.items() if key[0] == hour for row in of_hour]
    last = {row["name"]: row for row in sorted(found, key=lambda row: row["event_at"]) if row["change_type"] in kinds}
    since = START + timedelta(minutes=SINCE)
    return [row for row in found if last.get(row["name"]) is row and row["event_at"] >= since][:count]


def test_a_faultless_hour_has_no_difference_and_a_damaged_file_is_named(mirror):
    hours = events(mirror.lake)
    load(mirror, hours)
    assert compared(mirror) == {}
    kept, found = stream(mirror, hours), compare(mirror)
    assert counts(found) == {(hour, namespace): NONE for hour in range(4) for namespace in (0, 14)}
    # of the last hour the stream has one half only, of the first one as well, and nothing is claimed of the rest
    assert {one.batch_hour.hour: one.is_partial for one in found} == {0: True, 1: False, 2: False, 3: True}
    sentences = [str(one) for one in found if one.namespace_id == 0]
    assert "(the stream covers 00:30:00 to 01:00:00): the stream and the file agree on" in sentences[0]
    assert "covers" not in sentences[1]
    # other hours are left out
    assert {hour for hour, _ in compared(mirror, [2])} == {2}
    # a slow clock laid the events into the folder of the hour before
    slow = path_of(mirror.data / "lake" / LIVE_CHANGES, mirror.lake.hour(2), 2, 2)
    slow.parent.mkdir(parents=True)
    kept = kept.rename(slow)
    assert compared(mirror, [3]) == {(3, 0): NONE, (3, 14): NONE}
    for path in (kept, next((mirror.data / "lake" / "article_changes").glob("*/hour=03/*.parquet"))):
        whole = path.read_bytes()
        path.write_bytes(whole[:-60])
        with pytest.raises(LakeFileError, match=r"(?s)cannot be read .* Nothing was changed"):
            compared(mirror)
        path.write_bytes(whole)
        assert len(compared(mirror)) == 8


def test_what_one_side_lacks_or_says_otherwise_is_counted_and_shown(mirror, monkeypatch):
    hours = events(mirror.lake)
    dropped, missing, changed = (chosen(hours, hour, 2) for hour in (0, 1, 2))
    other = {changed[0]["event_id"]: {"abstract": "z", "url": "u"}, changed[1]["event_id"]: {"html": "<p>?"}}
    load(mirror, hours, lacks={row["event_id"] for row in missing}, other=other)
    stream(mirror, hours, lacks={row["event_id"] for row in dropped})
    found = compare(mirror)
    for side, lacks in (("stream_count", dropped), ("file_count", missing)):
        wanted = Counter(
            (hour, namespace)
            for (hour, _, namespace), of_hour in hours.items()
            for row in of_hour
            if row["change_type"] != "visibility-change" and row not in lacks
            if at(mirror.lake, SINCE) <= row["event_at"] < at(mirror.lake, UNTIL)
        )
        assert {(one.batch_hour.hour, one.namespace_id): getattr(one, side) for one in found} == wanted
        assert wanted.total() > 40
    assert sum(one.difference_count for one in found) == 6
    assert {example for one in found for example in one.examples} == {
        *(f"{row['name']!r}, event {row['event_id']}: only in the file" for row in dropped),
        *(f"{row['name']!r}, event {row['event_id']}: only in the stream" for row in missing),
        f"{changed[0]['name']!r}, event {changed[0]['event_id']}: different (url, abstract)",
        f"{changed[1]['name']!r}, event {changed[1]['event_id']}: different (html)",
    }
    assert {hour for (hour, _), differing in counts(found).items() if differing != NONE} == {0, 1, 2}
    monkeypatch.setattr("resources.warehouse.read.comparison._EXAMPLES", 1)
    assert {len(one.examples) for one in compare(mirror)} == {0, 1}
    [sentence] = {str(one) for one in found if one.only_in_file_count == len(dropped)} or {""}
    assert "2 events in the stream and the file differ (2 only in the file), for example 'T " in sentence


def test_page_text_and_what_a_newer_event_of_a_title_took_the_place_of_may_be_on_one_side_alone(mirror):
    lake = mirror.lake
    row = lake.change(3, "A", 61, html="<p>")
    older = row | {"event_at": at(lake, 60.5), "abstract": "older"}
    of_page = [lake.change(1, name, minute) for name, minute in (("A_b", 61), ("A b", 62), ("A b", 63))]
    others = [*of_page, lake.change(2, "B", 64), lake.change(2, "B", 65)]
    stream(mirror, {(1, "enwiki", 0): [row, older], (1, "enwiki", 14): others})
    lacks = {one["event_id"] for one in (*of_page[:2], others[-1])}
    kept = {(1, "enwiki", 0): [row | {"html": None}], (1, "enwiki", 14): others}
    load(mirror, kept, lacks=lacks)
    # the newest of B is missing, though an older one is there
    assert compared(mirror) == {(1, 0): NONE, (1, 14): (1, 0, 0)}


def test_an_hour_whose_file_the_service_does_not_list_lacks_what_the_stream_has(mirror):
    hours = {(1, "enwiki", 0): [mirror.lake.change(1, "A", 61)], (1, "enwiki", 14): [mirror.lake.change(2, "B", 62)]}
    stream(mirror, hours)
    absent = [HourStatus(mirror.lake.hour(1), "enwiki", number, HourState.ABSENT) for number in (10, 14)]
    mirror.warehouse.load_hour(mirror.lake.hour(1), [mirror.lake.file(1, hours[1, "enwiki", 0])], absent)
    assert compared(mirror) == {(1, 0): NONE, (1, 10): NONE, (1, 14): (1, 0, 0)}
    # its export is made later on after all
    load(mirror, hours)
    assert compared(mirror)[1, 14] == NONE
    # files that were compacted are gone
    for path in (mirror.data / "lake" / "article_changes").rglob("*.parquet"):
        path.unlink()
    assert compared(mirror) == {(1, 10): NONE}
    # the service no longer keeps the hour, nor do we keep the files of the stream
    mirror.warehouse._clock.now += timedelta(hours=50)
    assert compared(mirror) == {}


def test_only_what_was_mirrored_is_compared(mirror):
    hours = events(mirror.lake, 0, 2)
    load(mirror, hours | {(1, "enwiki", 10): [mirror.lake.change(900, "Of a place that is not kept", 61)]})
    since = {("enwiki", 0): at(mirror.lake, SINCE), ("enwiki", 14): at(mirror.lake, 90)}
    kept = {key: [row for row in rows if row["event_at"] >= since[key[1:]]] for key, rows in hours.items()}
    stream(mirror, kept, kept_since=since)
    found = {(hour, number): NONE for hour in range(2) for number in (0, 14) if (hour, number) != (0, 14)}
    told = compare(mirror)
    assert counts(told) == found
    begun = [one.compared_from for one in told if one.batch_hour == mirror.lake.hour(1)]
    assert begun == [mirror.lake.hour(1), at(mirror.lake, 90)]


def test_changes_of_visibility_outlast_their_hour(mirror):
    hours = events(mirror.lake, 1, 3)
    rows = [row for of_hour in hours.values() for row in of_hour]
    wanted = [(row["event_id"], row["name"]) for row in rows if row["change_type"] == "visibility-change"]
    kept = "change_type = 'visibility-change' AND event_offset IS NULL"
    found = f"SELECT event_id, name FROM article_changes WHERE {kept}"
    path = stream(mirror, hours)
    load(mirror, hours)
    mirror.warehouse.keep_visibility_changes()
    mirror.warehouse.publish()
    assert Counter(mirror.warehouse.sql(found).rows) == Counter(wanted)
    # a file of before events were counted
    query = "SELECT partition, next_offset, event_count, newest_published_at FROM stream_state"
    assert mirror.warehouse.sql(query).rows == [(3, 9, 0, at(mirror.lake, UNTIL))]
    assert set(wanted) < set(mirror.warehouse.sql("SELECT event_id, name FROM distinct_changes").rows)
    # whatever is loaded again, and when the stream is long gone
    load(mirror, hours, tag="again")
    mirror.warehouse.keep_visibility_changes()
    path.unlink()
    load(mirror, hours, tag="and again")
    mirror.warehouse.keep_visibility_changes()
    mirror.warehouse._clock.now += timedelta(days=3)
    assert mirror.warehouse.publish().changed
    assert Counter(mirror.warehouse.sql(found).rows) == Counter(wanted)
    mirror.warehouse.drop_project("enwiki")
    mirror.warehouse.publish()
    assert mirror.warehouse.sql("SELECT count(*) FROM article_changes").rows == [(0,)]


def test_a_file_that_has_changes_of_visibility_after_all_has_them_once(mirror):
    changes = [mirror.lake.change(1, name, 61, "visibility-change") for name in ("A", "B")]
    hours = {(1, "enwiki", 0): [*changes, mirror.lake.change(1, "A", 62)]}
    # of the other namespace no hour is loaded
    stream(mirror, hours | {(1, "enwiki", 14): [mirror.lake.change(2, "C", 61, "visibility-change")]})
    load(mirror, hours)
    assert [mirror.warehouse.keep_visibility_changes() for _ in range(2)] == [2, 0]
    assert ask(mirror.warehouse, "SELECT count(*) FROM visibility_changes") == [(2,)]
    mirror.warehouse.load_hour(mirror.lake.hour(1), [mirror.lake.file(1, hours[1, "enwiki", 0])])
    before = mirror.warehouse.publish().revision
    assert mirror.warehouse.keep_visibility_changes() == 0
    assert mirror.warehouse.unpublished_revision() == before + 1
    assert ask(mirror.warehouse, "SELECT count(*) FROM visibility_changes") == [(0,)]
