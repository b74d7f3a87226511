"""Jobs and sensors follow from the datasets that are declared; a project may have a prefix for all names."""

import inspect
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import Mock

import dagster as dg
import pytest

from assets.layers import HOUR, RunTag, own, unprefixed
from pipelines.automation import discovery
from pipelines.automation.discovery import Open
from pipelines.automation.jobs import build_jobs
from pipelines.automation.sensors import build_sensors
from pipelines.definitions import build_defs
from pipelines.embedding import Prefix, deferred, prefix_of
from resources import connection, datasets
from resources.adapters import STREAM_POOL
from resources.datasets import ARTICLE_CHANGES
from resources.enterprise.errors import NotPublishedYet, RetentionPassed
from resources.enterprise.models import Quota
from resources.settings import Settings
from tests.declared import also


def named(declared, name):
    """A dataset like a declared one, under another name."""
    return replace(declared, table=replace(declared.table, name=name), endpoint=name, archive=name)


def keys(defs, job):
    return {key.to_user_string() for key in defs.resolve_job_def(job).asset_layer.executable_asset_keys}


def test_a_declared_dataset_is_in_the_jobs_and_sensors_of_its_family():
    more = [named(datasets.ARTICLE_CHANGES, "file_changes"), named(datasets.SNAPSHOT_ARTICLES, "kept_pages")]
    with also(*more, replace(named(datasets.LISTS[0], "licences"), archive="reference")):
        defs, built = build_defs(Settings()), build_sensors(Settings(), datasets.datasets(), Prefix())
    sensors = {one.name: {target.job_name for target in one.targets} for one in built}
    changes = {"archive/file_changes", "lake/file_changes", "warehouse/file_changes"}
    assert changes < keys(defs, "hours") < keys(defs, "hour_to_published")
    assert {"lake/licences", "warehouse/licences"} < keys(defs, "reference")
    layers = ("archive", "lake", "warehouse")
    assert keys(defs, "kept_pages") == {f"{layer}/kept_pages" for layer in layers}
    assert keys(defs, "snapshots") == {"archive/snapshots", "lake/snapshot_articles", "warehouse/snapshot_articles"}
    assert sensors["discover_kept_pages"] == {"kept_pages"}
    # a sensor is shown at no job but those that it starts
    assert (sensors["end_killed_runs"], max(map(len, sensors.values()))) == (set(), 1)
    assert not any("kept" in job.name for job in build_jobs(datasets.datasets(), datasets.datasets(), Prefix()))


def test_hours_that_wait_are_requested_when_the_first_of_them_has_waited():
    moments = [datetime(2026, 11, 1, 5 - hour, 30, tzinfo=UTC) for hour in range(2)]
    told = Open(waiting=dict(zip(moments, reversed(moments), strict=True))).sentence
    assert told.startswith("2 hours missing: 2 failed, and the next run is requested at 2026-11-01 04:30 UTC (runs")


def test_a_retry_that_failed_later_does_not_prolong_the_wait():
    tags = {RunTag.FAILURE_REASON: "STEP_FAILURE", RunTag.SENSOR: "any", RunTag.PARTITION: "2026-11-01-05:00"}
    first = dg.DagsterRun("hours", run_id="1", tags=tags)
    again = dg.DagsterRun("hours", run_id="2", tags=tags | {RunTag.ROOT_RUN: "1"})
    at = datetime(2026, 11, 1, 6, tzinfo=UTC)
    records = [Mock(dagster_run=run, update_timestamp=at + n * HOUR / 60) for n, run in enumerate((first, again))]
    instance = Mock(get_runs=lambda _: [], get_run_records=lambda _: records[::-1])
    assert discovery.without_busy([at - HOUR], instance, at).waiting == {at - HOUR: at + discovery.WAITS[0]}


def service(absent, quota=None):
    """A service that has the lists of all hours but these."""

    def listing(hour, _dataset):
        if hour in absent:
            raise absent[hour]("It is not there.")
        return SimpleNamespace(records=[SimpleNamespace(project_id="enwiki", namespace_id=0)])

    account = SimpleNamespace(quotas=lambda: {"batch": quota})
    return SimpleNamespace(hours=Mock(listing=Mock(side_effect=listing)), account=account)


def asked_of(client):
    return [call.args[0] for call in client.hours.listing.call_args_list]


NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
HOURS = [NOW.replace(minute=0) - number * HOUR for number in range(10, 0, -1)]


def test_hours_are_asked_for_up_to_the_newest_list_that_is_there():
    client = service({HOURS[-1]: NotPublishedYet, HOURS[-2]: RetentionPassed})
    assert (discovery.published(HOURS, client, NOW, ARTICLE_CHANGES), asked_of(client)) == (HOURS[:-2], HOURS[:-4:-1])
    client = service(dict.fromkeys(HOURS, NotPublishedYet))
    assert (discovery.published(HOURS, client, NOW, ARTICLE_CHANGES), asked_of(client)) == (HOURS[:4], HOURS[:3:-1])


SPENT = "The account has used 1,001 of its 1,000 batch units."
QUOTAS = [(None, None), (Quota(9, None), None), (Quota(9, 10), None), (Quota(1001, 1000), SPENT)]


@pytest.mark.parametrize(("quota", "told"), QUOTAS)
def test_failed_hours_are_asked_for_again_if_names_and_units_allow_it(tmp_path, monkeypatch, quota, told):
    checked = []
    monkeypatch.setattr(connection, "check_names", lambda _client, _layout, *names: checked.append(names))
    settings = Settings(data=tmp_path, projects=("enwiki", "frwiki"))
    # the newest hour that has surely been published tells the names, or the newest of all
    for hours, asked in ((HOURS, HOURS[4]), (HOURS[5:], HOURS[-1])):
        for absent in ({}, {asked: RetentionPassed}):
            client = service(absent, quota)
            why = discovery.hindrance(hours, client, settings, NOW, ARTICLE_CHANGES)
            assert (why and why.partition(" No hours")[0], asked_of(client)) == (told, [asked])
    assert checked == [(["frwiki"], [0])] * 2


def test_the_daily_schedule_pulls_the_reference_lists_and_a_backfill_has_a_run_for_each_day(instance):
    schedule = build_defs(Settings()).resolve_schedule_def("reference_each_day")
    context = dg.build_schedule_context(instance=instance, scheduled_execution_time=datetime(2026, 3, 1, tzinfo=UTC))
    (request,) = schedule.evaluate_tick(context).run_requests
    assert request.partition_key is None
    assert (schedule.job_name, schedule.cron_schedule) == ("reference", "40 3 * * *")
    layer = build_defs(Settings()).resolve_job_def("hours").asset_layer
    policies = {layer.get(key).backfill_policy for key in layer.executable_asset_keys}
    assert policies == {dg.BackfillPolicy.multi_run(max_partitions_per_run=24)}


ALONE = Prefix()
KEY = dg.AssetKey(["warehouse", "articles"])


def test_names_keys_checks_and_sensors_begin_with_the_prefix_and_are_found_again_without_it():
    prefix = Prefix("mine")
    metadata = {"dagster/code_references": "here", "kept": "there"}
    made = prefix.asset(dg.AssetSpec(KEY, deps=["service"], group_name="warehouse", metadata=metadata))

    @dg.asset_check(asset=KEY, description="All of it.")
    def whole() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    check = prefix.check(whole)
    assert (made.key.path, made.group_name) == (["mine", "warehouse", "articles"], "mine_warehouse")
    assert (made.metadata, [dep.asset_key.path for dep in made.deps]) == ({"kept": "there"}, [["mine", "service"]])
    specs = [(one.asset_key, one.name, one.description) for one in check.check_specs]
    assert specs == [(made.key, "whole", "All of it.")]
    found = unprefixed(made.key), own([made.key]), prefix_of([made.key])
    assert found == (KEY, {KEY: made.key}, prefix)
    assert [prefix.covers(key) for key in (made.key, KEY, KEY.with_prefix("mines"))] == [True, False, False]

    @deferred(dg.sensor, "hours")
    def look(prefix: Prefix) -> dg.SkipReason:
        return dg.SkipReason(prefix.text)

    assert [look(one).name for one in (ALONE, Prefix("mine"))] == ["look", "mine_look"]


def test_without_a_prefix_everything_stays_as_it_is_and_one_that_cannot_begin_a_name_is_refused():
    spec = dg.AssetSpec(KEY, deps=["service"], group_name="warehouse")
    assert ALONE.asset(spec) == spec
    assert (ALONE.name("report"), ALONE.key(KEY), prefix_of([KEY]), ALONE.covers(KEY)) == ("report", KEY, ALONE, True)

    def read(lake: int) -> int:
        return lake

    assert ALONE.adapted(read) is read
    for text in ("wme/", "9", "with space", "é", "-"):
        with pytest.raises(ValueError, match="Use letters, digits and underscores, and begin with a letter"):
            Prefix(text)


def test_resources_are_asked_for_by_prefixed_keys_and_the_prefix_is_filled_in():
    def read(context: str, lake: dg.ResourceParam[int], other: int, prefix: Prefix) -> tuple[str, int, int, Prefix]:
        return context, lake, other, prefix

    adapted = Prefix("mine").adapted(read)
    assert list(inspect.signature(adapted).parameters) == ["context", "mine_lake", "other"]
    assert adapted("here", mine_lake=1, other=2) == ("here", 1, 2, Prefix("mine"))
    assert ALONE.adapted(read)("here", lake=1, other=2) == ("here", 1, 2, ALONE)


def test_the_stream_is_read_in_the_pool_of_its_prefix():
    *_, stream = build_jobs(datasets.datasets(), datasets.datasets(), Prefix("mine"))
    assert [step.pool for step in stream.graph.node_defs] == [f"mine_{STREAM_POOL}"]


def test_assets_are_made_again_under_the_prefix():
    @dg.multi_asset(
        name="read",
        specs=[dg.AssetSpec(KEY, group_name="warehouse")],
        partitions_def=dg.DynamicPartitionsDefinition(name="pages"),
        pool="reading",
        backfill_policy=dg.BackfillPolicy.multi_run(7),
        config_schema={"count": dg.Field(int, default_value=3)},
    )
    def read(context: dg.AssetExecutionContext, lake: dg.ResourceParam[str]):
        yield dg.MaterializeResult(metadata={"lake": lake, "count": context.op_execution_context.op_config["count"]})

    for prefix, key in ((ALONE, KEY), (Prefix("mine"), KEY.with_prefix("mine"))):
        asset = prefix.asset(read)
        assert (asset.op.name, asset.op.pool) == (prefix.name("read"), prefix.name("reading"))
        assert asset.backfill_policy == dg.BackfillPolicy.multi_run(7)
        assert asset.partitions_def == dg.DynamicPartitionsDefinition(name=prefix.name("pages"))
        with dg.DagsterInstance.ephemeral() as instance:
            instance.add_dynamic_partitions(prefix.name("pages"), ["one"])
            resources = {prefix.name("lake"): "deep"}
            result = dg.materialize([asset], resources=resources, instance=instance, partition_key="one")
        (made,) = result.get_asset_materialization_events()
        assert made.asset_key == key
        assert {name: one.value for name, one in made.materialization.metadata.items()} == {"lake": "deep", "count": 3}
