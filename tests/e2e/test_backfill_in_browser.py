"""A backfill launched by clicks in the Dagster UI, and its hour whose file is damaged at first."""

import contextlib
import re
from datetime import UTC, datetime, timedelta

import duckdb
import pytest
import requests
from playwright.sync_api import expect

from assets.layers import HOUR, key_of
from resources import datasets
from resources.warehouse import Warehouse
from tests.e2e.conftest import until
from tests.e2e.interface import PROJECTS, chromium, post, serving
from tests.local_cluster import cluster

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


@pytest.fixture(scope="module")
def backfill(mirror, page):
    """The one that is launched by hand: the daemon takes it up at a tick, of which one comes every 30 seconds."""
    path = f"/v2/batches/{DAMAGED:%Y-%m-%d}/{DAMAGED:%H}/frwiki_namespace_0/download"
    post(f"{mirror.service}/sandbox/faults", {"path": path, "kind": "flip", "count": None})
    launched = launch_backfill(page, mirror, HOURS)
    page.goto("about:blank")  # an open page asks the server all the time, and so would we without a pause
    return until(lambda: ended(mirror, launched), 400, "The backfill's run ends", mirror.log, pause=1)


def ended(mirror, identifier):
    """The one run of a backfill, for all layers of all hours, once it has ended."""
    told = mirror.ask(
        """query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill {
             runs { runId status assetSelection { path } tags { key value } } } } }""",
        id=identifier,
    )["partitionBackfillOrError"]
    assert len(told["runs"]) <= 1
    return next((run for run in told["runs"] if run["status"] in {"SUCCESS", "FAILURE", "CANCELED"}), None)


def held_in(data, hours):
    audits = Warehouse(data).audit(hours, dataset=datasets.ARTICLE_CHANGES)
    return {audit.batch_hour: audit.row_count for audit in audits}


def rows_of(mirror, run, hours):
    """The rows that a run told of these hours and of no others, which are those that are held, by partition."""
    told = {layer: mirror.materializations(layer, run) for layer in LAYERS}
    for layer in LAYERS:
        assert set(told[layer]) == {key_of(hour) for hour in hours}, layer
    held = held_in(mirror.data, hours)
    for hour in hours:
        archive, lake, warehouse = (told[layer][key_of(hour)] for layer in LAYERS)
        assert archive["files"] == len(PROJECTS)
        assert lake["dagster/partition_row_count"] == mirror.lines(hour) > 0
        rows = warehouse["dagster/partition_row_count"]
        assert rows == lake["dagster/partition_row_count"] - warehouse["duplicates"] == held[hour]
    return {key_of(hour): held[hour] for hour in hours}


def test_a_backfill_of_all_layers_is_one_run_and_its_damaged_hour_is_red_with_its_sentence(backfill, mirror, page):
    run = backfill
    assert {"/".join(key["path"]) for key in run["assetSelection"]} == set(LAYERS)
    tags = {tag["key"]: tag["value"] for tag in run["tags"]}
    assert tags["dagster/asset_partition_range_start"] == key_of(HOURS[0])
    assert (tags["dagster/asset_partition_range_end"], run["status"]) == (key_of(HOURS[-1]), "FAILURE")
    good = [hour for hour in HOURS if hour != DAMAGED]
    rows_of(mirror, run["runId"], good)
    warehouse, held = Warehouse(mirror.data), held_in(mirror.data, HOURS)
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
    assert mirror.environ["WME_PASSWORD"] not in page.content()
    kept = [path for path in (mirror.data / "dagster").rglob("*") if path.is_file()]
    assert kept
    for path in (*kept, mirror.log):
        # SQLite removes the files beside a database when the last process closes it
        with contextlib.suppress(FileNotFoundError):
            assert mirror.environ["WME_PASSWORD"].encode() not in path.read_bytes(), path


def test_the_pages_ask_no_other_host_and_complain_of_nothing(mirror, page):
    hosts, complaints = set(), []
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for path, shown in (
        ("/assets", "published"), ("/asset-groups", "archive"), ("/automation", "discover_hours"),
        ("/jobs", "hour_to_published"), ("/deployment/concurrency", "snapshots"),
    ):  # fmt: skip
        show(page, mirror.url + path)
        expect(page.get_by_text(shown).first).to_be_visible()
    assert (hosts, complaints) == ({mirror.url.removeprefix("http://")}, [])


def test_layers_are_fresh_for_twelve_hours(backfill, mirror):
    query = """{ assetNodes { assetKey { path } freshnessStatusInfo { freshnessStatus }
        internalFreshnessPolicy { ... on TimeWindowFreshnessPolicy { failWindowSeconds } } } }"""

    def fresh():
        told = {"/".join(node.pop("assetKey")["path"]): node for node in mirror.ask(query)["assetNodes"]}
        assert all(told[layer]["internalFreshnessPolicy"] == {"failWindowSeconds": 12 * 3600} for layer in LAYERS)
        return all(told[layer]["freshnessStatusInfo"] == {"freshnessStatus": "HEALTHY"} for layer in LAYERS)

    until(fresh, 120, "The daemon looks at the freshness", mirror.log, pause=1)


def test_a_failed_hour_is_whole_after_its_cause_is_gone_and_its_run_is_repeated(backfill, mirror, page):
    requests.delete(f"{mirror.service}/sandbox/faults", timeout=120).raise_for_status()
    show(page, f"{mirror.url}/runs/{backfill['runId']}")
    page.get_by_role("button", name=re.compile("Re-execute")).first.click()
    # the run is one of a backfill, whose status stays as it is
    page.get_by_role("button", name="Confirm").click()
    expect(page).not_to_have_url(re.compile(backfill["runId"]))  # the page is that of the new run
    page.goto("about:blank")
    run = newest_run(mirror, "SUCCESS")
    assert {"key": "dagster/parent_run_id", "value": backfill["runId"]} in run["tags"]
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
        query = "{ runsOrError(limit: 1) { ... on Runs { results { runId status tags { key value } } } } }"
        (run,) = mirror.ask(query)["runsOrError"]["results"]
        return run if run["status"] in {"SUCCESS", "FAILURE", "CANCELED"} else None

    run = until(look, 200, "The run ends", mirror.log, pause=1)
    assert run["status"] == status, mirror.log.read_text()[-4000:]
    return run


LAUNCH = """mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_day_is_converted_by_workers_of_dask_and_loaded_by_the_run(tmp_path):
    hours, data = [NEWEST - back * HOUR for back in range(23, -1, -1)], tmp_path / "data"
    with cluster(tmp_path / "dask", data, 2) as workers, serving(tmp_path, WME_ENGINE=workers.address) as mirror:
        selection = [{"path": layer.split("/")} for layer in LAYERS]
        asked = {"assetSelection": selection, "partitionNames": [key_of(hour) for hour in hours], "title": "a day"}
        (launched,) = mirror.ask(LAUNCH, p=asked).values()
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        run = until(lambda: ended(mirror, launched["backfillId"]), 800, "The backfill", mirror.log, pause=1)
        assert run["status"] == "SUCCESS", mirror.log.read_text()[-4000:]
        made = {layer: mirror.materializations(layer, run["runId"]) for layer in LAYERS}
    for layer in LAYERS:
        assert set(made[layer]) == {key_of(hour) for hour in hours}, layer
    lines = {hour: mirror.lines(hour) for hour in hours}
    assert held_in(data, hours) == {hour: lines[hour] - made[LAYERS[2]][key_of(hour)]["duplicates"] for hour in hours}
    # the workers wrote the lake: a name of theirs is in no file, but the run had no converter at work
    with duckdb.connect() as connection:
        files = str(data / "lake" / "article_changes" / "**" / "*.parquet")
        [(count,)] = connection.execute(f"SELECT count(*) FROM read_parquet('{files}')").fetchall()
    assert count == sum(lines.values())
