"""The interface description: whole in itself, as asked for, the same as what is served, and true of real records.

The real records are not part of the project and may be missing.
"""

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

import jsonschema
import pytest
import yaml

from resources.sandbox.api import streams
from resources.sandbox.api.app import OPERATIONS as DATA
from resources.sandbox.api.app import describe
from resources.sandbox.settings import FREE_GROUP
from tests.endpoints import OPERATIONS as DESCRIBED

SERVED = (*DATA, *streams.OPERATIONS)
REAL = Path(__file__).resolve().parents[4] / "shared/data/real/enterprise"
LISTS = ("code", "language", "project", "namespace", "snapshot", "batch", "chunk")
SAMPLES = [
    *(("article", path) for path in ("articles/*.gz", "stream/recorded-events-2023.ndjson")),
    # of the files there, one was written by a client and not by the service
    ("structured-content", "structured-contents/montreal-*.json.gz"),
    ("snapshot", "metadata/structured-contents-snapshots-*.json"),
    *((name, f"metadata/{name}{'es' if name == 'batch' else 's'}.json") for name in LISTS),
]
#: Members that only records of 2024 and before have.
FORMER = {"article_sections", "infobox", "is_part_of.size", "is_part_of.name", "namespace.name", "in_language.name"}


@pytest.fixture(scope="module")
def description():
    return json.loads(describe("http://auth.test", "http://data.test", "http://realtime.test"))


def operations(description):
    """Path, method and operation of everything described."""
    for path, item in description["paths"].items():
        for method, operation in item.items():
            if method != "servers":
                yield path, method, operation


def nodes(value):
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for below in value:
            yield from nodes(below)


def errors(operation):
    return {int(status) for status in operation["responses"] if re.compile(r"[45]\d\d").fullmatch(status)}


class TestItself:
    def test_every_reference_leads_somewhere_and_every_component_is_used(self, description):
        used = {node["$ref"] for node in nodes(description) if "$ref" in node}
        kinds = description["components"]
        there = {f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in kinds[kind]}
        assert used == there
        assert (description["openapi"], description["info"]["version"]) == ("3.1.2", "2.0.0")
        schemas = description["components"]["schemas"]
        assert {name for name, schema in schemas.items() if "required" in schema} == {"error"}

    def test_names_tags_hosts_and_what_is_beta(self, description):
        names = [operation["operationId"] for _, _, operation in operations(description)]
        assert len(names) == len(set(names))
        declared = [tag["name"] for tag in description["tags"]]
        assert {tag for _, _, operation in operations(description) for tag in operation["tags"]} == set(declared)
        hosts = defaultdict(set)
        for path, item in description["paths"].items():
            hosts[item.get("servers", description["servers"])[0]["url"]].add(path)
        own = {path for path in description["paths"] if path.startswith("/v1/")}
        assert {path for path in hosts["http://auth.test"] if "/v" in path} == own
        assert hosts["http://realtime.test"] == {"/v2/articles", "/v2/wikidata"}
        assert "/v2/articles/{name}" in hosts["http://data.test"]
        for path, _, operation in operations(description):
            is_beta = path.startswith("/v2/") and ("wikidata" in path or "structured-contents" in path)
            assert (operation.get("x-beta", False), operation["summary"].endswith("(Beta)")) == (is_beta, is_beta), path

    def test_schemas_are_schemas_and_examples_are_there_and_as_described(self, description):
        examined = 0
        for node in nodes(description):
            schema = node.get("schema")
            if not isinstance(schema, dict):
                continue
            jsonschema.Draft202012Validator.check_schema(schema)
            validator = jsonschema.Draft202012Validator({**schema, "components": description["components"]})
            for example in [*([node["example"]] if "example" in node else []), *schema.get("examples", [])]:
                validator.validate(example)
                examined += 1
        assert examined > 100
        answers = {one["operationId"]: one["responses"].get("200", {}) for _, _, one in operations(description)}
        forms = {name: answer.get("content", {}).get("application/json") for name, answer in answers.items()}
        assert [name for name, form in forms.items() if form and "example" not in form] == ["healthz-get", "jwks-get"]

    def test_errors_are_those_that_are_listed_and_those_that_are_answered(self, description):
        by_path = {path: operation for path, _, operation in operations(description)}
        for path, operation in by_path.items():
            if operation["tags"] == ["Authentication"] and path not in ("/v1/login", "/v1/get-user"):
                assert errors(operation) - set(operation.get("x-answered-not-listed", ())) == {401, 422, 500}
        assert 429 in by_path["/v1/token-refresh"]["x-answered-not-listed"]
        login = by_path["/v1/login"]
        assert len(errors(login)) == 6
        assert errors(login) - set(login["x-listed-not-answered"]) == {400, 401, 422, 500}
        listing = by_path["/v2/snapshots"]
        assert errors(listing) == {400, 401, 403, 404, 422, 429, 500}
        assert listing["x-answered-not-listed"] == [400, 429]
        assert "does not list" in listing["responses"]["429"]["description"]
        assert "no answer is known" in login["responses"]["403"]["description"]
        download = description["paths"]["/v2/snapshots/{identifier}/download"]
        assert download["get"]["x-answered-not-listed"] == [307, 429]
        assert download["head"]["x-answered-not-listed"] == [429]
        assert {"200", "206", "307"} < set(download["get"]["responses"])
        assert "307" not in download["head"]["responses"]

    def test_says_what_is_sent_and_what_comes(self, description):
        login = description["paths"]["/v1/login"]["post"]
        for form in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data"):
            assert login["requestBody"]["content"][form]["schema"]["required"] == ["username", "password"]
        assert login["requestBody"]["required"] is True
        listing = description["paths"]["/v2/batches/{date}/{hour}"]
        assert {p["name"] for p in listing["get"]["parameters"]} == {"date", "hour", "fields", "filters"}
        assert set(listing["get"]["responses"]["200"]["content"]) == {"application/json", "application/x-ndjson"}
        assert listing["post"]["requestBody"]["required"] is False
        lookup = description["paths"]["/v2/articles/{name}"]["get"]
        assert {p["name"] for p in lookup["parameters"]} == {"name", "fields", "filters", "limit"}
        shapes = description["paths"]["/v2/structured-contents/{name}"]["get"]["responses"]["200"]["content"]
        assert len(shapes["application/x-ndjson"]["schema"]["anyOf"]) == 2


class TestServed:
    def test_as_json_and_as_yaml_without_a_token(self, client):
        client.token = ""
        texts, json_type, yaml_type = defaultdict(set), "application/json", "application/yaml"
        for path, accept, form in (
            ("/spec", None, json_type), ("/spec", "*/*", json_type),
            ("/spec", "text/html, application/json;q=0.9, text/yaml", json_type), ("/spec", yaml_type, yaml_type),
            ("/spec", "text/yaml, application/json", yaml_type), ("/spec/", "application/vnd.oai.openapi", yaml_type),
            ("/spec.json", yaml_type, json_type), ("/spec.yaml", json_type, yaml_type),
            ("/spec/spec.yaml", None, yaml_type),
        ):  # fmt: skip
            answer = client.call(path, headers={"Accept": accept})
            assert (path, answer.status_code) == (path, 200)
            assert (answer.headers["Content-Type"], answer.headers["Vary"]) == (f"{form}; charset=utf-8", "Accept")
            texts[form].add(answer.text)
        assert [len(same) for same in texts.values()] == [1, 1]
        document = client.call("/spec").json()
        assert json.dumps(yaml.load(answer.text, yaml.CSafeLoader)) == json.dumps(document)
        assert document["servers"] == [{"url": client.sandbox.url}]
        servers = {path: item["servers"] for path, item in document["paths"].items() if "servers" in item}
        assert servers == {path: [{"url": client.sandbox.realtime_url}] for path in ("/v2/articles", "/v2/wikidata")}
        assert re.search("[&*]id[0-9]", answer.text) is None

    def test_what_is_served_is_described_and_the_other_way_round(self):
        routes = {(method, one.path) for one in SERVED for method in one.methods}
        assert routes == {(method, one.path) for one in DESCRIBED for method in one.methods}

    def test_groups_quotas_and_tokens_are_as_described(self):
        by_path = {one.path: one for one in DESCRIBED}
        for route in SERVED:
            described = by_path[route.path]
            paid = bool(route.groups) and FREE_GROUP not in route.groups
            # the service counts no batches; an account of the sandbox may have a limit for them
            quota = None if route.quota == "batch" else route.quota
            found = (paid, route.groups is not None, quota)
            assert (route.path, *found) == (route.path, described.paid, described.token, described.quota)


def test_is_of_installed_files_alone(client):
    client.token = ""
    page = client.call("/docs")
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    for path in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        if path != "data:,":
            assert path.startswith("/docs/")
            assert client.call(path).status_code == 200, path
    assert "http" not in client.call("/docs/start.js").text
    assert (client.call("/docs/").content, client.call("/docs/other.js").status_code) == (page.content, 404)
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    hosts = set(re.findall(r"https?://[^ ;]+", policy))
    assert hosts == {client.sandbox.url, client.sandbox.object_url}


def records(path):
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    if ".ndjson" in path.name:
        return [json.loads(line) for line in text.splitlines()]
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


def undescribed(value, schema, components, place=""):
    """The dotted names of all members of a value that its schema does not have."""
    if "$ref" in schema:
        schema = components["schemas"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        return {name for item in value for name in undescribed(item, schema.get("items", {}), components, place)}
    if not isinstance(value, dict) or "properties" not in schema:
        return set()
    found = set()
    for key, below in value.items():
        known = schema["properties"].get(key)
        found |= {place + key} if known is None else undescribed(below, known, components, f"{place}{key}.")
    return found


@pytest.mark.skipif(not REAL.is_dir(), reason="The real records are not on this machine.")
@pytest.mark.parametrize(("shape", "pattern"), SAMPLES)
def test_real_records_have_the_shape_that_is_described(description, shape, pattern):
    components, paths = description["components"], sorted(REAL.glob(pattern))
    assert paths
    for record in [record for path in paths for record in records(path)]:
        schema = {"$ref": f"#/components/schemas/{'article' if 'article_body' in record else shape}"}
        jsonschema.Draft202012Validator({**schema, "components": components}).validate(record)
        assert undescribed(record, schema, components) <= FORMER
