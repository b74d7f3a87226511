"""Archives read record by record: all that is good, and then an error that says what was not."""

import gzip
import io
import json
import tracemalloc
import zlib

import pytest

from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, STRUCTURED_ARTICLES
from resources.enterprise import EnterpriseClient, Service, errors, read_archive, record_model
from resources.enterprise.models import record_model as made
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
    path.write_bytes(
        pack(("a_0.ndjson", lines(3)), ("notes.txt", [b"no record"]), ("a_1.NDJSON", [b"", *lines(2, 3), b" \r"]))
    )
    for archive in (path, str(path)):
        assert [one["n"] for one in read_archive(archive)] == [0, 1, 2, 3, 4]
    with path.open("rb") as file:
        assert len([*read_archive(file)]) == 5
        assert not file.closed
    with EnterpriseClient(Service(), tmp_path / "state") as client:
        assert [one["n"] for one in client.files.read(path)] == [0, 1, 2, 3, 4]
    with pytest.raises(FileNotFoundError):
        next(read_archive(tmp_path / "none.tar.gz"))
    assert {one.name for one in tmp_path.iterdir()} == {"some.tar.gz"}


def test_forms_of_lines_that_are_read():
    members = [
        (
            "a.ndjson",
            b'\xef\xbb\xbf{"n":0}\r\n{"n":12345678901234567890123}\n{"n":1.5}\n{"t":"\\ud83d\\ude00"}\n{"last":1}',
        ),
        ("b.ndjson", b""),
    ]
    found, problem = read(gzip.compress(tar_bytes(members)))
    assert found == [{"n": 0}, {"n": 12345678901234567890123}, {"n": 1.5}, {"t": "\U0001f600"}, {"last": 1}]
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
    bad = [b'{"n":', b"[]", b'{"n":NaN}', b'"secret-value"', b"\xff", b"[" * 100_000, b"1" * 5000]
    found, problem = read(pack(("a.ndjson", [*lines(1), *bad, *lines(1, 1)])))
    assert [one["n"] for one in found] == [0, 1]
    assert problem == (
        "The archive: 7 lines could not be read as records (line 2 of a.ndjson: not JSON; line 3 of a.ndjson: "
        "the line is JSON, but not an object; line 4 of a.ndjson: not JSON; and 4 more). 2 records could be read and "
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
    assert "line 2 of a.ndjson: the record is 31,457,291 bytes long, which exceeds the maximum of 1,048,576" in problem
    assert peak < 8 << 20


@pytest.mark.parametrize("model", [None, made(ARTICLE_CHANGES)], ids=["dict", "model"])
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


def test_typed_records_are_made_from_the_declarations():
    record = {
        "name": "Earth",
        "identifier": 9,
        "version": {
            "identifier": 7,
            "editor": {"name": "A", "is_bot": True},
            "size": {"value": 2.6124e4},
            "tags": ["mw-undo"],
        },
        "date_modified": "2026-11-19T05:10:11.123456789+01:00",
        "date_created": "2026-11-19T05:10:11",
        "categories": [{"name": "Category:X"}],
        "brand_new": {"a": 1},
    }
    [page], problem = read(pack(("a.ndjson", [json.dumps(record).encode()])), record_model(ARTICLE_CHANGES))
    assert problem is None
    assert (page.name, page.identifier, page.version.identifier) == ("Earth", 9, 7)
    assert (page.version.editor.is_bot, page.version.size.value, page.version.tags) == (True, 26124, ("mw-undo",))
    assert page.date_modified.isoformat() == "2026-11-19T04:10:11.123456+00:00"
    assert page.date_created.isoformat() == "2026-11-19T05:10:11+00:00"
    assert (page.categories[0].name, page.categories[0].url) == ("Category:X", None)
    assert (page.article_body, page.event, page.model_extra) == (None, None, {"brand_new": {"a": 1}})
    assert page["brand_new"] == {"a": 1}


def test_a_record_of_another_form_than_its_model_is_named_without_its_values():
    records = [
        {"identifier": 1},
        {"version": {"editor": {"identifier": "secret-value"}}},
        {"date_modified": 5},
        {"n": 1},
    ]
    packed = pack(("a.ndjson", [json.dumps(one).encode() for one in records]))
    found, problem = read(packed, record_model(ARTICLE_CHANGES))
    assert len(found) == 2
    assert "line 2 of a.ndjson: version.editor.identifier: Input should be a valid integer" in problem
    assert "line 3 of a.ndjson: date_modified: Value error, a timestamp must be a string" in problem
    assert "secret" not in problem


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
