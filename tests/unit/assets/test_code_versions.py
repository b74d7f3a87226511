"""A list that was made by another declaration is shown as out of date until it is made again; a good hour never is."""

import json

import dagster as dg

from assets import layers
from assets.lists import list_assets
from pipelines.definitions import build_defs
from resources.datasets import LISTS, LOOKUPS, named
from resources.lake import conversion_version, lists
from resources.settings import Settings
from tests.unit.enterprise.loopback import json_reply

PROJECTS = layers.keys(named("projects"))[1:]


def make(bench, instance):
    """Convert and load the archived list of projects; returns the data versions."""
    own = {"instance": instance, "resources": bench.resources()}
    assert dg.materialize(list_assets(LISTS), **own, selection=list(PROJECTS)).success
    made = (instance.get_latest_materialization_event(key).asset_materialization for key in PROJECTS)
    return [one.tags["dagster/data_version"] for one in made]


def test_another_declaration_makes_another_version_and_the_same_list_does_not(bench, instance, monkeypatch):
    def code():
        return [one.code_version for asset in list_assets(LISTS) for one in asset.specs if one.key in PROJECTS]

    first, before = make(bench, instance), code()
    assert (make(bench, instance), len(before), code()) == (first, 2, before)
    monkeypatch.setattr(lists, "LISTS_VERSION", lists.LISTS_VERSION + 1)
    # Dagster shows what another version made as out of date
    assert not {*code()} & {*before}
    assert make(bench, instance)[1] != first[1]
    path = bench.layout.list_archive(named("projects"))
    path.write_text(json.dumps([*json.loads(path.read_bytes()), *[{"name": "without identifier"}] * 2]))
    make(bench, instance)
    metadata = instance.get_latest_materialization_event(PROJECTS[0]).asset_materialization.metadata
    odd = [f"record {number}: identifier is missing, and no row can be without it." for number in (5, 6)]
    assert metadata["odd_records"].value == "; ".join(odd)


def test_what_is_made_part_by_part_has_no_code_version():
    """An hour that was made before there was a version, or over a range, would never be up to date again."""
    graph = build_defs(Settings()).resolve_asset_graph()
    versions = {key: graph.get(key).code_version for key in graph.get_all_asset_keys()}
    versioned = {key.path[-1] for key, version in versions.items() if version is not None}
    assert versioned == {*(one.name for one in LISTS), "lookups"}
    assert not [key for key, version in versions.items() if version and graph.get(key).is_partitioned]
    assert {*map(versions.get, layers.keys(LOOKUPS)[1:])} == {conversion_version(LOOKUPS.table)}


def test_an_empty_list_replaces_none(bench, instance):
    for name in ("projects", "languages"):
        bench.fake.script(f"/v2/{name}", json_reply([]))
    codes, languages, projects = (bench.layout.list_archive(named(name)) for name in ("codes", "languages", "projects"))
    kept, own = projects.read_bytes(), {"instance": instance, "resources": bench.resources(), "raise_on_error": False}
    made = dg.materialize(list_assets(LISTS)[:1], **own)
    (failed,) = [one for one in made.all_events if one.is_step_failure]
    told = (
        "The service sent empty lists of languages and projects, which were not stored. Earlier lists and their tables"
    )
    assert failed.step_failure_data.user_failure_data.description.startswith(told)
    assert (projects.read_bytes(), languages.exists(), codes.exists()) == (kept, False, True)
