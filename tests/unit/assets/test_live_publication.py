"""A live publication in a process of its own does what it does in this one, and whatever ends it is a sentence."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from assets.steps import live_publication
from assets.steps.live_publication import PublicationProcessError, publish_live, publisher
from resources.datasets import ARTICLE_CHANGES
from resources.datasets.live import LIVE_CHANGES
from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.warehouse import Warehouse
from tests.builds import lay


@pytest.fixture
def data(tmp_path):
    return lay(tmp_path / "data")


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """A program in the place of Python."""

    def put(text: str) -> None:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return put


def test_what_keeps_events_from_analysts_comes_back_from_the_process(data):
    publish = publisher(data, wait_seconds=1)
    assert publish() == publish_live(Warehouse(data))
    assert "once there is a published file" in publish()
    Warehouse(data).publish()
    # no stream was ever kept here
    assert publish() == publish_live(Warehouse(data))


def test_a_warehouse_that_is_busy_is_no_failure(data):
    now = datetime.now(UTC)
    LiveLake(Layout(data), LIVE_CHANGES, ARTICLE_CHANGES.table).begin(now, now)
    warehouse = Warehouse(data)
    warehouse.publish()
    publish = publisher(data, wait_seconds=0)
    with warehouse.writing("load for long"):
        assert "this one could not write what the stream has. Nothing was changed." in publish()
    assert publish() is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kill -9 $$", r"was ended by signal 9 \(Killed\)\. No event was lost"),
        ("echo one >&2; echo 'KeyError: two' >&2; exit 3", r"ended with 3 \(KeyError: two\)\. No event was lost"),
        ("exit 3", "ended with 3. No event was lost"),
    ],
)
def test_a_process_that_ends_otherwise_is_a_sentence(data, instead, text, told):
    instead(text)
    with pytest.raises(PublicationProcessError, match=told):
        publisher(data, wait_seconds=1)()


def test_what_the_process_warns_of_is_told(data, instead, caplog):
    instead("echo 'A file is damaged.' >&2; printf 'Wait for it.'")
    assert publisher(data, wait_seconds=1)() == "Wait for it."
    assert caplog.messages == ["A file is damaged."]


def test_a_process_that_never_ends_is_killed(data, instead, monkeypatch):
    instead("exec tail -f /dev/null")
    monkeypatch.setattr(live_publication, "_LIMIT_SECONDS", 0.2)
    started = []
    monkeypatch.setattr(subprocess, "Popen", _noting(subprocess.Popen, started))
    with pytest.raises(PublicationProcessError, match=r"did not end within 0 s and was killed\. No event was lost"):
        publisher(data, wait_seconds=1)()
    [process] = started
    assert process.returncode == -9


def test_a_process_that_cannot_be_started_is_a_sentence(data, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(data / "none"))
    with pytest.raises(PublicationProcessError, match=r"could not be started .*No such file"):
        publisher(data, wait_seconds=1)()


def _noting(real, started):
    class Noted(real):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    return Noted
