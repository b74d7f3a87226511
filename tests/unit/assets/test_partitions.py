"""Hours and their partition keys."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from assets.layers import HOURS, hour_of, key_of
from resources.datasets import last_complete_hour

MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@settings(deadline=None, derandomize=True)
@given(MOMENTS)
def test_a_key_names_the_hour_that_the_moment_lies_in(moment):
    hour = hour_of(key_of(moment))
    assert hour <= moment < hour + timedelta(hours=1)
    assert hour.utcoffset() == timedelta(0)


def test_dagster_agrees_on_the_keys_when_clocks_change_and_in_other_zones():
    keys = HOURS.get_partition_keys(current_time=datetime(2026, 1, 1, 3, 5, tzinfo=UTC))
    assert [hour_of(key).hour for key in keys] == [0, 1, 2]
    assert [key_of(hour_of(key)) for key in keys] == list(keys)
    keys = HOURS.get_partition_keys(current_time=datetime(2026, 10, 26, tzinfo=UTC))
    assert len(set(keys)) == len(keys)
    assert sum(key.startswith("2026-10-25") for key in keys) == 24
    moment = datetime(2026, 5, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert key_of(moment) == "2026-04-30-23:00"
    assert last_complete_hour(moment) == datetime(2026, 4, 30, 22, tzinfo=UTC)
