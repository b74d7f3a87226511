"""The streams: framing, positions, refusals, what is sent of each record, pace, and ends."""

import asyncio
import http.client
import json
import select
from collections import defaultdict
from contextlib import contextmanager
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from unittest.mock import AsyncMock, MagicMock, Mock
from urllib.parse import urlsplit

import pytest
import requests

from resources.sandbox import api
from resources.sandbox.api.middleware import _Stall
from resources.sandbox.api.parameters import Filter, Parameters
from resources.sandbox.api.stream_parameters import Beginning, _beginning, _from_form, selector
from resources.sandbox.api.streams import Streaming, _positions
from resources.sandbox.clock import Clock
from resources.sandbox.store.archives import partition
from resources.sandbox.store.topics import Reader
from resources.sandbox.world.world import micros
from tests.unit.sandbox.conftest import NOW, refused, small_sandbox

KEPT, SINCE = timedelta(hours=48), "since_per_partition"


@pytest.fixture(scope="module")
def streams(tmp_path_factory, signing_key):
    """A sandbox without a throttle, whose clock stands still."""
    few = {"projects": ("enwiki", "frwiki"), "namespaces": (0, 14), "changes_per_hour": 12, "entities": 10}
    with small_sandbox(tmp_path_factory.mktemp("streams"), signing_key, stream_rate=0, **few) as client:
        yield client


@pytest.fixture(autouse=True)
def as_before(streams):
    yield
    streams.sandbox.clock.set(NOW)
    streams.sandbox.faults.clear()


@contextmanager
def stream(client, body=None, path="/v2/articles", method="POST", accept="application/x-ndjson", **more):
    headers = {"Authorization": f"Bearer {client.token}", "Accept": accept} | more.pop("headers", {})
    url = client.sandbox.realtime_url + path
    with requests.request(method, url, json=body, headers=headers, stream=True, timeout=120, **more) as answer:
        yield answer


def read(client, count, body=None, **more):
    """The first records of a stream."""
    with stream(client, body, **more) as answer:
        assert answer.status_code == 200, answer.text
        lines = answer.iter_lines()
        return [json.loads(next(lines)) for _ in range(count)]


def refusal(client, body, **more):
    with stream(client, body, **more) as answer:
        return answer.status_code, answer.json()["message"]


def truth(client, since, until, projects=("enwiki", "frwiki")):
    """The records of that time, by what tells both halves of a move apart: event, title and type."""
    world = client.sandbox.world
    records = (world.record(event) for project in projects for event in world.events(project, since, until))
    return {key(record): record for record in records}


def key(record):
    return record["event"]["identifier"], record["name"], record["event"]["type"]


def text(moment):
    return moment.isoformat().replace("+00:00", "Z")


class TestWhatIsSent:
    def test_everything_that_is_kept_each_event_once(self, streams):
        """Of Wikidata, which has the fewest events."""
        world, kept = streams.sandbox.world, range(5)
        events = world.events("wikidatawiki", NOW - KEPT, NOW)
        records = (world.record(event) for event in events if partition(world.key(event)) in kept)
        wanted = {key(record): record for record in records}
        body = {"parts": [0], "since_per_partition": {str(number): text(NOW - 3 * KEPT) for number in kept}}
        fields = {"fields": ["entity.type"]}
        assert read(streams, 1, body | fields, path="/v2/wikidata") == [{"entity": {"type": "item"}}]
        found = read(streams, len(wanted), body, path="/v2/wikidata")
        assert {one["event"]["type"] for one in found} == {"update", "delete", "visibility-change"}
        places = defaultdict(list)
        for record in found:
            # 0 as well, unlike other zeros
            places[record["event"].pop("partition")].append((record["event"].pop("offset"), record))
        assert {key(record): record for record in found} == wanted
        assert set(places) == set(kept)
        for number, messages in places.items():
            offsets = [offset for offset, _ in messages]
            assert offsets == sorted(set(offsets))
            published = [record["event"]["date_published"] for _, record in messages]
            assert published == sorted(published, key=datetime.fromisoformat)
            names = {(r["is_part_of"]["identifier"], r["name"].replace("_", " ")) for _, r in messages}
            assert {partition(f"/{project}/{name}") for project, name in names} == {number}

    def test_partitions_are_read_side_by_side_and_a_part_is_five(self, streams):
        day_ago = text(NOW - timedelta(days=1))
        body = {"parts": [3], "since_per_partition": {str(number): day_ago for number in range(50)}}
        found = read(streams, 60, body)
        assert {record["event"].get("partition", 0) for record in found} == {15, 16, 17, 18, 19}
        published = [record["event"]["date_published"] for record in found]
        assert published != sorted(published)

    def test_a_stream_goes_on_at_an_offset_which_is_inclusive(self, streams):
        found = read(streams, 9, {"parts": [0], "since_per_partition": {"3": text(NOW - KEPT)}})
        body = {"parts": [0], "offsets": {"3": found[6]["event"]["offset"]}}
        assert read(streams, 3, body) == found[6:]

    @pytest.mark.parametrize("more", [{}, None, {"offsets": {"3": 0}}, {SINCE: {"3": text(NOW - KEPT)}}])
    def test_a_stream_without_a_beginning_is_live_and_positions_without_parts_are_ignored(self, streams, more):
        connection = http.client.HTTPConnection(urlsplit(streams.sandbox.realtime_url).netloc, timeout=120)
        headers = {"Authorization": f"Bearer {streams.token}", "Accept": "application/x-ndjson"}
        connection.request("GET", "/v2/articles", json.dumps(more), headers)
        moves = 0
        while not select.select([connection.sock], [], [], 0.02)[0]:
            moves += 1
            assert moves < 1_000
            streams.sandbox.clock.advance(timedelta(minutes=1))
        answer = connection.getresponse()
        published = datetime.fromisoformat(json.loads(answer.readline())["event"]["date_published"])
        assert published >= NOW
        # status and headers were sent with the event, not before
        assert parsedate_to_datetime(answer.headers["Date"]) >= published.replace(microsecond=0)
        connection.close()

    def test_events_come_when_the_clock_reaches_them(self, streams):
        later = NOW + timedelta(hours=1)
        before, after = truth(streams, NOW - timedelta(hours=1), NOW), truth(streams, NOW, later)
        with stream(streams, {"since": text(NOW - timedelta(hours=1))}) as answer:
            lines = answer.iter_lines()
            assert {key(json.loads(next(lines))) for _ in before} == set(before)
            streams.sandbox.clock.set(later)
            assert {key(json.loads(next(lines))) for _ in after} == set(after)


class TestForms:
    def test_events_and_lines_by_accept(self, streams):
        with stream(streams, {"since": text(NOW - KEPT)}, accept="text/event-stream") as answer:
            assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert (answer.headers["Cache-Control"], answer.headers["Connection"]) == ("no-cache", "keep-alive")
            assert answer.headers["Transfer-Encoding"] == "chunked"
            pieces, sent = answer.iter_content(None), b""
            while sent.count(b"\n\n") < 3:
                sent += next(pieces)
        for message in sent.split(b"\n\n")[:3]:
            event, data = message.split(b"\n")
            assert (event, data[:6]) == (b"event: message", b"data: ")
            assert json.loads(data[6:])["event"]["offset"]
            assert not {*b"<>&"} & {*data}
        for accept, content_type, begins in (
            ("*/*", "text/event-stream; charset=utf-8", b"event: message\ndata: {"),
            ("text/*;q=0.5", "text/event-stream; charset=utf-8", b"event: message\ndata: {"),
            ("application/x-ndjson", "application/x-ndjson; charset=utf-8", b'{"name":'),
            ("application/json", "; charset=utf-8", b'{"name":'),
        ):
            with stream(streams, {"since": text(NOW - KEPT)}, accept=accept) as answer:
                assert answer.headers["Content-Type"] == content_type
                assert next(answer.iter_content(64)).startswith(begins)

    def test_a_json_body_on_get_a_query_and_a_form_ask_the_same(self, streams):
        body = {"parts": [1, 4], "since_per_partition": {"7": text(NOW - KEPT)}, "fields": ["name", "event.*"]}
        wanted = read(streams, 5, body)
        assert {record["event"].get("partition", 0) for record in wanted} == {7}
        assert set(wanted[0]) == {"name", "event"}
        assert read(streams, 5, body, method="GET") == wanted
        words = [("parts", "1"), ("parts", "4"), ("fields", "name"), ("fields", "event.*")]
        words.append(("since_per_partition", json.dumps(body["since_per_partition"])))
        assert read(streams, 5, method="GET", params=words) == wanted
        assert read(streams, 5, data=words) == wanted


def test_a_query_names_positions_which_are_not_past_the_end(streams):
    topic, now = streams.sandbox.topics["article"], micros(NOW)
    query = [("parts", "3")] * 10 + [("since", ""), ("offsets", f'{{"15": 5, "16": {10**15}, "2": 1}}')]
    begin, live = _beginning(_from_form(query), NOW), topic.offsets_at(now)
    assert begin == Beginning((15, 16, 17, 18, 19), {}, {15: 5, 16: 10**15}, 1)
    assert _positions(topic, begin, now) == {15: 5} | {number: live[number] for number in range(16, 20)}
    # positions have a resolution of a millisecond
    event = topic.hour(now // 3_600_000_000)[5]
    assert topic.offsets_at(event.published + 1)[event.partition] == event.offset
    everything = _beginning(_from_form([("since", text(NOW)), ("since", "")]), NOW)
    assert everything == Beginning(tuple(range(50)), dict.fromkeys(range(50), NOW), {}, 10)
    times = _positions(topic, Beginning((0, 1), {0: NOW - KEPT, 1: NOW}, {}, 1), now)
    assert times == {0: topic.offsets_at(micros(NOW - KEPT))[0], 1: live[1]}


def test_a_reader_begins_at_its_earliest_offset_and_after_days_at_what_is_still_retained(streams):
    topic, now, hour = streams.sandbox.topics["wikidata-article"], micros(NOW), 3_600_000_000
    assert Reader(topic, {}).next_at() == hour
    early, late = (topic.offsets_at(now - back * hour) for back in (9, 2))
    positions = dict(enumerate([early[0], *late[1:25]]))
    reader = Reader(topic, positions)
    for since, until in ((now - 9 * hour, now), (now + 47 * hour // 2, now + 143 * hour // 2)):
        events = [event for one in range(since // hour, until // hour + 1) for event in topic.hour(one)]
        kept = (event for event in events if since <= event.published <= until and event.partition in positions)
        wanted = [event for event in kept if event.offset >= positions[event.partition]]
        found = []
        while more := list(reader.due(until)):
            found += more
        assert sorted(found) == sorted(wanted) != []
        later = [event.published for event in topic.hour(until // hour) if event.partition in positions]
        assert reader.next_at() == next((at for at in later if at > until), (until // hour + 1) * hour)


MANY = {str(number): 1 for number in range(51)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *((json.loads(body), message) for body, message in refused("streams")),
        ({"parts": [1], "offsets": MANY}, "the query param offsets has length 51, max allowed length 50"),
        ({"parts": [1], SINCE: MANY}, f"the query param {SINCE} has length 51, max allowed length 50"),
    ],
)
def test_refusals(streams, body, message):
    assert refusal(streams, body) == (422, message)


def test_groups_and_tokens_open_a_stream_which_outlives_its_token(streams):
    assert refusal(streams, None, headers={"Authorization": ""})[0] == 401
    for group in ("group_1", "group_2"):
        streams.sandbox.accounts.set_groups("sandbox", [group])
        assert refusal(streams, {"since": text(NOW - KEPT)})[0] == 403
    streams.sandbox.accounts.set_groups("sandbox", ["group_3"])
    with stream(streams, {"since": text(NOW - KEPT)}) as answer:
        lines = answer.iter_lines()
        next(lines)
        streams.call("/sandbox/tokens", "POST", json={"username": "sandbox", "revoke": "access"})
        assert streams.call("/v2/codes").status_code == 401
        for _ in range(200):
            next(lines)
    streams.login()
    assert streams.call("/v2/articles").status_code == 404
    assert requests.get(f"{streams.sandbox.realtime_url}/v2/codes", timeout=120).status_code == 404


SCORES = {"revertrisk": {"probability": {"true": 0.5, "false": 2.0}}}
VERSION = {"identifier": 7, "editor": {"is_bot": True}, "scores": SCORES}
CATEGORIES = [{"name": "B", "url": "https://b"}, {"name": "C", "url": "https://b"}]
RECORD = {"name": "A", "identifier": 1_234_567, "version": VERSION, "categories": CATEGORIES}


class TestSelection:
    def records(self, streams, count, **body):
        return read(streams, count, {"since": text(NOW - KEPT), **body})

    def test_fields_have_the_names_of_the_schema_and_filters_see_the_whole_record(self, streams):
        wanted = ["name", "version.sizes.*", "categories.name", "event.identifier", "event.type"]
        found = self.records(streams, 60, fields=wanted)
        update = next(one for one in found if one["event"]["type"] == "update" and "categories" in one)
        assert set(update) == {"name", "version", "categories", "event"}
        assert set(update["version"]) == {"size"}
        assert all(set(category) == {"name"} for category in update["categories"])
        # where it is on its topic comes with whatever is left of the event
        assert set(update["event"]) - {"partition"} == {"identifier", "type", "offset"}
        assert "event" not in self.records(streams, 1, fields=["name"])[0]
        french = {"field": "is_part_of.identifier", "value": "frwiki"}
        for record in self.records(streams, 5, filters=[french, {"field": "namespace.identifier", "value": 14}]):
            assert (record["is_part_of"]["identifier"], record["namespace"]["identifier"]) == ("frwiki", 14)
        found = self.records(streams, 20, filters=[french], fields=["name", "event.*"])
        assert {frozenset(record) for record in found} == {frozenset({"name", "event"})}
        for fields in (("version.*", "version.identifier"), ("version.identifier", "version.*")):
            assert selector("article", Parameters(fields))(RECORD) == {"version": RECORD["version"]}

    @pytest.mark.parametrize("line", Path(__file__).with_name("stream_filters.txt").read_text().splitlines()[1:])
    def test_filters(self, line):
        field, value, passes = json.loads(line)
        chosen = selector("article", Parameters(filters=(Filter(field, value),)))
        assert chosen(RECORD) == (RECORD if passes else None)
        empty = RECORD | {"categories": []}
        assert selector("article", Parameters(filters=(Filter("categories.name", "Z"),)))(empty) == empty


class TestPaceAndEnds:
    def test_the_throttle_is_shared_by_parts(self, tmp_path, signing_key, monkeypatch):
        rates, slept, sleep = [], [], asyncio.sleep
        monkeypatch.setattr(asyncio, "sleep", lambda seconds, *more: slept.append(seconds) or sleep(seconds, *more))
        monkeypatch.setattr(api.streams, "Streaming", lambda *given: rates.append(given[-1]) or Streaming(*given))
        body = {"since_per_partition": {str(n): text(NOW - KEPT) for n in range(50)}}
        with small_sandbox(tmp_path, signing_key, changes_per_hour=30, stream_rate=160, speed=0.25) as client:
            read(client, 2, body | {"parts": [2]})
        # sixteen in a second of this slow clock
        assert (rates, round(max(slept), 1)) == ([16], 0.2)

    def test_faults_end_cut_and_stall(self, streams):
        faults, body = streams.sandbox.faults, {"since": text(NOW - KEPT)}
        faults.add("/v2/articles", kind="end", after=3)
        with stream(streams, body) as answer:
            assert len([json.loads(line) for line in answer.iter_lines()]) == 3
        faults.add("/v2/articles", kind="cut", where="api", after=2_000)
        with stream(streams, body) as answer:
            received: list[bytes] = []
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                received.extend(answer.iter_content(None))
            assert len(b"".join(received)) == 2_000
        faults.add("/v2/articles", kind="stall", after=2)
        with stream(streams, body) as answer:
            lines = answer.iter_lines()
            next(lines), next(lines)
        stalled = _Stall({"after": 0}, None)
        stalled.start(None, 0)
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(stalled.piece(b"", more=True), 0.01))

    def test_the_end_of_the_sandbox_is_the_end_of_the_body(self, tmp_path, signing_key):
        with small_sandbox(tmp_path, signing_key) as client, stream(client, {"since": text(NOW - KEPT)}) as answer:
            lines = answer.iter_lines()
            next(lines)
            client.sandbox.close()
            # without an error: whole lines, then the end
            assert all(json.loads(line) for line in lines)


def test_what_is_not_due_is_waited_for_as_long_as_the_clock_needs():
    waiting = Mock(_clock=Clock(speed=100))
    reader = Mock(due=lambda _: iter(()), next_at=lambda: micros(waiting._clock.now()) + 1_000_000)
    assert Streaming._due(waiting, reader) is None
    assert Streaming._pause(waiting, reader) <= 0.01
    # a stream that ends before its first message has a head, too
    asyncio.run(Streaming.stream_response(MagicMock(), send := AsyncMock()))
    assert [sent.args[0]["type"] for sent in send.call_args_list] == ["http.response.start", "http.response.body"]


def test_a_clock_may_run_faster_and_does_not_go_back_at_the_next_start(tmp_path, signing_key):
    clock, real = Clock(speed=60, since=NOW), datetime.now(NOW.tzinfo)
    assert clock.now() >= NOW + 60 * (real - NOW)
    clock.advance(timedelta(hours=1))
    assert clock.now() >= NOW + 60 * (real - NOW) + timedelta(hours=1)
    seen = []
    for _ in range(2):
        with small_sandbox(tmp_path, signing_key, now=None, speed=360) as client:
            seen.append(client.sandbox.clock.now())
    assert seen[0] < seen[1]
    assert [path.name for path in tmp_path.rglob("running-at-*")] == ["running-at-360"]
