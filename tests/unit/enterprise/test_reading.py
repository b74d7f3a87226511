"""Records: archives read one by one, and models that keep all that was sent."""

import datetime as dt
import gzip
import io
import json
import random
import time
import tracemalloc
import zlib
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, STRUCTURED_ARTICLES
from resources.enterprise import EnterpriseClient, Service, errors, models, read_archive, record_model
from resources.enterprise.listing import OddRecord, list_of
from resources.enterprise.stream_connection import Records
from tests.unit.enterprise.test_streams import event
from tests.unit.enterprise.test_streams import lines as stream_lines
from tests.unit.lake.conftest import tar_bytes


def pack(*members):
    """An archive of members, each a name and its lines."""
    named = [(name, b"".join(line + b"\n" for line in lines)) for name, lines in members]
    return gzip.compress(tar_bytes(named), 6, mtime=0)


def lines(count, begin=0, size=20):
    return [json.dumps({"n": number, "text": "x" * size}).encode() for number in range(begin, begin + count)]


def read(packed, *model, **options):
    """What came, and the error at the end."""
    found = []
    try:
        found.extend(read_archive(io.BytesIO(packed), *model, **options))
    except errors.IntegrityError as error:
        return found, error.message
    return found, None


def test_records_of_all_members_in_order_from_a_path_a_file_and_a_client_without_an_account(tmp_path):
    path = tmp_path / "some.tar.gz"
    path.write_bytes(pack(("a_0.ndjson", lines(3)), ("n.txt", [b"none"]), ("a_1.NDJSON", [b"", *lines(2, 3), b" \r"])))
    for archive in (path, str(path)):
        assert [one["n"] for one in read_archive(archive)] == [0, 1, 2, 3, 4]
    with path.open("rb") as file:
        assert len([*read_archive(file)]) == 5
        assert not file.closed
    with EnterpriseClient(Service(), tmp_path / "state") as client:
        records = client.files.read(path, models.Record)
        assert [(type(one), one["n"]) for one in records] == [(models.Record, number) for number in range(5)]
    with pytest.raises(FileNotFoundError):
        next(read_archive(tmp_path / "none.tar.gz"))
    path.write_bytes(path.read_bytes()[:-9])
    with path.open("rb") as file:
        for archive in (path, file):
            with pytest.raises(errors.IntegrityError, match=f"^{path}: the gzip data is damaged"):
                [*read_archive(archive)]
    assert {one.name for one in tmp_path.iterdir()} == {"some.tar.gz"}


def test_forms_of_lines_that_are_read():
    text = b'\xef\xbb\xbf{"n":0}\r\n{"n":12345678901234567890123}\n{"n":1.5}\n{"t":"\\ud83d\\ude00"}\n{"last":1}'
    packed = gzip.compress(tar_bytes([("a.ndjson", text), ("b.ndjson", b"\xef\xbb\xbf{}")]))
    found, problem = read(packed, record_bytes_max=max(map(len, text.split(b"\n"))))
    assert found == [{"n": 0}, {"n": 12345678901234567890123}, {"n": 1.5}, {"t": "\U0001f600"}, {"last": 1}, {}]
    assert problem is None


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9])
def test_a_truncated_archive_gives_every_record_before_its_end(share):
    packed = pack(("a_0.ndjson", lines(9000)), ("a_1.ndjson", lines(9000, 9000, size=700)))
    cut = packed[: int(len(packed) * share)]
    there = zlib.decompressobj(31).decompress(cut)
    found, problem = read(cut)
    assert [one["n"] for one in found] == [*range(len(found))]
    assert len(found) == there.count(b'"}\n') > 0
    assert "the gzip data is damaged or truncated" in problem
    assert f"{len(found):,} records could be read and were returned before this error." in problem
    assert "Fetch the archive again" in problem


def test_an_archive_without_its_last_bytes_or_with_others_is_no_good_archive():
    packed = pack(("a.ndjson", lines(3)))
    for missing in (1, 4, 8, 9):
        found, problem = read(packed[:-missing])
        assert (len(found), "damaged or truncated" in problem) == (3, True)
    found, problem = read(packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:])  # of the checksum
    assert (len(found), "CRC" in problem) == (3, True)
    tar = gzip.decompress(packed)
    for what, words in (
        (tar[: 512 + 60], "the tar file is truncated (in member a.ndjson"),
        (tar[:1024], "the tar file is truncated"),
        (tar[:1024] + b"x" * 512, "the tar is damaged"),
        (tar_bytes([("a.txt", b"x")]), "the archive contains no .ndjson member, only a.txt"),
    ):
        assert words in read(gzip.compress(what))[1]
    assert "Not a gzipped file" in read(b"plain text")[1]
    assert "0 records could be read" in read(b"")[1]


def test_lines_that_are_no_records_are_named_after_the_others():
    bad = [b'{"n":', b"[]", b'{"n":NaN}', b'"secret-value"', b"\xff", b"[" * 100_000, b"1" * 5000, BOM_UTF8 + b"{}"]
    found, problem = read(pack(("a.ndjson", lines(1)), ("b.ndjson", [b" ", *bad, *lines(1, 1)])))
    assert [one["n"] for one in found] == [0, 1]
    assert problem == (
        "The archive: 8 lines could not be read as records (line 2 of b.ndjson: not JSON; line 3 of b.ndjson: "
        "the line is JSON, but not an object; line 4 of b.ndjson: not JSON; and 5 more). 2 records could be read and "
        "were returned before this error. Report these lines to the vendor."
    )


def test_a_line_that_is_too_long_is_passed_over_in_bounded_memory():
    long = b'{"text":"' + b"x" * (30 << 20) + b'"}'
    packed = pack(("a.ndjson", [*lines(1), long, *lines(1, 1)]))
    del long
    tracemalloc.start()
    found, problem = read(packed, record_bytes_max=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one["n"] for one in found] == [0, 1]
    told = "line 2 of a.ndjson: the record is 31,457,291 bytes long, which exceeds the maximum of 1,048,576"
    assert problem.startswith(f"The archive: 1 line could not be read as a record ({told}). 2 records could be read")
    assert peak < 8 << 20


@pytest.mark.parametrize("model", [None, record_model(ARTICLE_CHANGES)], ids=["dict", "model"])
def test_memory_is_that_of_the_longest_record_and_not_of_the_archive(model):
    size = 4 << 20
    record = json.dumps({"article_body": {"html": "ü" * (size // 2)}}, ensure_ascii=False).encode()
    packed = pack(("a_0.ndjson", [record] * 8), ("a_1.ndjson", [record] * 8))
    tracemalloc.start()
    count = sum(1 for _ in read_archive(io.BytesIO(packed), model))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 16
    assert peak < 5 * size


def test_typed_records_are_made_from_the_declarations(monkeypatch):
    editor = {"name": "A", "is_bot": True}
    record = {
        "name": "Earth", "identifier": 9,
        "version": {"identifier": 7, "editor": editor, "size": {"value": 2.6124e4}, "tags": ["mw-undo", None]},
        "date_modified": "2026-11-19T05:10:11.123456789+01:00", "date_created": "2026-11-19T05:10:11",
        "categories": [{"name": "Category:X"}], "brand_new": {"a": 1},
    }  # fmt: skip
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    [page], problem = read(pack(("a.ndjson", [json.dumps(record).encode()])), record_model(ARTICLE_CHANGES))
    monkeypatch.undo()
    time.tzset()
    assert problem is None
    assert (page.name, page.identifier, page.version.identifier) == ("Earth", 9, 7)
    assert (page.version.editor.is_bot, page.version.size.value, page.version.tags) == (True, 26124, ("mw-undo", None))
    assert page.date_modified.isoformat() == "2026-11-19T04:10:11.123456+00:00"
    assert page.date_created.isoformat() == "2026-11-19T05:10:11+00:00"
    assert (page.categories[0].name, page.categories[0].url) == ("Category:X", None)
    assert (page.article_body, page.event, page.model_extra) == (None, None, {"brand_new": {"a": 1}})
    assert page["brand_new"] == {"a": 1}


def test_a_record_of_another_form_than_its_model_is_named_without_its_values():
    records = [{"n": 1}, {"version": {"editor": {"identifier": "secret-value"}}}, {"date_modified": 5}, {"n": 1}]
    packed = pack(("a.ndjson", [json.dumps(one).encode() for one in records]))
    found, problem = read(packed, record_model(ARTICLE_CHANGES))
    assert len(found) == 2
    assert "line 2 of a.ndjson: version.editor.identifier: Input should be a valid integer" in problem
    assert "line 3 of a.ndjson: date_modified: Value error, a timestamp must be a string" in problem
    assert ("secret" in problem, "more)" in problem) == (False, False)


def paths_of(model, before=""):
    """The dotted places of a model's fields, and those of the models inside."""
    for name, field in model.model_fields.items():
        inner = [one for one in getattr(field.annotation, "__args__", ()) if hasattr(one, "model_fields")]
        yield before + name
        for one in inner:
            yield from paths_of(one, f"{before}{name}.")


@pytest.mark.parametrize("dataset", [ARTICLE_CHANGES, STRUCTURED_ARTICLES, ENTITY_CHANGES], ids=lambda one: one.name)
def test_a_model_has_a_field_for_every_declared_place(dataset):
    declared = {column.path for column in dataset.table if column.path is not None}
    assert declared <= set(paths_of(record_model(dataset)))
    assert record_model(dataset) is record_model(dataset)


RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded lists (../shared/data/real) are not here")

#: The model of a file by what its name has in it, and otherwise that of entries.
MODELS = {"batch": models.Batch, "snapshot": models.Snapshot, "chunk": models.Chunk}
FILES = sorted([*RECORDED.glob("metadata/*"), *RECORDED.glob("readme-samples/*")])
LISTS = [path for path in FILES if path.name not in {"error.json", "ondemand-03.json"}]


def same(wire, dumped):
    """Every value of the record is in the model; dates at the microsecond."""
    if isinstance(wire, dict):
        return all(key in dumped and same(value, dumped[key]) for key, value in wire.items())
    if isinstance(wire, list):
        return len(wire) == len(dumped) and all(map(same, wire, dumped))
    if isinstance(dumped, dt.datetime):
        head, _, fraction = wire.removesuffix("Z").partition(".")
        return dumped == dt.datetime.fromisoformat(f"{head}.{fraction[:6]:0<6}+00:00")
    return wire == dumped


@recorded
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_recorded_lists_parse_with_no_field_lost(path):
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.suffix == ".ndjson":
        raw = b"[" + b",".join(raw.splitlines()) + b"]"
    elif not raw.lstrip().startswith(b"["):
        raw = b"[" + raw + b"]"
    model = next((model for part, model in MODELS.items() if part in path.name), models.Entry)
    records, wire = list_of(model).validate_json(raw), json.loads(raw)
    assert len(records) == len(wire) > 0
    for told, record in zip(wire, records, strict=True):
        if isinstance(record, OddRecord):  # one of them has a version of 33 digits, which is no MD5
            assert len(told["version"]) == 33
            assert record.problem.startswith("version: ")
        else:
            assert same(told, record.model_dump())


@recorded
def test_recorded_sizes_add_up():
    records = TypeAdapter(tuple[models.Batch, ...]).validate_json((RECORDED / "metadata" / "batches.json").read_bytes())
    assert sum(r.approximate_bytes for r in records) == pytest.approx(4_478e6, rel=0.001)


def batch(**changes):
    record = {
        "identifier": "enwiki_namespace_0", "version": "0" * 32, "date_modified": "2026-11-01T06:04:11.123456789Z",
        "is_part_of": {"identifier": "enwiki"}, "namespace": {"identifier": 0},
    }  # fmt: skip
    return models.Batch.model_validate_json(json.dumps(record | changes).replace('"EXPONENT"', "126211.488e0"))


def test_exponents_nanoseconds_units_and_unknown_fields_are_read():
    record = batch(size={"value": "EXPONENT", "unit_text": "MB"})
    assert record.date_modified == dt.datetime(2026, 11, 1, 6, 4, 11, 123456, dt.UTC)
    assert record.approximate_bytes == 126_211_488_000
    for unit, size in (("B", 5), ("kB", 5000), ("GB", 5 * 10**9), ("?", 0)):
        assert batch(size={"value": 5, "unit_text": unit}).approximate_bytes == size
    assert batch().approximate_bytes == 0
    record = batch(name="Wikipedia", checksum={"sha": "1"})
    assert record.model_extra == {"name": "Wikipedia", "checksum": {"sha": "1"}}
    with pytest.raises(ValueError, match="frozen"):
        record.version = "other"


class TestFramingOfStreams:
    RECORDS = tuple(event(1, number, body="x" * (number * 37 % 300)) for number in range(40))

    @pytest.mark.parametrize("seed", range(8))
    def test_pieces_may_be_cut_anywhere(self, seed):
        chance, plain = random.Random(seed), stream_lines(*self.RECORDS)
        ends = chance.choice([b"\n", b"\r\n"])
        sent, records = plain.replace(b"\n", ends), Records(10_000)
        found, at = b"", 0
        while at < len(sent):
            size = chance.randint(1, 400)
            found += records.feed(sent[at : at + size])
            at += size
        assert [json.loads(line) for line in found.splitlines()] == list(self.RECORDS)
        # blank lines are no records, and a cut record is none
        records = Records(100)
        assert records.feed(b"\n\n" + stream_lines({"a": 1}) + b"\n" + b'{"b":') == b'{"a": 1}\n'
        assert records.feed(b"1}\n") == b'{"b":1}\n'
        assert records.feed(b'\n{"a": 1}\n') == b'{"a": 1}\n'
        # carriage returns within a record stay
        assert Records(1_000).feed(b'{"a":\r1}\r\n\r\n \r\n') == b'{"a":\r1}\n'

    @pytest.mark.parametrize("size", [7, 90, 5_000])
    def test_a_record_that_is_too_long_is_left_out_and_those_beside_it_are_not(self, size, caplog):
        plain = stream_lines(event(1, 1), event(1, 2, body="x" * 2_000), event(1, 3))
        records = Records(1_000)
        found = b"".join(records.feed(plain[at : at + size]) for at in range(0, len(plain), size))
        # what comes in one piece is in memory already
        wanted = [json.loads(line) for line in plain.splitlines()]
        assert [json.loads(line) for line in found.splitlines()] == (wanted[::2] if size < 1_000 else wanted)
        assert records.left_out == (size < 1_000)
        assert ("was skipped, because the maximum is 1,000" in caplog.text) == (size < 1_000)

    def test_a_record_without_an_end_ends_the_stream(self):
        records = Records(1_000)
        for _ in range(160):
            records.feed(b"x" * 100)
        with pytest.raises(errors.ServiceUnavailable, match="has not ended after 16,000 bytes") as raised:
            records.feed(b"x")
        assert raised.value.retryable  # the connection is opened again
