"""Lookups and single records from the command line.

For people, for machines, and what is refused before it costs a unit.
"""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from pipelines import cli
from resources.sandbox.world.world import micros
from tests.builds import lay


@pytest.fixture(scope="module")
def wme(service, call, tmp_path_factory):
    """Calls `wme` for an account that is logged in."""
    service.accounts.create("reader-of-one", "Passw0rd-of-0ne", groups=["group_3"])
    environ = {
        "WME_SANDBOX": "0",
        "WME_USERNAME": "reader-of-one",
        "WME_PASSWORD": "Passw0rd-of-0ne",
        **dict.fromkeys(("WME_AUTH_URL", "WME_BASE_URL", "WME_REALTIME_URL"), service.url),
        "WME_PROJECTS": "enwiki,frwiki",
        "WME_DATA": str(tmp_path_factory.mktemp("lookups") / "data"),
    }

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
    asked = (
        "--fields",
        "name,version.identifier",
        "--fields",
        "categories.#.name",
        "--filter",
        "namespace.identifier=0",
    )
    [record] = lines(wme("article", name.replace(" ", "_"), *asked, "--limit", "1", "--language", "en"))
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
    told = wme("structured", name, "--fields", "infobox")
    assert told.code == 1
    assert "Use 'infoboxes'." in told.err


def test_an_entity(wme):
    [record] = lines(wme("entity", "P31"))
    assert record["name"] == "P31"
    assert lines(wme("entity", "P31", "--labels")) == [record["entity"]["labels"]]
    assert lines(wme("entity", "P31", "--fields", "entity.type")) == [{"entity": {"type": "property"}}]
    told = wme("entity", "Q999999999")
    assert (told.code, "list Q999999999 among Wikidata's items" in told.err) == (1, True)
    for words, sentence in (
        (("X1",), "'X1' is not a valid identifier for Wikidata items. Nothing was sent. Use the form Q42."),
        (("q42",), "'q42' is not a valid identifier for Wikidata items. Nothing was sent. Use the form Q42."),
        (("p31",), "'p31' is not a valid identifier for Wikidata properties. Nothing was sent. Use the form P31."),
        (
            ("p18", "--labels"),
            "'p18' is not a valid identifier for Wikidata labels. Nothing was sent. Use the form P18.",
        ),
    ):
        told = wme("entity", *words)
        assert (told.code, told.err.strip()) == (1, sentence)


def test_what_is_not_found_or_cannot_be_found(wme, name, service):
    told = wme("article", f"x{name}")
    assert told.code == 1
    assert "case-sensitive" in told.err
    assert "Redirects are not resolved" in told.err
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
        assert lines(wme("lists", kind, identifier, "--json", "--fields", "identifier")) == [
            {"identifier": record["identifier"]}
        ]
    [record] = lines(wme("lists", "projects", "--json", "--filter", "identifier=frwiki", "--fields", "url"))
    assert record == {"url": "https://fr.wikipedia.org"}
    told = wme("lists", "projects", "--filter", "identifier=NaN")  # a text, which is valid JSON and matches nothing
    assert (told.code, told.out) == (0, "No entry in projects matches the filters.\n")
    assert lines(wme("lists", "projects", "--filter", "identifier=NaN", "--json")) == []
    told = wme("lists", "projects", "nowiki_")
    assert (
        told.code,
        told.err.startswith("Could not read /v2/projects/nowiki_: the service responded with status 404"),
    ) == (1, True)


def test_every_list_and_record_of_snapshots(wme):
    identifier = "enwiki_namespace_0"
    [snapshot] = lines(wme("snapshots", "show", identifier))
    assert snapshot["identifier"] == identifier
    chunks = lines(wme("snapshots", "chunks", identifier))
    assert {chunk["identifier"] for chunk in chunks} == set(snapshot["chunks"])
    [chunk] = lines(wme("snapshots", "chunks", identifier, "0"))
    assert lines(wme("snapshots", "chunks", identifier, f"{identifier}_chunk_0")) == [chunk]
    assert chunk in chunks
    assert lines(wme("snapshots", "show", identifier, "--fields", "version")) == [{"version": snapshot["version"]}]


def test_a_record_of_an_hour(wme, hours):
    hour = f"{hours[-1]:%Y-%m-%dT%H}"
    [record] = lines(wme("batches", hour, "enwiki_namespace_0", "--json"))
    assert record in lines(wme("batches", hour, "--json"))
    shown = wme("batches", hour, "enwiki_namespace_0").out
    assert ["version", record["version"]] in [line.split() for line in shown.splitlines()]
    told = wme("batches", f"{hours[-1] + timedelta(hours=9):%Y-%m-%dT%H}", "enwiki_namespace_0")
    assert "has not published" in told.err
    told = wme("batches", hour, "../enwiki")
    assert (
        told.code,
        "'../enwiki' is not a valid file identifier. A valid example is enwiki_namespace_0." in told.err,
    ) == (2, True)
    told = wme("snapshots", "chunks", "enwiki_namespace_0", "_0")
    assert (
        told.code,
        "'_0' is not a valid chunk. A valid example is enwiki_namespace_0_chunk_0 or 0." in told.err,
    ) == (2, True)
    told = wme("snapshots", "chunks", "enwiki_namespace_0", "--dataset", "structured_articles")
    assert (told.code, "The snapshots of structured_articles have no chunks." in told.err) == (2, True)


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
    told = call("lookups", environ=environ)
    assert told.code == 0, told.err
    assert told.out.endswith("Looked up 2 pages and found 1; 0 lookups left today. Uncertain in `articles`: 0 pages.\n")
    assert asked() == 2
    again = call("lookups", environ=environ)
    assert (again.code, again.out.splitlines()[-1].split(";")[0]) == (0, "Looked up 0 pages and found 0")
    assert asked() == 2
    rows = call(
        "sql", "--format", "json", "SELECT asked_name, purpose, is_found FROM lookups ORDER BY ALL", environ=environ
    )
    expected = [
        {"asked_name": title, "purpose": "watch", "is_found": title == name} for title in (name, "No such page")
    ]
    assert lines(rows) == sorted(expected, key=lambda row: row["asked_name"])


def test_help_is_that_of_the_commands_and_imports_none(call):
    found = {name: command.get_short_help_str(300) for name, command in cli.wme.commands.items()}
    assert cli.wme.sentences() == found
