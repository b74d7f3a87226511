"""The run-failure hook with a real listener and real programs: what it is handed, and that it harms no run."""

import json
import os
import sys
from datetime import UTC, datetime

import dagster as dg
import pytest
from pydantic import SecretStr

from assets.layers import RunTag
from pipelines.automation import failure_hook
from pipelines.automation.discovery import refusal_of
from pipelines.automation.failure_hook import HookError, deliver
from pipelines.automation.sensors import report_failures
from pipelines.embedding import Prefix
from resources import settings as settings_module
from resources.settings import Settings, SettingsError
from tests.unit.enterprise.loopback import Loopback, Reply, Sender

KEY, PASSWORD = "s3cret-key-of-the-webhook", "Passw0rd-of-the-account"


@pytest.fixture
def hook():
    """A listener on loopback that answers with `hook.reply`; its address contains a key."""
    listener = Loopback(lambda _request: listener.reply)
    listener.reply, listener.address = Reply(), f"{listener.url}/{KEY}"
    yield listener
    listener.close()


def program(text, *words):
    return f"'{sys.executable}' -c '{text}' {' '.join(words)}"


def test_an_address_gets_the_document_by_post_and_it_is_bounded(tmp_path, hook):
    hook.reply = Reply(204)
    deliver(hook.address, {"event": "run_failure", "message": "é"})
    [seen] = hook.requests
    assert (seen.method, seen.path, seen.headers["content-type"]) == ("POST", f"/{KEY}", "application/json")
    assert seen.json == {"event": "run_failure", "message": "é"}
    chosen = frozenset(map(dg.AssetKey, (["lake", "b"], ["lake", "a"])))
    run = dg.DagsterRun("hours", asset_selection=chosen, tags={RunTag.PARTITION: "2026-11-20-05:00"})
    steps = [(f"step_{number}", "x" * 100_000) for number in range(1000)]
    settings = Settings(data=tmp_path, password=SecretStr(PASSWORD))
    made = failure_hook.document(settings, run, "y" * 100_000, steps)
    assert len(json.dumps(made)) < 30_000
    assert [one["step"] for one in made["steps"]] == [f"step_{number}" for number in range(10)]
    made = failure_hook.document(settings, run, f"With {PASSWORD}.", [])
    hour, names = "2026-11-20-05:00", ("message", "assets", "first_partition", "last_partition")
    assert [made[name] for name in names] == ["With [hidden].", ["lake/a", "lake/b"], hour, hour]


def test_a_program_gets_the_document_on_standard_input_in_the_projects_folder_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("PASSWORD", "ON_FAILURE", "NEW_PASSWORD", "CODE"):
        monkeypatch.setenv(f"WME_{name}", PASSWORD)
    target = tmp_path / "with a space"
    text = 'import os, sys; open(sys.argv[1], "w").write(sys.stdin.read() + os.getcwd() + str(dict(os.environ)))'
    deliver(program(text, f"'{target}'"), {"event": "run_failure"})
    assert target.read_text().startswith(f'{{"event": "run_failure"}}{settings_module.PROJECT}{{')
    assert PASSWORD not in target.read_text()


def test_an_address_that_refuses_sends_elsewhere_or_is_not_there_is_an_error_without_its_key(hook):
    told = []
    for status in (500, 302):
        hook.reply = Reply(status, headers={"Location": "/elsewhere"})
        with pytest.raises(HookError, match=f"HTTP status {status}") as refused:
            deliver(hook.address, {})
        told.append(str(refused.value))
    assert len(hook.requests) == 2  # no redirect is followed
    hook.close()
    with pytest.raises(HookError, match="unreachable") as refused:
        deliver(hook.address, {})
    assert KEY not in f"{told} {refused.value}"


def test_a_hook_that_takes_too_long_is_given_up_with_its_children(hook, tmp_path):
    # nothing is sent until the client leaves, or one byte after another
    for sender in (Sender(b"", b"", pause=60), Sender(b"HTTP/1.0 200 OK\r\nX: ", b"x", most=100, pause=0.05)):
        hook.reply = Reply(raw=sender)
        with pytest.raises(HookError, match=r"within 0\.2 seconds"):
            deliver(hook.address, {}, seconds=0.2)
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)) as pipe:
        with pytest.raises(HookError, match=r"terminated after 0\.2 seconds"):
            deliver(f"sh -c '(sleep 3; echo alive) >{tmp_path}/pipe & wait'", {}, seconds=0.2)
        os.set_blocking(pipe.fileno(), True)
        assert pipe.read() == "", "a child goes on"


def test_a_program_that_fails_or_is_not_there_is_an_error():
    with pytest.raises(HookError, match=r"failed \(exit code 3\)"):
        deliver(program("import sys; sys.exit(3)"), {})
    with pytest.raises(HookError, match=r"could not be started \(No such file or directory\)"):
        deliver("/nowhere/notify --loud", {})


@pytest.mark.parametrize("text", ["https://?key=1", "HTTP:///path", "'unclosed", "notify\x07"])
def test_a_setting_that_can_be_neither_is_refused_and_none_is_shown(text):
    told = r"WME_ON_FAILURE is not valid .*; use https://host/path, or a program"
    with pytest.raises(SettingsError, match=told) as refused:
        settings_module.read({"WME_ON_FAILURE": text})
    assert text not in str(refused.value)
    read = settings_module.read({"WME_ON_FAILURE": f"https://ops.example.org/{KEY}"})
    assert KEY not in repr(read)
    assert KEY not in read.model_dump_json()


def fail(instance, error, **tags):
    """A run of a step that fails as ours do, with a sentence, or by an error; returns its identifier."""

    @dg.op(name="archive__batches")
    def broken() -> None:
        raise dg.Failure(error) if isinstance(error, str) else error

    @dg.job(name="hours")
    def job():
        broken()

    return job.execute_in_process(instance=instance, raise_on_error=False, tags=tags).run_id


@pytest.mark.parametrize(("unavailable", "retryable"), [("service", False), ("service", True), ("warehouse", False)])
def test_a_refusal_of_the_account_is_no_failure_that_passes(instance, unavailable, retryable):
    metadata = {"unavailable": unavailable, "retryable": retryable}
    run = instance.get_run_by_id(fail(instance, dg.Failure("Refused.", metadata=metadata)))
    told = "Refused." if (unavailable, retryable) == ("service", False) else None
    assert refusal_of(instance, run, datetime.now(UTC)) == told


def tick(sensor, instance, cursor):
    """One look; returns what came of it and the cursor of the next."""
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        told = sensor.evaluate_tick(context)
    return told, told.cursor


def test_each_failed_run_is_reported_once_with_its_sentence(instance, tmp_path, hook):
    settings = Settings(data=tmp_path, password=SecretStr(PASSWORD), on_failure=SecretStr(hook.address))
    sensor = report_failures(settings, Prefix())
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    fail(instance, "From before the sensor.")
    _, cursor = tick(sensor, instance, None)
    tags = {RunTag.RANGE_START: "2026-11-20-05:00", RunTag.RANGE_END: "2026-11-20-07:00"}
    run = fail(instance, f"3 of 3 hours failed. {PASSWORD} {hook.address} https://x.example/a?signature=1", **tags)
    told, cursor = tick(sensor, instance, cursor)
    assert [one.error for one in told.dagster_run_reactions] == [None]
    assert tick(sensor, instance, cursor)[0].dagster_run_reactions == []
    [seen] = hook.requests
    content = seen.json
    assert content.pop("failed_at").endswith(" UTC")
    message = "3 of 3 hours failed. [hidden] [hidden] https://x.example/a?[hidden]"
    step = {"step": "archive__batches", "message": message}
    assert content == {
        "event": "run_failure", "data": str(tmp_path), "run_id": run, "run_path": f"/runs/{run}", "job": "hours",
        "assets": [], "first_partition": "2026-11-20-05:00", "last_partition": "2026-11-20-07:00", "steps": [step],
        "message": "Execution of run for \"hours\" failed. Steps failed: ['archive__batches'].",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prefix", "tags", "why"),
    [
        ("", {"dagster/will_retry": "true"}, "Dagster will retry "),
        ("", {"dagster/failure_reason": "UNEXPECTED_TERMINATION"}, "the UI or the daemon was stopped"),
        ("encyclopedia", {}, "another part of the project"),
    ],
)
def test_runs_that_failed_not_for_good_or_elsewhere_are_left_out(instance, tmp_path, hook, prefix, tags, why):
    sensor = report_failures(Settings(data=tmp_path, on_failure=SecretStr(hook.address)), Prefix(prefix))
    fail(instance, "From before the sensor.")
    _, cursor = tick(sensor, instance, None)
    instance.add_run_tags(fail(instance, "Any."), tags)
    told, _ = tick(sensor, instance, cursor)
    assert hook.requests == []
    assert why in told.skip_message


def test_a_hook_that_fails_is_a_failed_tick_and_the_next_run_is_reported(instance, tmp_path):
    target = tmp_path / "reports"
    sensor = report_failures(Settings(data=tmp_path, on_failure=SecretStr("/nowhere/notify")), Prefix())
    _, cursor = tick(sensor, instance, None)
    run = fail(instance, "Any.")
    told, cursor = tick(sensor, instance, cursor)
    [reaction] = told.dagster_run_reactions
    assert "could not be started" in reaction.error.to_string()
    assert instance.get_run_by_id(run).status is dg.DagsterRunStatus.FAILURE
    # the operator corrects the setting
    text = 'import sys; open(sys.argv[1], "a").write(sys.stdin.read())'
    sensor = report_failures(Settings(data=tmp_path, on_failure=SecretStr(program(text, str(target)))), Prefix())
    second = fail(instance, RuntimeError("Another."))
    told, _ = tick(sensor, instance, cursor)
    assert [one.error for one in told.dagster_run_reactions] == [None]
    content, step = json.loads(target.read_text()), {"step": "archive__batches", "message": "RuntimeError: Another."}
    assert (content["run_id"], content["steps"]) == (second, [step])


def test_without_a_setting_the_sensor_is_off_and_says_so(instance, tmp_path):
    sensor = report_failures(Settings(data=tmp_path), Prefix())
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    _, cursor = tick(sensor, instance, None)
    fail(instance, "Any.")
    assert tick(sensor, instance, cursor)[0].skip_message == "WME_ON_FAILURE is not set."
