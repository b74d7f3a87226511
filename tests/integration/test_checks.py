"""The checks of snapshots, current states and lists: each fails on exactly what it is there for, by itself too."""

import hashlib
import json
import re
import shutil

import dagster as dg
import duckdb
import pyarrow.parquet as pq
import pytest

from assets import current, layers, published
from assets.checks import REBUILD
from assets.current import STATES
from pipelines.definitions import build_defs
from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, LISTS, SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES, named
from resources.warehouse.state import auditor
from tests.integration.conftest import NOW
from tests.integration.daemon import ask_checks
from tests.integration.mirror import mirrored

SNAPSHOTS = (SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A mirror with hours, snapshots and lists, and what the runs that made it said of their checks."""
    few = {"articles": 60, "changes_per_hour": 40, "entities": 60, "body_bytes": 300}
    with mirrored(tmp_path_factory.mktemp("checked"), projects=("enwiki",), wikidata=True, now=NOW, **few) as mirror:
        hours = mirror.newest(1)
        changes = [str(key.to_user_string()) for one in (ARTICLE_CHANGES, ENTITY_CHANGES) for key in layers.keys(one)]
        runs = [
            mirror.run("reference"),
            mirror.take_snapshot("enwiki_namespace_0"),
            mirror.take_snapshot("wikidatawiki_namespace_0", SNAPSHOT_ENTITIES),
            mirror.materialize(hours, changes),
            mirror.run("publish", selection=[one.key.to_user_string() for one in STATES]),
        ]
        assert all(one.success for one in runs)
        for one in SNAPSHOTS:
            (mirror.layout.archive / one.archive / "before_all_others_and_never_complete").mkdir()
        mirror.everything = build_defs(mirror.settings).resolve_implicit_global_asset_job_def()
        yield mirror, runs


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
    return ask_checks(mirror.everything, mirror.instance, lambda check: check.asset_key in keys)


def failed(told):
    return {name for (_, name), one in told.items() if not one.passed}


def alter(mirror, *statements):
    with duckdb.connect(mirror.warehouse.build_path) as connection:
        # the pipeline's own tables, which views of `main` show
        connection.execute("SET search_path = 'internal,main'")
        for statement in statements:
            assert connection.execute(statement).fetchall() != [(0,)], statement


def test_runs_answer_the_checks_of_what_they_make_and_good_data_passes(whole):
    mirror, (lists, *snapshots, hours, states) = whole
    contents = {one.name: mirror.layout.list_archive(one).read_bytes() for one in LISTS}
    counts = {f"{name}_count": len(json.loads(content)) for name, content in contents.items()}
    assert lists.metadata["archive/reference", None] == counts
    applied = [states.metadata[one.key.to_user_string(), None] for one in STATES]
    assert min(one.pop("seconds") for one in applied) > 0
    [(pages, entities)] = mirror.rows("SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM entities)")
    of_pages = {"hours_applied": 1, "projects_renewed": "enwiki", "pages_written": pages, "pages_removed": 0}
    of_entities = {"files_applied": 2, "is_renewed": True, "entities_written": entities}
    counts_of = (pages, of_pages), (entities, of_entities)
    assert applied == [{"dagster/row_count": count} | more for count, more in counts_of]
    for name in contents:
        rows, (path,) = {"dagster/row_count": counts[f"{name}_count"]}, mirror.lake_files(name)
        assert lists.metadata[f"warehouse/{name}", None] == rows
        assert lists.metadata[f"lake/{name}", None].items() >= (rows | {"dagster/uri": str(path)}).items()
    made = mirror.instance.get_latest_materialization_event(layers.archive_key(LISTS[0])).asset_materialization
    assert made.tags["dagster/data_version"] == hashlib.md5(b"".join(contents.values())).hexdigest()
    assert {"rows_accounted", "not_empty", "unique_key", "mirrored_known"} == {*lists.checks}
    names = {"archives_verified", "rows_accounted", "rejects_share", "fields_known", "loaded_whole", "unique_key"}
    assert [{*one.checks} for one in snapshots] == [names] * 2
    assert {"unique_key", "deleted_absent", "changes_taken_in"} == {*states.checks}
    for run in (lists, *snapshots, hours, states):
        assert all(run.checks.values()), run.checks


def test_checks_asked_for_alone_look_at_everything_that_is_there(mirror):
    keys = [key for one in (*SNAPSHOTS, *LISTS) for key in layers.keys(one)] + [one.key for one in STATES]
    told = ask(mirror, *keys)
    assert (failed(told), len(told)) == (set(), 6 * 2 + 3 * 4 + 2 + 3 * 2)
    looked_at = {key: one.metadata["looked_at"].value for key, one in told.items()}
    assert min(looked_at.values()) > 0, looked_at
    [(pages, entities)] = mirror.rows("SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM entities)")
    assert (looked_at[STATES[0].key, "unique_key"], looked_at[STATES[1].key, "unique_key"]) == (pages, entities)
    [(changes,)] = mirror.rows("SELECT count(*) FROM article_changes")
    assert looked_at[STATES[0].key, "changes_taken_in"] == changes


def test_damaged_archives_and_rows_that_lake_files_lost_are_found_and_odd_records_are_named(mirror):
    archives = {one: next((mirror.layout.archive / one.archive).rglob("*.tar.gz")) for one in SNAPSHOTS}
    files = {one: max(mirror.lake_files(one.name)) for one in (*SNAPSHOTS, named("projects"))}
    lists = {name: mirror.layout.list_archive(named(name)) for name in ("projects", "codes")}
    good = {path: path.read_bytes() for path in (*archives.values(), *files.values(), lists["codes"])}
    counts = {name: len(json.loads(path.read_bytes())) for name, path in lists.items()}
    for path in archives.values():
        path.write_bytes(good[path][:-1] + b"x")
    tables = {path: pq.read_table(path) for path in files.values()}
    for path, table in tables.items():
        pq.write_table(table.slice(0, table.num_rows - 1), path)
    lists["codes"].write_text(json.dumps([*json.loads(good[lists["codes"]]), {"name": "without identifier"}]))
    of_lists = (layers.lake_key(named(name)) for name in lists)
    told = ask(mirror, *(key for one in SNAPSHOTS for key in layers.keys(one)), *of_lists)
    for dataset, path in archives.items():
        path.unlink()
        lost = ask(mirror, key := layers.archive_key(dataset))[key, "archives_verified"].description
        assert lost.startswith(f"{path.name} of ")
        assert " was removed from the archive. Remove" in lost
    for path, content in good.items():
        path.write_bytes(content)
    in_lake = (layers.warehouse_key(SNAPSHOT_ARTICLES), "loaded_whole")  # DuckDB has no rows of its own of these
    wrong = {(layers.lake_key(one), "rows_accounted") for one in (*files, named("codes"))} | {in_lake}
    wrong |= {(layers.archive_key(one), "archives_verified") for one in archives}
    assert {key for key, one in told.items() if not one.passed} == wrong
    for dataset, path in archives.items():
        description = told[layers.archive_key(dataset), "archives_verified"].description
        assert f" is damaged: {path} has the MD5 " in description
        assert f". Remove a damaged file and materialize archive/{dataset.archive} for this snapshot. " in description
    for dataset, path in files.items():
        rows, description = tables[path].num_rows, told[layers.lake_key(dataset), "rows_accounted"].description
        if dataset in SNAPSHOTS:
            wanted = f": {path} contains {rows - 1} rows, but the conversion counted {rows}. The archive is intact. "
            assert wanted in description
        else:
            assert rows == counts["projects"]
            wanted = f"{path} contains {rows - 1} rows, but the list has {rows} records. The archived list is intact. "
            assert description.startswith(wanted)
    description = told[layers.lake_key(named("codes")), "rows_accounted"].description
    assert f"record {counts['codes'] + 1}: identifier is missing" in description


def test_damaged_files_of_snapshots_are_named_and_come_back(mirror):
    victims = [max(mirror.lake_files(one.name)) for one in SNAPSHOTS]
    good = {path.relative_to(mirror.layout.lake).as_posix(): path.read_bytes() for path in victims}
    for path in victims:
        path.write_bytes(path.read_bytes()[:100])
    told = ask(mirror, published.KEY)[published.KEY, "lake_files_whole"]
    assert (told.passed, told.metadata["wrong"].value) == (False, len(good))
    for name in good:
        assert f"{name} has 100 bytes, but the ledger says " in told.description
    done = mirror.repair()
    assert ({file.lake_path for file in done.replaced}, done.failures) == (good.keys(), [])
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
    for table, key in (("articles", "article_id"), ("entities", "entity_id")):
        alter(mirror, f"INSERT INTO {table} FROM {table} WHERE {key} = (SELECT min({key}) FROM {table})")
    monkeypatch.setattr(auditor, "ROWS_AT_A_TIME", 20)
    pages, entities = (one.key for one in STATES)
    told = ask(mirror, pages, entities)
    assert [key for key, one in told.items() if not one.passed] == [(pages, "unique_key"), (entities, "unique_key")]
    assert told[pages, "unique_key"].metadata["wrong"].value == 2, "the page, and its title"
    assert "2 rows; enwiki " in told[pages, "unique_key"].description
    monkeypatch.setattr(current, "NAMED", 1)
    assert ask(mirror, pages)[pages, "unique_key"].metadata["wrong"].value == 2, "however many are named"
    assert told[entities, "unique_key"].description.endswith(f" has 2 rows. {REBUILD}")
    parts = 1 + told[pages, "unique_key"].metadata["looked_at"].value // 20
    with mirror.warehouse.auditing() as again:
        turns = [again.repeated(STATES[0].table, turn, name=20) for turn in range(parts + 1)]
    assert sum(turn.count for turn in turns[:-1]) == 2, "each part has its turn"
    assert turns[-1] == turns[0]
    assert max(turn.looked_at for turn in turns) <= 20


def test_what_a_state_did_not_take_in_is_found(mirror):
    states = (STATES[0], "article_changes", "title_key", "name"), (STATES[1], "entity_changes", *2 * ("entity_id",))
    newest = {state.key: f"(SELECT max(event_at) FROM {state.table.name})" for state, *_ in states}
    query = "SELECT {}, project_id FROM {} WHERE event_at = {}"
    asked = {state.key: query.format(name, state.table.name, newest[state.key]) for state, _, _, name in states}
    places = {key: mirror.rows(one) for key, one in asked.items()}
    # it was deleted a second later, which the state passed over
    later = "event_at = event_at + INTERVAL 1 SECOND"
    for state, changes, *_ in states:
        alter(mirror, f"UPDATE {changes} SET change_type = 'delete', {later} WHERE event_at = {newest[state.key]}")
    told = ask(mirror, *places)
    assert {key for key, one in told.items() if not one.passed} == {(key, "deleted_absent") for key in places}
    for key, [(name, project)] in places.items():
        description = told[key, "deleted_absent"].description
        assert description.startswith(f"{project} {name.replace('_', ' ')} was deleted at 2026-01-05 ")
        assert description.endswith(f" UTC but is still present. {REBUILD}")
    # it is there, but as it was before
    for state, changes, *_ in states:
        at, table = newest[state.key], state.table.name
        alter(mirror, f"UPDATE {changes} SET change_type = 'update' WHERE event_at > {at}")
        alter(mirror, f"UPDATE {table} SET event_at = event_at - INTERVAL 1 DAY WHERE event_at = {at}")
    told = ask(mirror, *places)
    not_taken_in = {(key, "changes_taken_in") for key in places}
    assert {key for key, one in told.items() if not one.passed} == not_taken_in
    assert all(" but its row is from 2026-01-04 " in told[key].description for key in not_taken_in)
    # nothing of all that changed is there: so many are named, and all are counted
    for state, changes, key, name in states:
        table = state.table.name
        changed = f"SELECT {key} FROM {table} SEMI JOIN {changes} USING (project_id, {name})"
        alter(mirror, f"DELETE FROM {table} WHERE {key} IN ({changed})")
    told = ask(mirror, *places)
    assert {key for key, one in told.items() if not one.passed} == not_taken_in
    for key, [(_, project)] in places.items():
        one = told[key, "changes_taken_in"]
        assert one.description.startswith(project)
        assert ", but has no row; " in one.description
        wrong = one.metadata["wrong"].value
        assert wrong > 20
        assert one.description.endswith(f"; and {wrong - 20} more. {REBUILD}")


def test_lists_that_are_empty_or_have_an_entry_twice_and_mirrored_names_that_are_gone_are_found(mirror):
    languages, codes = (layers.warehouse_key(named(name)) for name in ("languages", "codes"))
    projects, namespaces = (layers.warehouse_key(named(name)) for name in ("projects", "namespaces"))
    alter(mirror, "DELETE FROM languages", "INSERT INTO codes FROM codes LIMIT 1")
    alter(mirror, "DELETE FROM projects WHERE project_id = 'enwiki'", "DELETE FROM namespaces WHERE namespace_id = 0")
    [(code,)] = mirror.rows("SELECT code FROM codes GROUP BY ALL HAVING count(*) = 2")
    told = ask(mirror, languages, codes, projects, namespaces)
    wrong = {(codes, "unique_key"), (languages, "not_empty")}
    wrong |= {(one, "mirrored_known") for one in (projects, namespaces)}
    assert {key for key, one in told.items() if not one.passed} == wrong
    again = "Materialize archive/reference and its downstream assets."
    assert told[codes, "unique_key"].description == f"{code} has 2 rows. {again}"
    assert told[languages, "not_empty"].description == f"languages has no rows. The service sent an empty list. {again}"
    one = told[projects, "mirrored_known"]
    assert one.severity is dg.AssetCheckSeverity.WARN
    assert one.description == (
        "enwiki is not in the list of projects. No new data arrives for missing names. Loaded data is kept. Correct "
        "WME_PROJECTS, or contact the vendor."
    )
    assert told[namespaces, "mirrored_known"].description.startswith("0 is not in the list of namespaces. ")
