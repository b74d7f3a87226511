"""Compacted files of Wikidata: hours and the chunks of a snapshot show the same entities and bodies as before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq

from assets.steps import housekeeping
from assets.steps.compaction import compact_lake
from resources import datasets
from resources.engine import Engine
from resources.lake import Layout
from resources.warehouse import Snapshot
from resources.warehouse.views.lake import make_views, sources

CHANGES, PAGES = datasets.ENTITY_CHANGES, datasets.SNAPSHOT_ENTITIES
PROJECT = "wikidatawiki"


def write(lake, folder, identifier, dataset, rows, **own):
    """A lake file named by its rows, and what a conversion says of it."""
    whole = [dict.fromkeys(dataset.table.schema.names) | row for row in rows]
    return lake._written(folder, identifier, repr(rows).encode(), whole, dataset.table, **own)


def entity(name, moment, statements, change_type="update", **more):
    return {
        "entity_id": name,
        "change_type": change_type,
        "event_at": moment,
        "statements_json": f'"{statements}"',
        **more,
    }


def hour_of(lake, number, edition=0):
    """The files of an hour: an item, one that is there twice with two revisions, and one that was deleted."""
    hour, files = lake.hour(number), []
    for namespace in (0, 120):
        place = {"batch_hour": hour, "project_id": PROJECT, "namespace_id": namespace}
        rows = [
            entity(f"Q{10 - number}", hour, f"{number} {edition}", version_id=1),
            *(entity(f"Q{namespace}", hour, f"{number} {version} {edition}", version_id=version) for version in (2, 1)),
            entity(f"Q{20 + number}", hour, "gone", "delete"),
        ]
        folder, name = f"{CHANGES.name}/date={hour:%Y-%m-%d}/hour={hour:%H}", f"{PROJECT}_namespace_{namespace}"
        files.append(write(lake, folder, name, CHANGES, [row | place for row in rows], **place))
    return files


def load(made, *numbers, edition=0):
    for number in numbers:
        made.warehouse.load_hour(made.lake.hour(number), hour_of(made.lake, number, edition), dataset=CHANGES)
    made.warehouse.apply_entity_changes()


def compact(made):
    made.warehouse._clock.now += timedelta(days=3)
    return compact_lake(Layout(made.data), made.warehouse, Engine(workers=1), memory_bytes=1 << 18, threads=1)


def content(warehouse):
    """What a publication would show now."""
    with warehouse._connector.build("look") as connection:
        connection.execute("BEGIN")
        make_views(connection, found := sources(connection, warehouse._lake_root))
        names = ("entities", "entity_bodies")
        rows = {name: connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in names}
        connection.execute("ROLLBACK")
    return rows, [
        Path(path) for one in found.parts if one.dataset.bodies is datasets.ENTITY_CHANGES.bodies for path in one.paths
    ]


def test_compacted_hours_show_the_same_bodies_also_after_an_hour_is_loaded_again_or_a_file_is_lost(make):
    compacted, plain = make(), make()
    for made in (compacted, plain):
        load(made, 0, 1, 2)
    [done] = compact(compacted)
    assert (done.read_files, done.written_files, done.row_count) == (6, 1, 18)
    rows, [path] = content(compacted.warehouse)
    assert rows == content(plain.warehouse)[0]
    assert path.parent.name == CHANGES.name
    keys = pq.read_table(path, columns=["project_id", "entity_id", "event_at"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: tuple(row.values()))
    waiting = housekeeping.clean(
        Layout(compacted.data), compacted.warehouse, now=compacted.warehouse._clock.now
    ).waiting
    assert len(waiting) == 6
    for made in (compacted, plain):
        load(made, 1, edition=1)
    rows, files = content(compacted.warehouse)
    assert (rows, len(files)) == (content(plain.warehouse)[0], 3)
    path.unlink()
    load(compacted, 0, 2)
    assert content(compacted.warehouse)[0] == rows
    assert [one.read_files for one in compact(compacted)] == [6]
    found, files = content(compacted.warehouse)
    assert (found, len(files)) == (rows, 1)


def test_the_chunks_of_a_snapshot_show_the_same_bodies_when_they_are_compacted(mirror):
    own = {
        "snapshot_id": f"{PROJECT}_namespace_0",
        "snapshot_version": "e" * 32,
        "project_id": PROJECT,
        "namespace_id": 0,
    }
    folder = f"{PAGES.name}/{own['snapshot_id']}/{'e' * 8}"
    files = []
    for number in range(5):
        rows = [entity(f"Q{one}", mirror.lake.hour(number), number) | own for one in (7 * number % 5, 10 + number, 30)]
        files.append(write(mirror.lake, folder, f"{own['snapshot_id']}_chunk_{number}", PAGES, rows))
    snapshot = Snapshot(*own.values(), tuple(files), 5, mirror.lake.hour(5), PAGES)
    mirror.warehouse.load_snapshot(snapshot)
    mirror.warehouse.apply_entity_changes()
    before, _ = content(mirror.warehouse)
    [done] = compact(mirror)
    assert (done.read_files, done.written_files, done.row_count) == (5, 1, 11)
    rows, files = content(mirror.warehouse)
    assert (rows, len(files)) == (before, 1)
    assert len(rows["entities"]) == 11
