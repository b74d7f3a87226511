"""Backups that somebody has manipulated, seal and all: restoring them changes nothing, inside and outside."""

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from pipelines.operations.backup import take
from pipelines.operations.restore import restore
from pipelines.process.processes import WORKSPACE
from resources import backup as backups
from resources import files
from resources.backup import BackupError
from resources.engine import line_reporter
from resources.warehouse import Warehouse

QUIET, NOW = line_reporter(lambda _: None), datetime(2026, 11, 23, 8, 5, tzinfo=UTC)
FILES = {"lake/t/a.parquet": b"rows", "lake/t/b.parquet": b"more rows", "archive/batches/c.tar.gz": b"an archive"}
FIRST = "lake/t/a.parquet"


def digest_of(content):
    return hashlib.md5(content).hexdigest()


class Stage:
    """A folder with a backup, the place for a data folder, and a victim beside both."""

    def __init__(self, folder):
        self.folder, self.data, self.victim = folder, folder / "data", folder / "victim"
        source = folder / "source"
        for name, content in FILES.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(content)
        self.path = take(source, folder / "to", QUIET, now=NOW).backup.path
        self.victim.mkdir()
        (self.victim / "t").mkdir()
        (self.victim / "t/a.parquet").write_bytes(b"precious")
        self.lines = (self.path / "MD5SUMS").read_bytes().splitlines(keepends=True)

    def seal(self, lines=None, **facts):
        """Write the list and the note as the manipulator wants them."""
        content = b"".join(self.lines if lines is None else lines)
        (self.path / "MD5SUMS").write_bytes(content)
        known = json.loads((self.path / "backup.json").read_bytes())
        known |= {"file_count": content.count(b"\n"), "sums_md5": digest_of(content)} | facts
        (self.path / "backup.json").write_text(json.dumps(known))

    def insert(self, name, content=b"foreign"):
        """Add a file to the list, at its place in the order."""
        name = name if isinstance(name, bytes) else name.encode()
        added = [digest_of(content).encode() + b"  " + name + b"\n", *self.lines]
        self.seal(sorted(added, key=lambda line: line.rstrip(b"\n")[34:].split(b"/"), reverse=True))

    def half(self):
        """Leave a data folder as a killed restore leaves it."""
        self.data.mkdir()
        facts = json.loads((self.path / "backup.json").read_bytes())
        (self.data / "restoring.json").write_text(json.dumps({"md5sums": facts["sums_md5"]}))
        return self.data

    def restore(self):
        return restore(self.path, self.data, QUIET)

    def seen(self, *folders):
        """All that is below the folders: kinds, contents and times, without following any link."""
        found = {}
        for folder in folders or (self.folder,):
            for place, names, others in os.walk(folder):
                for path in (Path(place, one) for one in (*names, *others)):
                    status, link = path.lstat(), path.readlink() if path.is_symlink() else None
                    is_file = link is None and path.is_file()
                    content = path.read_bytes() if is_file and status.st_size < 1 << 20 else None
                    size = status.st_size * is_file
                    found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ino, size, link, content)
        return found


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


#: Names that lead elsewhere, cannot be shown, are too long, or are of no file that a backup has.
NAMES = [
    *("/{victim}/t/a.parquet", "//{victim}/t/a.parquet", "../victim/t/a.parquet", "lake/../../victim/t/a.parquet"),
    *("lake/..", "lake/./x", "lake//x", "lake/x/", "lake\\..\\..\\victim", "C:/victim", "~/victim", "lake/x\0.parquet"),
    *("lake/x\r", "lake/\x1b[2Jx", "lake/x\u202egpj", "lake/x\u2028y", "LAKE/t/x.parquet", "lake/e\u0301"),
    *(b"lake/\xff\xfe", b"lake/\xed\xa0\x80", "lake/" + "é" * 200, "lake/" + "x/" * 2_100 + "x", "", "lake/.x"),
    *("lake/x.part", "lake/x.lock", "warehouse/build.duckdb.wal", "MD5SUMS", "backup.json", "restoring.json"),
    *("state/tokens.json", ".env", "warehouse.duckdb", "lake", "dagster/storage/x", "sandbox/accounts.db"),
    *("state/service.json/x", FIRST),
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:40])
def test_a_name_that_no_backup_has_changes_nothing(stage, name):
    if isinstance(name, str):
        name = name.format(victim=str(stage.victim).lstrip("/"))
        # what the manipulator would have copied there
        if "\0" not in name and len(name) < 200 and name and not name.endswith(("/", "..")):
            target = stage.path / name.lstrip("/")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(b"foreign")
    stage.insert(name)
    before = stage.seen()
    with pytest.raises(BackupError, match="Nothing was changed"):
        stage.restore()
    assert stage.seen() == before


def link(path, to):
    path.rename(path.with_name("aside")) if path.exists() else path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def instead(path, make):
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


PLACES = {
    "folder of the backup is a link": lambda s: link(s.path / "lake/t", s.victim / "t"),
    "link into the backup": lambda s: instead(s.path / FIRST, lambda p: p.symlink_to("b.parquet")),
    "pipe in the backup": lambda s: instead(s.path / FIRST, os.mkfifo),
    "folder in place of a file": lambda s: instead(s.path / FIRST, os.mkdir),
    "folder of the target is a link": lambda s: link(s.half() / "lake", s.victim),
    "link in the target that leads nowhere": lambda s: link(s.half() / FIRST, s.victim / "new"),
    "link beside the files of the target": lambda s: link(s.half() / "lake/t/.a.parquet.tmp", s.victim / "new"),
    "note of the target is a link": lambda s: link(s.half() / "restoring.json", s.data / "aside"),
    "pipe in the target": lambda s: instead(s.half() / FIRST, os.mkfifo),
    "folder in place of a file of the target": lambda s: instead(s.half() / FIRST, os.mkdir),
    "file in place of a folder of the target": lambda s: instead(s.half() / "lake", lambda p: p.write_bytes(b"x")),
    "target has something else": lambda s: instead(s.data / "x", lambda p: p.write_bytes(b"x")),
    "target is a file": lambda s: s.data.touch(), "target is a link": lambda s: s.data.symlink_to("none"),
    "note is a pipe": lambda s: instead(s.path / "backup.json", os.mkfifo),
    "note is a loop": lambda s: instead(s.path / "backup.json", lambda p: p.symlink_to(p)),
    "note of another restore": lambda s: instead(s.data / "restoring.json", lambda p: p.write_bytes(b"{}")),
    "list is a link": lambda s: link(s.path / "MD5SUMS", s.path / "aside"),
    "list is gone": lambda s: (s.path / "MD5SUMS").unlink(),
    "list was changed": lambda s: (s.path / "MD5SUMS").write_bytes(b"".join(s.lines).replace(b"t/a", b"t/A")),
    "list without end": lambda s: instead(s.path / "MD5SUMS", lambda p: (p.touch(), os.truncate(p, 1 << 40))),
    "list is not in order": lambda s: s.seal(s.lines[::-1]),
    "list is short": lambda s: s.seal(s.lines[1:], file_count=3), "list is long": lambda s: s.seal(file_count=2),
    "list is of bytes": lambda s: s.seal([os.urandom(64).replace(b"\n", b"") + b"\n"] * 3),
    "no line feed at the end": lambda s: s.seal([b"".join(s.lines).rstrip(b"\n")], file_count=3),
    "digest of capitals": lambda s: s.seal([s.lines[0][:32].upper() + s.lines[0][32:], *s.lines[1:]]),
    "digest too short": lambda s: s.seal([s.lines[0][1:], *s.lines[1:]]),
    "one blank": lambda s: s.seal([s.lines[0].replace(b"  ", b" "), *s.lines[1:]]),
    "more bytes than any disk": lambda s: s.seal(size_bytes=(1 << 63) - 1),
}  # fmt: skip


@pytest.mark.parametrize("spoil", PLACES.values(), ids=PLACES)
def test_what_lies_in_the_place_of_a_file_changes_nothing(stage, spoil):
    spoil(stage)
    before = stage.seen()
    with pytest.raises((BackupError, files.UnusableFileError), match=r"(?i)nothing (more )?was c"):
        stage.restore()
    left = {path: kept for path, kept in stage.seen().items() if not path.startswith(str(stage.data))}
    assert left == {path: kept for path, kept in before.items() if not path.startswith(str(stage.data))}
    kept = stage.seen(stage.data) if stage.data.exists() else {}
    # of what is there before a lack of room is seen, nothing is lost
    assert {path for path in before if path.startswith(f"{stage.data}/")} <= kept.keys()
    assert not [path for path in kept if path.endswith((".parquet", ".gz")) and path not in before]


#: Contents of a note, and facts in it.
NOTES = [
    *(b"[]", b"", b"null", b"7", b'"text"', b"{", b"\xff\xfe\x00{}", b"[" * 50_000, b" " * (1 << 17) + b"{}"),
    *(b'{"service": "s"}', {"file_count": -1}, {"file_count": 10**30}, {"file_count": True}, {"file_count": "3"}),
    *({"size_bytes": 1.5}, {"path": "/"}, {"sums_md5": "../../x"}, {"service": ["s"]}, {"service": "s\x1b[2J"}),
]


@pytest.mark.parametrize("content", NOTES, ids=lambda content: ascii(content)[:40])
def test_a_note_that_cannot_be_read_is_named(stage, content, caplog):
    note = stage.path / "backup.json"
    note.write_bytes(content) if isinstance(content, bytes) else stage.seal(**content)
    before = stage.seen()
    with pytest.raises(BackupError, match=r"backup\.json.* Nothing was changed"):
        stage.restore()
    assert stage.seen() == before
    # in a destination, where others may be good, it is said and passed over
    assert backups.completed(stage.path.parent) == []
    assert "backup.json" in caplog.text


@pytest.mark.parametrize("path", ["../../../victim/t/a.parquet", "/{victim}", "t/../../x", ""])
@pytest.mark.parametrize("how", ["TABLE", "VIEW"])
def test_a_ledger_that_names_files_elsewhere_is_refused(stage, path, how):
    build = stage.path / "warehouse/build.duckdb"
    build.parent.mkdir()
    path = path.format(victim=str(stage.victim).lstrip("/"))
    with duckdb.connect(build) as database:
        database.execute(f"CREATE {how} loads AS SELECT '{path}' AS lake_path, 1 AS lake_bytes, NULL AS compaction_id")
    stage.insert("warehouse/build.duckdb", build.read_bytes())
    before = stage.seen()
    with pytest.raises(BackupError, match=r"Its warehouse refers to a file outside the lake.*Nothing was changed"):
        stage.restore()
    assert stage.seen() == before


#: SQL that a build file keeps and that others run: it reads a file of the victim. Triggers need DuckDB 2.0 and its
#: storage version.
SECRET = "(SELECT content FROM read_text('{victim}'))"
HOSTILE = dict(line.split(" | ") for line in Path(__file__).with_name("hostile_sql.txt").read_text().splitlines())
#: It could make DuckDB refuse the file, and hide the others.
ALONE = "view instead of a table"


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """A build file as it is made, and the code that its published file has."""
    made = Warehouse(tmp_path_factory.mktemp("made"), storage_version="v2.0.0")
    made.publish()
    return made.build_path.read_bytes(), code(made.published_path)


@pytest.mark.parametrize("names", [HOSTILE.keys() - {ALONE}, {ALONE}], ids=["together", ALONE])
def test_the_sql_of_a_backup_is_removed_before_it_is_run(stage, usual, names):
    content, expected = usual
    made, victim = stage.folder / "made.duckdb", stage.victim / "t/a.parquet"
    made.write_bytes(content)
    with duckdb.connect(made) as connection:
        for sql in (HOSTILE[name] for name in HOSTILE if name in names):
            connection.execute(sql.replace("{SECRET}", SECRET).format(victim=victim))
    build = stage.path / "warehouse/build.duckdb"
    build.parent.mkdir()
    build.write_bytes(made.read_bytes())
    stage.insert("warehouse/build.duckdb", build.read_bytes())
    # a log that is there already is no part of the backup, and DuckDB would write into it
    log = stage.half() / "warehouse/build.duckdb.wal"
    log.parent.mkdir()
    log.hardlink_to(victim)
    stage.restore()
    assert victim.read_bytes() == b"precious"
    published = Warehouse(stage.data).published_path
    assert code(published) == expected
    assert b"precious" not in published.read_bytes()
    with duckdb.connect(published, read_only=True) as connection:
        assert connection.execute("SELECT * FROM about WHERE contains(value, 'victim')").fetchall() == []
    # and no file stays that it made of them
    Warehouse(stage.data).publish({"service": "another"})
    assert b"precious" not in published.read_bytes()


def code(path):
    """All that a DuckDB file has besides tables with rows: the definitions of views, macros and triggers."""
    here = "database_name = 'it' AND NOT internal"
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS it (READ_ONLY)")
        return connection.execute(
            f"SELECT schema_name, view_name, sql FROM duckdb_views() WHERE {here} AND sql NOT LIKE '%{path.parent}%' "
            f"UNION ALL SELECT schema_name, function_name, macro_definition FROM duckdb_functions() WHERE {here} "
            "UNION ALL SELECT 'trigger', trigger_name, '' FROM duckdb_triggers() ORDER BY ALL"
        ).fetchall()


def test_settings_of_dagster_that_run_programs_are_renamed(stage):
    own = b"python_logs: {dagster_handler_config: {handlers: {x: {(): os.system, command: 'touch victim'}}}}"
    for name, content in (("dagster.yaml", own), ("workspace.yaml", WORKSPACE.read_bytes())):
        path = stage.path / "dagster" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        stage.insert(f"dagster/{name}", content)
        stage.lines = (stage.path / "MD5SUMS").read_bytes().splitlines(keepends=True)
    done, home = stage.restore(), stage.data / "dagster"
    assert (done.renamed, done.renamed[0].read_bytes()) == ([home / "dagster.yaml.restored"], own)
    assert {path.name for path in home.iterdir()} == {"dagster.yaml.restored", "workspace.yaml"}


def test_what_is_damaged_or_missing_is_left_out_and_what_is_not_listed_is_not_restored(stage):
    (stage.path / FIRST).unlink()
    (stage.path / "lake/t/b.parquet").write_bytes(b"other row")
    (stage.path / "lake/extra").write_bytes(b"foreign")
    outside = stage.seen(stage.path, stage.victim)
    assert sorted(stage.restore().damaged) == [FIRST, "lake/t/b.parquet"]
    assert {path.name for path in (stage.data / "lake").rglob("*") if path.is_file()} == set()
    assert (stage.data / "archive/batches/c.tar.gz").read_bytes() == b"an archive"
    assert stage.seen(stage.path, stage.victim) == outside


def test_a_damaged_build_file_is_named_when_all_others_are_restored(stage):
    build = stage.path / "warehouse/build.duckdb"
    build.parent.mkdir()
    build.write_bytes(b"other")
    stage.insert("warehouse/build.duckdb", b"whole")
    with pytest.raises(BackupError, match=r"build\.duckdb is damaged\. All other files were restored"):
        stage.restore()
    assert (stage.data / FIRST).read_bytes() == b"rows"


def test_a_hard_link_in_the_target_is_replaced_and_not_written_through(stage):
    target = stage.half() / FIRST
    target.parent.mkdir(parents=True)
    target.hardlink_to(stage.victim / "t/a.parquet")
    target.with_name(".b.parquet.tmp").hardlink_to(stage.victim / "t/a.parquet")
    stage.restore()
    assert (target.read_bytes(), (stage.data / "lake/t/b.parquet").read_bytes()) == (b"rows", b"more rows")
    assert (stage.victim / "t/a.parquet").read_bytes() == b"precious"


def again(stage):
    (stage.folder / "source/lake/new").write_bytes(b"new")
    return take(stage.folder / "source", stage.folder / "to", QUIET, now=NOW)


UNFINISHED = {
    "deep folder is a link": lambda s, u: link(u / "lake/t", s.victim / "t"),
    "file is a link": lambda s, u: link(u / FIRST, s.victim / "t/a.parquet"),
    "file is a hard link": lambda s, u: instead(u / FIRST, lambda p: p.hardlink_to(s.victim / "t/a.parquet")),
    "list is a hard link": lambda s, u: instead(u / "MD5SUMS", lambda p: p.hardlink_to(s.victim / "t/a.parquet")),
    "note is a link": lambda s, u: link(u / ".backup.json.tmp", s.victim / "t/a.parquet"),
    "copy is a link": lambda s, u: link(u / "lake/.new.tmp", s.victim / "t/a.parquet"),
    "copy is a pipe": lambda s, u: instead(u / "lake/.new.tmp", os.mkfifo),
}


@pytest.mark.parametrize("spoil", UNFINISHED.values(), ids=UNFINISHED)
def test_an_unfinished_backup_leads_nowhere_else(stage, spoil):
    unfinished = stage.folder / "to/unfinished"
    unfinished.mkdir()
    spoil(stage, unfinished)
    before, taken = {path: kept[-1] for path, kept in stage.seen(stage.victim).items()}, again(stage)
    assert {path: kept[-1] for path, kept in stage.seen(stage.victim).items()} == before
    found = [path for path in taken.backup.path.rglob("*") if not path.is_dir()]
    names = sorted(path.relative_to(taken.backup.path).as_posix() for path in found)
    assert names == sorted([*FILES, "lake/new", "MD5SUMS", "backup.json"])
    assert not any(path.is_symlink() for path in found)


def test_what_no_backup_can_hold_and_an_unfinished_backup_that_is_a_link_are_refused(stage):
    for odd in (stage.folder / "source/lake/pipe", stage.folder / "source/lake/two\nlines"):
        os.mkfifo(odd) if odd.name == "pipe" else odd.touch()
        with pytest.raises(BackupError, match=r"A backup cannot contain such a file.* Complete backups are unchanged"):
            again(stage)
        odd.unlink()
    (stage.folder / "to/unfinished").symlink_to(stage.victim)
    before = stage.seen(stage.victim)
    with pytest.raises(BackupError, match=r"is not a folder, .* Nothing was changed"):
        again(stage)
    assert stage.seen(stage.victim) == before
    assert [one.path for one in backups.completed(stage.folder / "to")] == [stage.path]
