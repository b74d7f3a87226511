"""Files that commands read, with anything in their place: named in a sentence or made again, and nothing hangs."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from assets.steps import housekeeping
from assets.steps.lookup import Budget, WatchlistError, read_watchlist
from pipelines.operations import backup
from pipelines.process import processes
from resources import files, settings
from resources.data_folder import OriginError, claim, origin_of, ready
from resources.datasets import ARTICLE_CHANGES
from resources.engine import line_reporter
from resources.enterprise import read_listing, read_set
from resources.enterprise.account.token_store import TokenStore
from resources.enterprise.download.archived import Sidecar, is_landed
from resources.enterprise.download.partial import Part
from resources.enterprise.errors import IntegrityError, StateError
from resources.files import UnusableFileError
from resources.lake import CompactionJob, LakeError, Layout, compact
from resources.lake.journal import archives, pack
from resources.lake.rejects import whole_line
from resources.lake_files import CompactionSource
from resources.sandbox.files import read_state
from resources.settings import SettingsError, types
from resources.warehouse import Warehouse

NOW = datetime(2026, 11, 23, 8, 5, tzinfo=UTC)


def write(content):
    return lambda path: path.write_bytes(content)


#: What may lie in the place of a JSON file. The damaged ones are files all the same.
DAMAGED = {
    "empty": write(b""), "list": write(b"[]"), "null": write(b"null"), "number": write(b"7"), "text": write(b'"text"'),
    "broken": write(b'{"service": '), "other fields": write(b'{"a": [1]}'), "no UTF-8": write(b'{"service": "\xff"}'),
    "other types": write(b'{"service": 1, "day": 2, "spent": [], "published_at": {}, "identifier": 5}'),
    "deep": write(b"[" * 100_000), "zeros": write(bytes(4_096)),
}  # fmt: skip
KINDS = {
    "pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path), "without end": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}  # fmt: skip
ODD = DAMAGED | KINDS
odd = pytest.mark.parametrize("make", ODD.values(), ids=ODD)


def lay(path: Path, make) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    return path


def kind_of(path: Path):
    seen = path.lstat()
    return (seen.st_mode, seen.st_size, seen.st_mtime_ns)


@odd
def test_lookups_wait_for_tomorrow_where_it_is_not_known_what_today_spent(tmp_path, make, caplog):
    path, moment = tmp_path / "state/lookups.json", [NOW]
    lay(path, make)
    budget = Budget(tmp_path, 5, lambda: moment[0])
    if path.is_dir() and not path.is_symlink():
        with pytest.raises(IsADirectoryError):
            budget.take()
        return
    assert (budget.take(), budget.left) == (False, 0)
    assert "lookups.json" in caplog.text
    moment[0] += timedelta(days=1)
    assert budget.take()
    assert budget.left == 4


@odd
def test_a_damaged_journal_of_replaced_files_is_set_aside(tmp_path, make, caplog):
    path = lay(tmp_path / "state/replaced.json", make)
    if make is DAMAGED["other fields"]:
        path.write_bytes(b'{"lake/x": "2026-11-23T08:00:00"}')  # of no time zone
    assert files.read_cache(path, housekeeping._SEEN) is None
    assert not os.path.lexists(path)
    assert "replaced.json.damaged and will be created again" in caplog.text


@odd
def test_a_damaged_published_file_does_not_keep_anybody_from_publishing(tmp_path, make):
    lay(tmp_path / "warehouse.duckdb", make)
    warehouse = Warehouse(tmp_path, clock=lambda: NOW)
    assert warehouse.publication() is None
    assert warehouse.publish_is_due(timedelta(hours=1))


@odd
def test_an_odd_sidecar_is_none_and_what_is_no_file_is_no_archive(tmp_path, make):
    target = lay(tmp_path / "a.tar.gz", write(b"x"))
    lay(Sidecar.path(target), make)
    assert Sidecar.read(target) is None
    assert not is_landed(target, "d" * 32)
    target, partial = tmp_path / "b.tar.gz", tmp_path / "b.tar.gz.part"
    Sidecar("b", "d" * 32, 1, "/v2/b", NOW).write(target)
    for path in (target, partial):
        make(path)
    if make in KINDS.values() and make is not KINDS["loop"]:
        assert not is_landed(target, "d" * 32)
    # a part of any length is one, of which nothing is counted
    if make in KINDS.values() and make is not KINDS["without end"]:
        with pytest.raises((UnusableFileError, OSError)), Part.held(target, wait_seconds=0):
            pass


def read_env_file(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(types, "PROJECT", path.parent)
        settings.load_env_file()


def prepared(path):
    assert (processes.prepare(path.parent) / path.name).exists()


LOOKUPS = "archive/lookups/date=2026-11-23/hour=08"
NOTE = (OriginError, r"service\.json .*nothing was changed.* Restore the file")
#: What reads a file, how it names one that it cannot read, and what of all that it can.
READERS = {
    "state/service.json": (lambda path: origin_of(path.parents[1]), NOTE, ()),
    "data/state/service.json": (lambda path: claim(path.parents[1], "https://elsewhere.example"), NOTE, ()),
    "a.set.json": (read_set, (IntegrityError, r"a\.set\.json is not a snapshot manifest"), ()),
    "a.json": (read_listing, (IntegrityError, r"a\.json is not a batch listing"), {"list"}),
    f"{LOOKUPS}/enwiki_namespace_0.0123abcd.tar.gz.json": (
        lambda path: list(archives(Layout(path.parents[4]))),
        (UnusableFileError, r"tar\.gz\.json .* nothing was changed"),
        (),
    ),
    "account.json": (lambda path: read_state(path, "name", "word"), ((ValueError, OSError), r"account\.json"), ()),
    "tokens.json": (
        lambda path: TokenStore(path, "https://login.example", "u").read(),
        (StateError, r"tokens\.json cannot be read .*Nothing was sent"),
        DAMAGED.keys() - {"deep"},
    ),
    "watch.txt": (read_watchlist, (WatchlistError, r"watch list .*watch\.txt .*Nothing was looked up"), {"empty"}),
    ".env": (
        read_env_file,
        (SettingsError, r"The settings file .*\.env cannot be read .*Nothing was started"),
        DAMAGED.keys() - {"no UTF-8", "zeros", "other fields", "other types"},
    ),
    # a loop leads to nothing, as if there were no file
    "dagster.yaml": (prepared, (UnusableFileError, r"dagster\.yaml"), {*DAMAGED, "loop"}),
    "workspace.yaml": (prepared, (UnusableFileError, r"workspace\.yaml"), {*DAMAGED, "loop"}),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("place", READERS)
def test_what_cannot_be_read_is_named_and_stays(tmp_path, place, kind):
    read, (error, told), usable = READERS[place]
    path = lay(tmp_path / place, ODD[kind])
    before = kind_of(path)
    if kind in usable:
        read(path)
    else:
        with pytest.raises(error, match=told):
            read(path)
        assert kind_of(path) == before


YAML = {
    "number": b"7", "text": b"postgresql://user:hidden@host", "broken": b"a: 1\n{a: [", "no UTF-8": b"\xff\xfe\x00",
    "unknown key": b"foo: 1\n", "other type": b"concurrency: 7\n", "deep": b"[" * 900,
}  # fmt: skip
WHY = {"broken": "line 2 is not YAML", "unknown key": 'Received unexpected config entry "foo" at the root'}


@pytest.mark.parametrize(("kind", "content"), YAML.items())
def test_settings_of_dagster_that_cannot_be_read_are_named(tmp_path, kind, content):
    processes.prepare(tmp_path)
    (tmp_path / "dagster.yaml").write_bytes(content)
    why = WHY.get(kind, "the format is not what Dagster expects")
    told = rf"dagster\.yaml cannot be used \({why}.*\)\. Nothing was changed\. Correct or remove the file"
    with pytest.raises(processes.InstanceError, match=told) as raised, processes.opened(tmp_path):
        pass
    assert "hidden" not in str(raised.value)
    assert (tmp_path / "dagster.yaml").read_bytes() == content


@pytest.mark.parametrize("name", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"])
def test_a_damaged_history_is_said_and_backed_up_as_it_is(tmp_path, name):
    home = tmp_path / "data/dagster"
    with processes.opened(home):
        pass
    damaged = home / name
    whole = damaged.read_bytes()
    damaged.write_bytes(b"garbage" + whole[7:])
    told = r"The run history in .* is damaged .*Restore the folder"
    with pytest.raises(processes.InstanceError, match=told), processes.opened(home) as opened:
        opened.all_instigator_state()
    (tmp_path / "data/archive").mkdir()
    taken = backup.take(tmp_path / "data", tmp_path / "to", line_reporter(lambda _: None), keep=1)
    [problem] = taken.problems
    assert f"1 database in Dagster's history is damaged (dagster/{name})" in problem
    assert (taken.backup.path / "dagster" / name).read_bytes() == damaged.read_bytes()
    # what follows is what any error of SQLite's is, as long as nothing is damaged
    damaged.write_bytes(whole)
    with processes.opened(home) as opened:
        assert not opened.get_runs(limit=1)


def test_a_file_is_read_whole_or_refused(tmp_path):
    path = lay(tmp_path / "x", write(b"12345"))
    assert files.read(path, most=5) == b"12345"
    with pytest.raises(UnusableFileError, match=r"longer than 4 bytes.*not used, and nothing was changed"):
        files.read(path, most=4)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "none")
    secret = lay(tmp_path / "secret.json", write(b'{"password": "hidden"}'))
    with pytest.raises(UnusableFileError) as raised:
        files.read_json(secret, TypeAdapter(dict[str, int]))
    assert "password: Input should be" in str(raised.value)
    assert "hidden" not in str(raised.value)
    os.mknod(tmp_path / "socket", stat.S_IFSOCK)
    with pytest.raises(UnusableFileError, match="socket is a socket, but a regular file is expected"):
        files.read(tmp_path / "socket")
    (tmp_path / "secret.json.damaged").mkdir()  # what cannot be set aside stays
    assert [files.read_cache(one, TypeAdapter(dict[str, int])) for one in (secret, secret / "x")] == [None, None]
    assert secret.exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("victim")], ids=["pipe", "link"])
def test_nothing_is_written_through_what_lies_beside(tmp_path, make):
    (tmp_path / "victim").write_bytes(b"precious")
    make(tmp_path / ".x.tmp")
    make(tmp_path / f".{os.getpid()}.tmp")
    ready(tmp_path)
    with pytest.raises((UnusableFileError, OSError)):
        files.write(tmp_path / "x", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "x").exists()


def test_a_journal_of_lookups_leads_nowhere_else(tmp_path):
    folder, victim = tmp_path / LOOKUPS, lay(tmp_path / "victim", write(b"precious"))
    journal = lay(folder / "enwiki_namespace_0.64d0a0b0c0d0e.ndjson", write(b'{"lookup": {}}\n'))
    (folder / f".{journal.name}.tar.gz.tmp").symlink_to(victim)
    pack(Layout(tmp_path))
    [made] = folder.glob("*.tar.gz")
    assert victim.read_bytes() == b"precious"
    # one that is a link itself is not read
    made.unlink()
    journal.symlink_to(victim)
    with pytest.raises(UnusableFileError, match="is a symbolic link"):
        pack(Layout(tmp_path))
    assert [*folder.glob("*.tar.gz")] == []


@pytest.mark.parametrize("name", ["../victim", "/etc/hostname", "rejects/../../victim", "", "rejects/\n"])
def test_a_ledger_names_no_file_outside_of_the_lake(tmp_path, name):
    layout = Layout(tmp_path)
    lay(tmp_path / "victim", write(b"precious"))
    with pytest.raises(OSError, match="is not a valid name for a file in"):
        list(whole_line(layout, name, 0))
    source = CompactionSource(name, 1)
    job = CompactionJob(ARTICLE_CHANGES.name, (source,), "day", "0123456789", 1, 1, 1, 1, 1)
    with pytest.raises(LakeError, match=r"is not a valid name for a file in .*Nothing was changed"):
        compact(job, layout)
