"""`wme stream`, killed, cut off and asked to end: every event is in the lake once."""

from __future__ import annotations

import itertools
import random
import signal
from collections import Counter
from datetime import timedelta

import pyarrow.dataset as ds
import pytest

from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.sandbox import Settings, running
from resources.sandbox.store.topics import hour_of
from resources.sandbox.world.world import micros
from resources.tables import ARTICLE_CHANGES
from tests.e2e.conftest import PATIENCE_SECONDS, WME, Account, bare


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    state = tmp_path_factory.mktemp("sandbox")
    small = {
        "projects": ("enwiki", "frwiki"),
        "namespaces": (0, 14),
        "changes_per_hour": 150,
        "body_bytes": 300,
        "entities": 0,
    }
    with running(Settings(state=state, stream_rate=150, **small)) as sandbox:
        sandbox.accounts.create("listener", "Passw0rd-listener", groups=["group_3"])
        yield Account(sandbox, "listener", "Passw0rd-listener")


@pytest.fixture
def wme(runner):
    """Starts `wme` from a process that has everything imported."""
    return lambda *words, environ: runner.program(WME, *words, environ=bare() | environ)


def truth(sandbox, since, offsets, project, namespace):
    """Partition, offset and identifier of the events that were published since then and before these offsets."""
    topic = sandbox.topics["article"]
    begun = micros(since) // 1_000 * 1_000
    hours = range(begun // 3_600_000_000, max(map(hour_of, offsets.values())) + 1)
    return {
        (event.partition, event.offset, event.state.identifier)
        for hour in hours
        for event in topic.hour(hour)
        if event.published >= begun
        and event.offset < offsets.get(event.partition, 0)
        and (event.project, event.title.namespace) == (project, namespace)
    }


def test_every_event_is_kept_once_whatever_ends(wme, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="enwiki", WME_NAMESPACES="0")
    chance = random.Random(3)
    faults = account.sandbox.faults
    for _ in range(12):
        kind, unit = chance.choice([("cut", 1_000), ("end", 1)])
        faults.add("/v2/articles", kind=kind, where="api", after=chance.randint(1, 40) * unit)
    lake = LiveLake(Layout(tmp_path), "live_changes", ARTICLE_CHANGES)
    endings = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)

    def kept():
        return ds.dataset([str(path) for path in lake.files()])

    # how many connections one needs, and what they bring, depends on the machine: it goes on until there was enough of
    # both
    for number, ending in enumerate(itertools.chain(endings, itertools.repeat(signal.SIGINT, 25))):
        enough = number >= len(endings) and sum(fault.hits for fault in faults.active()) >= 10
        if enough and kept().count_rows() > 100:
            break
        process = wme("stream", "--since", "3", "--every", "0.2", environ=environ)
        for _ in range(chance.randint(1, 3)):
            assert " kept" in process.stdout.readline()
        process.send_signal(ending)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        if ending != signal.SIGKILL:
            assert process.returncode == 128 + ending
            assert "What was committed stays" in said
    assert sum(fault.hits for fault in faults.active()) >= 10
    last = lake.last()
    rows = kept().to_table()
    columns = (rows[name].to_pylist() for name in ("event_partition", "event_offset", "article_id"))
    found = Counter(zip(*columns, strict=True))
    assert set(found.values()) == {1}
    assert set(found) == truth(account.sandbox, last.since, last.offsets, "enwiki", 0)
    assert len(found) > 100
    assert set(rows["project_id"].to_pylist()) == {"enwiki"}
    assert not list(tmp_path.rglob("*.unfinished")) or ending == signal.SIGKILL


def test_one_process_keeps_a_stream_and_it_ends_when_it_shall(wme, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="frwiki", WME_NAMESPACES="0,14")
    first = wme("stream", "--since", "1", "--every", "0.1", environ=environ)
    assert " kept" in first.stdout.readline()
    second = wme("stream", environ=environ)
    _, said = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 1
    assert said.strip().endswith("Nothing was changed. End it first, or let it do its work.")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE_SECONDS)
    third = wme("stream", "--for", "0.5", environ=environ)
    told, _ = third.communicate(timeout=PATIENCE_SECONDS)
    assert third.returncode == 0
    assert told.splitlines()[-1].endswith("The same command goes on from there.")


def test_a_stream_that_was_not_read_for_two_days_says_what_may_be_missing(call, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="frwiki", WME_NAMESPACES="0")
    now = account.sandbox.clock.now()
    LiveLake(Layout(tmp_path), "live_changes", ARTICLE_CHANGES).begin(now - timedelta(hours=49), now)
    told = call("stream", "--for", "0.1", environ=environ)
    assert told.code == 0, told.err
    assert "which is longer than the service keeps events" in told.err
