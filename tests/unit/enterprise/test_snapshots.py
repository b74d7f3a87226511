"""What of a snapshot lies in a folder: complete, unfinished, of another version."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources.datasets import SNAPSHOT_ARTICLES
from resources.enterprise import FetchOptions, Sidecar, models, plan_snapshot, superseded
from resources.enterprise.snapshot.planner import planned_file

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
    whole, *files = (planned_file(tmp_path, one) for one in (snapshot, *chunks))
    more = {"quotas": {}, "free_bytes": 10**12, "options": options, "dataset": SNAPSHOT_ARTICLES}
    return plan_snapshot(snapshot, whole, files, **more)


def land(folder, name, version, size=10):
    (folder / name).write_bytes(b"x" * size)
    Sidecar(name, version, size, "/v2/snapshots/x/download", datetime(2026, 1, 1, tzinfo=UTC)).write(folder / name)


def leave(folder, name, size):
    (folder / f"{name}.part").write_bytes(b"x" * size)


def test_a_folder_is_looked_at_without_reading_archives(tmp_path, chunks):
    names = [f"{c.identifier}.{c.version[:8]}.tar.gz" for c in chunks]
    land(tmp_path, names[0], NEW)
    leave(tmp_path, names[1], 30)
    (tmp_path / f"{names[1]}.part.100").write_bytes(b"x" * 12)
    leave(tmp_path, f"{chunks[2].identifier}.{OLD[:8]}.tar.gz", 50)  # another version
    land(tmp_path, f"{chunks[2].identifier}.{OLD[:8]}.tar.gz", OLD)

    def found():
        return [(one.there_bytes, one.is_landed) for one in (planned_file(tmp_path, chunk) for chunk in chunks)]

    assert found() == [(10, True), (42, False), (0, False)]
    (tmp_path / names[0]).write_bytes(b"x" * 9)  # cut
    assert found() == [(0, False), (42, False), (0, False)]


def test_a_folder_that_is_not_there_yet_has_the_room_of_its_disk(client, fake, tmp_path, monkeypatch):
    fake.add_snapshot(NAME, b"a", b"b")
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "a" / "b", Path("a") / "b"):
        plan = client.snapshots.plan(NAME, folder)
        assert (plan.folder, len(plan.missing)) == (folder, len(plan.files))
        assert plan.free_bytes > 0
    assert not (tmp_path / "a").exists()


def test_files_of_other_versions_and_forms_are_superseded_and_nothing_else(tmp_path, plan):
    for piece in plan.files[:2]:
        land(tmp_path, piece.target.name, NEW)
    leave(tmp_path, plan.files[2].target.name, 5)
    (tmp_path / f"{plan.files[2].target.name}.part.100").write_text("x")
    plan.manifest.write_text("{}")
    for name in ("notes.txt", f"{NAME}.tar.gz", f"{NAME}0.00000000.tar.gz", "frwiki_namespace_0.00000000.tar.gz"):
        (tmp_path / name).write_text("not ours")
    assert superseded(plan) == ()
    land(tmp_path, f"{NAME}_chunk_7.00000000.tar.gz", OLD)
    land(tmp_path, f"{NAME}.ffffffff.tar.gz", NEW)  # the other form of the same version
    leave(tmp_path, f"{NAME}_chunk_1.00000000.tar.gz", 5)
    (tmp_path / f"{NAME}_chunk_1.00000000.tar.gz.part.100").write_text("x")
    (tmp_path / f"{NAME}.00000000.set.json").write_text("{}")
    assert [p.name for p in superseded(plan)] == [
        f"{NAME}.00000000.set.json",
        f"{NAME}.ffffffff.tar.gz",
        f"{NAME}.ffffffff.tar.gz.json",
        f"{NAME}_chunk_1.00000000.tar.gz.part",
        f"{NAME}_chunk_1.00000000.tar.gz.part.100",
        f"{NAME}_chunk_7.00000000.tar.gz",
        f"{NAME}_chunk_7.00000000.tar.gz.json",
    ]
