"""What of a snapshot lies in a folder: complete, unfinished, of another version."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources.datasets import SNAPSHOT_ARTICLES
from resources.enterprise import Disk, FetchOptions, Sidecar, models, plan_snapshot, superseded
from resources.enterprise.download.archived import Part
from resources.enterprise.snapshot.planner import look

NAME = "enwiki_namespace_0"
OLD, NEW = "0" * 32, "f" * 32


def record(kind, identifier, version=NEW, **more):
    place = {"is_part_of": {"identifier": "enwiki"}, "namespace": {"identifier": 0}}
    return kind.model_validate({"identifier": identifier, "version": version, **place, **more})


@pytest.fixture
def chunks():
    return [record(models.Chunk, f"{NAME}_chunk_{n}") for n in range(3)]


@pytest.fixture
def plan(tmp_path, chunks):
    snapshot = record(models.Snapshot, NAME, chunks=[c.identifier for c in chunks])
    options = FetchOptions(chunks=True)
    return plan_snapshot(
        snapshot, chunks, tmp_path, quotas={}, disk=Disk(10**12), cores=2, options=options, dataset=SNAPSHOT_ARTICLES
    )


def land(folder, name, version, size=10):
    (folder / name).write_bytes(b"x" * size)
    Sidecar(name, version, size, "/v2/snapshots/x/download", datetime(2026, 1, 1, tzinfo=UTC)).write(folder / name)


def leave(folder, name, version, *done):
    (folder / f"{name}.part").write_bytes(b"x" * sum(done))
    ranges = [[0, 100, n] for n in done]
    (folder / f"{name}.part.json").write_text(json.dumps({"version": version, "ranges": ranges}))


def test_a_folder_is_looked_at_without_reading_archives(tmp_path, chunks):
    names = [f"{c.identifier}.{c.version[:8]}.tar.gz" for c in chunks]
    land(tmp_path, names[0], NEW)
    leave(tmp_path, names[1], NEW, 30, 12)
    leave(tmp_path, names[2], OLD, 50)  # the same first eight digits would be needed; another version is not this one
    disk = look(tmp_path, chunks)
    assert (disk.landed, disk.left) == ({names[0]: 10}, {names[1]: 42})
    assert disk.free_bytes > 0
    (tmp_path / names[0]).write_bytes(b"x" * 9)  # cut
    assert look(tmp_path, chunks).landed == {}


def test_a_folder_that_is_not_there_yet_has_the_room_of_its_disk(tmp_path, chunks, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "a" / "b", Path("a") / "b"):
        disk = look(folder, chunks)
        assert (disk.landed, disk.left) == ({}, {})
        assert disk.free_bytes > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": "f", "ranges": [[0]]}', "nothing"])
def test_what_cannot_be_read_of_an_unfinished_file_counts_for_nothing(tmp_path, text):
    target = tmp_path / "x.tar.gz"
    if text != "nothing":
        (tmp_path / "x.tar.gz.part.json").write_text(text)
    assert Part.left_bytes(target, "f") == 0


def test_files_of_other_versions_and_forms_are_superseded_and_nothing_else(tmp_path, plan):
    for piece in plan.files[:2]:
        land(tmp_path, piece.target.name, NEW)
    leave(tmp_path, plan.files[2].target.name, NEW, 5)
    plan.manifest.write_text("{}")
    for name in ("notes.txt", f"{NAME}.tar.gz", f"{NAME}0.00000000.tar.gz", "frwiki_namespace_0.00000000.tar.gz"):
        (tmp_path / name).write_text("not ours")
    assert superseded(plan) == ()
    land(tmp_path, f"{NAME}_chunk_7.00000000.tar.gz", OLD)
    land(tmp_path, f"{NAME}.ffffffff.tar.gz", NEW)  # the other form of the same version
    leave(tmp_path, f"{NAME}_chunk_1.00000000.tar.gz", OLD, 5)
    (tmp_path / f"{NAME}.00000000.set.json").write_text("{}")
    assert [p.name for p in superseded(plan)] == [
        f"{NAME}.00000000.set.json",
        f"{NAME}.ffffffff.tar.gz",
        f"{NAME}.ffffffff.tar.gz.json",
        f"{NAME}_chunk_1.00000000.tar.gz.part",
        f"{NAME}_chunk_1.00000000.tar.gz.part.json",
        f"{NAME}_chunk_7.00000000.tar.gz",
        f"{NAME}_chunk_7.00000000.tar.gz.json",
    ]
