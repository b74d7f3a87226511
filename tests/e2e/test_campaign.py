"""Hours, snapshots, compaction, publication and readers at once, killed again and again, and the truth row by row."""

import random
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from assets.steps import housekeeping
from resources import datasets
from resources.datasets.paths import with_bodies
from resources.lake import Layout, sweep
from resources.sandbox import Settings, running
from resources.warehouse import Warehouse
from resources.warehouse.database.connect import locked
from tests import entity_truth
from tests.builds import lay
from tests.e2e.campaign import Campaign, Compactions, Hours, Publications, Readers, Snapshots
from tests.e2e.conftest import Account, unfinished
from tests.truth import HOUR, Published, Truth, assert_rebuilt_alike, assert_same

NAMESPACES = (0, 10)
#: Of a hundred kills.
SHARES = {"hours": 24, "snapshots": 16, "compactions": 30, "publications": 22, "readers": 8}


def check(tmp_path, runner, seed, *, hours, moments, kills, curious, together=1, cuts=0.0, has_share=None, **world):
    """Play a campaign over so much, struck so often, and see that what is left is the truth.

    `together`: snapshots that a run brings in. `cuts`: how likely a kill strikes all at once. `has_share`: whether
    enough was done between the kills; the last day goes on until it was. `world`: further settings of the sandbox.
    """
    chance = random.Random(seed)
    start = datetime(2026, 2, 3, 5, 20, tzinfo=UTC) + timedelta(days=seed % 100)
    given = {"projects": ("enwiki", "frwiki"), "namespaces": NAMESPACES, "entities": 0} | world
    small = {"body_bytes": 400, "chunk_bytes": 15_000, "single_member": seed % 2 == 0}
    settings = Settings(state=tmp_path / "sandbox", seed=seed, now=start, **given, **small)
    projects = settings.projects
    with running(settings) as sandbox:
        account = Account(sandbox, "operator", "Passw0rd-operator")
        sandbox.accounts.create(account.username, account.password, groups=["group_3"])
        data, world = lay(tmp_path / "data"), sandbox.world
        scope = {"WME_PROJECTS": ",".join(projects), "WME_NAMESPACES": ",".join(map(str, NAMESPACES))}
        scope["WME_WIKIDATA"] = str(int(settings.entities > 0))
        stage = SimpleNamespace(runner=runner, sandbox=sandbox, data=data, projects=projects, namespaces=NAMESPACES)
        stage.environ, stage.chance = account.environ(data, **scope), chance
        states = {}
        readers = [Readers(stage, states, keep=keep) for keep in (False, True)]
        kinds = Hours(stage), Snapshots(stage), Compactions(stage), Publications(stage)
        campaign = Campaign(*kinds, readers, chance, curious, cuts)
        identifiers = [*world.snapshot_identifiers(), *world.entity_identifiers()]
        times = [world.snapshot_times(identifier, start) for identifier in identifiers]
        first = min(times)[0].replace(minute=0, second=0, microsecond=0) - HOUR
        wanted = [first + number * HOUR for number in range(hours)]
        try:
            # something to read
            campaign.hours.queue = [((wanted[0],), False)]
            campaign.snapshots.queue = [tuple(identifiers)]
            campaign.readers = []
            campaign.play()
            campaign.readers = readers
            while len(campaign.hours.done) < hours:
                new = sorted(({*listed_hours(sandbox)} & {*wanted[1:]}) - {*campaign.hours.done})
                campaign.hours.queue = [(some, False) for some in pieces(new, chance, 6)]
                campaign.hours.queue.insert(chance.randint(0, len(new) // 6), ((chance.choice(new),), True))
                names = chance.sample(identifiers, len(identifiers))
                campaign.snapshots.queue = [tuple(names[n : n + together]) for n in range(0, len(names), together)]
                part = (len(campaign.hours.done) + len(new)) / hours
                for kind in campaign.kinds:
                    # the second reader never closes its first file
                    kind.wanted = 0 if kind is readers[1] else round(SHARES[kind.name] / 100 * kills * part)
                if part == 1 and has_share is not None:
                    campaign.has_share = has_share
                campaign.play()
                if len(campaign.hours.done) < hours:
                    sandbox.clock.set(min(sandbox.clock.now() + timedelta(days=1), wanted[-1] + 2 * HOUR))
            campaign.compactions.at = timedelta(days=60)
            campaign.finish()
        finally:
            campaign.close()
        sys.stdout.write(f"\nseed {seed}: {campaign}\n")
        warehouse = Warehouse(data, clock=sandbox.clock.now)
        check_truth(warehouse, Truth(world, projects, NAMESPACES), wanted, chance, moments)
        if settings.entities:
            entities = entity_truth.truth(world, world.export_started_at(entity_truth.WIKI, wanted[-1]))
            entity_truth.assert_same(entity_truth.found_rows(warehouse, "entities"), entities)
            entity_truth.assert_derived(warehouse, entities)
            assert_rebuilt_alike(warehouse, "entities")
        check_order(warehouse, wanted, data)
        return campaign


def pieces(hours, chance, longest):
    """Consecutive hours cut into runs of a drawn length, in a drawn order, some of them twice."""
    cut, left = [], list(hours)
    while left:
        length = chance.randint(1, longest)
        cut.append(tuple(left[:length]))
        left = left[length:]
    repeated = chance.sample(cut, max(1, len(cut) // 4))
    return chance.sample([*cut, *repeated], len(cut) + len(repeated))


def listed_hours(sandbox):
    hour = sandbox.clock.now().replace(minute=0, second=0, microsecond=0)
    for back in range(1, 47):
        if sandbox.world.hour_ready_at(hour - back * HOUR) <= sandbox.clock.now():
            yield hour - back * HOUR


def check_truth(warehouse, truth, wanted, chance, moments):
    """All that analysts find is what the world knows: pages, pages as they were, changes, and every body."""
    truth.assert_hard(wanted)
    with Published(warehouse) as published:
        assert_same(published.rows("articles"), truth.after(wanted[-1]))
        exact_from = max(state.exact_from_at for state in warehouse.project_states() if state.exact_from_at is not None)
        part = (wanted[-1] + HOUR - exact_from) / moments
        for number in range(moments):
            at = exact_from + (number + chance.random()) * part
            assert_same(published.rows("articles_at(?)", at), truth.at(lambda _project, at=at: at), f"at {at}")
        published.assert_changes(truth.changes(wanted))
    assert_rebuilt_alike(warehouse)


def check_order(warehouse, wanted, data):
    """The audit finds nothing, and nothing lies about that nobody needs."""
    audits = warehouse.audit(wanted, dataset=datasets.ARTICLE_CHANGES)
    assert len(audits) == len(wanted)
    for audit in audits:
        assert (audit.row_count, audit.repeated_count, audit.early_count) == (audit.expected_count, 0, 0)
    assert {row.state for row in warehouse.coverage(dataset=datasets.ARTICLE_CHANGES)} <= {"loaded", "empty"}
    layout, later = Layout(data), datetime.now(UTC) + timedelta(days=3)
    sweep(layout)
    housekeeping.clean(layout, warehouse, now=later)
    housekeeping.clean(layout, warehouse, now=later + timedelta(days=3))
    assert not unfinished(data)
    with warehouse._connector.build("look") as build:
        named = (
            "SELECT lake_path FROM compacted_files UNION SELECT lake_path FROM loads WHERE compaction_id IS NULL AND "
            "row_count > 0"
        )
        loaded = {path for (rows,) in build.execute(named).fetchall() for path in (rows, with_bodies(rows))}
    held = {path.relative_to(layout.lake).as_posix() for path in layout.lake.rglob("*.parquet")}
    assert loaded - held == set()
    # beside them, lake files of hours that are compacted may have been made again for a repeated hour
    assert {path for path in held - loaded if path.startswith("compacted")} == set()
    names = {"archive", "dagster", "lake", "state", "warehouse", "warehouse.duckdb"}
    assert {path.name for path in data.iterdir()} == names
    assert {path.name for path in (data / "warehouse").iterdir()} == {"build.duckdb"}
    for name in ("warehouse.lock", "publish.lock", "compact.lock"):
        with locked(data / "state" / name, 0.0, "look"):
            pass


def count(kind, word):
    """What a kind of process has reported so often, in all its ways."""
    return sum(number for what, number in kind.counts.items() if word in what)


def answers(campaign):
    """How often readers were answered."""
    return sum(count(reader, "answers") for reader in campaign.readers)


@pytest.mark.timeout(900)  # half a minute, or many on a machine that others use as well
def test_everything_at_once_and_killed_is_the_truth(tmp_path, runner):
    size = {"hours": 3, "moments": 2, "kills": 8, "together": 4, "curious": 0.15}
    world = {"changes_per_hour": 25, "articles": 40, "projects": ("frwiki",)}
    # on a fast machine all else is done before a reader has asked often enough
    campaign = check(tmp_path, runner, 1, **size, **world, has_share=lambda campaign: answers(campaign) >= 3)
    assert all(kind.kills for kind in campaign.kinds if kind.wanted)
    assert campaign.kills >= 8
    assert count(campaign.compactions, "compacted") >= 1
    assert count(campaign.compactions, "moved") >= 1
    assert answers(campaign) >= 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_everything_at_once_and_killed_a_hundred_times_is_the_truth(tmp_path, runner, seed):
    check_many(tmp_path, runner, seed, hours=30, moments=10, kills=100, entities=125 if seed % 2 else 0)


@pytest.mark.soak
def test_everything_at_once_and_the_power_cut_is_the_truth(tmp_path, runner):
    check_many(tmp_path, runner, 5, hours=12, moments=5, kills=60, cuts=0.5)


def check_many(tmp_path, runner, seed, *, kills, **size):
    """The campaign was one: every kind was killed in its midst, and each has done its work often."""
    size |= {"kills": kills, "changes_per_hour": 40, "articles": 60, "curious": 0.2}
    campaign = check(tmp_path, runner, seed, **size, has_share=lambda campaign: all(shares(campaign, kills).values()))
    assert campaign.kills >= kills
    assert all(shares(campaign, kills).values()), shares(campaign, kills)


def shares(campaign, kills):
    """What was done often enough. On a quiet machine kills come faster than the work between them is done."""
    spans = {what.split()[1] for what in campaign.compactions.counts if what.startswith("compacted")}
    made = [campaign.publications, campaign.hours, campaign.snapshots]
    return {
        "phases": campaign.compactions.killed_in.keys() >= {"prepare", "rewrite", "take in", "move window"},
        "spans": len(spans) >= 3, "compacted": count(campaign.compactions, "compacted") >= kills / 10,
        "published": sum(count(kind, "anew") for kind in made) >= kills / 5, "answers": answers(campaign) >= kills / 4,
    }  # fmt: skip
