"""Rejected lines read again: which become rows, which archives are done again for it, and why others cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from pipelines.operations import reprocess
from pipelines.operations.reprocess import Outcome
from pipelines.operations.reprocess import _is_record as is_record
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.lake import Archive, digest_of
from tests.unit.pipelines.rejected import FRENCH, GOOD, SNAPSHOT, Folder
from tests.unit.warehouse.conftest import START


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "data")


def test_lines_that_would_be_rows_today_are_counted_and_their_hours_named(folder):
    folder.load(0, [GOOD[0], b"no record", GOOD[1]])
    folder.load(1, [b"never", b"a record"])
    trial = folder.attempt()
    assert [(one.outcome, one.line_count, one.row_count) for one in trial.tried] == [
        (Outcome.GAINS, 3, 2),
        (Outcome.NONE, 2, 0),
    ]
    assert trial.hours == {ARTICLE_CHANGES: [START]}
    assert trial.snapshots == {}
    assert trial.obstacles() == []
    told = trial.sentences()
    assert told[0] == "5 rejected lines of 2 archives were read again: 2 of them would be rows today."
    assert told[1].startswith(
        "2 of them become rows when their hours are done again from the archive: 2026-11-01 00:00"
    )


def test_only_the_lines_that_were_chosen_are_read(folder):
    folder.load(0, GOOD[:1])
    folder.load(0, FRENCH, "frwiki")
    folder.load(1, GOOD[4:6])
    assert folder.attempt(project="frwiki").row_count == 3
    assert folder.attempt(hour=START + timedelta(hours=1)).row_count == 2
    assert folder.attempt(reason="JSON").row_count == 6
    assert folder.attempt(reason="another").tried == ()


def test_two_halves_of_a_record_side_by_side_are_none(folder):
    half = len(GOOD[0]) // 2
    folder.load(0, [GOOD[0][:half], GOOD[0][half:], GOOD[1] + b"\n" + GOOD[2], b"{}{}"])
    assert folder.attempt().row_count == 0


def test_every_block_of_lines_is_read(folder, monkeypatch):
    monkeypatch.setattr(reprocess, "_BLOCK_BYTES", 2 * len(GOOD[0]))
    folder.load(0, GOOD)
    trial = folder.attempt()
    assert (trial.line_count, trial.row_count) == (9, 9)


def test_a_file_of_the_present_converter_is_not_promised_to_be_made_anew(folder):
    def of_today(file):
        archive = Archive(folder.data, file.identifier, file.version, file.batch_hour, file.project_id, 0)
        return digest_of(archive, frozenset(folder.settings.bodies))

    folder.load(0, GOOD[:2], digest=of_today)
    trial = folder.attempt()
    assert [one.outcome for one in trial.tried] == [Outcome.SAME]
    assert (trial.hours, trial.row_count) == ({}, 2)
    assert len(trial.sentences()) == 1
    assert "Raise CONVERTER_VERSION" in trial.obstacles()[0]


def test_an_hour_of_which_an_archive_is_gone_is_not_done_again(folder):
    folder.load(0, GOOD[:2])
    folder.load(0, [], "frwiki", archived=False)
    folder.load(1, GOOD[2:3])
    trial = folder.attempt()
    assert [one.outcome for one in trial.tried] == [Outcome.GONE, Outcome.GAINS]
    assert trial.hours == {ARTICLE_CHANGES: [START + timedelta(hours=1)]}
    (told,) = trial.obstacles()
    assert told.startswith(
        "2 lines of enwiki_namespace_0.tar.gz would be rows, but their hour cannot be converted again."
    )
    assert "The archive of frwiki_namespace_0 for 2026-11-01 00:00 UTC is not in the archive" in told


def test_an_archive_that_was_converted_again_already_needs_loading_only(folder):
    file = folder.load(0, GOOD[:1])
    archive = Archive(folder.data, file.identifier, file.version, file.batch_hour, file.project_id, 0)
    made = archive.lake_file(folder.layout, archive.table.name, digest_of(archive, frozenset(folder.settings.bodies)))
    assert [one.converted for one in folder.attempt().tried] == [False]
    made.write_bytes(b"made")
    trial = folder.attempt()
    assert [one.converted for one in trial.tried] == [True]
    assert "1 of these 1 archives have been converted again already" in trial.sentences()[-1]


def test_a_snapshot_gains_rows_by_the_archive_that_its_lines_are_of(folder):
    folder.load_snapshot("a" * 32, GOOD[:3])
    trial = folder.attempt()
    assert [(one.outcome, one.line_count, one.row_count, one.part) for one in trial.tried] == [
        (Outcome.GAINS, 3, 3, SNAPSHOT)
    ]
    assert (trial.hours, trial.snapshots) == ({}, {SNAPSHOT_ARTICLES: [SNAPSHOT]})
    assert "when their snapshots are done again from the archive, whole: enwiki_namespace_0." in trial.sentences()[1]


def test_lines_of_a_version_that_was_replaced_are_not_promised_to_become_rows(folder):
    folder.load_snapshot("a" * 32, GOOD[:3])
    newer = folder.load_snapshot("b" * 32, [b"no record"], at=START + timedelta(days=1))
    trial = folder.attempt()
    assert {one.row_count: one.outcome for one in trial.tried} == {3: Outcome.GONE, 0: Outcome.NONE}
    assert trial.snapshots == {}
    assert len(trial.sentences()) == 1
    (told,) = trial.obstacles()
    assert "would be rows, but their snapshot cannot be converted again. Version aaaaaaaa of" in told
    assert "is not the newest in the archive" in told
    newer.unlink()  # and once it is the newest there
    assert folder.attempt().snapshots == {SNAPSHOT_ARTICLES: [SNAPSHOT]}


def test_a_snapshot_whose_files_are_gone_is_not_done_again(folder):
    manifest = folder.load_snapshot("a" * 32, GOOD[:3])
    next(manifest.parent.glob("*_chunk_0*.tar.gz")).unlink()
    trial = folder.attempt()
    assert [one.outcome for one in trial.tried] == [Outcome.GONE]
    assert "was removed from the archive" in trial.obstacles()[0]


def test_hours_are_done_again_in_ranges_with_the_projects_that_they_hold(folder):
    for number, projects in ((0, ["enwiki"]), (1, ["enwiki"]), (3, ["enwiki"]), (4, ["enwiki", "frwiki"])):
        for project in projects:
            folder.load(number, {"enwiki": GOOD, "frwiki": FRENCH}[project][:1], project)
    folder.load(2, [b"no record"])
    groups = reprocess.grouped(folder.settings, folder.attempt())
    assert [(one.projects, one.namespaces, [hour.hour for hour in hours]) for _, one, hours in groups] == [
        (("enwiki",), (0,), [0, 1]),
        (("enwiki",), (0,), [3]),
        (("enwiki", "frwiki"), (0,), [4]),
    ]
    assert {settings.data for _, settings, _ in groups} == {folder.data}


def test_nothing_rejected_is_nothing_to_try(folder):
    folder.load(0, [])
    trial = folder.attempt()
    assert trial.sentences() == ["No rejected line is there to be tried again."]
    assert (trial.hours, trial.snapshots, trial.obstacles()) == ({}, {}, [])


def test_lines_of_the_future_stay_rejected_and_tiny_ones_are_counted_without_being_read(folder, monkeypatch):
    late = json.dumps(json.loads(GOOD[0]) | {"event": {"type": "update", "date_published": "9999-12-31T00:00:00Z"}})
    folder.load(0, [late.encode(), *[b"{}"] * 300, GOOD[1]])
    folder.load_snapshot("1" * 32, [late.encode(), b"[]"])
    read = []
    monkeypatch.setattr(reprocess, "_is_record", lambda line: read.append(line) or is_record(line))
    trial = folder.attempt()
    assert [(one.outcome, one.line_count, one.row_count) for one in trial.tried] == [
        (Outcome.GAINS, 302, 1),
        (Outcome.NONE, 2, 0),
    ]
    assert len(read) == 3


def test_lines_of_lookups_are_left_to_their_next_run(folder):
    file = folder.lake.lookups(5, ("A", None))
    path = folder.load(0, [b"no record"]).rejects_path
    folder.warehouse.load_lookups([replace(file, rejects_path=path, reject_count=1)])
    assert [one.dataset for one in folder.attempt().tried] == [ARTICLE_CHANGES]
