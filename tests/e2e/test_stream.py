"""`wme stream` as its user runs it, and through everything at once.

There are cuts, SIGKILLs, a sandbox that begins anew, a full disk, and a clock that is set back. Each event of the
service is in the lake once at the end, and `articles_live` is the truth.
"""

import random
import re
import select
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import duckdb
import pyarrow.dataset as ds
import pytest

from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.sandbox import Settings, running
from resources.sandbox.world.world import micros
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import WME, Account
from tests.e2e.programs import PATIENCE_SECONDS, bare
from tests.truth import Published, Truth, assert_same

STREAM = "/v2/articles"
_HOUR = 3_600_000_000
#: `wme` on a machine whose clock was set back by an hour.
SET_BACK = f"""
import datetime
from pipelines.cli import serve

class Back(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) - datetime.timedelta(hours=1)

serve.datetime = Back
{WME}
"""


def lake_of(data):
    return LiveLake(Layout(data), "live_changes", ARTICLE_CHANGES)


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    state = tmp_path_factory.mktemp("sandbox")
    small = {"changes_per_hour": 150, "body_bytes": 300, "entities": 0, "stream_rate": 150}
    with running(Settings(state=state, projects=("enwiki", "frwiki"), namespaces=(0, 14), **small)) as sandbox:
        sandbox.accounts.create("listener", "Passw0rd-listener", groups=["group_3"])
        yield Account(sandbox, "listener", "Passw0rd-listener")


def test_one_process_keeps_a_stream_and_it_ends_when_it_shall(forked, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="frwiki", WME_NAMESPACES="0,14")
    first = forked("stream", "--since", "1", "--every", "0.1", environ=environ)
    assert " stored" in first.stdout.readline()
    second = forked("stream", environ=environ)
    _, said = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 1
    assert said.strip().endswith("Nothing was changed. To read the stream here, end the other process first.")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE_SECONDS)
    third = forked("stream", "--for", "0.5", environ=environ)
    told, _ = third.communicate(timeout=PATIENCE_SECONDS)
    assert third.returncode == 0
    assert told.splitlines()[-1].endswith("The next run resumes at the next event.")
    account.sandbox.faults.add(path=STREAM, kind="html", count=None)
    fourth = forked("stream", "--for", "2", environ=environ)
    told = fourth.communicate(timeout=PATIENCE_SECONDS)
    account.sandbox.faults.clear()
    assert (fourth.returncode, "No connection to the stream could be opened for" in told[1]) == (1, True)
    # of the service's projects, those that are mirrored
    rows = ds.dataset([str(path) for path in lake_of(tmp_path).files()]).to_table(columns=["project_id"])
    assert set(rows["project_id"].to_pylist()) == {"frwiki"}


def test_a_stream_that_was_not_read_for_two_days_says_what_may_be_missing(call, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="frwiki", WME_NAMESPACES="0")
    now = account.sandbox.clock.now()
    lake_of(tmp_path).begin(now - timedelta(hours=49), now)
    told = call("stream", "--for", "0.1", environ=environ).done()
    assert "and the service no longer retains the next events" in told.err


class Siege(ExitStack):
    """One data folder whose stream is kept by one process after another, from a sandbox that can begin anew.

    `kept`: events that were told; kills leave some untold. `hits`: cuts that were met.
    """

    def __init__(self, settings, data, runner, chance, options):
        super().__init__()
        self._settings, self.sandbox = settings, self.enter_context(running(settings))
        self.data, self._runner, self._chance, self._options = lay(data), runner, chance, options
        self.sandbox.accounts.create("listener", "Passw0rd-listener", groups=["group_3"])
        account = Account(self.sandbox, "listener", "Passw0rd-listener")
        more = {"WME_PROJECTS": ",".join(settings.projects), "WME_NAMESPACES": ",".join(map(str, settings.namespaces))}
        self.environ = bare() | account.environ(data, **more)
        self.lake = lambda: lake_of(data)
        self.clock_is_back = False
        self.kept = self.hits = 0
        self._ends, self._process = {}, None

    def begin(self):
        # once set back it is put right, and set back again
        text = SET_BACK if self.clock_is_back and self._chance.random() < 0.5 else WME
        self._process = self._runner.program(text, "stream", *self._options, environ=self.environ)

    def cut(self, count):
        """Let so many of the coming connections be cut, or end."""
        for _ in range(count):
            kind, unit = self._chance.choice([("cut", 1), ("cut", 1), ("end", 1_000)])
            after = self._chance.randint(1, 60_000) // unit
            self.sandbox.faults.add(STREAM, kind=kind, where="api", after=after)

    def listen(self, until):
        """Read what it says until so many events were told, or all that have happened are kept."""
        while self.kept < until and not self.is_whole():
            line = self._process.stdout.readline()
            assert " stored" in line, (line, self._process.communicate(timeout=PATIENCE_SECONDS))
            self.kept += int(line.split()[1].replace(",", ""))

    def kill(self):
        """End it with SIGKILL, at a drawn moment of a step."""
        select.select([self._process.told], [], [], self._chance.random() * 0.5)
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE_SECONDS)
        assert self._process.returncode == -signal.SIGKILL

    def begin_service_anew(self):
        """Let another sandbox take its place, at the same addresses, with the same world and the cuts to come."""
        self.count_hits()
        left = sum(fault.remaining or 0 for fault in self.sandbox.faults.active())
        world, now = self.sandbox.world, self.sandbox.clock.now()
        urls = self.sandbox.url, self.sandbox.object_url, self.sandbox.realtime_url
        names = ("port", "object_port", "realtime_port")
        ports = {name: int(url.rpartition(":")[2]) for name, url in zip(names, urls, strict=True)}
        self.close()
        settings = self._settings.model_copy(update={"now": now, **ports})
        self.sandbox = self.enter_context(running(settings, world=world))
        assert (self.sandbox.url, self.sandbox.object_url, self.sandbox.realtime_url) == urls
        self.cut(left)

    def count_hits(self):
        self.hits += sum(fault.hits for fault in self.sandbox.faults.active())

    def fill_disk(self, disk, moment):
        """Let the disk be full when more happens, until `moment`: it ends with a sentence. Then make room.

        It stays full: a publication that ends meanwhile makes room by what it had put on disk, perhaps enough for all
        that is to come.
        """
        with (disk / "ballast").open("wb", buffering=0) as ballast, ThreadPoolExecutor(1) as pool:
            _fill(ballast)
            self.sandbox.clock.set(moment)
            ended = pool.submit(self._process.communicate, timeout=PATIENCE_SECONDS)
            while not wait([ended], 0.05).done:
                _fill(ballast)
        _, said = ended.result()
        (disk / "ballast").unlink()
        assert self._process.returncode == 1
        assert "Traceback" not in said, said
        assert re.search(r"[Dd]isk is full|No space left", said), said

    def finish(self):
        self.listen(sys.maxsize)
        self._process.send_signal(signal.SIGTERM)
        _, said = self._process.communicate(timeout=PATIENCE_SECONDS)
        assert "Committed work is kept" in said
        self.count_hits()

    def is_whole(self):
        last = self.lake().last()
        if last is None or last.number == 1:
            return False
        now = self.sandbox.clock.now()
        if now not in self._ends:
            self._ends[now] = {place: offset + 1 for place, offset, _ in sorted(self.truth(last.since))}
        return all(last.offsets.get(place, 0) >= end for place, end in self._ends[now].items())

    def truth(self, since):
        topic, now = self.sandbox.topics["article"], self.sandbox.clock.now()
        begun = micros(since) // 1_000 * 1_000  # the client asks by the millisecond
        events = (event for hour in range(begun // _HOUR, micros(now) // _HOUR + 1) for event in topic.hour(hour))
        happened = (event for event in events if begun <= event.published <= micros(now))
        return {(event.partition or 0, event.offset or 0, event.state.identifier) for event in happened}


def _fill(ballast):
    with suppress(OSError):
        while True:
            ballast.write(bytes(4096))


FEW = SimpleNamespace(events=1_200, hours=3, cuts=25, kills=2, restarts=1, every=0.2, pace=400)
MANY = SimpleNamespace(events=200_000, hours=40, cuts=200, kills=19, restarts=5, every=0.5, pace=3_000)


@pytest.mark.parametrize(
    ("size", "seed", "many"),
    [("200m", 1, FEW), pytest.param("3g", 2, MANY, marks=pytest.mark.soak)],
    ids=["few", "many"],
)
def test_every_event_is_kept_once_and_pages_are_the_truth(tmp_path, runner, mounted, size, seed, many):
    disk, chance = mounted(f"size={size}"), random.Random(seed)
    small = {"namespaces": (0,), "changes_per_hour": many.events // many.hours // 2, "body_bytes": 200, "entities": 0}
    small["stream_rate"] = many.pace  # else everything has come before anything happens
    # it stands still, so that there is a last event; the clocks of the clients run
    now = datetime.now(UTC).replace(microsecond=0)
    settings = Settings(state=tmp_path / "sandbox", seed=seed, now=now, projects=("enwiki", "frwiki"), **small)
    options = ("--since", str(many.hours), "--every", str(many.every))
    with Siege(settings, disk / "data", runner, chance, options) as siege:
        warehouse = Warehouse(siege.data)
        warehouse.publish()
        deeds = ["kill"] * many.kills + ["restart"] * many.restarts + ["fill", "set back"]
        chance.shuffle(deeds)
        shares = sorted(chance.uniform(0.02, 0.7) for _ in deeds)
        # so much has happened before each of them, and after the last: however fast it is kept, there is always more to
        # come
        happened = [settings.now - timedelta(hours=many.hours) * (1 - share) for share in (*shares[1:], 0.8, 1)]
        # each process has some from its beginning
        each = many.cuts // (many.kills + 3)
        siege.cut(many.cuts - (many.kills + 2) * each)
        siege.sandbox.clock.set(happened[0])
        siege.begin()
        for deed, share, moment in zip(deeds, shares, happened[1:], strict=True):
            siege.listen(int(share * many.events))
            if deed == "fill":
                siege.fill_disk(disk, moment)
            elif deed == "restart":
                siege.begin_service_anew()
            else:
                siege.kill()
            siege.sandbox.clock.set(moment)
            if deed != "restart":
                siege.clock_is_back |= deed == "set back"
                siege.cut(each)
                siege.begin()
        siege.finish()
        assert siege.hits == many.cuts
        files = [str(path) for path in siege.lake().files()]
        asked = "SELECT event_partition, event_offset, article_id FROM read_parquet(?, hive_partitioning := false)"
        found = duckdb.execute(asked, [files]).fetchall()
        since = siege.lake().begin(settings.now, settings.now).since
        wanted = siege.truth(since)
        assert len(wanted) > 0.9 * many.events
        assert (len(found), set(found)) == (len(set(found)), wanted)
        truth = Truth(siege.sandbox.world, settings.projects, settings.namespaces)
        with Published(warehouse) as published:
            places = {"event_partition": None, "event_offset": None}
            rows = {key: row | places for key, row in published.rows("articles_live").items()}
            assert_same(rows, truth.at(lambda _project: settings.now, since=since))
