"""The daemon's part: schedules and sensors, evaluated for a data folder before a service on the real clock."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.event_log import in_memory as events_in_memory
from dagster._core.storage.runs import in_memory as runs_in_memory
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from dagster._core.test_utils import create_run_for_test
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.pool import SingletonThreadPool

from assets.layers import key_of, recent_hours
from pipelines.automation.discovery import missing_hours
from pipelines.definitions import build_defs
from pipelines.process.processes import TEMPLATE
from resources import datasets
from resources.adapters import build_resources
from resources.enterprise import RetryPolicy
from resources.sandbox import Sandbox
from resources.settings import Settings

#: Of a run: nobody reads its events from the console.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PASSWORD = "First-Pass-1!"
QUICK = RetryPolicy(retries=3, first_wait=0.002, longest_wait=0.01, connect_timeout=60, read_timeout=60)
STARTED, FAILURE = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE
_numbers = itertools.count(1)


@contextmanager
def _kept_connection(storage: Any) -> Iterator[Connection]:
    with storage._engine.begin() as connection:
        yield connection


@contextmanager
def _kept_connection_in_turn(storage: Any) -> Iterator[Connection]:
    with storage._db_lock, storage._engine.begin() as connection:
        yield connection


# Dagster makes a new connection to a history in memory for each statement, which is a third of the cost of a run
events_in_memory.NullPool = runs_in_memory.NullPool = SingletonThreadPool  # type: ignore[attr-defined]
runs_in_memory.InMemoryRunStorage.connect = _kept_connection  # type: ignore[method-assign]
events_in_memory.InMemoryEventLogStorage._connect = _kept_connection_in_turn  # type: ignore[method-assign]


def new_account(sandbox: Sandbox) -> str:
    """The name of a new user with PASSWORD, who may do everything."""
    name = f"reader{next(_numbers)}"
    sandbox.accounts.create(name, PASSWORD, groups=("group_3",))
    return name


def instance_in_memory() -> dg.DagsterInstance:
    """An instance with the run retries of the Dagster UI's own, and a history in memory."""
    settings = yaml.safe_load(TEMPLATE.read_text())
    return dg.DagsterInstance.ephemeral(settings={"run_retries": settings["run_retries"]})


def settings_of(service: Sandbox, data: Path, **changes: Any) -> Settings:
    """Settings of a mirror of enwiki with an account of its own, which may do everything."""
    urls = {"auth_url": service.url, "base_url": service.url, "realtime_url": service.realtime_url}
    own: dict[str, Any] = {"username": new_account(service), "password": PASSWORD, "projects": ("enwiki",)}
    return Settings(**urls, **own, data=data, sandbox=False, min_free_gb=0).model_copy(update=changes)


def changed(settings: Settings, **values: Any) -> Settings:
    password = values.get("password")
    secret = {} if password is None else {"password": SecretStr(password)}
    return settings.model_copy(update=values | secret)


def offered(sandbox: Sandbox, now: datetime) -> list[datetime]:
    """The hours whose lists the service has at `now`, oldest first."""
    return [hour for hour in recent_hours(now) if sandbox.world.hour_ready_at(hour) <= now]


def span_of(first: datetime, last: datetime) -> dict[str, str]:
    return {ASSET_PARTITION_RANGE_START_TAG: key_of(first), ASSET_PARTITION_RANGE_END_TAG: key_of(last)}


def tick(
    defs: dg.Definitions, instance: dg.DagsterInstance, name: str, *, cursor: str | None = None, location: Any = None
) -> Any:
    """What a sensor asks for, as in the daemon's code server."""
    sensor = defs.resolve_sensor_def(name)
    resources = {key: defs.resources[key] for key in sensor.required_resource_keys}
    with (
        dg.build_sensor_context(instance=instance, definitions=defs, resources=resources, cursor=cursor) as context,
        partition_loading_context(dynamic_partitions_store=instance),
    ):
        context._code_location_origin = location
        return sensor.evaluate_tick(context)


def ask_checks(
    job: dg.JobDefinition, instance: dg.DagsterInstance, wanted: Callable[[dg.AssetCheckKey], bool]
) -> dict[tuple[dg.AssetKey, str], dg.AssetCheckEvaluation]:
    """The answers of the checks of a job, asked for by themselves, by asset and name."""
    chosen = {key for key in job.asset_layer.asset_graph.asset_check_keys if wanted(key)}
    alone = job.get_subset(asset_selection=set(), asset_check_selection=chosen)
    result = alone.execute_in_process(instance=instance, run_config=QUIET)
    assert not [event for event in result.all_events if event.is_step_materialization]
    return {(one.asset_key, one.check_name): one for one in result.get_asset_check_evaluations()}


@dataclass
class Daemon:
    """A data folder before a service whose clock is the real one, as the sensors' own."""

    sandbox: Sandbox
    settings: Settings
    instance: dg.DagsterInstance
    #: Of each sensor's last evaluation.
    cursors: dict[str, str] = field(default_factory=dict)
    _definitions: dict[Any, dg.Definitions] = field(default_factory=dict)
    _definitions_of: Any = None

    @property
    def defs(self) -> dg.Definitions:
        return self._built()

    def _built(self, **options: Any) -> dg.Definitions:
        """The definitions, built once for the same settings, as a code server does."""
        of = (self.settings, datasets.datasets())
        if self._definitions_of != of:
            self._definitions_of, self._definitions = of, {}
        key = frozenset(options.items())
        if key not in self._definitions:
            self._definitions[key] = build_defs(self.settings, **options)
        return self._definitions[key]

    @property
    def resources(self) -> dict[str, Any]:
        return build_resources(self.settings)

    @property
    def warehouse(self) -> Any:
        return self.resources["warehouse"].warehouse

    def change(self, **values: Any) -> None:
        self.settings = changed(self.settings, **values)

    def offered(self) -> list[datetime]:
        return offered(self.sandbox, datetime.now(UTC))

    def run(self, status: dg.DagsterRunStatus, job: str = "hours", **options: Any) -> str:
        """A run that the daemon knows of, of which only its state matters; its number."""
        return create_run_for_test(self.instance, job_name=job, status=status, **options).run_id

    def execute(self, job: str, **options: Any) -> dg.ExecuteInProcessResult:
        options["run_config"] = QUIET | options.get("run_config", {})
        found = self.defs.resolve_job_def(job)
        return found.execute_in_process(instance=self.instance, raise_on_error=False, **options)

    def materialize(self, hours: Sequence[datetime], *assets: str) -> dg.ExecuteInProcessResult:
        # as a command does, which may name what is not mirrored
        job = self._built(all_datasets=True).resolve_job_def("hours")
        chosen = [dg.AssetKey(name.split("/")) for name in assets]
        how: dict[str, Any] = {"instance": self.instance, "tags": span_of(hours[0], hours[-1]), "run_config": QUIET}
        return job.execute_in_process(asset_selection=chosen or None, raise_on_error=False, **how)

    def tick(self, sensor: str, *, again: bool = False) -> Any:
        """What a sensor asks for; `again`: with the cursor of its evaluation before."""
        found = tick(self.defs, self.instance, sensor, cursor=self.cursors.get(sensor) if again else None)
        if found.cursor:
            self.cursors[sensor] = found.cursor
        return found

    def schedule(self, at: datetime) -> Any:
        defs = self.defs
        schedule = defs.resolve_schedule_def("each_hour")
        resources = {name: defs.resources[name] for name in schedule.required_resource_keys}
        how = {"instance": self.instance, "repository_def": defs.get_repository_def(), "resources": resources}
        with dg.build_schedule_context(scheduled_execution_time=at, **how) as context:
            # an instance in memory has no reference to open it by
            context._instance_ref, context._instance = object(), self.instance
            return schedule.evaluate_tick(context)

    def missing(self, now: datetime, scope: Sequence[tuple[str, int]] = (("enwiki", 0),)) -> list[datetime]:
        return missing_hours(now, self.warehouse, tuple(scope), datasets.ARTICLE_CHANGES)
