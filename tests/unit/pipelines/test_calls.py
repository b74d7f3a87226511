"""What commands ask the service for and print of its answers, as `calls.txt` has it."""

import re
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from pipelines import cli
from pipelines.operations import run as runs
from resources import connection
from resources.datasets import Dataset
from resources.enterprise import Listing, models
from resources.formatting import hour_text
from tests.unit.assets.conftest import listed
from tests.unit.warehouse.conftest import START

_, *CALLS = Path(__file__).with_name("calls.txt").read_text().rstrip().split("\n\n$ ")
#: Of most calls: an account without WME_PROJECTS.
UNSCOPED = {"WME_USERNAME": "anna", "WME_PASSWORD": "x"}
OF_EACH = {"version": "b" * 32, "date_modified": START, "size": {"value": 2000}, "url": None}
PLACES = (("enwiki", 2), ("enwiki", 14), ("wikidatawiki", 0))
FILES = [models.Snapshot.model_validate(listed(*place, **OF_EACH)) for place in PLACES]
ENTRIES = [models.Record.model_validate(one) for one in ({"a": 1.5}, {"b": ["é"], "a": None})]
LISTED = Listing('[{"a":1.50, "b": null},\n{"c": "é"}]\n'.encode(), ENTRIES, "", START)


def told(one):
    return one.name if isinstance(one, Dataset) else hour_text(one) if isinstance(one, datetime) else repr(one)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.partition("\n")[0])
def test_a_command_asks_for_what_its_words_say(tmp_path, monkeypatch, call):
    line, *wanted = call.splitlines()
    client, before = Mock(), Mock()
    before.client.return_value, before.newest_hours.return_value = nullcontext(client), [START]
    for owner, name in ((connection, "client"), (connection, "check_names"), (runs, "newest_hours")):
        monkeypatch.setattr(owner, name, getattr(before, name))
    client.lists.record.return_value, client.hours.record.return_value = ENTRIES[1], FILES[0]
    client.hours.listing.return_value, client.snapshots.listing.return_value = Mock(records=FILES), FILES[::-1]
    for of in (client.lists.records, client.lookups.articles, client.lookups.structured, client.lookups.entity):
        of.return_value = LISTED
    environ, words = line.split("wme ")
    given = dict(one.split("=") for one in environ.split()) or UNSCOPED
    done = CliRunner(env=given | {"WME_DATA": str(tmp_path)}).invoke(cli.wme, words.split())
    # without the settings, clients and folders with which those functions begin
    of_words = int | tuple | Dataset
    calls = [(name, [one for one in own if isinstance(one, of_words)], more) for name, own, more in before.mock_calls]
    seen = []
    for name, own, more in (*calls, *client.mock_calls):
        seen.append(f"{name}({', '.join([*map(told, own), *(f'{key}={told(value)}' for key, value in more.items())])})")
    assert seen + [re.sub(" +", " ", one).strip() for one in done.output.splitlines()] == wanted
