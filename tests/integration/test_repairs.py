"""Pages looked up one by one: what a lost hour changed is repaired within the budget, and no kill pays twice."""

import re
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import dagster as dg
import pytest

from assets.steps import lookup
from resources.datasets import LOOKUPS
from resources.engine import Engine
from resources.enterprise import EnterpriseClient, Service
from resources.lake import Converter, Layout
from resources.tables import HourState, Purpose
from resources.warehouse import HourStatus
from tests.builds import OpenWarehouse, lay
from tests.integration.daemon import PASSWORD, QUICK
from tests.truth import Published, assert_rebuilt_alike, expected_row

EVALUATED = dg.DagsterEventType.ASSET_CHECK_EVALUATION
ROOT = Path(__file__).resolve().parents[2]
#: Looks pages up in three threads, and is killed when the fifth answer has arrived and is not written down yet.
KILLED = """
import os, signal, sys, threading
from datetime import datetime
from pathlib import Path
from assets.steps import lookup
from resources.engine import Engine
from resources.enterprise import EnterpriseClient, Service
from resources.lake import Layout
from resources.lake.journal import Asked
url, user, password, data, now, *titles = sys.argv[1:]
moment = datetime.fromisoformat(now)
service = Service(url, url, url, user, password, contact=None)
layout, lock, count = Layout(Path(data)), threading.Lock(), 0
with EnterpriseClient(service, Path(data) / "state", clock=lambda: moment) as client:
    ask = client.lookups.articles
    def article(*words):
        global count
        try:
            return ask(*words)
        finally:
            with lock:
                count += 1
                if count == 5:
                    os.kill(os.getpid(), signal.SIGKILL)
    client.lookups.articles = article
    wanted = [Asked("enwiki", 0, title, "watch") for title in titles]
    budget = lookup.Budget(Path(data), 100, lambda: moment)
    lookup.ask(wanted, client, layout, budget, Engine(workers=3), lambda: moment)
"""


class Repairs:
    """Lookups of a data folder within a day's budget, on the sandbox's clock."""

    def __init__(self, sandbox, client, data, per_day, scope=()):
        self.now, self.client, self.scope = sandbox.clock.now, client, scope
        self.layout, self.warehouse = Layout(data), OpenWarehouse(lay(data), clock=sandbox.clock.now)
        self.budget = lookup.Budget(data, per_day, self.now)

    def load(self):
        with Converter(workers=1, memory_bytes=400 << 20) as converter:
            return lookup.load(self.layout, self.warehouse, converter, Engine(), LOOKUPS.table.bodies)[0]

    def run(self, watched=()):
        """Load what is there, look up what is wanted, and load that; returns what was wanted."""
        self.load()
        wanted = lookup.plan(watched, self.scope, self.warehouse, self.budget.left, self.now())
        _, _, failures = lookup.ask(wanted, self.client, self.layout, self.budget, Engine(workers=3), self.now)
        assert failures == []
        self.load()
        self.warehouse.apply_changes()
        return wanted


def asked(sandbox):
    paths = (unquote(seen.path) for seen in sandbox.requests if seen.path.startswith("/v2/articles/"))
    return Counter(path.removeprefix("/v2/articles/") for path in paths)


def counts(warehouse):
    states = warehouse.project_states(published=False)
    return sum(one.uncertain_count or 0 for one in states), sum(one.repaired_count or 0 for one in states)


def test_a_repair_makes_the_pages_of_a_lost_hour_what_they_are(mirror, sandbox):
    scope = [("enwiki", 0)]
    mirror.configure(projects=("enwiki",))
    *before, lost, newest = mirror.newest(4)
    for hours in (before, [newest]):
        assert mirror.materialize(hours).success
    mirror.warehouse.record_statuses([HourStatus(lost, "enwiki", 0, HourState.PAST_RETENTION, "Lost.")])
    mirror.warehouse.apply_changes()
    uncertain, _ = counts(mirror.warehouse)
    assert uncertain > 20
    with mirror.client() as client:
        few = Repairs(sandbox, client, mirror.data, 7, scope)
        sandbox.requests.clear()
        for _ in range(2):
            few.run()
        assert sum(asked(sandbox).values()) == client.account.user().quotas["ondemand"].used == 7
        assert counts(mirror.warehouse)[1] == 7
        repairs = Repairs(sandbox, client, mirror.data, 100_000, scope)
        titles = {(one.project_id, one.name) for one in repairs.run()}
        sandbox.clock.advance(timedelta(minutes=11))
        again = repairs.run()
        assert {(one.project_id, one.name) for one in again} <= titles  # those that were not found
        assert repairs.run() == []
    assert counts(mirror.warehouse) == (0, uncertain)
    truth = {}
    for project, name in titles:
        if (record := sandbox.world.article(project, name, newest)) is not None:
            row = expected_row(record)
            truth[project, row["article_id"]] = row
    assert 0 < len(titles) - len(truth) == len(again)
    mirror.warehouse.publish()
    with Published(mirror.warehouse) as published:
        for source in ("articles", f"articles_at('{sandbox.clock.now().isoformat()}', inexact := true)"):
            found = published.rows(source)
            assert {key: found.get(key) for key in truth} == truth
            names = {(project, row["name"]) for (project, _), row in found.items()}
            assert names & titles == {(project, row["name"]) for (project, _), row in truth.items()}
    assert mirror.rows("SELECT DISTINCT purpose FROM lookups") == [(Purpose.REPAIR,)]
    assert_rebuilt_alike(mirror.warehouse)


def test_a_kill_pays_for_nothing_twice_but_what_was_under_way(sandbox, account, tmp_path):
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=1)
    pages = sandbox.world.pages_at("enwiki", 0, sandbox.world.export_started_at("enwiki", hour))
    names = [event.title.text for event in pages][:20]
    words = [sandbox.url, account, PASSWORD, str(tmp_path), sandbox.clock.now().isoformat()]
    sandbox.requests.clear()
    killed = subprocess.run([sys.executable, "-c", KILLED, *words, *names], cwd=ROOT, timeout=400, check=False)
    assert killed.returncode == -signal.SIGKILL
    spent = asked(sandbox).total()
    assert 5 <= spent < len(names)
    url = sandbox.url
    service = Service(url, url, url, account, PASSWORD, contact=None)
    with EnterpriseClient(service, tmp_path / "state", clock=sandbox.clock.now, retry=QUICK) as client:
        repairs = Repairs(sandbox, client, tmp_path, 100)
        assert repairs.budget.left <= 100 - spent  # what was lost in the kill is spent as well
        assert repairs.load() >= spent - 3
        repairs.run([("enwiki", name) for name in names])
        assert repairs.run([("enwiki", name) for name in names]) == []
        assert client.account.user().quotas["ondemand"].used == asked(sandbox).total()
    assert set(asked(sandbox)) == set(names)
    assert len(names) <= asked(sandbox).total() <= len(names) + 3
    repairs.warehouse.publish()
    told = repairs.warehouse.sql("SELECT asked_name, count(*), bool_and(is_found) FROM lookups GROUP BY ALL").rows
    assert {name: (count, found) for name, count, found in told} == dict.fromkeys(names, (1, True))


@pytest.mark.parametrize("spoiled", [False, True])
def test_watched_pages_are_looked_up_and_a_sample_is_compared(mirror, sandbox, tmp_path, spoiled):
    assert mirror.materialize(mirror.newest(1)).success
    mirror.warehouse.apply_changes()
    with mirror.warehouse._connector.build("spoil") as connection:
        [(title,)] = connection.execute("SELECT name FROM articles WHERE project_id = 'enwiki' LIMIT 1").fetchall()
        if spoiled:
            connection.execute("UPDATE articles SET version_id = version_id + 1")
    path = tmp_path / "watchlist"
    path.write_text(f"enwiki {title}\nfrwiki No such page\n")
    mirror.configure(watchlist=path, check_pages=5)
    sandbox.requests.clear()
    made = mirror.run("lookups")
    assert made.success, made.sentence
    told = made.metadata["warehouse/lookups", None]
    assert (told["found"], told["not_found"], told["budget_left"], told["rows"]) == (1, 1, 98, 2)
    assert (made.checks, asked(sandbox).total()) == ({"articles_as_looked_up": not spoiled}, 7)
    [record] = mirror.instance.get_records_for_run(made.run_id, of_type=EVALUATED).records
    check = record.event_log_entry.dagster_event.asset_check_evaluation_data
    compared, missing, different = (check.metadata[name].value for name in ("compared", "not_found", "different"))
    assert (compared > 0, missing, different) == (True, 0, compared * spoiled)
    if spoiled:
        text = r"(?:en|fr)wiki .+?: page (\d+), revision (\d+) here; page (\d+), revision (\d+) on the service[;.]"
        first, changed, second, right = map(int, re.search(text, check.description).groups())
        assert (first, changed) == (second, right + 1)
        return
    [answers] = [path for path in mirror.lake_files("lookups") if "enwiki" in path.name][:1]
    whole = answers.read_bytes()
    answers.write_bytes(whole[:-1])
    assert (mirror.repair().load_count, answers.read_bytes(), mirror.repair().load_count) == (1, whole, 0)
    again = mirror.run("lookups").metadata["warehouse/lookups", None]  # within the day, nothing is due
    assert (again["wanted"], again["budget_left"], asked(sandbox).total()) == (0, 93, 7)
