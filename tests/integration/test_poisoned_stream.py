"""Poisoned sequences of a stream over HTTP, in every form in which an answer may come, and cut anywhere."""

import random
import shutil
import threading
from collections import Counter
from datetime import datetime, timedelta

import pyarrow.dataset as ds
import pytest

from assets.steps.stream import keep
from resources.enterprise import EnterpriseClient, RetryPolicy, StreamOptions
from resources.enterprise.stream import partitions_of
from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.tables import ARTICLE_CHANGES
from tests.unit.enterprise.fake_service import FakeService
from tests.unit.enterprise.loopback import Reply, error_reply
from tests.unit.lake.poisoned import NOW, SCOPE, Service, event, line_of

STREAM = "/v2/articles"
SAMPLE, ALL = 1, 60
#: Answers of a run, over all connections, and those at the end that bring the rest.
ANSWERS, LAST = 18, 6
#: A connection that ended waits long enough for a step, or the same events would come many times.
RETRY = RetryPolicy(retries=1, first_wait=0.1, longest_wait=0.1, connect_timeout=60, read_timeout=60)


class Streaming:
    """Answers a request for a stream with what the log has from the offsets on, and lets the log grow."""

    def __init__(self, chance):
        self.chance = chance
        self.service = Service(chance)
        self.answers = 0
        self.is_quiet = False
        self._lock = threading.Lock()

    def __call__(self, request, _reply):
        if request.path != STREAM:
            return None
        with self._lock:
            self.answers += 1
            if self.is_quiet:
                return Reply(body=self._body(request), chunked=True)
            self.service.publish(self.chance.randint(0, 15))
            body = self._body(request)
            cut = self.chance.choice((None, self.chance.randint(0, len(body))))
            kind = self.chance.choice(("chunked", "length", "closed", "refused"))
            if kind == "refused":
                status = self.chance.choice((429, 503))
                headers = {"Retry-After": self.chance.choice(("0", "x", "-3"))}
                return Reply(status, error_reply(status, "busy").body, headers)
            if kind == "closed":
                return Reply(raw=lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body[:cut]))
            return Reply(body=body, chunked=kind == "chunked", cut=cut)

    def _body(self, request):
        asked = request.json
        wanted = set(partitions_of(asked["parts"]))
        assert request.headers["accept"] == "application/x-ndjson"
        offsets, chosen = asked.get("offsets", {}), (one for one in self.service.logs if one in wanted)
        sent = (self.service.sent(partition, offsets.get(str(partition))) for partition in chosen)
        return b"".join(entry.line + b"\n" for entries in sent for entry in entries)


def listen(client, folder, ended, *, connections, now=NOW):
    """Keep the stream until `ended` of its steps; returns the steps."""
    steps = []
    lake = LiveLake(Layout(folder), "live_changes", ARTICLE_CHANGES, scope=SCOPE)
    how = {"ended": lambda: ended(steps), "say": lambda step, _: steps.append(step), "warn": pytest.fail}
    how |= {"options": StreamOptions(connections=connections), "step_seconds": 0.01}
    keep(client, lake, folder / "state", since=NOW, clock=lambda: now, **how)
    return steps


def play(folder, seed):
    streaming = Streaming(random.Random(seed))

    def listen_for(client, answers):
        until = streaming.answers + answers
        return listen(client, folder, lambda _: streaming.answers >= until, connections=2)

    with FakeService(lambda: NOW) as fake:
        fake.hostile = streaming
        with EnterpriseClient(fake.service(), folder / "client", clock=lambda: NOW, retry=RETRY) as client:
            steps = [step for _ in range(3) for step in listen_for(client, ANSWERS // 3)]  # one process after another
            streaming.is_quiet = True
            steps += listen_for(client, LAST)
    names = ["event_partition", "event_offset", "event_id"]
    lake = LiveLake(Layout(folder), "live_changes", ARTICLE_CHANGES, scope=SCOPE)
    found = ds.dataset([str(path) for path in lake.files()]).to_table(names)
    stored = Counter(zip(*(found[name].to_pylist() for name in names), strict=True))
    assert max(stored.values()) == 1
    service = streaming.service
    assert set(stored) <= {entry.good for logs in service.logs.values() for log in logs for entry in log if entry.good}
    for partition, logs in service.logs.items():
        if not service.switched[partition]:
            assert {entry.good for entry in logs[0] if entry.good} <= set(stored)
    assert sum(step.row_count for step in steps) == len(stored)
    return Counter(events=len(stored), answers=streaming.answers, rejects=sum(step.reject_count for step in steps))


def test_a_sample_of_poisoned_sequences_over_http(tmp_path):
    for seed in range(SAMPLE):
        assert play(tmp_path / str(seed), seed)["rejects"]


@pytest.mark.soak
def test_poisoned_sequences_over_http(tmp_path):
    for seed in range(SAMPLE, ALL):
        play(tmp_path / str(seed), seed)
        shutil.rmtree(tmp_path / str(seed))


def test_what_was_numbered_anew_while_nobody_listened_is_read_by_moments(tmp_path, caplog):
    """For an offset that a partition has not reached, the service sends what comes from now on."""

    def entries(first, count, of, minutes):
        moments = [NOW + timedelta(minutes=minutes, seconds=number) for number in range(count)]
        return [(first + n, at, line_of(event(3, first + n, f"{of}-{n}", at)) + b"\n") for n, at in enumerate(moments)]

    def answer(request, _reply):
        if request.path != STREAM:
            return None
        offset = request.json.get("offsets", {}).get("3")
        moment = request.json.get("since_per_partition", {}).get("3")
        since = None if moment is None else datetime.fromisoformat(moment)
        if offset is not None and offset > log[-1][0] + 1:
            found = log[-1:]
        else:
            found = [one for one in log if (one[0] >= offset if since is None else one[1] >= since)]
        return Reply(body=b"".join(line for _, _, line in found), chunked=True)

    def listen_until(count):
        return listen(client, tmp_path, lambda of: sum(one.row_count for one in of) >= count, connections=1, now=now)

    now = NOW + timedelta(hours=1)
    with FakeService(lambda: now) as fake:
        fake.hostile = answer
        with EnterpriseClient(fake.service(), tmp_path / "client", clock=lambda: now, retry=RETRY) as client:
            log = entries(5_000, 10, "old", 1)
            listen_until(10)
            log = entries(0, 20, "new", 2)
            steps = listen_until(20)
    assert sum(one.reset_count for one in steps) >= 1
    assert "The offsets of stream partition 3 went back from 5,010 to 19." in caplog.text
