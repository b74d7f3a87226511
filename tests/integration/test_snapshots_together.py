"""Several snapshots from the sandbox, one after another: what stops all of them, and what is looked at again."""

from unittest.mock import Mock

import pytest

from pipelines.operations import snapshots
from resources.datasets import SNAPSHOT_ARTICLES
from resources.engine import line_reporter
from resources.enterprise import FetchOptions
from resources.settings import Settings
from tests.integration.mirror import PROJECTS

NAMES = [f"{project}_namespace_0" for project in PROJECTS]


@pytest.fixture
def together(client, tmp_path):
    settings = Settings(data=tmp_path / "data", projects=PROJECTS)
    return snapshots.plan(client, settings, NAMES, FetchOptions(whole=True), SNAPSHOT_ARTICLES)


def fetch(client, together):
    return snapshots.download(client, together, reporter=line_reporter(lambda _: None))


def test_files_of_a_snapshot_are_fetched_by_the_number_of_workers(client, together, monkeypatch):
    monkeypatch.setattr(client.snapshots, "download", download := Mock(wraps=client.snapshots.download))
    snapshots.download(client, together, workers=3, reporter=line_reporter(lambda _: None))
    assert [one.kwargs["workers"] for one in download.call_args_list] == [3, 3]


def test_a_snapshot_that_was_replaced_while_another_was_fetched_is_planned_again(client, sandbox, together):
    before = together[1].snapshot.version
    sandbox.exports.export(NAMES[1])
    report = fetch(client, together)
    assert (report.failures, report.not_begun, [plan.identifier for plan, _ in report.done]) == ((), (), NAMES)
    again = report.done[1][0]
    assert (again.snapshot.version != before, again.options) == (True, together[1].options)


@pytest.mark.parametrize(("status", "begun"), [(403, []), (404, NAMES[1:])], ids=["of all", "of one"])
def test_what_each_snapshot_would_meet_ends_it_and_what_one_meets_does_not(client, sandbox, together, status, begun):
    sandbox.faults.add(path=f"/v2/snapshots/{NAMES[0]}/download", kind="status", status=status)
    report = fetch(client, together)
    assert ([name for name, _ in report.failures], [plan.identifier for plan, _ in report.done]) == (NAMES[:1], begun)
    assert report.not_begun == tuple(name for name in NAMES[1:] if name not in begun)
    assert any(NAMES[1] in seen.path and seen.path.endswith("/download") for seen in sandbox.requests) == bool(begun)
