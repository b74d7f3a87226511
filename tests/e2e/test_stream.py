"""`wme stream` as its user runs it; `test_stream_soak.py` kills it and cuts it off."""

import signal
from datetime import timedelta

import pyarrow.dataset as ds
import pytest

from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.sandbox import Settings, running
from resources.tables import ARTICLE_CHANGES
from tests.e2e.conftest import PATIENCE_SECONDS, Account


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    state = tmp_path_factory.mktemp("sandbox")
    small = {"changes_per_hour": 150, "body_bytes": 300, "entities": 0, "stream_rate": 150}
    with running(Settings(state=state, projects=("enwiki", "frwiki"), namespaces=(0, 14), **small)) as sandbox:
        sandbox.accounts.create("listener", "Passw0rd-listener", groups=["group_3"])
        yield Account(sandbox, "listener", "Passw0rd-listener")


def test_one_process_keeps_a_stream_and_it_ends_when_it_shall(forked, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="frwiki", WME_NAMESPACES="0,14")
    first = forked("stream", "--since", "1", "--every", "0.1", environ=environ)
    assert " stored" in first.stdout.readline()
    second = forked("stream", environ=environ)
    _, said = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 1
    assert said.strip().endswith("Nothing was changed. To read the stream here, end the other process first.")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE_SECONDS)
    third = forked("stream", "--for", "0.5", environ=environ)
    told, _ = third.communicate(timeout=PATIENCE_SECONDS)
    assert third.returncode == 0
    assert told.splitlines()[-1].endswith("The next run resumes at the next event.")
    # of the service's projects, those that are mirrored
    files = LiveLake(Layout(tmp_path), "live_changes", ARTICLE_CHANGES).files()
    rows = ds.dataset([str(path) for path in files]).to_table(columns=["project_id"])
    assert set(rows["project_id"].to_pylist()) == {"frwiki"}


def test_a_stream_that_was_not_read_for_two_days_says_what_may_be_missing(call, account, tmp_path):
    environ = account.environ(tmp_path, WME_PROJECTS="frwiki", WME_NAMESPACES="0")
    now = account.sandbox.clock.now()
    LiveLake(Layout(tmp_path), "live_changes", ARTICLE_CHANGES).begin(now - timedelta(hours=49), now)
    told = call("stream", "--for", "0.1", environ=environ).done()
    assert "and the service no longer retains the next events" in told.err
