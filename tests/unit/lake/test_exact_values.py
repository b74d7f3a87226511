"""Values are kept as they came or refused, never changed in silence; with the native decoder and without it."""

import json
from pathlib import Path

import pytest

from resources import files
from resources.lake.decode import native
from resources.lake.decode import strict as drift
from resources.lake.decode.strict import OTHERS
from resources.lake.decode.strict_json import DEPTH_MAX
from tests.unit.lake.conftest import put

pytestmark = pytest.mark.usefixtures("how")

NUMBERS = [
    *("12345678901234567890.5", "123456789012345678901", "1e-400", "-0", "-0.0", "1E+2", "1.0", "1.50", "1e400"),
    *("1e999999999", "-1e-999999999", "0e0", "9223372036854775808", "0.1234567890123456789", "1" * 5000),
    "0." + "3" * 5000,
]


@pytest.fixture
def few_values(monkeypatch):
    """The bound of a line's values, a hundredth of the usual."""
    monkeypatch.setattr(files, "VALUES_MAX", 5000)
    native.trim()
    yield 5000
    native.trim()


def line_of(record: dict, **texts: str) -> bytes:
    """The record with fields of exactly these texts."""
    fields = "".join(f',"{name}":{text}' for name, text in texts.items())
    return f"{json.dumps(record)[:-1]}{fields}}}".encode()


def test_numbers_in_unknown_fields_keep_their_text(lake, rows):
    record, lines, expected = lake.record(1), [], []
    for number in NUMBERS:
        lines += [
            line_of(record, new=f'[{number},{{"a" : {number}}},"é"]'),
            json.dumps(record).replace('"version": {', f'"version": {{"mood":{number},').encode(),
            line_of(record, categories=f'[{{"name":"A"}},{{"name":"B","rank":{number}}}]'),
        ]
        expected += [
            f'{{"new":[{number},{{"a":{number}}},"é"]}}',
            f'{{"version":{{"mood":{number}}}}}',
            f'{{"categories":[{{}},{{"rank":{number}}}]}}',
        ]
    made = lake.convert(*lines)
    assert ([row["extra"] for row in rows(made.path)], made.reject_count) == (expected, 0)
    assert {seen.path: (seen.count, seen.example) for seen in made.drift}["version.mood"] == (len(NUMBERS), NUMBERS[0])
    made = lake.convert(lines[-2])
    assert made.drift[0].example == NUMBERS[-1][:200] + "…"


#: Numbers for columns of each kind: as which value they are held, or why they are refused.
KNOWN = [line.split(" | ") for line in Path(__file__).with_name("column_numbers.txt").read_text().splitlines()]
KNOWN += [
    ("double", "-0." + "0" * 400 + "7e5", "refused: where a number within the range of a double is declared."),
    ("integer", "1" * 5000, "refused: where a whole number of at most 64 bits is declared."),
    *(("double", "0." + "0" * 400, "0.0"), ("double", "1" * 300, "1" * 300)),
]
REFUSED, HELD = ([one for one in KNOWN if one[2].startswith("refused: ") is refused] for refused in (True, False))
PLACES = {
    "double": "version.scores.revertrisk.probability.true",
    "whole": "version.size.value",
    "integer": "version.editor.edit_count",
}


def test_numbers_are_values_of_their_columns_or_refused(lake, rows):
    lines = [
        json.dumps(put(lake.record(2), PLACES[place], "HERE")).replace('"HERE"', number).encode()
        for place, number, _ in (*REFUSED, *HELD)
    ]
    made = lake.convert(lake.record(1), *lines, lake.record(3))
    assert [row["article_id"] for row in rows(made.path)] == [101, *[102] * len(HELD), 103]
    for reject, (_, number, reason) in zip(rows(made.rejects_path), REFUSED, strict=True):
        assert reject["reason"].endswith(reason.removeprefix("refused: "))
        assert number[:60] in reject["reason"]
    columns = {"double": "revertrisk_probability", "whole": "size_bytes", "integer": "editor_edit_count"}
    for row, (place, _, value) in zip(rows(made.path)[1:-1], HELD, strict=True):
        assert row[columns[place]] == (float if place == "double" else int)(value)


@pytest.mark.parametrize("text", ["2026-11-19T05:10:11", "2026-11-19 05:10", "2026-11-19"])
@pytest.mark.parametrize("at", ["date_modified", "date_created", "event.date_published", "version.event.date_created"])
def test_a_time_without_a_zone_is_read_as_utc_and_reported(lake, rows, at, text):
    made = lake.convert(lake.record(1), put(lake.record(2), at, text), lake.record(3))
    assert [row["extra"] and json.loads(row["extra"]) for row in rows(made.path)] == [None, put({}, at, text), None]
    [seen] = made.drift
    told = (f"{at} (a time without a zone, read as UTC)", 1, f'"{text}"')
    assert (seen.path, seen.count, seen.example) == told


TWICE = [
    *('"new":1,"new":2', '"new":null,"new":null', '"new":1,"x":2,"n\\u0065w":1', '"new":{"a":1,"b":{"c":1,"c":1}}'),
    *('"new":[{"a":1,"a":1}]', '"event":{"identifier":"x","new":1,"new":1}', '"image":{"thumbnail":{"new":1,"new":1}}'),
    *('"in_language":{"mood":1,"name":"x","mood":1}', '"categories":[{"name":"A"},{"name":"B","new":1,"new":1}]'),
    *('"url":"a","url":"a"', '"url":null,"url":null', '"in_language":{},"in_language":null'),
    *('"categories":[{"name":"A","name":"A"}]', '"\\ud800":1,"\\ud800":1'),
    # the last of many is found in time
    ",".join(f'"k{number}":1' for number in range(60_000)) + ',"k59999":1',
]


def test_a_key_that_appears_twice_makes_a_bad_line_at_every_level(lake, rows):
    record = lake.record(2)
    del record["event"]
    bad = [json.dumps(record).encode()[:-1] + b"," + fields.encode() + b"}" for fields in TWICE]
    made = lake.convert(lake.record(1), *bad, lake.record(3))
    assert [row["article_id"] for row in rows(made.path)] == [101, 103]
    found = rows(made.rejects_path)
    assert [row["raw"] for row in found] == bad
    assert all("twice in one object." in row["reason"] for row in found)
    assert made.drift == ()


def test_reasons_are_short_and_can_be_written_whatever_the_line_holds(lake, rows):
    bad = [
        *(b'{"name":["\\ud800"]}', b'{"identifier":"\\ud800\\u0000"}', b'{"\\ud800":1,"\\ud800":1}'),
        b'{"' + b"k" * 100_000 + b'":1,"' + b"k" * 100_000 + b'":1}',
        b'{"identifier":"' + b"\\u00e9" * 100_000 + b'"}',
        b'{"identifier":1.' + b"3" * 100_000 + b"}",
        *(b'"' + b"x" * 100_000 + b'"', b"1" * 100_000),
        *(json.dumps(lake.record(1) | {"identifier": one}).encode() for one in ("\ud800" + "v" * 10_000, "\x1b[31m")),
    ]
    made = lake.convert(*bad)
    assert (made.row_count, made.reject_count) == (0, len(bad))
    reasons = [row["reason"] for row in rows(made.rejects_path)]
    assert all(20 < len(reason) < 200 and reason.isprintable() for reason in reasons)


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_depth_is_bounded_by_a_number(lake, rows, brackets):
    def line(depth: int) -> bytes:
        inside = '{"a":' * (depth - 1) if brackets == "{}" else "[" * (depth - 1)
        return line_of(lake.record(depth), new=inside + "1" + brackets[1] * (depth - 1))

    made = lake.convert(line(10), line(DEPTH_MAX), line(DEPTH_MAX + 1), line(100_000), lake.record(1))
    assert [row["article_id"] - 100 for row in rows(made.path)] == [10, DEPTH_MAX, 1]
    assert {row["reason"] for row in rows(made.rejects_path)} == {"Nested too deeply to be a record."}


def test_values_of_a_line_are_bounded_by_a_number(lake, rows, few_values):
    def line(number: int, count: int, text: str = "0") -> bytes:
        others = (json.dumps(lake.record(number)) + "[").count(",") + (json.dumps(lake.record(number)) + "[").count("{")
        return line_of(lake.record(number), new="[" + ",".join([text] * (count - others - 1)) + "]")

    commas = lake.record(5, abstract="a, [b], {c} " * 2000)
    listed = lake.record(6, version={"identifier": 1, "tags": ["x"] * few_values})
    many = {f"k{number}": number for number in range(few_values - 100)}
    lines = [
        line(1, few_values), line(2, few_values + 1), commas, listed, lake.record(7, **many), lake.record(8, **many),
    ]  # fmt: skip
    made = lake.convert(lake.record(0), *lines)
    assert [row["article_id"] - 100 for row in rows(made.path)] == [0, 1, 5, 7, 8]
    told = "It holds more than 5,000 values, which no record does."
    assert [(row["line_number"], row["reason"]) for row in rows(made.rejects_path)] == [(3, told), (5, told)]
    # and where no line has anything unknown
    made = lake.convert(lake.record(1), listed, lake.record(3))
    assert (made.row_count, made.reject_count) == (2, 1)


def test_fields_are_counted_in_bounded_memory_however_many_there_are(lake, small_blocks, monkeypatch):
    monkeypatch.setattr(drift, "PATHS_MAX", 20)
    records = [lake.record(n, **{f"key{n:06}": n, f"other{n:06}": n}) for n in range(60)]
    made = lake.convert(lake.record(1, **{"k" * 5000: "v" * 5000}), *reversed(records), *records)
    *named, others = made.drift
    assert [seen.path for seen in named][:3] == ["key000000", "key000001", "key000002"]
    assert [(seen.count, seen.example) for seen in named] == [(2, str(n)) for n in range(20)]
    assert (others.path, others.count) == (OTHERS, 2 * (2 * 60 - 20) + 1)
    made = lake.convert(lake.record(1, **{"k" * 5000: "v" * 5000}))
    assert [len(seen.path) for seen in made.drift] == [201]
