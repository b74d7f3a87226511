"""Lookups: what is sent for a title, both forms of an answer, and what a refusal says."""

import json
from urllib.parse import quote

import pytest

from resources.enterprise import Query, errors
from tests.unit.enterprise.loopback import error_reply, json_reply

ARTICLE = {"name": "A", "identifier": 1, "is_part_of": {"identifier": "enwiki"}, "article_body": {"html": "<p>"}}
STRUCTURED = {"name": "A", "identifier": 1, "is_part_of": {"identifier": "frwiki"}, "sections": [{"name": "Abstract"}]}


@pytest.mark.parametrize(
    "name", ["AC/DC", "/dev/null", 'Who\'s "who"?', "100% & more", "東京/..", "Template:A+b", "a b_c", "Ö;=:@$"]
)
def test_a_title_is_one_part_of_the_path(client, fake, name):
    fake.script("/v2/articles/*", json_reply([ARTICLE]))
    listing = client.lookups.articles(name)
    assert [record["identifier"] for record in listing] == [1]
    assert json.loads(listing.raw) == [ARTICLE]
    [request] = fake.api.seen("/v2/articles/*")
    assert request.path == f"/v2/articles/{quote(name, safe='')}"
    assert request.method == "GET"
    # structured contents of article form are taken
    fake.script("/v2/structured-contents/*", json_reply([STRUCTURED, ARTICLE]))
    listing = client.lookups.structured(name)
    assert ["sections" in (record.model_extra or {}) for record in listing] == [True, False]
    assert fake.api.requests[-1].path == f"/v2/structured-contents/{quote(name, safe='')}"


@pytest.mark.parametrize("answer", [{"entity": {"identifier": "Q42"}}, [{"entity": {"identifier": "Q42"}}]])
@pytest.mark.parametrize(("kind", "identifier"), [("items", "Q42"), ("properties", "P31"), ("labels", "P31")])
def test_an_entity_comes_as_an_object_or_in_an_array(client, fake, answer, kind, identifier):
    fake.script(f"/v2/wikidata/{kind}/{identifier}", json_reply(answer))
    assert client.lookups.entity(kind, identifier).records[0]["entity"]["identifier"] == "Q42"


def test_no_such_title_or_entity(client, fake):
    fake.script("/v2/*", *[error_reply(404, "Not Found")] * 5)
    for call in (client.lookups.articles, client.lookups.structured):
        with pytest.raises(
            errors.NotFound, match=r"No project has an article called 'B'\. .*case-sensitive.*not resol"
        ):
            call("B")
        with pytest.raises(errors.NotFound, match="called 'B' that matches the filters"):
            call("B", Query(filters={"in_language.identifier": "xx"}))
    with pytest.raises(errors.NotFound, match="list Q999 among Wikidata's items"):
        client.lookups.entity("items", "Q999")


@pytest.mark.parametrize(
    "name", ["", " ", "_", ".", "..", "C#", "A|B", "[[A]]", "{{x}}", "a\nb", "x" * 513, "é" * 257, "caf\udce9"]
)
def test_what_is_no_title_costs_nothing(client, fake, name):
    with pytest.raises(errors.InvalidRequest, match=r"Nothing was sent, and the lookup cost no unit\."):
        client.lookups.articles(name)
    assert fake.api.requests == []


@pytest.mark.parametrize(
    ("kind", "identifier"),
    [
        ("items", "P31"), ("properties", "Q1"), ("labels", "42"), ("items", "Q0"), ("items", "Q" + "9" * 11),
        ("lexemes", "L1"),
    ],
)  # fmt: skip
def test_what_is_no_entity_is_not_sent(client, fake, kind, identifier):
    with pytest.raises(errors.InvalidRequest, match="Nothing was sent"):
        client.lookups.entity(kind, identifier)
    assert fake.api.requests == []


def test_a_quota_that_is_spent_is_told_from_a_rate_limit_also_if_it_is_spent_meanwhile(client, fake):
    fake.user |= {"ondemand_requests_count": 7, "ondemand_limit": 7}
    refused = error_reply(429, "Too Many Requests")
    fake.script("/v2/articles/A", refused)
    with pytest.raises(errors.QuotaExceeded, match="used 7 of its 7 ondemand units"):
        client.lookups.articles("A")
    fake.user |= {"ondemand_limit": 8}
    fake.script("/v2/articles/A", refused, refused, json_reply([ARTICLE]))
    assert len(client.lookups.articles("A")) == 1
    # asked once for the two of them
    assert len(fake.api.seen("/v1/get-user")) == 2

    def spend(_request):
        fake.user["ondemand_requests_count"] = 8
        return refused

    fake.script("/v2/articles/A", refused, refused, spend, *[refused] * 9)
    with pytest.raises(errors.QuotaExceeded):
        client.lookups.articles("A")
    assert len(fake.api.seen("/v2/articles/A")) == 1 + 3 + 4
