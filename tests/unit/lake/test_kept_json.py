"""Columns that are kept as JSON: the text is what the record has, byte for byte, whichever way the line was read."""

import json
from pathlib import Path

from resources.datasets import STRUCTURED_ARTICLES
from resources.lake.decode.records import RecordReader

GIVEN = {"snapshot_id": "enwiki_namespace_0", "snapshot_version": "0" * 32, "project_id": "enwiki", "namespace_id": 0}
START = (
    '{"name":"Page","identifier":1,"date_modified":"2026-11-19T05:10:11Z","version":{"identifier":9},'
    '"is_part_of":{"identifier":"enwiki"}'
)
LISTED = [line.split(" | ", 1) for line in Path(__file__).with_name("kept_json.txt").read_text().splitlines()]
KEPT = [
    *(text for kind, text in LISTED if kind == "kept"),
    *('[ {"name" : "A" ,\t"has_parts":[ ] } ]', "[" * 80 + "]" * 80, json.dumps({f"key {n}": n for n in range(700)})),
    json.dumps([{"type": "paragraph", "value": "x" * n} for n in range(70)]),
]
#: What is no JSON, behind the beginning of the reason. `\udcc3` is the byte C3, behind which UTF-8 has another byte.
REFUSED = [(reason, text) for reason, text in LISTED if reason != "kept"]
REFUSED += [("Not valid JSON", '["\t"]'), ("Not valid UTF-8", '["\udcc3("]')]
REFUSED += [("Nested too deeply to be a record.", "[" * 600 + "]" * 600)]


def read(block: bytes, bodies: frozenset[str] = STRUCTURED_ARTICLES.table.bodies):
    rows = RecordReader(STRUCTURED_ARTICLES.table, GIVEN, bodies).read(memoryview(block))
    rows.batch.validate(full=True)
    return rows


def test_the_text_is_kept_as_it_is_written(how):
    rows = read("".join(f'{START},"sections":{text},"infobox":{text}}}\n' for text in KEPT).encode())
    assert len(rows.rejects) == 0
    for column in ("sections_json", "infobox_json"):
        assert rows.batch.column(column).to_pylist() == KEPT
    assert rows.batch.column("extra").null_count == len(KEPT)


def test_null_absent_and_left_out_are_null_and_unknown_fields_beside_it_go_to_extra(how):
    rows = read(f'{START},"sections":null}}\n{START}}}\n{START},"sections" : [1]  }}\n'.encode())
    assert rows.batch.column("sections_json").to_pylist() == [None, None, "[1]"]
    rows = read(f'{START},"sections":[1],"attribution":{{"last_revised":"11/26"}}}}\n'.encode(), frozenset())
    assert rows.batch.column("sections_json").to_pylist() == [None]
    assert rows.batch.column("attribution_json").to_pylist() == ['{"last_revised":"11/26"}']
    rows = read(f'{START},"sections":[1],"mood":"calm","great":1e999}}\n'.encode())
    assert rows.batch.column("extra").to_pylist() == ['{"mood":"calm","great":1e999}']
    assert rows.batch.column("sections_json").to_pylist() == ["[1]"]


def test_what_is_not_json_is_rejected(how):
    lines, good = [f'{START},"sections":{text}}}' for _, text in REFUSED], f'{START},"sections":[1]}}'
    rows = read("".join(f"{bad}\n{good}\n" for bad in lines).encode(errors="surrogateescape"))
    assert rows.batch.column("sections_json").to_pylist() == ["[1]"] * len(lines)
    assert [raw.decode(errors="surrogateescape") for raw in rows.rejects["raw"].to_pylist()] == lines
    for reason, (begin, _) in zip(rows.rejects["reason"].to_pylist(), REFUSED, strict=True):
        assert reason.startswith(begin), reason
