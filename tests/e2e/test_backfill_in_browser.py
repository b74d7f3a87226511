"""A backfill as an operator runs it: the Dagster UI in a real browser, the sandbox as the service.

Each is a separate process. A backfill is launched by clicking, of which one hour has a damaged file. Its run is
repeated when the file is whole.
"""

import contextlib
import re
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from assets.layers import HOUR, key_of
from resources import datasets
from resources.formatting import hour_text
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import Warehouse
from tests.e2e.conftest import until
from tests.e2e.interface import PROJECTS, chromium

LAYERS = ("archive/batches", "lake/article_changes", "warehouse/article_changes")

#: The newest hour that any service has published by now.
NEWEST = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR
HOURS = [NEWEST - back * HOUR for back in (2, 1, 0)]
DAMAGED = NEWEST - HOUR

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def mirror(served):
    return served


@pytest.fixture(scope="module")
def page():
    with chromium() as browser:
        # the catalog draws the assets that are in view: high enough for all of them
        page = browser.new_page(viewport={"width": 1500, "height": 2000}, timezone_id="UTC")
        page.set_default_timeout(120_000)
        yield page


def show(page, url):
    """Go to a page of the UI, by its own navigation where it is open already: loading it anew costs a second."""
    if page.url.startswith("http"):
        page.evaluate("url => { history.pushState({}, '', url); dispatchEvent(new PopStateEvent('popstate')) }", url)
    else:
        page.goto(url)


# --- what an operator does in the pages ------------------------------------------------------------------------------


def launch_backfill(page, mirror, hours):
    """Tick the three layers in the catalog, choose the hours, launch; returns the backfill's identifier."""
    page.goto(f"{mirror.url}/assets")  # anew: nothing is ticked
    for layer in LAYERS:
        page.locator("label", has=page.get_by_test_id(f"checkbox-{layer}")).click()
    page.get_by_role("button", name="Materialize selected (3)").click()
    page.get_by_placeholder("No matching partitions").fill(text_of(hours))
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{len(hours)} partitions", exact=True)).to_be_visible()
    page.get_by_role("button", name="Launch backfill").click()
    told = page.get_by_text(re.compile("Created backfill"))
    expect(told).to_be_visible()
    found = re.search(r"Created backfill\s+(\w+)", told.inner_text())
    assert found is not None
    return found[1]


def show_partitions(page, mirror, layer, hours, chosen):
    """Open a layer's partitions, narrow them to the hours, and choose one of them."""
    show(page, f"{mirror.url}/assets/{layer}?view=partitions")
    page.locator("input[type=text]").first.fill(text_of(hours))
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{len(hours)} Partitions Selected")).to_be_visible()
    page.get_by_text(key_of(chosen), exact=True).first.click()


def text_of(hours):
    return f"[{key_of(hours[0])}...{key_of(hours[-1])}]"


@dataclass
class Backfill:
    identifier: str
    status: str
    run: dict[str, Any]


@pytest.fixture(scope="module")
def backfill(mirror, page):
    """The one that is launched by hand: the daemon takes it up at a tick, of which one comes every 30 seconds."""
    mirror.fault(DAMAGED, "frwiki", kind="flip", count=None)
    launched = launch_backfill(page, mirror, HOURS)
    page.goto("about:blank")  # an open page asks the server all the time, and so would we without a pause
    return until(lambda: ended(mirror, launched), 400, "The backfill's run ends", mirror.log, pause=1)


def ended(mirror, identifier):
    """The backfill, once its run has ended; the daemon closes it at its next tick."""
    told = mirror.ask(
        """query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill {
             status runs { runId status assetSelection { path } tags { key value } } } } }""",
        id=identifier,
    )["partitionBackfillOrError"]
    if not told["runs"]:
        return None
    (run,) = told["runs"]  # one run for all layers of all hours
    return Backfill(identifier, told["status"], run) if run["status"] in {"SUCCESS", "FAILURE", "CANCELED"} else None


# --- what must come of it --------------------------------------------------------------------------------------------


def rows_of(mirror, run, hours):
    """The rows that a run told of these hours and of no others, which are those that are held, by partition."""
    told = {layer: mirror.materializations(layer, run) for layer in LAYERS}
    for layer in LAYERS:
        assert set(told[layer]) == {key_of(hour) for hour in hours}, layer
    held = {
        audit.batch_hour: audit.row_count
        for audit in Warehouse(mirror.data).audit(hours, dataset=datasets.ARTICLE_CHANGES)
    }
    for hour in hours:
        archive, lake, warehouse = (told[layer][key_of(hour)] for layer in LAYERS)
        assert archive["files"] == len(PROJECTS)
        assert lake["dagster/partition_row_count"] == mirror.lines(hour) > 0
        rows = warehouse["dagster/partition_row_count"]
        assert rows == lake["dagster/partition_row_count"] - warehouse["duplicates"] == held[hour]
    return {key_of(hour): held[hour] for hour in hours}


def test_a_backfill_of_all_layers_is_one_run_and_its_damaged_hour_is_red_with_its_sentence(backfill, mirror, page):
    run = backfill.run
    assert {"/".join(key["path"]) for key in run["assetSelection"]} == set(LAYERS)
    tags = {tag["key"]: tag["value"] for tag in run["tags"]}
    assert tags["dagster/asset_partition_range_start"] == key_of(HOURS[0])
    assert tags["dagster/asset_partition_range_end"] == key_of(HOURS[-1])
    assert run["status"] == "FAILURE"
    good = [hour for hour in HOURS if hour != DAMAGED]
    rows_of(mirror, run["runId"], good)
    warehouse = Warehouse(mirror.data)
    held = {audit.batch_hour: audit.row_count for audit in warehouse.audit(HOURS, dataset=datasets.ARTICLE_CHANGES)}
    # of the red hour the other projects are loaded
    assert sorted(held) == list(HOURS)
    assert all(held.values())
    rows = warehouse.coverage(DAMAGED, DAMAGED + timedelta(hours=1), published=False, dataset=datasets.ARTICLE_CHANGES)
    assert {row.project_id for row in rows if row.state == "missing"} == {"frwiki"}
    assert {row.state for row in rows if row.project_id != "frwiki"} == {"loaded"}
    (reason,) = {row.reason for row in rows if row.state == "missing"}
    assert "MD5" in reason

    assert {mirror.partitions(layer) for layer in LAYERS} == {(len(good), 1)}
    for layer in (LAYERS[0], LAYERS[-1]):
        show_partitions(page, mirror, layer, HOURS, DAMAGED)
        expect(page.get_by_text("Materialized (2)")).to_be_visible()
        expect(page.get_by_text("Failed (1)")).to_be_visible()
        expect(page.get_by_text("failed, and did not materialize this asset")).to_be_visible()
        page.get_by_role("button", name="View all historical events").click()
        page.get_by_role("row").filter(has_text="Observation").get_by_text(key_of(DAMAGED)).click()
        expect(page.get_by_text(reason)).to_be_visible()
    show(page, f"{mirror.url}/runs/{run['runId']}")
    expect(page.get_by_text("1 of 3 hours failed. The other 2 hours are loaded.").first).to_be_visible()
    expect(page.get_by_text(reason).first).to_be_visible()


def test_the_password_stands_on_no_page_and_in_no_file_of_the_instance(backfill, mirror, page):
    location = mirror.ask("{ workspaceOrError { ... on Workspace { locationEntries { name } } } }")
    (entry,) = location["workspaceOrError"]["locationEntries"]
    assert entry["name"] == "enterprise-content-mirror"
    show(page, f"{mirror.url}/locations/{entry['name']}/resources/enterprise")
    expect(page.get_by_text("lookups_per_day", exact=True).first).to_be_visible()
    assert mirror.password not in page.content()
    kept = [path for path in (mirror.data / "dagster").rglob("*") if path.is_file()]
    assert kept
    for path in (*kept, mirror.log):
        # SQLite removes the files beside a database when the last process closes it
        with contextlib.suppress(FileNotFoundError):
            assert mirror.password.encode() not in path.read_bytes(), path


def test_the_pages_ask_no_other_host_and_complain_of_nothing(mirror, page):
    hosts, complaints = set(), []
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for path, shown in (
        ("/assets", "published"),
        ("/asset-groups", "archive"),
        ("/automation", "discover_hours"),
        ("/jobs", "hour_to_published"),
        ("/deployment/concurrency", "snapshots"),
    ):
        show(page, mirror.url + path)
        expect(page.get_by_text(shown).first).to_be_visible()
    assert hosts == {mirror.url.removeprefix("http://")}
    assert complaints == []


def test_the_daemon_closes_the_backfill_with_one_run_for_all(backfill, mirror, page):
    def closed():
        found = ended(mirror, backfill.identifier)
        return found if found is not None and found.status not in {"REQUESTED", "COMPLETING"} else None

    found = until(closed, 120, "The daemon closes the backfill", mirror.log, pause=1)
    assert (found.status, found.run["runId"]) == ("COMPLETED_FAILED", backfill.run["runId"])
    show(page, f"{mirror.url}/runs/b/{found.identifier}")
    expect(page.get_by_text("100% completed")).to_have_count(len(LAYERS))


# --- what else there is to look at -----------------------------------------------------------------------------------


def test_an_asset_shows_its_columns_its_plots_and_that_it_is_fresh(backfill, mirror, page):
    def fresh():
        nodes = mirror.ask("{ assetNodes { assetKey { path } freshnessStatusInfo { freshnessStatus } } }")["assetNodes"]
        told = {"/".join(node["assetKey"]["path"]): node["freshnessStatusInfo"] for node in nodes}
        return True if all(told[layer] == {"freshnessStatus": "HEALTHY"} for layer in LAYERS) else None

    until(fresh, 120, "The daemon looks at the freshness", mirror.log, pause=1)
    show(page, f"{mirror.url}/assets/lake/article_changes")
    described = next(column for column in ARTICLE_CHANGES if column.name == "event_at")
    expect(page.get_by_text(described.description)).to_be_visible()
    expect(page.get_by_text("Passing").first).to_be_visible()
    expect(page.get_by_text("Fails if more than 12 hours since last materialization")).to_be_visible()
    page.get_by_text("Plots", exact=True).first.click()
    for plotted in ("dagster/partition_row_count", "ndjson_bytes", "lake_bytes", "rejects"):
        expect(page.get_by_text(plotted, exact=True)).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()


def test_the_checks_name_the_hour_that_failed(backfill, mirror, page):
    checks = f"{mirror.url}/assets/published/warehouse?view=checks"
    show(page, checks)
    page.get_by_role("button", name="Execute all").click()
    expect(page.get_by_text(re.compile("Launched run"))).to_be_visible()
    page.goto("about:blank")
    newest_run(mirror, "SUCCESS")
    page.goto(checks)
    page.get_by_text("no_failed_hours", exact=True).first.click()
    expect(page.get_by_text(f"article_changes: 1 hour failed: {hour_text(DAMAGED)}")).to_be_visible()
    page.get_by_text("last_48_hours_covered", exact=True).first.click()
    expect(page.get_by_text(f"frwiki namespace 0 {hour_text(DAMAGED)}: missing")).to_be_visible()


def test_a_failed_hour_is_whole_after_its_cause_is_gone_and_its_run_is_repeated(backfill, mirror, page):
    request = urllib.request.Request(f"{mirror.service}/sandbox/faults", method="DELETE")
    with urllib.request.urlopen(request, timeout=120):
        pass
    show(page, f"{mirror.url}/runs/{backfill.run['runId']}")
    page.get_by_role("button", name=re.compile("Re-execute")).first.click()
    # the run is one of a backfill, whose status stays as it is
    page.get_by_role("button", name="Confirm").click()
    expect(page).not_to_have_url(re.compile(backfill.run["runId"]))  # the page is that of the new run
    page.goto("about:blank")
    run = newest_run(mirror, "SUCCESS")
    assert {"key": "dagster/parent_run_id", "value": backfill.run["runId"]} in run["tags"]
    assert {mirror.partitions(layer) for layer in LAYERS} == {(len(HOURS), 0)}
    rows = rows_of(mirror, run["runId"], HOURS)
    show_partitions(page, mirror, LAYERS[-1], HOURS, DAMAGED)
    expect(page.get_by_text("Materialized (3)")).to_be_visible()
    expect(page.get_by_text("Failed (0)")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="dagster/partition_row_count")
    expect(row).to_contain_text(str(rows[key_of(DAMAGED)]))


def newest_run(mirror, status):
    """The run that was launched last, once it has ended as it should."""

    def look():
        (run,) = mirror.ask(
            "{ runsOrError(limit: 1) { ... on Runs { results { runId status tags { key value } } } } }"
        )["runsOrError"]["results"]
        return run if run["status"] in {"SUCCESS", "FAILURE", "CANCELED"} else None

    run = until(look, 200, "The run ends", mirror.log, pause=1)
    assert run["status"] == status, mirror.log.read_text()[-4000:]
    return run
