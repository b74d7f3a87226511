"""The registry of endpoints: as the interface description has them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES, STRUCTURED_ARTICLES
from resources.enterprise import endpoints, errors
from resources.enterprise.endpoints import Endpoint
from resources.sandbox.files import read_yaml
from tests.endpoints import OPERATIONS

HOUR = datetime(2026, 11, 20, 5, tzinfo=UTC)
PATHS = read_yaml("interface.yaml")["paths"]


def shape(path):
    return "/".join(
        "{}" if part.startswith("{") else part for part in path.replace("{hour}", "{date}/{hour}").split("/")
    )


DESCRIBED = {shape(one.path.replace("{date}/{hour}", "{hour}")): one for one in OPERATIONS}


@pytest.mark.parametrize("endpoint", endpoints.registered(), ids=lambda one: one.path)
def test_each_endpoint_is_described_with_the_same_query_and_quota(endpoint):
    described = DESCRIBED[shape(endpoint.path)]
    body = PATHS[described.path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert "fields" in body
    assert ("filters" in body, "limit" in body) == (endpoint.kind.has_filters, endpoint.kind.has_limit)
    assert described.quota == endpoint.quota
    download = DESCRIBED.get(f"{shape(endpoint.path)}/download")
    assert (download is not None) == endpoint.has_file
    assert download is None or download.quota == endpoint.file_quota


def test_every_endpoint_with_records_is_registered():
    known = {shape(one.path) for one in endpoints.registered()}
    assert {
        shape(one.path.replace("{date}/{hour}", "{hour}")) for one in OPERATIONS if "POST" in one.methods
    } == known | {one.path for one in OPERATIONS if one.path.startswith("/v1/")} - {"/v1/status"}


def test_paths_are_made_and_recognized():
    found = {one.role: one for one in endpoints.endpoints_of(SNAPSHOT_ARTICLES)}
    path = found["chunk"].at(identifier="a b", chunk=7)
    assert (found["chunk"].arguments, path) == (("identifier", "chunk"), "/v2/snapshots/a%20b/chunks/7")
    assert endpoints.of_file(path) == found["chunk"]
    assert [one.role for one in endpoints.endpoints_of(STRUCTURED_ARTICLES)] == ["list", "record"]
    _, record = endpoints.endpoints_of(ARTICLE_CHANGES)
    assert record.at(hour=HOUR, identifier="x") == endpoints.record(endpoints.hourly(ARTICLE_CHANGES, HOUR), "x")
    assert endpoints.of_file("/v2/projects/enwiki") is None


@pytest.mark.parametrize("identifier", ["", ".", "..", "a\ud800"])
def test_a_value_that_leads_elsewhere_is_refused(identifier):
    with pytest.raises(errors.InvalidRequest, match="not a valid record identifier"):
        Endpoint("record", "/v2/codes/{identifier}", endpoints.Kind.RECORD).at(identifier=identifier)
