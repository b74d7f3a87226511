"""`fields` and `filters` on lists."""

import pytest

from resources.sandbox.api.answers import encode
from resources.sandbox.api.parameters import Filter, Parameters, pick, select

RECORD = {
    "identifier": "enwiki_namespace_0",
    "date_modified": "2025-03-09T06:04:07Z",
    "is_part_of": {"identifier": "enwiki", "url": "u"},
    "namespace": {"identifier": 0},
    "size": {"value": 12.5, "unit_text": "MB"},
    "chunks": ["a", "b"],
    "parts": [{"name": "x", "url": "y"}, {"name": "z"}],
    "flag": True,
}
SMALL = RECORD | {
    "identifier": "enwiki_namespace_6",
    "namespace": {"identifier": 6},
    "size": {"value": 1.0},
    "flag": False,
}


@pytest.mark.parametrize(
    ("fields", "documented"),
    [
        ((), RECORD),
        (("x", "*"), RECORD),
        (("nothing", "no.where", "identifier.deeper"), {}),
        (("size.value", "is_part_of.identifier"), {"is_part_of": {"identifier": "enwiki"}, "size": {"value": 12.5}}),
        (("namespace.*",), {"namespace": {"identifier": 0}}),
        (("namespace", "namespace.identifier"), {"namespace": {"identifier": 0}}),
        (("parts.name", "chunks"), {"chunks": ["a", "b"], "parts": [{"name": "x"}, {"name": "z"}]}),
    ],
)
def test_fields(fields, documented):
    assert pick(RECORD, fields) == documented
    assert list(pick(RECORD, ("size", "identifier"))) == ["identifier", "size"]


@pytest.mark.parametrize(
    ("filters", "documented"),
    [
        ([("namespace.identifier", 0)], [0]),
        ([("namespace.identifier", 6.0)], [6]),
        ([("namespace.identifier", "0")], []),
        ([("size.value", 1)], [6]),
        ([("size.value", 0)], []),
        ([("is_part_of.identifier", "enwiki"), ("size.value", 12.5)], [0]),
        ([("flag", True)], [0]),
        ([("flag", 1)], []),
        ([("nothing", None)], [0, 6]),
        ([("identifier", None)], []),
        ([("identifier", 5)], []),
        ([("identifier", "it's")], []),
        ([("namespace", {"identifier": 0})], [0]),
    ],
)
def test_filters(filters, documented):
    parameters = Parameters(filters=tuple(Filter(field, value) for field, value in filters))
    assert [record["namespace"]["identifier"] for record in select([RECORD, SMALL], parameters)] == documented


def test_fractions_carry_an_exponent():
    assert encode({"a": 126211.488, "b": 1, "c": [1.0, True, None, "é"], "d": 1e-7}) == (
        '{"a":126211.488e0,"b":1,"c":[1.0e0,true,null,"é"],"d":1e-07}'
    )
