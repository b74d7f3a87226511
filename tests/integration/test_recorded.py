"""Every answer of the published file of a mirror that has everything.

The answers equal the recorded ones, also after the folder is rebuilt from its lake, or restored from a backup that was
taken after a compaction and in the middle of loads.
"""

import json
from functools import partial
from pathlib import Path

import pytest

from pipelines.operations import backup as operations
from pipelines.operations import restore as restoring
from pipelines.operations.rebuild import rebuild
from resources import backup as backups
from resources.engine import line_reporter
from resources.warehouse import Warehouse
from tests.integration.recorded import NOW, digests, recorded

#: A rebuild notes how it came to its rows, and loads hours again that were compacted.
LEDGER = {f'FROM "main"."{name}"' for name in ("hours", "loads", "compacted_files")}
RECORDED = Path(__file__).with_name("recorded.json")


@pytest.mark.soak  # for changes that are to change no answer; each part of it has a test of its own
def test_answers_are_those_that_were_recorded(tmp_path):
    expected = json.loads(RECORDED.read_bytes())
    with recorded(tmp_path) as mirror:
        assert digests(mirror.data) == expected
        mirror.warehouse.build_path.unlink()
        assert rebuild(mirror.settings, **mirror.resources()).failures == []
        found = digests(mirror.data)
        assert {query for query in expected if found[query] != expected[query]} <= LEDGER


QUIET = line_reporter(lambda _: None)


def test_what_was_backed_up_after_a_compaction_and_during_loads_answers_alike(tmp_path, monkeypatch):
    for module in (operations, restoring):
        monkeypatch.setattr(module, "Warehouse", partial(Warehouse, clock=lambda: NOW))
    to, taken = tmp_path / "backups", []

    def take():
        made = operations.take(tmp_path / "data", to, QUIET, keep=3)
        assert made.problems == ()
        taken.append(made.backup.path)

    with recorded(tmp_path, projects=("enwiki",), amid=take) as mirror:
        known = digests(mirror.data)
        take()
    assert len(taken) > 6
    assert [one.path for one in backups.completed(to)] == taken[-3:]
    assert (restoring.restore(to, tmp_path / "restored", QUIET).damaged, digests(tmp_path / "restored")) == ([], known)
    # what would be alike if it was not there
    empty = {query for query, told in known.items() if told.startswith("0 ")}
    asked = ("articles", "article_bodies", "compacted_files", "entities", "entity_bodies", "sections", "stream_state")
    assert not empty & {f'FROM "main"."{name}"' for name in asked}
