"""`make test-live` as its user runs it, with a sandbox as if it were the real service."""

import os
import re
import sys
from datetime import UTC, datetime

from resources.sandbox import Settings, running
from tests.e2e.conftest import ran

PASSWORD = "Never-Printed-4711"


def run(**variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environ |= {"NO_PROXY": "127.0.0.1,localhost"} | variables
    return ran(sys.executable, "-m", "tests.contract", environ=environ)


def test_without_an_account_it_says_what_to_set():
    run().fails("Set WME_USERNAME and WME_PASSWORD", code=2, out="")


def test_what_a_service_does_otherwise_is_reported_and_no_download_is_spent(tmp_path):
    """A free account whose quota is not that of its group."""
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 5, "body_bytes": 300, "entities": 10}
    now = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
    with running(Settings(state=tmp_path, now=now, chunk_bytes=400_000, **small)) as sandbox:
        sandbox.accounts.create("reader", PASSWORD, groups=("group_1",))
        sandbox.accounts.set_quota("reader", "chunk", limit=15)
        urls = dict.fromkeys(("WME_AUTH_URL", "WME_BASE_URL"), sandbox.url)
        answer = run(WME_USERNAME="reader", WME_PASSWORD=PASSWORD, **urls)
        requests = [(request.method, request.path) for request in sandbox.requests]
    assert answer.code == 1, answer.out + answer.err
    verdicts = {name: verdict for verdict, name in re.findall(r"(?m)^(confirmed|refuted) +([^:\n]*)", answer.out)}
    assert verdicts, answer.out + answer.err
    refuted = {name for name, verdict in verdicts.items() if verdict == "refuted"}
    assert refuted == {"free-quotas"}
    assert {"nested-fields", "paid-batches", "exponents", "utc-dates"} <= verdicts.keys() - refuted
    assert f"{len(verdicts) - 1} confirmed, 1 refuted" in answer.out
    assert "It takes a download" in answer.out
    assert PASSWORD not in answer.out + answer.err
    assert ("HEAD", "/v2/snapshots/enwiki_namespace_0/download") in requests
    assert not [path for method, path in requests if method == "GET" and path.endswith("/download")]
    assert len([path for _, path in requests if path.startswith(("/v2/articles/", "/v2/wikidata/"))]) < 20
