"""`entities` and what is derived from it equal the sandbox's own, whatever happened to hours and snapshots."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from resources.datasets import ENTITY_CHANGES, SNAPSHOT_ENTITIES
from resources.lake import Archive, Layout, convert
from resources.sandbox import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.tables import ENTITIES
from resources.warehouse import Snapshot
from tests.builds import OpenWarehouse, lay
from tests.entity_truth import WIKI, assert_derived, assert_same, found_rows, truth
from tests.integration.mirror import mirrored
from tests.truth import assert_rebuilt_alike

HOUR = timedelta(hours=1)
END = datetime(2026, 2, 4, 1, tzinfo=UTC)


def world_of(folder, seed, **options):
    usual = {"projects": ("enwiki",), "entities": 80, "body_bytes": 300, "chunk_bytes": 60_000, "changes_per_hour": 4}
    return ArchivedWorld(Settings(state=folder, seed=seed, overlap=seed % 3 != 0, **usual | options))


def load_hour(warehouse, world, hour, told=None):
    """Load an hour of a world, or what it tells of another hour under this one's name."""
    files = []
    for file in world.batches(told or hour, [WIKI]):
        identifier, namespace = file.record["identifier"], file.record["namespace"]["identifier"]
        archive = Archive(file.path, identifier, file.version, hour, WIKI, namespace, dataset=ENTITY_CHANGES)
        files.append(convert(archive, Layout(warehouse.data), bodies=ENTITY_CHANGES.table.bodies))
    return warehouse.load_hour(hour, files, dataset=ENTITY_CHANGES)


def load_snapshot(warehouse, world, identifier, started):
    found, namespace = world.snapshot(identifier, started), int(identifier.rpartition("_")[2])
    known = {"snapshot_id": identifier, "snapshot_version": found.version, "dataset": SNAPSHOT_ENTITIES}
    files = []
    for chunk in found.chunks:
        archive = Archive(chunk.path, chunk.record["identifier"], chunk.version, None, WIKI, namespace, **known)
        files.append(convert(archive, Layout(warehouse.data), bodies=SNAPSHOT_ENTITIES.table.bodies))
    place = {"project_id": WIKI, "namespace_id": namespace, "exported_at": started}
    return warehouse.load_snapshot(Snapshot(files=tuple(files), file_count=len(files), **place, **known))


def check(tmp_path, seed, *, hours, **options):
    """Two snapshots and some hours, in any order, some twice, one loaded from another world in between and mended."""
    draw = random.Random(seed)
    world, warehouse = world_of(tmp_path / "world", seed, **options), OpenWarehouse(lay(tmp_path / "data"))

    def apply():
        warehouse.apply_entity_changes()
        with warehouse.auditing() as auditor:  # what the checks look for is never there
            found = [*auditor.overlooked(ENTITIES, 100, name=20), auditor.repeated(ENTITIES, name=20)]
        assert [one.named for one in found] == [()] * 3

    chosen = [END - back * HOUR for back in reversed(range(1, hours + 1))]
    older, newer = chosen[0] + timedelta(minutes=21), chosen[hours // 2] + timedelta(minutes=9)
    works = [(load_hour, hour) for hour in chosen]
    works += [(load_snapshot, name, when) for name in world.entity_identifiers() for when in (older, newer)]
    works += draw.sample(works, 4)
    draw.shuffle(works)
    spoiled, other = draw.choice(chosen), world_of(tmp_path / "other", 99)
    for number, (load, *what) in enumerate(works):
        if number == len(works) // 2:
            assert load_hour(warehouse, other, spoiled).changed
            apply()
        load(warehouse, world, *what)
        if draw.random() < 0.4:
            apply()
    load_hour(warehouse, world, spoiled)
    # once more at the end, where no snapshot follows that everything would be decided by again
    for source, told in ((other, spoiled + 3 * HOUR), (world, spoiled)):
        apply()
        assert load_hour(warehouse, source, spoiled, told).changed
    assert not load_hour(warehouse, world, spoiled).changed
    apply()
    warehouse.publish()
    end = world.export_started_at(WIKI, chosen[-1])
    records = truth(world, end)
    assert_same(found_rows(warehouse, "entities"), records)
    assert_derived(warehouse, records)
    for past in (older + timedelta(minutes=1), newer - timedelta(minutes=1), newer, end - HOUR):
        assert_same(found_rows(warehouse, "entities_at(?)", past), truth(world, past), f"at {past}")
    assert_rebuilt_alike(warehouse, "entities")
    assert not warehouse.apply_entity_changes().changed


def test_entities_are_the_truth(tmp_path):
    check(tmp_path, 4, hours=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 204))
def test_entities_are_the_truth_over_many_seeds(tmp_path, seed):
    check(tmp_path, seed, hours=12, entities=400, body_bytes=2000)


def test_hours_alone_give_the_entities_that_they_tell_of(tmp_path):
    world, warehouse = world_of(tmp_path / "world", 5), OpenWarehouse(lay(tmp_path / "data"))
    chosen = [END - 2 * HOUR, END - HOUR]
    for hour in reversed(chosen):
        load_hour(warehouse, world, hour)
        warehouse.apply_entity_changes()
    warehouse.publish()
    records = truth(world, world.export_started_at(WIKI, chosen[-1]), since=chosen[0])
    assert_same(found_rows(warehouse, "entities"), records)


def test_an_hour_is_compared_with_what_decided_and_reads_no_other_rows(tmp_path):
    """`entities` is right without the records beyond the pending hour, also where the hour is a late one."""
    world, warehouse = world_of(tmp_path / "world", 5), OpenWarehouse(lay(tmp_path / "data"))
    early, last = END - 2 * HOUR, END - HOUR
    for identifier in world.entity_identifiers():
        load_snapshot(warehouse, world, identifier, early + timedelta(minutes=21))
    load_hour(warehouse, world, last)
    warehouse.apply_entity_changes()
    with warehouse._connector.build("forget rows") as connection:
        for table in ("snapshot_entities", "entity_changes"):
            connection.execute(f"DELETE FROM {table}")
    load_hour(warehouse, world, early)
    applied = warehouse.apply_entity_changes()
    assert (bool(applied.renewed_projects), applied.file_count > 0) == (False, True)
    warehouse.publish()
    assert_same(found_rows(warehouse, "entities"), truth(world, world.export_started_at(WIKI, last)))


def test_an_entity_that_ended_in_a_gap_is_gone(tmp_path):
    world, warehouse = world_of(tmp_path / "world", 5), OpenWarehouse(lay(tmp_path / "data"))
    early, last = END - 9 * HOUR, END - HOUR
    for hour in (early, last):
        load_hour(warehouse, world, hour)
    for identifier in world.entity_identifiers():
        load_snapshot(warehouse, world, identifier, last + timedelta(minutes=30))
    warehouse.apply_entity_changes()
    warehouse.publish()
    records = truth(world, world.export_started_at(WIKI, last))
    seen = truth(world, world.export_started_at(WIKI, early), since=early)
    assert seen.keys() - records.keys(), "nothing that the first hour tells of ended in the gap"
    assert_same(found_rows(warehouse, "entities"), records)


def test_wikidata_comes_in_where_it_is_asked_for_and_joins_the_articles(tmp_path):
    world = {"changes_per_hour": 20, "entities": 125, "body_bytes": 300}
    with mirrored(tmp_path, projects=("enwiki",), now=END + timedelta(minutes=20), **world) as mirror:
        hours = mirror.newest(1)
        made = mirror.materialize(hours)
        assert made.success, made.sentence
        assert not any("wikidata" in path or "entit" in path for path, _ in made.metadata)
        mirror.configure(wikidata=True)
        made = mirror.materialize(hours)
        assert made.success, made.sentence
        assert [hour for path, hour in made.metadata if path == "warehouse/entity_changes"] == hours
        assert all(made.checks.values()), made.checks
        assert [made.sentence for made in mirror.take_snapshots(dataset=SNAPSHOT_ENTITIES)] == ["", ""]
        mirror.publish()
        links = "entity_sitelinks JOIN entity_labels USING (entity_id)"
        pages = f"articles JOIN entities ON main_entity_id = entity_id JOIN ({links}) AS links USING (entity_id)"
        query = f"SELECT articles.name, title, label FROM {pages} WHERE links.project_id = articles.project_id"
        joined = mirror.warehouse.sql(query).rows
        assert len(joined) > 10
        assert any(name == title for name, title, _ in joined)
        states = mirror.warehouse.coverage(dataset=ENTITY_CHANGES)
        assert {(row.project_id, row.namespace_id) for row in states} == {(WIKI, 0), (WIKI, 120)}
