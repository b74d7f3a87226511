"""Settings, their identity, and the command line that carries them to another process."""

from __future__ import annotations

import argparse
import gzip
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from resources.sandbox import Settings
from resources.sandbox.__main__ import main
from resources.sandbox.clock import Clock
from resources.sandbox.options import add_arguments, command_line, parse, settings_from

NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.ndjson.gz").write_bytes(gzip.compress(b"{}\n", mtime=0))
    return folder


def test_the_identity_is_what_shapes_the_data(tmp_path, corpus):
    base = Settings(state=tmp_path)
    same = [Settings(state=tmp_path / "other"), Settings(state=tmp_path, now=NOW)]
    others = [
        Settings(state=tmp_path, **change)
        for change in (
            {"seed": 2},
            {"projects": ("enwiki",)},
            {"namespaces": (0,)},
            {"changes_per_hour": 10},
            {"overlap": False},
            {"body_bytes": 10},
            {"articles": 9_000},
            {"chunk_bytes": 10},
            {"single_member": True},
            {"corpus": corpus},
        )
    ]
    assert {settings.identity for settings in same} == {base.identity}
    assert len({settings.identity for settings in [base, *others]}) == 11
    assert base.identity.startswith("sandbox-1-")


def test_the_corpus_is_known_by_its_content(tmp_path, corpus):
    first = Settings(state=tmp_path, corpus=corpus).corpus_digest
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "a.ndjson.gz").write_bytes((corpus / "a.ndjson.gz").read_bytes())
    assert Settings(state=tmp_path, corpus=copy).corpus_digest == first
    (copy / "b.ndjson").write_text("{}\n")
    assert Settings(state=tmp_path, corpus=copy).corpus_digest != first
    assert Settings(state=tmp_path).corpus_digest is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"now": datetime(2025, 3, 9)}, "timezone-aware"),  # noqa: DTZ001
        ({"projects": ()}, "at least one project"),
        ({"changes_per_hour": 0}, "between 1 and"),
        ({"corpus": Path("/nowhere")}, "is not a folder"),
    ],
)
def test_settings_that_make_no_world_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        Settings(state=tmp_path, **change)


def test_the_command_line_carries_all_settings(tmp_path, corpus):
    settings = Settings(
        state=tmp_path,
        seed=7,
        projects=("dewiki", "itwiki"),
        namespaces=(0, 6),
        changes_per_hour=12,
        now=NOW.astimezone(timezone(timedelta(hours=2))),
        overlap=False,
        source_2025=True,
        corpus=corpus,
        body_bytes=100,
        articles=700,
        chunk_bytes=5_000,
        single_member=True,
    )
    assert settings.now == NOW
    for given in (settings, Settings(state=tmp_path)):
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        assert settings_from(parser.parse_args(command_line(given)[1:])) == given


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--projects", ""], "A sandbox needs at least one project and one namespace."),
        (["--projects", "enwiki,frwki"], "--projects: the sandbox knows no project 'frwki'; did you mean frwiki or "),
        (["--projects", "nosuchwiki"], "--projects: the sandbox knows no project 'nosuchwiki'; did you mean "),
        (["--namespaces", "0,1"], "--namespaces: the service has no namespace '1'; it has 0, 6, 10, 14."),
        (["--namespaces", "x"], "--namespaces: the service has no namespace 'x'; it has 0, 6, 10, 14."),
        (["--port", "99999"], "--port: '99999' is not a whole number from 0 to 65535."),
        (["--object-port", "-1"], "--object-port: '-1' is not a whole number from 0 to 65535."),
        (["--prjects", "enwiki"], "There is no option --prjects; did you mean --projects"),
        (["frwiki"], "'frwiki' is not an option; wme sandbox --help lists them."),
        (["--articles", "0"], "`articles` must be between 1 and 400,000; it is 0."),
        (["--changes-per-hour", "10000000"], "`changes_per_hour` must be between 1 and 100,000; it is 10,000,000."),
        (["--idle", "nan"], "--idle: 'nan' is not a number of seconds above 0."),
        (
            ["--now", "2025-03-09T05:00:00"],
            "--now: '2025-03-09T05:00:00' is not a moment with a time zone from 2021 to ",
        ),
        (["--now", "9999-12-31T23:00:00Z"], "--now: '9999-12-31T23:00:00Z' is not a moment with a time zone from 2021"),
        (
            ["--corpus", "/nowhere"],
            "The corpus /nowhere is not a folder; name a folder of .ndjson or .ndjson.gz files.",
        ),
        (["--account", "free:group_9"], "--account: there is no group 'group_9'; there are group_1, group_2, group_3."),
        (
            ["--temporary", "a/b"],
            "--temporary: 'a/b' is not an account; write NAME or NAME:GROUP with a group of group_1, ",
        ),
        (
            ["--quota", "free:chunks=3"],
            "--quota: 'free:chunks=3' is not a quota; write NAME:KIND=LIMIT with a kind of ondem",
        ),
        (
            ["--admit", "everybody"],
            "--admit: 'everybody' is not a range of addresses; write, for example, 127.0.0.0/8 ",
        ),
    ],
    ids=str,
)
def test_a_wrong_call_ends_with_one_sentence(tmp_path, capsys, words, sentence):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--state", str(tmp_path / "state"), *words], called="wme sandbox")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(sentence)
    assert told.count("\n") == 1
    assert not (tmp_path / "state").exists()


def test_options_of_accounts_are_read(tmp_path):
    words = ["--account", "free", "--account", "ada@example.org:group_2", "--temporary", "new:group_1"]
    words += ["--quota", "free:snapshot=2", "--quota", "ada@example.org:chunk=0", "--admit", "::1/128:group_1"]
    options = parse(["--state", str(tmp_path), *words, "--admit", "127.0.0.0/8"], called="")
    assert [(a.name, a.group, a.temporary) for a in options.accounts] == [
        ("free", "group_1", False), ("ada@example.org", "group_2", False), ("new", "group_1", True),
    ]  # fmt: skip
    assert [(q.name, q.kind, q.limit) for q in options.quotas] == [
        ("free", "snapshot", 2), ("ada@example.org", "chunk", 0),
    ]  # fmt: skip
    assert options.admitted == (("::1/128", "group_1"), ("127.0.0.0/8", "group_3"))


def test_a_clock_runs_stands_and_moves():
    clock = Clock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=5)
    clock.advance(timedelta(days=3))
    assert timedelta(days=2) < clock.now() - datetime.now(UTC) < timedelta(days=4)
    assert not clock.frozen
    clock.set(NOW)
    clock.advance(timedelta(hours=1))
    assert clock.now() == NOW + timedelta(hours=1)
    assert clock.frozen
    with pytest.raises(ValueError, match="timezone-aware"):
        clock.set(datetime(2025, 3, 9))  # noqa: DTZ001
    clock.release()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=5)


def test_the_world_is_what_the_service_needs(tmp_path):
    from resources.sandbox.store.archived_world import ArchivedWorld
    from resources.sandbox.store.contents import Contents, File, Snapshot

    world = ArchivedWorld(Settings(state=tmp_path, changes_per_hour=2, body_bytes=100, now=NOW))
    assert isinstance(world, Contents)
    assert all(isinstance(batch, File) for batch in world.batches(NOW.replace(hour=5, minute=0)))
    snapshot = world.snapshot("enwiki_namespace_0", NOW)
    assert isinstance(snapshot, Snapshot)
    assert all(isinstance(chunk, File) for chunk in snapshot.chunks)
