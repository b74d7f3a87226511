from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from resources.datasets import ARTICLE_CHANGES, named, paths
from resources.lake import Archive, Layout

LAYOUT, HOUR = Layout(Path("data")), datetime(2026, 11, 19, 5, tzinfo=UTC)
DIGEST = "0123456789abcdef"


def test_paths_of_hours_and_lists():
    folder, name = Path("data/archive/batches/date=2026-11-19/hour=05"), "enwiki_namespace_0"
    assert LAYOUT.archive_hour(ARTICLE_CHANGES, HOUR) == folder
    assert LAYOUT.batch_list(ARTICLE_CHANGES, HOUR) == folder / "batches.json"
    assert LAYOUT.batch_archive(ARTICLE_CHANGES, HOUR, name, DIGEST) == folder / f"{name}.01234567.tar.gz"
    archive = Archive("x", name, "0" * 32, HOUR, "enwiki", 0)
    assert (archive.path, Layout("data")) == (Path("x"), LAYOUT)
    expected = f"data/lake/article_changes/date=2026-11-19/hour=05/{name}.01234567.parquet"
    assert archive.lake_file(LAYOUT, "article_changes", DIGEST) == Path(expected)
    assert LAYOUT.list_archive(named("codes")) == Path("data/archive/reference/codes.json")
    tokyo = datetime(2026, 11, 19, 14, tzinfo=timezone(timedelta(hours=9)))
    assert LAYOUT.archive_hour(ARTICLE_CHANGES, tokyo) == LAYOUT.archive_hour(ARTICLE_CHANGES, HOUR)
    path = LAYOUT.batch_list(ARTICLE_CHANGES, HOUR)
    assert LAYOUT.relative(path) == "archive/batches/date=2026-11-19/hour=05/batches.json"
    assert LAYOUT.absolute(LAYOUT.relative(path)) == path
    with pytest.raises(ValueError, match="not in the subpath"):
        LAYOUT.relative(Path("elsewhere/file"))


@pytest.mark.parametrize(
    ("hour", "identifier", "version", "words"),
    [
        (datetime(2026, 11, 19, 5), "enwiki", DIGEST, "no time zone"),  # noqa: DTZ001
        (datetime(2026, 11, 19, 5, 1, tzinfo=UTC), "enwiki", DIGEST, "not the start of an hour"),
        *(
            (HOUR, name, DIGEST, "cannot be part of a file name")
            for name in ("", "..", "../etc", "a/b", "a\\b", ".hidden", "a b", "a\n")
        ),
        *((HOUR, "enwiki_namespace_0", version, r"too short|cannot be part") for version in ("", "abc", "../../../x")),
    ],
)
def test_names_from_outside_stay_inside_and_hours_are_whole(hour, identifier, version, words):
    with pytest.raises(ValueError, match=words):
        LAYOUT.batch_archive(ARTICLE_CHANGES, hour, identifier, version)


@pytest.mark.parametrize(
    "kind", [paths.ARCHIVE, paths.SET, paths.PARQUET, "lines.gz", "tar.gz.part.json", "tar.gz.part.1024"]
)
@pytest.mark.parametrize("identifier", ["enwiki_namespace_0", "enwiki_namespace_0_chunk_12", "a.b-c", "codes"])
def test_names_are_read_as_they_were_made(identifier, kind):
    name = paths.name_of(identifier, DIGEST, kind)
    assert paths.parse(name) == (identifier, "01234567", kind)
    is_of = identifier.startswith("enwiki") and kind not in {paths.PARQUET, "lines.gz"}
    assert paths.is_of_snapshot(name, "enwiki_namespace_0") == is_of


@pytest.mark.parametrize(
    "name", ["", "batches.json", "enwiki.tar.gz", "a.0123456.parquet", ".a.01234567.parquet", "a.01234567."]
)
def test_other_names_are_not_read(name):
    assert paths.parse(name) is None


def test_folders_of_hours_are_read_as_they_were_made(tmp_path):
    hours = [HOUR + timedelta(hours=back) for back in (-30, -1, 0)]
    for hour in hours:
        LAYOUT.archive_hour(ARTICLE_CHANGES, hour)
        (tmp_path / paths.hour_folder(hour)).mkdir(parents=True)
    for aside in ("date=2026-11-19/hour=5", "date=2026-11-19/hour=24", "date=2026-11-19.bak/hour=05", "date=x/hour=05"):
        (tmp_path / aside).mkdir(parents=True)
    assert [*paths.hour_folders(tmp_path)] == [(hour, tmp_path / paths.hour_folder(hour)) for hour in hours]
