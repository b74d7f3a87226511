"""The streams as a client reads them: positions, connections and their ends, and what waits in memory."""

import json
import threading
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from resources.enterprise import RetryPolicy
from resources.enterprise.download.object_reader import WORTH
from resources.enterprise.errors import AuthenticationError, InvalidRequest, ServiceUnavailable
from resources.enterprise.query import Query
from resources.enterprise.stream import Positions, StreamOptions, partitions_of, shares
from resources.enterprise.stream_connection import Connection, Inbox, Records
from tests.unit.enterprise.conftest import QUICK
from tests.unit.enterprise.loopback import Reply, error_reply, html_reply

NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
STREAM = "/v2/articles"


def event(partition, offset, **more):
    return {"name": f"Page {offset}", "event": {"partition": partition, "offset": offset}} | more


def lines(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


class TestPositions:
    def test_a_body_has_an_offset_or_a_moment_of_each_partition(self):
        positions = Positions(NOW, {5: 17, 40: 3})
        # a partition may go back, as when the service numbers its events anew
        positions.committed({6: 8, 5: 12}, {5: NOW + timedelta(hours=2)})
        positions.committed({}, {7: NOW + timedelta(minutes=30)})
        begin = "2025-03-09T07:30:00.000Z"
        assert positions.body((1,)) == {
            "parts": [1], "offsets": {"5": 12, "6": 8}, "since_per_partition": dict.fromkeys(("7", "8", "9"), begin),
        }  # fmt: skip
        # no moment is in the future, which the service refuses
        assert positions.body((1,), NOW + timedelta(hours=1), by_moment=True) == {
            "parts": [1],
            "since_per_partition": dict.fromkeys("689", begin)
            | {"5": "2025-03-09T08:30:00.000Z", "7": "2025-03-09T08:00:00.000Z"},
        }
        assert positions.body((8,), NOW - timedelta(hours=1))["since_per_partition"]["41"] == "2025-03-09T06:30:00.000Z"

    def test_shares_are_all_parts_and_what_cannot_be_is_refused(self):
        for connections in range(1, 11):
            dealt = shares(connections)
            assert len(dealt) == connections
            assert sorted(one for parts in dealt for one in partitions_of(parts)) == list(range(50))
        with pytest.raises(InvalidRequest, match="10 parts"):
            shares(11)
        with pytest.raises(InvalidRequest, match="no time zone"):
            Positions(NOW.replace(tzinfo=None), {})
        with pytest.raises(InvalidRequest, match="partition 50 does not exist"):
            Positions(NOW, {50: 1})


class TestInbox:
    def test_what_waits_is_bounded_and_given_in_order(self):
        inbox = Inbox(100)
        thread = threading.Thread(target=lambda: [inbox.put(b"%02d" % number * 10) for number in range(50)])
        thread.start()
        taken, most = b"", 0
        while len(taken) < 1_000:
            waiting = b"".join(inbox.take(120))
            most = max(most, len(waiting))
            taken += waiting
        thread.join()
        assert taken == b"".join(b"%02d" % number * 10 for number in range(50))
        # one piece more than there is room for
        assert most <= 100 + 20

    def test_nobody_waits_for_room_once_it_is_closed_and_a_failure_comes_behind_what_came_before_it(self):
        inbox = Inbox(1)
        assert inbox.put(b"full")
        thread = threading.Thread(target=lambda: inbox.put(b"more"))
        thread.start()
        inbox.fail(ValueError("first"))
        inbox.fail(ValueError("second"))
        inbox.close()
        thread.join(120)
        assert not thread.is_alive()
        assert (inbox.take(0), inbox.put(b"more")) == ([b"full"], False)
        with pytest.raises(ValueError, match="first"):
            inbox.take(0)


def first(stream, count):
    return list(islice(stream.records(), count))


#: Against a server that answers as it is told.
ONE = StreamOptions(connections=1)


class TestRefusalsAndEnds:
    def test_a_token_that_is_refused_is_renewed_and_an_account_is_not(self, fake, make_client):
        auth, stream = (fake.url.replace("127.0.0.1", name) for name in ("localhost", "127.1"))  # each host is another
        client = make_client(auth_url=auth, realtime_url=stream, allow_http=True)
        with make_client(password="wrong").stream(options=ONE) as stream, pytest.raises(AuthenticationError):
            first(stream, 1)
        fake.script(STREAM, error_reply(401, "expired"), Reply(body=lines(event(0, 1)), chunked=True))
        with client.stream(options=ONE) as stream:
            assert first(stream, 1) == [event(0, 1)]
        assert len({request.headers["authorization"] for request in fake.api.seen(STREAM)}) == 2

    def test_what_may_pass_is_tried_again_behind_what_was_committed(self, fake, client, caplog):
        cut, silent = lines(event(3, 7), event(3, 8)), threading.Event()
        fake.script(
            STREAM,
            error_reply(503, "busy"),
            error_reply(429, "too many"),
            html_reply(),
            Reply(drop=True),
            Reply(body=cut, chunked=True, cut=len(cut) - 5),
            # stays open: otherwise it would be opened again at once
            Reply(body=lines(event(3, 7), event(3, 8), event(3, 9)), chunked=True, cut=10_000, stall=silent),
        )
        with caplog.at_level("INFO"), client.stream(since=NOW, options=ONE) as stream:
            assert first(stream, 3) == [event(3, 7), event(3, 8), event(3, 9)]
            assert (stream.connections[0].opened, "HTML page" in caplog.text) == (6, True)
        silent.set()
        asked = [request.json for request in fake.api.seen(STREAM, "POST")]
        assert [body["parts"] for body in asked[:6]] == [list(range(10))] * 6
        assert asked[0]["since_per_partition"] == {str(n): "2025-03-09T07:30:00.000Z" for n in range(50)}
        # what was taken before the last connection was opened is known by then, or comes twice and is dropped
        assert asked[5].get("offsets", {"3": 8}) == {"3": 8}

    def test_after_long_without_a_connection_the_stream_ends(self, fake, client):
        fake.script(STREAM, *[error_reply(503, "busy")] * 500)
        told = r"Last error: Could not read the stream /v2/articles.* 503 \(busy\)"
        options = StreamOptions(connections=1, give_up_seconds=0.05)
        with client.stream(options=options) as stream, pytest.raises(ServiceUnavailable, match=told):
            first(stream, 1)

    def test_an_end_does_not_wait_for_a_silent_service_and_fields_come_with_their_event(self, fake, client):
        silent = threading.Event()
        fake.script(STREAM, *[Reply(body=lines(event(0, 1)), chunked=True, cut=10_000, stall=silent)] * 3)
        query = Query(fields=("name", "event"), filters={"is_part_of.identifier": "enwiki"})
        with client.stream(query=query, options=ONE) as stream:
            assert first(stream, 1) == [event(0, 1)]
        stream.connections[0].join(120)
        assert not stream.connections[0].is_alive()
        assert not stream._inbox.put(b"nobody takes it")
        assert fake.api.stalls_sat_out == 0
        silent.set()
        sent = fake.api.seen(STREAM)[0].json
        assert (sent["fields"], sent["filters"]) == (["name", "event", "event.*"], query.body()["filters"])
        with pytest.raises(InvalidRequest):
            client.stream(query=Query(limit=3))

    def test_a_connection_that_is_silent_while_others_are_not_is_opened_again(self, fake, client):
        silent = threading.Event()
        fake.script(
            STREAM,
            Reply(body=lines(event(0, 1)), chunked=True, cut=10_000, stall=silent),
            Reply(body=lines(event(0, 2)), chunked=True),
        )
        with client.stream(options=ONE) as stream:
            records = stream.records()
            assert next(records) == event(0, 1)
            [connection] = stream.connections
            later = connection.heard_at + 61
            connection.look(later, others_heard_at=later - 31)
            connection.look(connection.heard_at + 59, others_heard_at=later)
            assert connection.opened == 1
            connection.look(later, others_heard_at=later - 1)
            assert next(records) == event(0, 2)
        silent.set()


class TestAnswersAndRefusals:
    @pytest.mark.parametrize("header", [b"Content-Length: 100000\r\n", b"", b"Transfer-Encoding: chunked\r\n"])
    def test_events_are_there_at_once_in_whatever_form_the_answer_comes(self, fake, client, header):
        silent = threading.Event()

        def send(connection):
            body = lines(event(0, 1), event(0, 2))
            if b"chunked" in header:
                body = b"%x\r\n%s\r\n" % (len(body), body)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n" + body)
            assert silent.wait(120)

        fake.script(STREAM, Reply(raw=send))
        with client.stream(options=ONE) as stream:
            assert first(stream, 2) == [event(0, 1), event(0, 2)]
            assert stream.connections[0].opened == 1
        silent.set()

    @pytest.mark.parametrize(
        ("status", "asked", "seconds"),
        [
            (429, "120", 120), (503, "7.5", 7.5), (503, "Sun, 01 Nov 2026 06:12:00 GMT", 120),
            (429, "999999999", 300), (503, "Fri, 31 Dec 9999 23:59:59 GMT", 300), (429, "-5", 0), (429, "1e400", 0),
            (503, "Sun, 01 Nov 2020 06:12:00 GMT", 0), (503, "soon", 0),
        ],
    )  # fmt: skip
    def test_a_refusal_says_when_to_come_again(self, fake, client, monkeypatch, status, asked, seconds):
        waits, ended = [], threading.Event()

        def wait(connection, seconds):
            waits.append(seconds)
            ended.set()
            connection._ended.set()

        monkeypatch.setattr(Connection, "_pause", wait)
        refused = error_reply(status, "busy")
        fake.script(STREAM, Reply(status, refused.body, refused.headers | {"Retry-After": asked}))
        with client.stream(options=ONE):
            assert ended.wait(120)
        [found] = waits
        # at least what the connection would wait anyway
        assert seconds <= found <= seconds + QUICK.longest_wait

    def test_a_connection_that_waits_as_it_was_asked_to_is_failing(self, monkeypatch):
        connection = Connection((0,), None, Inbox(1), 1, QUICK)
        connection.failing_since, later, seen = connection.heard_at, connection.heard_at + 299, []
        monkeypatch.setattr(connection._ended, "wait", lambda _seconds: seen.append(connection.is_failing(later)))
        connection._pause(300)
        # and not open and silent, by which it would count as one that works
        assert (seen, connection.is_failing(later)) == ([True], False)
        # nor does one that waits for its turn count as silent, and it ends with the stream
        monkeypatch.setattr("resources.enterprise.stream_connection._LOOK_SECONDS", 0.001)
        connection.heard_at = 0.0
        connection.stop()
        with connection._inbox.long:
            assert (connection._wait_for_turn(), connection.heard_at > 0.0) == (False, True)

    def test_waits_grow_until_data_comes_and_silence_counts_anew(self, monkeypatch, caplog):
        busy, seen = ServiceUnavailable("Busy (503). Later."), []
        # a service that closes each connection behind a record is not asked in ever quicker turns
        results = iter([*[busy] * 4, *[[b"{}\n"]] * 2, [b"{}\n" * (WORTH // 3 + 1)], [], ["later"], []])

        def pieces(_parts, deadline, _by_moment):
            found = next(results)
            if found is busy:
                raise busy
            deadline.extend(-3_599)
            if found == ["later"]:
                connection._opened_at -= 4
                found = [b"{}\n"]
            yield from found
            assert not found or deadline.left() > 3_000, "data gives it another hour"

        def pause(connection, seconds):
            seen.append((seconds, connection.failing_since))
            connection._inbox.take(0)
            if len(seen) == 10:
                connection.stop()

        caplog.set_level("INFO")
        monkeypatch.setattr(Connection, "_pause", pause)
        monkeypatch.setattr("resources.enterprise.stream_connection.random.uniform", lambda _, most: most - 0.1)
        connection = Connection((3,), pieces, Inbox(100), 100, RetryPolicy(first_wait=1, longest_wait=4))
        silent = (61, 121, 241, 481, 961, 1921, 3601)  # after a minute of silence, then after two, and so on to an hour
        for seconds, others in ((62, 31), (61, 32), (119, 119), *((one, one) for one in silent[1:])):
            connection.look(connection.heard_at + seconds, connection.heard_at + others)
        connection.run()
        connection.look(connection.heard_at + 61, connection.heard_at + 61)
        waits, failing = zip(*seen, strict=True)
        assert waits == (0.9, 1.9, 3.9, 3.9, 3.9, 3.9, 0.9, 1.9, 0.9, 1.9)
        assert failing == (failing[0],) * 4 + (None,) * 6
        told = [line.removeprefix("Stream connection stream-3 ") for line in caplog.messages]
        assert [line for line in told if "data" in line] == [
            f"received no data for {seconds} s while others did. It is reopened." for seconds in (*silent, 61)
        ]
        assert [line.partition(". ")[0] for line in told[7:-1:4]] == ["ended (Busy (503))", "ended", "ended"]

    def test_a_stream_ends_once_all_its_connections_have_failed_for_long(self, make_client, fake, clock, monkeypatch):
        fake.api.now = lambda: clock() - timedelta(hours=1)
        fake.script(STREAM, Reply(body=lines(event(0, 1)), chunked=True))
        client = make_client(anonymous=True, username=None, password=None)
        with client.stream(options=ONE) as stream:
            assert first(stream, 1) == [event(0, 1)]
        stream = client.stream(options=StreamOptions(2, room_bytes=5, record_bytes=7, give_up_seconds=1000))
        assert (fake.api.seen("/v1/*"), stream.now) == ([], clock() - timedelta(hours=1))
        assert stream.positions.body((0,))["since_per_partition"]["0"] == "2026-11-01T05:10:00.000Z"
        one, two = stream.connections
        one.failure, two.failure = ServiceUnavailable("One.", status=503), ServiceUnavailable("Two.", status=500)
        one.opened, one.records.left_out, two.records.left_out, two.failing_since = 3, 1, 2, two.heard_at - 9999
        assert (stream.reconnect_count, stream.too_long_count, stream.take(0), stream.check()) == (2, 3, [], None)
        one.failing_since = one.heard_at - 500
        assert stream.take(0) == []
        with pytest.raises(ServiceUnavailable, match=r"for 50\d s\. Last error: One\."):
            stream.check()  # at the end of a run that no connection delivered anything in
        two.has_delivered = True
        stream.check()
        one.failing_since -= 600
        with pytest.raises(ServiceUnavailable, match=r"for 1,000 s\. Last error: One\.") as raised:
            stream.take(0)
        assert (raised.value.status, stream._inbox._room, one.records._longest) == (503, 5, 7)
        two.heard_at -= 61  # open and silent, and nobody else receives data
        assert (stream.take(0), two._silence) == ([], 60)
        stream.read_again({3: NOW})
        asked = [(one._by_moment, one._deadline._is_cancelled) for one in stream.connections]
        assert asked == [(True, True), (False, False)]
        one._pieces = lambda *_: one.read_again() or ()
        one._read()
        assert one._by_moment, "who is told while it reads does so when it reads again"
        begin = stream.positions.body((0,), by_moment=True)["since_per_partition"]
        assert (begin["3"], begin["4"]) == ("2025-03-09T07:30:00.000Z", "2026-11-01T05:10:00.000Z")
        looks: list[int] = []
        monkeypatch.setattr("resources.enterprise.stream._LOOK_SECONDS", 0.001)
        monkeypatch.setattr(stream, "_look", lambda: looks.append(1))
        assert (stream.take(0.05), len(looks) > 2) == ([], True), "it looks after its connections while it waits"

    def test_after_a_silence_it_is_asked_by_moments(self, fake, client, monkeypatch):
        """Of a topic that was numbered anew, nothing comes for offsets beyond its end."""
        monkeypatch.setattr("resources.enterprise.stream_connection._SILENT_SECONDS", -1.0)
        fake.script(STREAM, Reply(chunked=True), Reply(body=lines(event(3, 2)), chunked=True))
        with client.stream(since=NOW, offsets={3: 5_000}, options=ONE) as stream:
            stream.positions.committed({3: 5_000}, {3: NOW + timedelta(hours=1)})
            assert first(stream, 1) == [event(3, 2)]
        begin, later = (request.json for request in fake.api.seen(STREAM)[:2])
        assert begin["offsets"] == {"3": 5_000}
        assert "offsets" not in later
        assert later["since_per_partition"]["3"] == "2025-03-09T08:30:00.000Z"

    def test_lines_without_events_are_left_out_and_places_that_come_again_not(self, fake, client, caplog, monkeypatch):
        monkeypatch.setattr("resources.enterprise.stream._RECENT", 3)
        bad = [
            *(b"{", b"[]", b"17", b"\xff", b"{}", b'{"event": null}', b'{"event": []}', b"[" * 100_000),
            *(json.dumps(event(partition, 1)).encode() for partition in (50, -1, "3", 1.0, True, None)),
            *(json.dumps(event(3, offset)).encode() for offset in (2**53, -1, "3", 1.5, True, None)),
            *(lines({"event": {"identifier": one}}).strip() for one in ([], 0, False)),
        ]
        good = [event(3, 7), event(3, 8), event(3, 7), event(3, 0), event(3, 1)]
        good[2]["event"]["identifier"] = "anew"
        del good[3]["event"]["offset"]  # the service leaves out zeros
        body = b"\n".join([*bad, lines(*good[:2]), lines(*good, good[4], good[0])])
        fake.script(STREAM, Reply(body=body, chunked=True))
        with client.stream(options=ONE) as stream:
            assert first(stream, 6) == [*good, good[0]]  # so long ago that it is not remembered
            assert stream.positions.body((0,))["offsets"]["3"] == 2
        told = [message.partition(": ")[0] for message in caplog.messages]
        assert told == [f"A line of {len(one):,} bytes in the stream is not an event and was skipped" for one in bad]


class TestLongRecords:
    """A record of 64 MB over each of ten connections is not in memory ten times."""

    def test_what_comes_behind_a_record_that_is_too_long_is_kept(self, caplog):
        records = Records(10)
        pieces = (b"x" * 11, b"x\nnext\n", b"y" * 12, b"\nlast\n")
        assert [records.feed(piece) for piece in pieces] == [b"", b"next\n", b"", b"last\n"]
        told = [message.partition(" was ")[0] for message in caplog.messages]
        assert (records.left_out, told) == (2, [f"A stream record of {size} bytes" for size in (11, 12)])

    def test_one_connection_at_a_time_puts_a_long_record_together(self, monkeypatch):
        turns, go_on, wait = threading.Semaphore(0), threading.Event(), Connection._wait_for_turn
        inbox, end = Inbox(1 << 30), threading.Event()

        def pieces(_parts, _deadline, _by_moment):
            yield from [b"x" * (1 << 18)] * 8
            assert go_on.wait(120)
            yield b"x" * (4 << 20) + b"\n"
            end.wait(120)

        monkeypatch.setattr(Connection, "_wait_for_turn", lambda connection: turns.release() or wait(connection))
        connections = [Connection((part,), pieces, inbox, 64 << 20, QUICK) for part in range(10)]
        for connection in connections:
            connection.start()
        for _ in connections:
            assert turns.acquire(timeout=120)
        # each has a long record under way, and one of them has the turn
        *others, _ = sorted(one.records.size for one in connections)
        assert max(others) <= (1 << 20) + (1 << 18)
        go_on.set()
        found = []
        while len(found) < len(connections):
            found += inbox.take(120)
        for connection in connections:
            connection.stop()
        end.set()
        assert {len(one) for one in found} == {(6 << 20) + 1}

    def test_a_connection_that_breaks_off_within_a_long_record_leaves_the_turn_to_the_next(self, fake, client):
        line = lines(event(0, 1, body="x" * (3 << 20)))
        fake.script(STREAM, Reply(body=line, chunked=True, cut=2 << 20), Reply(body=line, chunked=True))
        with client.stream(options=StreamOptions(connections=1)) as stream:
            assert b"".join(stream.take(0) + stream.take(120)) == line
