"""Settings in, library objects out: units, defaults, and the folder that is bound to one service."""

from datetime import timedelta
from pathlib import Path

import pytest

from resources import connection, machine
from resources.adapters import ConfiguredEngine, ConfiguredLake, ConfiguredWarehouse
from resources.connection import sandbox_settings
from resources.data_folder import OriginError, origin_of
from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, WIKIDATA
from resources.lake import ConversionError
from resources.settings import Settings, SettingsError

URL = "http://127.0.0.1:1"


def service(data, url=URL, **more):
    settings = Settings(data=data, projects=("enwiki",), username="u", password="p", sandbox=False, **more)
    settings = settings.model_copy(update={"base_url": url})
    settings.check()
    return connection.service(settings)


def test_the_scope_is_every_namespace_of_every_project_in_the_order_configured():
    settings = Settings(projects=("frwiki", "enwiki"), namespaces=(14, 0))
    assert settings.scope == (("frwiki", 14), ("frwiki", 0), ("enwiki", 14), ("enwiki", 0))
    assert Settings(projects=("enwiki",)).scope == (("enwiki", 0),)
    assert settings.scope_of(ARTICLE_CHANGES) == settings.scope
    assert settings.scope_of(ENTITY_CHANGES) == ()
    assert settings.model_copy(update={"wikidata": True}).scope_of(ENTITY_CHANGES) == WIKIDATA


def test_a_data_folder_is_bound_to_the_first_service_it_is_used_with(tmp_path):
    with pytest.raises(SettingsError, match="base_url is not valid"):
        service(tmp_path, "ftp://nowhere")
    assert origin_of(tmp_path) is None
    made = service(tmp_path, contact="ops@example.org", anonymous=True)
    assert (made.base_url, made.username, made.password) == (URL, "u", "p")
    assert (made.contact, made.anonymous) == ("ops@example.org", True)
    assert origin_of(tmp_path) == URL
    service(tmp_path)
    told = rf"contains data from.*Set WME_DATA to another folder.*If {URL} was a mistake, remove .*service\.json"
    with pytest.raises(OriginError, match=told):
        service(tmp_path, "http://127.0.0.1:2")
    assert origin_of(tmp_path) == URL
    (tmp_path / "archive").mkdir()
    with pytest.raises(OriginError, match=r"restore the previous settings\.$"):
        service(tmp_path, "http://127.0.0.1:2")


def test_settings_have_the_units_that_their_names_say():
    assert sandbox_settings(Path("d")).state == Path("d/sandbox")
    settings = Settings(data=Path("d"), grace_hours=1.5, workers=3)
    assert ConfiguredLake(settings).grace == timedelta(hours=1, minutes=30)
    assert ConfiguredLake(settings).layout.lake == Path("d/lake")
    assert ConfiguredWarehouse(settings).warehouse.published_path == Path("d/warehouse.duckdb")
    said = []
    engine = ConfiguredEngine(settings).engine(said.append)
    assert engine.workers == 3
    with engine.task("x", 1000, "B"):
        assert said == ["x: 1.0 kB"]
    with ConfiguredEngine(Settings(threads=2)).converter(ConfiguredLake(Settings())) as converter:
        assert converter.workers == 2
    with pytest.raises(ConversionError, match=r"^300 MB of memory is too little for 8 workers"):
        ConfiguredEngine(Settings(threads=8, memory_mb=300)).converter(ConfiguredLake(Settings()))


def test_memory_follows_the_machine_unless_it_is_set(monkeypatch):
    gib = 1 << 30
    for usable, expected in ((64 * gib, 16 * gib), (2 * gib, gib // 2), (gib // 2, gib // 4)):
        monkeypatch.setattr(machine, "memory_bytes", lambda usable=usable: usable)
        monkeypatch.setattr(machine, "cores", lambda: 200)
        with ConfiguredEngine(Settings()).converter(ConfiguredLake(Settings())) as converter:
            assert converter.memory_bytes == expected
            # as many as fit into it: 96 MiB, and 160 MiB for each
            assert converter.workers == (expected - (96 << 20)) // (160 << 20)
            assert converter.readers > converter.workers
    with ConfiguredEngine(Settings(memory_mb=420)).converter(ConfiguredLake(Settings())) as converter:
        assert (converter.memory_bytes, converter.workers) == (420 << 20, 2)
    monkeypatch.setattr(machine, "cores", lambda: 3)
    with ConfiguredEngine(Settings(memory_mb=9000)).converter(ConfiguredLake(Settings())) as converter:
        assert converter.workers == 3
    monkeypatch.setattr(machine, "memory_bytes", lambda: 300 << 20)
    with pytest.raises(ConversionError, match=r"^150 MB of memory is too little for 1 worker.*Allow at least 256 MB"):
        ConfiguredEngine(Settings()).converter(ConfiguredLake(Settings()))
