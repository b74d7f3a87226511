"""A snapshot that does not fit into memory goes through all layers within the memory allowed, for one unit a chunk."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources.sandbox import Settings, running

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 2, 3, 12, 30, tzinfo=UTC)

TAKE = """
import json, sys
from datetime import datetime
from pathlib import Path
from assets.steps import snapshot as snapshot_sets
from resources.datasets import SNAPSHOT_ARTICLES
from resources.engine import Engine
from resources.enterprise import EnterpriseClient, RetryPolicy, Service, FetchOptions
from assets.steps.converting import convert_archives
from resources.lake import Converter, Layout
from resources.warehouse import Warehouse

url, user, password, data, now = sys.argv[1:]
moment, layout, engine = datetime.fromisoformat(now), Layout(Path(data)), Engine()
warehouse = Warehouse(Path(data), clock=lambda: moment)
service = Service(url, url, url, user, password)
patient = RetryPolicy(read_timeout=1500)
with EnterpriseClient(service, Path(data) / "state", clock=lambda: moment, retry=patient) as client:
    folder = layout.snapshot_archive(SNAPSHOT_ARTICLES, "enwiki_namespace_0")
    plan = client.snapshots.plan("enwiki_namespace_0", folder, FetchOptions(chunks=True))
    archived = snapshot_sets.fetch_snapshot(plan, client, layout, engine)
with Converter(memory_bytes=512 << 20) as converter:
    made = convert_archives(
        archived.identifier, archived.archives, layout, bodies=("html", "wikitext"), converter=converter, engine=engine
    )
load = snapshot_sets.load_snapshot(archived, made, warehouse)
applied = warehouse.apply_changes()
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak": peak * 1024, "units": plan.unit_count, "files": len(made),
                  "rows": sum(c.row_count for c in made),
                  "ndjson": sum(c.ndjson_bytes for c in made), "duplicates": load.duplicate_count,
                  "articles": applied.row_count, "rejects": load.reject_count}))
"""


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_gigabytes_in_twenty_chunks(tmp_path):
    settings = Settings(
        state=tmp_path / "sandbox", now=NOW, projects=("enwiki",), namespaces=(0,), changes_per_hour=200,
        articles=8_130, body_bytes=200_000, chunk_bytes=100_000_000,
    )  # fmt: skip
    with running(settings) as sandbox:
        times = sandbox.world.snapshot_times("enwiki_namespace_0", NOW)
        snapshot = sandbox.world.snapshot("enwiki_namespace_0", *times)
        sandbox.requests.clear()
        arguments = (sandbox.url, sandbox.username, sandbox.password, tmp_path / "data", NOW.isoformat())
        done = subprocess.run(
            [sys.executable, "-c", TAKE, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        granted = [one for one in sandbox.requests if "/chunks/" in one.path and one.status == 307]
        alive = sum(1 for _ in sandbox.world.pages_at("enwiki", 0, times[0]))
    found = json.loads(done.stdout)
    assert found["units"] == found["files"] == len(snapshot.chunks) == len(granted) >= 19
    assert found["rejects"] == 0
    assert found["rows"] >= found["articles"] >= alive
    assert found["ndjson"] > 1.9e9
    assert found["peak"] < 512 << 20
