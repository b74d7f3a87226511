"""Fields that nobody declared, as analysts find them and as the status counts them."""

import json

from pipelines.report.status import collect
from resources.lake import Layout
from resources.settings import Settings
from tests.builds import OpenWarehouse, lay
from tests.unit.lake.conftest import HOUR, Lake


def test_unknown_fields_are_kept_counted_and_told(tmp_path):
    lake = Lake(Layout(lay(tmp_path)))
    grown = {
        "mood": "calm\x9b31m" * 100,
        "\x1b[31m": 1,
        "version": {"identifier": 1, "scores": {"novelty": {"high": 0.5}}},
        "categories": [{"name": "A", "url": "u", "rank": 2}, {"name": "B", "url": "u", "rank": 3}],
    }
    warehouse = OpenWarehouse(tmp_path, clock=lambda: HOUR)
    warehouse.load_hour(HOUR, [lake.convert(*(lake.record(page, **grown) for page in range(3)))])
    warehouse.publish()
    ((extra,),) = warehouse.sql("SELECT DISTINCT extra FROM article_changes").rows
    assert json.loads(extra)["version"] == {"scores": {"novelty": {"high": 0.5}}}
    assert [category["rank"] for category in json.loads(extra)["categories"]] == [2, 3]
    line = dict(collect(Settings(data=tmp_path, projects=("enwiki",)), 48, HOUR).facts)["unknown fields"]
    assert "categories[].rank (6 times, for example 2);" in line
    assert "version.scores.novelty (3 times, for example {" in line
    assert 'mood (3 times, for example "calm' in line
    assert not {"\x1b", "\x9b"} & set(line)
    assert len(line) < 400
    assert "kept in `extra`" in line
