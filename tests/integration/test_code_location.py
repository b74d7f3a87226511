"""The code location as Dagster's own tools load it, the graph as it was agreed on, and the instance of the UI."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from assets import layers, streams
from assets.layers import EARLIEST
from pipelines.definitions import build_defs
from pipelines.process import processes
from resources import datasets
from resources.adapters import HOURS_POOL, POOLS
from resources.sandbox import Settings as SandboxSettings
from resources.sandbox import running
from resources.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
GRAPH = Path(__file__).with_name("asset_graph.txt")


@pytest.fixture
def clean(tmp_path: Path) -> dict[str, str]:
    """An environment without an account, without a .env file, in which Python itself writes nothing."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "DAGSTER_"))}
    switches = ("DAGSTER_DISABLE_TELEMETRY", "PYTHON_DOTENV_DISABLED", "PYTHONDONTWRITEBYTECODE")
    return environ | dict.fromkeys(switches, "1") | {"WME_DATA": str(tmp_path / "data")}


def test_dg_check_defs_passes(clean):
    words = [Path(sys.executable).with_name("dg"), "check", "defs"]
    told = subprocess.run(words, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=400, check=False)
    assert told.returncode == 0, told.stderr
    assert "All definitions loaded successfully" in told.stdout + told.stderr
    assert "Warning" not in told.stderr


def test_both_ways_of_loading_name_the_location_alike():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    (entry,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    # schedules and sensors keep their state under this name
    assert project["code_location_name"] == entry["python_module"]["location_name"]
    assert project["code_location_target_module"] == entry["python_module"]["module_name"]


def test_loading_touches_no_network_writes_nothing_and_needs_no_server_of_the_sandbox(tmp_path, clean):
    program = f"""
import json, os, sys
import dagster, duckdb, pyarrow.parquet, requests, uvicorn  # what others do at import is not ours
seen = []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
ACTS = ("socket.", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "subprocess.", "os.posix_spawn", "os.fork",
        "tempfile.", "shutil.", "sqlite3.", "duckdb.")
def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & WRITES:
            seen.append(f"open {{path!r}} {{mode!r}}")
    elif event.startswith(ACTS):
        seen.append(f"{{event}} {{arguments!r}}")
sys.addaudithook(watch)
from pipelines.definitions import defs
defs()
parts = [name for name in sys.modules if name.startswith("resources.sandbox.")]
import pipelines.cli
told = list(seen)
open({str(tmp_path / "told.json")!r}, "w").write(json.dumps([told, parts]))
assert len(seen) > len(told), "the watch does not see an opened file"
"""
    words = [sys.executable, "-W", "error::ResourceWarning", "-c", program]
    told = subprocess.run(words, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=400, check=False)
    assert told.returncode == 0, told.stderr
    seen, parts = json.loads((tmp_path / "told.json").read_text())
    assert (seen, set(parts)) == ([], {f"resources.sandbox.{name}" for name in ("files", "process", "settings")})
    assert not (tmp_path / "data").exists()


def graph_text(defs: dg.Definitions) -> str:
    """The graph in lines that a review can read."""
    graph, lines = defs.resolve_asset_graph(), []
    for key in sorted(graph.get_all_asset_keys(), key=lambda key: key.to_user_string()):
        node = graph.get(key)
        windows = node.freshness_policy and (node.freshness_policy.warn_window, node.freshness_policy.fail_window)
        hours = [f", {one.to_timedelta() / layers.HOUR:g} h" for one in windows or ()]
        facts = {
            "after": sorted(parent.to_user_string() for parent in node.parent_keys),
            "group": "".join([node.group_name, *hours]),
            "kinds": sorted(node.kinds),
            "owners": sorted(node.owners),
            "partitions": None if node.partitions_def is None else str(node.partitions_def),
            "backfill": None if node.backfill_policy is None else str(node.backfill_policy),
            "pools": sorted(node.pools or ()),
            "checks": sorted(check.name for check in node.check_keys),
        }
        lines.append(key.to_user_string())
        known = ((name, value) for name, value in facts.items() if value)
        lines += [f"  {name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in known]
    lines += ["", "jobs"]
    for job in sorted(defs.resolve_all_job_defs(), key=lambda job: job.name):
        if not job.name.startswith("__"):
            keys = sorted(key.to_user_string() for key in job.asset_layer.executable_asset_keys)
            lines.append(f"  {job.name}: {', '.join(keys) or 'steps of its own'}")
    repository = defs.get_repository_def()
    lines += ["", "schedules"]
    for s in sorted(repository.schedule_defs, key=lambda s: s.name):
        lines.append(f"  {s.name}: {s.cron_schedule} {s.execution_timezone} -> {s.job_name}, {s.default_status.value}")
    lines += ["", "sensors"]
    for s in sorted(repository.sensor_defs, key=lambda s: s.name):
        jobs = ", ".join(sorted(target.job_name for target in s.targets))
        lines.append(f"  {s.name}: every {s.minimum_interval_seconds} s -> {jobs}, {s.default_status.value}")
    return "\n".join(lines) + "\n"


def test_the_graph_is_the_one_that_was_agreed_on(tmp_path):
    found = tmp_path / GRAPH.name
    found.write_text(graph_text(build_defs(Settings(first_hour=EARLIEST, wikidata=True))))
    assert found.read_text() == GRAPH.read_text(), f"If the change is meant: cp {found} {GRAPH}"


def test_every_asset_explains_itself_and_names_its_table_and_the_line_that_makes_it():
    graph, tables = build_defs(Settings()).resolve_asset_graph(), []
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert (node.description or "").endswith("."), key
        if (table := node.metadata.get("dagster/table_name")) is not None:
            assert (key.path[0], table) == ("warehouse", f"warehouse.main.{key.path[-1]}")
            tables.append(table)
        if node.group_name in {"lake", "warehouse"}:
            schema = node.metadata["dagster/column_schema"]
            assert schema.columns, key
            assert all(column.description for column in schema.columns), key
    for key in graph.materializable_asset_keys:
        (reference,) = graph.get(key).metadata["dagster/code_references"].code_references
        path = Path(reference.file_path)
        assert path.is_relative_to(ROOT / "assets"), key
        # where its decorator begins
        line = path.read_text().splitlines()[reference.line_number - 1]
        assert line.strip().startswith(("@dg.asset(", "@dg.multi_asset(", "@deferred(")), (key, line)
    assert len(set(tables)) == len(tables) == 12


def fields_of(kind: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a job's configuration by their path, as the launchpad offers them."""
    for name, field in (getattr(kind, "fields", None) or {}).items():
        yield path + name, field
        yield from fields_of(field.config_type, f"{path}{name}.")


def test_every_field_of_the_launchpad_explains_itself():
    defs = build_defs(Settings())
    ours = {f"resources.{name}.config." for name in ("enterprise", "lake", "engine")}
    names = ("lake__live_changes", "snapshots_files", "structured_contents_files", "hourly_batches", "look_up")
    steps, found = {f"ops.{name}.config." for name in names}, {}
    for job in ("stream", "snapshots", "structured_contents", "hours", "lookups"):
        offered = dict(fields_of(defs.resolve_job_def(job).run_config_schema.config_type))
        found |= {path: field for path, field in offered.items() if path.startswith((*ours, *steps))}
    assert {path.rpartition(".")[0] + "." for path in found} == ours | steps
    assert [path for path, field in found.items() if not field.description] == []


#: All that a run may set of the resources.
SET_BY_A_RUN = {
    "enterprise": {"lookups_per_day", "check_pages"},
    "lake": {"max_record_mb", "min_free_gb", "grace_hours"},
    "engine": {"workers", "threads", "memory_mb"},
}
#: Dagster's plain types: a value is itself. Its types of sources take {env: NAME} as well.
PLAIN = {"Bool", "Int", "Float", "String", "Any"}


def kinds_of(kind: Any) -> Iterator[Any]:
    """The types of a configuration that have no fields."""
    inner = [getattr(kind, name, None) for name in ("inner_type", "scalar_type", "non_scalar_type")]
    below = [field.config_type for field in (getattr(kind, "fields", None) or {}).values()]
    below += [one for one in inner if one is not None]
    for one in below:
        yield from kinds_of(one)
    if not below:
        yield kind


def test_no_field_of_any_run_takes_a_variable_of_the_process_and_no_address_account_or_path_can_be_set():
    jobs = list(build_defs(Settings()).resolve_all_job_defs())
    assert len(jobs) > 8
    for job in jobs:
        top = job.run_config_schema.config_type
        for kind in kinds_of(top):
            assert kind.kind.value in {"STRICT_SHAPE", "PERMISSIVE_SHAPE"} or kind.key in PLAIN, job.name
        for name, field in getattr(top.fields["resources"].config_type, "fields", {}).items():
            assert set(field.config_type.fields["config"].config_type.fields) == SET_BY_A_RUN.get(name, set())


def shown(settings: Settings) -> str:
    """What the page of the resource `enterprise` says of it, and the launchpad."""
    defs = build_defs(settings)
    fields = dict(fields_of(defs.resolve_job_def("hour_to_published").run_config_schema.config_type))
    page = defs.get_repository_def().get_top_level_resources()["enterprise"].description
    assert fields["resources.enterprise.config"].description == page
    return page


def test_the_launchpad_begins_with_the_settings():
    defs = build_defs(Settings(lookups_per_day=7, min_free_gb=3.0, memory_mb=400))
    fields = dict(fields_of(defs.resolve_job_def("hours").run_config_schema.config_type))
    typed = {"enterprise.config.lookups_per_day": 7, "lake.config.min_free_gb": 3.0, "engine.config.memory_mb": 400}
    assert {name: fields[f"resources.{name}"].default_value for name in typed} == typed


def test_the_launchpad_and_the_page_of_the_resource_say_which_service_it_is_and_start_no_sandbox(tmp_path):
    page = shown(Settings(username="you", password="p", sandbox=False, base_url="http://127.0.0.1:1"))
    assert page == "The Enterprise Content Service at http://127.0.0.1:1."
    settings = Settings(data=tmp_path / "data", sandbox=True)
    page = shown(settings)
    assert page.startswith(f"The built-in sandbox (synthetic pages) in {settings.data}, instead of the service. ")
    assert "The sandbox is not running." in page
    assert not settings.data.exists()
    with running(SandboxSettings(state=settings.data / "sandbox", changes_per_hour=20, body_bytes=200)) as sandbox:
        page = shown(settings)
    assert f"The sandbox's address is {sandbox.url} until the sandbox stops." in page
    assert "The sandbox is not running." in shown(settings)


@pytest.mark.parametrize("wikidata", [False, True])
def test_materialize_all_has_no_stream_and_nothing_that_is_not_mirrored(wikidata):
    defs = build_defs(Settings(wikidata=wikidata))
    graph = defs.resolve_asset_graph()
    # the button of the Dagster UI takes every asset that can be executed
    left_out = {key for key in graph.get_all_asset_keys() if not graph.get(key).is_executable}
    of_wikidata = {key for one in datasets.datasets() if one.places for key in layers.keys(one)}
    assert len(of_wikidata) == 6
    assert left_out == {layers.SERVICE.key, streams.KEY} | (set() if wikidata else of_wikidata)
    # all of them are in the graph all the same
    assert graph.get(streams.KEY).parent_keys == {layers.SERVICE.key}
    assert of_wikidata <= graph.get_all_asset_keys()
    named = {one.name for one in defs.resolve_all_job_defs()}
    sensors = {one.name for one in defs.get_repository_def().sensor_defs}
    assert ("wikidata_snapshots" in named, "discover_wikidata_snapshots" in sensors) == (wikidata, wikidata)
    # a command names what it wants
    assert build_defs(Settings(wikidata=wikidata), all_datasets=True).resolve_job_def("wikidata_snapshots")


def test_the_instance_of_the_pages_knows_its_pools_sends_nothing_home_and_repeats_crashes_only(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    monkeypatch.delenv("DAGSTER_DISABLE_TELEMETRY")
    with processes.opened(tmp_path / "dagster") as instance:
        pools = {pool.name: (pool.limit, pool.from_default) for pool in instance.event_log_storage.get_pool_limits()}
        assert pools == dict.fromkeys(POOLS, (1, True))
        instance.event_log_storage.set_concurrency_slots(HOURS_POOL, 2)
    with processes.opened(tmp_path / "dagster") as instance:
        limits = {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}
        assert limits == dict.fromkeys(POOLS, 1) | {HOURS_POOL: 2}  # what an operator sets in the pages is left alone
        assert (instance.telemetry_enabled, instance.nux_enabled) == (False, False)
        assert (instance.run_retries_enabled, instance.run_retries_retry_on_asset_or_op_failure) == (True, False)
        assert instance.run_monitoring_enabled
        # a place that a step takes is not given back when its process is killed
        assert instance.get_concurrency_config().pool_config.pool_granularity.value == "run"
