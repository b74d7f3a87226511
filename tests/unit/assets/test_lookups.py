"""Which pages are looked up, and what the day's budget allows."""

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import MagicMock, Mock, call

import pytest

from assets import lookups
from assets.lookups import ANSWER_SECONDS
from assets.steps import lookup
from assets.steps.lookup import Budget, LookupsBusyError, WatchlistError
from resources.data_folder import copying
from resources.datasets import LOOKUPS
from resources.enterprise import Filter, Query
from resources.enterprise.errors import NotFound, ServiceUnavailable, UnreachableError
from resources.lake import LakeError, Layout, journal
from resources.lake.journal import Asked, Journals
from resources.settings import Settings
from resources.tables import Purpose
from resources.warehouse import Row, Warehouse
from tests.unit.assets.conftest import record
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.loopback import Reply
from tests.unit.test_files import done

__all__ = ["done"]  # a fixture

NOW = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
EARTH = Asked("enwiki", 0, "Earth", Purpose.WATCH)


def test_a_watch_list_names_projects_and_titles(tmp_path):
    path = tmp_path / "list.txt"
    lines = "\ufeff# planets\nenwiki Earth\n\n frwiki  Terre (planète) # ours\nenwiki Earth\n"
    path.write_text(lines, encoding="utf-8")
    assert lookup.read_watchlist(path) == [("enwiki", "Earth"), ("frwiki", "Terre (planète)")]
    assert lookup.read_watchlist(None) == []
    for line in ("Mars", "Enwiki Mars"):
        path.write_text(f"enwiki Earth\n{line}\n")
        with pytest.raises(WatchlistError, match=rf"Line 2 of the watch list .* is invalid: '{line}'"):
            lookup.read_watchlist(path)
    with pytest.raises(WatchlistError, match="cannot be read"):
        lookup.read_watchlist(tmp_path / "none.txt")


def test_a_budget_is_of_a_day_and_never_exceeded(tmp_path):
    moments = [NOW]
    budget = Budget(tmp_path, 2, lambda: moments[-1])
    assert [budget.take() for _ in range(3)] == [True, True, False]
    elsewhere = timezone(timedelta(hours=9))
    assert Budget(tmp_path, 1, lambda: NOW.astimezone(elsewhere)).left == 0  # another process, with less to spend
    moments.append(NOW + timedelta(minutes=1))
    assert budget.left == 2
    (tmp_path / "state" / "lookups.json").write_text("{}")  # what was spent is not known
    assert (budget.take(), budget.left) == (False, 0)


def test_a_small_budget_is_spent_on_watched_pages(bench, monkeypatch):
    watched = [("enwiki", "Earth"), ("enwiki", "Mars")]
    uncertain = [("enwiki", 0, "Venus"), ("enwiki", 0, "Mars"), ("frwiki", 0, "Earth")]
    monkeypatch.setattr(Warehouse, "uncertain_pages", lambda *_: uncertain)
    wanted = [("Earth", Purpose.WATCH), *((name, Purpose.REPAIR) for name in ("Mars", "Venus", "Earth"))]
    for limit in range(5):
        planned = lookup.plan(watched, [("enwiki", 0)], bench.warehouse, limit, NOW)
        assert [(one.name, one.purpose) for one in planned] == wanted[:limit]


def test_a_lookup_names_its_project_and_a_disk_that_is_full_is_no_missing_page(bench):
    client, budget = Mock(), Budget(bench.data, 5, lambda: NOW)
    for error in (OSError("The disk is full."), LakeError("The disk is full.")):
        client.lookups.articles.side_effect = error
        with pytest.raises(type(error), match="The disk is full"):
            lookup.ask([EARTH], client, bench.layout, budget, bench.engine, lambda: NOW)
    query = Query(filters=(Filter("is_part_of.identifier", "enwiki"),), limit=1)
    assert (client.lookups.articles.call_args, budget.left) == (call("Earth", query), 3)
    # three of four pages are asked for, and what two met is said once
    client.lookups.articles.side_effect = [NotFound("No."), *[ServiceUnavailable("Away.")] * 2]
    wanted = [replace(EARTH, name=name) for name in "abcd"]
    assert lookup.ask(wanted, client, bench.layout, budget, bench.engine, lambda: NOW) == (0, 1, ["Away."])
    assert bench.said[-1].startswith("look up: 1 page in ")
    # what every page would meet ends the others, and costs nothing for them
    client.lookups.articles.side_effect = UnreachableError("Lost.")
    lookup.ask(wanted * 3, client, bench.layout, more := Budget(bench.data, 99, lambda: NOW), bench.engine, lambda: NOW)
    assert more.left >= 99 - 5 - bench.engine.workers


def test_an_odd_answer_costs_its_page_alone_and_an_odd_file_nothing_but_itself(bench):
    odd = [line.split(" => ") for line in Path(__file__).with_name("odd_pages.txt").read_text().splitlines()]
    wanted = [Asked("enwiki", 14, f"A_page_{number}", Purpose.WATCH) for number in range(len(odd) + 2)]
    good = [json.dumps([record(1, name=f"A page {len(odd)}", namespace={"identifier": 14})]), ""]
    for asked, (answer, _) in zip(wanted, [*odd, good], strict=False):
        bench.fake.script(f"/v2/articles/{asked.name}", Reply(200, answer.replace("NAME", asked.name).encode()))
    how = bench.layout, Budget(bench.data, 99, lambda: HOUR), bench.engine, lambda: HOUR
    found, missing, failures = lookup.ask(wanted, bench.client, *how)
    assert (found, missing, len(failures)) == (1, 1, len(odd))
    for asked, (_, problem), told in zip(wanted, odd, failures, strict=False):
        assert f"lookup of {asked.name!r} in enwiki was not used: {problem}" in told
    folder = next(bench.layout.archive.rglob("*.ndjson")).parent
    (folder / "enwiki_namespace_-1.64d0a0b0c0d0e.ndjson").write_text("{}\n")
    stranger = json.dumps(record(1, "dewiki")).encode()
    Journals(bench.layout, HOUR.replace(microsecond=1)).add(EARTH, HOUR, stranger)
    (folder / "frwiki_namespace_0.0.tar.gz.json").write_text("{}")
    for rows in (2, 0):
        loaded, errors = lookup.load(bench.layout, bench.warehouse, bench.converter, bench.engine, frozenset())
        assert (loaded, [type(one).__name__ for one in errors]) == (rows, [*["UnusableFileError"] * 2, "ArchiveError"])


def test_one_process_looks_up_at_a_time(tmp_path):
    layout = Layout(tmp_path)
    with lookup.alone(layout), pytest.raises(LookupsBusyError, match="Nothing was sent"), lookup.alone(layout):
        pass


def test_half_a_line_of_a_killed_run_is_dropped_and_the_archive_is_the_same_each_time(tmp_path, done):
    layout, record = Layout(tmp_path), json.dumps({"name": "Earth", "namespace": {"identifier": 10}}, indent=1).encode()
    journals = Journals(layout, NOW.replace(microsecond=7))
    journals.add(replace(EARTH, purpose=Purpose.REPAIR), NOW, b" \n" + record)
    journals.add(EARTH, NOW, None)
    Journals(layout, NOW).add(replace(EARTH, namespace_id=20), NOW, None)
    (other, of_page, of_none) = sorted(layout.archive.rglob("*.ndjson"), reverse=True)
    assert "_namespace_10." in of_page.name
    assert {of_page.stat().st_ino, of_page.parent.stat().st_ino} <= {*done}, "units were paid for these bytes"
    whole = of_page.read_bytes()
    lookup = {"name": "Earth", "at": NOW.isoformat(), "purpose": "repair", "is_found": True}
    assert (json.loads(whole), whole.count(b"\n")) == ({"lookup": lookup} | json.loads(record), 1)
    of_page.write_bytes(whole + whole[:20])
    lookup |= {"purpose": "watch", "is_found": False}
    for path, number in ((other, 20), (of_none, 0)):
        place = {"is_part_of": {"identifier": "enwiki"}, "namespace": {"identifier": number}}
        assert json.loads(path.read_bytes()) == {"lookup": lookup} | place
    of_none.write_bytes(b"half")
    with copying(tmp_path, wait_seconds=0):  # a backup may have found the journal and not its archive
        journal.pack(layout)
    names = [one[1].name for one in done if isinstance(one, tuple)]
    assert (of_page.exists(), names[1::2]) == (True, [f"{name}.json" for name in names[::2]])
    (first, archive) = journal.archives(layout)
    assert (first.namespace_id, first.source_at) == (20, NOW)
    assert archive.path.read_bytes()[4:8] == bytes(4)  # the time would make other bytes
    assert (archive.project_id, archive.namespace_id, archive.source_at.microsecond) == ("enwiki", 10, 7)
    of_page.write_bytes(whole)  # as it is after a kill before it is removed
    journal.pack(layout)
    assert ([*journal.archives(layout)], [*layout.archive.rglob("*.ndjson")]) == ([first, archive], [])


def reconcile(monkeypatch, folder, *, groups=("paid",), left=None, last=None, build="", pages=(), answers=(), **more):
    """Compare pages with answers, as an account that paid, and return the size of the sample and what was found."""
    settings = Settings(**{"projects": ("enwiki",), "username": "me", "password": "secret"} | more)
    client, enterprise, store = Mock(), MagicMock(settings=settings), Mock(build_path=folder / build)
    enterprise.client.side_effect = {ANSWER_SECONDS: nullcontext(client)}.get
    client.account.known_user.return_value = groups if groups is None else Mock(groups=groups)
    client.account.quotas.return_value = {} if left is None else {LOOKUPS.quota: Mock(left=left)}
    store.last_lookup_at.side_effect, store.sampled_pages.return_value = {Purpose.CHECK: last}.get, pages
    store.lookups_since.side_effect = lambda *since: answers if since == (NOW, Purpose.CHECK) else None
    monkeypatch.setattr(lookups, "_now", lambda: NOW)
    for step in ("ask", "load"):
        monkeypatch.setattr(lookup, step, Mock())
    found = lookups.reconcile(enterprise, Mock(layout=Layout(folder)), store, MagicMock(), print)
    return [asked.args[2] for asked in store.sampled_pages.call_args_list], found


def test_pages_of_a_sample_are_compared_if_they_did_not_change_since_the_loaded_hours(monkeypatch, tmp_path):
    page = Row(project_id="enwiki", namespace_id=0, name="Same", article_id=1, version_id=2, known_until=NOW)
    before = NOW - timedelta(microseconds=1)
    answer = Row(project_id="enwiki", asked_name="Same", article_id=1, version_id=2, event_at=before, is_found=True)
    changes = {"Other": {"article_id": 7}, "Behind": {"version_id": 7}, "Same": {}}
    changes |= {"Since": {"version_id": 7, "event_at": NOW}, "Undated": {"version_id": 7, "event_at": None}}
    changes |= {"Gone": {"article_id": None, "version_id": None, "event_at": None, "is_found": False}}
    answers = [Row(**vars(answer) | {"asked_name": name} | change) for name, change in changes.items()]
    pages = [Row(**vars(page) | {"name": name}) for name in (*changes, "Unanswered")]
    pages.append(Row(**vars(page) | {"project_id": "frwiki"}))
    different = [
        "enwiki Other: page 1, revision 2 here; page 7, revision 2 on the service",
        "enwiki Behind: page 1, revision 2 here; page 1, revision 7 on the service",
    ]
    assert reconcile(monkeypatch, tmp_path, pages=pages, answers=answers) == ([10], (3, 1, different))


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([10], {"groups": ["group_1", "group_2"], "last": NOW - timedelta(days=1)}),
        ([], {"last": NOW - timedelta(days=1, microseconds=-1)}),
        ([0], {"groups": ["group_1"]}),
        ([0], {"groups": None}),
        ([0], {"groups": ()}),
        ([6], {"groups": ["group_1"], "check_pages": 6, "left": 7}),
        ([5], {"check_pages": 6, "lookups_per_day": 5, "left": 7}),
        ([0], {"check_pages": 6, "left": 0}),
        ([], {"check_pages": 0}),
        ([], {"build": "not there"}),
        ([], {"sandbox": True}),
        ([], {"anonymous": True, "username": None, "password": None}),
        ([6], {"sandbox": True, "check_pages": 6}),
    ],
)
def test_a_sample_is_as_large_as_the_account_the_budget_and_the_quota_allow(monkeypatch, tmp_path, sizes, options):
    assert reconcile(monkeypatch, tmp_path, **options) == (sizes, (0, 0, []))
