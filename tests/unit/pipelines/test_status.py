"""What needs attention, by the files of the mirror alone, and the same figures as metrics."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from pipelines.cli.inspection import metrics as command
from pipelines.report import metrics
from pipelines.report import status as statuses
from resources import files
from resources.datasets import ENTITY_CHANGES
from resources.datasets.live import LIVE_CHANGES, Run
from resources.formatting import hour_text
from resources.lake import Layout, convert
from resources.lake.live import LiveLake
from resources.settings import Settings
from resources.tables import ARTICLE_CHANGES, NO_SNAPSHOT, HourState
from resources.warehouse import HourStatus, Warehouse
from resources.warehouse.database.connect import Connector
from tests.local_cluster import free_port
from tests.unit.lake.conftest import Lake as Archives
from tests.unit.lake.poisoned import event, line_of
from tests.unit.pipelines.conftest import ONE, Mirror


def test_a_mirror_that_is_up_to_date_needs_nothing_and_all_is_said_of_one_publication(whole, monkeypatch):
    status = whole.status(4, hours=5, min_free_gb=0)
    assert (status.troubles, [len(place.cells) for place in status.places]) == ([], [5])
    facts = dict(status.facts)
    assert (facts["articles"], facts["changes"], facts["rejects"]) == ("1", "5", "0")
    assert (status.coverage[0][:3], status.coverage[0][-1]) == (("enwiki", 0, 5), whole.lake.hour(4))
    cells = whole.status(4, hours=2, min_free_gb=0).places[0].cells
    assert [cell.batch_hour for cell in cells] == [whole.lake.hour(3), whole.lake.hour(4)]
    assert re.fullmatch(r"threads: \d+ workers? within 700 MiB", dict(whole.status(4, memory_mb=700).facts)["engine"])
    opened, own = [], Connector._attach_published
    monkeypatch.setattr(Connector, "_attach_published", lambda self, to: opened.append(self) or own(self, to))
    assert (whole.status(4, hours=5, min_free_gb=0).troubles, len(opened)) == ([], 1)


@pytest.mark.parametrize(("late", "told"), [(3, None), (4, 4), (90, 90)])
def test_a_mirror_that_is_behind_says_by_how_many_hours(whole, late, told):
    troubles = [text for text in whole.status(4 + late, min_free_gb=0).troubles if "hours behind" in text]
    if told is None:
        assert troubles == []
    else:
        (text,) = troubles
        assert f"the newest hour is 2026-11-01 04:00, {told} hours behind." in text
        assert f"`wme run --hours {min(told, 48)}`" in text  # the service keeps no more


def test_a_project_without_a_snapshot_is_neither_exact_nor_healthy(tmp_path):
    mirror = Mirror(tmp_path / "data", has_snapshots=False)
    mirror.load(0)
    mirror.publish()
    status = mirror.status(0, hours=1, min_free_gb=0)
    assert (status.troubles, status.coverage[0][:3]) == ([f"enwiki namespace 0: {NO_SNAPSHOT}."], ("enwiki", 0, 1))
    assert status.coverage[0][-3:-1] == (None, None)
    (place,) = statuses.as_json(status)["coverage"]
    assert (place["has_snapshot"], place["exact_from_at"], place["exact_until_at"]) == (False, None, None)
    text = metrics.text(status, mirror.lake.hour(1))
    assert b'wme_snapshot_loaded{dataset="article_changes",namespace="0",project="enwiki"} 0.0' in text
    assert b"wme_attention 1.0" in text
    assert b"0 means no snapshot: only changed pages are known. `wme run --snapshots` fetches it" in text


def test_what_is_not_mirrored_is_no_trouble(mirror):
    mirror.load(0)
    why = (HourState.MISSING, "The service answered 403.")
    lost = [HourStatus(mirror.lake.hour(hour), "wikidatawiki", 0, *why) for hour in (0, 1)]
    mirror.warehouse.record_statuses(lost, ENTITY_CHANGES)
    mirror.publish()
    status = mirror.status(0, min_free_gb=0)
    assert (status.troubles, [place.project_id for place in status.places]) == ([], ["enwiki"])
    # as soon as it is mirrored it is looked at
    troubles = mirror.status(0, min_free_gb=0, wikidata=True).troubles
    entities = [f"entity_changes wikidatawiki namespace {number}" for number in (0, 120)]
    assert [text.partition(":")[0] for text in troubles[:2]] == entities
    assert "entity_changes wikidatawiki namespace 0, wikidatawiki namespace 120: no snapshot: only" in troubles[2]


def test_a_disk_below_the_floor_is_told(whole, monkeypatch):
    usage = shutil.disk_usage(whole.data)
    for free, wrong in ((2_000_000_000, False), (1_999_999_999, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        troubles = whole.status(4, min_free_gb=2).troubles
        assert any("but runs require 2 GB of free space" in text for text in troubles) is wrong


def test_lake_files_that_are_gone_are_told_until_they_are_made_again(mirror):
    mirror.load_all(range(2))
    away = mirror.files[0, "enwiki"].path
    kept = away.rename(away.with_suffix(".away"))
    mirror.publish()
    (text,) = mirror.status(1, min_free_gb=0).troubles
    assert text.startswith("1 lake file missing or damaged: ")
    assert f"{away.name} is gone." in text
    kept.rename(away)
    (text,) = mirror.status(1, min_free_gb=0).troubles
    assert text.startswith("1 lake file missing from the published file is available again.")
    mirror.publish()
    assert mirror.status(1, min_free_gb=0).troubles == []
    was = mirror.data / "lake"
    mirror.data = mirror.data.rename(mirror.data.with_name("moved"))
    (text,) = mirror.status(1, min_free_gb=0).troubles
    assert text.startswith(f"The published file refers to lake files in {was}, but the lake is in {mirror.data}/lake. ")
    assert (Warehouse(mirror.data).relocate(), mirror.status(1, min_free_gb=0).troubles) == (3, [])


def test_loaded_files_that_no_article_knows_are_told(mirror, monkeypatch):
    mirror.load(0)
    mirror.publish()
    mirror.load(1)
    # as an older version published
    monkeypatch.setattr("resources.warehouse.state.articles.apply_changes", lambda *_: None)
    mirror.warehouse.publish()
    told = "1 loaded file has not been applied to `articles`. Run `wme run` to apply all loaded files."
    assert told in mirror.status(1, min_free_gb=0).troubles


def test_scheduler_that_does_not_answer_needs_attention_and_hides_nothing(whole, monkeypatch):
    monkeypatch.setattr(statuses, "_PATIENCE", 0.3)
    status = whole.status(4, hours=5, min_free_gb=0, engine=f"dask://127.0.0.1:{free_port()}")
    assert dict(status.facts)["engine"].endswith("(unreachable)")
    told = f"No scheduler responded at {dict(status.facts)['engine'].split()[0]} within 0.3 s"
    assert [trouble.partition(" (")[0] for trouble in status.troubles] == [told]
    assert [len(place.cells) for place in status.places] == [5]


def test_how_far_the_stream_is_kept(mirror):
    mirror.publish()
    assert statuses.as_json(mirror.status(4))["stream"] is None
    began_at = mirror.lake.hour(4)
    lake = LiveLake(Layout(mirror.data), LIVE_CHANGES, ARTICLE_CHANGES, scope=[("enwiki", 0)])
    before = Run(began_at - ONE, began_at, 70, 80, 90)
    assert lake.add([line_of(event(8, 0, "d", began_at)) + b"\n"], began_at, run=before) is not None
    run = Run(began_at, began_at + timedelta(seconds=100), 10, 3, 4, reject_count=1, reset_count=2)
    newest = mirror.lake.hour(5) - timedelta(seconds=5)
    older = newest - timedelta(minutes=1)
    # of partition 9, nothing is mirrored
    other = event(9, 5, "g", older, is_part_of={"identifier": "dewiki"})
    events = event(7, 41, "e", newest), event(8, 1, "f", older), other
    lake.add([line_of(one) + b"\n" for one in events], newest, run=run)
    with files.held(mirror.data / "state" / "stream.lock", wait_seconds=0):
        running = mirror.status(4)
    assert dict(running.facts)["stream"] == (
        "running, 5 s behind, 3 partitions; this run: 2 events, 0.0 a second, 3 reconnects, 0 duplicates dropped, "
        "rejected 1 record, 4 events longer than WME_MAX_RECORD_MB, offsets reset 2 times"
    )
    found = json.loads(json.dumps(statuses.as_json(running)))["stream"]
    assert (found["is_running"], found["lag_seconds"], found["events_per_second"]) == (True, 5.0, 0.02)
    parts, late = {name: (*one.values(),) for name, one in found["partitions"].items()}, older.isoformat()
    assert parts == {"7": (42, 1, newest.isoformat()), "8": (2, 2, late), "9": (6, 0, late)}
    assert (found["newest_published_at"], found["kept_until"]) == (newest.isoformat(), newest.isoformat())
    assert (found["run"]["reconnect_count"], found["run"]["connection_count"]) == (3, 10)
    # an event may be newer than this machine's clock: no lag is below zero
    assert statuses.as_json(mirror.status(3))["stream"]["lag_seconds"] == 0
    for hours, beginning in (
        (0.16, None),
        (0.17, "The stream has not been read since 2026-11-01 04:59:55 UTC. The service retains its events until "),
        (50, "The stream was last read at 2026-11-01 04:59:55 UTC, and the service no longer"),
    ):
        report, told = mirror.status(4 + hours), "not running; last event 2026-11-01 04:59:55 UTC; last run: 2 events"
        assert dict(report.facts)["stream"].startswith(told)
        told = [trouble for trouble in report.troubles if "the stream" in trouble.lower()]
        assert [one.startswith(beginning or "") for one in told] == ([] if beginning is None else [True])
        assert ("until 2026-11-03 04:59:55 UTC. Run" in "".join(told)) == (hours == 0.17)
        assert not report.stream["is_running"]
    # the view of the published file neither
    ahead = datetime.now(UTC) + timedelta(days=9)
    assert lake.add([line_of(event(7, 42, "e", ahead)) + b"\n"], ahead, run=Run(ahead, ahead, 1)) is not None
    mirror.publish()
    assert mirror.warehouse.sql("SELECT lag_seconds FROM stream_state WHERE partition = 7").rows == [(0.0,)]
    rates = "SELECT event_count / events_per_second FROM stream_runs ORDER BY began_at"
    assert mirror.warehouse.sql(rates).rows == [(3600.0,), (100.0,), (None,)]


def test_unknown_fields_are_kept_counted_and_told(mirror, monkeypatch):
    lake = Archives(Layout(mirror.data))
    grown = {
        "mood": "calm\x9b31m" * 100, "\x1b[31m": 1, "version": {"identifier": 1, "scores": {"novelty": {"high": 0.5}}},
        **{f"z{number}": number for number in range(3)},
        "categories": [{"name": "A", "url": "u", "rank": 2}, {"name": "B", "url": "u", "rank": 3}],
    }  # fmt: skip
    # files are found by the settings that they were converted with
    how, own = {"record_bytes_max": 17 << 20, "bodies": frozenset({"html"})}, {"max_record_mb": 17, "bodies": ("html",)}
    file = lake.convert(*(lake.record(page, **grown) for page in range(3)), **how)
    french = lake.lines(lake.record(is_part_of={"identifier": "frwiki"}))
    other = convert(lake.archive(french, identifier="frwiki_namespace_0"), lake.layout, **how)
    mirror.warehouse.load_hour(file.batch_hour, [file, other])
    for number, field in ((1, "newer"), (2, "newer"), (-1, "older")):
        beside = replace(lake, hour=file.batch_hour + number * ONE)
        made = beside.convert(beside.record(9, **{field: number}), **how)
        mirror.warehouse.load_hour(made.batch_hour, [made])
    mirror.publish()
    query = "SELECT DISTINCT extra FROM article_changes WHERE contains(extra, 'novelty')"
    ((extra,),) = mirror.warehouse.sql(query).rows
    assert json.loads(extra)["version"] == {"scores": {"novelty": {"high": 0.5}}}
    assert [category["rank"] for category in json.loads(extra)["categories"]] == [2, 3]
    line = dict(mirror.status(5, **own).facts)["unknown fields"]
    assert "categories[].rank (6 times, for example 2);" in line
    assert "version.scores.novelty (3 times, for example {" in line
    assert 'mood (3 times, for example "calm' in line
    assert not {"\x1b", "\x9b"} & set(line)
    assert len(line) < 400
    assert line.endswith("); 3 more (newest 3 hours; kept in `extra`)")
    find = statuses.find_conversion
    monkeypatch.setattr(statuses, "find_conversion", lambda *given: replace(find(*given), remarks=("Odd.",)))
    told = [value for name, value in mirror.status(5, **own).facts if name == "remark"]
    wanted = [("enwiki", number) for number in range(3)] + [("frwiki", 0)]
    hours = [(project, hour_text(file.batch_hour + number * ONE)) for project, number in wanted]
    assert sorted(told) == [f"{project}_namespace_0 of {hour}: Odd." for project, hour in hours]


def parsed(text):
    """Samples by name and labels; each family has a help text and is a gauge."""
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.type == "gauge" and family.documentation for family in families)
    names = ("dataset", "project", "namespace", "state")
    samples = [sample for family in families for sample in family.samples]
    return {(one.name, *(one.labels[name] for name in names if name in one.labels)): one.value for one in samples}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Hours 0, 1 and 4 of two projects; of the second only the first."""
    made = Mirror(tmp_path_factory.mktemp("metrics") / "data")
    made.load_all((0, 1, 4))
    made.load(0, project="frwiki")
    made.warehouse.record_statuses([HourStatus(made.lake.hour(2), "enwiki", 0, HourState.MISSING, "Lost.")])
    made.publish()
    return made


def test_each_figure_of_the_status_is_a_metric(two):
    now = two.lake.hour(5)
    status = two.status(4, projects=("enwiki", "frwiki"), min_free_gb=0)
    samples, told = parsed(metrics.text(status, now)), statuses.as_json(status)
    assert told["figures"].keys() == metrics.FIGURES.keys()
    for name, (metric, _) in metrics.FIGURES.items():
        value = told["figures"][name]
        seconds = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
        assert samples[(f"wme_{metric}",)] == seconds
    assert samples["wme_changes",] == 4
    assert samples["wme_attention",] == len(told["troubles"]) > 0
    assert samples["wme_status_timestamp_seconds",] == now.timestamp()
    for place in told["coverage"]:
        labels = (place["dataset"], place["project_id"], str(place["namespace_id"]))
        newest = datetime.fromisoformat(place["newest_hour"]).timestamp()
        assert samples["wme_newest_hour_timestamp_seconds", *labels] == newest
        named = [gap for gap in told["gaps"] if gap["project_id"] == place["project_id"]]
        assert samples["wme_gap_hours", *labels] == sum(gap["hour_count"] for gap in named)
    assert samples["wme_gap_hours", "article_changes", "enwiki", "0"] == 2
    assert samples["wme_hours", "article_changes", "loaded"] == 4
    assert samples["wme_snapshot_loaded", "article_changes", "enwiki", "0"] == 1
    later = parsed(metrics.text(two.status(4, hours=1, min_free_gb=0), now))
    for name, count in (("gap_hours", 0), ("older_gap_hours", 1)):
        assert later[f"wme_{name}", "article_changes", "enwiki", "0"] == count
    newest = samples["wme_newest_hour_timestamp_seconds", "article_changes", "frwiki", "0"]
    assert newest == two.lake.hour(0).timestamp()


def test_a_folder_without_anything_has_what_is_known_of_it(tmp_path):
    now = datetime.fromisoformat("2026-11-01T00:00:00+00:00")
    status = statuses.collect(Settings(data=tmp_path / "data"), 48, now)
    assert dict(status.facts)["next publication"] == "by the next run"
    samples = parsed(metrics.text(status, now))
    assert samples == {("wme_status_timestamp_seconds",): now.timestamp(), ("wme_attention",): 1.0}


def test_figures_of_the_stream_are_metrics(two):
    status = two.status(4, min_free_gb=0)
    status.stream = {
        "is_running": True, "newest_published_at": two.lake.hour(4).isoformat(), "lag_seconds": 2.5,
        "kept_until": two.lake.hour(3).isoformat(), "events_per_second": None,
    }  # fmt: skip
    samples = parsed(text := metrics.text(status, two.lake.hour(5)))
    assert b"wme_stream_kept_until_timestamp_seconds Time up to which all events are stored.\n" in text
    assert (samples["wme_stream_running",], samples["wme_stream_lag_seconds",]) == (1, 2.5)
    assert samples["wme_stream_newest_event_timestamp_seconds",] == two.lake.hour(4).timestamp()
    assert samples["wme_stream_kept_until_timestamp_seconds",] == two.lake.hour(3).timestamp()
    assert ("wme_stream_events_per_second",) not in samples


def test_a_label_is_no_markup(two):
    status = two.status(4, projects=("enwiki", 'x"} 1\nwme_attention 99'), min_free_gb=0)
    samples = parsed(metrics.text(status, two.lake.hour(4) + ONE))
    assert samples["wme_gap_hours", "article_changes", 'x"} 1\nwme_attention 99', "0"] >= 0
    assert samples["wme_attention",] != 99


def test_the_command_prints_or_writes_the_same_names(two, tmp_path, monkeypatch):
    monkeypatch.setenv("WME_DATA", str(two.data))
    collect, asked = statuses.collect, []
    monkeypatch.setattr(statuses, "collect", lambda *given: asked.append(given[1]) or collect(*given))
    printed = CliRunner().invoke(command, [])
    assert printed.exit_code == 0, printed.output
    output = tmp_path / "made" / "wme.prom"
    written = CliRunner().invoke(command, ["--output", str(output), "--hours", "72"])
    assert (written.exit_code, written.output, asked) == (0, "", [48, 72])
    assert parsed(output.read_bytes()).keys() == parsed(printed.stdout_bytes).keys()
    assert ([path.name for path in output.parent.iterdir()], output.stat().st_mode & 0o777) == (["wme.prom"], 0o644)
