"""A prefix for the names of a project, and functions as Dagster calls them under it."""

import inspect

import dagster as dg
import pytest

from assets.layers import own, unprefixed
from pipelines.embedding import Prefix, deferred, prefix_of

ALONE = Prefix()
KEY = dg.AssetKey(["warehouse", "articles"])


def test_names_keys_checks_and_sensors_begin_with_the_prefix_and_are_found_again_without_it():
    prefix = Prefix("mine")
    spec = dg.AssetSpec(KEY, deps=["service"], group_name="warehouse")
    made = prefix.asset(spec)

    @dg.asset_check(asset=KEY, description="All of it.")
    def whole() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    check = prefix.check(whole)
    assert (made.key.path, made.group_name) == (["mine", "warehouse", "articles"], "mine_warehouse")
    assert [dep.asset_key.path for dep in made.deps] == [["mine", "service"]]
    assert [(one.asset_key, one.name, one.description) for one in check.check_specs] == [
        (made.key, "whole", "All of it.")
    ]
    assert unprefixed(made.key) == KEY
    assert own([made.key]) == {KEY: made.key}
    assert prefix_of([made.key]) == prefix
    assert prefix.covers(made.key)
    assert not prefix.covers(KEY)

    @deferred(dg.sensor, "hours")
    def look(prefix: Prefix) -> dg.SkipReason:
        return dg.SkipReason(prefix.text)

    assert [look(one).name for one in (ALONE, Prefix("mine"))] == ["look", "mine_look"]


def test_without_a_prefix_everything_stays_as_it_is():
    spec = dg.AssetSpec(KEY, deps=["service"], group_name="warehouse")
    assert ALONE.asset(spec) == spec
    assert (ALONE.name("report"), ALONE.key(KEY), prefix_of([KEY]), ALONE.covers(KEY)) == ("report", KEY, ALONE, True)

    def read(lake: int) -> int:
        return lake

    assert ALONE.adapted(read) is read


@pytest.mark.parametrize("text", ["wme/", "9", "with space", "é", "-"])
def test_prefix_that_cannot_begin_a_name_is_refused(text):
    with pytest.raises(ValueError, match="Use letters, digits and underscores, and begin with a letter"):
        Prefix(text)


def test_resources_are_asked_for_by_prefixed_keys_and_the_prefix_is_filled_in():
    def read(context: str, lake: dg.ResourceParam[int], other: int, prefix: Prefix) -> tuple[str, int, int, Prefix]:
        return context, lake, other, prefix

    adapted = Prefix("mine").adapted(read)
    assert list(inspect.signature(adapted).parameters) == ["context", "mine_lake", "other"]
    assert adapted("here", mine_lake=1, other=2) == ("here", 1, 2, Prefix("mine"))
    assert ALONE.adapted(read)("here", lake=1, other=2) == ("here", 1, 2, ALONE)


def test_assets_are_made_again_under_the_prefix():
    @dg.multi_asset(
        name="read",
        specs=[dg.AssetSpec(KEY, group_name="warehouse")],
        partitions_def=dg.DynamicPartitionsDefinition(name="pages"),
        pool="reading",
        config_schema={"count": dg.Field(int, default_value=3)},
    )
    def read(context: dg.AssetExecutionContext, lake: dg.ResourceParam[str]):
        yield dg.MaterializeResult(metadata={"lake": lake, "count": context.op_execution_context.op_config["count"]})

    for prefix, key in ((ALONE, KEY), (Prefix("mine"), KEY.with_prefix("mine"))):
        asset = prefix.asset(read)
        assert (asset.op.name, asset.op.pool) == (prefix.name("read"), prefix.name("reading"))
        assert asset.partitions_def == dg.DynamicPartitionsDefinition(name=prefix.name("pages"))
        with dg.DagsterInstance.ephemeral() as instance:
            instance.add_dynamic_partitions(prefix.name("pages"), ["one"])
            resources = {prefix.name("lake"): "deep"}
            result = dg.materialize([asset], resources=resources, instance=instance, partition_key="one")
        (made,) = result.get_asset_materialization_events()
        assert made.asset_key == key
        assert {name: one.value for name, one in made.materialization.metadata.items()} == {"lake": "deep", "count": 3}
