"""The asset over some hours: one fails alone, some errors end all, and nothing is told of what was not made."""

import os
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import dagster as dg
import pytest

from assets import layers
from assets.hourly import hourly_assets
from assets.layers import HOURS, hour_of, key_of
from assets.steps import hour as batches
from resources import datasets
from resources.adapters import ConfiguredEngine
from resources.enterprise import Hours, Lists, errors
from resources.settings import Settings
from tests.unit.assets.conftest import NEXT, record
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.loopback import json_reply

ARCHIVE, LAKE, WAREHOUSE = ALL = list(layers.keys(datasets.ARTICLE_CHANGES))
CHANGES = hourly_assets(datasets.ARTICLE_CHANGES, HOURS)
BEFORE = HOUR - timedelta(hours=1)


def told_of(events):
    """What Dagster's history has of a run: hours by layer, sentences by layer and hour, the failure, passed checks."""
    told = SimpleNamespace(made={key: [] for key in ALL}, noted={}, failure=None, passed=set())
    for event in events:
        if event.is_step_materialization:
            told.made[event.asset_key].append(hour_of(event.partition))
        elif event.event_type == dg.DagsterEventType.ASSET_OBSERVATION:
            seen = event.asset_observation_data.asset_observation
            told.noted[seen.asset_key, hour_of(seen.partition)] = seen.description
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            checked = event.asset_check_evaluation_data
            told.passed |= {checked.check_name} if checked.passed else set()
        elif event.is_step_failure and event.step_failure_data.user_failure_data is not None:
            told.failure = event.step_failure_data.user_failure_data.description
    return told


@pytest.fixture
def materialize(bench, instance):
    """`materialize(hours, *projects)`: one run over consecutive hours, in this process."""

    def run(hours, *projects):
        first, last = key_of(hours[0]), key_of(hours[-1])
        own = bench.resources(*projects) | {"engine": ConfiguredEngine(Settings(workers=2, threads=1))}
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        result = dg.materialize([CHANGES], instance=instance, resources=own, tags=tags, raise_on_error=False)
        # of the history, because a result lacks what is logged right before a failure
        return told_of(one.dagster_event for one in instance.all_logs(result.run_id) if one.dagster_event is not None)

    return run


def test_an_odd_record_of_the_list_fails_its_own_project_alone(bench, materialize):
    bench.serve("enwiki", 1)
    bench.serve("frwiki", 1)
    odd = bench.fake.records["frwiki_namespace_0"]["size"]
    odd["value"] = -1
    bench.serve_next()
    told = materialize([HOUR, NEXT], "enwiki", "frwiki", "itwiki")
    # what is red is asked for again; enwiki is loaded all the same, and frwiki is not taken for quiet
    assert told.made == {key: [NEXT] for key in ALL}
    assert re.search(r"2026-11-01 05:00.*frwiki namespace 0 \(frwiki_namespace_0: size\.value: ", told.failure)
    assert not re.search("enwiki|itwiki", told.failure)
    assert set(told.noted) == {(key, HOUR) for key in ALL}
    states = {"enwiki": "loaded", "frwiki": "missing", "itwiki": "absent"}
    found = {(HOUR, project, 0): state for project, state in states.items()}
    assert bench.states() == found | {(NEXT, project, 0): "absent" for project in states}
    # without the service it is the same
    scope = odd_place, absent = ("frwiki", 0), ("itwiki", 0)
    plan = batches.archived_hour(HOUR, bench.layout, scope, datasets.ARTICLE_CHANGES).plan
    assert (plan.odd.keys(), plan.absent) == ({odd_place}, (absent,))
    # a mirror without that project is not concerned, and says what it saw
    assert materialize([HOUR], "enwiki", "itwiki").failure is None
    odd["value"] = 0.001
    assert materialize([HOUR], "enwiki", "frwiki", "itwiki").failure is None
    assert bench.states()[HOUR, "frwiki", 0] == "loaded"


def test_an_archive_of_another_project_is_not_loaded_and_an_odd_record_may_be_of_each_not_named(bench, materialize):
    bench.serve("enwiki", 1)
    bench.serve("frwiki", record(1, "dewiki"), record(2, "dewiki"))
    bench.fake.records["?"] = {"version": "7"}
    bench.serve("eswiki", 1)
    bench.fake.records["e"] = bench.fake.records["eswiki_namespace_0"] | {"identifier": "e"}
    told = materialize([HOUR], "enwiki", "eswiki", "frwiki", "itwiki").failure
    assert "eswiki namespace 0 (e: the list has another file for the same project and namespace)" in told
    assert "It contains only records from other projects or namespaces, and none from frwiki namespace 0" in told
    assert "itwiki namespace 0 (record 3: identifier: Field required, and 3 more)" in told
    states = {"enwiki": "loaded", "eswiki": "missing", "frwiki": "missing", "itwiki": "missing"}
    assert bench.states() == {(HOUR, project, 0): state for project, state in states.items()}


@pytest.mark.parametrize("kind", [errors.AuthenticationError, errors.DiskFull], ids=lambda kind: kind.__name__)
def test_a_loaded_hour_is_not_counted_as_failed_by_an_error_that_ends_the_run(bench, materialize, monkeypatch, kind):
    """It needs no download, and the table of `wme run` shows it as loaded."""
    bench.serve("enwiki", 1)
    assert materialize([HOUR]).failure is None
    bench.fake.script("/v2/batches/2026-11-01/04", json_reply(list(bench.fake.records.values())))
    for client, call in ((Hours, "download"), (Lists, "land")):
        monkeypatch.setattr(client, call, Mock(side_effect=kind("Refused.")))
    told = materialize([BEFORE, HOUR])
    assert told.failure == "1 of 2 hours failed. The other hour is loaded.\n- 2026-11-01 04:00: Refused."
    assert told.made == {key: [HOUR] for key in ALL}
    assert bench.states() == {(BEFORE, "enwiki", 0): "missing", (HOUR, "enwiki", 0): "loaded"}


def test_layers_that_were_made_before_the_hour_failed_are_told_as_made(bench, materialize):
    bench.serve("enwiki", 1)
    bench.serve_next()
    # in the way of the file of rows, behind the archive
    (bench.data / "lake").write_text("in the way")
    told = materialize([HOUR, NEXT])
    assert told.made == {ARCHIVE: [HOUR, NEXT], LAKE: [NEXT], WAREHOUSE: [NEXT]}
    assert set(told.noted) == {(LAKE, HOUR), (WAREHOUSE, HOUR)}
    assert "could not be written" in str(told.noted[LAKE, HOUR])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to write to")
def test_a_disk_that_fills_up_while_an_hour_is_converted_ends_the_run(bench, materialize, monkeypatch):
    def full(path, flags, mode=0o777):
        return opened("/dev/full", os.O_RDWR) if str(path).endswith(".unfinished") else opened(path, flags, mode)

    bench.serve("enwiki", 1)
    bench.serve_next()
    opened = os.open
    with monkeypatch.context() as patch:
        patch.setattr("resources.lake.parquet.writer.os.open", full)
        told = materialize([HOUR, NEXT])
    assert told.made == {ARCHIVE: [HOUR], LAKE: [], WAREHOUSE: []}
    assert set(told.noted) == {(LAKE, HOUR), (WAREHOUSE, HOUR), *((key, NEXT) for key in ALL)}
    assert {str(text).split(":")[0] for text in told.noted.values()} == {"The disk is full"}
    assert told.failure.startswith("2 of 2 hours failed. Data loaded earlier is kept.\n")
    assert set(bench.states().values()) == {"missing"}

    bench.serve_next()
    assert materialize([HOUR, NEXT]).failure is None
    assert bench.states() == {(HOUR, "enwiki", 0): "loaded", (NEXT, "enwiki", 0): "absent"}


def test_what_meets_every_hour_is_told_of_every_hour_and_asked_once(bench, materialize):
    bench.fake.password = "another"
    told = materialize([HOUR, NEXT])
    assert told.made == {key: [] for key in ALL}
    assert set(told.noted) == {(key, hour) for key in ALL for hour in (HOUR, NEXT)}
    assert (len(bench.fake.api.seen("/v1/login")), len(bench.states())) == (1, 2)


def test_an_hour_alone_in_its_run_is_told_once_in_each_layer(bench, materialize):
    bench.serve("enwiki", 1)
    left = bench.data / "lake" / "article_changes" / "date=2026-11-01" / "x.parquet.1-a.unfinished"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    told = materialize([HOUR])
    assert (told.failure, told.noted, told.made) == (None, {}, {key: [HOUR] for key in ALL})
    assert told.passed == {spec.name for spec in CHANGES.check_specs}
    assert not left.exists(), "what a killed run left is removed first"
