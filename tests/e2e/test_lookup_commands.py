"""Lookups and single records, for people and for machines, and what is refused before it costs a unit."""

import json
from datetime import timedelta

import pytest

from resources.sandbox.world.world import micros
from tests.builds import lay
from tests.e2e.conftest import Account


@pytest.fixture(scope="module")
def wme(service, call, tmp_path_factory):
    account = Account(service, "reader-of-one", "Passw0rd-of-0ne")
    service.accounts.create(account.username, account.password, groups=["group_3"])
    environ = account.environ(tmp_path_factory.mktemp("lookups") / "data")

    def run(*words):
        return call(*words, environ=environ)

    run.environ = environ
    return run


@pytest.fixture(scope="module")
def name(service):
    """A title of enwiki that is only ever edited and hidden, so that it is there in the next minute too."""
    wiki = service.world._wiki("enwiki")
    cast = next(cast for cast in wiki.timetable.casts if cast.namespace == 0 and cast.script.name == "hidden")
    assert {one.verb.name for act in cast.script.acts for one in act.operations} == {"EDIT", "HIDE"}
    family = next(wiki.timetable.families(cast))
    event, *_ = wiki.timetable.play(cast, family, micros(service.clock.now()))[0].live(0)
    return wiki.writer.name(event.title)


def lines(told):
    assert told.code == 0, told.err
    return [json.loads(line) for line in told.out.splitlines()]


def test_an_article_in_all_forms(wme, name):
    [record] = lines(wme("article", name, "--project", "enwiki"))
    assert (record["name"], record["is_part_of"]["identifier"]) == (name, "enwiki")
    assert json.loads(wme("article", name, "--project", "enwiki", "--json").out) == [record]
    fields = ("--fields", "name,version.identifier", "--fields", "categories.#.name")
    more = ("--filter", "namespace.identifier=0", "--limit", "1", "--language", "en")
    [record] = lines(wme("article", name.replace(" ", "_"), *fields, *more))
    assert record.keys() == {"name", "version", "categories"}


def test_an_article_on_a_terminal(wme, name, on_terminal):
    words = ("article", name, "--project", "enwiki", "--fields", "name,version.*,article_body.*")
    shown = on_terminal(*words, environ=wme.environ, columns=100)
    assert "version.editor." in shown
    assert "article_body.html" in shown
    assert "characters)" in shown
    assert name in shown


def test_structured_contents(wme, name):
    [record] = lines(wme("structured", name, "--project", "enwiki"))
    assert record["name"] == name
    assert "article_body" not in record
    wme("structured", name, "--fields", "infobox").fails("Use 'infoboxes'.")


def test_an_entity(wme):
    [record] = lines(wme("entity", "P31"))
    assert record["name"] == "P31"
    assert lines(wme("entity", "P31", "--labels")) == [record["entity"]["labels"]]
    assert lines(wme("entity", "P31", "--fields", "entity.type")) == [{"entity": {"type": "property"}}]
    wme("entity", "Q999999999").fails("list Q999999999 among Wikidata's items")
    for words, kind, form in (
        (("X1",), "items", "Q42"), (("q42",), "items", "Q42"), (("p31",), "properties", "P31"),
        (("p18", "--labels"), "labels", "P18"),
    ):  # fmt: skip
        told = f"{words[0]!r} is not a valid identifier for Wikidata {kind}. Nothing was sent. Use the form {form}.\n"
        assert wme("entity", *words) == (1, "", told)


def test_what_is_not_found_or_cannot_be_found(wme, name, service):
    told = wme("article", f"x{name}").fails("case-sensitive", "Redirects are not resolved")
    service.requests.clear()
    for words, sentence in (
        (("article", "C#"), "the lookup cost no unit"),
        (("article", name, "--limit", "11"), "11 is not in the range"),
        (("article", name, "--filter", "name"), "Use the form FIELD=VALUE"),
        (("article", name, "--fields", "categories.name"), "categories.#.name"),
        (("article", name, "--json", "--ndjson"), "are mutually exclusive"),
        (("lists", "projects", "--filter", "size=5"), "`>`"),
    ):
        told = wme(*words)
        assert told.code in {1, 2}
        assert sentence in told.err
    assert list(service.requests) == []


def test_every_list_and_record_of_metadata(wme):
    for kind, identifier in (("codes", "wiki"), ("languages", "fr"), ("projects", "frwiki"), ("namespaces", "0")):
        [record] = lines(wme("lists", kind, identifier, "--json"))
        assert str(record["identifier"]) == identifier
        shown = lines(wme("lists", kind, identifier, "--json", "--fields", "identifier"))
        assert shown == [{"identifier": record["identifier"]}]
    [record] = lines(wme("lists", "projects", "--json", "--filter", "identifier=frwiki", "--fields", "url"))
    assert record == {"url": "https://fr.wikipedia.org"}
    told = wme("lists", "projects", "--filter", "identifier=NaN")  # a text, which is valid JSON and matches nothing
    assert (told.code, told.out) == (0, "No entry in projects matches the filters.\n")
    assert lines(wme("lists", "projects", "--filter", "identifier=NaN", "--json")) == []
    told = "Could not read /v2/projects/nowiki_: the service responded with status 404"
    wme("lists", "projects", "nowiki_").fails(told)


def test_every_list_and_record_of_snapshots(wme):
    identifier = "enwiki_namespace_0"
    [snapshot] = lines(wme("snapshots", "show", identifier))
    assert snapshot["identifier"] == identifier
    chunks = lines(wme("snapshots", "chunks", identifier))
    assert {chunk["identifier"] for chunk in chunks} == set(snapshot["chunks"])
    shown = lines(wme("snapshots", "chunks", identifier, "--fields", "identifier"))
    assert shown == [{"identifier": chunk["identifier"]} for chunk in chunks]
    [chunk] = lines(wme("snapshots", "chunks", identifier, "0"))
    told = wme("snapshots", "chunks", identifier, f"{identifier}_chunk_0", "--fields", "identifier,version")
    assert lines(told) == [{name: chunk[name] for name in ("identifier", "version")}]
    assert chunk in chunks
    assert lines(wme("snapshots", "show", identifier, "--fields", "version")) == [{"version": snapshot["version"]}]


def test_a_record_of_an_hour(wme, hours):
    hour = f"{hours[-1]:%Y-%m-%dT%H}"
    [record] = lines(wme("batches", hour, "enwiki_namespace_0", "--json"))
    assert record in lines(wme("batches", hour, "--json"))
    shown = wme("batches", hour, "enwiki_namespace_0").out
    assert ["version", record["version"]] in [line.split() for line in shown.splitlines()]
    coming = f"{hours[-1] + timedelta(hours=9):%Y-%m-%dT%H}"
    for words in ((coming,), (coming, "enwiki_namespace_0")):
        wme("batches", *words).fails("has not published the hour")
    told = "'../enwiki' is not a valid file identifier. A valid example is enwiki_namespace_0."
    wme("batches", hour, "../enwiki").fails(told, code=2)
    chunks = ("snapshots", "chunks", "enwiki_namespace_0")
    told = "'_0' is not a valid chunk. A valid example is enwiki_namespace_0_chunk_0 or 0."
    wme(*chunks, "_0").fails(told, code=2)
    told = wme(*chunks, "--dataset", "structured_articles")
    told.fails("The snapshots of structured_articles have no chunks.", code=2)


def test_watched_pages_are_looked_up_within_the_budget_of_the_day(wme, call, name, service, tmp_path):
    watchlist = tmp_path / "watchlist"
    watchlist.write_text(f"enwiki {name}\nenwiki No such page\nfrwiki Nor this one\n")
    own = {"WME_DATA": str(lay(tmp_path / "data")), "WME_WATCHLIST": str(watchlist), "WME_LOOKUPS_PER_DAY": "2"}
    environ = wme.environ | own

    def asked():
        return sum(seen.path.startswith("/v2/articles/") for seen in service.requests)

    service.requests.clear()
    told = call("lookups", "--dry-run", environ=environ)
    assert told.out.endswith("2 pages to look up; 2 lookups left today. Nothing was sent.\n"), told
    assert name in told.out
    assert list(service.requests) == []
    told = call("lookups", environ=environ).done()
    assert told.out.endswith("Looked up 2 pages and found 1; 0 lookups left today. Uncertain in `articles`: 0 pages.\n")
    assert asked() == 2
    again = call("lookups", environ=environ)
    assert (again.code, again.out.splitlines()[-1].split(";")[0]) == (0, "Looked up 0 pages and found 0")
    assert asked() == 2
    query = "SELECT asked_name, purpose, is_found FROM lookups ORDER BY ALL"
    rows = call("sql", "--format", "json", query, environ=environ)
    expected = [{"asked_name": one, "purpose": "watch", "is_found": one == name} for one in (name, "No such page")]
    assert lines(rows) == sorted(expected, key=lambda row: row["asked_name"])
