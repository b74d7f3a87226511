"""Backups of a mirror in use: killed on the way, taken again, restored elsewhere and compared row by row."""

import hashlib
import shutil
from pathlib import Path

import pytest

from resources import backup as backups
from resources import datasets
from resources.warehouse import Warehouse
from tests.e2e.conftest import KILLED_AT, contents, digests


@pytest.fixture
def copied(filled, copy):
    return copy(filled[0])


def test_what_was_backed_up_during_loads_and_kills_is_the_same_mirror(call, runner, killed, copied, hours, tmp_path):
    data, to = Path(copied["WME_DATA"]), tmp_path / "backups"
    before = digests(data)
    assert {"articles", "article_changes", "article_bodies", "hours", "loads", "codes"} <= before.keys()
    # killed as the first file comes, in the middle, and when all is there but the name
    for at in (r"build\.duckdb", r"/archive/", r"\d{6}Z$"):
        killed(KILLED_AT, at, "0", "backup", str(to), environ=copied)
        assert not backups.completed(to)
    told = "The folder contains an unfinished backup, which `wme backup` can resume."
    call("restore", str(to), environ=copied | {"WME_DATA": str(tmp_path / "none")}).fails(told)
    assert not (tmp_path / "none").exists()
    assert call("backup", str(to), environ=copied).code == 0
    [first] = backups.completed(to)
    is_first = contents(first.path)

    # an hour is fetched, converted, loaded and published meanwhile
    loading = runner.start(copied, hours[2:])
    for at in (r"unfinished/lake/", r"history", r"backup\.json", r"build\.duckdb"):
        killed(KILLED_AT, at, "0", "backup", str(to), environ=copied)
        assert [one.path for one in backups.completed(to)] == [first.path]
    call("backup", str(to), environ=copied).done()
    assert loading.finish() == []
    after = digests(data, moments=False)
    assert after["articles"] != before["articles"]

    assert contents(first.path) == is_first
    for number, backup in enumerate(backups.completed(to)):
        restored = copied | {"WME_DATA": str(tmp_path / f"restored {number}, it's here")}
        call("restore", str(backup.path), environ=restored).done()
        folder = Path(restored["WME_DATA"])
        assert not list(folder.glob("state/tokens*")), "tokens are secrets"
        if number == 0:
            assert digests(folder) == before
            continue
        # and it goes on from there: the hour is loaded where the backup has not got it
        call("run", "--from", f"{hours[2]:%Y-%m-%dT%H}", "--no-reference", environ=restored).done()
        assert digests(folder, moments=False) == after


def test_only_new_files_are_copied_and_older_backups_go_when_asked(call, copied, tmp_path):
    data, to = Path(copied["WME_DATA"]), tmp_path / "backups"
    dry = call("backup", str(to), "--dry-run", environ=copied).done()
    assert dry.out.endswith("The previous backup contains 0 other files (0 B). Nothing was copied.\n")
    assert not to.exists()
    assert call("backup", str(to), environ=copied).code == 0
    archived = len([path for path in data.glob("archive/**/*") if path.is_file()])
    assert call("backup", str(to), "--dry-run", environ=copied).out.startswith("1 file (")  # the build file
    assert call("backup", str(to), environ=copied).code == 0
    first, second = backups.completed(to)
    one, same = (next(backup.path.glob("archive/batches/*/*/*.tar.gz")) for backup in (first, second))
    assert one.samefile(same)
    assert len([path for path in second.path.glob("archive/**/*") if path.is_file()]) == archived
    for name, digest in second.sums():
        assert hashlib.md5((second.path / name).read_bytes()).hexdigest() == digest
    # half removed by somebody who was killed
    first.path.rename(to / f".removed-{first.path.name}")
    (data / one.relative_to(first.path)).unlink()
    told = call("backup", str(to), "--keep", "1", environ=copied)
    assert "The previous backup contains 1 archive file that the data folder no longer contains." in told.out
    assert "Removed 1 older backup." in told.out
    assert {path.name for path in to.iterdir()} == {".lock", backups.completed(to)[0].path.name}
    assert not second.path.exists()


def test_what_is_damaged_is_left_out_and_named(call, copied, tmp_path):
    data, to = Path(copied["WME_DATA"]), tmp_path / "backups"
    assert call("backup", str(to), environ=copied).code == 0
    archive = next(data.glob("archive/batches/*/*/enwiki*.tar.gz"))
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    lake, longer = sorted(data.glob("lake/article_changes/*/*/*.parquet"))[:2]
    aside, content = lake.rename(tmp_path / lake.name), longer.read_bytes()
    longer.write_bytes(content + b"x")
    call("backup", str(to), environ=copied).fails(
        f"1 archive on disk differs from the verified download and was skipped ({archive.relative_to(data)}).",
        "2 lake files in the ledger are missing from the data folder and the backup, or have a different size (",
        *(str(one.relative_to(data / "lake")) for one in (lake, longer)),
    )
    longer.write_bytes(content)
    archive.write_bytes(whole)
    aside.rename(lake)
    assert "The previous backup contains" not in call("backup", str(to), environ=copied).done().out

    newest = backups.completed(to)[-1].path
    hurt = newest / lake.relative_to(data)
    hurt.write_bytes(b"PAR1" + hurt.read_bytes()[4:-1] + b"?")
    restored = copied | {"WME_DATA": str(tmp_path / "restored")}
    told = f"1 file in the backup is missing or damaged:\n  {lake.relative_to(data)}\n"
    call("restore", str(to), environ=restored).fails(told)
    assert not (tmp_path / "restored" / lake.relative_to(data)).exists()
    assert call("sql", "FROM articles LIMIT 1", environ=restored).code == 0
    build, other = newest / "warehouse/build.duckdb", copied | {"WME_DATA": str(tmp_path / "other")}
    build.write_bytes(build.read_bytes()[:-1])
    told = f"The backup file {build} is damaged. All other files were restored. Restore an older backup into an empty"
    call("restore", str(newest), environ=other).fails(told, "or run `wme rebuild` to create the warehouse")
    assert list((tmp_path / "other").glob("archive/batches/*/*/*.tar.gz"))
    with (newest / "MD5SUMS").open("a") as sums:
        sums.write("\n")
    call("restore", str(newest), environ=copied | {"WME_DATA": str(tmp_path / "second")}).fails("MD5SUMS is damaged")


def test_a_damaged_note_of_the_backup_or_of_the_service_changes_nothing(call, copied, tmp_path):
    data, to = Path(copied["WME_DATA"]), tmp_path / "backups"
    assert call("backup", str(to), environ=copied).code == 0
    [backup] = backups.completed(to)
    facts, restored = backup.path / "backup.json", copied | {"WME_DATA": str(tmp_path / "restored")}
    facts.write_bytes(b"\xff[]")
    call("restore", str(to), environ=restored).fails("There is no complete backup in")
    for content in (b"[]", b"\xff", b"[" * 50_000):
        (data / "state/service.json").write_bytes(content)
        before, told = contents(data / "archive"), f"The file {data / 'state/service.json'} is damaged"
        for words in (("run",), ("publish",), ("backup", str(to))):
            call(*words, environ=copied).fails(told, "Restore the file from a backup")
        assert contents(data / "archive") == before


def test_a_killed_restore_goes_on_and_other_folders_are_left_alone(call, killed, copied, tmp_path):
    data, to = Path(copied["WME_DATA"]), tmp_path / "backups"
    assert call("backup", str(to), environ=copied).code == 0
    everything = contents(data)
    call("restore", str(to), environ=copied).fails(f"The data folder {data} is not empty. Nothing was changed.")
    assert contents(data) == everything
    for inside in (data / "backups", data, tmp_path):
        call("backup", str(inside), environ=copied).fails("must not contain each other. Nothing was copied.")
    restored = copied | {"WME_DATA": str(tmp_path / "restored")}
    for at in (r"/lake/", r"build\.duckdb$", r"/warehouse\.duckdb$"):
        killed(KILLED_AT, at, "0", "restore", str(to), environ=restored)
    (tmp_path / "restored/warehouse/build.duckdb.wal").write_bytes(b"of another file")
    assert (call("restore", str(to), environ=restored).code, digests(tmp_path / "restored")) == (0, digests(data))
    assert "is not empty" in call("restore", str(to), environ=restored).err
    # of another service
    (tmp_path / "restored/state/service.json").write_text('{"service": "https://elsewhere.example"}')
    told = "but this mirror uses https://elsewhere.example. Nothing was changed."
    call("backup", str(to), environ=restored).fails(told)
    assert "nothing to back up" in call("backup", str(to), environ=copied | {"WME_DATA": str(tmp_path / "none")}).err


def test_the_archive_alone_makes_the_identical_warehouse(call, killed, mirrored, copy, service, hours, tmp_path):
    # with a snapshot underneath, and answers that were paid for
    copied = copy(mirrored | {"WME_PROJECTS": "enwiki,frwiki"})
    data, watched = Path(copied["WME_DATA"]), tmp_path / "watched.txt"
    [(name,)] = Warehouse(data).sql("SELECT min(name) FROM articles WHERE project_id = 'enwiki'").rows
    watched.write_text(f"enwiki {name}\n")
    call("lookups", environ=copied | {"WME_WATCHLIST": str(watched)}).done()
    assert call("publish", environ=copied).code == 0
    before = digests(data, moments=False)
    assert all(before[table][0] for table in ("articles", "lookups", "snapshot_articles", "snapshots", "codes"))

    for made in ("lake", "warehouse"):
        shutil.rmtree(data / made)
    (data / "warehouse.duckdb").unlink()
    call("publish", environ=copied).fails("no data is loaded", "run `wme rebuild`")
    service.requests.clear()
    killed(KILLED_AT, rf"article_changes/.*hour={hours[1]:%H}", "0", "rebuild", environ=copied)
    call("rebuild", environ=copied).done()
    assert digests(data, moments=False) == before
    call("rebuild", environ=copied).done("Converted 0 archives. Loaded 0 snapshot versions and 0 hours.")
    assert not service.requests
    assert digests(data, moments=False) == before
    # an archive that is damaged keeps nothing else back, of its own hour neither
    (data / "warehouse/build.duckdb").unlink()
    shutil.rmtree(data / "lake/article_changes")
    next(data.glob(f"archive/batches/*/hour={hours[0]:%H}/enwiki*.tar.gz")).write_bytes(b"no archive")
    told = call("rebuild", environ=copied).fails(f"article_changes {hours[0]:%Y-%m-%d %H}:00 UTC: ")
    assert "Loaded 2 snapshot versions and 3 hours." in told.out
    rows = Warehouse(data).coverage(published=False, dataset=datasets.ARTICLE_CHANGES)
    states = {(row.batch_hour, row.project_id): row.state for row in rows}
    assert (states[hours[0], "enwiki"], states[hours[0], "frwiki"]) == ("missing", "loaded")
    assert "There is no archive in " in call("rebuild", environ=copied | {"WME_DATA": str(tmp_path / "none")}).err


def test_a_full_disk_is_a_sentence(call, copied, mounted):
    small = mounted("size=9m") / "backups"
    call("backup", str(small), environ=copied).fails("The backup needs about ", "Complete backups are unchanged")
    assert not backups.completed(small)
