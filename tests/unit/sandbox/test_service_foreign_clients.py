"""Requests in the form of clients that were written elsewhere."""

from __future__ import annotations

import json
from urllib.parse import quote

#: As Java's HttpClient sends it with the first request of a connection, because it would rather speak HTTP/2.
JAVA = {
    "Connection": "Upgrade, HTTP2-Settings",
    "Upgrade": "h2c",
    "HTTP2-Settings": "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    "User-Agent": "Java-http-client/21.0.2",
}


def test_the_body_of_a_request_that_asks_for_an_upgrade_is_read(client):
    body = {"username": client.sandbox.username, "password": client.sandbox.password}
    answer = client.auth("login", body, headers=JAVA)
    assert (answer.status_code, answer.raw.version) == (200, 11)
    only = {"filters": [{"field": "identifier", "value": "frwiki"}]}
    found = client.call("/v2/projects", "POST", json=only, headers=JAVA).json()
    assert [one["identifier"] for one in found] == ["frwiki"]


def test_a_query_of_255_filters_fits_into_the_address(client):
    one = quote(json.dumps({"field": "identifier", "value": "frwiki"}))
    path = "/v2/projects?" + "&".join([f"filters={one}"] * 255)
    assert [one["identifier"] for one in client.call(path).json()] == ["frwiki"]
