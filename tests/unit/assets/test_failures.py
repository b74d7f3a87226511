"""Errors as Dagster failures: sentences, what may be tried again, what ends a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from assets.failures import ends_run, failed_hours, failure, sentence
from resources.enterprise import errors
from resources.lake import LakeError
from resources.lake.origin import OriginError, claim, origin_of

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


def test_transient_errors_may_be_tried_again_and_permanent_ones_not():
    assert failure(errors.NotPublishedYet("Not there yet.")).allow_retries
    assert not failure(errors.RetentionPassed("Gone.")).allow_retries
    assert not failure(LakeError("Damaged.")).allow_retries


def test_a_sentence_is_the_errors_own_unless_it_has_none():
    assert sentence(errors.Forbidden("The account may not.")) == "The account may not."
    assert sentence(KeyError("x")) == "KeyError: 'x'"
    assert sentence(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("kind", [errors.AuthenticationError, errors.TokenSpent, errors.QuotaExceeded, errors.DiskFull])
def test_what_would_meet_every_hour_ends_the_run(kind):
    assert ends_run(kind("No."))


def test_one_bad_hour_does_not_end_the_run():
    assert not ends_run(errors.IntegrityError("Wrong MD5."))


def test_every_failed_hour_is_named_with_its_reason():
    told = failed_hours(
        {HOUR + timedelta(hours=1): errors.IntegrityError("Wrong MD5."), HOUR: errors.NotPublishedYet("Not yet.")},
        total=24,
    )
    assert told.description == (
        "2 of 24 hours failed. The other 22 are loaded and stay.\n"
        "- 2026-11-19 05:00: Not yet.\n- 2026-11-19 06:00: Wrong MD5."
    )
    assert told.allow_retries  # one of them can heal


def test_when_all_hours_fail_nothing_is_claimed_to_be_loaded():
    told = failed_hours({HOUR: errors.RetentionPassed("Gone.")}, total=1)
    assert told.description == "1 of 1 hour failed.\n- 2026-11-19 05:00: Gone."
    assert not told.allow_retries


def test_a_data_folder_refuses_another_service(tmp_path):
    assert origin_of(tmp_path) is None
    claim(tmp_path, "sandbox 1")
    claim(tmp_path, "sandbox 1")
    with pytest.raises(
        OriginError, match=r"Set WME_DATA to another folder.*if sandbox 1 was a slip, remove .*service\.json"
    ):
        claim(tmp_path, "https://api.example.org")
    assert origin_of(tmp_path) == "sandbox 1"
    (tmp_path / "archive").mkdir()
    with pytest.raises(OriginError, match=r"or go back to the service the folder belongs to\.$"):
        claim(tmp_path, "https://api.example.org")
