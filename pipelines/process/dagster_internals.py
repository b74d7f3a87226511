"""The names that Dagster does not publish and that are needed all the same; no other module of `pipelines` imports any."""

from __future__ import annotations

from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.execution.step_dependency_config import StepDependencyConfig
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from dagster._core.storage.sql import ScriptDirectory, create_engine  # type: ignore[attr-defined] # Alembic's
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    MAX_RETRIES_TAG,
    PARTITION_NAME_TAG,
    RUN_FAILURE_REASON_TAG,
    RUN_KEY_TAG,
)

#: The modules that make engines, each by its own name `create_engine`.
SQLITE_STORAGES = (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage)

__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "MAX_RETRIES_TAG",
    "PARTITION_NAME_TAG",
    "RUN_FAILURE_REASON_TAG",
    "RUN_KEY_TAG",
    "SQLITE_STORAGES",
    "ExecutionPlan",
    "InstanceRef",
    "NoOpComputeLogManager",
    "PlanOrchestrationContext",
    "RetryMode",
    "ScriptDirectory",
    "StepDependencyConfig",
    "UnresolvedAssetJobDefinition",
    "create_engine",
]
