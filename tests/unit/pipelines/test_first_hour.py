"""Hours and their partition keys, and where they begin: with what can be fetched, never after what was made."""

import errno
from datetime import UTC, datetime, timedelta, timezone
from unittest.mock import Mock

import dagster as dg
import hypothesis
import pytest
from hypothesis import strategies as st

from assets import layers
from assets.layers import EARLIEST, HOUR, HOURS, hour_of, hours_since, key_of, recent_hours
from pipelines.definitions import build_defs, first_hour
from pipelines.operations.run import run
from resources import files
from resources.datasets import ARTICLE_CHANGES, RETENTION, last_complete_hour, paths
from resources.lake import Layout
from resources.settings import Settings, SettingsError, read

CHANGES = dg.AssetKey(["warehouse", "article_changes"])
OLD = datetime(2026, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path):
    return Settings(data=tmp_path)


def keys(settings, *asked):
    definition = build_defs(settings, asked=asked).resolve_asset_graph().get(CHANGES).partitions_def
    return list(definition.get_partition_keys())


def test_new_mirror_shows_what_the_service_still_keeps_and_no_hour_more(settings):
    before, found = datetime.now(UTC), keys(settings)
    # while this runs, an hour may end, and the oldest may pass
    assert found in ([key_of(hour) for hour in recent_hours(now)] for now in (before, datetime.now(UTC)))
    assert len(found) == 47
    assert hour_of(found[0]) > before - RETENTION
    # the service keeps an hour for two days from its start, and at their end it is gone
    for minute in (30, 0):
        hours = recent_hours(datetime(2026, 3, 6, 5, minute, tzinfo=UTC))
        assert (hours[0], len(hours)) == (datetime(2026, 3, 4, 6, tzinfo=UTC), 47)


@pytest.mark.parametrize("age", [0, 1, 40])
def test_every_process_begins_with_the_hour_that_the_first_one_noted(settings, age, monkeypatch):
    """The Dagster UI, and the process of a run that it launches hours or days later."""
    launched = datetime.now(UTC) - age * HOUR
    assert layers.first_of_mirror(settings.data, launched) == recent_hours(launched)[0]
    assert not list(settings.data.iterdir()), "a backup is restored into an empty folder only"
    (settings.data / "dagster").mkdir()  # as `wme ui` begins
    of_ui = layers.first_of_mirror(settings.data, launched)
    for later in (launched + HOUR, launched + 100 * HOUR):
        assert layers.first_of_mirror(settings.data, later) == of_ui
    assert first_hour(settings) == of_ui
    assert key_of(of_ui) in keys(settings)
    # a clock that was ahead does not hide what can be fetched
    assert layers.first_of_mirror(settings.data, launched - 5 * HOUR) == of_ui - 5 * HOUR
    assert layers.first_of_mirror(settings.data, launched) == of_ui - 5 * HOUR


@pytest.mark.parametrize("content", [b"", b"null", b'"2026"', b"{"])
def test_a_note_that_cannot_be_read_is_made_again(settings, content):
    path = settings.data / "state" / "first_hour.json"
    path.parent.mkdir()
    path.write_bytes(content)
    made = first_hour(settings)
    assert made == layers.first_of_mirror(settings.data, datetime.now(UTC) + 9 * HOUR)
    assert key_of(made) in {key_of(hour) for hour in recent_hours(datetime.now(UTC) - HOUR)}


def test_definitions_load_where_no_first_hour_can_be_noted(settings, monkeypatch):
    (settings.data / "state").write_text("no folder")
    assert first_hour(settings) in recent_hours(datetime.now(UTC) - HOUR)
    (settings.data / "state").unlink()
    (settings.data / "dagster").mkdir()
    for error in (OSError(errno.EROFS, "Read-only file system"), files.BusyError("Another process writes the file.")):
        monkeypatch.setattr(files, "write", Mock(side_effect=error))
        assert first_hour(settings) in recent_hours(datetime.now(UTC) - HOUR)
    assert first_hour(Settings(data=settings.data / "absent")) in recent_hours(datetime.now(UTC) - HOUR)
    assert not (settings.data / "absent").exists()


@pytest.mark.parametrize("layer", ["archive", "lake"])
def test_what_was_made_earlier_stays_in_sight(settings, layer):
    layout = Layout(settings.data)
    root = {"archive": layout.archive / "batches", "lake": layout.lake / "article_changes"}[layer]
    folders = [root / paths.hour_folder(hour) for hour in (OLD + 30 * HOUR, OLD, OLD + HOUR)]
    put_aside = folders[1].parent.with_name("date=2026-03-03.moved") / "hour=00"
    for folder in (*folders, put_aside):
        folder.mkdir(parents=True)
    assert keys(settings)[0] == key_of(OLD)
    later = settings.model_copy(update={"first_hour": OLD + 2 * HOUR})
    assert (first_hour(later), first_hour(later, OLD - HOUR)) == (OLD, OLD - HOUR)


def test_operator_may_begin_anywhere_but_before_all_hours(settings):
    with pytest.raises(SettingsError, match=r"2025-12-31 23:00 UTC is before 2026-01-01 00:00.* set WME_FIRST_HOUR"):
        run(settings, [EARLIEST - HOUR, EARLIEST])
    assert not list(settings.data.iterdir())
    chosen = settings.model_copy(update={"first_hour": read({"WME_FIRST_HOUR": "2025-12-30T07"}).first_hour})
    assert (keys(chosen)[0], first_hour(settings, EARLIEST - timedelta(days=900))) == ("2025-12-30-07:00", EARLIEST)


def test_materializations_are_seen_whatever_the_hours_began_with_then(settings, instance):
    """Dagster keeps what it knows of partitions by their definition."""
    Layout(settings.data).archive_hour(ARTICLE_CHANGES, OLD).mkdir(parents=True)
    for hour in (OLD, OLD + HOUR):
        instance.report_runless_asset_event(dg.AssetMaterialization(CHANGES, partition=key_of(hour)))
    for definition in (HOURS, hours_since(first_hour(settings)), hours_since(OLD - HOUR)):
        found = instance.get_status_by_partition(CHANGES, list(definition.get_partition_keys()), definition)
        made = {key for key, status in found.items() if status is not None and status.value == "MATERIALIZED"}
        assert made == {key_of(OLD), key_of(OLD + HOUR)}


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@hypothesis.settings(deadline=None, derandomize=True)
@hypothesis.given(MOMENTS)
def test_a_key_names_the_hour_that_the_moment_lies_in(moment):
    hour = hour_of(key_of(moment))
    assert hour <= moment < hour + timedelta(hours=1)
    assert hour.utcoffset() == timedelta(0)


def test_dagster_agrees_on_the_keys_when_clocks_change_and_in_other_zones():
    keys = HOURS.get_partition_keys(current_time=datetime(2026, 1, 1, 3, 5, tzinfo=UTC))
    assert ([hour_of(key).hour for key in keys], [key_of(hour_of(key)) for key in keys]) == ([0, 1, 2], list(keys))
    keys = HOURS.get_partition_keys(current_time=datetime(2026, 10, 26, tzinfo=UTC))
    assert (len(set(keys)), sum(key.startswith("2026-10-25") for key in keys)) == (len(keys), 24)
    moment = datetime(2026, 5, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert (key_of(moment), last_complete_hour(moment)) == ("2026-04-30-23:00", datetime(2026, 4, 30, 22, tzinfo=UTC))
