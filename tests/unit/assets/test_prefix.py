"""A prefix for the names of a project, and functions as Dagster calls them under it."""

import inspect

import dagster as dg
import pytest

from assets.prefix import ALONE, Prefix, deferred, own, prefix_of, unprefixed

KEY = dg.AssetKey(["warehouse", "articles"])


def test_names_keys_and_checks_begin_with_the_prefix_and_are_found_again_without_it():
    prefix = Prefix("mine")
    spec, check = dg.AssetSpec(KEY, deps=["service"], group_name="warehouse"), dg.AssetCheckSpec("whole", asset=KEY)
    (made,) = prefix.specs([spec])
    assert (made.key.path, made.group_name) == (["mine", "warehouse", "articles"], "mine_warehouse")
    assert [dep.asset_key.path for dep in made.deps] == [["mine", "service"]]
    assert [one.asset_key for one in prefix.check_specs([check])] == [made.key]
    assert unprefixed(made.key) == KEY
    assert own([made.key]) == {KEY: made.key}
    assert prefix_of([made.key]) == prefix
    assert prefix.covers(made.key)
    assert not prefix.covers(KEY)


def test_without_a_prefix_everything_stays_as_it_is():
    spec = dg.AssetSpec(KEY, deps=["service"], group_name="warehouse")
    assert ALONE.specs([spec]) == [spec]
    assert (ALONE.name("report"), ALONE.key(KEY), prefix_of([KEY]), ALONE.covers(KEY)) == ("report", KEY, ALONE, True)

    def read(lake: int) -> int:
        return lake

    assert ALONE.adapted(read) is read


@pytest.mark.parametrize("text", ["wme/", "9", "with space", "é", "-"])
def test_prefix_that_cannot_begin_a_name_is_refused(text):
    with pytest.raises(ValueError, match="write letters, digits and underscores, a letter first"):
        Prefix(text)


def test_resources_are_asked_for_by_prefixed_keys_and_the_prefix_is_filled_in():
    def read(context: str, lake: dg.ResourceParam[int], other: int, prefix: Prefix) -> tuple[str, int, int, Prefix]:
        return context, lake, other, prefix

    adapted = Prefix("mine").adapted(read)
    assert list(inspect.signature(adapted).parameters) == ["context", "mine_lake", "other"]
    assert adapted("here", mine_lake=1, other=2) == ("here", 1, 2, Prefix("mine"))
    assert ALONE.adapted(read)("here", lake=1, other=2) == ("here", 1, 2, ALONE)


def test_generators_stay_generators_and_decorators_wait_for_the_prefix():
    @deferred(lambda prefix: dg.multi_asset(name=prefix.name("read"), specs=prefix.specs([dg.AssetSpec(KEY)])))
    def read(context: dg.AssetExecutionContext, lake: dg.ResourceParam[str]):
        yield dg.MaterializeResult(metadata={"lake": lake})

    for prefix, key in ((ALONE, KEY), (Prefix("mine"), KEY.with_prefix("mine"))):
        asset = read(prefix)
        assert asset.op.name == prefix.name("read")
        result = dg.materialize([asset], resources={prefix.name("lake"): "deep"})
        (made,) = result.get_asset_materialization_events()
        assert made.asset_key == key
        assert made.materialization.metadata["lake"].value == "deep"
