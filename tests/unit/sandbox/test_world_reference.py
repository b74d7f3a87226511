"""Reference lists: their shapes, and their facts against recorded answers of the service."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources.sandbox.settings import Settings
from resources.sandbox.world.world import World

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "real" / "enterprise" / "metadata"


@pytest.fixture
def world(tmp_path):
    return World(Settings(state=tmp_path))


def test_lists_have_the_services_shapes_and_hang_together(world):
    assert [code["identifier"] for code in world.codes()] == [
        "wiki", "wikibooks", "wikinews", "wikiquote", "wikisource", "wikivoyage", "wiktionary", "wikiversity",
    ]  # fmt: skip
    assert all(list(code) == ["identifier", "name", "description"] for code in world.codes())
    assert all(list(lang) == ["identifier", "name", "alternate_name", "direction"] for lang in world.languages())
    assert all(list(known) == ["name", "identifier", "url", "code", "in_language"] for known in world.projects())
    assert [(n["identifier"], n["name"]) for n in world.namespaces()] == [
        (0, "Article"), (6, "File"), (10, "Template"), (14, "Category"),
    ]  # fmt: skip
    for listed in (world.codes(), world.languages(), world.projects(), world.namespaces()):
        assert len({record["identifier"] for record in listed}) == len(listed)
        assert all(value not in ("", None) for record in listed for value in record.values())
    languages = {language["identifier"] for language in world.languages()}
    codes = {code["identifier"] for code in world.codes()}
    projects = world.projects()
    assert (len(projects), len(languages)) == (892, 339)
    assert len([known for known in projects if known["code"] == "wiki"]) == 334
    assert {"enwiki", "frwiki", "simplewiki"} <= {known["identifier"] for known in projects}
    assert languages - {known["in_language"]["identifier"] for known in projects} == {"mo", "be-tarask"}
    assert {known["in_language"]["identifier"] for known in projects} < languages
    assert {known["code"] for known in projects} == codes
    assert {language["direction"] for language in world.languages()} == {"ltr", "rtl"}


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded answers lie beside the project and are not here")
@pytest.mark.parametrize("kind", ["projects", "languages"])
def test_lists_are_those_that_were_recorded_and_fresh_copies(world, kind):
    recorded = json.loads((RECORDED / f"{kind}.json").read_text())
    for _ in range(2):
        listed = getattr(world, kind)()
        assert listed == recorded
        listed[0]["name"] = "changed"


def test_sister_projects_have_articles_too(tmp_path):
    world = World(Settings(state=tmp_path, projects=("frwiktionary",), changes_per_hour=20))
    record = next(iter(world.truth("frwiktionary", 0, datetime(2026, 11, 19, tzinfo=UTC))))
    assert record["url"].startswith("https://fr.wiktionary.org/wiki/")
    assert "scores" not in record["version"]
