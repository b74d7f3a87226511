"""SIGKILL at any moment, then the same again: the same tables, nothing left over, nothing half in what analysts see."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.builds import lay
from tests.unit.warehouse.conftest import ROOT, lasting

PROGRAM = Path(__file__).with_name("killing.py")


@pytest.fixture
def warehouse(closing_warehouse):
    return closing_warehouse


def editions(lake):
    """Two hours and a snapshot, twice: the second edition of each has other rows, loses some and holds collisions."""
    made = []
    for edition in range(2):
        files = []
        for hour in range(2):
            rows = []
            for page in range(100):
                minute = 60 * hour + page % 60
                kind = "delete" if (page + hour + edition) % 5 == 0 else "update"
                more = {"version_id": 1000 * (hour + 1) + page, "event_id": f"{edition}-{hour}-{page}"}
                more["html"] = "x" * 200
                rows.append(lake.change(page, f"Title {(page * (hour + edition + 1)) % 100}", minute, kind, **more))
            files.append(lake.file(hour, [*rows[edition * 20 :], *rows[50:60]], rejects=[b"bad"]))
        # the first edition's is the newer one, so it is what remains
        pages = [lake.change(page, f"Title {page}", 100 - 50 * edition, html="y" * 200) for page in range(60, 130)]
        made.append(SimpleNamespace(hours=files, snapshot=lake.snapshot([pages, pages[:5], []])))
    return made


def content(warehouse):
    with warehouse._connector.build("compare") as connection:
        return lasting(connection)


#: Statements of an operation are some 40. Five kills at random moments are one in each phase; the editions alternate.
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("step", "kills", "seed"),
    [(21, 5, 1), *(pytest.param(1, 300, seed, marks=pytest.mark.soak) for seed in range(2, 6))],
)
def test_killed_before_statements_and_at_random_moments_and_run_again(
    data, lake, warehouse, make, step, kills, seed, record_property
):
    pickled = lay(data).parent / "editions.pickle"
    pickled.write_bytes(pickle.dumps(editions(lake)))
    told = subprocess.run(
        [sys.executable, str(PROGRAM), str(data), str(pickled), str(step), str(kills), str(seed)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300 + 40 * kills,
    )
    assert told.returncode == 0, told.stderr
    before_statements, hits = json.loads(told.stdout)
    record_property("kills by phase", hits)
    sys.stdout.write(f"{kills} kills by phase: {hits}\n")
    assert all(count * step > 20 for count in before_statements.values()), before_statements
    assert all(hits[phase] > 0 for phase in ("load", "snapshot", "apply", "publish")), hits
    # as if never killed
    other = make()
    first = editions(other.lake)[0]
    for file in first.hours:
        other.warehouse.load_hour(file.batch_hour, [file])
    other.warehouse.load_snapshot(first.snapshot)
    other.warehouse.apply_changes()
    found = content(warehouse)
    assert found == content(other.warehouse)
    warehouse.rebuild_articles()
    assert content(warehouse) == found
    assert {path.name for path in data.iterdir()} == {"lake", "state", "warehouse", "warehouse.duckdb"}
    assert {path.name for path in (data / "warehouse").iterdir()} == {"build.duckdb"}
    assert warehouse.sql("SELECT count(*) FROM articles").rows == [(len(found["articles"]),)]


@pytest.mark.parametrize(
    ("module", "step"),
    [
        ("load.hours", lambda warehouse, found: warehouse.load_hour(found.hours[0].batch_hour, [found.hours[0]])),
        ("load.snapshots", lambda warehouse, found: warehouse.load_snapshot(found.snapshot)),
        ("state.applier", lambda warehouse, found: warehouse.apply_changes()),
    ],
)
def test_a_step_that_fails_at_its_end_changes_nothing(mirror, monkeypatch, module, step):
    warehouse, (first, second) = mirror.warehouse, editions(mirror.lake)
    warehouse.load_hour(second.hours[0].batch_hour, [second.hours[0]])
    warehouse.load_snapshot(second.snapshot)
    if module != "state.applier":
        warehouse.apply_changes()
    before = content(warehouse)
    with monkeypatch.context() as patch:
        patch.setattr(f"resources.warehouse.{module}.raise_revision", Mock(side_effect=RuntimeError("lost")))
        with pytest.raises(RuntimeError, match="lost"):
            step(warehouse, first)
    assert content(warehouse) == before
    step(warehouse, first)
    assert content(warehouse) != before
