"""A list that was made by another declaration is shown as out of date until it is made again; a good hour never is."""

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from assets import layers
from assets.lists import list_assets
from pipelines.definitions import build_defs
from resources.datasets import LISTS, named
from resources.lake import lists
from resources.settings import Settings

PROJECTS = layers.keys(named("projects"))[1:]


def make(bench, instance):
    """Convert and load the archived list of projects; returns the data versions."""
    result = dg.materialize(
        list_assets(LISTS), instance=instance, resources=bench.resources(), selection=list(PROJECTS)
    )
    assert result.success
    made = (instance.get_latest_materialization_event(key).asset_materialization for key in PROJECTS)
    return [one.tags["dagster/data_version"] for one in made]


def causes(bench, instance):
    """Why each of the two is out of date, as the Dagster UI has it."""
    graph = dg.Definitions(list_assets(LISTS), resources=bench.resources()).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return [
        [cause.reason for cause in resolver.get_stale_causes(key)]
        for key in PROJECTS
        if resolver.get_status(key) is StaleStatus.STALE
    ]


def test_what_another_declaration_made_is_shown_until_it_is_made_again(bench, instance, monkeypatch):
    first = make(bench, instance)
    assert causes(bench, instance) == []
    assert make(bench, instance) == first, "the same list by the same code is the same data"
    monkeypatch.setattr(lists, "LISTS_VERSION", lists.LISTS_VERSION + 1)
    assert causes(bench, instance) == [["has a new code version"]] * 2
    assert make(bench, instance)[1] != first[1]
    assert causes(bench, instance) == []


def test_what_is_made_part_by_part_has_no_code_version():
    """An hour that was made before there was a version, or over a range, would never be up to date again."""
    graph = build_defs(Settings()).resolve_asset_graph()
    versions = {key: graph.get(key).code_version for key in graph.get_all_asset_keys()}
    assert {key.path[-1] for key, version in versions.items() if version is not None} == {
        *(one.name for one in LISTS), "lookups"
    }  # fmt: skip
    assert not [key for key, version in versions.items() if version and graph.get(key).is_partitioned]
