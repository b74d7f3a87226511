"""Fields that nobody declared, from the archive to the analyst and the operator."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile

import dagster as dg

from assets import layers
from pipelines.automation import jobs
from pipelines.operations import run
from pipelines.process import processes
from resources import datasets
from resources.formatting import hour_text
from resources.settings import read

LAKE = layers.lake_key(datasets.ARTICLE_CHANGES)


def rewrite(path, change):
    """Change every record of an archive where it lies; returns their number."""
    with tarfile.open(path) as tar:
        members = [(info.name, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]
    out, count = io.BytesIO(), 0
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members:
            records = [json.loads(line) for line in data.splitlines()]
            for record in records:
                change(record)
            count += len(records)
            text = b"".join(json.dumps(record).encode() + b"\n" for record in records)
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    path.write_bytes(gzip.compress(out.getvalue(), 1))
    return count


def grow(record):
    record["mood"] = "calm\x1b[31m" * 100
    record["version"]["scores"] = {"novelty": {"high": 0.5}}
    record["categories"] = [{"name": "A", "url": "u", "rank": 2}, {"name": "B", "url": "u", "rank": 3}]


def test_unknown_fields_are_kept_counted_and_told(filled, call, hours, tmp_path, monkeypatch):
    environ = filled[0] | {"WME_DATA": str(tmp_path / "data")}
    assert "unknown fields" not in call("status", environ=filled[0]).out
    shutil.copytree(filled[0]["WME_DATA"], environ["WME_DATA"])
    hour = tmp_path / "data" / "archive" / "batches" / f"date={hours[1]:%Y-%m-%d}" / f"hour={hours[1]:%H}"
    count = rewrite(next(hour.glob("enwiki*.tar.gz")), grow)

    monkeypatch.setenv("WME_PASSWORD", environ["WME_PASSWORD"])
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr("resources.lake.conversion.CONVERTER_VERSION", 10_000)
    settings = read(environ)
    with run._run_here(settings, [hours[1]]) as here:
        behind = layers.keys(datasets.ARTICLE_CHANGES)[1:]
        here.execute(jobs.HOURS, run._range([hours[1]]), selection=behind)
        here.execute(jobs.PUBLISH)
    assert here.report.failures == []

    told = call("status", environ=environ)
    [line] = [line for line in told.out.splitlines() if line.startswith("unknown fields:")]
    assert f"categories[].rank ({2 * count:,} times, for example 2);" in line
    assert f"version.scores.novelty ({count:,} times, for example {{" in line
    assert f'mood ({count:,} times, for example "calm' in line
    assert "\x1b" not in told.out
    assert len(line) < 400
    assert "kept in `extra`" in line

    found = call(
        "sql",
        "--format",
        "json",
        "SELECT count(*) AS pages, any_value(json_extract_string(extra, '$.version.scores.novelty.high')) AS high, "
        "any_value(json_extract(extra, '$.categories[*].rank')) AS ranks, "
        "(SELECT max(row_count - duplicate_count) FROM loads WHERE batch_hour = any_value(c.batch_hour) "
        "AND project_id = 'enwiki') AS loaded FROM article_changes c WHERE extra IS NOT NULL",
        environ=environ,
    )
    answer = json.loads(found.out)
    assert answer["pages"] == answer["loaded"] > count / 2
    assert answer["high"] == "0.5"
    assert [int(rank) for rank in answer["ranks"]] == [2, 3]

    key = dg.AssetCheckKey(LAKE, "fields_known")
    with processes.opened(settings.dagster_home) as history:
        checked = history.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert checked.event is not None
    evaluation = checked.event.dagster_event.asset_check_evaluation_data  # type: ignore[union-attr]
    assert evaluation.passed is False
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    assert evaluation.description is not None
    assert evaluation.description.startswith(
        f"`categories[].rank` appears {2 * count:,} times, first in {hour_text(hours[1])}, with the value 2; "
    )
