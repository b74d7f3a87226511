"""`fields` and `filters` on lists: as documented, and as the service's public source of 2025 does it."""

from __future__ import annotations

import pytest

from resources.sandbox.api.answers import Refusal, encode
from resources.sandbox.api.parameters import Filter, Parameters
from resources.sandbox.api.selection import pick, select

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


def chosen(filters, *, source_2025):
    parameters = Parameters(filters=tuple(Filter(field, value) for field, value in filters))
    return [r["namespace"]["identifier"] for r in select([RECORD, SMALL], parameters, source_2025=source_2025)]


@pytest.mark.parametrize(
    ("fields", "documented", "in_2025"),
    [
        ((), RECORD, RECORD),
        (("x", "*"), RECORD, RECORD),
        (("nothing", "no.where", "identifier.deeper"), {}, {}),
        (
            ("size.value", "is_part_of.identifier"),
            {"is_part_of": {"identifier": "enwiki"}, "size": {"value": 12.5}},
            {"size__value": 12.5, "is_part_of__identifier": "enwiki"},
        ),
        (("namespace.*",), {"namespace": {"identifier": 0}}, {"namespace": {}}),
        (("namespace", "namespace.identifier"), {"namespace": {"identifier": 0}}, {"namespace": {"identifier": 0}, "namespace__identifier": 0}),
        (("parts.name", "chunks"), {"chunks": ["a", "b"], "parts": [{"name": "x"}, {"name": "z"}]}, {"chunks": ["a", "b"]}),
    ],
)  # fmt: skip
def test_fields(fields, documented, in_2025):
    assert pick(RECORD, fields, source_2025=False) == documented
    assert pick(RECORD, fields, source_2025=True) == in_2025


def test_the_2025_source_keeps_the_order_asked():
    assert list(pick(RECORD, ("size", "identifier"), source_2025=True)) == ["size", "identifier"]
    assert list(pick(RECORD, ("size", "identifier"), source_2025=False)) == ["identifier", "size"]


@pytest.mark.parametrize(
    ("filters", "documented", "in_2025"),
    [
        ([("namespace.identifier", 0)], [0], [0]),
        ([("namespace.identifier", 6.0)], [6], [6]),
        ([("namespace.identifier", "0")], [], []),
        ([("size.value", 1)], [6], [0]),
        ([("size.value", 0)], [], [0, 6]),
        ([("is_part_of.identifier", "enwiki"), ("size.value", 12.5)], [0], []),
        ([("flag", True)], [0], [0, 6]),
        ([("flag", 1)], [], []),
        ([("nothing", None)], [0, 6], [0, 6]),
        ([("identifier", None)], [], [0, 6]),
        ([("identifier", 5)], [], []),
        ([("namespace", {"identifier": 0})], [0], [0, 6]),
    ],
)
def test_filters(filters, documented, in_2025):
    assert chosen(filters, source_2025=False) == documented
    assert chosen(filters, source_2025=True) == in_2025


def test_the_2025_source_answers_what_its_query_language_cannot_take():
    with pytest.raises(Refusal) as refused:
        chosen([("a..b", "x")], source_2025=True)
    assert refused.value.status == 400
    with pytest.raises(Refusal) as refused:
        chosen([("identifier", "it's")], source_2025=True)
    assert refused.value.status == 500
    assert chosen([("identifier", "it's")], source_2025=False) == []


def test_over_http_the_switch_decides(make_client):
    body = {"fields": ["in_language.identifier"], "filters": [{"field": "identifier", "value": "enwiki"}]}
    answer = make_client(source_2025=True).call("/v2/projects", "POST", json=body)
    assert answer.json() == [{"in_language__identifier": "en"}]


def test_over_http_the_default_is_the_documented_way(client):
    numbers = client.call("/v2/namespaces", "POST", json={"filters": [{"field": "identifier", "value": 0}]})
    assert [record["identifier"] for record in numbers.json()] == [0]


def test_fractions_carry_an_exponent():
    assert encode({"a": 126211.488, "b": 1, "c": [1.0, True, None, "é"], "d": 1e-7}) == (
        '{"a":126211.488e0,"b":1,"c":[1.0e0,true,null,"é"],"d":1e-07}'
    )
