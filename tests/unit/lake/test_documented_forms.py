"""The forms of a value that the data dictionary says are taken, and their neighbours that are not."""

import json
from datetime import UTC, datetime

import pytest

from pipelines.report.dictionary import render
from tests.unit.lake.conftest import put

NINE = datetime(2026, 11, 19, 9, tzinfo=UTC)
#: By column and place: values as JSON text with what the row holds, and those that make a reject.
FORMS = {
    ("created_at", "date_created"): (
        {
            '"2026-11-19"': NINE.replace(hour=0),
            '"2026-11-19T09"': NINE,
            '"2026-11-19 09:00"': NINE,
            '"2026-11-19T09:00:00Z"': NINE,
            '"2026-11-19T09:00:00.000001Z"': NINE.replace(microsecond=1),
            '"2026-11-19T10:30:00+01:30"': NINE,
            "null": None,
        },
        ['"2026-11-19T09:00:00.0000001Z"', '"20261119T090000Z"', '""', "1795078800"],
    ),
    ("size_bytes", "version.size.value"): (
        {"26124": 26124, "26124.0": 26124, "2.6124e4": 26124, "9007199254740991": 2**53 - 1},
        ["9007199254740994", "26124.5", '"26124"'],
    ),
    ("character_count", "version.number_of_characters"): (
        {"12": 12, "9223372036854775807": 2**63 - 1},
        ["9223372036854775808", "12.0", '"12"'],
    ),
    ("project_size", "is_part_of.size.value"): ({"12": 12.0, "12.5": 12.5}, ['"12.5"']),
    ("url", "url"): ({'"12"': "12", "null": None}, ["12"]),
    ("is_noindex", "version.noindex"): ({"true": True}, ["1", '"true"']),
}


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_forms(lake, rows, form):
    (column, path), (taken, refused) = form, FORMS[form]
    line = json.dumps(put(lake.record(2), path, "HERE"))
    lines = [line.replace('"HERE"', text).encode() for text in (*taken, *refused)]
    made = lake.convert(*lines)
    assert [row[column] for row in rows(made.path)] == [*taken.values()]
    rejects = rows(made.rejects_path)
    assert [reject["raw"] for reject in rejects] == lines[len(taken) :]
    for reject in rejects:
        assert reject["reason"].startswith(f"{path} is the ")
        assert reject["reason"].endswith(" is declared.")


def test_columns_with_a_cast_are_marked():
    marked = [line.split("`")[1] for line in render().splitlines() if ", sent as " in line]
    assert set(marked) == {"size_bytes"}
