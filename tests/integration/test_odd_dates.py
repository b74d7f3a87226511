"""Pages whose records have dates that cannot be.

What they hid, what mends a mirror, and that dates long past stop nothing.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.lake import Layout
from tests.brought import HOUR, Brought
from tests.builds import ask
from tests.unit.lake.conftest import Lake

PLACE = ("enwiki", 0)
FAR = "9999-12-31T23:59:59.999999Z"


class Mirror(Brought):
    """A data folder with hours and a snapshot that a test makes."""

    def hour(self, number: int, *records: dict[str, Any]) -> int:
        """Load an hour; the number of rejected lines."""
        hour = HOUR + number * timedelta(hours=1)
        return self.bring(ARTICLE_CHANGES, PLACE, map(json.dumps, records), batch_hour=hour)[0].reject_count

    def snapshot(self, *records: dict[str, Any]) -> int:
        """Load a snapshot; the number of rejected lines."""
        known = {"snapshot_id": "s", "snapshot_version": "2" * 32}
        return self.bring(SNAPSHOT_ARTICLES, PLACE, map(json.dumps, records), HOUR, **known)[0].reject_count

    def pages(self) -> list[tuple[Any, ...]]:
        """The current pages: title, revision."""
        self.warehouse.apply_changes()
        return ask(self.warehouse, "SELECT name, version_id FROM articles ORDER BY ALL")


def page(number: int, version: int, published: str) -> dict[str, Any]:
    record = Lake(Layout("")).record(number)
    record["version"]["identifier"] = version
    record["event"] |= {"identifier": f"e{number}.{version}", "date_published": published}
    return record


def stamp(number: int, minute: int) -> str:
    return f"{HOUR + timedelta(hours=number, minutes=minute):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("of", ["hour", "snapshot"])
def test_a_page_of_the_future_hides_no_edit_and_a_mirror_that_has_it_is_mended_by_converting_again(
    tmp_path, monkeypatch, of
):
    poisoned = [page(1, 1, FAR), page(2, 2, stamp(0, 1))]
    later = [page(1, 11, stamp(1, 1)), page(2, 12, stamp(1, 2))]

    def load(mirror: Mirror) -> int:
        return mirror.hour(0, *poisoned) if of == "hour" else mirror.snapshot(*poisoned)

    mirror = Mirror(tmp_path / "new")
    assert load(mirror) == 1
    assert mirror.hour(1, *later) == 0
    assert mirror.pages() == [("Page 1", 11), ("Page 2", 12)]

    # as an older converter left it: one record keeps its page, or all pages of its snapshot, as they were
    older = Mirror(tmp_path / "old")
    with monkeypatch.context() as patch:
        patch.setattr("resources.lake.conversion.CONVERTER_VERSION", 2)
        patch.setattr("resources.lake.archives.Archive.latest", None)
        assert load(older) == older.hour(1, *later) == 0
        assert older.pages() != mirror.pages()
    assert load(older) == 1
    assert older.pages() == mirror.pages()
    [(reason,)] = ask(older.warehouse, "SELECT reason FROM rejects")
    assert "is after 2026-11-20 05:00:00 UTC" in reason


def test_dates_long_past_win_nothing_and_stop_nothing(tmp_path):
    mirror, long_ago = Mirror(tmp_path), "0001-01-01T00:00:00Z"
    assert mirror.snapshot(page(1, 1, long_ago), page(3, 3, long_ago)) == 0
    assert mirror.hour(0, page(1, 2, stamp(0, 1)), page(2, 2, long_ago)) == 0
    assert mirror.hour(1, page(2, 5, stamp(1, 1)), page(1, 1, long_ago)) == 0
    assert mirror.pages() == [("Page 1", 2), ("Page 2", 5), ("Page 3", 3)]
    assert mirror.ask("SELECT count(*) FROM project_state") == [(1,)]
    hours = [HOUR, HOUR + timedelta(hours=1)]
    assert mirror.warehouse.audit(hours, dataset=ARTICLE_CHANGES)[0].early_count == 1
    for view in ("project_state", "snapshots", "hours", "loads", "articles", "articles_at('2026-11-19 06:30:00+00')"):
        assert mirror.ask(f"FROM {view}")
