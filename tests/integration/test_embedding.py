"""The definitions merged into another Dagster project, with the code of `docs/library.md`."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import create_run_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from pydantic import SecretStr

from assets.layers import hour_of, key_of
from pipelines.automation import discovery, sensors
from pipelines.definitions import build_defs, hourly_partitions
from pipelines.process import processes
from resources.sandbox import Settings as SandboxSettings
from resources.sandbox import running
from resources.settings import Settings
from tests.builds import lay
from tests.integration.test_automation import offered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.sandbox import Sandbox

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "library.md"
PREFIX = "encyclopedia"
#: From the service to the published file.
HOURLY = (
    "archive/batches",
    "lake/article_changes",
    "warehouse/article_changes",
    "warehouse/articles",
    "published/warehouse",
)


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
    """Another project, into which the guide's code merges the mirror.

    It has an executor, a job `report` and a resource `warehouse`.
    """

    def __init__(self, settings: Settings) -> None:
        self.shelf = Shelf()
        section = GUIDE.read_text().partition("## Embedding\n")[2].partition("\n## ")[0]
        _, embedding = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        names: dict[str, Any] = {"settings": settings}
        exec(compile(embedding, GUIDE, "exec", dont_inherit=True), names)
        own = dg.Definitions(
            assets=[stock],
            jobs=[report],
            sensors=[dg.SensorDefinition(name="publish_pending", job_name="report", evaluation_fn=lambda _: None)],
            resources={"warehouse": ["a", "b"], "io_manager": self.shelf},
            executor=dg.multiprocess_executor,
        )
        # Dagster loads no module that has two of them
        (guide,) = (value for value in names.values() if isinstance(value, dg.Definitions))
        self.defs = dg.Definitions.merge(own, guide)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    state = tmp_path_factory.mktemp("embedding")
    options = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 4, "body_bytes": 200, "stream_rate": 0}
    with running(SandboxSettings(state=state, **options)) as sandbox:
        yield sandbox


@pytest.fixture
def settings(service: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    # a busy machine may need longer than the daemon lets a look last
    monkeypatch.setattr(sensors, "_ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(discovery, "ASKING_SECONDS", 120.0)
    return Settings(
        username=service.username,
        password=SecretStr(service.password),
        auth_url=service.url,
        base_url=service.url,
        realtime_url=service.realtime_url,
        projects=("enwiki",),
        data=lay(tmp_path / "data"),
        min_free_gb=0,
    )


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as made:
        yield made


#: Where the daemon finds the merged definitions.
LOCATION = InProcessCodeLocationOrigin(
    LoadableTargetOrigin(executable_path=sys.executable, module_name="any"), location_name="theirs"
)


def tick(defs: dg.Definitions, instance: dg.DagsterInstance, name: str) -> Any:
    """What a sensor asks for, as in the daemon's code server."""
    sensor = defs.resolve_sensor_def(name)
    resources = {key: defs.resources[key] for key in sensor.required_resource_keys}
    with (
        dg.build_sensor_context(instance=instance, definitions=defs, resources=resources) as context,
        partition_loading_context(dynamic_partitions_store=instance),
    ):
        context._code_location_origin = LOCATION
        return sensor.evaluate_tick(context)


def begun(instance: dg.DagsterInstance, job: str, **options: Any) -> str:
    """A run of the merged project that the daemon has launched and that has begun."""
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(LOCATION, "any"), job)
    run = create_run_for_test(
        instance, job_name=job, status=dg.DagsterRunStatus.STARTED, remote_job_origin=origin, **options
    )
    instance.report_dagster_event(dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=job), run_id=run.run_id)
    return run.run_id


def truth(service: Sandbox, hour: datetime) -> int:
    """Lines of the service's archive of an hour."""
    import gzip
    import tarfile

    (batch,) = service.world.batches(hour)
    with gzip.open(batch.path) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
        return sum(len(set(tar.extractfile(member).read().splitlines())) for member in tar)


def test_downstream_asset_of_another_project_follows_the_mirror_hour_by_hour(settings, service, instance, tmp_path):
    project = Project(settings)
    before, *hours = offered(service, datetime.now(UTC))[-3:]
    ours = [dg.AssetKey([PREFIX, *path.split("/")]) for path in HOURLY]
    everything, edits = project.defs.resolve_implicit_global_asset_job_def(), dg.AssetKey("edits_by_project")
    # one hour in two runs, by the mirror's own job and the project's asset alone; the other in one, as "Materialize
    # selected" does
    for job, hour, selection in (
        (project.defs.resolve_job_def(f"{PREFIX}_hour_to_published"), hours[0], None),
        (everything, hours[0], [edits]),
        (everything, hours[1], [*ours, edits]),
    ):
        result = job.execute_in_process(instance=instance, partition_key=key_of(hour), asset_selection=selection)
        assert result.success
    assert project.shelf.kept == {
        ("edits_by_project", key_of(hour)): {"enwiki": truth(service, hour)} for hour in hours
    }
    for key in ours[:3]:
        assert instance.get_materialized_partitions(key) == set(map(key_of, hours))
    # an hour that fails is found by the check of the published file
    service.faults.add(path=f"/v2/batches/{before:%Y-%m-%d}/{before:%H}", kind="status", status=403)
    assert not everything.execute_in_process(
        instance=instance, partition_key=key_of(before), asset_selection=ours, raise_on_error=False
    ).success
    service.faults.clear()
    publish = project.defs.resolve_job_def(f"{PREFIX}_publish").execute_in_process(instance=instance)
    (failed,) = [one for one in publish.get_asset_check_evaluations() if one.check_name == "no_failed_hours"]
    assert failed.metadata["failed"].value == 1
    # checks answer under the project's keys, and the published file is an asset of the project
    found = {f"{one.asset_key.to_user_string()}:{one.check_name}": one for one in result.get_asset_check_evaluations()}
    assert found[f"{PREFIX}/warehouse/article_changes:loaded_whole"].passed
    assert found[f"{PREFIX}/archive/batches:archives_verified"].passed
    assert found[f"{PREFIX}/warehouse/articles:unique_key"].passed
    assert {name.partition("/")[0] for name in found} == {PREFIX}
    assert instance.get_latest_materialization_event(ours[-1]) is not None
    # the password is in the settings alone
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if service.password.encode() in path.read_bytes()]


def test_other_jobs_lists_lookups_snapshots_and_report_run_in_another_project(settings, instance):
    project = Project(settings)
    (asked,) = tick(project.defs, instance, f"{PREFIX}_discover_snapshots").run_requests
    assert instance.get_dynamic_partitions(f"{PREFIX}_snapshots") == [asked.partition_key]
    for name, partition in (
        ("reference", None),
        ("snapshots", asked.partition_key),
        ("lookups", None),
        ("publish", None),
        ("compact", None),
        ("report", None),
    ):
        job = project.defs.resolve_job_def(f"{PREFIX}_{name}")
        result = job.execute_in_process(instance=instance, partition_key=partition)
        assert result.success, name
        keys = job.asset_layer.executable_asset_keys
        assert {event.asset_key for event in result.get_asset_materialization_events()} == keys
        assert {key.path[0] for key in keys} == {PREFIX}
    assert (settings.data / "report.html").exists()
    assert project.defs.resolve_job_def("report").execute_in_process(instance=instance).success


def test_sensors_of_the_mirror_heed_no_run_of_the_other_project(settings, service, instance, monkeypatch):
    project = Project(settings)
    (hour,) = offered(service, datetime.now(UTC))[-1:]
    hourly = {"dagster/partition": key_of(hour)}
    theirs = [
        # hours of their own, by the same names, in a job of ops and in one of assets
        begun(instance, "report", tags=hourly),
        begun(instance, "stock", tags=hourly, asset_selection=frozenset({stock.key})),
    ]
    found = tick(project.defs, instance, f"{PREFIX}_discover_hours").run_requests
    assert key_of(hour) in {request.tags["dagster/asset_partition_range_end"] for request in found}
    job = project.defs.resolve_job_def(f"{PREFIX}_hours")
    assert job.execute_in_process(instance=instance, partition_key=key_of(hour)).success
    assert tick(project.defs, instance, f"{PREFIX}_publish_pending").run_requests
    # a run that has never said its process: of ours, the process was killed; theirs say no process
    monkeypatch.setattr(processes, "_SILENT_SECONDS", -1.0)
    ours = begun(instance, f"{PREFIX}_hours", tags=hourly)
    assert ours in tick(project.defs, instance, f"{PREFIX}_end_killed_runs").skip_message
    assert instance.get_run_by_id(ours).status is dg.DagsterRunStatus.FAILURE
    assert {instance.get_run_by_id(run).status for run in theirs} == {dg.DagsterRunStatus.STARTED}
    # and of the mirror's own runs they know
    begun(instance, f"{PREFIX}_hours", tags=hourly)
    assert "1 run under way." in tick(project.defs, instance, f"{PREFIX}_publish_pending").skip_message


def test_executors_and_launchpad_of_both_are_their_own(settings):
    defs = Project(settings).defs
    dg.Definitions.validate_loadable(defs)
    executors = {job.name: job.executor_def for job in defs.resolve_all_job_defs()}
    ours = {name for name in executors if name.startswith(PREFIX)}
    assert {executors[name] for name in ours} == {processes.executor}
    assert {executors[name] for name in executors.keys() - ours} == {dg.multiprocess_executor}
    assert {"report", f"{PREFIX}_report"} <= executors.keys()
    fields = (
        defs.resolve_job_def(f"{PREFIX}_hours").run_config_schema.config_type.fields["resources"].config_type.fields
    )
    assert {f"{PREFIX}_lake", f"{PREFIX}_enterprise"} <= fields.keys()
    followed = defs.resolve_sensor_def(f"{PREFIX}_carry_to_warehouse").asset_selection.resolve(
        defs.resolve_asset_graph()
    )
    assert {key.path[0] for key in followed} == {PREFIX}
    # nothing of the definitions shows the password
    shown = json.dumps([repr(fields), [repr(job.run_config_schema) for job in defs.resolve_all_job_defs()]])
    assert settings.password.get_secret_value() not in shown


def test_hourly_partitions_are_those_of_the_assets(settings):
    settings = settings.model_copy(update={"first_hour": hour_of("2026-10-01-05:00")})
    graph = build_defs(settings, prefix=PREFIX).resolve_asset_graph()
    assert graph.get(dg.AssetKey([PREFIX, "archive", "batches"])).partitions_def == hourly_partitions(settings)
    assert hourly_partitions(settings).get_first_partition_key() == "2026-10-01-05:00"
