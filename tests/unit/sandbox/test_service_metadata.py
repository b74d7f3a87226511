"""The reference lists over HTTP: forms, `fields` and `filters` by GET and POST, and what is refused."""

import json
from urllib.parse import quote

import pytest

from resources.sandbox.api.answers import encode
from resources.sandbox.api.parameters import Filter, Parameters, pick, select
from tests.unit.sandbox.conftest import refused

TOO_MUCH = "Key: 'Model.{0}' Error:Field validation for '{0}' failed on the 'max' tag"


@pytest.mark.parametrize("kind", ["codes", "languages", "projects", "namespaces"])
def test_lists_and_single_records_by_get_and_post(client, kind):
    world = getattr(client.sandbox.world, kind)()
    for method in ("GET", "POST"):
        assert client.call(f"/v2/{kind}", method).json() == client.call(f"/v2/{kind}/", method).json() == world
        single = client.call(f"/v2/{kind}/{world[-1]['identifier']}", method)
        assert single.json() == world[-1]
        assert single.headers["Content-Type"].startswith("application/json")


def test_every_data_answer_has_a_request_id_and_the_cors_headers(client):
    for path, status in (("/v2/projects", 200), ("/v2/projects/xxwiki", 404), ("/nowhere", 404)):
        answers = [client.call(path) for _ in range(2)]
        assert {answer.status_code for answer in answers} == {status}
        assert len({answer.headers["X-Request-Id"] for answer in answers}) == 2
        assert {len(answer.headers["X-Request-Id"]) for answer in answers} == {36}
        assert {answer.headers["Access-Control-Allow-Origin"] for answer in answers} == {"*"}
    assert not any("X-Request-Id" in client.auth(one, {}).headers for one in ("login", "get-user"))
    assert client.call("/v2/projects/xxwiki").json()["message"].startswith("NoSuchKey: The specified key does not ")


def test_open_routes(client):
    client.token = ""
    answer = client.call("/v2/projects", "OPTIONS", headers={"Access-Control-Request-Method": "POST"})
    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST, OPTIONS, HEAD"
    assert answer.headers["Access-Control-Allow-Headers"] == "*"
    assert client.call("/v2/projects", "OPTIONS").status_code == 404
    assert [client.call(path).status_code for path in ("/v1/status", "/v2/status", "/healthz")] == [200] * 3
    assert (client.call("/v2/status").content, client.call("/healthz").json()) == (b"", {"status": "OK"})
    for method, path in (
        ("GET", "/v2/nothing"), ("GET", "/"), ("PUT", "/v2/projects"), ("HEAD", "/v2/projects"), ("GET", "/v1/login"),
        ("GET", "/v2/projects/ENWIKI/x"), ("POST", "/docs"), ("HEAD", "/spec"),
    ):  # fmt: skip
        answer = client.call(path, method)
        assert answer.status_code == 404
        assert answer.text == ("" if method == "HEAD" else '{"status":404,"message":"Not Found"}\n')


class TestForms:
    def test_json(self, client):
        for accept in ("", "*/*", "application/*", "application/json", "text/html, */*;q=0.8"):
            answer = client.call("/v2/namespaces", headers={"Accept": accept})
            assert (accept, answer.headers["Content-Type"]) == (accept, "application/json; charset=utf-8")
            assert len(answer.json()) == 4

    def test_lines(self, client):
        answer = client.call("/v2/projects", headers={"Accept": "application/x-ndjson"})
        assert answer.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
        assert [*map(json.loads, answer.text.splitlines())] == client.sandbox.world.projects()
        single = client.call("/v2/projects/enwiki", headers={"Accept": "application/x-ndjson"})
        assert single.text.endswith("}\n")
        assert client.call("/v2/projects/enwiki", headers={"Accept": "text/html"}).text.endswith("}")
        none = {"filters": [{"field": "code", "value": "x"}]}
        empty = client.call("/v2/projects", "POST", json=none, headers={"Accept": "application/x-ndjson"})
        assert (empty.status_code, empty.text) == (200, "")
        answer = client.call("/v2/projects", headers={"Accept": "text/html"})
        assert answer.headers["Content-Type"] == ""
        assert answer.text.startswith('{"name":"Википеди"')
        answer = client.call("/v2/nothing", headers={"Accept": "text/html"})
        assert answer.headers["Content-Type"].startswith("application/json")


class TestGet:
    def test_fields_and_filters_are_repeated_and_bodies_and_limits_ignored(self, client):
        fields = client.call("/v2/codes?fields=name&fields=identifier").json()
        assert fields[0] == {"identifier": "wiki", "name": "Wikipedia"}
        assert client.call("/v2/codes/wiki?fields=name").json() == {"name": "Wikipedia"}
        assert client.call("/v2/codes?fields=name,identifier").json() == [{}] * 8  # one odd name
        one = quote('{"field":"in_language.identifier","value":"en"}')
        other = quote('{"field":"code","value":"wiki"}')
        # as many filters as are allowed fit into the address
        for query in (f"filters={one}&filters={other}", "&".join([f"filters={one}&filters={other}"] * 127)):
            found = client.call(f"/v2/projects?{query}").json()
            assert [record["identifier"] for record in found] == ["enwiki"]
        assert len(client.call("/v2/projects", json={"fields": ["name"]}).json()[0]) == 5
        assert len(client.call("/v2/projects?limit=1").json()) == len(client.sandbox.world.projects())
        plain = client.call("/v2/projects")
        for spelling in ("filters[identifier]=enwiki", "filters[0][field]=identifier", "fields[]=name"):
            assert client.call(f"/v2/projects/?{spelling}").content == plain.content

    @pytest.mark.parametrize(("query", "message"), refused("queries"))
    def test_refusals(self, client, query, message):
        answer = client.call(f"/v2/projects?{query}")
        assert (answer.status_code, answer.json()["message"]) == (422, message)
        assert not set("<>&") & set(answer.text)


class TestPost:
    def test_json_and_forms(self, client):
        french = {"field": "url", "value": "https://fr.wikipedia.org"}
        body = {"fields": ["identifier"] + ["x" * 255] * 254, "filters": [french] * 255, "limit": 100}
        assert client.call("/v2/projects", "POST", json=body).json() == [{"identifier": "frwiki"}]
        # the query is not read beside it; without a body, or with null in it, nothing in particular is asked for
        assert len(client.call("/v2/codes?fields=name", "POST", json={}).json()[0]) == 3
        assert len(client.call("/v2/codes", "POST", json=None).json()) == 8
        for body in ("", "null", '{"fields":null,"filters":null,"limit":null}'):
            answer = client.call("/v2/codes", "POST", data=body, headers={"Content-Type": "application/json"})
            assert len(answer.json()[0]) == 3
        answer = client.call("/v2/projects", "POST", data='{"fields":["name"]}')
        assert len(answer.json()[0]) == 5
        form = client.call("/v2/projects", "POST", data={"fields": "name"})
        assert form.json()[0] == {"name": "Википеди"}
        form = client.call("/v2/projects?fields=code&limit=&limit=x", "POST", data={"fields": "name", "limit": 1})
        assert form.json()[0] == {"name": "Википеди", "code": "wiki"}
        assert client.call("/v2/projects", "POST", data={"fields": ""}).status_code == 422
        for boundary, odd in (
            ("x", b""), ("x", b"--x\r\n\r\n--x--"), ("x", b"--y--"), ("", b"--\r\n"), ("\xe9", b"\xff"),
            ("x", b"--x\r\n" * 9_000), ("x", b"--x\r\nContent-Disposition: form-data; name=odd\r\n\r\n\xff\r\n--x--"),
        ):  # fmt: skip
            headers = {"Content-Type": f"multipart/form-data; boundary={boundary}".encode("latin-1")}
            answer = client.call("/v2/projects", "POST", data=odd, headers=headers)
            assert answer.json() == client.sandbox.world.projects()
            assert client.call("/v1/token-refresh", "POST", data=odd, headers=headers).status_code == 422

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            *refused("bodies"),
            (b"\xff", "invalid character '\\ufffd' looking for beginning of value"),
            (json.dumps({"fields": ["a", "x" * 256]}), TOO_MUCH.format("Fields[1]")),
            (json.dumps({"fields": ["a"] * 256}), TOO_MUCH.format("Fields")),
            (json.dumps({"filters": [{"field": "a", "value": 1}] * 256}), TOO_MUCH.format("Filters")),
        ],
    )
    def test_refusals(self, client, body, message):
        answer = client.call("/v2/projects", "POST", data=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["message"]) == (422, message)


def test_the_highest_group_counts_and_without_one_an_account_may_nothing(client):
    for groups, status in (([], 403), (["group_1", "group_2", "group_1"], 200)):
        client.sandbox.accounts.set_groups("sandbox", groups)
        assert [client.call(path).status_code for path in ("/v2/projects", client.HOUR)] == [status, status]


def test_a_defect_of_the_sandbox_is_a_500_and_in_the_log(client, monkeypatch, caplog):
    monkeypatch.setattr(client.sandbox.world, "codes", lambda: 1 / 0)
    answer = client.call("/v2/codes")
    assert (answer.status_code, answer.json()["message"]) == (500, "Internal Server Error")
    assert "failed to answer GET /v2/codes" in caplog.text


RECORD = {
    "identifier": "enwiki_namespace_0", "date_modified": "2025-03-09T06:04:07Z",
    "is_part_of": {"identifier": "enwiki", "url": "u"}, "namespace": {"identifier": 0},
    "size": {"value": 12.5, "unit_text": "MB"}, "chunks": ["a", "b"],
    "parts": [{"name": "x", "url": "y"}, {"name": "z"}], "flag": True,
}  # fmt: skip
SMALL = RECORD | {
    "identifier": "enwiki_namespace_6", "namespace": {"identifier": 6}, "size": {"value": 1.0}, "flag": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "documented"),
    [
        ((), RECORD), (("x", "*"), RECORD), (("nothing", "no.where", "identifier.deeper", "size.nothing"), {}),
        (("size.value", "is_part_of.identifier"), {"is_part_of": {"identifier": "enwiki"}, "size": {"value": 12.5}}),
        (("namespace.*",), {"namespace": {"identifier": 0}}),
        (("is_part_of.identifier", "is_part_of"), {"is_part_of": {"identifier": "enwiki", "url": "u"}}),
        (("parts.name", "chunks"), {"chunks": ["a", "b"], "parts": [{"name": "x"}, {"name": "z"}]}),
        (("chunks.x",), {"chunks": []}),
    ],
)  # fmt: skip
def test_fields(fields, documented):
    assert pick(RECORD, fields) == documented
    assert list(pick(RECORD, ("size", "identifier"))) == ["identifier", "size"]


@pytest.mark.parametrize(
    ("filters", "documented"),
    [
        ([("namespace.identifier", 0)], [0]), ([("namespace.identifier", 6.0)], [6]),
        ([("namespace.identifier", "0")], []), ([("namespace", {"identifier": 0})], [0]),
        ([("size.value", 1)], [6]), ([("size.value", 0)], []), ([("flag", True)], [0]), ([("flag", 1)], []),
        ([("is_part_of.identifier", "enwiki"), ("size.value", 12.5)], [0]), ([("nothing", None)], [0, 6]),
        ([("identifier", None)], []), ([("identifier", 5)], []), ([("identifier", "it's")], []),
        ([("size.value", True)], []),
    ],
)  # fmt: skip
def test_filters(filters, documented):
    parameters = Parameters(filters=tuple(Filter(field, value) for field, value in filters))
    assert [record["namespace"]["identifier"] for record in select([RECORD, SMALL], parameters)] == documented


def test_fractions_carry_an_exponent():
    written = '{"a":126211.488e0,"b":1,"c":[1.0e0,true,null,"é"],"d":1e-07}'
    assert encode({"a": 126211.488, "b": 1, "c": [1.0, True, None, "é"], "d": 1e-7}) == written
