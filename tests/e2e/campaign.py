"""A campaign: hours, snapshots, compaction, publication and readers over one data folder, each killed repeatedly.

The processes' reports drive everything. A process is asked for one piece of work after the other, is killed at a random
time after it has entered a random phase, and the next begins with the next work. Readers receive one query at a time,
during a publication.

Belongs here: the starts and kills, and their counts. Does not belong here: the work of the processes
(tests/e2e/actors.py), and the conditions that must hold at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.e2e.actors import COMPACTION_PHASES
from tests.e2e.conftest import PATIENCE_SECONDS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from resources.sandbox import Sandbox
    from tests.e2e.conftest import Run, Runner

    #: A function of the processes, and its arguments.
    Work = tuple[Any, ...]

ACTORS = "tests.e2e.actors"
PHASES = ("download", "convert", "load", "apply", "publish")
SNAPSHOT_PHASES = ("download snapshot", "convert snapshot", "load snapshot")
#: No kind is begun more often.
_MOST = 1500


@dataclass
class Stage:
    """What all of them share: the data folder, the service at its moment, and who is to be begun."""

    runner: Runner
    sandbox: Sandbox
    data: Path
    environ: dict[str, str]
    projects: Sequence[str]
    namespaces: Sequence[int]
    chance: random.Random

    @property
    def now(self) -> datetime:
        return self.sandbox.clock.now()

    def job(self, hours: Sequence[datetime] = (), snapshots: Sequence[str] = ()) -> Work:
        """The main job over hours or snapshots."""
        # else a publication of its own has more to do
        more = {"WME_PUBLISH": self.chance.choice(["run", "off"])}
        request = {
            "environ": self.environ | more,
            "hours": [hour.isoformat() for hour in hours],
            "snapshots": list(snapshots),
            "now": self.now.isoformat(),
            "history": False,
        }
        return "bring_in", request


@dataclass
class Kind(ABC):
    """One kind of process, of which one is there at a time.

    `wanted`: kills so far that are to be reached before the day ends. `begun`: pieces of work.
    """

    stage: Stage
    wanted: int = 0
    kills: int = 0
    missed: int = 0
    begun: int = 0
    killed_in: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    run: Run | None = None
    works: bool = False
    phases: tuple[str, ...] = ()
    #: How likely one is to be killed while its kind is to be struck more often.
    struck: float = 0.8
    #: Something has happened since the last piece of work was begun.
    stirred: bool = True
    _seen: int = 0
    _aim: str = ""
    kill_at: float = 0.0
    _entered: dict[str, float] = field(default_factory=dict)
    #: How long each phase took when nobody disturbed it.
    _seconds: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @abstractmethod
    def next(self) -> Work | None:
        """The next piece of work; None: there is nothing to do."""

    def ended(self, *, killed: bool) -> None:  # noqa: B027 - most do nothing
        """What follows for the pieces to come."""

    def read(self, line: str) -> None:
        """Take in a line."""
        if line.startswith(("published ", "compacted ", "moved ")):
            self.counts[line] += 1

    def begin(self) -> None:
        """Begin a piece of work, in a new process where there is none, and draw whether, and where, it is struck."""
        self.stirred = False
        work = self.next()
        if work is None:
            return
        if self.run is None:
            self.run = self.start()
        self._seen, self.works = len(self.run.lines), True
        self.begun += 1
        assert self.begun < _MOST, f"{self.name} is begun without an end"
        chance = self.stage.chance
        self._aim, self.kill_at = "", 0.0
        if self.kills < self.wanted and chance.random() < self.struck:
            self._aim = min(self.phases, key=lambda phase: (self.killed_in[phase] + 2 * chance.random(), phase))
        self.run.ask(json.dumps(work))

    def start(self) -> Run:
        return self.stage.runner.call(ACTORS, "work", asked=True)

    def listen(self) -> list[str]:
        """Read what was reported; returns the lines."""
        assert self.run is not None
        seen, now = len(self.run.lines), time.monotonic()
        self.run._read(0)
        lines = self.run.lines[seen:]
        for line in lines:
            if line.startswith("> "):
                self._entered[line[2:]] = now
                if line[2:] == self._aim and not self.kill_at:
                    # a while longer than the phase takes, since the others may stop it: then it lands in the next one
                    self.kill_at = now + self.stage.chance.random() * 1.2 * self._seconds.get(self._aim, 0.05)
            elif line.startswith("< ") and line[2:] in self._entered:
                self._seconds[line[2:]] = now - self._entered[line[2:]]
            self.read(line)
        if any(line.startswith("=") for line in lines):
            assert lines[-1] == "= []", f"{self.name}: {lines[-5:]}"
            self.missed += bool(self._aim)
            self.works, self.kill_at = False, 0.0
            self.ended(killed=False)
        if self.run.ended:
            assert not self.works, f"{self.name}: {self.run.lines[-5:]}"
            self.run = None
        return lines

    def strike(self, *, now: bool = False) -> bool:
        """Kill it, if it is time or `now`, and note where it was; returns whether it was killed."""
        if self.run is None or not (now or (self.kill_at and time.monotonic() >= self.kill_at)):
            return False
        run, self.kill_at, self.run = self.run, 0.0, None
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)
        seen = len(run.lines)
        while not run.ended:
            run._read(PATIENCE_SECONDS)
        for line in run.lines[seen:]:
            self.read(line)
        assert not any(line.startswith("!") for line in run.lines), f"{self.name}: {run.lines[-5:]}"
        if not self.works:
            return False
        killed = not any(line.startswith("=") for line in run.lines[self._seen :])
        self.kills += killed
        self.missed += not killed
        if killed:
            self.killed_in[run.phase] += 1
        self.works, self.stirred = False, True
        self.ended(killed=killed)
        return killed


@dataclass
class Hours(Kind):
    """Runs over consecutive hours: shuffled, repeated, and redone after they were loaded from another world."""

    phases: tuple[str, ...] = PHASES
    #: What to load and whether it is from another world.
    queue: list[tuple[tuple[datetime, ...], bool]] = field(default_factory=list)
    done: list[datetime] = field(default_factory=list)
    #: The others are not done: hours are redone meanwhile.
    others_go_on: bool = False
    _work: tuple[tuple[datetime, ...], bool] = ((), False)

    def next(self) -> Work | None:
        if not self.queue and (self.others_go_on or self.kills < self.wanted):
            hour = self.stage.chance.choice(self.done)
            self.queue.append(((hour,), True))
        if not self.queue:
            return None
        self._work = hours, is_wrong = self.queue.pop(0)
        if not is_wrong:
            return self.stage.job(hours)
        stage = self.stage
        folder = str(stage.data.with_name("other"))
        scope = list(stage.projects), list(stage.namespaces)
        return "spoil", str(stage.data), hours[0].isoformat(), *scope, folder

    def ended(self, *, killed: bool) -> None:
        hours, is_wrong = self._work
        place = self.stage.chance.randint(0, len(self.queue))
        if killed:
            self.queue.insert(place, self._work)
        elif is_wrong:
            self.queue.insert(place, (hours, False))
        else:
            self.done += [hour for hour in hours if hour not in self.done]


@dataclass
class Snapshots(Kind):
    """Runs over one snapshot or some, in their newest version."""

    phases: tuple[str, ...] = (*SNAPSHOT_PHASES, "apply", "publish")
    queue: list[tuple[str, ...]] = field(default_factory=list)
    _work: tuple[str, ...] = ()

    def next(self) -> Work | None:
        if not self.queue and self.kills < self.wanted and self._work:
            self.queue.append(self._work)
        if not self.queue:
            return None
        self._work = self.queue.pop(0)
        return self.stage.job(snapshots=self._work)

    def ended(self, *, killed: bool) -> None:
        if killed:
            self.queue.insert(self.stage.chance.randint(0, len(self.queue)), self._work)


@dataclass
class Compactions(Kind):
    """`wme compact`, again and again, at the moment of the service or some days later."""

    phases: tuple[str, ...] = tuple(phase for *_, phase in COMPACTION_PHASES)
    at: timedelta | None = None

    def next(self) -> Work:
        later = self.at or timedelta(hours=self.stage.chance.choice([0, 0, 12, 72, 1000]))
        return "compact", self.stage.environ, (self.stage.now + later).isoformat()


@dataclass
class Publications(Kind):
    """`wme publish`, again and again."""

    phases: tuple[str, ...] = ("publish",)

    def next(self) -> Work:
        return "publish", self.stage.environ, self.stage.now.isoformat()


@dataclass
class Readers(Kind):
    """One that opens the published file for each question, and keeps some files open for a while."""

    phases: tuple[str, ...] = ("question",)
    struck: float = 0.3
    keep: bool = False
    #: What is found in one publication, by its revision; of all readers.
    states: dict[int, list[int]] = field(default_factory=dict)

    def start(self) -> Run:
        seed = self.stage.chance.randint(0, 1 << 30)
        return self.stage.runner.call(ACTORS, "read", str(self.stage.data), seed, self.keep, asked=True)

    def next(self) -> Work:
        return ()

    def read(self, line: str) -> None:
        if line.startswith("found "):
            revision, *found = json.loads(line[6:])
            assert self.states.setdefault(revision, found) == found, f"revision {revision} was published in two ways"
            self.counts["answers"] += 1

    def ask(self) -> None:
        """Ask, if the last question was answered."""
        if not self.works:
            self.begin()


@dataclass
class Campaign:
    """All kinds of processes at the same time.

    `curious`: how likely readers are queried when a publication begins, and when it is there. `cuts`: how likely a kill
    strikes all at once, like a power failure. `has_share`: whether enough was done between the kills.
    """

    hours: Hours
    snapshots: Snapshots
    compactions: Compactions
    publications: Publications
    readers: list[Readers]
    chance: random.Random
    curious: float
    cuts: float = 0.0
    has_share: Callable[[Campaign], bool] = lambda _: True

    @property
    def kinds(self) -> Iterator[Kind]:
        yield from (self.hours, self.snapshots, self.compactions, self.publications, *self.readers)

    @property
    def kills(self) -> int:
        return sum(kind.kills for kind in self.kinds)

    def play(self) -> None:
        """Run until all work is done and every kind was killed often enough.

        Hours and snapshots must be complete, and enough must be done between the kills.
        """
        loops = self.compactions, self.publications
        while True:
            is_struck = all(kind.kills >= kind.wanted for kind in self.kinds if kind is not self.hours)
            self.hours.others_go_on = not is_struck or not self.has_share(self)
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

    def finish(self) -> None:
        """Compact what is left and publish, without a kill, and let readers see it and end."""
        wanted = [kind.wanted for kind in self.kinds]
        for kind in self.kinds:
            kind.wanted = 0
        for kind in (self.compactions, self.publications):
            kind.begin()
            while kind.works:
                self._step()
        for reader in self.readers:
            reader.counts["answers"], before = 0, reader.counts["answers"]
            while not reader.counts["answers"]:
                reader.ask()
                self._step()
            reader.counts["answers"] += before
        for kind in self.kinds:
            while kind.run is not None:
                kind.run.hush()
                self._step()
        for kind, number in zip(self.kinds, wanted, strict=True):
            kind.wanted = number

    def _step(self) -> None:
        """Wait for the next report or the next kill, and take it in."""
        going = [kind for kind in self.kinds if kind.run is not None]
        times = [kind.kill_at for kind in going if kind.kill_at]
        patience = min([max(0.0, at - time.monotonic()) for at in times], default=PATIENCE_SECONDS)
        ready, _, _ = select.select([kind.run.pipe for kind in going if kind.run is not None], [], [], patience)
        assert ready or times, f"nothing is reported any more: {[(k.name, k.run and k.run.lines[-3:]) for k in going]}"
        for kind in going:
            if kind.run is not None and kind.run.pipe in ready:
                self._happened(kind, kind.listen())
            if kind.strike() and self.chance.random() < self.cuts:
                for other in going:
                    other.strike(now=True)

    def _happened(self, kind: Kind, lines: list[str]) -> None:
        if "= []" in lines and not isinstance(kind, Readers | Publications):
            for other in (self.compactions, self.publications):
                other.stirred |= other is not kind
        for _ in (line for line in lines if "publish" in line and line[:1] in ">p"):
            for reader in self.readers:
                if self.chance.random() < self.curious:
                    reader.ask()

    def close(self) -> None:
        """End what is still there."""
        for kind in self.kinds:
            if kind.run is not None:
                kind.run.abandon()

    def __str__(self) -> str:
        told = []
        for kind in self.kinds:
            where = ", ".join(f"{phase} {count}" for phase, count in sorted(kind.killed_in.items()))
            counts = ", ".join(f"{what} {count}" for what, count in sorted(kind.counts.items()))
            told.append(
                f"{kind.name}: {kind.begun} begun, {kind.kills} killed ({where}), {kind.missed} missed; {counts}"
            )
        return "\n".join([f"{self.kills} kills", *told])
