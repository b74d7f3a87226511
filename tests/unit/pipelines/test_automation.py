"""Jobs and sensors follow from the datasets that are declared."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

import pipelines
from pipelines.automation.jobs import build_jobs
from pipelines.automation.sensors import build_sensors
from pipelines.definitions import build_defs
from pipelines.embedding import Prefix
from resources import datasets
from resources.settings import Settings
from tests.declared import also

ROOT = Path(pipelines.__file__).parents[1]


def named(declared, name):
    """A dataset like a declared one, under another name."""
    return replace(declared, table=replace(declared.table, name=name), endpoint=name, archive=name)


def keys(defs, job):
    return {key.to_user_string() for key in defs.resolve_job_def(job).asset_layer.executable_asset_keys}


def test_a_declared_dataset_is_in_the_jobs_and_sensors_of_its_family():
    more = [
        named(datasets.ARTICLE_CHANGES, "file_changes"),
        named(datasets.SNAPSHOT_ARTICLES, "kept_pages"),
        replace(named(datasets.LISTS[0], "licences"), archive="reference"),
    ]
    with also(*more):
        defs = build_defs(Settings())
        sensors = {
            one.name: {target.job_name for target in one.targets}
            for one in build_sensors(Settings(), datasets.datasets(), Prefix())
        }
    changes = {"archive/file_changes", "lake/file_changes", "warehouse/file_changes"}
    assert changes < keys(defs, "hours") < keys(defs, "hour_to_published")
    assert {"lake/licences", "warehouse/licences"} < keys(defs, "reference")
    layers = ("archive", "lake", "warehouse")
    assert keys(defs, "kept_pages") == {f"{layer}/kept_pages" for layer in layers}
    assert keys(defs, "snapshots") == {"archive/snapshots", "lake/snapshot_articles", "warehouse/snapshot_articles"}
    assert sensors["discover_kept_pages"] == {"kept_pages"}
    # a sensor is shown at no job but those that it starts
    assert sensors["end_killed_runs"] == set()
    assert max(map(len, sensors.values())) == 1
    assert not any("kept" in job.name for job in build_jobs(datasets.datasets(), datasets.datasets(), Prefix()))


def test_the_daily_schedule_pulls_the_reference_lists_and_a_backfill_has_a_run_for_each_day(instance):
    schedule = build_defs(Settings()).resolve_schedule_def("reference_each_day")
    context = dg.build_schedule_context(instance=instance, scheduled_execution_time=datetime(2026, 3, 1, tzinfo=UTC))
    (request,) = schedule.evaluate_tick(context).run_requests
    assert request.partition_key is None
    assert (schedule.job_name, schedule.cron_schedule) == ("reference", "40 3 * * *")
    layer = build_defs(Settings()).resolve_job_def("hours").asset_layer
    policies = {layer.get(key).backfill_policy for key in layer.executable_asset_keys}
    assert policies == {dg.BackfillPolicy.multi_run(max_partitions_per_run=24)}
