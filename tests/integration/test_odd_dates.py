"""Pages whose records have dates that cannot be.

What they hid, what mends a mirror, and that dates long past stop nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from resources import datasets
from resources.datasets import SNAPSHOT_ARTICLES
from resources.lake import Archive, Layout, convert
from resources.warehouse import Snapshot
from tests.builds import OpenWarehouse, lay, looking
from tests.unit.lake.conftest import Lake

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 19, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
FAR = "9999-12-31T23:59:59.999999Z"


class Mirror:
    """A warehouse, and archives that are loaded into it."""

    def __init__(self, root: Path) -> None:
        self.warehouse = OpenWarehouse(lay(root))
        self.layout = Layout(root)

    def hour(self, number: int, *records: dict[str, Any]) -> int:
        """Load an hour; the number of rejected lines."""
        lake = Lake(self.layout, START + number * HOUR)
        made = lake.convert(*records)
        self.warehouse.load_hour(lake.hour, [made], dataset=datasets.ARTICLE_CHANGES)
        return made.reject_count

    def snapshot(self, *records: dict[str, Any]) -> int:
        """Load a snapshot; the number of rejected lines."""
        lake = Lake(self.layout)
        path = lake.archive(lake.lines(*records), identifier="enwiki_namespace_0").path
        archive = Archive(
            *(path, "enwiki_namespace_0", "1" * 32, None, "enwiki", 0),
            snapshot_id="s",
            snapshot_version="2" * 32,
            exported_at=START,
            dataset=SNAPSHOT_ARTICLES,
        )
        made = convert(archive, self.layout)
        files = (made,)
        self.warehouse.load_snapshot(Snapshot("s", "2" * 32, "enwiki", 0, files, 1, START, SNAPSHOT_ARTICLES))
        return made.reject_count

    def pages(self) -> list[tuple[Any, ...]]:
        """The current pages: title, revision."""
        self.warehouse.apply_changes()
        return self.rows("SELECT name, version_id FROM articles ORDER BY ALL")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the build file."""
        with looking(self.warehouse) as connection:
            return connection.execute(query).fetchall()


def page(number: int, version: int, published: str) -> dict[str, Any]:
    record = Lake(Layout("")).record(number)
    record["version"]["identifier"] = version
    record["event"] |= {"identifier": f"e{number}.{version}", "date_published": published}
    return record


def stamp(number: int, minute: int) -> str:
    return f"{START + number * HOUR + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}"


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
    [(reason,)] = older.rows("SELECT reason FROM rejects")
    assert "is after 2026-11-20 05:00:00 UTC" in reason


def test_dates_long_past_win_nothing_and_stop_nothing(tmp_path):
    mirror, long_ago = Mirror(tmp_path), "0001-01-01T00:00:00Z"
    assert mirror.snapshot(page(1, 1, long_ago), page(3, 3, long_ago)) == 0
    assert mirror.hour(0, page(1, 2, stamp(0, 1)), page(2, 2, long_ago)) == 0
    assert mirror.hour(1, page(2, 5, stamp(1, 1)), page(1, 1, long_ago)) == 0
    assert mirror.pages() == [("Page 1", 2), ("Page 2", 5), ("Page 3", 3)]
    mirror.warehouse.publish()
    states = mirror.warehouse.sql("SELECT count(*) FROM project_state").rows
    assert states == [(1,)]
    assert mirror.warehouse.audit([START, START + HOUR], dataset=datasets.ARTICLE_CHANGES)[0].early_count == 1
    for view in ("project_state", "snapshots", "hours", "loads", "articles", "articles_at('2026-11-19 06:30:00+00')"):
        assert mirror.warehouse.sql(f"FROM {view}").rows
