"""Quantities and moments as people read them."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic.functional_validators import AfterValidator

from resources import formatting

MOMENT = datetime(2026, 11, 20, 5, 7, tzinfo=UTC)


def test_one_is_singular_and_all_else_plural_and_bytes_are_in_decimal_units():
    plurals = {"bad line": "bad lines", "entry": "entries", "day": "days", "batch": "batches", "hash": "hashes"}
    for noun, plural in plurals.items():
        assert formatting.counted(2, noun) == formatting.amount_text(2, noun) == f"2 {plural}"
    assert [formatting.counted(number, "file") for number in (0, 1, 1204)] == ["0 files", "1 file", "1,204 files"]
    sizes = {0: "0 B", 999: "999 B", 1_000: "1.0 kB", 2_345_678: "2.3 MB", 1_234_567_890_123: "1,234.6 GB"}
    for size, text in sizes.items():
        assert formatting.size_text(size) == formatting.amount_text(size, "B") == text


def test_moments_are_in_utc_to_the_second_or_the_minute():
    assert formatting.moment_text(MOMENT) == "2026-11-20 05:07"
    assert formatting.moment_text(MOMENT + timedelta(seconds=9)) == "2026-11-20 05:07:09"
    assert formatting.moment_text(MOMENT.astimezone(timezone(timedelta(hours=2)))) == "2026-11-20 05:07"
    assert formatting.hour_text(MOMENT.astimezone(timezone(timedelta(hours=-5, minutes=-30)))) == "2026-11-20 05:00"


def test_values_lose_what_a_terminal_obeys_and_long_lists_are_cut_and_say_so():
    values = {Decimal("1234.5"): "1,234.5", False: "no", b"\xe9": r"\xe9", "\x1b\n\x7f\u202e": "\\x1b\n\\u007f\\u202e"}
    assert {value: formatting.value_text(value) for value in values} == values
    shown = [formatting.listed(names, 2) for names in (["a", "b"], [*"abcd"] * 999)]
    assert (shown, formatting.legible("\x1b\x1b", 5)) == (["a, b", "a, b and 3,994 more"], "\\x1b…")


def test_an_invalid_value_is_refused_in_our_own_words_where_we_have_some():
    def even(number):
        if number % 2:
            raise ValueError(f"{number} is odd.")
        return number

    numbers = TypeAdapter(dict[str, Annotated[int, AfterValidator(even)]])
    with pytest.raises(ValidationError) as caught:
        numbers.validate_python({"a": 3, "b": "many"})
    said = formatting.refusal(caught.value)
    assert said.startswith("3 is odd. b is 'many'; it must be a valid integer")
    assert said.endswith(". Nothing was done.")
