"""Every block gives the same rows and rejects with the native decoder and without it."""

import itertools
import json
import pathlib
import random
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from resources.datasets import ARTICLE_CHANGES, Dataset, Family
from resources.lake import Archive
from resources.lake.decode.record_schema import Tree
from resources.lake.decode.records import RecordReader, Rows
from resources.tables import TIMESTAMP, Column, Table
from resources.tables.declaration import BATCH_HOUR, NAMESPACE_ID, PROJECT_ID
from tests.unit.lake.conftest import put

pytestmark = pytest.mark.usefixtures("library")

REAL = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise" / "articles"
BOTH = frozenset({"html", "wikitext"})
HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


def reader(
    bodies: frozenset[str] = BOTH, project: str = "enwiki", namespace: int = 0, dataset: Dataset = ARTICLE_CHANGES
) -> RecordReader:
    archive = Archive(pathlib.Path("x.tar.gz"), "x", "0" * 32, HOUR, project, namespace, dataset=dataset)
    return RecordReader(dataset.table, archive.given, bodies, archive.latest)


def read(block: bytes, how: str, monkeypatch: pytest.MonkeyPatch, **options) -> Rows:
    monkeypatch.setenv("WME_NATIVE", how)
    rows = reader(**options).read(memoryview(block))
    rows.batch.validate(full=True)
    return rows


def compare(block: bytes, monkeypatch: pytest.MonkeyPatch, **options) -> Rows:
    """The rows of both ways, which must be the same."""
    pure, fast = (read(block, how, monkeypatch, **options) for how in "01")
    assert (fast.rejects.to_pylist(), fast.drift) == (pure.rejects.to_pylist(), pure.drift)
    assert fast.line_count == pure.line_count == len(pure.batch) + len(pure.rejects)
    if not fast.batch.equals(pure.batch):
        for mine, theirs in zip(fast.batch.to_pylist(), pure.batch.to_pylist(), strict=True):
            assert mine == theirs
        raise AssertionError("the batches differ in what their rows do not show")
    assert fast.batch.schema.equals(pure.batch.schema, check_metadata=True)
    return fast


def verdicts(block: bytes, monkeypatch: pytest.MonkeyPatch, **options) -> None:
    """Compare the rejects where no line is given a reason of its own, which shows the verdicts."""
    with monkeypatch.context() as patch:
        patch.setattr("resources.lake.decode.records._TOLD", 0)
        pure, fast = (read(block, how, patch, **options) for how in "01")
        assert fast.rejects.to_pylist() == pure.rejects.to_pylist()


TEXTS = [
    "", "plain", "é", "Русский текст " * 3, "日本語" * 20, "🐿 and 𝄞", 'quote " and \\ and / and \b\f\n\r\t',
    "\x00\x01\x1f\x7f", "\u2028<&>\u2029", "x" * 31 + '"' + "y" * 33, "\ufeff\uffff\U0010ffff",
]  # fmt: skip
HERE = pathlib.Path(__file__).parent
LISTED = [line.split(" | ") for line in (HERE / "times.txt").read_text().splitlines()]
TIMES, ODD_TIMES, TIMES_ABOUT_RIGHT = (
    [time for kind, time in LISTED if kind == one] for one in ("valid", "odd", "almost a time")
)
NUMBERS = [*(HERE / "numbers.txt").read_text().split(), "0." + "0" * 30 + "1", "1" * 400, "0." + "3" * 500]
OTHERS = ["null", "true", "false", "nul", "True", "[]", "{}", "[1]", '{"a":1}', '"text"', '""', "[null]", "[[]]", ""]


def value_of(rng: random.Random, declared: pa.DataType, depth: int = 0):
    """A value of a declared type, or null."""
    if rng.random() < 0.06:
        return None
    if pa.types.is_struct(declared):
        fields = {item.name: value_of(rng, item.type, depth + 1) for item in declared if rng.random() < 0.8}
        if rng.random() < 0.02:
            fields["new"] = value_of(rng, pa.string())
        return fields
    if pa.types.is_list(declared):
        return [value_of(rng, declared.value_type, depth + 1) for _ in range(rng.choice([0, 1, 2, 5]))]
    if pa.types.is_timestamp(declared):
        return rng.choice(TIMES if rng.random() < 0.99 else ODD_TIMES)
    if pa.types.is_boolean(declared):
        return rng.random() < 0.5
    if pa.types.is_integer(declared):
        return rng.choice([0, 1, -1, rng.randrange(10**9), 2**63 - 1, -(2**63), rng.randrange(-(2**63), 2**63)])
    if pa.types.is_floating(declared):
        huge = rng.random() * 10 ** rng.randrange(-300, 300)
        return rng.choice([0, 1, 0.5, rng.random(), huge, rng.randrange(10**15)])
    return rng.choice(TEXTS) if rng.random() < 0.8 else "t" * rng.randrange(200)


def record_of(rng: random.Random, table: Table = ARTICLE_CHANGES.table) -> dict:
    """A record with any of the declared fields in any order, now and then with unknown ones."""
    record: dict = {}
    fixed = {"project_id": "enwiki", "namespace_id": 0} if rng.random() < 0.95 else {}
    wanted = {column.first_of[-1] for column in table if column.required and column.first_of}
    for column in rng.sample(table.columns, len(table.columns)):
        is_wanted = column.required or column.name in wanted
        if column.path is None or (not is_wanted and rng.random() < 0.6):
            continue
        value = rng.choice([0, 12, 2**53 - 1, -3, 17]) if column.wire else value_of(rng, column.type)
        if column.json:
            value = rng.choice([value, {"a": [value, {"b": {}}], "c": 1.5e300}, [[[]], value, True]])
        if column.values and rng.random() < 0.9:
            value = rng.choice(column.values)
        if is_wanted and not value and rng.random() < 0.8:
            value = {"string": "Page", "int64": 1}.get(str(column.type), TIMES[0])
        put(record, column.path, fixed.get(column.name, value))
        if rng.random() < 0.002:
            parent = column.path.rpartition(".")[0]
            new = rng.choice([1, None, "x", [1, {"a": []}], {"b": {"c": 0.1}}, "é\u2028"])
            put(record, f"{parent}.new".lstrip("."), new)
    if rng.random() < 0.02:
        record[rng.choice(["image", "version", "event", "visibility"])] = rng.choice([None, {}, [], 1])
    return record


def text_of(rng: random.Random, value) -> str:
    """JSON in one of the ways that services write it."""
    way = rng.randrange(4)
    if way == 0:
        return json.dumps(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":") if way == 1 else (" ,\t", "  : "))
    return text.replace("<", "\\u003c").replace("&", "\\u0026").replace("/", "\\/" if way == 3 else "/")


PIECES = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\n", b"\r", b"\t", b" ", b"\xef\xbb\xbf", b"\xff"),
    *(b"\\u", b"\\u00", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\ud83d\\u0041", b"\\x", b"\\/", b"\\u0000"),
    *(b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\xe3\x81", b"\xe0\x80\x80", b"\xf0\x8f\xbf\xbf"),
    *(b"null", b"true", b'"a":1,', b',"a":1', b"{}", b"0", b"-", b"1e5", b"\\uDBFF\\uDFFF", b"\\uFFFF", b"/", b"\x7f"),
]


def spoil(rng: random.Random, line: bytes) -> bytes:
    """The line with one damage."""
    at = rng.randrange(len(line) + 1)
    match rng.randrange(12):
        case 0 if line:
            place = min(at, len(line) - 1)
            return line[:place] + bytes([line[place] ^ 1 << rng.randrange(8)]) + line[place + 1 :]
        case 1:
            return line[:at]
        case 2:
            return line[:at] + rng.choice(PIECES) + line[at:]
        case 3:
            return line[:at] + line[min(len(line), at + rng.randrange(1, 9)) :]
        case 4:
            tails = [b" ", b"\r", b"\t\r ", b",", b"}", b"x", b"\x00", b"{}"]
            return line + rng.choice([line, line, line + b"\n", *tails])
        case 5:
            return rng.choice([b"\xef\xbb\xbf", b" ", b"\t", b"\r", b"\x00", b"[", b"{"]) + line
        case 6:  # another value for a key, or twice the same key
            parts = line.split(b":")
            place = rng.randrange(1, len(parts)) if len(parts) > 1 else 0
            other = rng.choice([*NUMBERS, *OTHERS, *(json.dumps(time) for time in ODD_TIMES)]).encode()
            parts[place] = other + b"," + parts[place].rpartition(b",")[2]
            return b":".join(parts)
        case 7:
            key = rng.choice([b'"name":"x"', b'"url":null', b'"event":{}', b'"version":null', b'"categories":[]'])
            return line.rstrip()[:-1] + b"," + key + b"}"
        case 8:
            depth = rng.choice([3, 62, 63, 64, 65, 300, 3000])
            deep = b'[{"a":' * depth + b"1" + b"}]" * depth
            return line.rstrip()[:-1] + b',"deep":' + deep + b"}"
        case 9:
            texts = ('"\\ud800"', '"\\u00e9"', '{"a":1,"a":2}', "[1}", '{"é":[ ]}', '"\xe9')
            unknown = rng.choice([*NUMBERS, *OTHERS, *texts])
            name = rng.choice(["new", "né", "n\\u0061me", "nam\\u0065", "", "new\t", "date_modified2", "a.b"])
            return line.rstrip()[:-1] + f',"{name}":{unknown}}}'.encode()
        case 10:
            beginnings = [b"", b" \t", b"{}", b"null", b"[]", b"{", b'{"', b'{"name', b'{"name":']
            return rng.choice([*beginnings, rng.randbytes(30)])
    return line.replace(rng.choice([b"date_modified", b"identifier", b"name", b"value"]), b"renamed", 1)


@pytest.mark.parametrize("first", [b"null", b" null ", b"\nnull", b"[1]", b"1", b'"x"', b""])
def test_first_value_of_a_block(lake, first, monkeypatch):
    assert len(compare(first + b"\n" + json.dumps(lake.record(1)).encode(), monkeypatch).batch) == 1
    compare(first, monkeypatch)


def campaign(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a block of records, some of them spoilt."""
    rng = random.Random(seed)
    bodies = rng.choice([BOTH, BOTH, frozenset(), frozenset({"wikitext"})])
    share, lines = rng.choice([0, 0.02, 0.3, 1]), []
    for _ in range(rng.choice([1, 5, 30])):
        line = text_of(rng, record_of(rng)).encode()
        while rng.random() < share:
            line = spoil(rng, line)
            if rng.random() < 0.7:
                break
        lines.append(line)
    block = rng.choice([*[b"\n"] * 3, b"\r\n", b"\n\n"]).join(lines) + rng.choice([b"", b"\n", b"\n\n", b"\n \n"])
    compare(block, monkeypatch, bodies=bodies)
    verdicts(block, monkeypatch, bodies=bodies)


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 16), *(pytest.param(first, 500, marks=pytest.mark.soak) for first in range(10_000, 20_000, 500))],
)
def test_spoiled_records(first, count, monkeypatch):
    for seed in range(first, first + count):
        try:
            campaign(seed, monkeypatch)
        except BaseException as error:
            error.add_note(f"The seed is {seed}.")
            raise


def test_values_at_places_of_every_type(lake, monkeypatch):
    """A good line, and lines with a value, alone and in a list, at places of every type."""
    good = json.dumps(lake.record(1)).encode()
    places = (
        *("identifier", "abstract", "date_created", "version.size.value", "version.is_minor_edit", "version.tags"),
        *("version.scores.revertrisk.probability.true", "image.thumbnail", "categories", "version", "event.type"),
        *("version.diff.dictionary_words.proportional_increase", "article_body.html", "version.diff", "new"),
    )
    lines = [json.dumps(put(lake.record(2), path, "HERE")) for path in places]
    blocks = [
        b"\n".join([good, *(line.replace('"HERE"', one).encode() for line in lines for one in (text, f"[{text}]"))])
        for text in (*NUMBERS, *OTHERS, *(json.dumps(time) for time in TIMES + ODD_TIMES + TIMES_ABOUT_RIGHT))
    ]
    # two blocks at a time: of more rejected lines, not all would be given a reason of their own
    for one, other in itertools.zip_longest(blocks[::2], blocks[1::2], fillvalue=b""):
        compare(one + b"\n" + other, monkeypatch)
    # also of a body that is not kept
    verdicts(b"\n".join(blocks), monkeypatch, bodies=frozenset())


TEXT, INT, BOOL, DOUBLE = pa.string(), pa.int64(), pa.bool_(), pa.float64()


def dataset(*columns: Column) -> Dataset:
    return Dataset(Table("readings", "", columns), Family.HOURLY, "readings", "readings", "")


READINGS = dataset(
    Column("reading", TEXT, "", "id", required=True, lookup=True),
    BATCH_HOUR,
    replace(NAMESPACE_ID, path="at.namespace", required=False),
    replace(PROJECT_ID, path=None),
    Column("kind", TEXT, "", "kind.code", default="dry", values=("wet", "dry")),
    Column("sky", TEXT, "", "sky", values=("clear", "")),
    Column("note", TEXT, "", "kind.note", default="none"),
    Column("label", TEXT, "", first_of=("short", "note", "long"), values=("Page", "none", "plain", "")),
    Column("short", TEXT, "", "label.short"),
    Column("long", TEXT, "", "label.long", lookup=True),
    Column("seen_at", TIMESTAMP, "", first_of=("first_at", "last_at"), required=True),
    Column("first_at", TIMESTAMP, "", "first"),
    Column("last_at", TIMESTAMP, "", "at.last"),
    Column("is_good", BOOL, "", first_of=("good", "fine")),
    Column("good", BOOL, "", "good"),
    Column("fine", BOOL, "", "fine"),
    Column("score", DOUBLE, "", first_of=("mean", "most")),
    Column("mean", DOUBLE, "", "score.mean"),
    Column("most", DOUBLE, "", "score.most"),
    Column("count", INT, "", "count", wire=DOUBLE),
    Column("parts", pa.list_(pa.struct([("n", INT), ("texts", pa.list_(TEXT))])), "", "parts"),
    Column("later", pa.struct([("a", TEXT), ("b", pa.list_(INT))]), ""),
    Column("text", TEXT, "", "text", body=True),
    Column("shape_json", TEXT, "", "at.shape", json=True),
)
COUNTS = dataset(PROJECT_ID, NAMESPACE_ID, BATCH_HOUR, Column("n", INT, "", "n"), Column("extra", TEXT, ""))


LISTS = (Column("l", pa.list_(TEXT), "", "l"), Column("f", pa.list_(TEXT), "", first_of=("l",)))
UNKNOWN = {
    "type int32 cannot be read": (Column("m", pa.int32(), "", "m"),),
    "more than 48 bytes": (Column("w", TEXT, "", "w" * 49),),
    "cannot be the first of several": LISTS,
}


@pytest.mark.parametrize(("why", "columns"), UNKNOWN.items(), ids=UNKNOWN)
def test_declarations_that_the_decoder_does_not_know_are_refused(why, columns):
    with pytest.raises(ValueError, match=why):
        Tree(dataset(*COUNTS.table, *columns).table, frozenset())


@pytest.mark.parametrize("dataset", [READINGS, COUNTS], ids=["readings", "counts"])
def test_tables_of_other_kinds(dataset, monkeypatch):
    rng, kept, rejected = random.Random(len(dataset.table.columns)), 0, set()
    for _ in range(30):
        lines = [text_of(rng, record_of(rng, dataset.table)).encode() for _ in range(rng.choice([1, 4, 30]))]
        if rng.random() < 0.5:
            lines[rng.randrange(len(lines))] = spoil(rng, rng.choice(lines))
        found = compare(b"\n".join(lines), monkeypatch, dataset=dataset, bodies=dataset.table.bodies)
        kept += len(found.batch)
        rejected |= {*found.rejects["reason"].to_pylist()}
        assert set(found.batch.column("project_id").to_pylist()) <= {"enwiki"}
        assert set(found.batch.column("namespace_id").to_pylist()) <= {0}
        assert set(found.batch.column("batch_hour").to_pylist()) <= {HOUR}
    assert kept > 20
    if dataset is READINGS:
        assert rejected >= {
            "id is empty.",
            "id is missing, and no row can be without it.",
            "each of first, at.last is missing, and no row can be without it.",
            "label is not one of Page, none, plain, .",
        }


def test_columns_that_follow_from_others(monkeypatch):
    lines = [
        {"id": "a", "first": TIMES[0], "label": {"long": ""}, "good": None, "fine": False, "score": {"most": 2}},
        {"id": "b", "at": {"last": TIMES[1]}, "kind": {"code": "wet", "note": "Page"}, "good": True, "fine": False},
        {"id": "c", "first": TIMES[0], "at": {"namespace": 1}},
        {"id": "d", "first": TIMES[0], "kind": {"code": "green"}},
    ]
    rows = compare("\n".join(map(json.dumps, lines)).encode(), monkeypatch, dataset=READINGS)
    told = ("kind", "note", "label", "is_good", "score", "namespace_id", "later")
    assert [[row[name] for name in told] for row in rows.batch.to_pylist()] == [
        ["dry", "none", "none", False, 2.0, 0, None],
        ["wet", "Page", "Page", True, None, 0, None],
    ]
    assert rows.rejects["reason"].to_pylist() == [
        "at.namespace is not 0, which the archive is of.",
        "kind.code is not one of wet, dry.",
    ]
