"""What fails for good is retried by nobody: neither the daemon's run retries nor a sensor, until the cause is gone."""

from datetime import UTC, datetime, timedelta

import pytest
from dagster._daemon.auto_run_reexecution.auto_run_reexecution import filter_runs_to_should_retry

from assets.layers import key_of
from pipelines.automation import discovery
from pipelines.automation.discovery import WAITS
from tests.integration.daemon import PASSWORD, STARTED

WRONG = "wrong-Passw0rd"
ITS_HOUR = WAITS[0] + timedelta(minutes=1)


def fail(daemon, job="hours", **typed):
    """Run a job that fails, and see that the daemon does not start it again; returns its record and its sentence.

    `typed`: what is set in the launchpad, by resource.
    """
    partition = key_of(daemon.offered()[-1]) if job == "hours" else None
    typed = {name: {"config": values} for name, values in typed.items()}
    result = daemon.execute(job, partition_key=partition, run_config={"resources": typed})
    assert not result.success
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert not is_retried(daemon, result.run_id)
    return daemon.instance.get_run_by_id(result.run_id), failed.step_failure_data.user_failure_data.description


def is_retried(daemon, run_id):
    return bool(list(filter_runs_to_should_retry([daemon.instance.get_run_by_id(run_id)], daemon.instance)))


def refused(daemon, sensor="discover_hours"):
    """The sentence of a sensor that asks for no run; requests that the service saw are those of this tick."""
    daemon.sandbox.requests.clear()
    found = daemon.tick(sensor, again=True)
    assert not found.run_requests
    return found.skip_message


def test_a_refused_account_is_asked_for_by_no_retry_and_by_a_sensor_ever_more_seldom(daemon, monkeypatch, later):
    crashed = daemon.run(STARTED)
    daemon.instance.report_run_failed(daemon.instance.get_run_by_id(crashed), "The process is gone.")
    assert is_retried(daemon, crashed)
    daemon.instance.delete_run(crashed)
    daemon.change(password=WRONG)
    assert "password" in fail(daemon)[1]
    passed = ITS_HOUR
    for wait in (*WAITS, WAITS[-1]):
        later(passed)
        message = refused(daemon)
        assert "password" in message.lower()
        assert WRONG not in message
        assert [seen.path for seen in daemon.sandbox.requests] == ["/v1/login"]
        later(passed + wait - timedelta(seconds=30))
        assert "Repeated logins can lock an account" in refused(daemon)
        assert not daemon.sandbox.requests
        passed += wait + timedelta(seconds=30)
    daemon.change(password=PASSWORD)
    # new settings come with definitions that are loaded again
    monkeypatch.setattr(discovery, "LOADED_AT", datetime.now(UTC) + passed)
    later(timedelta(minutes=11))
    assert daemon.tick("discover_hours", again=True).run_requests


def test_a_name_that_the_service_does_not_have_is_not_asked_for_again(daemon, later):
    daemon.change(projects=("enwiki", "enwikki"))
    assert "did you mean enwiki?" in fail(daemon)[1]
    later(ITS_HOUR)
    assert "did you mean enwiki?" in refused(daemon)
    daemon.change(projects=("enwiki",))
    assert daemon.tick("discover_hours", again=True).run_requests


def test_a_spent_quota_is_not_tried_again_before_there_are_units(daemon, later):
    daemon.sandbox.accounts.set_quota(daemon.settings.username, "batch", limit=5, used=5)
    assert "5 of its 5 batch units" in fail(daemon)[1]
    later(ITS_HOUR)
    assert "used 5 of its 5 batch units" in refused(daemon)
    assert not [seen for seen in daemon.sandbox.requests if seen.path.endswith("/download")]
    daemon.sandbox.accounts.set_quota(daemon.settings.username, "batch", limit=5, used=0)
    assert daemon.tick("discover_hours", again=True).run_requests


def test_a_stream_that_was_refused_the_account_waits_for_a_change(daemon, monkeypatch, later):
    daemon.change(password=WRONG)
    _, told = fail(daemon, "stream")
    later(timedelta(days=1))
    assert refused(daemon, "keep_streaming").startswith(told)
    assert not daemon.sandbox.requests
    monkeypatch.setattr(discovery, "LOADED_AT", datetime.now(UTC))
    assert daemon.tick("keep_streaming", again=True).run_requests


@pytest.mark.parametrize(
    ("job", "resource", "name", "value", "wanted"),
    [
        ("hours", "lake", "min_free_gb", -1.0, "a number of gigabytes from 0 to 1,000,000, for example 5"),
        ("hours", "engine", "threads", 0, "a whole number from 1 to 1,024"),
        ("lookups", "enterprise", "lookups_per_day", -5, "a whole number from 0 to 1,000,000, for example 100"),
        # it holds for the run, and all else is as the settings say: the account, the projects, the folder
        ("hours", "lake", "min_free_gb", 900000.0, None),
    ],
)
def test_a_value_set_for_a_run_holds_for_it_alone_or_fails_its_step(daemon, job, resource, name, value, wanted):
    failed, told = fail(daemon, job, **{resource: {name: value}})
    refused = f"{name} is {value}; use {wanted}. Nothing was done."
    assert (refused if wanted else "must leave 900,000.0 GB of disk space free (WME_MIN_FREE_GB)") in told
    # what fails before the first step would be retried
    assert failed.tags["dagster/failure_reason"] == "STEP_FAILURE"
    assert not list(daemon.settings.data.glob("archive/**/*.tar.gz"))
