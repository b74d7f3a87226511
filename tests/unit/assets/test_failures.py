"""Errors as Dagster failures: sentences, what may be tried again, what ends a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.describe import as_failure, failed_hours, failure, sentence
from assets.steps.converting import NotArchivedError
from resources import lake
from resources.connection import UnknownNameError
from resources.data_folder import FolderError, OriginError, claim, origin_of
from resources.engine.mapping import EngineUnreachableError, NoWorkerError
from resources.enterprise import errors
from resources.errors import ends_run
from resources.lake import LakeError
from resources.warehouse import (
    NotPublishedError,
    WarehouseBusyError,
    WarehouseDamagedError,
    WarehouseFullError,
    WarehouseVersionError,
)
from tests.unit.error_trees import ENGINE, ENTERPRISE, LAKE, WAREHOUSE

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


def test_transient_errors_may_be_tried_again_and_permanent_ones_not():
    assert failure(errors.NotPublishedYet("Not there yet.")).allow_retries
    assert not failure(errors.RetentionPassed("Gone.")).allow_retries
    assert not failure(LakeError("Damaged.")).allow_retries


def test_a_sentence_is_the_errors_own_unless_it_has_none():
    assert sentence(errors.Forbidden("The account may not.")) == "The account may not."
    assert sentence(KeyError("x")) == "KeyError: 'x'"
    assert sentence(RuntimeError()) == "RuntimeError"


#: What every other hour would meet as well.
ENDING = {
    *(errors.AuthenticationError, errors.NewPasswordRequired, errors.TokenSpent, errors.Forbidden),
    *(errors.QuotaExceeded, errors.BudgetExceeded, errors.ClockError, errors.UnreachableError),
    *(errors.DiskFull, lake.DiskFull, WarehouseFullError),
    # the folder of the tokens; the warehouse in another process, damaged, or with tables of another version
    *(errors.StateError, WarehouseBusyError, WarehouseDamagedError, WarehouseVersionError),
    *(OriginError, FolderError, UnknownNameError),
}
#: What may be gone by itself, or by somebody's doing, when the same is tried again.
PASSING = {
    *(errors.NotPublishedYet, errors.RateLimited, errors.ServiceUnavailable, errors.UnreachableError, errors.StateBusy),
    *(WarehouseBusyError, NotPublishedError),
    *(EngineUnreachableError, NoWorkerError),
}


def example(kind):
    return kind(Path("x.tar.gz"), "No.") if kind in {lake.ArchiveError, lake.DamagedFileError} else kind("No.")


@pytest.mark.parametrize(
    "kind",
    [*ENGINE, *ENTERPRISE, *LAKE, *WAREHOUSE, OriginError, FolderError, NotArchivedError, UnknownNameError],
    ids=lambda kind: f"{kind.__module__}.{kind.__name__}",
)
def test_every_error_ends_the_run_or_its_hour_and_may_be_tried_again_or_not(kind):
    assert ends_run(example(kind)) is (kind in ENDING)
    assert failure(example(kind)).allow_retries is (kind in PASSING)
    assert "No." in sentence(example(kind))


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, OSError, MemoryError])
def test_errors_that_do_not_say_end_their_hour_and_are_not_tried_again(kind):
    assert not ends_run(kind("x"))
    assert not failure(kind("x")).allow_retries


def test_hours_that_fail_for_the_same_cause_are_named_together():
    lost, odd = errors.UnreachableError("No connection."), errors.IntegrityError("Wrong MD5.")
    hours = [HOUR + timedelta(hours=number) for number in range(6)]
    failed = failed_hours({hours[5]: lost, **dict.fromkeys(hours[:2], lost), hours[3]: odd}, total=6)
    assert failed.description == (
        "4 of 6 hours failed. The other 2 hours are loaded.\n"
        "- 3 hours from 2026-11-19 05:00 to 2026-11-19 10:00: No connection.\n- 2026-11-19 08:00: Wrong MD5."
    )
    whole = failed_hours(dict.fromkeys(hours, lost), total=6)
    assert (
        whole.description
        == "6 of 6 hours failed. Data loaded earlier is kept.\n- 2026-11-19 05:00 to 2026-11-19 10:00: No connection."
    )


def test_every_failed_hour_is_named_with_its_reason():
    failed = failed_hours(
        {HOUR + timedelta(hours=1): errors.IntegrityError("Wrong MD5."), HOUR: errors.NotPublishedYet("Not yet.")},
        total=24,
    )
    assert failed.description == (
        "2 of 24 hours failed. The other 22 hours are loaded.\n"
        "- 2026-11-19 05:00: Not yet.\n- 2026-11-19 06:00: Wrong MD5."
    )
    assert failed.allow_retries  # one of them can heal


def test_when_all_hours_fail_nothing_is_claimed_to_be_loaded():
    failed = failed_hours({HOUR: errors.RetentionPassed("Gone.")}, total=1)
    assert failed.description == "1 of 1 hour failed. Data loaded earlier is kept.\n- 2026-11-19 05:00: Gone."
    assert not failed.allow_retries


def test_the_same_failure_of_two_datasets_is_told_apart():
    failed = failed_hours({HOUR: errors.RetentionPassed("Gone.")}, total=1, what="entity_changes: ")
    assert failed.description.startswith("entity_changes: 1 of 1 hour failed.")


def test_one_hour_that_is_left_is_one():
    failed = failed_hours({HOUR: errors.RetentionPassed("Gone.")}, total=2)
    assert failed.description == ("1 of 2 hours failed. The other hour is loaded.\n- 2026-11-19 05:00: Gone.")


def test_whatever_goes_wrong_within_becomes_a_failure_once():
    with pytest.raises(dg.Failure) as caught, as_failure():
        raise errors.RateLimited("Too many.")
    assert (caught.value.description, caught.value.allow_retries) == ("Too many.", True)
    own = dg.Failure("Mine.", allow_retries=False)
    with pytest.raises(dg.Failure) as caught, as_failure():
        raise own
    assert caught.value is own


def test_what_the_system_refuses_names_the_file_and_what_to_do():
    refused = OSError(13, "Permission denied", "/data/x")
    assert sentence(refused).startswith("Permission denied: /data/x. ")
    assert "run the same command again" in sentence(refused)


def test_a_data_folder_refuses_another_service(tmp_path):
    assert origin_of(tmp_path) is None
    claim(tmp_path, "sandbox 1")
    claim(tmp_path, "sandbox 1")
    with pytest.raises(
        OriginError, match=r"Set WME_DATA to another folder.*If sandbox 1 was a mistake, remove .*service\.json"
    ):
        claim(tmp_path, "https://api.example.org")
    assert origin_of(tmp_path) == "sandbox 1"
    (tmp_path / "archive").mkdir()
    with pytest.raises(OriginError, match=r"restore the previous settings\.$"):
        claim(tmp_path, "https://api.example.org")
