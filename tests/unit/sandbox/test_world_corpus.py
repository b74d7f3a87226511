"""What a world is made of: a folder of real records behind its pages, and the reference lists."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from resources.sandbox.clock import Clock
from resources.sandbox.preparation import Preparation
from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.sandbox.world.text.bodies import Corpus
from resources.sandbox.world.text.words import stock_of
from resources.sandbox.world.world import World

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 23, tzinfo=UTC)
REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise"
beside = pytest.mark.skipif(not REAL.is_dir(), reason="the real records lie beside the project and are not here")


def article(name, language, **more):
    end = "" if name == "Liste" else "</body></html>"
    body = {"html": f"<!DOCTYPE html><html><body>{name}{end}", "wikitext": f"'''{name}''' é"}
    return {"name": name, "in_language": {"identifier": language}, "article_body": body, **more}


def world_of(folder, state, **options):
    usual = {"projects": ("frwiki",), "changes_per_hour": 20}
    return ArchivedWorld(Settings(**{"state": state, "corpus": folder, **usual, **options}))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "corpus"
    (folder / "deeper").mkdir(parents=True)
    category = {"categories": [{"name": "Catégorie:Faite", "url": "https://fr.wikipedia.org/wiki/Catégorie:Faite"}]}
    lines = [article("Ligne", "fr", abstract="Une ligne.", watchers_count=None, **category), {"name": "sans corps"}]
    (folder / "one.ndjson").write_text("".join(json.dumps(line) + "\n\n" for line in lines))
    packed = "".join(json.dumps(article(f"Packed {n}", "en")) + "\n" for n in range(2))
    (folder / "two.ndjson.gz").write_bytes(gzip.compress(packed.encode()))
    (folder / "deeper" / "three.json").write_text(json.dumps([article("Liste", "fr", watchers_count=31)], indent=1))
    bare = article("Seul", "de", article_body={"html": "<body>Seul"})
    (folder / "deeper" / "four.json.gz").write_bytes(gzip.compress(json.dumps(bare).encode()))
    (folder / "README.md").write_text("not read")
    (folder / "notes.gz").write_bytes(gzip.compress(b"not read"))
    return folder


def bodies(world, project="frwiki"):
    return list(world.truth(project, 0, START))


def lender(record):
    return record["article_body"]["html"].split("<body>")[1].split("\n")[0]


def test_pages_borrow_records_of_their_language(folder, tmp_path, monkeypatch):
    records = bodies(world_of(folder, tmp_path / "state"))
    assert set(map(lender, records)) == {"Ligne", "Liste"}
    for record in records:
        html, wikitext = record["article_body"]["html"], record["article_body"]["wikitext"]
        mark = f"<!-- revision {record['version']['identifier']} of {record['identifier']} -->"
        assert wikitext.endswith(mark)
        assert record["version"]["number_of_characters"] == len(wikitext)
        if ">Ligne" in html:
            assert html.endswith(mark + "</body></html>")
            assert record["abstract"] == "Une ligne."
            assert [category["name"] for category in record["categories"]] == ["Catégorie:Faite"]
            assert "watchers_count" not in record
        else:
            assert html.endswith("<body>Liste\n" + mark)
            assert record["watchers_count"] == 31
            assert "categories" not in record
            assert "abstract" not in record
    # the records are read once, and by one worker, because each of them has them in memory
    world = world_of(folder, tmp_path / "state", projects=("frwiki", "ruwiki"))
    assert not any("abstract" in record for record in world.truth("frwiki", 14, START))
    assert len({id(world._wiki(project).writer._texts) for project in world.wikis if project != "wikidatawiki"}) == 1
    prepared = Preparation(world._settings, world, {}, Clock())
    assert (prepared._asked._max_workers, prepared._ahead) == (1, prepared._asked)
    assert [record["name"] for record in Corpus(folder)._records] == ["Seul", "Liste", "Ligne", "Packed 0", "Packed 1"]
    # a language without records borrows from all
    records = bodies(world_of(folder, tmp_path / "state", projects=("ruwiki",)), "ruwiki")
    assert set(map(lender, records)) == {"Ligne", "Liste", "Packed 0", "Packed 1", "Seul"}
    # what is above the bound is not read
    monkeypatch.setattr("resources.sandbox.world.text.bodies._MOST_BYTES", 1)
    assert [record["name"] for record in Corpus(folder)._records] == ["Seul"]


def test_archives_of_another_corpus_are_other_archives(folder, tmp_path):
    before = world_of(folder, tmp_path / "state").batches(START)[0]
    (folder / "five.ndjson").write_text(json.dumps(article("Neuf", "fr")))
    after = world_of(folder, tmp_path / "state").batches(START)[0]
    assert after.path != before.path
    assert after.version != before.version


def test_a_corpus_without_a_body_or_of_no_json_is_refused(tmp_path):
    (tmp_path / "corpus").mkdir()
    for lines, message in (
        ('{"name": "x"}\n\n', "contains no article record with a body"),
        ('{"name": "x"}\n{"name": \n', r"some\.ndjson is neither JSON nor NDJSON"),
    ):
        (tmp_path / "corpus" / "some.ndjson").write_text(lines)
        with pytest.raises(ValueError, match=message):
            bodies(world_of(tmp_path / "corpus", tmp_path))


@beside
def test_real_records_make_a_world(tmp_path):
    world = world_of(REAL / "articles", tmp_path)
    event = next(e for e in world.events("frwiki", START, START + HOUR) if e.type == "update")
    record = world.record(event)
    assert len(record["article_body"]["html"]) > 20_000
    assert record["templates"]


def test_blocks_of_text_count_the_sentences_that_lack_a_citation():
    counts = [(block.needs_citation, block.wikitext.count(b"{{Citation needed")) for block in stock_of("en").blocks]
    assert all(known == there for known, there in counts)
    assert max(counts)[0] > 1


@beside
@pytest.mark.parametrize("kind", ["projects", "languages"])
def test_lists_are_those_that_were_recorded_and_fresh_copies(kind):
    recorded = json.loads((REAL / "metadata" / f"{kind}.json").read_text())
    for _ in range(2):
        listed = getattr(World, kind)()
        assert listed == recorded
        listed[0]["name"] = "changed"


def test_sister_projects_have_articles_too(tmp_path):
    world = World(Settings(state=tmp_path, projects=("frwiktionary",), changes_per_hour=20))
    record = next(iter(world.truth("frwiktionary", 0, START)))
    assert record["url"].startswith("https://fr.wiktionary.org/wiki/")
    assert "scores" not in record["version"]
