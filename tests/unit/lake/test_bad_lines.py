"""Good lines are kept, bad ones are rejects with their place, reason and bytes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources.lake import ArchiveError, convert
from tests.unit.lake.conftest import put

_LINES = Path(__file__).with_name("bad_lines.txt").read_text().splitlines()
#: Bad lines by name, each with a part of its reason.
BAD_LINES = {
    name: (eval(f"b{line}"), reason.strip())
    for (name, line), reason in zip((one.split(": b", 1) for one in _LINES[::2]), _LINES[1::2], strict=True)
}
#: Values that a place cannot have (`...`: none), and below each the reason.
BAD_VALUES = Path(__file__).with_name("bad_values.txt").read_text().splitlines()


def test_each_bad_line_among_good_ones_has_its_place_and_reason(lake, rows):
    lines = [one for number, (bad, _) in enumerate(BAD_LINES.values()) for one in (lake.record(number), bad)]
    made = lake.convert(*lines)
    assert [row["article_id"] for row in rows(made.path)] == [100 + number for number in range(len(BAD_LINES))]
    assert (made.row_count, made.reject_count) == (len(BAD_LINES), len(BAD_LINES))
    archive = lake.layout.relative(lake.archive(lake.lines(*lines)).path).removeprefix("archive/")
    for number, (reject, (bad, reason)) in enumerate(zip(rows(made.rejects_path), BAD_LINES.values(), strict=True)):
        assert reason in reject.pop("reason")
        assert reject == {
            "batch_hour": lake.hour,
            "project_id": "enwiki",
            "namespace_id": 0,
            "archive": archive,
            "member": "enwiki_namespace_0_0.ndjson",
            "line_number": 2 * number + 2,
            "byte_offset": len(lake.lines(*lines[: 2 * number + 1])),
            "raw": bad,
            "raw_bytes": len(bad),
            "raw_path": None,
            "raw_offset": None,
        }


def test_values_of_other_types_missing_keys_and_other_broken_rules_have_their_reasons(lake, rows):
    timeless = {key: value for key, value in lake.record(2).items() if key not in {"event", "date_modified"}}
    parts = {"is_part_of": "e", "namespace": 0, "version": 1}
    brief = {"identifier": 1, "name": ""} | {part: {"identifier": value} for part, value in parts.items()}
    no_time = "event.date_published, event.date_created, date_modified is missing, and no row can be without it."
    bad = (line.split(" = ") for line in BAD_VALUES[::2])
    records = [put(lake.record(2), path, eval(value)) for path, value in bad]
    records += [timeless, json.dumps(brief, separators=(",", ":")).encode()]
    made = lake.convert(put(lake.record(1), "name", "x" * 500 + "y"), *records)
    assert made.row_count == 1
    reasons = [*map(str.strip, BAD_VALUES[1::2]), *[f"each of {no_time}"] * 2]
    assert [(row["line_number"], row["reason"]) for row in rows(made.rejects_path)] == [*enumerate(reasons, 2)]


@pytest.mark.parametrize(("path", "value"), [("is_part_of.identifier", "frwiki"), ("namespace.identifier", 14)])
def test_an_archive_of_another_project_alone_is_damaged_and_one_record_of_its_own_is_kept(lake, rows, path, value):
    strangers = [put(lake.record(number), path, value) for number in range(3)]
    with pytest.raises(ArchiveError, match=r"none from enwiki namespace 0 .*Nothing was written to the lake"):
        lake.convert(*strangers, *[b"[1]"] * 60_000)  # in two blocks
    assert not list(lake.layout.lake.rglob("*.parquet"))
    made = lake.convert(*strangers, lake.record(7))
    assert (made.row_count, made.reject_count, len(rows(made.rejects_path))) == (1, 3, 3)  # whole, with the reason
    # what is no record at all is no other project's
    assert lake.convert(b"[1]", b"7").reject_count == 2


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_line_endings_blank_lines_and_byte_order_mark(lake, rows, ending, mark, last, how):
    lines = [json.dumps(lake.record(n)).encode() for n in (1, 2)]
    data = mark + ending.join([lines[0], b"", b"  \t", b"oops", lines[1], b""])
    data = data if last else data.removesuffix(ending)
    made = convert(lake.archive(data), lake.layout)
    assert [row["article_id"] for row in rows(made.path)] == [101, 102]
    (reject,) = rows(made.rejects_path)
    assert (reject["line_number"], reject["byte_offset"]) == (4, data.index(b"oops"))
    assert (reject["raw"], made.ndjson_bytes) == (b"oops" + ending.removesuffix(b"\n"), len(data))


NINE = datetime(2026, 11, 19, 9, tzinfo=UTC)
#: Times as JSON text with what the row holds, and those that make a reject.
TIMES = {
    '"2026-11-19"': NINE.replace(hour=0),
    **dict.fromkeys(('"2026-11-19T09"', '"2026-11-19 09:00"', '"2026-11-19T09:00:00Z"'), NINE),
    '"2026-11-19T09:00:00.000001Z"': NINE.replace(microsecond=1),
    '"2026-11-19T10:30:00+01:30"': NINE,
    "null": None,
}
NO_TIMES = ['"2026-11-19T09:00:00.0000001Z"', '"20261119T090000Z"', '""', "1795078800"]


def test_forms_of_times(lake, rows):
    line = json.dumps(lake.record(2, date_created="HERE"))
    lines = [line.replace('"HERE"', text).encode() for text in (*TIMES, *NO_TIMES)]
    made = lake.convert(*lines)
    assert [row["created_at"] for row in rows(made.path)] == [*TIMES.values()]
    rejects = rows(made.rejects_path)
    assert [reject["raw"] for reject in rejects] == lines[len(TIMES) :]
    for reject in rejects:
        assert reject["reason"].startswith("date_created is the ")
        assert reject["reason"].endswith(" is declared.")
