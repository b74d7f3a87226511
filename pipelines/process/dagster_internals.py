"""The names that Dagster does not publish and that are needed all the same.

Only this module of `pipelines` imports any, with `dagster_storages` and `dagster_servers`, which take long to import.
"""

from __future__ import annotations

import sys

from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.execution.step_dependency_config import StepDependencyConfig
from dagster._core.instance import factory as instance_factory
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    HIDDEN_TAG_PREFIX,
    MAX_RETRIES_TAG,
    PARTITION_NAME_TAG,
    ROOT_RUN_ID_TAG,
    RUN_FAILURE_REASON_TAG,
    RUN_KEY_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    WILL_RETRY_TAG,
)


def storages_are_imported() -> bool:
    """Whether an instance was opened, or somebody else needed what `dagster_storages` imports."""
    return "dagster._core.storage.sql" in sys.modules


__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "HIDDEN_TAG_PREFIX",
    "MAX_RETRIES_TAG",
    "PARTITION_NAME_TAG",
    "ROOT_RUN_ID_TAG",
    "RUN_FAILURE_REASON_TAG",
    "RUN_KEY_TAG",
    "SCHEDULE_NAME_TAG",
    "SENSOR_NAME_TAG",
    "WILL_RETRY_TAG",
    "ExecutionPlan",
    "InstanceRef",
    "NoOpComputeLogManager",
    "PlanOrchestrationContext",
    "RetryMode",
    "StepDependencyConfig",
    "UnresolvedAssetJobDefinition",
    "instance_factory",
    "storages_are_imported",
]
