"""A day's backfill, launched as the Dagster UI launches it.

A Dask scheduler and two workers convert the hours.
"""

from datetime import UTC, datetime

import duckdb
import pytest

from assets.layers import HOUR, key_of
from resources import datasets
from resources.warehouse import Warehouse
from tests.e2e.conftest import until
from tests.e2e.interface import serving
from tests.e2e.test_backfill_in_browser import LAYERS, ended
from tests.local_cluster import cluster

LAUNCH = """mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_day_is_converted_by_workers_and_loaded_by_the_run(tmp_path):
    newest = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR
    hours = [newest - back * HOUR for back in range(23, -1, -1)]
    data = tmp_path / "data"
    with (
        cluster(tmp_path / "dask", data, 2) as workers,
        serving(tmp_path, WME_ENGINE=workers.address) as mirror,
    ):
        selection = [{"path": layer.split("/")} for layer in LAYERS]
        asked = {"assetSelection": selection, "partitionNames": [key_of(hour) for hour in hours], "title": "a day"}
        (launched,) = mirror.ask(LAUNCH, p=asked).values()
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        backfill = until(lambda: ended(mirror, launched["backfillId"]), 800, "The backfill", mirror.log, pause=1)
        assert backfill.run["status"] == "SUCCESS", mirror.log.read_text()[-4000:]
        made = {layer: mirror.materializations(layer, backfill.run["runId"]) for layer in LAYERS}
    for layer in LAYERS:
        assert set(made[layer]) == {key_of(hour) for hour in hours}, layer
    held = {
        audit.batch_hour: audit.row_count for audit in Warehouse(data).audit(hours, dataset=datasets.ARTICLE_CHANGES)
    }
    lines = {hour: mirror.lines(hour) for hour in hours}
    assert held == {hour: lines[hour] - made[LAYERS[2]][key_of(hour)]["duplicates"] for hour in hours}
    # the workers wrote the lake: a name of theirs is in no file, but the run had no converter at work
    with duckdb.connect() as connection:
        files = str(data / "lake" / "article_changes" / "**" / "*.parquet")
        assert connection.execute(f"SELECT count(*) FROM read_parquet('{files}')").fetchall() == [
            (sum(lines.values()),)
        ]
