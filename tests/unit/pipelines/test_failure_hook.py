"""The run-failure hook with a real listener and real programs.

What it is handed, its bounds, and that it harms no run.
"""

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dagster as dg
import pytest
from pydantic import SecretStr

from pipelines.automation import failure_hook
from pipelines.automation.failure_hook import HookError, deliver
from pipelines.automation.sensors import report_failures
from pipelines.embedding import Prefix
from resources import settings as settings_module
from resources.settings import Settings, SettingsError

KEY = "s3cret-key-of-the-webhook"
PASSWORD = "Passw0rd-of-the-account"


@contextmanager
def listening(status=200, answers=None, *, drips=False):
    """A server on loopback; yields its address, whose path is a key, and the requests that it got.

    It answers after `answers` is set; until then it sends nothing or, if it `drips`, one byte after another.
    """
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            if drips:
                self.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
            if answers is not None:
                for _ in range(1200):
                    if answers.wait(0.05):
                        break
                    if drips:
                        self.wfile.write(b"x")
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815  the library's name

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{KEY}", seen
    finally:
        if answers is not None:
            answers.set()
        server.shutdown()
        server.server_close()
        thread.join()


def program(text, *words):
    """A program as the setting names it."""
    return f"'{sys.executable}' -c '{text}' {' '.join(words)}"


def test_an_address_gets_the_document_by_post_and_it_is_bounded(tmp_path):
    with listening(204) as (url, seen):
        deliver(url, {"event": "run_failure", "message": "é"})
    [(path, headers, body)] = seen
    assert (path, headers["Content-Type"]) == (f"/{KEY}", "application/json")
    assert json.loads(body) == {"event": "run_failure", "message": "é"}
    run = dg.DagsterRun("hours")
    steps = [(f"step_{number}", "x" * 100_000) for number in range(1000)]
    made = failure_hook.document(Settings(data=tmp_path), run, "y" * 100_000, steps)
    assert len(json.dumps(made)) < 30_000


def test_a_program_gets_the_document_on_standard_input_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("WME_PASSWORD", PASSWORD)
    target = tmp_path / "with a space"
    text = 'import os, sys; open(sys.argv[1], "w").write(sys.stdin.read() + os.environ.get("WME_PASSWORD", "none"))'
    deliver(program(text, f"'{target}'"), {"event": "run_failure"})
    assert target.read_text() == '{"event": "run_failure"}none'


def test_an_address_that_refuses_sends_elsewhere_or_is_not_there_is_an_error_without_its_key():
    for status in (500, 302):
        with listening(status) as (url, seen), pytest.raises(HookError, match=f"HTTP status {status}") as refused:
            deliver(url, {})
        assert len(seen) == 1  # no redirect is followed
        assert KEY not in str(refused.value)
    with pytest.raises(HookError, match="unreachable") as refused:
        deliver(url, {})
    assert KEY not in str(refused.value)


def test_a_hook_that_takes_too_long_is_given_up():
    for drips in (False, True):
        slow = listening(answers=threading.Event(), drips=drips)
        with slow as (url, _), pytest.raises(HookError, match=r"within 0\.2 seconds"):
            deliver(url, {}, seconds=0.2)
    with pytest.raises(HookError, match=r"terminated after 0\.2 seconds"):
        deliver(program("import signal; signal.pause()"), {}, seconds=0.2)


def test_a_program_that_fails_or_is_not_there_is_an_error():
    with pytest.raises(HookError, match=r"failed \(exit code 3\)"):
        deliver(program("import sys; sys.exit(3)"), {})
    with pytest.raises(HookError, match=r"could not be started \(No such file or directory\)"):
        deliver("/nowhere/notify --loud", {})


@pytest.mark.parametrize("text", ["https://?key=1", "http:///path", "'unclosed", "notify\x07"])
def test_a_setting_that_can_be_neither_is_refused_and_none_is_shown(text):
    with pytest.raises(
        SettingsError, match=r"WME_ON_FAILURE is not valid .*; use https://host/path, or a program"
    ) as refused:
        settings_module.read({"WME_ON_FAILURE": text})
    assert text not in str(refused.value)
    read = settings_module.read({"WME_ON_FAILURE": f"https://ops.example.org/{KEY}"})
    assert KEY not in repr(read)
    assert KEY not in read.model_dump_json()


def fail(instance, sentence, **tags):
    """A run of a step that fails as ours do; returns its identifier."""

    @dg.op(name="archive__batches")
    def broken() -> None:
        raise dg.Failure(sentence)

    @dg.job(name="hours")
    def job():
        broken()

    return job.execute_in_process(instance=instance, raise_on_error=False, tags=tags).run_id


def tick(sensor, instance, cursor):
    """One look; returns what came of it and the cursor of the next."""
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        told = sensor.evaluate_tick(context)
    return told, told.cursor


def test_each_failed_run_is_reported_once_with_its_sentence(instance, tmp_path):
    with listening() as (url, seen):
        settings = Settings(data=tmp_path, password=SecretStr(PASSWORD), on_failure=SecretStr(url))
        sensor = report_failures(settings, Prefix())
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        fail(instance, "From before the sensor.")
        _, cursor = tick(sensor, instance, None)
        tags = {
            "dagster/asset_partition_range_start": "2026-11-20-05:00",
            "dagster/asset_partition_range_end": "2026-11-20-07:00",
        }
        run = fail(instance, f"3 of 3 hours failed. {PASSWORD} https://x.example/a?signature=1", **tags)
        told, cursor = tick(sensor, instance, cursor)
        assert [one.error for one in told.dagster_run_reactions] == [None]
        assert tick(sensor, instance, cursor)[0].dagster_run_reactions == []
    [(_, _, body)] = seen
    content = json.loads(body)
    assert content.pop("failed_at").endswith(" UTC")
    assert content == {
        "event": "run_failure",
        "data": str(tmp_path),
        "run_id": run,
        "run_path": f"/runs/{run}",
        "job": "hours",
        "assets": [],
        "first_partition": "2026-11-20-05:00",
        "last_partition": "2026-11-20-07:00",
        "message": "Execution of run for \"hours\" failed. Steps failed: ['archive__batches'].",
        "steps": [
            {"step": "archive__batches", "message": "3 of 3 hours failed. [hidden] https://x.example/a?[hidden]"}
        ],
    }


@pytest.mark.parametrize(
    ("prefix", "tags", "why"),
    [
        ("", {"dagster/will_retry": "true"}, "Dagster will retry "),
        ("", {"dagster/failure_reason": "UNEXPECTED_TERMINATION"}, "the UI or the daemon was stopped"),
        ("encyclopedia", {}, "another part of the project"),
    ],
)
def test_runs_that_are_no_failure_for_good_or_of_another_project_are_left_out(instance, tmp_path, prefix, tags, why):
    with listening() as (url, seen):
        sensor = report_failures(Settings(data=tmp_path, on_failure=SecretStr(url)), Prefix(prefix))
        fail(instance, "From before the sensor.")
        _, cursor = tick(sensor, instance, None)
        instance.add_run_tags(fail(instance, "Any."), tags)
        told, _ = tick(sensor, instance, cursor)
    assert seen == []
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
    second = fail(instance, "Another.")
    told, _ = tick(sensor, instance, cursor)
    assert [one.error for one in told.dagster_run_reactions] == [None]
    assert json.loads(target.read_text())["run_id"] == second


def test_without_a_setting_the_sensor_is_off_and_says_so(instance, tmp_path):
    sensor = report_failures(Settings(data=tmp_path), Prefix())
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    _, cursor = tick(sensor, instance, None)
    fail(instance, "Any.")
    assert tick(sensor, instance, cursor)[0].skip_message == "WME_ON_FAILURE is not set."
