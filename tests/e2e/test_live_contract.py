"""`make test-live` as its user runs it, with a sandbox as if it were the real service."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from resources.sandbox import Settings, running

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "Never-Printed-4711"


def run(**variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return subprocess.run(
        [sys.executable, "-m", "tests.contract"],
        cwd=ROOT,
        env=environment | {"NO_PROXY": "127.0.0.1,localhost"} | variables,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_without_an_account_it_says_what_to_set():
    answer = run()
    assert answer.returncode == 2
    assert "Set WME_USERNAME and WME_PASSWORD" in answer.stderr
    assert answer.stdout == ""


def test_what_a_service_does_otherwise_is_reported_and_no_download_is_spent(tmp_path):
    """A free account whose quota is not that of its group."""
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 5, "body_bytes": 300, "entities": 10}
    now = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
    with running(Settings(state=tmp_path, now=now, chunk_bytes=400_000, **small)) as sandbox:
        sandbox.accounts.create("reader", PASSWORD, groups=("group_1",))
        sandbox.accounts.set_quota("reader", "chunk", limit=15)
        answer = run(
            WME_USERNAME="reader", WME_PASSWORD=PASSWORD, WME_AUTH_URL=sandbox.url, WME_BASE_URL=sandbox.url
        )  # fmt: skip
        requests = [(request.method, request.path) for request in sandbox.requests]
    assert answer.returncode == 1, answer.stdout + answer.stderr
    verdicts = {
        line.split(" ", 1)[1].strip().partition(":")[0]: line.split()[0]
        for line in answer.stdout.splitlines()
        if line.startswith(("confirmed ", "refuted "))
    }
    assert verdicts, answer.stdout + answer.stderr
    refuted = {name for name, verdict in verdicts.items() if verdict == "refuted"}
    assert refuted == {"free-quotas"}
    assert {"nested-fields", "paid-batches", "exponents", "utc-dates"} <= verdicts.keys() - refuted
    assert f"{len(verdicts) - 1} confirmed, 1 refuted" in answer.stdout
    assert "It takes a download" in answer.stdout
    assert PASSWORD not in answer.stdout + answer.stderr
    assert ("HEAD", "/v2/snapshots/enwiki_namespace_0/download") in requests
    assert not [path for method, path in requests if method == "GET" and path.endswith("/download")]
    assert len([path for _, path in requests if path.startswith(("/v2/articles/", "/v2/wikidata/"))]) < 20
