"""Errors as Dagster failures: sentences, what may be tried again, what ends a run."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from assets.describe import as_failure, failed_hours, failure, sentence
from resources.enterprise import errors
from resources.errors import ends_run

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


def test_a_sentence_is_the_errors_own_unless_it_has_none():
    assert sentence(errors.Forbidden("The account may not.")) == "The account may not."
    assert sentence(KeyError("x")) == "KeyError: 'x'"
    assert sentence(RuntimeError()) == "RuntimeError"
    refused = OSError(13, "Permission denied", "/data/x")
    assert sentence(refused).startswith("Permission denied: /data/x. ")
    assert "run the same command again" in sentence(refused)


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, OSError, MemoryError])
def test_errors_that_do_not_say_end_their_hour_and_are_not_tried_again(kind):
    assert not ends_run(kind("x"))
    assert not failure(kind("x")).allow_retries


LOST, WRONG, GONE = errors.UnreachableError("Lost."), errors.IntegrityError("Wrong."), errors.RetentionPassed("Gone.")


def test_every_failed_hour_is_named_with_its_reason_and_with_those_of_the_same():
    at, kept = "2026-11-19", "failed. Data loaded earlier is kept."
    same, others = f"3 hours from {at} 05:00 to {at} 10:00: Lost.", "4 of 6 hours failed. The other 2 hours are loaded."
    for failed, total, told in (
        ({3: WRONG, 5: LOST, 0: LOST, 1: LOST}, 6, (others, same, f"{at} 08:00: Wrong.")),
        (dict.fromkeys(range(6), LOST), 6, (f"6 of 6 hours {kept}", f"{at} 05:00 to {at} 10:00: Lost.")),
        ({0: GONE}, 1, (f"1 of 1 hour {kept}", f"{at} 05:00: Gone.")),
        ({0: GONE}, 2, ("1 of 2 hours failed. The other hour is loaded.", f"{at} 05:00: Gone.")),
    ):
        hours = {HOUR + timedelta(hours=number): error for number, error in failed.items()}
        found = failed_hours(hours, total, what="entity_changes: ")
        assert found.description == "entity_changes: " + "\n- ".join(told)
        assert found.allow_retries is (LOST in failed.values())  # one of them can heal


def test_whatever_goes_wrong_within_becomes_a_failure_once():
    with pytest.raises(dg.Failure) as caught, as_failure():
        raise errors.RateLimited("Too many.")
    assert (caught.value.description, caught.value.allow_retries) == ("Too many.", True)
    own = dg.Failure("Mine.", allow_retries=False)
    with pytest.raises(dg.Failure) as caught, as_failure():
        raise own
    assert caught.value is own
