"""Real records against the shapes of the interface description. They are not part of the project and may be missing."""

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

from resources.sandbox.api.app import describe

REAL = Path(__file__).resolve().parents[4] / "shared/data/real/enterprise"
DOCUMENT = json.loads(describe("http://a", "http://b", "http://c"))
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

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="The real records are not on this machine.")


def records(path):
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    if ".ndjson" in path.name:
        return [json.loads(line) for line in text.splitlines()]
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


def undescribed(value, schema, place=""):
    """The dotted names of all members of a value that its schema does not have."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        return {name for item in value for name in undescribed(item, schema.get("items", {}), place)}
    if not isinstance(value, dict) or "properties" not in schema:
        return set()
    found = set()
    for key, below in value.items():
        known = schema["properties"].get(key)
        found |= {place + key} if known is None else undescribed(below, known, f"{place}{key}.")
    return found


def schema_of(shape, record):
    """An article that could not be structured comes back as an article."""
    shape = "article" if "article_body" in record else shape
    return {"$ref": f"#/components/schemas/{shape}"}


@pytest.mark.parametrize(("shape", "pattern"), SAMPLES)
def test_real_records_have_the_shape_that_is_described(shape, pattern):
    paths = sorted(REAL.glob(pattern))
    assert paths
    for record in [record for path in paths for record in records(path)]:
        schema = schema_of(shape, record)
        jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(record)
        assert undescribed(record, schema) <= FORMER
