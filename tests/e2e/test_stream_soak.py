"""`wme stream` through everything at once.

There are cuts, SIGKILLs, a sandbox that begins anew, a full disk, and a clock that is set back. Each event of the
service is in the lake once at the end, and `articles_live` is the truth.
"""

import random
import re
import select
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.sandbox import Sandbox, Settings, running
from resources.sandbox.world.world import micros
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import PATIENCE_SECONDS, WME, Account, bare
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


class House:
    """A sandbox that can begin anew at the same addresses, with the same world."""

    def __init__(self, settings):
        self._settings = settings
        self._stack = ExitStack()
        self.sandbox: Sandbox = self._stack.enter_context(running(settings))

    def begin_anew(self):
        world = self.sandbox.world
        urls = self.sandbox.url, self.sandbox.object_url, self.sandbox.realtime_url
        ports = dict(
            zip(("port", "object_port", "realtime_port"), (int(url.split(":")[-1]) for url in urls), strict=True)
        )
        self._stack.close()
        settings = self._settings.model_copy(update={"now": self.sandbox.clock.now(), **ports})
        self.sandbox = self._stack.enter_context(running(settings, world=world))
        assert (self.sandbox.url, self.sandbox.object_url, self.sandbox.realtime_url) == urls

    def close(self):
        self._stack.close()


class Siege:
    """One data folder whose stream is kept by one process after another.

    `kept`: events that were told; kills leave some untold.
    """

    def __init__(self, house, data, runner, chance, options):
        self.house, self.data, self._runner, self._chance, self._options = house, lay(data), runner, chance, options
        house.sandbox.accounts.create("listener", "Passw0rd-listener", groups=["group_3"])
        account = Account(house.sandbox, "listener", "Passw0rd-listener")
        settings = house.sandbox.settings
        more = {"WME_PROJECTS": ",".join(settings.projects), "WME_NAMESPACES": ",".join(map(str, settings.namespaces))}
        self.environ = bare() | account.environ(data, **more)
        self.lake = lambda: LiveLake(Layout(data), "live_changes", ARTICLE_CHANGES)
        self.clock_is_back = False
        self.kept = self.hits = self.lives = 0
        self._ends: dict[datetime, dict[int, int]] = {}
        self._process: Any = None

    def begin(self):
        """Start `wme stream`."""
        # once set back it is put right, and set back again
        text = SET_BACK if self.clock_is_back and self._chance.random() < 0.5 else WME
        self._process = self._runner.program(text, "stream", *self._options, environ=self.environ)
        self.lives += 1

    def cut(self, count):
        """Let so many of the coming connections be cut, or end."""
        for _ in range(count):
            kind, unit = self._chance.choice([("cut", 1), ("cut", 1), ("end", 1_000)])
            after = self._chance.randint(1, 60_000) // unit
            self.house.sandbox.faults.add(STREAM, kind=kind, where="api", after=after)

    def listen(self, until):
        """Read what it says until so many events were told, or all that have happened are kept."""
        while self.kept < until and not self.is_whole():
            line = self._process.stdout.readline()
            assert " stored" in line, (line, self._process.communicate(timeout=PATIENCE_SECONDS))
            self.kept += int(line.split()[1].replace(",", ""))

    def kill(self):
        """End it with SIGKILL, at a drawn moment of a step."""
        select.select([self._process._told], [], [], self._chance.random() * 0.5)
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE_SECONDS)
        assert self._process.returncode == -signal.SIGKILL

    def begin_service_anew(self):
        self.hits += sum(fault.hits for fault in self.house.sandbox.faults.active())
        left = sum(fault.remaining or 0 for fault in self.house.sandbox.faults.active())
        self.house.begin_anew()
        self.cut(left)

    def fill_disk(self, disk, moment):
        """Let the disk be full when more happens, until `moment`: it ends with a sentence. Then make room.

        It stays full: a publication that ends meanwhile makes room by what it had put on disk, perhaps enough for all
        that is to come.
        """
        with (disk / "ballast").open("wb", buffering=0) as ballast, ThreadPoolExecutor(1) as pool:
            _fill(ballast)
            self.house.sandbox.clock.set(moment)
            ended = pool.submit(self._process.communicate, timeout=PATIENCE_SECONDS)
            while not wait([ended], 0.05).done:
                _fill(ballast)
        _, said = ended.result()
        (disk / "ballast").unlink()
        assert self._process.returncode == 1
        assert "Traceback" not in said, said
        assert re.search(r"[Dd]isk is full|No space left", said), said

    def finish(self):
        """Listen until everything is there, and end it."""
        self.listen(sys.maxsize)
        self._process.send_signal(signal.SIGTERM)
        _, said = self._process.communicate(timeout=PATIENCE_SECONDS)
        assert "Committed work is kept" in said
        self.hits += sum(fault.hits for fault in self.house.sandbox.faults.active())

    def is_whole(self):
        """Whether every event that has happened is kept."""
        last = self.lake().last()
        if last is None or last.number == 1:
            return False
        now = self.house.sandbox.clock.now()
        if now not in self._ends:
            self._ends[now] = {place: offset + 1 for place, offset, _ in sorted(self.truth(last.since))}
        return all(last.offsets.get(place, 0) >= end for place, end in self._ends[now].items())

    def truth(self, since):
        """Partition, offset and page of all events since then."""
        topic, now = self.house.sandbox.topics["article"], self.house.sandbox.clock.now()
        begun = micros(since) // 1_000 * 1_000  # the client asks by the millisecond
        return {
            (event.partition or 0, event.offset or 0, event.state.identifier)
            for hour in range(begun // _HOUR, micros(now) // _HOUR + 1)
            for event in topic.hour(hour)
            if begun <= event.published <= micros(now)
        }


def _fill(ballast):
    with suppress(OSError):
        while True:
            ballast.write(bytes(4096))


def check(tmp_path, runner, disk, seed, *, events, hours, cuts, kills, restarts, every, pace):
    chance = random.Random(seed)
    settings = Settings(
        state=tmp_path / "sandbox",
        seed=seed,
        # it stands still, so that there is a last event; the clocks of the clients run
        now=datetime.now(UTC).replace(microsecond=0),
        projects=("enwiki", "frwiki"),
        namespaces=(0,),
        changes_per_hour=events // hours // 2,
        body_bytes=200,
        entities=0,
        # else everything has come before anything happens
        stream_rate=pace,
    )
    options = ("--since", str(hours), "--every", str(every))
    with closing(House(settings)) as house:
        siege = Siege(house, disk / "data", runner, chance, options)
        warehouse = Warehouse(siege.data)
        warehouse.publish()
        deeds = ["kill"] * kills + ["restart"] * restarts + ["fill", "set back"]
        chance.shuffle(deeds)
        shares = sorted(chance.uniform(0.02, 0.7) for _ in deeds)
        # so much has happened before each of them, and after the last: however fast it is kept, there is always more to
        # come
        happened = [settings.now - timedelta(hours=hours) * (1 - share) for share in (*shares[1:], 0.8, 1)]
        # each process has some from its beginning
        each = cuts // (kills + 3)
        siege.cut(cuts - (kills + 2) * each)
        house.sandbox.clock.set(happened[0])
        siege.begin()
        for deed, share, moment in zip(deeds, shares, happened[1:], strict=True):
            siege.listen(int(share * events))
            if deed == "fill":
                siege.fill_disk(disk, moment)
            elif deed == "restart":
                siege.begin_service_anew()
            else:
                siege.kill()
            house.sandbox.clock.set(moment)
            if deed != "restart":
                siege.clock_is_back |= deed == "set back"
                siege.cut(each)
                siege.begin()
        siege.finish()
        assert siege.hits == cuts
        files = [str(path) for path in siege.lake().files()]
        asked = "SELECT event_partition, event_offset, article_id FROM read_parquet(?, hive_partitioning := false)"
        found = duckdb.execute(asked, [files]).fetchall()
        since = siege.lake().begin(settings.now, settings.now).since
        wanted = siege.truth(since)
        assert len(wanted) > 0.9 * events
        assert len(found) == len(set(found))
        assert set(found) == wanted
        truth = Truth(house.sandbox.world, settings.projects, settings.namespaces)
        with Published(warehouse) as published:
            places = {"event_partition": None, "event_offset": None}
            rows = {key: row | places for key, row in published.rows("articles_live").items()}
            assert_same(rows, truth.at(lambda _project: settings.now, since=since))
        opened = sum(request.path == STREAM for request in house.sandbox.requests)
        told = (
            f"{len(found):,} events in {len(files)} files, {siege.lives} lives, {siege.hits} cuts, "
            f"{opened} connections since the last restart"
        )
        sys.stdout.write(f"\nseed {seed}: {told}; {len(rows):,} pages are the truth.\n")
        return siege


FEW = {"events": 1_200, "hours": 3, "cuts": 25, "kills": 2, "restarts": 1, "every": 0.2, "pace": 400}
MANY = {"events": 200_000, "hours": 40, "cuts": 200, "kills": 19, "restarts": 5, "every": 0.5, "pace": 3_000}


@pytest.mark.parametrize(
    ("size", "seed", "many"),
    [("200m", 1, FEW), pytest.param("3g", 2, MANY, marks=pytest.mark.soak)],
    ids=["few", "many"],
)
def test_every_event_is_kept_once_and_pages_are_the_truth(tmp_path, runner, mounted, size, seed, many):
    check(tmp_path, runner, mounted(f"size={size}"), seed, **many)
