"""Records whose event is more than a day later than their archive: rejects, since they would outdo every later edit."""

import gzip
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from resources import datasets
from resources.lake import Archive, convert
from resources.lake.live import LiveLake
from tests.unit.lake.conftest import page_record

DAY, FAR = timedelta(days=1), "9999-12-31T23:59:59.999999Z"


def at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def record(number: int, event: dict[str, Any], modified: str | None = None) -> dict[str, Any]:
    """A record that articles, entities and structured contents can be made of."""
    lookup = {"name": f"Page {number}", "at": "2026-11-19T05:10:00Z", "purpose": "repair", "is_found": True}
    return page_record(number, identifier=number, event=event, date_modified=modified, lookup=lookup)


def archives(lake, data: bytes) -> list[Any]:
    """The same lines as an archive of each dataset whose events have a time, all of the same moment."""
    hourly = lake.archive(data)
    known = (hourly.path, hourly.identifier, hourly.version, None, "enwiki", 0)
    return [
        hourly,
        replace(hourly, dataset=datasets.ENTITY_CHANGES),
        *(
            Archive(*known, snapshot_id="s", snapshot_version="1" * 32, exported_at=lake.hour, dataset=dataset)
            for dataset in (datasets.SNAPSHOT_ARTICLES, datasets.STRUCTURED_ARTICLES, datasets.SNAPSHOT_ENTITIES)
        ),
        Archive(*known, source_at=lake.hour, dataset=datasets.LOOKUPS),
    ]


@pytest.mark.usefixtures("how")
def test_of_every_dataset_what_is_more_than_a_day_later_is_rejected(lake, rows):
    latest = lake.hour + DAY
    good = [
        record(1, {"date_published": at(latest)}),
        record(2, {"date_published": at(lake.hour), "date_created": FAR}, FAR),
        record(3, {"date_created": at(latest)}, FAR),
        record(4, {}, at(latest)),
        record(5, {"date_published": "0001-01-01T00:00:00Z"}),
        record(6, {"date_published": at(lake.hour)}) | {"date_created": FAR, "date_previously_modified": FAR},
    ]
    late = [
        record(7, {"date_published": at(latest + timedelta(microseconds=1))}),
        record(8, {"date_published": FAR, "date_created": at(lake.hour)}, at(lake.hour)),
        record(9, {"date_created": FAR}, at(lake.hour)),
        record(10, {}, FAR),
        record(11, {"date_published": "9999-12-31T23:59:59-14:00"}),
    ]
    lines = [json.dumps(one).encode() for pair in zip(good, [*late, good[0]], strict=True) for one in pair][:-1]
    for archive in archives(lake, lake.lines(*lines)):
        made = convert(archive, lake.layout)
        assert (made.batch_hour, made.source_at) == (archive.batch_hour, archive.source_at)
        # wherever the title is
        pages = sorted((row.get("name") or row.get("entity_id"))[5:] for row in rows(made.path))
        assert pages == [*"123456"], archive.dataset.name
        rejected = rows(made.rejects_path)
        assert [json.loads(row["raw"])["identifier"] for row in rejected] == [7, 8, 9, 10, 11]
        (reason,) = {row["reason"] for row in rejected}
        assert reason == (
            "The first of event.date_published, event.date_created, date_modified is after 2026-11-20 05:00:00 UTC, "
            "more than a day after the record was archived or received."
        )
        assert [row["line_number"] for row in rejected] == [2, 4, 6, 8, 10]


def test_a_snapshot_of_an_unknown_date_keeps_all(lake):
    of_snapshot = archives(lake, lake.lines(record(1, {"date_published": FAR})))[2]
    assert convert(of_snapshot, lake.layout).reject_count == 1
    assert convert(replace(of_snapshot, exported_at=None, version="2" * 32), lake.layout).reject_count == 0


def test_an_event_of_the_stream_is_compared_with_the_clock(lake):
    """A clock that is hours behind rejects nothing. One that is days behind rejects the future, and says so."""
    events = [
        record(n, {"identifier": f"e{n}", "date_published": at(lake.hour), "partition": 1, "offset": n})
        for n in range(3)
    ]
    lines = lake.lines(*events, record(3, {"identifier": "e3", "date_published": FAR, "partition": 1, "offset": 3}))
    told, wrong = ({"service_now": lake.hour - DAY * days} for days in (0, 40))  # the service's clock counts as well
    for behind, kept, more in ((0, 3, wrong), (23 / 24, 3, {}), (2, 0, {}), (2, 3, told), (-40, 0, {}), (-40, 3, told)):
        inside = lake.elsewhere(f"{behind} {kept}").layout
        stream = LiveLake(inside, "live_changes", datasets.ARTICLE_CHANGES.table)
        step = stream.add([lines], lake.hour - timedelta(days=behind), **more)
        assert step is not None
        assert (step.row_count, step.reject_count) == (kept, 4 - kept)
        assert max(step.published_at.values(), default=lake.hour) == lake.hour
        [beside] = (inside.lake / "live_changes_rejects").rglob("*.ndjson.gz")
        assert gzip.decompress(beside.read_bytes()).count(b"\n") == 4 - kept


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("time", ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_times_that_no_python_program_could_read_are_rejected(lake, rows, time):
    """They are times for Arrow and DuckDB; a query for such a row failed with an OverflowError."""
    odd = [
        lake.record(1, date_created=time),
        lake.record(2, date_modified=time),
        lake.record(3, version={"identifier": 3, "event": {"date_published": time}}),
        lake.record(4, version={"identifier": 4, "editor": {"date_started": time}}),
    ]
    made = lake.convert(lake.record(5), *odd, lake.record(6, date_created="0001-01-01T00:00:00Z"))
    assert [row["article_id"] for row in rows(made.path)] == [105, 106]
    assert [row["reason"] for row in rows(made.rejects_path)] == [
        f"{name} is not within the years 1 to 9999 (UTC)."
        for name in ("created_at", "modified_at", "version_event", "editor_started_at")
    ]
