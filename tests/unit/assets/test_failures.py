"""Errors as Dagster failures: sentences, what may be tried again, what ends a run."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.describe import as_failure, failed_hours, failure, sentence
from assets.steps.converting import NotArchivedError
from resources import lake, warehouse
from resources.connection import UnknownNameError
from resources.data_folder import FolderError, OriginError, claim, origin_of
from resources.engine.mapping import EngineUnreachableError, NoWorkerError
from resources.enterprise import errors
from resources.errors import ends_run
from tests.unit.error_trees import ENGINE, ENTERPRISE, LAKE, WAREHOUSE

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


def test_a_sentence_is_the_errors_own_unless_it_has_none():
    assert sentence(errors.Forbidden("The account may not.")) == "The account may not."
    assert sentence(KeyError("x")) == "KeyError: 'x'"
    assert sentence(RuntimeError()) == "RuntimeError"
    refused = OSError(13, "Permission denied", "/data/x")
    assert sentence(refused).startswith("Permission denied: /data/x. ")
    assert "run the same command again" in sentence(refused)


#: What every other hour would meet as well.
ENDING = {
    *(errors.AuthenticationError, errors.NewPasswordRequired, errors.TokenSpent, errors.Forbidden),
    *(errors.QuotaExceeded, errors.BudgetExceeded, errors.ClockError, errors.UnreachableError),
    *(errors.DiskFull, lake.DiskFull, warehouse.WarehouseFullError),
    # the folder of the tokens; the warehouse in another process, damaged, or with tables of another version
    *(
        errors.StateError,
        warehouse.WarehouseBusyError,
        warehouse.WarehouseDamagedError,
        warehouse.WarehouseVersionError,
    ),
    *(OriginError, FolderError, UnknownNameError),
}
#: What may be gone by itself, or by somebody's doing, when the same is tried again.
PASSING = {
    *(errors.NotPublishedYet, errors.RateLimited, errors.ServiceUnavailable, errors.UnreachableError, errors.StateBusy),
    *(warehouse.WarehouseBusyError, warehouse.NotPublishedError),
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


LOST, WRONG, GONE = errors.UnreachableError("Lost."), errors.IntegrityError("Wrong."), errors.RetentionPassed("Gone.")


@pytest.mark.parametrize(
    ("failed", "total", "told"),
    [
        (
            {3: WRONG, 5: LOST, 0: LOST, 1: LOST},
            6,
            [
                "4 of 6 hours failed. The other 2 hours are loaded.",
                "3 hours from 2026-11-19 05:00 to 2026-11-19 10:00: Lost.",
                "2026-11-19 08:00: Wrong.",
            ],
        ),
        (
            dict.fromkeys(range(6), LOST),
            6,
            ["6 of 6 hours failed. Data loaded earlier is kept.", "2026-11-19 05:00 to 2026-11-19 10:00: Lost."],
        ),
        ({0: GONE}, 1, ["1 of 1 hour failed. Data loaded earlier is kept.", "2026-11-19 05:00: Gone."]),
        ({0: GONE}, 2, ["1 of 2 hours failed. The other hour is loaded.", "2026-11-19 05:00: Gone."]),
    ],
)
def test_every_failed_hour_is_named_with_its_reason_and_with_those_of_the_same(failed, total, told):
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
