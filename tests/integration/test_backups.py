"""Backups of a mirror that has everything, after a compaction and in the middle of loads.

What is restored answers every question alike.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial

from assets.steps.compaction import compact_lake
from pipelines.operations import backup as operations
from pipelines.operations import restore as restoring
from resources import backup as backups
from resources.data_folder import claim
from resources.datasets import SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES, STRUCTURED_ARTICLES
from resources.engine import Engine, line_reporter
from resources.sandbox import Settings, running
from resources.warehouse import Warehouse
from tests.integration.listening import listen
from tests.integration.mirror import Mirror

NOW = datetime(2026, 2, 3, 5, 40, tzinfo=UTC)
QUIET = line_reporter(lambda _: None)


def digests(warehouse):
    """Number and digest of the rows of every table and view that analysts see.

    Details of the publication itself are left out.
    """
    with closing(warehouse.connect_published()) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' AND table_catalog = "
            "current_database()"
        ).fetchall()
        return {
            name: connection.execute(
                "SELECT count(*), sum(hash(t)), bit_xor(hash(t)) FROM (SELECT COLUMNS(lambda c: c != 'lag_seconds') "
                f"FROM {name}) AS t"
            ).fetchone()
            for (name,) in names
            if name != "about"
        }


def compact(mirror, do):
    """Compact everything; `do` is called after the first step."""
    waiting = [do]
    later = Warehouse(mirror.data, clock=lambda: NOW + timedelta(days=40))
    return compact_lake(
        mirror.layout,
        later,
        Engine(workers=1),
        memory_bytes=1 << 25,
        say=lambda _: waiting.pop()() if waiting else None,
    )


def test_what_was_backed_up_after_a_compaction_and_during_loads_answers_alike(tmp_path, monkeypatch):
    settings = Settings(
        state=tmp_path / "sandbox",
        now=NOW,
        projects=("enwiki",),
        namespaces=(0, 10),
        changes_per_hour=30,
        entities=60,
        body_bytes=300,
        chunk_bytes=20_000,
        stream_rate=0,
    )
    to, taken = tmp_path / "backups", []
    with (
        running(settings) as sandbox,
        closing(
            Mirror(sandbox, tmp_path / "data", monkeypatch, projects=("enwiki",), namespaces=(0, 10), wikidata=True)
        ) as mirror,
    ):
        for module in (operations, restoring):
            monkeypatch.setattr(module, "Warehouse", partial(Warehouse, clock=sandbox.clock.now))
        claim(mirror.data, sandbox.url)

        def take():
            made = operations.take(mirror.data, to, QUIET, keep=3)
            assert made.problems == ()
            taken.append(made.backup.path)

        *hours, last = mirror.newest(3)
        assert mirror.materialize(hours).success
        for dataset in (SNAPSHOT_ARTICLES, STRUCTURED_ARTICLES, SNAPSHOT_ENTITIES):
            wiki = dataset.places[0][0] if dataset.places else "enwiki"
            made = mirror.take_snapshot(f"{wiki}_namespace_0", dataset, **mirror.at("download ", take))
            assert made.success, made.sentence
        # one step of the compaction is committed then, and others are not
        assert {one.merge.units[0].name.partition("/")[0] for one in compact(mirror, take)} == {
            "article_changes",
            "entity_changes",
        }
        mirror.publish()
        waiting = [take]
        since = NOW - timedelta(minutes=30)
        _, warned = listen(mirror, 4, since, connections=1, say=lambda: waiting and waiting.pop()())
        assert warned == []
        known = digests(mirror.warehouse)
        # an hour is downloaded meanwhile, and not loaded so far
        of_articles = ("archive/batches", "lake/article_changes", "warehouse/article_changes")
        assert mirror.materialize([last], of_articles, **mirror.at("download ", take)).success
        assert len(taken) == 6
        assert [one.path for one in backups.completed(to)] == taken[-3:]
        done = restoring.restore(to, tmp_path / "restored", QUIET)
        assert done.damaged == []
        assert digests(Warehouse(tmp_path / "restored", clock=sandbox.clock.now)) == known
    asked = {
        "articles",
        "article_bodies",
        "compacted_files",
        "entities",
        "entity_bodies",
        "sections",
        "snapshot_entities",
        "stream_state",
    }
    assert all(known[name][0] for name in asked)
