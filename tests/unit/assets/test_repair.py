"""Lake files that are damaged come back from the archive with the next publication, or are named."""

import os
import shutil
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock, call

import dagster as dg
import pytest

from assets import current
from assets.current import STATES, current_state
from assets.published import compacted, format_merged
from assets.steps import compaction, rebuilding
from assets.steps.compaction import Compacted, compact_lake
from assets.steps.hour import load_hour
from assets.steps.rebuilding import Loads, Rebuilt, format_repaired, repaired
from resources import storage
from resources.adapters import ConfiguredEngine
from resources.datasets import ARTICLE_CHANGES
from resources.engine.mapping import EngineError
from resources.formatting import size_text
from resources.lake import DiskFull, LakeError
from resources.settings import Settings
from resources.tables import ARTICLES
from resources.warehouse import FaultyFile, LakeFileError, Merge, Moved, Part, Warehouse
from resources.warehouse.records import Applied
from resources.warehouse.state.auditor import Auditor, Findings
from tests.unit.assets.conftest import NEXT
from tests.unit.enterprise.conftest import HOUR

BODIES = "SELECT project_id, wikitext FROM article_bodies ORDER BY ALL"
#: As many as are worth a compaction.
PROJECTS = ("dewiki", "enwiki", "frwiki", "itwiki")


@pytest.fixture
def loaded(bench):
    """Some projects of an hour, loaded and published; their lake files by project."""
    archived, made = converted(bench)
    load_hour(archived, made, bench.warehouse)
    bench.warehouse.publish()
    return {one.project_id: one.path for one in made}


def converted(bench):
    for project in PROJECTS:
        bench.serve(project, 1, 2)
    archived = bench.fetch(*((project, 0) for project in PROJECTS))
    return archived, bench.convert(archived)


def repair(bench, most=48, **own):
    own = bench.resources(**own)
    engine = ConfiguredEngine(Settings(threads=1, engine="dask://127.0.0.1:1"))  # repairs need no workers
    return repaired(own["lake"], own["warehouse"], engine, lambda _: None, most)


def published(bench):
    return bench.warehouse.sql(BODIES).rows


def test_a_publication_makes_a_damaged_file_again_and_says_so(bench, loaded, publish, monkeypatch):
    before, path = published(bench), loaded["enwiki"]
    content = path.read_bytes()
    path.write_bytes(content[:50])
    made = publish(0, *PROJECTS)
    assert (made["faulty_lake_files"], made["changed"]) == (0, True)
    assert bench.warehouse.sql("SELECT value FROM about WHERE name = 'service'").rows == [("unknown",)]
    assert made["repaired"] == f"Restored from the archive: {path.relative_to(bench.layout.lake).as_posix()}."
    assert (path.read_bytes(), published(bench), list(bench.layout.lake.rglob("*.damaged*"))) == (content, before, [])
    assert "repaired" not in publish(0, *PROJECTS)
    # one of the file's hours came back, and another did not
    monkeypatch.setattr(rebuilding, "repaired", lambda *words: replace(repaired(*words), replaced=[]))
    path.unlink()
    assert publish(0, *PROJECTS)["faulty_lake_files"] == 0


def test_whatever_lies_in_their_place_is_replaced(bench, loaded):
    before = published(bench)
    content = {path: path.read_bytes() for path in loaded.values()}
    wrong = bytearray(content[loaded["dewiki"]])
    wrong[40] ^= 4
    loaded["dewiki"].write_bytes(wrong)
    assert bench.warehouse.faulty_lake_files() == []
    with pytest.raises(storage.UNREADABLE) as found:
        storage.verify(loaded["dewiki"])
    bench.warehouse.note_damage(loaded["dewiki"].relative_to(bench.layout.lake).as_posix(), str(found.value))
    for project in ("enwiki", "frwiki", "itwiki"):
        loaded[project].unlink()
    loaded["frwiki"].mkdir()
    (loaded["frwiki"] / "mine").touch()
    os.mkfifo(loaded["itwiki"])
    done = repair(bench)
    assert (done.load_count, done.failures) == (1, [])
    assert {bench.layout.lake / file.lake_path for file in done.replaced} == set(content)
    assert {path: path.read_bytes() for path in content} == content
    bench.warehouse.publish()
    assert published(bench) == before
    # nobody's folder is removed
    assert len(list(bench.layout.lake.rglob("*.damaged*"))) == 1
    assert [one.name for one in bench.layout.lake.rglob("mine")] == ["mine"]


def test_without_its_archive_the_file_and_its_hour_stay_and_the_message_says_what_is_lost(bench, loaded):
    path = loaded["enwiki"]
    path.write_bytes(b"short")
    postponed = "Postponed repairs: 1. The next run continues if enough disk space is free."
    (archive,) = bench.layout.archive.rglob("enwiki*.tar.gz")
    kept, done = archive.rename(archive.with_suffix(".away")), repair(bench)
    told = "1 load could not be restored: article_changes 2026-11-01 05:00 UTC: The enwiki_namespace_0 file "
    assert format_repaired(done).startswith(told)
    assert format_repaired(replace(done, waiting=1)) == f"{postponed} {format_repaired(done)}"
    assert format_repaired(replace(done, waiting=1, failures=[])) == postponed
    assert (path.read_bytes(), len(bench.warehouse.publish().faulty_lake_files)) == (b"short", 1)
    assert {project for project, _ in published(bench)} == {"dewiki", "frwiki", "itwiki"}
    # a damaged archive: the conversion fails, what was there is there again, and no other file of the hour is repaired
    ledger = "SELECT project_id, loaded_at FROM loads ORDER BY ALL"
    before = bench.warehouse.sql(ledger).rows
    bench.clock.advance(days=1)
    loaded["frwiki"].write_bytes(b"short")
    archive.write_bytes(b"no archive")
    done = repair(bench)
    assert (done.load_count, len(done.failures), done.replaced, path.read_bytes()) == (0, 1, [], b"short")
    bench.warehouse.publish()
    assert bench.warehouse.sql(ledger).rows == before
    kept.rename(archive)
    assert repair(bench).load_count == 1


@pytest.mark.parametrize(("most", "free", "waiting"), [(2, 10**9, 1), (48, 10**9, 0), (48, 10**9 - 1, 3)])
def test_repairs_begin_with_the_newest_hour_and_end_at_a_limit_or_a_full_disk(bench, monkeypatch, most, free, waiting):
    again, hours = [], [HOUR + timedelta(hours=number) for number in (1, 0, 2)]
    parts = [Part("article_changes", hour, hour, "enwiki", 0) for hour in hours]
    # the last file has rows of two hours
    files = [FaultyFile(f"{of}", "", True, of) for of in (*((part,) for part in parts), tuple(parts[1:]))]
    monkeypatch.setattr(Warehouse, "faulty_lake_files", lambda _warehouse: files)
    monkeypatch.setattr(Loads, "load_again", lambda _loads, parts: again.append(parts[0].batch_hour))
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))
    done = repair(bench, most, min_free_gb=1.0)
    assert again == [hours[2], hours[0], hours[1]][: 3 - waiting]
    whole = [file for file in files if {part.batch_hour for part in file.parts} <= {*again}]
    assert (done.waiting, done.load_count, done.replaced) == (waiting, 3 - waiting, whole)
    assert len(whole) == {0: 4, 1: 2, 3: 0}[waiting]
    both = tuple(Part("snapshot_articles", None, HOUR, "enwiki", number) for number in (0, 14))
    assert [*rebuilding._units([FaultyFile("", "", True, both)])] == [[both[1]], [both[0]]]


def test_compactions_begin_with_the_newest_hours_and_each_failure_counts(bench, monkeypatch):
    tried, told, warehouse = [], [], MagicMock()
    merges = [Merge(span, span, "", 1, 1, hour) for span, hour in (("hour", NEXT), ("snapshot", None), ("month", HOUR))]
    warehouse.compactions.return_value = [(ARTICLE_CHANGES, merge) for merge in merges]
    warehouse.prepare_compaction.side_effect = lambda merge, _: Mock(merge=merge, digest=merge.name, inputs=())

    kinds = iter((LakeError, EngineError, LakeFileError))
    warehouse.move_window.side_effect = LakeFileError("The window is damaged.")

    def fail(job, **_):
        tried.append((job.name, job.level, job.group_bytes >> 20, job.memory_bytes, job.threads))
        raise next(kinds)(f"The {job.name} is damaged.")

    monkeypatch.setattr(compaction, "compact", fail)
    monkeypatch.setattr(compaction, "sweep", sweep := Mock())
    with pytest.raises(LakeError, match="The hour is damaged") as caught:
        compact_lake(bench.layout, warehouse, bench.engine, memory_bytes=5, threads=7)
    assert tried == [("hour", 3, 16, 5, 7), ("month", 9, 32, 5, 7), ("snapshot", 3, 16, 5, 7)]
    assert (caught.value.__notes__, sweep.call_args) == (["3 other steps also failed."], call(bench.layout))
    # workers get what fits on the disk, the rest afterwards, and what never fits fails alone
    large = [replace(merge, lake_bytes=size) for merge, size in zip(merges, (3, 9, 3), strict=True)]
    warehouse.compactions.return_value = [(ARTICLE_CHANGES, merge) for merge in large]
    warehouse.move_window.side_effect = [moved := Moved(HOUR, NEXT, 1), None]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=36))
    given = []
    compactor = Mock(compact_all=lambda jobs, _: given.append([job.name for job in jobs]))
    with pytest.raises(DiskFull, match="Compacting the  can temporarily need 54 B of disk space"):
        compact_lake(bench.layout, warehouse, bench.engine, compactor=compactor, min_free_gb=6e-9, say=told.append)
    assert (given, told) == ([["hour"], ["month"]], [moved])


def test_a_compacted_file_comes_back_hour_by_hour_from_either_half(bench, loaded):
    before = published(bench)
    for half in ("rows", "bodies"):
        bench.clock.advance(days=3)
        compact_lake(bench.layout, bench.warehouse, bench.engine, memory_bytes=1 << 24, threads=1)
        bench.warehouse.publish()
        assert published(bench) == before
        (path,) = bench.layout.compacted_folder(ARTICLE_CHANGES.name).glob(f"*.{half}.parquet")
        path.write_bytes(path.read_bytes()[:-9])
        (faulty,) = bench.warehouse.faulty_lake_files()
        projects = {part.project_id for part in faulty.parts}
        assert (faulty.lake_path.endswith(f".{half}.parquet"), projects) == (True, {*PROJECTS})
        assert (repair(bench).failures, bench.warehouse.publish().faulty_lake_files) == ([], ())
        assert published(bench) == before
        for one in path.parent.iterdir():
            one.unlink()


def test_a_compaction_leaves_the_room_that_is_to_stay_free_and_says_what_it_did(bench, loaded, instance, monkeypatch):
    moved = Moved(HOUR - timedelta(hours=5), HOUR, 2)
    compacting = Mock(side_effect=lambda *words, compactor, **more: [*compact_lake(*words, **more), moved])
    monkeypatch.setattr(ConfiguredEngine, "compactor", lambda *_: nullcontext("workers"))
    monkeypatch.setattr("assets.published.compact_lake", compacting)
    bench.clock.advance(days=3)
    engine = {"engine": ConfiguredEngine(Settings(threads=1))}
    with pytest.raises(dg.Failure, match="must leave 1,000,000"):
        dg.materialize([compacted], instance=instance, resources=bench.resources(min_free_gb=1e6) | engine)
    result = dg.materialize([compacted], instance=instance, resources=bench.resources() | engine)
    [made] = result.asset_materializations_for_node("lake__compacted")
    sizes = [path.stat().st_size for path in bench.layout.compacted_folder(ARTICLE_CHANGES.name).iterdir()]
    read = sum(path.stat().st_size for path in loaded.values())
    assert {name: one.value for name, one in made.metadata.items()} == {
        "spans": 1, "read_files": 4, "read_bytes": read, "written_files": 1, "written_bytes": sum(sizes), "rows": 8,
        "changes_left_to_lake": 2, "read_size": size_text(read), "written_size": size_text(sum(sizes)),
    }  # fmt: skip
    passed = [compacting.call_args.kwargs[name] for name in ("compactor", "threads", "min_free_gb")]
    assert passed == ["workers", 1, 0]
    told = "Moved 2 changes from 2026-11-01 00:00 to 2026-11-01 05:00 UTC from the DuckDB files to compacted files."
    step = Compacted(Merge("day", "d", "day 2026-11-01", 9, 9000), 9, 9000, 1, 7000, 30, 4)
    more = "The day 2026-11-01 was compacted: 9 files (9.0 kB) into 1 (7.0 kB), 30 rows. 4 of its parts were reloaded "
    assert format_merged(moved) == told
    assert format_merged(step).startswith(more)
    assert format_merged(replace(step, given_up_count=0)).endswith(" 30 rows.")


def test_a_compaction_names_the_damaged_file_which_then_comes_back(bench, loaded):
    path = loaded["enwiki"]
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    bench.clock.advance(days=3)
    told = rf"{path.name} cannot be read \(.*, so it was not compacted[.;] [Nn]othing was changed"
    with pytest.raises(LakeError, match=told):
        compact_lake(bench.layout, bench.warehouse, bench.engine, memory_bytes=1 << 24, threads=1)
    assert path.exists()
    before = published(bench)
    assert (repair(bench).failures, bench.warehouse.publish().faulty_lake_files) == ([], ())
    assert published(bench) == before
    compact_lake(bench.layout, bench.warehouse, bench.engine, memory_bytes=1 << 24, threads=1)
    assert (bench.warehouse.publish().changed, published(bench)) == (True, before)


def test_a_state_that_meets_damaged_files_has_all_repaired_and_its_checks_look_at_a_part_of_the_keys(
    bench, loaded, instance, monkeypatch
):
    applied = Applied("articles", "page", (HOUR, NEXT), 3, 4, ("enwiki", "frwiki"), 5, 6, 7, 1.23456)
    apply, repair = Mock(side_effect=[LakeFileError("No."), applied]), Mock(return_value=Rebuilt(load_count=1))
    page = SimpleNamespace(project_id="enwiki", name="A", known_at=HOUR, is_deleted=True, held_at=NEXT)
    repeated = Mock(return_value=Findings((("enwiki", "A", 2),), 30, 9))
    overlooked = Mock(return_value=(Findings((page,), 40, 8), Findings((page,), 50, 7)))
    monkeypatch.setattr(Warehouse, "apply_changes", apply)
    monkeypatch.setattr(rebuilding, "repaired", repair)
    monkeypatch.setattr(Auditor, "repeated", repeated)
    monkeypatch.setattr(Auditor, "overlooked", overlooked)
    monkeypatch.setattr(current, "time", SimpleNamespace(time=lambda: 7200.0))
    how = {"instance": instance, "resources": bench.resources() | {"engine": ConfiguredEngine(Settings(threads=1))}}
    result = dg.materialize([current_state(STATES[0])], **how)
    [made] = result.asset_materializations_for_node("warehouse__articles")
    counts = {"dagster/row_count": 7, "seconds": 1.235, "hours_applied": 2, "pages_written": 5, "pages_removed": 6}
    found = {name: one.value for name, one in made.metadata.items()}
    assert found == counts | {"projects_renewed": "enwiki, frwiki"}
    assert STATES[1].metadata(applied) == {"files_applied": 3, "is_renewed": True, "entities_written": 5}
    assert repair.call_args.kwargs == {"most": None}
    assert (repeated.mock_calls, overlooked.mock_calls) == ([call(ARTICLES, 2, name=20)], [call(ARTICLES, 24, name=20)])
    wrong = {one.check_name: one.metadata["wrong"].value for one in result.get_asset_check_evaluations()}
    assert wrong == {"unique_key": 30, "deleted_absent": 40, "changes_taken_in": 50}
    apply.side_effect, repair.return_value = LakeFileError("It is lost."), Rebuilt(failures=["Lost."])
    with pytest.raises(dg.Failure, match="It is lost"):
        dg.materialize([current_state(STATES[0])], **how)


def test_an_hour_that_is_run_again_converts_what_cannot_be_read(bench):
    archived, made = converted(bench)
    paths = {one.project_id: one.path for one in made}
    content = {path: path.read_bytes() for path in paths.values()}
    paths["enwiki"].write_bytes(b"")
    paths["frwiki"].write_bytes(content[paths["enwiki"]])  # of another archive
    made = bench.convert(archived)
    assert {one.project_id for one in made if one.converted} == {"enwiki", "frwiki"}
    assert [one.identifier for one in made] == [one.identifier for one in archived.archives]
    assert {path: path.read_bytes() for path in content} == content
