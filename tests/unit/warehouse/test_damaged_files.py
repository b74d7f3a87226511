"""Lake files that are damaged are treated like missing ones: the rest is published, and they are named."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

from assets.steps.rebuilding import repaired
from resources.adapters import ConfiguredEngine, ConfiguredLake
from resources.datasets import SNAPSHOT_ARTICLES
from resources.files import UnusableFileError
from resources.settings import Settings
from resources.storage import read_footer
from resources.warehouse import LakeFileError, QueryError, named
from resources.warehouse.read import ledger as faults_
from resources.warehouse.read.ledger import LOOKED_AT, MISSING, faults


def fill(lake, warehouse, hours=3):
    """Hours with one body each; returns their files."""
    files = []
    for hour in range(hours):
        row = lake.change(hour + 1, f"Page {hour}", 60 * hour, html=f"<p>{hour}</p>", wikitext=f"text {hour}")
        files.append(lake.file(hour, [row]))
        warehouse.load_hour(lake.hour(hour), files[-1:])
    return files


def cut(share):
    return lambda path, content: path.write_bytes(content[: int(len(content) * share)])


def replaced(make):
    def damage(path, content):
        path.unlink()
        make(path)

    return damage


FORMS = {
    "gone": lambda path, content: path.unlink(),
    "empty": cut(0),
    "cut in its header": lambda path, content: path.write_bytes(content[:3]),
    "cut in the middle": cut(0.5),
    "cut in its footer": lambda path, content: path.write_bytes(content[:-5]),
    "longer": lambda path, content: path.write_bytes(content + b"PAR1"),
    "garbage of its size": lambda path, content: path.write_bytes(bytes(len(content))),
    "wrong magic": lambda path, content: path.write_bytes(content[:-4] + b"PAR2"),
    "absurd length of the footer": lambda path, content: path.write_bytes(content[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "garbage in its footer": lambda path, content: path.write_bytes(content[:-600] + bytes(592) + content[-8:]),
    "directory": replaced(lambda path: path.mkdir()),
    "FIFO": replaced(os.mkfifo),
    "link to itself": replaced(lambda path: path.symlink_to(path)),
    "another": lambda path, content: path.write_bytes(next(path.parents[1].glob("hour=02/*.parquet")).read_bytes()),
}


def mend(path, content):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def test_every_form_of_damage_is_noticed_and_a_look_costs_no_footer_of_a_file_that_did_not_change(
    lake, warehouse, monkeypatch
):
    wanted = [file.path for file in fill(lake, warehouse)]
    path, empty = wanted[0], lake.file(3, [])
    warehouse.load_hour(lake.hour(3), [empty])
    empty.path.unlink()  # nobody needs a file without rows
    content, name = path.read_bytes(), path.relative_to(warehouse.data / "lake").as_posix()
    for form, damage in FORMS.items():
        damage(path, content)
        (faulty,) = warehouse.faulty_lake_files()
        assert (faulty.lake_path, faulty.is_gone) == (name, form == "gone"), form
        assert [(part.batch_hour, part.project_id) for part in faulty.parts] == [(lake.hour(0), "enwiki")], form
        mend(path, content)
    assert warehouse.faulty_lake_files() == []
    warehouse.publish()
    read = []
    monkeypatch.setattr(faults_, "read_footer", lambda path: read.append(path) or read_footer(path))
    later = time.time_ns() + 3600 * 10**9
    with warehouse._connector.published() as connection:
        assert (faults(connection, warehouse.data / "lake", wanted, {LOOKED_AT: later}), read) == ({}, [])
        # one that was faulty before is looked at again, whatever its times say
        other = wanted[1].relative_to(warehouse.data / "lake").as_posix()
        assert faults(connection, warehouse.data / "lake", wanted, {LOOKED_AT: later, MISSING: [other]}) == {}
        assert read == [wanted[1]]
        # nor what its modification time says of one that was changed since
        path.write_bytes(bytes(len(content)))
        os.utime(path, ns=(1, 1))
        assert [*faults(connection, warehouse.data / "lake", wanted, {LOOKED_AT: time.time_ns()})] == [path]
        mend(path, content)
    monkeypatch.setattr(faults_, "_MARGIN_NS", -3600 * 10**9)
    read.clear()
    assert (warehouse.publish().changed, warehouse.is_published(), read) == (False, True, [])
    # what no publication has seen yet fails the query that reads it, and no other one
    path.write_bytes(b"")
    with pytest.raises(QueryError, match=str(Path(path).name)):
        warehouse.sql("SELECT wikitext FROM article_bodies")
    assert warehouse.sql("SELECT count(*) FROM articles").rows == [(3,)]


@pytest.mark.parametrize(
    "form", ["FIFO", *(pytest.param(one, marks=pytest.mark.soak) for one in ("empty", "gone", "wrong magic"))]
)
def test_what_is_damaged_is_left_out_and_named(lake, warehouse, caplog, form):
    path = fill(lake, warehouse)[0].path
    content, name = path.read_bytes(), path.relative_to(warehouse.data / "lake").as_posix()
    assert warehouse.publish().missing_lake_file_count == 0
    # the first file of a view is the one that DuckDB opens when the view is made
    FORMS[form](path, content)
    made = warehouse.publish()
    assert [file.lake_path for file in made.faulty_lake_files] == [name]
    assert (made.changed, made.lake_file_count, made.missing_lake_file_count) == (True, 2, 1)
    assert all(words in caplog.text for words in (name, "1 lake file cannot be read"))
    assert warehouse.is_published()
    assert warehouse.sql("SELECT value FROM about WHERE name = 'missing_lake_file_count'").rows == [("1",)]
    assert warehouse.sql("SELECT wikitext FROM article_bodies ORDER BY 1").rows == [("text 1",), ("text 2",)]
    assert warehouse.sql("SELECT count(*) FROM article_changes").rows == [(3,)]
    assert [one.lake_path for one in warehouse.faulty_lake_files(published=True)] == [name]
    # nothing changed: it is remembered, and nothing is written again
    assert warehouse.publish().changed is False
    mend(path, content)
    assert not warehouse.is_published()
    made = warehouse.publish()
    assert (made.lake_file_count, made.missing_lake_file_count) == (3, 0)
    query = "SELECT count(*), (SELECT value FROM about WHERE name = 'lake_file_count') FROM article_bodies"
    assert warehouse.sql(query).rows == [(3, "3")]
    warehouse.load_hour(lake.hour(4), [lost := lake.file(4, [lake.change(9, "Lost before it is published", 241)])])
    lost.path.unlink()
    assert [len(warehouse.faulty_lake_files(published=published)) for published in (True, False)] == [0, 1]


def test_a_ledger_that_names_other_files_shows_none_of_them(lake, warehouse):
    files = fill(lake, warehouse, 6)
    names = ["../victim/x.parquet", f"{warehouse.data.resolve()}/victim/y.parquet", "*/*/*/x.parquet"]
    names += [f"article_changes/{pattern}/x.parquet" for pattern in ("[d]", "{d,e}")]
    with duckdb.connect(warehouse.build_path) as connection:
        for file, name in zip(files, names, strict=False):
            victim = warehouse.data / "lake" / name
            victim.parent.mkdir(parents=True, exist_ok=True)
            victim.write_bytes(file.path.read_bytes())
            own = file.path.relative_to(warehouse.data / "lake").as_posix()
            connection.execute("UPDATE loads SET lake_path = ? WHERE lake_path = ?", [name, own])
    found = {str(file) for file in warehouse.publish().faulty_lake_files}
    assert found == {f"{name} is not the name of a lake file" for name in names}
    assert warehouse.sql("SELECT wikitext FROM article_bodies ORDER BY 1").rows == [("text 5",)]
    # what repairs it leaves the files alone
    settings, own = Settings(data=warehouse.data), SimpleNamespace(warehouse=warehouse)
    done = repaired(ConfiguredLake(settings), own, ConfiguredEngine(settings), lambda _: None)
    assert (done.replaced, len(done.failures)) == ([], len(names))
    for file, name in zip(files, names, strict=False):
        assert (warehouse.data / "lake" / name).read_bytes() == file.path.read_bytes()


def test_a_ledger_that_names_other_files_of_a_snapshot_has_none_of_them_read(lake, warehouse):
    """Neither by what makes `articles`, nor by the checks."""
    warehouse.load_snapshot(snapshot := lake.snapshot([[lake.change(1, "A", 20)]]))
    victim = warehouse.data / "victim/x.parquet"
    victim.parent.mkdir()
    victim.write_bytes(snapshot.files[0].path.read_bytes())
    with duckdb.connect(warehouse.build_path) as connection:
        connection.execute("UPDATE loads SET lake_path = '../victim/x.parquet'")
    invalid = r"'\.\./victim/x\.parquet' is not a valid name for a file in"
    with pytest.raises(UnusableFileError, match=invalid), warehouse.auditing() as auditor:
        auditor.snapshots([snapshot.snapshot_id], SNAPSHOT_ARTICLES)
    with pytest.raises(LakeFileError, match="is not the name of a lake file"):
        warehouse.apply_changes()


def test_damage_without_a_trace_in_the_times_is_found_when_a_view_is_made(lake, warehouse, monkeypatch):
    """As of a disk that loses bits: neither size nor times change."""
    path = fill(lake, warehouse)[0].path
    warehouse.publish()
    path.write_bytes(path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1")
    monkeypatch.setattr(faults_, "_MARGIN_NS", -3600 * 10**9)
    assert warehouse.load_hour(lake.hour(3), [lake.file(3, [lake.change(9, "New", 200, wikitext="text 3")])]).changed
    made = warehouse.publish()
    assert [file.lake_path for file in made.faulty_lake_files] == [path.relative_to(warehouse.data / "lake").as_posix()]
    assert warehouse.sql("SELECT count(*) FROM article_bodies").rows == [(3,)]
    again = warehouse.publish()
    assert (again.changed, again.faulty_lake_files) == (False, made.faulty_lake_files)


def test_a_noted_file_is_left_out_until_it_is_replaced(lake, warehouse):
    path = fill(lake, warehouse)[0].path
    name = path.relative_to(warehouse.data / "lake").as_posix()
    warehouse.note_damage(name, "page 3")
    assert named(warehouse.publish().faulty_lake_files) == f"{name} is damaged: page 3"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert warehouse.publish().missing_lake_file_count == 0
    with duckdb.connect(warehouse.build_path) as connection:
        connection.execute("UPDATE loads SET row_count = 2 WHERE lake_path = ?", [name])
    assert named(warehouse.publish().faulty_lake_files) == f"{name} has 1 rows, but the ledger says 2"
    # a note of a file that was replaced is dropped with the next one; a broken file of notes says nothing
    other = lake.file(4, [lake.change(8, "O", 250)]).path
    warehouse.note_damage(other.relative_to(warehouse.data / "lake").as_posix(), "page 1")
    assert [*faults_.damaged(warehouse.data)] == [other.relative_to(warehouse.data / "lake").as_posix()]
    for number, file in enumerate(fill(lake, warehouse), 1):
        warehouse.note_damage(file.path.relative_to(warehouse.data / "lake").as_posix(), "page 2")
        assert len(faults_.damaged(warehouse.data)) == 1 + number
    (warehouse.data / "state" / "damaged.json").write_text("[]")
    assert faults_.damaged(warehouse.data) == {}


def zeroed(content):
    return content[:4] + bytes(2996) + content[3000:]


@pytest.mark.parametrize(("damage", "told"), [(lambda _: b"", "has 0 bytes, "), (zeroed, "is damaged: ")])
def test_snapshots_whose_pages_are_needed_are_named(lake, warehouse, damage, told):
    snapshot = lake.snapshot([[lake.change(number, f"Page {number}", 1) for number in range(1, 200)]])
    warehouse.load_snapshot(snapshot)
    path = snapshot.files[0].path
    path.write_bytes(damage(path.read_bytes()))
    message = rf"(?s)Older rows that the current articles need .*chunk_0.* {told}.*Nothing was"
    with pytest.raises(LakeFileError, match=message):
        warehouse.publish()
    [faulty] = warehouse.faulty_lake_files()
    assert faulty.lake_path == path.relative_to(warehouse.data / "lake").as_posix()
