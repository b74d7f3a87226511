"""What fails for good is retried by nobody: neither the daemon's run retries nor a sensor, until the cause is gone."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from dagster._daemon.auto_run_reexecution.auto_run_reexecution import filter_runs_to_should_retry
from pydantic import SecretStr

from assets.layers import key_of, recent_hours
from pipelines.automation import discovery, sensors
from pipelines.automation.discovery import WAITS
from pipelines.definitions import build_defs
from pipelines.process.instance import opened
from resources.adapters import build_resources
from resources.sandbox import Settings as SandboxSettings
from resources.sandbox import running
from resources.settings import Settings

PASSWORD = "Passw0rd-of-its-own"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    state = tmp_path_factory.mktemp("retries")
    with running(
        SandboxSettings(state=state, projects=("enwiki",), namespaces=(0,), changes_per_hour=4, body_bytes=200)
    ) as sandbox:
        yield sandbox


class Place:
    """A data folder with its Dagster instance as the daemon has it, and an account of its own."""

    def __init__(self, service, data, instance):
        self.service, self.instance = service, instance
        self.username = f"operator{uuid.uuid4().hex[:8]}"
        service.accounts.create(self.username, PASSWORD, groups=["group_3"])
        self.settings = Settings(
            username=self.username,
            password=PASSWORD,
            auth_url=service.url,
            base_url=service.url,
            realtime_url=service.realtime_url,
            projects=("enwiki",),
            data=data,
            sandbox=False,
            min_free_gb=0,
        )
        self.cursor = None
        self.hour = [
            one for one in recent_hours(datetime.now(UTC)) if service.world.hour_ready_at(one) <= datetime.now(UTC)
        ][-1]

    def use_password(self, password):
        self.settings = self.settings.model_copy(update={"password": SecretStr(password)})

    def run(self, job="hours", **typed):
        """A run that fails: its record and its sentence. `typed`: what is set in the launchpad, by resource."""
        tags = {"dagster/partition": key_of(self.hour)} if job == "hours" else {}
        result = (
            build_defs(self.settings)
            .resolve_job_def(job)
            .execute_in_process(
                instance=self.instance,
                partition_key=tags.get("dagster/partition"),
                raise_on_error=False,
                run_config={"resources": {name: {"config": values} for name, values in typed.items()}},
            )
        )
        assert not result.success
        (failed,) = [event for event in result.all_events if event.is_step_failure]
        return self.instance.get_run_by_id(result.run_id), failed.step_failure_data.user_failure_data.description

    def tick(self, name):
        """What a sensor asks for now, with the cursor of its look before.

        Requests that the service saw are of this look.
        """
        defs = build_defs(self.settings)
        sensor = defs.resolve_sensor_def(name)
        resources = {
            key: one for key, one in build_resources(self.settings).items() if key in sensor.required_resource_keys
        }
        self.service.requests.clear()
        with dg.build_sensor_context(
            instance=self.instance, definitions=defs, resources=resources, cursor=self.cursor
        ) as context:
            tick = sensor.evaluate_tick(context)
        self.cursor = tick.cursor or self.cursor
        return tick

    def is_retried(self, run):
        """Whether the daemon starts a failed run again."""
        return bool(list(filter_runs_to_should_retry([self.instance.get_run_by_id(run.run_id)], self.instance)))


@pytest.fixture
def place(service, tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "data/dagster"))
    monkeypatch.setattr(sensors, "_ANSWER_SECONDS", 120.0)
    with opened(tmp_path / "data" / "dagster") as instance:
        yield Place(service, tmp_path / "data", instance)
    service.faults.clear()


@pytest.fixture
def later(monkeypatch):
    """Lets time pass for the sensors."""

    def go(by):
        class Moved(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + by

        monkeypatch.setattr(sensors, "datetime", Moved)

    return go


def test_a_crashed_run_is_retried_and_one_whose_step_failed_is_not(place):
    crashed = create_run_for_test(place.instance, job_name="hours", status=dg.DagsterRunStatus.STARTED)
    place.instance.report_run_failed(crashed, "The process is gone.")
    assert place.is_retried(crashed)
    place.service.faults.add(path="/v2/batches/*", kind="status", status=403, count=None)
    failed, _ = place.run()
    assert not place.is_retried(failed)


def test_a_refused_account_is_asked_for_by_no_retry_and_by_a_sensor_ever_more_seldom(place, monkeypatch, later):
    place.use_password("wrong-Passw0rd")
    failed, told = place.run()
    assert "password" in told
    assert not place.is_retried(failed)
    passed = WAITS[0] + timedelta(minutes=1)
    for wait in (*WAITS, WAITS[-1]):
        later(passed)
        tick = place.tick("discover_hours")
        assert not tick.run_requests
        assert "password" in tick.skip_message
        assert [seen.path for seen in place.service.requests] == ["/v1/login"]
        later(passed + wait - timedelta(seconds=30))
        assert "refused passwords lock it" in place.tick("discover_hours").skip_message
        assert not place.service.requests
        passed += wait + timedelta(seconds=30)
    place.use_password(PASSWORD)
    # new settings come with definitions that are loaded again
    monkeypatch.setattr(discovery, "LOADED_AT", datetime.now(UTC) + passed)
    later(timedelta(minutes=11))
    assert place.tick("discover_hours").run_requests


def test_a_name_that_the_service_does_not_have_is_not_asked_for_again(place, later):
    place.settings = place.settings.model_copy(update={"projects": ("enwiki", "enwikki")})
    failed, told = place.run()
    assert "did you mean enwiki?" in told
    assert not place.is_retried(failed)
    later(WAITS[0] + timedelta(minutes=1))
    tick = place.tick("discover_hours")
    assert not tick.run_requests
    assert "did you mean enwiki?" in tick.skip_message
    place.settings = place.settings.model_copy(update={"projects": ("enwiki",)})
    assert place.tick("discover_hours").run_requests


def test_a_spent_quota_is_not_tried_again_before_there_are_units(place, later):
    place.service.accounts.set_quota(place.username, "batch", limit=5, used=5)
    failed, told = place.run()
    assert "5 of its 5 batch units" in told
    assert not place.is_retried(failed)
    later(WAITS[0] + timedelta(minutes=1))
    tick = place.tick("discover_hours")
    assert not tick.run_requests
    assert "used 5 of its 5 batch units" in tick.skip_message
    assert not [seen for seen in place.service.requests if seen.path.endswith("/download")]
    place.service.accounts.set_quota(place.username, "batch", limit=5, used=0)
    assert place.tick("discover_hours").run_requests


def test_a_stream_that_was_refused_the_account_waits_for_a_change(place, monkeypatch, later):
    place.use_password("wrong-Passw0rd")
    failed, told = place.run("stream")
    assert not place.is_retried(failed)
    later(timedelta(days=1))
    tick = place.tick("keep_streaming")
    assert not tick.run_requests
    assert tick.skip_message.startswith(told)
    assert not place.service.requests
    monkeypatch.setattr(discovery, "LOADED_AT", datetime.now(UTC))
    assert place.tick("keep_streaming").run_requests


@pytest.mark.parametrize(
    ("job", "resource", "name", "value", "sentence"),
    [
        ("hours", "lake", "min_free_gb", -1.0, ("min_free_gb is -1.0; write a number of gigabytes "
         "from 0 to 1,000,000, for example 5. Nothing was done.")),
        ("hours", "engine", "threads", 0, "threads is 0; write a whole number from 1 to 1,024. Nothing was done."),
        ("lookups", "enterprise", "lookups_per_day", -5, ("lookups_per_day is -5; write a whole number from "
         "0 to 1,000,000, for example 100. Nothing was done.")),
        # it holds for the run, and all else is as the settings say: the account, the projects, the folder
        ("hours", "lake", "min_free_gb", 900000.0, "must leave 900,000.0 GB of disk free (WME_MIN_FREE_GB)"),
    ],
)  # fmt: skip
def test_a_value_that_is_set_for_a_run_holds_for_it_alone_or_fails_its_step(
    place, job, resource, name, value, sentence
):
    failed, told = place.run(job, **{resource: {name: value}})
    assert sentence in told
    # what fails before the first step would be retried
    assert failed.tags["dagster/failure_reason"] == "STEP_FAILURE"
    assert not place.is_retried(failed)
    assert not list(place.settings.data.glob("archive/**/*.tar.gz"))
