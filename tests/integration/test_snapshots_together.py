"""Several snapshots from the sandbox, one after another: what stops all of them, and what is looked at again."""

from __future__ import annotations

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
    """Plans for two snapshots."""
    settings = Settings(data=tmp_path / "data", projects=PROJECTS)
    return snapshots.plan(client, settings, NAMES, FetchOptions(whole=True), SNAPSHOT_ARTICLES)


@pytest.fixture
def sandbox(sandbox):
    yield sandbox
    sandbox.exports.clear()


def fetch(client, together):
    return snapshots.download(client, together, reporter=line_reporter(lambda _: None))


def test_a_snapshot_that_was_replaced_while_another_was_fetched_is_planned_again(client, sandbox, together):
    before = together[1].snapshot.version
    sandbox.exports.export(NAMES[1])
    report = fetch(client, together)
    assert (report.failures, report.not_begun) == ((), ())
    assert [plan.identifier for plan, _ in report.done] == NAMES
    assert report.done[1][0].snapshot.version != before


def test_what_every_other_snapshot_would_meet_ends_it(client, sandbox, together):
    sandbox.faults.add(path=f"/v2/snapshots/{NAMES[0]}/download", kind="status", status=403)
    report = fetch(client, together)
    assert ([name for name, _ in report.failures], report.not_begun, report.done) == (NAMES[:1], tuple(NAMES[1:]), ())
    assert not any(NAMES[1] in seen.path and seen.path.endswith("/download") for seen in sandbox.requests)


def test_what_one_snapshot_meets_alone_costs_no_other(client, sandbox, together):
    sandbox.faults.add(path=f"/v2/snapshots/{NAMES[0]}/download", kind="status", status=404)
    report = fetch(client, together)
    assert ([name for name, _ in report.failures], report.not_begun) == (NAMES[:1], ())
    assert [plan.identifier for plan, _ in report.done] == NAMES[1:]
