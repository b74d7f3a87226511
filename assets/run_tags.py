"""Dagster's tags of runs, by which runs are found and distinguished. The UI shows them and keeps them."""

from typing import Final

BACKFILL: Final = "dagster/backfill"
FAILURE_REASON: Final = "dagster/failure_reason"
MAX_RETRIES: Final = "dagster/max_retries"
PARTITION: Final = "dagster/partition"
RANGE_END: Final = "dagster/asset_partition_range_end"
RANGE_START: Final = "dagster/asset_partition_range_start"
ROOT_RUN: Final = "dagster/root_run_id"
RUN_KEY: Final = "dagster/run_key"
SCHEDULE: Final = "dagster/schedule_name"
SENSOR: Final = "dagster/sensor_name"
WILL_RETRY: Final = "dagster/will_retry"
#: Begins tags that the UI does not show.
HIDDEN: Final = ".dagster/"
