"""Queries and lookups: how they are sent, what comes, and that nothing is sent that the service would ignore."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from resources.enterprise import Filter, Limits, Query, endpoints, errors, models
from resources.enterprise.query import Kind
from tests.unit.enterprise.loopback import error_reply, json_reply

RECORDS = json_reply([{"identifier": "enwiki"}])


@pytest.fixture
def sent(client, fake):
    """Sends a query to a list, and returns the request."""
    fake.script("/v2/projects", RECORDS)

    def send(query):
        assert client.lists.records(endpoints.reference("projects"), query).records[0]["identifier"] == "enwiki"
        return fake.api.seen("/v2/projects")[-1]

    return send


def test_a_query_is_posted_as_json(sent):
    query = Query(fields=("url", "in_language.identifier"), filters={"in_language.identifier": "en", "code": "wiki"})
    request = sent(query)
    assert (request.method, request.headers["content-type"]) == ("POST", "application/json")
    assert request.json == {
        "fields": ["url", "in_language.identifier"],
        "filters": [{"field": "in_language.identifier", "value": "en"}, {"field": "code", "value": "wiki"}],
    }


def test_or_repeated_in_the_address(sent):
    request = sent(Query(fields=("identifier", "url"), filters=(Filter("name", "Wikipédia & <co>"),), method="GET"))
    assert (request.method, request.body) == ("GET", b"")
    assert request.parameters == [
        ("fields", "identifier"), ("fields", "url"), ("filters", '{"field": "name", "value": "Wikipédia & <co>"}'),
    ]  # fmt: skip
    assert (Query(limit=3).body(), Query(limit=3).parameters()) == ({"limit": 3}, [("limit", "3")])


@pytest.mark.parametrize("query", [None, Query(), Query(fields=[], filters={})])
def test_nothing_in_particular_is_a_plain_request(sent, query):
    request = sent(query)
    assert (request.method, request.body, request.query) == ("GET", b"", {})


def test_a_single_record_takes_fields_and_what_a_list_would_ignore_is_not_sent(client, fake):
    fake.script("/v2/projects/enwiki", json_reply({"url": "https://en.wikipedia.org"}))
    record = client.lists.record(endpoints.record(endpoints.reference("projects"), "enwiki"), Query(fields=("url",)))
    assert record["url"] == "https://en.wikipedia.org"
    assert fake.api.seen("/v2/projects/enwiki")[0].json == {"fields": ["url"]}
    with pytest.raises(errors.InvalidRequest, match=r"`>`\. Nothing was sent\."):
        client.lists.records(endpoints.reference("namespaces"), Query(filters={"identifier": 0}))
    assert fake.api.seen("/v2/namespaces") == []


#: Queries that are refused, and below each its message: the kind of its endpoint and the arguments.
REFUSED = Path(__file__).with_name("refused_queries.txt").read_text().splitlines()


@pytest.mark.parametrize(("query", "message"), [*zip(REFUSED[::2], REFUSED[1::2], strict=True)])
def test_what_the_service_would_ignore_or_not_understand_is_refused(query, message):
    kind, _, given = query.partition(" ")
    with pytest.raises(errors.InvalidRequest) as caught:
        Query(**eval(given)).check(Kind[kind])
    assert caught.value.message == message.strip()


ALLOWED = Path(__file__).with_name("allowed_queries.txt").read_text().splitlines()


@pytest.mark.parametrize(("kind", "given"), [line.split(" ", 1) for line in ALLOWED])
def test_what_works_is_let_through(kind, given):
    Query(**eval(given)).check(Kind[kind])


ARTICLE = {"name": "A", "identifier": 1, "is_part_of": {"identifier": "enwiki"}, "article_body": {"html": "<p>"}}
STRUCTURED = {"name": "A", "identifier": 1, "is_part_of": {"identifier": "frwiki"}, "sections": [{"name": "Abstract"}]}


@pytest.mark.parametrize("name", ["AC/DC", "/dev/null", 'Who\'s "who"?', "9% &", "東京/..", "T:A+b", "a b_c", "Ö;=:@$"])
def test_a_title_is_one_part_of_the_path(make_client, fake, name):
    client = make_client(limits=Limits(list_bytes=10))
    fake.script("/v2/articles/*", json_reply([ARTICLE]))
    listing = client.lookups.articles(name)
    assert [record["identifier"] for record in listing] == [1]
    assert json.loads(listing.raw) == [ARTICLE]
    [request] = fake.api.seen("/v2/articles/*")
    assert (request.path, request.method) == (f"/v2/articles/{quote(name, safe='')}", "GET")
    fake.script("/v2/structured-contents/*", json_reply([STRUCTURED, ARTICLE]))
    listing = client.lookups.structured(name)
    assert ["sections" in (record.model_extra or {}) for record in listing] == [True, False]
    assert fake.api.requests[-1].path == f"/v2/structured-contents/{quote(name, safe='')}"


@pytest.mark.parametrize("answer", [{"entity": {"identifier": "Q42"}}, [{"entity": {"identifier": "Q42"}}]])
@pytest.mark.parametrize(("kind", "identifier"), [("items", "Q42"), ("properties", "P31"), ("labels", "P31")])
def test_an_entity_comes_as_an_object_or_in_an_array(client, fake, answer, kind, identifier):
    fake.script(f"/v2/wikidata/{kind}/{identifier}", json_reply(answer))
    listing = client.lookups.entity(kind, identifier, Query(fields=("entity.*",)))
    assert [found["entity"]["identifier"] for found in listing] == ["Q42"]
    assert listing.typed(models.Record) == listing.records


def test_no_such_title_or_entity(client, fake):
    fake.script("/v2/*", *[error_reply(404, "Not Found")] * 5)
    for call, query in ((client.lookups.articles, None), (client.lookups.structured, Query(limit=3))):
        with pytest.raises(errors.NotFound, match=r"No project has an article called 'B'\. .*case-sensitive.*not re"):
            call("B", query)
        with pytest.raises(errors.NotFound, match="called 'B' that matches the filters"):
            call("B", Query(filters={"in_language.identifier": "xx"}))
    assert fake.api.seen("/v2/structured-contents/B")[0].json == {"limit": 3}
    with pytest.raises(errors.NotFound, match="list Q999 among Wikidata's items"):
        client.lookups.entity("items", "Q999")


@pytest.mark.parametrize(
    "name", ["", " ", "_", ".", "..", "C#", "A|B", "[[A]]", "{{x}}", "<A", ">", "\n", "x" * 513, "é" * 257, "caf\udce9"]
)
def test_what_is_no_title_costs_nothing(client, fake, name):
    with pytest.raises(errors.InvalidRequest, match=r"Nothing was sent, and the lookup cost no unit\."):
        client.lookups.articles(name)
    assert fake.api.requests == []


@pytest.mark.parametrize(
    ("kind", "identifier", "form"),
    [
        ("items", "P31", "Q42"), ("items", "Q4\u0664", "Q42"), ("properties", "Q1", "P31"), ("labels", "42", "Q42"),
        ("items", "Q0", "Q42"), ("items", "Q" + "9" * 11, "Q42"), ("properties", " p9\n", "P9"),
        ("lexemes", "L1", "items, properties, labels"),
    ],
)  # fmt: skip
def test_what_is_no_entity_is_not_sent(client, fake, kind, identifier, form):
    with pytest.raises(errors.InvalidRequest, match=rf"Nothing was sent\. Use (the form|one of) {form}\.$"):
        client.lookups.entity(kind, identifier)
    assert fake.api.requests == []


def test_a_quota_that_is_spent_is_told_from_a_rate_limit_also_if_it_is_spent_meanwhile(client, fake):
    fake.user |= {"ondemand_requests_count": 8, "ondemand_limit": 7}
    refused = error_reply(429, "Too Many Requests")
    fake.script("/v2/codes", refused)  # which has units left, and says nothing about those of lookups
    client.lists.reference("codes")
    fake.script("/v2/articles/A", refused)
    with pytest.raises(errors.QuotaExceeded, match="used 8 of its 7 ondemand units"):
        client.lookups.articles("A")
    fake.user |= {"ondemand_limit": 9}
    fake.script("/v2/articles/A", refused, refused, json_reply([ARTICLE]))
    assert (len(client.lookups.articles("A")), len(fake.api.seen("/v1/get-user"))) == (1, 3)
    spend = {"ondemand_requests_count": 9}
    fake.script("/v2/articles/A", *[refused] * 2, lambda _: fake.user.update(spend) or refused, *[refused] * 9)
    with pytest.raises(errors.QuotaExceeded):
        client.lookups.articles("A")
    assert len(fake.api.seen("/v2/articles/A")) == 1 + 3 + 4
