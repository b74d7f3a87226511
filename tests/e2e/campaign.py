"""A campaign: hours, snapshots, compaction, publication and readers over one data folder, each killed repeatedly.

The processes' reports drive everything. A process is asked for one piece of work after the other, is killed at a random
time after it has entered a random phase, and the next begins with the next work. Readers receive one query at a time,
during a publication. Their work: tests/e2e/actors.py.
"""

import json
import select
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from tests.e2e.actors import COMPACTION_PHASES
from tests.e2e.programs import PATIENCE_SECONDS

ACTORS = "tests.e2e.actors"


class Kind:
    """One kind of process, of which one is there at a time; `stage` is what all kinds share.

    Each has `next`: a function of the processes and its arguments, or None if there is nothing to do. `wanted`: kills
    so far that are to be reached before the day ends. `stirred`: something has happened since the last piece of work
    was begun. `struck`: how likely one is to be killed while its kind is to be struck more often.
    """

    phases: tuple[str, ...] = ()
    struck = 0.8

    def __init__(self, stage):
        self.stage, self.chance, self.run = stage, stage.chance, None
        self.wanted = self.kills = self._seen = 0
        self.killed_in, self.counts = Counter(), Counter()
        self.works, self.stirred = False, True
        self.queue, self._work, self._aim, self.kill_at = [], (), "", 0.0
        # when each phase was entered, and how long it took when nobody disturbed it
        self._entered, self._seconds = {}, {}
        self.name = type(self).__name__.lower()

    @property
    def now(self):
        return self.stage.sandbox.clock.now()

    def job(self, hours=(), snapshots=()):
        # else a publication of its own has more to do
        environ = self.stage.environ | {"WME_PUBLISH": self.chance.choice(["run", "off"])}
        when, names = [hour.isoformat() for hour in hours], list(snapshots)
        request = {"environ": environ, "hours": when, "snapshots": names, "now": self.now.isoformat()}
        return "bring_in", request | {"history": False}

    def ended(self, *, killed):
        """What follows for the pieces to come."""

    def read(self, line):
        if line.startswith(("published ", "compacted ", "moved ")):
            self.counts[line] += 1

    def begin(self):
        """Begin a piece of work, in a new process where there is none, and draw whether, and where, it is struck."""
        self.stirred = False
        work = self.next()
        if work is None:
            return
        if self.run is None:
            self.run = self.start()
        self._seen, self.works = len(self.run.lines), True
        self._aim, self.kill_at = "", 0.0
        if self.kills < self.wanted and self.chance.random() < self.struck:
            self._aim = min(self.phases, key=lambda phase: (self.killed_in[phase] + 2 * self.chance.random(), phase))
        self.run.ask(json.dumps(work))

    def start(self):
        return self.stage.runner.call(ACTORS, "work")

    def listen(self):
        """Read what was reported; returns the lines."""
        seen, now = len(self.run.lines), time.monotonic()
        self.run.read(0)
        lines = self.run.lines[seen:]
        for line in lines:
            if line.startswith("> "):
                self._entered[line[2:]] = now
                if line[2:] == self._aim and not self.kill_at:
                    # a while longer than the phase takes, since the others may stop it: then it lands in the next one
                    self.kill_at = now + self.chance.random() * 1.2 * self._seconds.get(self._aim, 0.05)
            elif line.startswith("< ") and line[2:] in self._entered:
                self._seconds[line[2:]] = now - self._entered[line[2:]]
            self.read(line)
        if any(line.startswith("=") for line in lines):
            assert lines[-1] == "= []", f"{self.name}: {lines[-5:]}"
            self.works, self.kill_at = False, 0.0
            self.ended(killed=False)
        if self.run.ended:
            assert not self.works, f"{self.name}: {self.run.lines[-5:]}"
            self.run = None
        return lines

    def strike(self, *, now=False):
        """Kill it, if it is time or `now`, and note where it was; returns whether it was killed."""
        if self.run is None or not (now or (self.kill_at and time.monotonic() >= self.kill_at)):
            return False
        run, self.kill_at, self.run, seen = self.run, 0.0, None, len(self.run.lines)
        run.kill()
        for line in run.lines[seen:]:
            self.read(line)
        if not self.works:
            return False
        killed = not any(line.startswith("=") for line in run.lines[self._seen :])
        self.kills += killed
        if killed:
            self.killed_in[run.phase] += 1
        self.works, self.stirred = False, True
        self.ended(killed=killed)
        return killed


class Hours(Kind):
    """Runs over consecutive hours: shuffled, repeated, and redone after they were loaded from another world.

    `queue`: what to load and whether it is from another world. `others_go_on`: the others are not done, and hours are
    redone meanwhile.
    """

    phases = ("download", "convert", "load", "apply", "publish")

    def __init__(self, stage):
        super().__init__(stage)
        self.done, self.others_go_on = [], False

    def next(self):
        if not self.queue and (self.others_go_on or self.kills < self.wanted):
            self.queue.append(((self.chance.choice(self.done),), True))
        if not self.queue:
            return None
        self._work = hours, is_wrong = self.queue.pop(0)
        if not is_wrong:
            return self.job(hours)
        stage = self.stage
        folder = str(stage.data.with_name("other"))
        return "spoil", str(stage.data), hours[0].isoformat(), list(stage.projects), list(stage.namespaces), folder

    def ended(self, *, killed):
        hours, is_wrong = self._work
        place = self.chance.randint(0, len(self.queue))
        if killed:
            self.queue.insert(place, self._work)
        elif is_wrong:
            self.queue.insert(place, (hours, False))
        else:
            self.done += [hour for hour in hours if hour not in self.done]


class Snapshots(Kind):
    """Runs over one snapshot or some, in their newest version."""

    phases = ("download snapshot", "convert snapshot", "load snapshot", "apply", "publish")

    def next(self):
        if not self.queue and self.kills < self.wanted and self._work:
            self.queue.append(self._work)
        if not self.queue:
            return None
        self._work = self.queue.pop(0)
        return self.job(snapshots=self._work)

    def ended(self, *, killed):
        if killed:
            self.queue.insert(self.chance.randint(0, len(self.queue)), self._work)


class Compactions(Kind):
    """`wme compact`, again and again, at the moment of the service or some days later."""

    phases = tuple(phase for *_, phase in COMPACTION_PHASES)
    at = None

    def next(self):
        later = self.at or timedelta(hours=self.chance.choice([0, 0, 12, 72, 1000]))
        return "compact", self.stage.environ, (self.now + later).isoformat()


class Publications(Kind):
    """`wme publish`, again and again."""

    phases = ("publish",)

    def next(self):
        return "publish", self.stage.environ, self.now.isoformat()


class Readers(Kind):
    """One that opens the published file for each question; `states`: what all readers found, by its revision."""

    phases = ("question",)

    def __init__(self, stage, states, *, keep):
        super().__init__(stage)
        self.states, self.keep = states, keep

    def start(self):
        seed = self.chance.randint(0, 1 << 30)
        return self.stage.runner.call(ACTORS, "read", str(self.stage.data), seed, self.keep)

    def next(self):
        return ()

    def read(self, line):
        if line.startswith("found "):
            revision, *found = json.loads(line[6:])
            assert self.states.setdefault(revision, found) == found, f"revision {revision} was published in two ways"
            self.counts["answers"] += 1

    def ask(self):
        """Ask, if the last question was answered."""
        if not self.works:
            self.begin()


@dataclass
class Campaign:
    """All kinds of processes at the same time.

    `curious`: how likely a publication has readers queried as it begins, and when it is there, while others are to be
    struck. `cuts`: how likely a kill strikes all, like a power failure. `has_share`: enough was done between the kills.
    """

    hours: Hours
    snapshots: Snapshots
    compactions: Compactions
    publications: Publications
    readers: list[Readers]
    chance: Random
    curious: float
    cuts: float = 0.0
    has_share: Callable[["Campaign"], bool] = lambda _: True
    _asks_all: bool = False

    @property
    def kinds(self):
        yield from (self.hours, self.snapshots, self.compactions, self.publications, *self.readers)

    @property
    def kills(self):
        return sum(kind.kills for kind in self.kinds)

    def play(self):
        """Run until all hours and snapshots are done, every kind was struck often enough, and enough was done."""
        loops = self.compactions, self.publications
        while True:
            late = [kind for kind in self.kinds if kind is not self.hours and kind.kills < kind.wanted]
            self.hours.others_go_on = bool(late) or not self.has_share(self)
            # chance alone would let all others go on for minutes until a reader is struck
            self._asks_all = all(kind in self.readers for kind in late)
            for kind in (self.hours, self.snapshots):
                if not kind.works:
                    kind.begin()
            if not self.hours.works and not self.snapshots.works:
                break
            for kind in loops:
                if not kind.works and kind.stirred:
                    kind.begin()
            self._step()
        while any(kind.works for kind in loops):
            self._step()

    def finish(self):
        for kind in self.kinds:
            kind.struck = 0.0
        for kind in (self.compactions, self.publications):
            kind.begin()
            while kind.works:
                self._step()
        for reader in self.readers:
            before = reader.counts["answers"]
            while reader.counts["answers"] == before:
                reader.ask()
                self._step()
        for kind in self.kinds:
            while kind.run is not None:
                kind.run.stdin.close()
                self._step()

    def _step(self):
        """Wait for the next report or the next kill, and take it in."""
        going = [kind for kind in self.kinds if kind.run is not None]
        times = [kind.kill_at for kind in going if kind.kill_at]
        patience = min([max(0.0, at - time.monotonic()) for at in times], default=PATIENCE_SECONDS)
        ready, _, _ = select.select([kind.run.stdout for kind in going], [], [], patience)
        assert ready or times, f"nothing is reported any more: {[(k.name, k.run and k.run.lines[-3:]) for k in going]}"
        for kind in going:
            if kind.run is not None and kind.run.stdout in ready:
                self._happened(kind, kind.listen())
            if kind.strike() and self.chance.random() < self.cuts:
                for other in going:
                    other.strike(now=True)

    def _happened(self, kind, lines):
        if "= []" in lines and not isinstance(kind, Readers | Publications):
            for other in (self.compactions, self.publications):
                other.stirred |= other is not kind
        for _ in (line for line in lines if "publish" in line and line[:1] in ">p"):
            for reader in self.readers:
                if self._asks_all or self.chance.random() < self.curious:
                    reader.ask()

    def close(self):
        for kind in self.kinds:
            if kind.run is not None:
                kind.run.abandon()

    def __str__(self):
        told = (f"{kind.name}: killed in {dict(kind.killed_in)}; {dict(kind.counts)}" for kind in self.kinds)
        return "\n".join([f"{self.kills} kills", *told])
