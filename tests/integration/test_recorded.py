"""Every answer of the published file equals the recorded one.

The folder is queried as it was filled, and rebuilt from its lake.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.operations.rebuild import rebuild
from tests.integration.recorded import digests, recorded

#: A rebuild notes how it came to its rows, and loads hours again that were compacted.
LEDGER = {f'FROM "main"."{name}"' for name in ("hours", "loads", "compacted_files")}
RECORDED = Path(__file__).with_name("recorded.json")


@pytest.mark.soak  # for changes that are to change no answer; each part of it has a test of its own
def test_answers_are_those_that_were_recorded(tmp_path, monkeypatch):
    expected = json.loads(RECORDED.read_bytes())
    with recorded(tmp_path, monkeypatch) as mirror:
        assert digests(mirror.data) == expected
        mirror.warehouse.build_path.unlink()
        assert rebuild(mirror.settings, **mirror.resources()).failures == []
        found = digests(mirror.data)
        assert {query for query in expected if found[query] != expected[query]} <= LEDGER
