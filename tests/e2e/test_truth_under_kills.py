"""The truth after kills: snapshots, then hours of changes, loaded by killed runs into an empty folder.

The runs are separate processes over one data folder. Their hours come shuffled, repeated and redone, the snapshots
before or after the hours that they overlap, and SIGKILL strikes at random moments of random phases (several processes
at the same time: tests/e2e/test_campaign.py). At the end `articles` is compared row by row with the sandbox's own
pages, and so is `articles_at` at past moments. With Wikidata, `entities` and what is derived from it are compared as
well.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from resources.sandbox import Sandbox, Settings, running
from resources.warehouse import Warehouse
from tests import entity_truth
from tests.e2e.conftest import Account
from tests.e2e.striking import PHASES, SNAPSHOT_PHASES, Kills
from tests.spoiling import spoil
from tests.truth import HOUR, Published, Truth, assert_rebuilt_alike, assert_same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROJECTS = ("enwiki", "frwiki", "simplewiki")


@dataclass(frozen=True)
class Work:
    """What one run is to bring in: consecutive hours, snapshots, or both."""

    hours: tuple[datetime, ...] = ()
    snapshots: tuple[str, ...] = ()


@dataclass
class Campaign:
    """One data folder on its way from empty to full.

    Every second run is struck. A phase is aimed at less the more often it was hit.
    """

    sandbox: Sandbox
    data: Path
    chance: random.Random
    runner: Any
    unfinished: Callable[[Path], list[str]]
    wikidata: bool = False
    kills: Kills = field(default_factory=Kills)
    runs: int = 0

    def __post_init__(self):
        self.account = Account(self.sandbox, "operator", "Passw0rd-operator")
        self.sandbox.accounts.create(self.account.username, self.account.password, groups=["group_3"])
        more = {"WME_PROJECTS": ",".join(PROJECTS), "WME_WIKIDATA": str(int(self.wikidata))}
        self.environ = self.account.environ(self.data, **more)

    @property
    def warehouse(self):
        return Warehouse(self.data, clock=self.sandbox.clock.now)

    def take(self, works):
        """Have all of it brought in. What was killed is tried again at once, or when other work has come in between."""
        waiting = deque(works)
        while waiting:
            work = waiting.popleft()
            run = self.runner.start(
                self.environ,
                work.hours,
                snapshots=work.snapshots,
                now=self.sandbox.clock.now().isoformat(),
                history=False,
            )
            self.runs += 1
            wanted = self.chance.random() < 0.5
            if wanted and self._struck(run, work):
                waiting.insert(self.chance.randint(0, len(waiting)), work)
            else:
                assert self.kills.let_through(run) == []

    def _struck(self, run, work):
        offered = ["apply", "publish"]
        if work.hours:
            offered += ["download", "convert", "load"]
        if work.snapshots:
            offered += SNAPSHOT_PHASES
        phase = min(offered, key=lambda one: (self.kills.hits[one] + self.chance.random() * 2, one))
        times = len(work.hours) if phase in PHASES[:3] else max(1, len(work.snapshots) * (phase in SNAPSHOT_PHASES))
        return self.kills.strike(run, phase, self.chance.randint(1, times), self.chance, self.data, self.unfinished)


def pieces(hours, chance, longest):
    """Consecutive hours cut into runs of a drawn length, in a drawn order, some of them twice."""
    cut, left = [], list(hours)
    while left:
        length = chance.randint(1, longest)
        cut.append(Work(tuple(left[:length])))
        left = left[length:]
    repeated = chance.sample(cut, max(1, len(cut) // 4))
    return chance.sample([*cut, *repeated], len(cut) + len(repeated))


def listed_hours(sandbox):
    """The hours that the service lists at its clock, newest first."""
    hour = sandbox.clock.now().replace(minute=0, second=0, microsecond=0)
    for back in range(1, 47):
        if sandbox.world.hour_ready_at(hour - back * HOUR) <= sandbox.clock.now():
            yield hour - back * HOUR


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 220))
def test_articles_are_the_truth_whatever_was_killed(tmp_path, runner, unfinished, seed):
    hours, moments, longest = 48, 10, 12
    late, renewed, wikidata = seed % 3 == 0, seed % 4 == 1, seed % 5 == 0
    chance = random.Random(seed)
    start = datetime(2026, 2, 3, 5, 20, tzinfo=UTC) + timedelta(days=seed % 100)
    settings = Settings(
        state=tmp_path / "sandbox",
        seed=seed,
        now=start,
        projects=PROJECTS,
        namespaces=(0, 10),
        changes_per_hour=40,
        articles=100,
        body_bytes=400,
        chunk_bytes=100_000,
        single_member=seed % 2 == 0,
        entities=125 if wikidata else 0,
    )
    with running(settings) as sandbox:
        campaign = Campaign(sandbox, tmp_path / "data", chance, runner, unfinished, wikidata)
        world = sandbox.world
        identifiers = (*(f"{project}_namespace_0" for project in PROJECTS), *world.entity_identifiers())
        times = [world.snapshot_times(identifier, start) for identifier in identifiers]
        first = min(times)[0].replace(minute=0, second=0, microsecond=0) - HOUR
        wanted = [first + number * HOUR for number in range(hours)]
        done = []
        snapshots = Work(snapshots=identifiers)
        if not late:
            campaign.take([snapshots])
        while len(done) < hours:
            new = sorted(hour for hour in listed_hours(sandbox) if hour in wanted and hour not in done)
            works = pieces(new, chance, longest)
            if done:
                works.append(Work((chance.choice(done[-12:]),)))
            spoiled = chance.choice(new)
            part = chance.randint(0, len(works) - 1)
            campaign.take(works[:part])
            spoil(campaign.warehouse, spoiled, PROJECTS, (0,), tmp_path / "other")
            campaign.take([*works[part:], Work((spoiled,))])
            if late and not done:
                # snapshots that come after the hours that they overlap
                campaign.take([snapshots])
            if renewed and done:
                campaign.take([snapshots])
            done += new
            if len(done) < hours:
                sandbox.clock.set(min(sandbox.clock.now() + timedelta(days=1), wanted[-1] + 2 * HOUR))
        last = wanted[-1]
        truth = Truth(world, PROJECTS, (0,))
        truth.assert_hard(wanted)
        with Published(campaign.warehouse) as published:
            expected = truth.at(lambda project: world.export_started_at(project, last))
            assert_same(published.rows("articles"), expected)
            # as far back as the product itself says, and that must be as soon as the snapshots were there
            exact_from = max(state.exact_from_at for state in campaign.warehouse.project_states())
            assert exact_from <= max(end for _, end in times)
            part = (last + HOUR - exact_from) / moments
            for number in range(moments):
                at = exact_from + (number + chance.random()) * part
                expected = truth.at(lambda _project, at=at: at)
                assert_same(published.rows("articles_at(?)", at), expected, f"at {at}")
        assert_rebuilt_alike(campaign.warehouse)
        if wikidata:
            entities = entity_truth.truth(world, world.export_started_at(entity_truth.WIKI, last))
            entity_truth.assert_same(entity_truth.found_rows(campaign.warehouse, "entities"), entities)
            entity_truth.assert_derived(campaign.warehouse, entities)
            entity_truth.assert_rebuilt_alike(campaign.warehouse)
        assert unfinished(campaign.data) == []
        sys.stdout.write(f"\nseed {seed}: {len(expected)} pages; {campaign.runs} runs; {campaign.kills}\n")
        assert campaign.kills.hits.total() >= 5
