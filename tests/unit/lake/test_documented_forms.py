"""The forms of a value that the data dictionary says are taken, and their neighbours that are not."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pipelines.report.dictionary import render
from tests.unit.lake.conftest import put

NINE = datetime(2026, 11, 19, 9, tzinfo=UTC)
#: Column, place, the value as JSON text, what the row holds; an exception's place is taken by None: a reject.
FORMS = [
    ("created_at", "date_created", '"2026-11-19"', NINE.replace(hour=0)),
    ("created_at", "date_created", '"2026-11-19T09"', NINE),
    ("created_at", "date_created", '"2026-11-19 09:00"', NINE),
    ("created_at", "date_created", '"2026-11-19T09:00:00Z"', NINE),
    ("created_at", "date_created", '"2026-11-19T09:00:00.000001Z"', NINE.replace(microsecond=1)),
    ("created_at", "date_created", '"2026-11-19T10:30:00+01:30"', NINE),
    ("created_at", "date_created", '"2026-11-19T09:00:00.0000001Z"', None),
    ("created_at", "date_created", '"20261119T090000Z"', None),
    ("created_at", "date_created", '""', None),
    ("created_at", "date_created", "1795078800", None),
    ("created_at", "date_created", "null", "null"),
    ("size_bytes", "version.size.value", "26124", 26124),
    ("size_bytes", "version.size.value", "26124.0", 26124),
    ("size_bytes", "version.size.value", "2.6124e4", 26124),
    ("size_bytes", "version.size.value", "9007199254740991", 2**53 - 1),
    ("size_bytes", "version.size.value", "9007199254740994", None),
    ("size_bytes", "version.size.value", "26124.5", None),
    ("size_bytes", "version.size.value", '"26124"', None),
    ("character_count", "version.number_of_characters", "12", 12),
    ("character_count", "version.number_of_characters", "9223372036854775807", 2**63 - 1),
    ("character_count", "version.number_of_characters", "9223372036854775808", None),
    ("character_count", "version.number_of_characters", "12.0", None),
    ("character_count", "version.number_of_characters", '"12"', None),
    ("project_size", "is_part_of.size.value", "12", 12.0),
    ("project_size", "is_part_of.size.value", "12.5", 12.5),
    ("project_size", "is_part_of.size.value", '"12.5"', None),
    ("url", "url", '"12"', "12"),
    ("url", "url", "12", None),
    ("url", "url", "null", "null"),
    ("is_noindex", "version.noindex", "true", True),
    ("is_noindex", "version.noindex", "1", None),
    ("is_noindex", "version.noindex", '"true"', None),
]


def test_forms(lake, rows):
    lines = [
        json.dumps(put(lake.record(2), path, "HERE")).replace('"HERE"', text).encode() for _, path, text, _ in FORMS
    ]
    made = lake.convert(*lines)
    found, rejects = iter(rows(made.path)), iter(rows(made.rejects_path))
    for (column, path, _, expected), line in zip(FORMS, lines, strict=True):
        if expected is None:
            reject = next(rejects)
            assert reject["reason"].startswith(f"{path} is the ")
            assert reject["reason"].endswith(" is declared.")
            assert reject["raw"] == line
        else:
            assert next(found)[column] == (None if expected == "null" else expected), line
    assert [*found, *rejects] == []


def test_columns_with_a_cast_are_marked():
    marked = [line.split("`")[1] for line in render().splitlines() if ", sent as " in line]
    assert set(marked) == {"size_bytes"}
