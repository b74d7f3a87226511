"""The checks of snapshots, current states and lists.

Each passes on good data, and fails on exactly what it is there for, by itself too.
"""

from __future__ import annotations

import json
import re
import shutil

import dagster as dg
import duckdb
import pyarrow.parquet as pq
import pytest

from assets import layers, published
from assets.checks import REBUILD
from assets.current import STATES
from pipelines.definitions import build_defs
from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, LISTS, SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES, named
from resources.sandbox import Settings, running
from resources.warehouse.state import auditor
from tests.integration.conftest import NOW
from tests.integration.mirror import Mirror

SNAPSHOTS = (SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A mirror with hours, snapshots and lists, and what the runs that made it said of their checks."""
    few = {"articles": 60, "changes_per_hour": 40, "entities": 60, "body_bytes": 300, "namespaces": (0,)}
    settings = Settings(state=tmp_path_factory.mktemp("sandbox"), now=NOW, projects=("enwiki",), **few)
    with pytest.MonkeyPatch.context() as patch, running(settings) as sandbox:
        mirror = Mirror(
            sandbox, tmp_path_factory.mktemp("checked") / "data", patch, projects=("enwiki",), wikidata=True
        )
        hours = mirror.newest(1)
        changes = [str(key.to_user_string()) for one in (ARTICLE_CHANGES, ENTITY_CHANGES) for key in layers.keys(one)]
        runs = [
            mirror.reference(),
            *mirror.take_snapshots(["enwiki_namespace_0"]),
            *mirror.take_snapshots(["wikidatawiki_namespace_0"], SNAPSHOT_ENTITIES),
            mirror.materialize(hours, changes),
            mirror._run("publish", {}, [one.key.to_user_string() for one in STATES], {}),
        ]
        assert all(one.success for one in runs)
        mirror.everything = build_defs(mirror.settings).resolve_implicit_global_asset_job_def()
        yield mirror, runs
        mirror.close()


@pytest.fixture
def mirror(whole):
    """The same mirror; what a test does to its build file is taken back."""
    mirror, _ = whole
    kept = mirror.data / "kept.duckdb"
    shutil.copyfile(mirror.warehouse.build_path, kept)
    yield mirror
    shutil.move(kept, mirror.warehouse.build_path)


def ask(mirror, *keys):
    """The answers to the checks of assets, asked for by themselves, by asset and name."""
    wanted = {key for key in mirror.everything.asset_layer.asset_graph.asset_check_keys if key.asset_key in keys}
    result = mirror.everything.get_subset(asset_selection=set(), asset_check_selection=wanted).execute_in_process(
        instance=mirror.instance
    )
    assert not [event for event in result.all_events if event.event_type_value == "ASSET_MATERIALIZATION"]
    return {(one.asset_key, one.check_name): one for one in result.get_asset_check_evaluations()}


def failed(told):
    return {name for (_, name), one in told.items() if not one.passed}


def alter(mirror, *statements):
    with duckdb.connect(mirror.warehouse.build_path) as connection:
        # the pipeline's own tables, which views of `main` show
        connection.execute("SET search_path = 'internal,main'")
        for statement in statements:
            assert connection.execute(statement).fetchall() != [(0,)], statement


def test_runs_answer_the_checks_of_what_they_make_and_good_data_passes(whole):
    _, (lists, *snapshots, hours, states) = whole
    assert {"rows_accounted", "not_empty", "unique_key", "mirrored_known"} == {*lists.checks}
    assert len(snapshots) == 2
    for one in snapshots:
        assert {*one.checks} == {
            "archives_verified", "rows_accounted", "rejects_share", "fields_known", "loaded_whole", "unique_key"
        }  # fmt: skip
    assert {"unique_key", "deleted_absent", "changes_taken_in"} == {*states.checks}
    for run in (lists, *snapshots, hours, states):
        assert all(run.checks.values()), run.checks


def test_checks_asked_for_alone_look_at_everything_that_is_there(mirror):
    keys = [key for one in (*SNAPSHOTS, *LISTS) for key in layers.keys(one)] + [one.key for one in STATES]
    told = ask(mirror, *keys)
    assert failed(told) == set()
    assert len(told) == 6 * 2 + 3 * 4 + 2 + 3 * 2
    looked_at = {key: one.metadata["looked_at"].value for key, one in told.items()}
    assert min(looked_at.values()) > 0, looked_at
    [(pages, entities)] = mirror.rows("SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM entities)")
    assert (looked_at[STATES[0].key, "unique_key"], looked_at[STATES[1].key, "unique_key"]) == (pages, entities)
    [(changes,)] = mirror.rows("SELECT count(*) FROM article_changes")
    assert looked_at[STATES[0].key, "changes_taken_in"] == changes


def test_damaged_archives_of_snapshots_are_found(mirror):
    victims = {one: next((mirror.layout.archive / one.archive).rglob("*.tar.gz")) for one in SNAPSHOTS}
    good = {path: path.read_bytes() for path in victims.values()}
    for path, content in good.items():
        path.write_bytes(content[:-1] + b"x")
    told = ask(mirror, *map(layers.archive_key, SNAPSHOTS))
    for path, content in good.items():
        path.write_bytes(content)
    for dataset, path in victims.items():
        one = told[layers.archive_key(dataset), "archives_verified"]
        assert not one.passed
        assert f" is damaged: {path} has the MD5 " in one.description
        assert f". Remove the file and materialize archive/{dataset.archive} for this snapshot. If " in one.description


def test_rows_that_files_of_snapshots_lost_are_found(mirror):
    victims = {one: max(mirror.lake_files(one.name)) for one in SNAPSHOTS}
    good = {path: path.read_bytes() for path in victims.values()}
    tables = {path: pq.read_table(path) for path in good}
    for path, table in tables.items():
        pq.write_table(table.slice(0, table.num_rows - 1), path)
    told = ask(mirror, *(key for one in SNAPSHOTS for key in layers.keys(one)[1:]))
    for path, content in good.items():
        path.write_bytes(content)
    in_lake = (layers.warehouse_key(SNAPSHOT_ARTICLES), "loaded_whole")  # DuckDB has no rows of its own of these
    wrong = {(layers.lake_key(one), "rows_accounted") for one in SNAPSHOTS} | {in_lake}
    assert {key for key, one in told.items() if not one.passed} == wrong
    for dataset, path in victims.items():
        rows, description = tables[path].num_rows, told[layers.lake_key(dataset), "rows_accounted"].description
        wanted = f": {path} contains {rows - 1} rows, but the conversion counted {rows}. The archive is intact. "
        assert wanted in description


def test_damaged_files_of_snapshots_are_named_and_come_back(mirror):
    victims = [max(mirror.lake_files(one.name)) for one in SNAPSHOTS]
    good = {path.relative_to(mirror.layout.lake).as_posix(): path.read_bytes() for path in victims}
    for path in victims:
        path.write_bytes(path.read_bytes()[:100])
    told = ask(mirror, published.KEY)[published.KEY, "lake_files_whole"]
    assert not told.passed
    for name in good:
        assert f"{name} has 100 bytes, but the ledger says " in told.description
    done = mirror.repair()
    assert ({file.lake_path for file in done.replaced}, done.failed) == (good.keys(), [])
    assert {name: (mirror.layout.lake / name).read_bytes() for name in good} == good
    assert ask(mirror, published.KEY)[published.KEY, "lake_files_whole"].passed
    mirror.warehouse.apply_changes()
    mirror.warehouse.apply_entity_changes()
    assert failed(ask(mirror, *map(layers.warehouse_key, SNAPSHOTS), *(one.key for one in STATES))) == set()


def test_rows_of_a_snapshot_that_are_missing_or_repeated_in_duckdb_are_found(mirror):
    key = layers.warehouse_key(SNAPSHOT_ENTITIES)
    one = "rowid = (SELECT min(rowid) FROM snapshot_entities WHERE namespace_id = 0)"
    alter(mirror, f"DELETE FROM snapshot_entities WHERE {one}")
    told = ask(mirror, key)
    assert failed(told) == {"loaded_whole"}
    assert told[key, "loaded_whole"].description.startswith("wikidatawiki_namespace_0: ")
    assert re.search(rf" rows instead of \d+\. {re.escape(REBUILD)}$", told[key, "loaded_whole"].description)
    alter(mirror, f"INSERT INTO snapshot_entities FROM snapshot_entities WHERE {one}")
    told = ask(mirror, key)
    assert failed(told) == {"unique_key"}
    assert told[key, "unique_key"].description == f"wikidatawiki_namespace_0: 1 repeated row. {REBUILD}"


def test_a_page_and_an_entity_that_are_there_twice_are_found_in_any_part(mirror, monkeypatch):
    alter(
        mirror,
        "INSERT INTO articles FROM articles WHERE article_id = (SELECT min(article_id) FROM articles)",
        "INSERT INTO entities FROM entities WHERE entity_id = (SELECT min(entity_id) FROM entities)",
    )
    monkeypatch.setattr(auditor, "ROWS_AT_A_TIME", 20)
    pages, entities = (one.key for one in STATES)
    told = ask(mirror, pages, entities)
    assert [key for key, one in told.items() if not one.passed] == [(pages, "unique_key"), (entities, "unique_key")]
    assert told[pages, "unique_key"].metadata["wrong"].value == 2, "the page, and its title"
    assert "2 rows; enwiki " in told[pages, "unique_key"].description
    assert told[entities, "unique_key"].description.endswith(f" has 2 rows. {REBUILD}")
    parts = 1 + told[pages, "unique_key"].metadata["looked_at"].value // 20
    with mirror.warehouse.auditing() as again:
        turns = [again.repeated(STATES[0].table, turn, name=20) for turn in range(parts + 1)]
    assert sum(turn.count for turn in turns[:-1]) == 2, "each part has its turn"
    assert turns[-1] == turns[0]
    assert max(turn.looked_at for turn in turns) <= 20


@pytest.mark.parametrize(
    ("state", "changes", "key"),
    [(STATES[0], "article_changes", "title_key"), (STATES[1], "entity_changes", "entity_id")],
    ids=["articles", "entities"],
)
def test_what_a_state_did_not_take_in_is_found(mirror, state, changes, key):
    newest = f"(SELECT max(event_at) FROM {state.table.name})"
    [(name, project)] = mirror.rows(
        f"SELECT {'name' if changes == 'article_changes' else 'entity_id'}, project_id FROM {state.table.name} WHERE "
        f"event_at = {newest}"
    )
    name = name.replace("_", " ")
    # it was deleted a second later, which the state passed over
    later = "event_at = event_at + INTERVAL 1 SECOND"
    alter(mirror, f"UPDATE {changes} SET change_type = 'delete', {later} WHERE event_at = {newest}")
    told = ask(mirror, state.key)
    assert failed(told) == {"deleted_absent"}
    assert told[state.key, "deleted_absent"].description.startswith(f"{project} {name} was deleted at 2026-01-05 ")
    assert told[state.key, "deleted_absent"].description.endswith(f" UTC but is still present. {REBUILD}")
    # it is there, but as it was before
    alter(
        mirror,
        f"UPDATE {changes} SET change_type = 'update' WHERE event_at > {newest}",
        f"UPDATE {state.table.name} SET event_at = event_at - INTERVAL 1 DAY WHERE event_at = {newest}",
    )
    told = ask(mirror, state.key)
    assert failed(told) == {"changes_taken_in"}
    assert " but its row is from 2026-01-04 " in told[state.key, "changes_taken_in"].description
    # nothing of all that changed is there: so many are named, and all are counted
    alter(
        mirror,
        f"DELETE FROM {state.table.name} WHERE {key} IN (SELECT {key} FROM {state.table.name} SEMI JOIN {changes} "
        f"USING (project_id, {'name' if key == 'title_key' else key}))",
    )
    told = ask(mirror, state.key)
    assert failed(told) == {"changes_taken_in"}
    one = told[state.key, "changes_taken_in"]
    assert one.description.startswith(project)
    assert ", but has no row; " in one.description
    wrong = one.metadata["wrong"].value
    assert wrong > 20
    assert one.description.endswith(f"; and {wrong - 20} more. {REBUILD}")


def test_a_list_that_is_empty_or_has_an_entry_twice_is_found(mirror):
    languages, codes = (layers.warehouse_key(named(name)) for name in ("languages", "codes"))
    alter(mirror, "DELETE FROM languages", "INSERT INTO codes FROM codes LIMIT 1")
    [(code,)] = mirror.rows("SELECT code FROM codes GROUP BY ALL HAVING count(*) = 2")
    told = ask(mirror, languages, codes)
    assert [key for key, one in told.items() if not one.passed] == [(codes, "unique_key"), (languages, "not_empty")]
    again = "Materialize archive/reference and its downstream assets."
    assert told[codes, "unique_key"].description == f"{code} has 2 rows. {again}"
    assert told[languages, "not_empty"].description == f"languages has no rows. The service sent an empty list. {again}"


def test_a_project_or_namespace_that_the_service_no_longer_has_is_found(mirror):
    projects, namespaces = (layers.warehouse_key(named(name)) for name in ("projects", "namespaces"))
    alter(mirror, "DELETE FROM projects WHERE project_id = 'enwiki'", "DELETE FROM namespaces WHERE namespace_id = 0")
    told = ask(mirror, projects, namespaces)
    assert failed(told) == {"mirrored_known"}
    one = told[projects, "mirrored_known"]
    assert one.severity is dg.AssetCheckSeverity.WARN
    assert one.description == (
        "enwiki is not in the list of projects. No new data arrives for missing names. Loaded data is kept. Correct "
        "WME_PROJECTS, or contact the vendor."
    )
    assert told[namespaces, "mirrored_known"].description.startswith("0 is not in the list of namespaces. ")


def test_a_record_that_a_list_lost_on_its_way_is_found(mirror):
    dataset = named("projects")
    [victim] = mirror.lake_files("projects")
    good, count = victim.read_bytes(), len(json.loads(mirror.layout.list_archive(dataset).read_bytes()))
    pq.write_table(pq.read_table(victim).slice(1), victim)
    told = ask(mirror, layers.lake_key(dataset))
    victim.write_bytes(good)
    assert failed(told) == {"rows_accounted"}
    assert told[layers.lake_key(dataset), "rows_accounted"].description.startswith(
        f"{victim} contains {count - 1} rows, but the list has {count} records. The archived list is intact. "
    )


def test_an_odd_record_of_a_list_is_named_and_the_others_are_loaded(mirror):
    dataset = named("codes")
    path = mirror.layout.list_archive(dataset)
    good = path.read_bytes()
    path.write_text(json.dumps([*json.loads(good), {"name": "without identifier"}]))
    told = ask(mirror, layers.lake_key(dataset))
    path.write_bytes(good)
    description = told[layers.lake_key(dataset), "rows_accounted"].description
    number = len(json.loads(good)) + 1
    assert f"record {number}: identifier is missing" in description
