"""Settings, their identity, and the command line that carries them to another process."""

import gzip
import os
import shutil
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from resources.sandbox import Settings, process
from resources.sandbox import __main__ as entry
from resources.sandbox.__main__ import main
from resources.sandbox.options import command_line, parse
from resources.sandbox.process import child_environment
from tests.unit.sandbox.conftest import refused

NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
#: Settings that shape the data, each other than the default.
SHAPE = {
    "seed": 7, "projects": ("dewiki", "itwiki"), "namespaces": (0, 6), "changes_per_hour": 12, "overlap": False,
    "body_bytes": 100, "articles": 700, "chunk_bytes": 5_000, "single_member": True, "entities": 7,
}  # fmt: skip


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.ndjson.gz").write_bytes(gzip.compress(b"{}\n", mtime=0))
    return folder


def test_the_identity_is_what_shapes_the_data(tmp_path, corpus):
    base = Settings(state=tmp_path)
    process = {"snapshot_hour": 3, "stream_rate": 1, "speed": 2, "port": 1, "idle": 9, "prepare": 1}
    same = [Settings(state=tmp_path / "other"), Settings(state=tmp_path, now=NOW, **process)]
    others = [Settings(state=tmp_path, **{name: value}) for name, value in (SHAPE | {"corpus": corpus}).items()]
    assert {settings.identity for settings in same} == {base.identity}
    assert len({settings.identity for settings in [base, *others]}) == 1 + len(others)
    assert base.identity == "sandbox-1-c2c6b34d040f"  # data folders hold it
    usual = {"stream_rate": 50, "speed": 1, "snapshot_hour": 0, "idle": None, "owner": None, "prepare": 0, "now": None}
    assert base.model_dump(include=set(usual)) == usual
    with pytest.raises(ValueError, match="sead"):
        Settings(state=tmp_path, sead=3)
    # a corpus is known by its content
    first = Settings(state=tmp_path, corpus=corpus).corpus_digest
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    assert Settings(state=tmp_path, corpus=copy).corpus_digest == first
    (copy / "b.ndjson").write_text("{}\n")
    digests = {Settings(state=tmp_path, corpus=copy).corpus_digest, first}
    for content in ("a" + "b" * 200_000, "b" * 200_001, "b" * 200_000 + "a"):
        (copy / "b.ndjson").write_text(content)
        digests.add(Settings(state=tmp_path, corpus=copy).corpus_digest)
    (copy / "deeper").mkdir()
    (copy / "b.ndjson").rename(copy / "deeper" / "b.ndjson")
    assert len(digests | {Settings(state=tmp_path, corpus=copy).corpus_digest}) == 6
    assert base.corpus_digest is None


def test_the_command_line_carries_all_settings_and_the_environment_what_is_imported_from(tmp_path, corpus, monkeypatch):
    elsewhere = NOW.astimezone(timezone(timedelta(hours=2)))
    owner = tmp_path / "owner.lock"
    process = {"port": 8080, "idle": 12.25, "owner": owner, "prepare": 3}
    settings = Settings(state=tmp_path, now=elsewhere, corpus=corpus, **SHAPE, **process)
    assert settings.now == NOW
    for given in (settings, Settings(state=tmp_path)):
        options = parse(command_line(given), called="")
        assert {name: getattr(options, name) for name in Settings.model_fields} == given.model_dump()
        assert options.identity == given.identity
    with_accounts = Settings(state=tmp_path, account=("free",), quota=("free:batch=1",))
    assert command_line(with_accounts) == command_line(Settings(state=tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert child_environment()["PYTHONPATH"] == f"{Path(__file__).resolve().parents[3]}{os.pathsep}/elsewhere"


@pytest.mark.parametrize(("words", "sentence"), refused("commands"))
def test_a_wrong_call_ends_with_one_sentence(tmp_path, capsys, words, sentence):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--state", str(tmp_path / "state"), *words.split(" ")], called="wme sandbox")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(sentence)
    assert told.count("\n") == 1
    assert not (tmp_path / "state").exists()


#: The least and the greatest value of each number.
BOUNDS = {"changes_per_hour": (1, 100_000), "articles": (1, 400_000), "entities": (0, 400_000), "prepare": (0, 48)}
BOUNDS |= dict.fromkeys(("port", "object_port", "realtime_port"), (0, 65_535)) | {"snapshot_hour": (0, 23)}
BOUNDS |= dict.fromkeys(("body_bytes", "chunk_bytes"), (1, None)) | {"stream_rate": (0, None)}


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_have_bounds(tmp_path, name):
    least, most = BOUNDS[name]
    assert [getattr(Settings(state=tmp_path, **{name: one}), name) for one in (least, most or 9)] == [least, most or 9]
    for wrong in {least - 1, (most or -2) + 1}:
        with pytest.raises(ValueError, match=rf"{name}\n  Input should be (less|greater) than or equal to"):
            Settings(state=tmp_path, **{name: wrong})


def test_help_names_defaults_units_and_what_is_of_accounts(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit):
        parse(["--help"], called="wme sandbox")
    told = " ".join(capsys.readouterr().out.split())
    parts = ["--prepare HOURS number of", "so that newer hourly batches exist) --single-member"]
    parts += ["--idle SECONDS stop after this many seconds without a request (default: never)"]
    parts += ["is first listed (default: 48)", "the world: --seed SEED seed for the generated data (default: 1)"]
    parts += ["(default: enwiki,frwiki,simplewiki)", "requests for accounts): --account NAME[:GROUP] create an"]
    assert [part for part in parts if part not in told] == []


def test_the_hour_of_exports_is_kept_or_given_and_progress_is_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "snapshot-hour.json").write_text('{"hour": 9}')
    hours, clock = [], SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def run(options, *, interrupted, progress):
        hours.append((options.snapshot_hour, interrupted()))
        for clock.now, ready in ((0.1, 0), (10.0, 1), (10.3, 2), (0.0, 3)):
            progress(ready, 3)
        raise OSError(28, "Full")

    monkeypatch.setattr(entry, "running", run)
    monkeypatch.setattr(entry, "time", clock)
    for words in ((), ("--snapshot-hour", "5"), ("--now", "2025-03-09T07:30:00Z")):
        assert main(["--state", str(tmp_path), *words]) == 1
        assert capsys.readouterr().err == "Prepared 1 of 3 archives. Use --prepare 1 for a faster start.\nFull\n"
    assert hours == [(9, False), (5, False), (0, False)]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["--state", str(tmp_path)]) == 1
    first, second, *rest = capsys.readouterr().err.split("\r\033[K")[1:]
    assert first == "Prepared 1 of 3 archives (use --prepare 1 for a faster start)"
    assert (second, rest) == (first.replace("1 of", "2 of"), ["Prepared 3 of 3 archives\nFull\n"])


@pytest.mark.parametrize(("was_owned", "held", "idle"), [(True, [False] * 2, [4.9]), (False, [False, True, False], [])])
def test_a_sandbox_ends_with_an_owner_that_was_there_or_came_later(tmp_path, monkeypatch, was_owned, held, idle):
    looks, ending, journal = iter(held), threading.Event(), Mock(idle_seconds=Mock(side_effect=[*idle, 5.0]))
    monkeypatch.setattr(entry, "is_held", lambda _: next(looks))
    sandbox = Mock(stopped=Mock(wait=lambda _: False), journal=journal, ending=ending)
    entry._wait(sandbox, [], Settings(state=tmp_path, owner=tmp_path / "lock"), was_owned)
    assert (ending.is_set(), [*looks]) == (True, [])


def test_a_folder_is_waited_for_while_its_sandbox_stops(tmp_path, monkeypatch):
    settings, held = Settings(state=tmp_path), process._lock(tmp_path)
    held.acquire()
    process.report(settings, url="http://127.0.0.1:9")  # where nobody answers any more
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: 0, sleep=lambda _: held.release()))
    with process.claimed(settings):
        assert not held.is_locked
        assert process.find(tmp_path) is None


def test_options_of_accounts_are_read(tmp_path):
    words = ["--account", "free", "--account", "ada@example.org:group_2", "--temporary", "new:group_1"]
    words += ["--quota", "free:snapshot=2", "--quota", "ada@example.org:chunk=0", "--admit", "::1/128:group_1"]
    words += ["--projects", "enwiki, frwiki,enwiki"]
    options = parse(["--state", str(tmp_path), *words, "--admit", "127.0.0.0/8"], called="")
    assert (options.projects, options.prepare) == (("enwiki", "frwiki"), 48)
    assert options.account == (("free", "group_1"), ("ada@example.org", "group_2"))
    assert options.temporary == (("new", "group_1"),)
    assert options.quota == (("free", "snapshot", 2), ("ada@example.org", "chunk", 0))
    assert options.admit == (("::1/128", "group_1"), ("127.0.0.0/8", "group_3"))
