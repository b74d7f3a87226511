"""Hourly assets for a dataset's archive, lake and warehouse, which process one hour at a time.

A single multi-asset covers the three layers. If the assets were separate, one bad hour would fail all hours of a range
run, and each layer would add a slow run or step. Each hour logs a separate materialization for each committed layer.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from assets import checks, layers
from assets.describe import as_failure, earlier_work, failed_hours, failure, run_config, sentence, tell
from assets.layers import RunTag, hour_of, key_of, oldest_hour, recent_hours
from assets.steps.hourly_run import HourlyRun
from resources import adapters
from resources.adapters import HOURS_POOL, EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset, last_complete_hour
from resources.errors import MirrorError, ends_run
from resources.formatting import hour_text, markdown_text
from resources.lake import sweep
from resources.tables import HourState


class HourlyConfig(BaseModel):
    """Options for a run over several hours. By default, the run fetches and converts only missing files."""

    convert_again: bool = Field(
        default=False,
        description="Verify existing lake files with their checksums. Damaged files are converted again, and their "
        "hours are reloaded. Also select the warehouse asset.",
    )


def hourly_assets(dataset: Dataset, hours: dg.HourlyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the assets for an hourly dataset, partitioned by `hours`."""

    @dg.multi_asset(
        name=f"hourly_{dataset.archive}",
        specs=layers.specs(dataset, skippable=True),
        check_specs=[check.spec for check in checks.of_files(dataset)],
        partitions_def=hours,
        can_subset=True,
        # one run per day, because starting a run takes longer than processing an hour
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=24),
        pool=HOURS_POOL,
        config_schema=adapters.run_fields(HourlyConfig.model_fields),
    )
    def bring_in(
        context: dg.AssetExecutionContext,
        enterprise: EnterpriseResource,
        lake: LakeResource,
        warehouse: WarehouseResource,
        engine: EngineResource,
    ) -> Iterator[Any]:
        """Archive, convert and load the run's hours. If any hours fail, the run fails at the end and lists them."""
        config, selected = run_config(HourlyConfig, context), layers.own(context.selected_asset_keys)
        if config.convert_again and layers.warehouse_key(dataset) not in selected:
            raise dg.Failure(
                f"convert_again requires the asset warehouse/{dataset.name}, because rows from damaged files must be "
                "loaded again. Nothing was done. Select this asset too.",
                allow_retries=False,
            )
        with as_failure():
            converter = engine.converter(lake, is_local=config.convert_again)
        with converter:
            run = HourlyRun(
                enterprise, lake, warehouse, converter, engine.engine(context.log.info), dataset, config.convert_again
            )
            yield from _take(context, run, selected, hours.start)

    return bring_in


def _take(
    context: dg.AssetExecutionContext, run: HourlyRun, selected: dict[dg.AssetKey, dg.AssetKey], begin: datetime
) -> Iterator[Any]:
    if not selected:
        # runs with only checks have no partition: check all hours that the service still retains
        run.recall(recent_hours(datetime.now(UTC)))
        yield from checks.of_run(run, context.selected_asset_check_keys)
        return
    if not context.has_partition_key and not context.has_partition_key_range:
        raise dg.Failure(
            "The run has no partition. Nothing was done. Launch the run from the asset or from the job's partitions "
            "page, with one or more hours in UTC, for example 2026-11-20-05:00. The discover_hours sensor requests "
            "missing hours.",
            allow_retries=False,
        )
    # Dagster checks neither end of the range of a run that is launched by its tags
    span, newest = context.partition_key_range, last_complete_hour(datetime.now(UTC))
    if not begin <= hour_of(span.start) <= hour_of(span.end) <= newest:
        raise dg.Failure(
            f"The run's partitions are {span.start} to {span.end}. Nothing was done. Launch the run with a range that "
            f"starts with the earlier hour and lies between {hour_text(begin)} and {hour_text(newest)}, the newest "
            "hour that has ended (UTC).",
            allow_retries=False,
        )
    hours = [hour_of(key) for key in context.partition_keys]
    for path in sweep(run.lake.layout):
        context.log.info("Removed %s, an unfinished file from a killed run.", path.name)
    made: set[tuple[dg.AssetKey, datetime]] = set()
    with ExitStack() as stack:
        client = None
        if layers.archive_key(run.dataset) in selected:
            try:
                client = stack.enter_context(run.enterprise.client())
                run.plan(hours, client)
            except Exception as error:
                for hour in hours:
                    run.fail(hour, error)
                _tell_failures(context, run, made)
                raise failure(error) from error
        for number, hour in enumerate(hours):
            if hour in run.left_out:
                continue
            try:
                for layer in run.ingest(hour, selected, client):
                    key = selected[layer.key]
                    made.add((key, hour))
                    metadata = layer.metadata
                    # with `again`, the run verified the file even if it was not damaged
                    if not (layer.is_new or run.again):
                        metadata = metadata | earlier_work(context.instance, key, key_of(hour), layer.data_version)
                    if len(hours) == 1:
                        # a result, unlike an event, applies to all partitions and starts downstream assets of the run
                        version = dg.DataVersion(layer.data_version)
                        yield dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=version)
                    else:
                        context.log_event(_made(key, hour, metadata, layer.data_version))
            except Exception as error:  # each hour fails separately, and the run lists all failures at the end
                run.fail(hour, error)
                if error is run.stopped:
                    continue  # this error is reported once at the end; archived hours are still processed
                # the traceback of an expected error would only hide its message
                context.log.error(  # noqa: TRY400
                    "%s: %s", hour_text(hour), sentence(error), exc_info=not isinstance(error, MirrorError)
                )
                if ends_run(error):
                    run.stop(error, hours[number + 1 :])
    _leave_out(context, run)
    if len(run.failed) < len(hours) and not run.is_warehouse_unavailable:
        yield from checks.of_run(run, context.selected_asset_check_keys)
    if run.failed:
        _tell_failures(context, run, made)
        left_out = run.gone.keys() - run.failed.keys()
        cause = run.stopped or next(iter(run.failed.values()))
        what = "" if run.dataset.stream else f"{run.dataset.name}: "
        raise failed_hours(run.failed, len(hours) - len(left_out), what) from cause


def _made(
    key: dg.AssetKey, hour: datetime, metadata: dict[str, Any], version: str, text: str | None = None
) -> dg.AssetMaterialization:
    tags = {"dagster/data_version": version}
    return dg.AssetMaterialization(key, text, metadata=metadata, partition=key_of(hour), tags=tags)


def _leave_out(context: dg.AssetExecutionContext, run: HourlyRun) -> None:
    """Report the hours that the service has already deleted. These hours are lost, and their partitions fail.

    Hours before the mirror's first hour are materialized without files, because Dagster has no other state for them.
    """
    began = oldest_hour(run.lake.layout.archive / run.dataset.archive)
    state = HourState.PAST_RETENTION.value
    metadata = {"state": state, "files": 0, "dagster/partition_row_count": 0}
    for hour, cause in run.gone.items():
        if RunTag.BACKFILL not in context.run.tags or (began is not None and began < hour):
            run.failed[hour] = cause
            continue
        context.log.warning("The hour %s was skipped. %s", hour_text(hour), sentence(cause))
        for key in context.selected_asset_keys:
            context.log_event(_made(key, hour, metadata, state, markdown_text(sentence(cause))))


def _tell_failures(context: dg.AssetExecutionContext, run: HourlyRun, made: set[tuple[dg.AssetKey, datetime]]) -> None:
    """Attach each failed hour's message to the hour's partitions. Otherwise, Dagster would show only the run."""
    for hour, cause in run.failed.items():
        tell(context, [key for key in context.selected_asset_keys if (key, hour) not in made], key_of(hour), cause)
