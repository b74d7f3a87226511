"""The definitions merged into another Dagster project, with the code of `docs/library.md`."""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import create_run_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from assets import layers, published, streams
from assets.layers import hour_of, key_of
from pipelines.definitions import build_defs, hourly_partitions
from pipelines.process import processes
from resources import adapters
from resources.adapters import build_resources
from resources.datasets import ARTICLE_CHANGES
from resources.sandbox import Sandbox
from resources.settings import Settings
from tests.builds import OpenWarehouse, lay
from tests.integration import daemon
from tests.integration.daemon import PASSWORD, STARTED, ask_checks, instance_in_memory, offered, settings_of
from tests.integration.mirror import line_count

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "library.md"
PREFIX = "encyclopedia"
ORIGIN = LoadableTargetOrigin(executable_path=sys.executable, module_name="any")
#: Where the daemon finds the merged definitions.
LOCATION = InProcessCodeLocationOrigin(ORIGIN, location_name="theirs")


class Shelf(dg.IOManager):
    """The project's own IO manager, which only the project's own assets may use."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        self.kept[context.asset_key.to_user_string(), context.partition_key] = obj

    def load_input(self, context: dg.InputContext) -> Any:
        raise NotImplementedError


@dg.op
def look_up() -> None:
    """A step of the project, by the name of one of ours."""


@dg.job
def report() -> None:
    look_up()


@dg.asset(key=["warehouse", "articles"], group_name="warehouse")
def stock(warehouse: dg.ResourceParam[list[str]]) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"shelves": len(warehouse)})


class Project:
    """A project with an executor, a job and a `warehouse`, into which the guide's code merges the mirror."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance) -> None:
        self.shelf, self.instance = Shelf(), instance
        section = GUIDE.read_text().partition("## Embedding\n")[2].partition("\n## ")[0]
        _, embedding = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        names: dict[str, Any] = {"settings": settings}
        exec(compile(embedding, GUIDE, "exec", dont_inherit=True), names)
        sensor = dg.SensorDefinition(name="publish_pending", job_name="report", evaluation_fn=lambda _: None)
        parts = {"assets": [stock], "jobs": [report], "sensors": [sensor], "executor": dg.multiprocess_executor}
        own = dg.Definitions(resources={"warehouse": ["a", "b"], "io_manager": self.shelf}, **parts)
        # Dagster loads no module that has two of them
        (guide,) = (value for value in names.values() if isinstance(value, dg.Definitions))
        self.defs = dg.Definitions.merge(own, guide)

    def execute(self, name: str | None, **options: Any) -> dg.ExecuteInProcessResult:
        whole = self.defs.resolve_implicit_global_asset_job_def
        job = whole() if name is None else self.defs.resolve_job_def(name)
        return job.execute_in_process(instance=self.instance, run_config=daemon.QUIET, **options)

    def tick(self, name: str) -> Any:
        return daemon.tick(self.defs, self.instance, f"{PREFIX}_{name}", location=LOCATION)

    def begun(self, job: str, **options: Any) -> str:
        """A run of the merged project that the daemon has launched and that has begun."""
        origin = RemoteJobOrigin(RemoteRepositoryOrigin(LOCATION, "any"), job)
        run = create_run_for_test(self.instance, job_name=job, status=STARTED, remote_job_origin=origin, **options)
        event = dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=job)
        self.instance.report_dagster_event(event, run_id=run.run_id)
        return run.run_id


@pytest.fixture
def settings(service: Sandbox, tmp_path: Path) -> Settings:
    return settings_of(service, lay(tmp_path / "data"))


@pytest.fixture
def project(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(adapters, "Warehouse", OpenWarehouse)
    with instance_in_memory() as instance:
        yield Project(settings, instance)


def test_downstream_asset_of_another_project_follows_the_mirror_hour_by_hour(project, service):
    before, *hours = offered(service, datetime.now(UTC))[-3:]
    instance = project.instance
    hourly = (*layers.keys(ARTICLE_CHANGES), dg.AssetKey(["warehouse", "articles"]), published.KEY)
    ours = [key.with_prefix(PREFIX) for key in hourly]
    edits = dg.AssetKey("edits_by_project")
    # one hour in two runs, by the mirror's own job and the project's asset alone; the other in one, as "Materialize
    # selected" does
    job = f"{PREFIX}_hour_to_published"
    asked = ((job, hours[0], None), (None, hours[0], [edits]), (None, hours[1], [*ours, edits]))
    results = [project.execute(name, partition_key=key_of(hour), asset_selection=some) for name, hour, some in asked]
    assert all(result.success for result in results)
    counts = {hour: {"enwiki": line_count(batch.path)} for hour in hours for batch in service.world.batches(hour)}
    assert project.shelf.kept == {("edits_by_project", key_of(hour)): count for hour, count in counts.items()}
    for key in ours[:3]:
        assert instance.get_materialized_partitions(key) == set(map(key_of, hours))
    # checks answer under the project's keys, and the published file is an asset of the project
    evaluations = results[-1].get_asset_check_evaluations()
    found = {f"{one.asset_key.to_user_string()}:{one.check_name}": one for one in evaluations}
    assert found[f"{PREFIX}/warehouse/article_changes:loaded_whole"].passed
    assert found[f"{PREFIX}/archive/batches:archives_verified"].passed
    assert found[f"{PREFIX}/warehouse/articles:unique_key"].passed
    assert {name.partition("/")[0] for name in found} == {PREFIX}
    assert instance.get_latest_materialization_event(ours[-1]) is not None
    # the password is in the settings alone
    runs = instance.get_runs()
    history = repr([runs, *(instance.all_logs(run.run_id) for run in runs)])
    assert "edits_by_project" in history
    assert PASSWORD not in history
    # an hour that fails is found by the check of the published file
    service.faults.add(path=f"/v2/batches/{before:%Y-%m-%d}/{before:%H}", kind="status", status=403)
    chosen = {"partition_key": key_of(before), "asset_selection": ours, "raise_on_error": False}
    assert not project.execute(None, **chosen).success
    whole, key = project.defs.resolve_implicit_global_asset_job_def(), dg.AssetCheckKey(ours[-1], "no_failed_hours")
    (failed,) = ask_checks(whole, instance, lambda check: check == key).values()
    assert failed.metadata["failed"].value == 1


def test_other_jobs_lists_lookups_snapshots_and_report_run_in_another_project(project, settings, monkeypatch):
    (asked,) = project.tick("discover_snapshots").run_requests
    assert project.instance.get_dynamic_partitions(f"{PREFIX}_snapshots") == [asked.partition_key]
    build_resources(settings)["warehouse"].warehouse.publish()  # for the report
    for name in ("reference", "snapshots", "lookups", "compact", "report"):
        partition = asked.partition_key if name == "snapshots" else None
        result = project.execute(f"{PREFIX}_{name}", partition_key=partition)
        assert result.success, name
        keys = project.defs.resolve_job_def(f"{PREFIX}_{name}").asset_layer.executable_asset_keys
        assert {event.asset_key for event in result.get_asset_materialization_events()} == keys
        assert {key.path[0] for key in keys} == {PREFIX}
    assert (settings.data / "report.html").exists()
    assert "page" not in result.get_asset_materialization_events()[0].materialization.metadata  # of our web server
    monkeypatch.setattr(streams.stream, "keep", Mock())
    (read,) = project.execute(f"{PREFIX}_stream").get_asset_materialization_events()
    assert read.asset_key == streams.KEY.with_prefix(PREFIX)
    assert project.execute("report").success


def test_sensors_of_the_mirror_heed_no_run_of_the_other_project(project, service, monkeypatch):
    (hour,) = offered(service, datetime.now(UTC))[-1:]
    hourly = {"dagster/partition": key_of(hour)}
    # hours of their own, by the same names, in a job of ops and in one of assets
    of_assets = {"asset_selection": frozenset({stock.key})}
    theirs = [project.begun("report", tags=hourly), project.begun("stock", tags=hourly, **of_assets)]
    found = project.tick("discover_hours").run_requests
    assert key_of(hour) in {request.tags["dagster/asset_partition_range_end"] for request in found}
    assert project.execute(f"{PREFIX}_hours", partition_key=key_of(hour)).success
    assert project.tick("publish_pending").run_requests
    # a run that has never said its process: of ours, the process was killed; theirs say no process
    monkeypatch.setattr(processes, "_SILENT_SECONDS", -1.0)
    ours = project.begun(f"{PREFIX}_hours", tags=hourly)
    assert ours in project.tick("end_killed_runs").skip_message
    status = {run.run_id: run.status for run in project.instance.get_runs()}
    assert (status[ours], {status[run] for run in theirs}) == (dg.DagsterRunStatus.FAILURE, {STARTED})
    # and of the mirror's own runs they know
    project.begun(f"{PREFIX}_hours", tags=hourly)
    assert "Waiting for 1 run." in project.tick("publish_pending").skip_message


def test_executors_and_launchpad_of_both_are_their_own(project, settings):
    defs = project.defs
    dg.Definitions.validate_loadable(defs)
    executors = {job.name: job.executor_def for job in defs.resolve_all_job_defs()}
    ours = {name for name in executors if name.startswith(PREFIX)}
    assert {executors[name] for name in ours} == {processes.executor}
    assert {executors[name] for name in executors.keys() - ours} == {dg.multiprocess_executor}
    assert {"report", f"{PREFIX}_report"} <= executors.keys()
    resources = defs.resolve_job_def(f"{PREFIX}_hours").run_config_schema.config_type.fields["resources"]
    fields = resources.config_type.fields
    assert {f"{PREFIX}_lake", f"{PREFIX}_enterprise"} <= fields.keys()
    selection = defs.resolve_sensor_def(f"{PREFIX}_carry_to_warehouse").asset_selection
    assert {key.path[0] for key in selection.resolve(defs.resolve_asset_graph())} == {PREFIX}
    # nothing of the definitions shows the password
    shown = json.dumps([repr(fields), [repr(job.run_config_schema) for job in defs.resolve_all_job_defs()]])
    assert settings.password.get_secret_value() not in shown
    # hourly partitions are those of the assets
    settings = settings.model_copy(update={"first_hour": hour_of("2026-10-01-05:00")})
    graph, plain = (build_defs(settings, prefix=prefix).resolve_asset_graph() for prefix in (PREFIX, ""))
    assert graph.get(dg.AssetKey([PREFIX, "archive", "batches"])).partitions_def == hourly_partitions(settings)
    nodes = [(plain.get(key), graph.get(key.with_prefix(PREFIX))) for key in plain.materializable_asset_keys]
    assert [one.backfill_policy for one, _ in nodes] == [other.backfill_policy for _, other in nodes]
    assert [{f"{PREFIX}_{pool}" for pool in one.pools} for one, _ in nodes] == [other.pools for _, other in nodes]
    assert hourly_partitions(settings).get_first_partition_key() == "2026-10-01-05:00"
