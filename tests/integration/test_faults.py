"""Faults of an account, the service, the network, an archive or the disk, through the whole pipeline.

Each fault is followed from its sentence over what stays in the archive, the lake, the warehouse and the coverage to the
next run without it, which must end as if nothing had happened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from assets.layers import HOUR, key_of
from resources.datasets import ARTICLE_CHANGES, named
from resources.formatting import hour_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


def heals(mirror: Any, hours: list[datetime]) -> None:
    """The next run, without the fault, ends as if nothing had happened."""
    assert mirror.materialize(hours).sentence == ""
    assert mirror.loaded() == mirror.truth(hours)
    assert set(mirror.states().values()) == {"loaded"}
    assert mirror.rows("SELECT count(*) FROM rejects") == [(0,)]
    assert {mirror.status_of(hour) for hour in hours} == {"MATERIALIZED"}
    assert mirror.unfinished() == []


# --- the account: every hour would meet it, so the run ends at once ---------------------------------------------------


@dataclass
class AccountFault:
    """A fault of the account, and what to expect of it.

    Attributes:
        spoil: Makes it; called with the mirror, which has never logged in unless `known` is set.
        mend: Takes it back.
        says: What the sentence must hold: what happened, what was kept, what to do.
        known: The client has logged in before.
        earlier: An older hour is loaded before the fault, and the failed hour after it.
        asked: Paths that may be asked at most so often during the failing run.
        logins: Logins of the next run, which heals.
    """

    spoil: Callable[[Any], object]
    mend: Callable[[Any], object]
    says: tuple[str, ...]
    known: bool = False
    earlier: bool = False
    asked: dict[str, int] = field(default_factory=dict)
    logins: int = 1


def _forget_password(mirror: Any) -> None:
    mirror.configure(password=None)


def _give_password(mirror: Any) -> None:
    mirror.configure(password=mirror.password)


def _age(by: timedelta) -> Callable[[Any], None]:
    def spoil(mirror: Any) -> None:
        mirror.sandbox.clock.advance(by)
        _forget_password(mirror)

    return spoil


def _exhaust(mirror: Any) -> None:
    mirror.sandbox.accounts.exhaust(mirror.username)
    _age(timedelta(hours=24))(mirror)


def _revoke(mirror: Any) -> None:
    mirror.sandbox.accounts.revoke_all(mirror.username)
    _forget_password(mirror)


def _be_invited(mirror: Any) -> None:
    invited = f"{mirror.username}-invited"
    mirror.sandbox.accounts.create(invited, mirror.password, groups=["group_3"], temporary=True)
    mirror.configure(username=invited)


ACCOUNT_FAULTS = {
    "wrong password": AccountFault(
        lambda m: m.configure(password="not-the-password"),
        _give_password,
        ("Could not log in as", "401", "Nothing was changed.", "Check WME_USERNAME and WME_PASSWORD"),
        asked={"/v1/login": 1},
    ),
    "no password": AccountFault(
        _forget_password,
        _give_password,
        ("No token is stored", "no password is configured", "Nothing was fetched", "`wme auth login`", "WME_PASSWORD"),
        asked={"/v1/login": 0},
    ),
    "refresh token expired": AccountFault(
        _age(timedelta(days=91)),
        _give_password,
        ("used up or expired", "no password is configured", "Existing data is kept", "`wme auth login`"),
        known=True,
        asked={"/v1/token-refresh": 0},
    ),
    "refresh token exhausted": AccountFault(
        _exhaust,
        _give_password,
        ("used up", "no password is configured", "Existing data is kept", "`wme auth login`"),
        known=True,
        asked={"/v1/token-refresh": 1},
    ),
    "tokens revoked": AccountFault(
        _revoke,
        _give_password,
        ("revoked", "no password is configured", "Existing data is kept", "`wme auth login`"),
        known=True,
        earlier=True,
        asked={"/v1/token-refresh": 1},
    ),
    "group without hourly files": AccountFault(
        lambda m: m.sandbox.accounts.set_groups(m.username, ["group_1"]),
        lambda m: m.sandbox.accounts.set_groups(m.username, ["group_3"]),
        ("Could not list the batches for the hour", "403", "Nothing was changed.", "groups have no access"),
        asked={"/v1/login": 1},
        logins=0,
    ),
    "new password required": AccountFault(
        _be_invited,
        lambda m: m.sandbox.accounts.set_password(m.settings.username, m.password),
        ("set a new password", "Nothing was fetched", "`wme auth new-password`"),
        asked={"/v1/login": 1},
    ),
}


@pytest.mark.parametrize("name", ACCOUNT_FAULTS)
def test_a_fault_of_the_account_ends_the_run(mirror: Any, name: str) -> None:
    fault = ACCOUNT_FAULTS[name]
    if fault.known:
        with mirror.client() as client:
            client.account.login()
    if fault.earlier:
        assert mirror.materialize(mirror.newest(2)[:1]).success
    kept = {path: path.stat().st_mtime_ns for path in (*mirror.archives(), *mirror.lake_files())}
    rows = mirror.loaded()
    assert bool(kept) is bool(rows) is fault.earlier
    fault.spoil(mirror)
    mirror.sandbox.requests.clear()
    hours = mirror.newest(1)

    made = mirror.materialize(hours)

    assert not made.success
    for part in fault.says:
        assert part in made.sentence
    assert made.allow_retries is False
    assert made.hours == {}
    for path, most in fault.asked.items():
        assert len(mirror.requests(path)) == most
    assert mirror.requests("/download") == []
    assert {path: path.stat().st_mtime_ns for path in (*mirror.archives(), *mirror.lake_files())} == kept
    assert mirror.loaded() == rows
    assert {state for (hour, _), state in mirror.states().items() if hour in hours} == {"missing"}
    reasons = mirror.rows("SELECT DISTINCT reason FROM hours WHERE batch_hour IN (SELECT unnest(?))", [hours])
    assert reasons == [(made.sentence,)]
    assert {mirror.status_of(hour) for hour in hours} == {"FAILED"}
    assert mirror.unfinished() == []

    fault.mend(mirror)
    mirror.sandbox.requests.clear()
    if fault.earlier:
        assert mirror.materialize(hours).sentence == ""
        assert mirror.loaded() == rows | mirror.truth(hours)
    else:
        with mirror.client() as client:
            assert client.hours.listing(hours[0]).records
    # a spent refresh token is replaced by one login
    assert len(mirror.requests("/v1/login")) == fault.logins
    assert len(mirror.requests("/v1/token-refresh")) <= 1


def test_a_token_revoked_in_the_middle_of_a_run_is_replaced_once(mirror: Any) -> None:
    hours = mirror.newest(2)
    revoke = mirror.at(
        f"download {hour_text(hours[1])}", lambda: mirror.sandbox.accounts.revoke_access(mirror.username)
    )
    made = mirror.materialize(hours, **revoke)
    assert made.sentence == ""
    assert mirror.loaded() == mirror.truth(hours)
    # both downloads of the hour may have been refused; one of them bought the new token
    assert 1 <= len(mirror.requests(status=401)) <= 2
    assert len(mirror.requests("/v1/login")) == 1
    assert len(mirror.requests("/v1/token-refresh")) == 1
    assert len(mirror.requests(status=307)) == 4


def test_a_quota_that_runs_out_ends_the_run_and_keeps_what_came(mirror: Any) -> None:
    hours = mirror.newest(3)
    mirror.sandbox.accounts.set_quota(mirror.username, "batch", limit=3)
    made = mirror.materialize(hours)
    assert not made.success
    for part in ("3 of its 3 batch units", "Earlier downloads are kept.", "Wait until the vendor resets"):
        assert part in made.sentence
    assert made.allow_retries is False
    assert len(mirror.archives()) == 3
    assert mirror.loaded() == mirror.truth(hours[:1])
    assert [mirror.states()[hour, "enwiki"] for hour in hours] == ["loaded", "missing", "missing"]
    assert [mirror.status_of(hour) for hour in hours] == ["MATERIALIZED", "FAILED", "FAILED"]
    # nothing more was tried after the refusal
    assert len(mirror.requests(status=429)) == 1
    mirror.sandbox.accounts.set_quota(mirror.username, "batch")
    mirror.sandbox.requests.clear()
    heals(mirror, hours)
    assert len(mirror.requests()) == 3


# --- names that the service does not have -----------------------------------------------------------------------------


def test_misspelt_names_end_the_run_before_anything_is_fetched_and_leave_no_row(mirror: Any) -> None:
    hours = mirror.newest(2)
    mirror.configure(projects=("enwiki", "frwikki"), namespaces=(0, 1))
    # an hour that is not there yet fails for itself, and notes nothing of such names either
    made = mirror.materialize([*hours, hours[-1] + HOUR])
    (told,) = made.sentences
    assert told == (
        "The service has no project frwikki (did you mean frwiki?) and no namespace 1 (there are 0, 6, 10, 14). "
        "Nothing was fetched. Correct WME_PROJECTS or WME_NAMESPACES."
    )
    assert made.allow_retries is False
    assert (mirror.requests(), mirror.archives(), mirror.states()) == ([], [], {})
    assert mirror.status_of(hours[0]) == "FAILED"


def test_a_project_that_is_quiet_in_every_hour_is_absent_and_costs_no_hour(mirror: Any) -> None:
    hours = mirror.newest(1)
    mirror.configure(projects=("enwiki", "dewiki"))
    # not even where the lists that know its name are out of order
    mirror.sandbox.faults.add(path="/v2/projects", kind="status", status=503, count=None)
    assert mirror.materialize(hours).sentence == ""
    assert mirror.states() == {(hours[0], "enwiki"): "loaded", (hours[0], "dewiki"): "absent"}


# --- an hour that is not there ----------------------------------------------------------------------------------------


def test_an_hour_that_is_not_there_yet_is_told_from_one_that_is_over(mirror: Any) -> None:
    mirror.configure(projects=("enwiki",))
    newest = mirror.newest(1)[0]
    early = mirror.materialize([newest, newest + HOUR])
    assert not early.success
    for part in ("1 of 2 hours failed", "has not published the hour", "Nothing was changed.", "Try again later"):
        assert part in early.sentence
    assert early.allow_retries is True
    assert mirror.states()[newest + HOUR, "enwiki"] == "not_yet"
    assert mirror.states()[newest, "enwiki"] == "loaded"
    assert mirror.status_of(newest) == "MATERIALIZED"

    oldest = (mirror.sandbox.clock.now() - timedelta(hours=47)).replace(minute=0)
    late = mirror.materialize([oldest - HOUR, oldest])
    assert not late.success
    for part in ("1 of 2 hours failed", "no longer has the hour", "two days", "Earlier downloads are kept."):
        assert part in late.sentence
    assert late.allow_retries is False
    assert mirror.states()[oldest - HOUR, "enwiki"] == "past_retention"
    assert mirror.states()[oldest, "enwiki"] == "loaded"

    mirror.sandbox.clock.advance(HOUR)
    assert mirror.materialize([newest, newest + HOUR]).success
    assert mirror.states()[newest + HOUR, "enwiki"] == "loaded"


def test_a_backfill_of_everything_is_not_spoiled_by_hours_from_before_the_mirror(mirror: Any) -> None:
    oldest = (mirror.sandbox.clock.now() - timedelta(hours=47)).replace(minute=0)
    gone = [oldest - 2 * HOUR, oldest - HOUR]
    made = mirror.materialize([*gone, oldest], tags={"dagster/backfill": "everything"})
    assert made.success, made.sentence
    for hour in gone:
        assert mirror.states()[hour, "enwiki"] == "past_retention"
        for layer in ("archive/batches", "lake/article_changes", "warehouse/article_changes"):
            assert made.metadata[layer, hour]["state"] == "past_retention"
            assert mirror.status_of(hour, layer) == "MATERIALIZED"
            chosen = dg.AssetRecordsFilter(dg.AssetKey(layer.split("/")), asset_partitions=[key_of(hour)])
            [record] = mirror.instance.fetch_materializations(chosen, limit=2).records
            assert "no longer has the hour" in record.asset_materialization.description
    assert mirror.loaded().keys() == {(oldest, "enwiki"), (oldest, "frwiki")}

    # what is lost after the mirror began is red in a backfill, too
    mirror.sandbox.clock.advance(timedelta(hours=3))
    lost = mirror.materialize([oldest + HOUR, oldest + 3 * HOUR], tags={"dagster/backfill": "everything"})
    assert not lost.success
    assert "no longer has the hour" in lost.sentence
    assert mirror.status_of(oldest + HOUR) == "FAILED"


# --- the service and the network: one hour meets it, the others are loaded --------------------------------------------


@dataclass
class Outage:
    """A fault of one hour that outlasts all retries, of each kind one. The client's own tests have the others.

    Attributes:
        faults: Arguments of `Faults.add`; `path` is completed by the hour's own.
        says: What the sentence must hold.
        retry: Whether the failure may be tried again.
        most: Requests to the path of the fault at most.
        part: Something of the archive is kept for the next run.
    """

    faults: dict[str, Any]
    says: tuple[str, ...]
    retry: bool = True
    most: int = 3
    part: bool = False


LIST = ""
DOWNLOAD = "/enwiki_namespace_0/download"
OUTAGES = {
    "list answers 500": Outage(
        {"path": LIST, "kind": "status", "status": 500},
        ("Could not list the batches", "500", "after 2 retries", "Earlier downloads are kept", "Try again later"),
    ),
    "list answers a page with 404": Outage(
        {"path": LIST, "kind": "html", "status": 404},
        ("Could not list the batches", "HTML page", "404", "Nothing was changed.", "check the configured"),
        retry=False,
        most=1,
    ),
    "download answers 429": Outage(
        {"path": DOWNLOAD, "kind": "status", "status": 429},
        ("Could not get the download URL of enwiki_namespace_0", "429", "Try again later"),
    ),
    "signed addresses are refused": Outage(
        {"path": DOWNLOAD, "kind": "expired"},
        ("rejected two new signed URLs for enwiki_namespace_0", "Downloaded bytes are kept.", "Try again later"),
    ),
    "bodies are cut": Outage(
        {"path": DOWNLOAD, "kind": "cut", "after": 1000},
        ("Could not fetch enwiki_namespace_0", "bytes are kept", "Retry to resume the download."),
        most=1,
        part=True,
    ),
    "wrong bytes": Outage(
        {"path": DOWNLOAD, "kind": "flip"},
        ("Two downloads of", "No file was written", "Try again later", "report the error to the vendor"),
        retry=False,
        most=2,
    ),
    "object store answers 503": Outage(
        {"path": DOWNLOAD, "kind": "status", "status": 503, "where": "objects"},
        ("Could not fetch enwiki_namespace_0", "503", "bytes are kept", "Retry to resume the download"),
        most=1,
    ),
}


def _hour_path(hour: datetime) -> str:
    return f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}"


@pytest.mark.parametrize("retry", [True, False], ids=["that may end", "for good"])
def test_outages_cost_an_hour_each_and_the_next_run_heals_them(mirror: Any, retry: bool) -> None:
    outages = {name: outage for name, outage in OUTAGES.items() if outage.retry is retry}
    hours = mirror.newest(len(outages) + 1)
    *bad, good = hours
    paths = {name: _hour_path(hour) + outages[name].faults["path"] for name, hour in zip(outages, bad, strict=True)}
    for name, outage in outages.items():
        mirror.sandbox.faults.add(**outage.faults | {"path": paths[name], "count": None})

    made = mirror.materialize(hours)

    assert not made.success
    first, *told = made.sentence.split("\n")
    assert first == f"{len(bad)} of {len(hours)} hours failed. The other hour is loaded."
    assert made.allow_retries is retry
    # a file that cannot be had costs its own project alone
    partial = [hour for hour, one in zip(bad, outages.values(), strict=True) if one.faults["path"] == DOWNLOAD]
    others = {place: count for place, count in mirror.truth(partial).items() if place[1] != "enwiki"}
    assert mirror.loaded() == mirror.truth([good]) | others
    assert made.hours["warehouse/article_changes"] == [good]
    assert mirror.status_of(good) == "MATERIALIZED"
    assert len(mirror.lake_files()) == 2 + len(partial)
    for hour, (name, outage), line in zip(bad, outages.items(), told, strict=True):
        assert line.startswith(f"- {hour_text(hour)}: "), name
        for part in outage.says:
            assert part in line, name
        assert len(mirror.requests(paths[name])) <= outage.most, name
        assert mirror.status_of(hour) == "FAILED", name
        assert mirror.states()[hour, "enwiki"] == "missing", name
        reasons = mirror.rows("SELECT DISTINCT reason FROM hours WHERE batch_hour = ? AND state = 'missing'", [hour])
        assert reasons[0][0] in line, name
        assert [p.name for p in mirror.archives(hour) if p.name.startswith("enwiki")] == [], name
        assert mirror.layout.batch_list(ARTICLE_CHANGES, hour).exists() is (hour in partial), name
        folder = mirror.layout.archive_hour(ARTICLE_CHANGES, hour).relative_to(mirror.data).as_posix()
        assert any(left.startswith(folder) for left in mirror.unfinished()) is outage.part, name

    mirror.sandbox.faults.clear()
    mirror.sandbox.requests.clear()
    heals(mirror, hours)
    assert len(mirror.requests(status=307)) <= 2 * len(bad)
    # of the body that was cut the store sent the rest only
    sent = [one.status for one in mirror.sandbox.requests if one.path.endswith("/enwiki_namespace_0.tar.gz")]
    assert sent.count(206) == sum(outage.part for outage in outages.values())


# --- archives that are damaged at the service itself, under their true MD5 --------------------------------------------

DAMAGES = {
    "truncated": ({"kind": "gzip_truncated"}, ("gzip data is damaged or truncated", "Nothing was written to the lake")),
    "without ndjson": ({"kind": "no_ndjson"}, ("contains no .ndjson member, only README.txt", "Nothing was written")),
}


def test_damaged_archives_cost_their_hours_until_the_service_replaces_them(mirror: Any) -> None:
    good, *hours = mirror.newest(len(DAMAGES) + 1)
    bad = dict(zip(DAMAGES, hours, strict=True))
    hours = [good, *hours]
    for name, (damage, _) in DAMAGES.items():
        mirror.sandbox.faults.add(path=mirror.download_path(bad[name], "enwiki"), listed=True, **damage)

    made = mirror.materialize(hours)

    assert not made.success
    first, *told = made.sentence.split("\n")
    assert first == f"{len(bad)} of {len(hours)} hours failed. The other hour is loaded."
    assert made.allow_retries is False
    others = {place: count for place, count in mirror.truth(list(bad.values())).items() if place[1] != "enwiki"}
    assert others
    assert mirror.loaded() == mirror.truth([good]) | others
    assert mirror.unfinished() == []
    for line, (name, (_, says)) in zip(told, DAMAGES.items(), strict=True):
        hour = bad[name]
        for part in (
            f"- {hour_text(hour)}: Nothing was loaded for enwiki namespace 0. The hour's other projects are loaded. ",
            f" loaded. enwiki namespace 0: {mirror.layout.archive_hour(ARTICLE_CHANGES, hour)}/enwiki_namespace_0.",
            *says,
            "Remove the archive and fetch it again, if the service still offers it.",
        ):
            assert part in line, name
        reasons = mirror.rows("SELECT DISTINCT reason FROM hours WHERE batch_hour = ? AND state = 'missing'", [hour])
        assert reasons[0][0] in line, name
        assert mirror.status_of(hour) == "FAILED", name
        for layer in ("lake", "warehouse"):
            key = dg.AssetKey([layer, "article_changes"])
            found = {
                record.partition_key: record.asset_observation.description
                for record in mirror.instance.fetch_observations(key, limit=10).records
            }
            assert found.keys() == set(map(key_of, bad.values())), "nothing beside the good hour"
            assert says[0] in found[key_of(hour)], name
        # the service's bytes are kept as served: the archive is whole, only the layers behind it are not
        assert mirror.instance.fetch_observations(dg.AssetKey(["archive", "batches"]), limit=10).records == []
        assert mirror.status_of(hour, "archive/batches") == "MATERIALIZED", name
        assert len(mirror.archives(hour)) == 2, name
        files = [path for path in mirror.lake_files() if f"hour={hour:%H}" in str(path)]
        assert not [path for path in files if path.name.startswith("en")], name
        assert mirror.states()[hour, "enwiki"] == "missing", name
    assert mirror.status_of(good) == "MATERIALIZED"
    # while the service offers the same bytes, the same sentences and no second download
    asked = len(mirror.requests())
    assert mirror.materialize(bad.values()).sentence.split("\n")[1:] == told
    assert len(mirror.requests()) == asked
    assert mirror.loaded() == mirror.truth([good]) | others

    mirror.sandbox.faults.clear()
    heals(mirror, hours)
    assert {len(mirror.archives(hour)) for hour in bad.values()} == {3}


PASSING = {
    "502 twice": ({"path": DOWNLOAD, "kind": "status", "status": 502, "count": 2}, {DOWNLOAD: 3}),
    "signed address expired": ({"path": DOWNLOAD, "kind": "expired"}, {DOWNLOAD: 2}),
    "body cut": ({"path": DOWNLOAD, "kind": "cut"}, {DOWNLOAD: 1}),
    "wrong bytes once": ({"path": DOWNLOAD, "kind": "flip"}, {DOWNLOAD: 2, "/enwiki_namespace_0": 1}),
}
LINES = {
    "malformed": ({"kind": "line_malformed"}, "Not valid JSON"),
    "number became text": ({"kind": "line_type"}, "identifier"),
    "invalid UTF-8": ({"kind": "line_utf8"}, "Not valid UTF-8"),
    "a line of twenty megabytes": ({"kind": "line_huge", "size": 20_000_000}, None),
}


def test_passing_faults_are_got_over_and_bad_lines_are_rejected_whole_and_every_other_loaded(mirror: Any) -> None:
    """Of each hour one fault passes, and the other project's archive has an odd line. One more has no line at all."""
    hours = mirror.newest(len(PASSING))
    set_faults = [
        mirror.sandbox.faults.add(**fault | {"path": _hour_path(hour) + fault["path"]})
        for hour, (fault, _) in zip(hours, PASSING.values(), strict=True)
    ]
    bad = dict(zip(LINES, hours, strict=True))
    for name, (damage, _) in LINES.items():
        mirror.sandbox.faults.add(path=mirror.download_path(bad[name], "frwiki"), listed=True, **damage)
    empty, huge = hours[0] - HOUR, bad["a line of twenty megabytes"]
    mirror.sandbox.faults.add(path=mirror.download_path(empty, "frwiki"), listed=True, kind="empty_member")

    made = mirror.materialize([empty, *hours])

    assert made.sentence == ""
    for hour, fault, (name, (_, expected)) in zip(hours, set_faults, PASSING.items(), strict=True):
        assert fault.remaining == 0, f"{name}: the fault was not met"
        for path, count in expected.items():
            assert len(mirror.requests(_hour_path(hour) + path)) == count, name
    assert mirror.unfinished() == []
    truth = mirror.truth([empty, *hours])
    del truth[empty, "frwiki"]
    truth[huge, "frwiki"] += 1
    assert mirror.loaded() == truth
    assert mirror.states() == dict.fromkeys(truth, "loaded") | {(empty, "frwiki"): "empty"}
    assert [pq.read_metadata(path).num_rows for path in mirror.lake_files() if f"hour={empty:%H}" in str(path)].count(0)
    [(page,)] = mirror.rows("SELECT article_id FROM article_changes WHERE name = 'An extremely large page'")
    mirror.publish()
    bodies = mirror.warehouse.sql("SELECT length(wikitext) FROM article_bodies WHERE article_id = ?", [page]).rows
    assert len(bodies) == 1
    assert bodies[0][0] > 19_999_000

    rejects = mirror.rows(
        "SELECT batch_hour, project_id, archive, member, line_number, reason, raw FROM rejects ORDER BY batch_hour"
    )
    counts = "SELECT reject_count FROM hours WHERE batch_hour = ? AND project_id = 'frwiki'"
    wrong = {name: reason for name, (_, reason) in LINES.items() if reason}
    for (hour, project, archive, member, line, why, raw), (name, reason) in zip(rejects, wrong.items(), strict=True):
        assert (hour, project) == (bad[name], "frwiki"), name
        assert (mirror.layout.archive / archive).is_file(), name
        assert member.endswith(".ndjson"), name
        assert line >= 1, name
        assert reason in why, name
        assert raw.startswith(b'{"'), name
        assert not raw.endswith(b"\n"), name
        assert made.metadata["lake/article_changes", hour]["rejects"] == 1, name
        assert mirror.rows(counts, [hour]) == [(1,)], name
    assert {name for name, passed in made.checks.items() if not passed} == {"rejects_share"}
    assert len(mirror.lake_files("rejects")) == len(wrong)

    mirror.sandbox.faults.clear()
    heals(mirror, [empty, *hours])


# --- the disk ---------------------------------------------------------------------------------------------------------


def test_too_little_disk_is_said_before_anything_is_fetched(mirror: Any) -> None:
    hours = mirror.newest(2)
    mirror.configure(min_free_gb=1e6)
    made = mirror.materialize(hours)
    assert not made.success
    for part in ("needs about", "for 2 hours", "Nothing was fetched.", "Free some space", "WME_MIN_FREE_GB"):
        assert part in made.sentence
    assert mirror.requests() == []
    assert mirror.archives() == []
    assert mirror.lake_files() == []
    assert set(mirror.states().values()) == {"missing"}


# --- what was landed is damaged later ---------------------------------------------------------------------------------


def test_an_archive_damaged_on_disk_is_noticed_and_fetched_again(mirror: Any) -> None:
    hours = mirror.newest(1)
    assert mirror.materialize(hours, ["archive/batches"]).success
    victim = next(path for path in mirror.archives() if path.name.startswith("enwiki"))
    good = victim.read_bytes()
    victim.write_bytes(good[: len(good) // 2])
    mirror.sandbox.requests.clear()
    assert mirror.materialize(hours).sentence == ""
    assert victim.read_bytes() == good
    assert len(mirror.requests(status=307)) == 1
    assert mirror.loaded() == mirror.truth(hours)
    assert json.loads(victim.with_name(victim.name + ".json").read_bytes())["size_bytes"] == len(good)


def test_reference_lists_say_what_failed_and_keep_what_was_there(mirror: Any) -> None:
    assert mirror.reference().success
    before = mirror.rows("SELECT count(*) FROM projects")
    kept = mirror.layout.list_archive(named("projects")).read_bytes()
    mirror.sandbox.faults.add(path="/v2/projects", kind="html", count=None)
    made = mirror.reference()
    assert not made.success
    assert "Could not list the projects" in made.sentence
    assert made.allow_retries is True
    assert mirror.layout.list_archive(named("projects")).read_bytes() == kept
    assert mirror.rows("SELECT count(*) FROM projects") == before
    assert mirror.unfinished() == []
