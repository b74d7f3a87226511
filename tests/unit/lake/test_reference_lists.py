import json
import pathlib

import pyarrow.parquet as pq
import pytest

from resources import datasets
from resources.datasets import named
from resources.lake import ListError, convert_list, lists

REAL = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise" / "metadata"


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded lists are not beside this checkout")
@pytest.mark.parametrize(("kind", "count"), [("codes", 7), ("languages", 339), ("projects", 892), ("namespaces", 4)])
def test_recorded_lists(lake, rows, kind, count):
    raw = (REAL / f"{kind}.json").read_bytes()
    made = convert_list(named(kind), raw, lake.layout)
    assert (made.row_count, made.converted) == (count, True)
    found = rows(made.path)
    identifier = f"{kind.removesuffix('s')}_id" if kind != "codes" else "code"
    assert [row[identifier] for row in found] == [record["identifier"] for record in json.loads(raw)]
    assert [row["name"] for row in found] == [record.get("name") for record in json.loads(raw)]


def test_project_with_unknown_fields(lake, rows):
    language = {"identifier": "en", "speakers": 7}
    project = {"identifier": "enwiki", "in_language": language, "url": "u", "size": {"value": 1.5}}
    made = convert_list(named("projects"), json.dumps([project, {"identifier": "dewiki"}]).encode(), lake.layout)
    first, second = rows(made.path)
    assert (first["project_id"], first["language_id"], first["url"]) == ("enwiki", "en", "u")
    assert json.loads(first["extra"]) == {"in_language": {"speakers": 7}, "size": {"value": 1.5}}
    assert set(second.values()) == {"dewiki", None}


def test_a_list_is_written_once_and_as_declared(lake, monkeypatch):
    first = convert_list(named("codes"), b'[{"identifier":"wiki"}]', lake.layout)
    again = convert_list(named("codes"), b'[{"identifier":"wiki"}]', lake.layout)
    other = convert_list(named("codes"), b'[{"identifier":"wiki"},{"identifier":"wiktionary"}]', lake.layout)
    assert (first.converted, again.converted, other.converted) == (True, False, True)
    assert first.path == again.path != other.path
    assert first.path == lake.layout.lake / "codes" / f"codes.{first.digest[:8]}.parquet"
    assert (first.row_count, again.row_count, other.row_count) == (1, 1, 2)
    for dataset in datasets.LISTS:
        assert pq.read_schema(convert_list(dataset, b"[]", lake.layout).path).equals(dataset.table.schema)
    monkeypatch.setattr(lists, "LISTS_VERSION", lists.LISTS_VERSION + 1)
    assert convert_list(named("codes"), b'[{"identifier":"wiki"}]', lake.layout).path != first.path


def test_a_damaged_file_is_written_again(lake):
    raw = b'[{"identifier":"wiki","name":"Wikipedia, the encyclopedia"}]'
    path = convert_list(named("codes"), raw, lake.layout).path
    content = path.read_bytes()
    place = content.index(b"encyclopedia")
    for wrong in (b"", content[:-9], content[:place] + b"E" + content[place + 1 :]):
        path.write_bytes(wrong)
        assert convert_list(named("codes"), raw, lake.layout).converted
        assert path.read_bytes() == content


BAD = [line.split(" => ") for line in pathlib.Path(__file__).with_name("bad_lists.txt").read_text().splitlines()]


@pytest.mark.parametrize(("raw", "words"), BAD)
def test_lists_of_another_form(lake, raw, words):
    with pytest.raises(ListError) as caught:
        convert_list(named("codes"), raw.encode(), lake.layout)
    assert words in str(caught.value)
    assert not lake.layout.lake.exists()


def test_records_that_are_odd_are_left_out_and_named(lake, rows):
    raw = (
        b'[{"name":"x"},{"identifier":"a"},7,{"identifier":"b"},{"identifier":5},{"identifier":"a","name":"again"},'
        b'{"identifier":"c","\\udfff":"\\ud800"}]'
    )
    made = convert_list(named("codes"), raw, lake.layout)
    assert [(row["code"], row["name"]) for row in rows(made.path)] == [("a", None), ("b", None)]
    assert made.row_count == 2
    assert made.odd == (
        "record 1: identifier is missing, and no row can be without it.",
        "record 3: A JSON object was expected, not the number 7.",
        "record 5: identifier is the number 5, where text is declared.",
        "record 6: The identifier a appears more than once.",
        "record 7: Not valid UTF-8: invalid continuation byte at byte 19.",
    )
    assert convert_list(named("codes"), raw, lake.layout).odd == made.odd  # found again
    many = convert_list(named("codes"), json.dumps([{"identifier": "a" * 400}] * 5_000).encode(), lake.layout)
    assert (many.row_count, [len(one) for one in many.odd]) == (1, [310] * 8 + [311] * 2)
