"""A declaration is all that a dataset takes: three of a test, from a service on loopback to DuckDB and the terminal."""

import gzip
import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import duckdb
import pytest
from click.testing import CliRunner

from pipelines.cli import wme
from pipelines.definitions import build_defs
from pipelines.process import processes
from pipelines.report import dictionary
from resources.datasets import Dataset, Family, last_complete_hour
from resources.settings import read
from resources.tables import TIMESTAMP, Column, Table
from resources.tables.declaration import BATCH_HOUR, INT, NAMESPACE_ID, PROJECT_ID, SNAPSHOT_VERSION, TEXT
from resources.warehouse import warehouse
from tests import builds
from tests.declared import also
from tests.integration.daemon import instance_in_memory
from tests.unit.enterprise.loopback import Loopback, Reply, json_reply
from tests.unit.lake.conftest import tar_bytes

PLANET = (Column("planet_id", TEXT, "Planet.", "identifier", required=True), Column("moons", INT, "Moons.", "moons"))
SIGHTING = (
    BATCH_HOUR,
    replace(PROJECT_ID, path="of.project"),
    NAMESPACE_ID,
    Column("sighting_id", INT, "Number of the sighting.", "identifier", required=True, lookup=True),
    Column("seen_at", TIMESTAMP, "When.", first_of=("noted_at",), required=True),
    Column("noted_at", TIMESTAMP, "When it was written down.", "noted"),
    Column("kind", TEXT, "What.", "kind", default="comet", values=("comet", "meteor"), required=True),
)
MAP = (
    *(*SNAPSHOT_VERSION, PROJECT_ID, NAMESPACE_ID),
    Column("sheet_id", INT, "Sheet.", "identifier", required=True),
    Column("extra", TEXT, "What else the record holds."),
    Column("picture", TEXT, "The map.", "picture", body=True),
)


def declared(family, name, columns, *key, archive=None):
    table = Table(name, f"What is known of {name}.", columns, key=key)
    return Dataset(table, family, endpoint=name, archive=archive or name, description=f"The files of {name}.")


PLANETS = declared(Family.LIST, "planets", PLANET, "planet_id", archive="reference")
SIGHTINGS = declared(Family.HOURLY, "sightings", SIGHTING, "batch_hour", "sighting_id")
MAPS = declared(Family.SNAPSHOT, "maps", MAP, "snapshot_id", "snapshot_version", "sheet_id")
HOUR = last_complete_hour(datetime.now(UTC)) - timedelta(hours=2)
NAME = "skywiki_namespace_0"
EVALUATED = dg.DagsterEventType.ASSET_CHECK_EVALUATION
ANSWERS = {
    "FROM planets ORDER BY ALL": [("mars", 2), ("venus", None)],
    "SELECT sighting_id, kind, seen_at = noted_at FROM sightings": [(1, "comet", True), (2, "meteor", True)],
    "SELECT picture FROM '{}/lake/maps/*/*/*.parquet'": [("*",)],
    "SELECT snapshot_id, sheet_id, extra FROM maps": [(NAME, 7, '{"scale":12}')],
    "SELECT state, row_count FROM hours WHERE table_name = 'sightings'": [("loaded", 2)],
    "SELECT starts_with(reason, 'kind is not one of comet, meteor') FROM rejects": [(True,)],
}


def archive(*records: dict) -> bytes:
    return gzip.compress(tar_bytes([("records.ndjson", "".join(f"{json.dumps(one)}\n" for one in records).encode())]))


@pytest.fixture
def service(tmp_path, monkeypatch):
    seen = {"identifier": 1, "of": {"project": "skywiki"}, "noted": "2026-11-20T05:10:00Z"}
    others = ({}, {"identifier": 2, "kind": "meteor"}, {"identifier": 3, "kind": "bird"})
    seen_by_all, map_of_seven = [seen | other for other in others], {"identifier": 7, "picture": "*", "scale": 12}
    files = {"sightings": archive(*seen_by_all), "maps": archive(map_of_seven)}
    place = {"identifier": NAME, "is_part_of": {"identifier": "skywiki"}, "namespace": {"identifier": 0}}
    record = {name: place | {"version": hashlib.md5(data).hexdigest()} for name, data in files.items()}
    hour = f"/{HOUR:%Y-%m-%d}/{HOUR:%H}"
    answers = {
        **{name: [{"identifier": "skywiki"}] for name in ("/v2/codes", "/v2/languages", "/v2/projects")},
        "/v2/namespaces": [{"identifier": 0}],
        "/v2/planets": [{"identifier": "mars", "moons": 2}, {"identifier": "venus"}],
        f"/v2/sightings{hour}": [record["sightings"]],
        f"/v2/sightings{hour}/{NAME}": record["sightings"],
        "/v2/maps": [record["maps"]],
        f"/v2/maps/{NAME}": record["maps"],
    }

    def answer(request):
        if request.path.startswith("/signed/"):
            return Reply(body=files[request.path.removeprefix("/signed/")])
        if request.path.endswith("/download"):
            return Reply(307, headers={"Location": f"{server.url}/signed/{request.path.split('/')[2]}"})
        return json_reply(answers.get(request.path, []))

    server = Loopback(answer)
    for name, value in (("ANONYMOUS", "1"), ("BASE_URL", server.url), ("PROJECTS", "skywiki"), ("DATA", str(tmp_path))):
        monkeypatch.setenv(f"WME_{name}", value)
    yield tmp_path
    server.close()


@pytest.fixture
def instance(service, monkeypatch):
    """Dagster's history, in memory, of all commands."""
    (service / "dagster").mkdir()
    with instance_in_memory() as made:
        monkeypatch.setattr(processes, "opened", lambda _home: nullcontext(made))
        yield made


def call(*words, **environ):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warehouse, "Connector", builds.Keeping)
        told = CliRunner().invoke(wme, words, env=environ)
        builds.close_all()
    assert told.exit_code == 0, (told.output, told.exception)
    return told.output


def test_a_declaration_is_all_that_a_dataset_takes(service, instance):
    hour = f"{HOUR:%Y-%m-%dT%H}"
    with also(PLANETS, SIGHTINGS, MAPS):
        call("run", "--snapshots", "--from", hour)
        defs = build_defs(read())
        told = instance.get_runs(dg.RunsFilter(job_name="hours"))
        events = [event.dagster_event for run in told for event in instance.all_logs(run.run_id)]
        found = [one.asset_check_evaluation_data for one in events if one and one.event_type is EVALUATED]
        passing = dict.fromkeys(("archives_verified", "rows_accounted", "loaded_whole", "unique_key"), True)
        checked = {one.check_name: one.passed for one in found if "sightings" in one.asset_key.path}
        assert checked == passing | {"rejects_share": False}
        with duckdb.connect(str(service / "warehouse.duckdb"), read_only=True) as published:
            for query, rows in ANSWERS.items():
                assert published.execute(query.format(service)).fetchall() == rows, query
        whole, other = dictionary.render(), dictionary.pages()["other.md"]
        for dataset in (PLANETS, SIGHTINGS, MAPS):
            assert f"## {dataset.name}\n" in whole
            assert f"## {dataset.name}\n" in other
            for layer in ("lake", "warehouse"):
                assert defs.resolve_asset_graph().has(dg.AssetKey([layer, dataset.name]))
        assert "mars" in call("lists", "planets")
        assert NAME in call("batches", "--dataset", "sightings", hour)
        assert NAME in call("snapshots", "list", "--dataset", "maps")
    kinds = replace(SIGHTING[-1], values=(*SIGHTING[-1].values, "bird"))
    wider = replace(SIGHTINGS.table, columns=(*SIGHTING[:-1], kinds))
    with also(PLANETS, replace(SIGHTINGS, table=wider), MAPS):
        assert "Converted 1 rejected record." in call("rejects", "--retry")
        told = call("forget", "skywiki", "--yes", WME_PROJECTS="seawiki")
        assert all(name in told for name in ("sightings 3", "maps 1", f"partitions:  {NAME}"))
    assert [path for path in service.rglob("*") if "skywiki" in path.name or path.name == "sightings.json"] == []
