"""Metrics: the same figures as `wme status --json`, in a text that Prometheus' own parser reads."""

from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from pipelines.cli.inspection import metrics as command
from pipelines.report import metrics
from pipelines.report import status as statuses
from resources.settings import Settings
from tests.unit.pipelines.conftest import ONE, Mirror


def parsed(text):
    """Samples by name and labels; each family has a help text and is a gauge."""
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        (
            sample.name,
            *(sample.labels[name] for name in ("dataset", "project", "namespace", "state") if name in sample.labels),
        ): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def mirror(tmp_path_factory):
    """Hours 0, 1 and 4 of two projects; of the second only the first."""
    made = Mirror(tmp_path_factory.mktemp("metrics") / "data")
    made.load_all((0, 1, 4))
    made.load(0, project="frwiki")
    made.publish()
    return made


def test_each_figure_of_the_status_is_a_metric(mirror):
    now = mirror.lake.hour(5)
    status = mirror.status(4, projects=("enwiki", "frwiki"), min_free_gb=0)
    samples = parsed(metrics.text(status, now))
    told = statuses.as_json(status)
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
    assert (
        samples["wme_newest_hour_timestamp_seconds", "article_changes", "frwiki", "0"]
        == mirror.lake.hour(0).timestamp()
    )


def test_a_folder_without_anything_has_what_is_known_of_it(tmp_path):
    now = datetime.fromisoformat("2026-11-01T00:00:00+00:00")
    settings = Settings(data=tmp_path / "data")
    samples = parsed(metrics.text(statuses.collect(settings, 48, now), now))
    assert samples == {("wme_status_timestamp_seconds",): now.timestamp(), ("wme_attention",): 1.0}


def test_figures_of_the_stream_are_metrics(mirror):
    status = mirror.status(4, min_free_gb=0)
    status.stream = {
        "is_running": True,
        "newest_published_at": mirror.lake.hour(4).isoformat(),
        "lag_seconds": 2.5,
        "kept_until": (mirror.lake.hour(4) + timedelta(hours=48)).isoformat(),
        "events_per_second": None,
        "run": None,
        "partitions": {},
    }
    samples = parsed(metrics.text(status, mirror.lake.hour(5)))
    assert samples["wme_stream_running",] == 1
    assert samples["wme_stream_lag_seconds",] == 2.5
    assert samples["wme_stream_newest_event_timestamp_seconds",] == mirror.lake.hour(4).timestamp()
    assert ("wme_stream_events_per_second",) not in samples


def test_a_label_is_no_markup(mirror):
    status = mirror.status(4, projects=("enwiki", 'x"} 1\nwme_attention 99'), min_free_gb=0)
    samples = parsed(metrics.text(status, mirror.lake.hour(4) + ONE))
    assert samples["wme_gap_hours", "article_changes", 'x"} 1\nwme_attention 99', "0"] >= 0
    assert samples["wme_attention",] != 99


def test_the_command_prints_or_writes_the_same_names(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("WME_DATA", str(mirror.data))
    printed = CliRunner().invoke(command, [])
    assert printed.exit_code == 0, printed.output
    output = tmp_path / "made" / "wme.prom"
    written = CliRunner().invoke(command, ["--output", str(output)])
    assert (written.exit_code, written.output) == (0, "")
    assert parsed(output.read_bytes()).keys() == parsed(printed.stdout_bytes).keys()
    assert [path.name for path in output.parent.iterdir()] == ["wme.prom"]
    assert output.stat().st_mode & 0o777 == 0o644
