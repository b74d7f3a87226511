"""Faults of an account, the service, the network, an archive or the disk, through the whole pipeline.

Each fault is followed from its sentence over what stays in the archive, the lake, the warehouse and the coverage to the
next run without it, which must end as if nothing had happened.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from assets.layers import HOUR, key_of
from resources.datasets import ARTICLE_CHANGES, named
from resources.formatting import hour_text
from tests.integration.daemon import PASSWORD
from tests.local_cluster import free_port
from tests.relay import Relay


def test_tokens_that_were_revoked_end_the_run_and_one_login_heals_it(mirror: Any) -> None:
    assert mirror.materialize(mirror.newest(2)[:1]).success
    kept = {path: path.stat().st_mtime_ns for path in (*mirror.archives(), *mirror.lake_files())}
    rows = mirror.loaded()
    assert (bool(kept), bool(rows)) == (True, True)
    mirror.sandbox.accounts.revoke_all(mirror.settings.username)
    mirror.configure(password=None)
    mirror.sandbox.requests.clear()
    hours = mirror.newest(1)
    made = mirror.materialize(hours)
    for part in ("revoked", "no password is configured", "Existing data is kept", "`wme auth login`"):
        assert part in made.sentence
    assert (made.success, made.allow_retries, made.metadata) == (False, False, {})
    assert (len(mirror.requests("/v1/token-refresh")), mirror.requests("/download")) == (1, [])
    assert {path: path.stat().st_mtime_ns for path in (*mirror.archives(), *mirror.lake_files())} == kept
    assert mirror.loaded() == rows
    assert {state for (hour, _), state in mirror.states().items() if hour in hours} == {"missing"}
    reasons = mirror.rows("SELECT DISTINCT reason FROM hours WHERE batch_hour IN (SELECT unnest(?))", [hours])
    assert reasons == [(made.sentence,)]
    assert ({mirror.status_of(hour) for hour in hours}, mirror.unfinished()) == ({"FAILED"}, [])

    mirror.configure(password=PASSWORD)
    mirror.sandbox.requests.clear()
    assert (mirror.materialize(hours).sentence, mirror.loaded()) == ("", rows | mirror.truth(hours))
    assert len(mirror.requests("/v1/login")) == 1
    assert len(mirror.requests("/v1/token-refresh")) <= 1


def test_misspelt_names_end_the_run_before_anything_is_fetched_and_leave_no_row(mirror: Any) -> None:
    hours = mirror.newest(2)
    mirror.configure(projects=("enwiki", "frwikki"), namespaces=(0, 1))
    # an hour that is not there yet fails for itself, and notes nothing of such names either
    made = mirror.materialize([*hours, hours[-1] + HOUR])
    assert made.sentence == (
        "The service has no project frwikki (did you mean frwiki?) and no namespace 1 (there are 0, 6, 10, 14). "
        "Nothing was fetched. Correct WME_PROJECTS or WME_NAMESPACES."
    )
    assert (made.allow_retries, mirror.requests(), mirror.archives(), mirror.states()) == (False, [], [], {})
    assert mirror.status_of(hours[0]) == "FAILED"


def test_a_project_that_is_quiet_in_every_hour_is_absent_and_costs_no_hour(mirror: Any) -> None:
    hours = mirror.newest(1)
    mirror.configure(projects=("enwiki", "dewiki"))
    # not even where the lists that know its name are out of order
    mirror.sandbox.faults.add(path="/v2/projects", kind="status", status=503, count=None)
    assert mirror.materialize(hours).sentence == ""
    assert mirror.states() == {(hours[0], "enwiki"): "loaded", (hours[0], "dewiki"): "absent"}


def test_a_backfill_of_everything_is_not_spoiled_by_hours_from_before_the_mirror(mirror: Any) -> None:
    oldest = (mirror.sandbox.clock.now() - timedelta(hours=47)).replace(minute=0)
    gone = [oldest - 2 * HOUR, oldest - HOUR]
    made = mirror.materialize([*gone, oldest], tags={"dagster/backfill": "everything"})
    assert made.success, made.sentence
    for hour in gone:
        assert mirror.states()[hour, "enwiki"] == "past_retention"
        for layer in ("archive/batches", "lake/article_changes", "warehouse/article_changes"):
            state = made.metadata[layer, hour]["state"]
            assert (state, mirror.status_of(hour, layer)) == ("past_retention", "MATERIALIZED")
            chosen = dg.AssetRecordsFilter(dg.AssetKey(layer.split("/")), asset_partitions=[key_of(hour)])
            [record] = mirror.instance.fetch_materializations(chosen, limit=2).records
            assert "no longer has the hour" in record.asset_materialization.description
    assert mirror.loaded().keys() == {(oldest, "enwiki"), (oldest, "frwiki")}
    # in a run by itself it is red
    alone = mirror.materialize(gone[1:])
    assert (alone.success, alone.allow_retries) == (False, False)
    assert "no longer has the hour" in alone.sentence

    # what is lost after the mirror began is red in a backfill, too
    mirror.sandbox.clock.advance(timedelta(hours=3))
    lost = mirror.materialize([gone[0], oldest + 3 * HOUR], tags={"dagster/backfill": "everything"})
    assert lost.sentence.startswith("2 of 4 hours failed. The other 2 hours are loaded.")
    assert "no longer has the hour" in lost.sentence
    assert mirror.status_of(oldest + HOUR) == "FAILED"


def test_a_range_without_an_hour_and_hours_that_cannot_be_there_fail_and_say_why(mirror: Any) -> None:
    early, late = mirror.newest(2)
    outside = ([late, early], [datetime.now(UTC) + HOUR], [early - timedelta(days=365)])
    for hours, why in (*((one, "earlier hour") for one in outside), ([late + 24 * HOUR], "has not published")):
        made = mirror.materialize(hours)
        assert not made.success
        assert why in made.sentences[0]
        assert not mirror.archives()


def test_a_damaged_archive_costs_its_hour_until_the_service_replaces_it(mirror: Any) -> None:
    hours = [good, bad] = mirror.newest(2)
    mirror.sandbox.faults.add(path=mirror.download_path(bad, "enwiki"), listed=True, kind="gzip_truncated")
    made = mirror.materialize(hours)
    first, line = made.sentence.split("\n")
    assert (first, made.success, made.allow_retries) == ("1 of 2 hours failed. The other hour is loaded.", False, False)
    others = {place: count for place, count in mirror.truth([bad]).items() if place[1] != "enwiki"}
    assert others
    assert (mirror.loaded(), mirror.unfinished()) == (mirror.truth([good]) | others, [])
    for part in (
        f"- {hour_text(bad)}: Nothing was loaded for enwiki namespace 0. The hour's other projects are loaded. ",
        f" loaded. enwiki namespace 0: {mirror.layout.archive_hour(ARTICLE_CHANGES, bad)}/enwiki_namespace_0.",
        "gzip data is damaged or truncated",
        "Nothing was written to the lake",
        "Remove the archive and fetch it again, if the service still offers it.",
    ):
        assert part in line
    reasons = mirror.rows("SELECT DISTINCT reason FROM hours WHERE batch_hour = ? AND state = 'missing'", [bad])
    assert reasons[0][0] in line
    for layer in ("lake", "warehouse"):
        [record] = mirror.instance.fetch_observations(dg.AssetKey([layer, "article_changes"]), limit=10).records
        assert record.partition_key == key_of(bad)
        assert "gzip data is damaged or truncated" in record.asset_observation.description
    # the service's bytes are kept as served: the archive is whole, only the layers behind it are not
    assert mirror.instance.fetch_observations(dg.AssetKey(["archive", "batches"]), limit=10).records == []
    layers = ("archive/batches", "warehouse/article_changes")
    assert [mirror.status_of(bad, one) for one in layers] == ["MATERIALIZED", "FAILED"]
    assert len(mirror.archives(bad)) == 2
    assert [path.name[:2] for path in mirror.lake_files() if f"hour={bad:%H}" in str(path)] == ["fr"]
    assert (mirror.states()[bad, "enwiki"], mirror.status_of(good)) == ("missing", "MATERIALIZED")
    # while the service offers the same bytes, the same sentence and no second download
    asked = len(mirror.requests())
    assert (mirror.materialize([bad]).sentence.split("\n")[1:], len(mirror.requests())) == ([line], asked)
    assert mirror.loaded() == mirror.truth([good]) | others

    mirror.sandbox.faults.clear()
    assert (mirror.materialize(hours).sentence, mirror.loaded()) == ("", mirror.truth(hours))
    assert (set(mirror.states().values()), mirror.rows("SELECT count(*) FROM rejects")) == ({"loaded"}, [(0,)])
    assert ({*map(mirror.status_of, hours)}, mirror.unfinished()) == ({"MATERIALIZED"}, [])
    assert len(mirror.archives(bad)) == 3


def test_reference_lists_say_what_failed_and_keep_what_was_there(mirror: Any) -> None:
    assert mirror.run("reference").success
    before = mirror.rows("SELECT count(*) FROM projects")
    kept = mirror.layout.list_archive(named("projects")).read_bytes()
    mirror.sandbox.faults.add(path="/v2/projects", kind="html", count=None)
    made = mirror.run("reference")
    assert (made.success, made.allow_retries) == (False, True)
    assert "Could not list the projects" in made.sentence
    assert mirror.layout.list_archive(named("projects")).read_bytes() == kept
    assert (mirror.rows("SELECT count(*) FROM projects"), mirror.unfinished()) == (before, [])


@pytest.fixture
def relay(mirror: Any) -> Iterator[Relay]:
    relay = Relay(mirror.sandbox.url)
    mirror.configure(base_url=relay.url)
    yield relay
    relay.close()


@pytest.mark.parametrize("host", ["the service", "accounts", "the object store"])
def test_the_run_says_so_once_and_loads_what_is_archived(mirror: Any, relay: Relay, host: str) -> None:
    mirror.configure(projects=("enwiki",))
    hours = mirror.newest(3)
    # an hour that is archived and not loaded, as a killed run leaves it
    assert mirror.materialize(hours[1:2], ["archive/batches"]).success
    username = mirror.settings.username
    if host == "the service":
        relay.is_last = lambda path: path == f"/v2/batches/{hours[0]:%Y-%m-%d}/{hours[0]:%H}"
    elif host == "accounts":
        mirror.configure(auth_url=f"http://127.0.0.1:{free_port()}", username=f"{username}-2")
    else:
        port = mirror.sandbox.object_url.rpartition(":")[2].encode()
        relay.replaced = b":" + port, b":" + str(free_port()).encode().zfill(len(port))
    listed, made = len(mirror.requests("")), mirror.materialize(hours)
    assert made.sentence.count("the connection was refused (") == 1
    first, *lines = made.sentence.split("\n")
    assert (first, len(lines)) == ("2 of 3 hours failed. The other hour is loaded.", 1)
    assert lines[0].startswith(f"- 2 hours from {hours[0]:%Y-%m-%d %H:00} to {hours[2]:%Y-%m-%d %H:00}: Could not ")
    assert (made.allow_retries, mirror.loaded()) == (True, mirror.truth(hours[1:2]))
    # of the object store's loss only the lists of the hours came before; none of them is asked for again
    assert len(mirror.requests("")) - listed <= 3 + 3
    mirror.configure(auth_url=mirror.sandbox.url, username=username)
    relay.replaced = b"", b""
    if host == "the service":
        relay.mend()
    assert (mirror.materialize(hours).success, mirror.loaded()) == (True, mirror.truth(hours))
