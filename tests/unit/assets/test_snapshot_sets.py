"""A snapshot as it lies in the archive: which version counts, when it is whole, what becomes of it."""

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assets.steps import rebuilding
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError, convert_archives
from resources.adapters import ConfiguredLake
from resources.datasets import SNAPSHOT_ARTICLES
from resources.enterprise import Listing, SnapshotOptions, models
from resources.enterprise.listing import OddRecord
from resources.lake import LakeError
from resources.settings import Settings
from tests.unit.assets.conftest import archive_bytes, listed, record, write_set

NAME = "enwiki_namespace_0"
DAY = datetime(2026, 11, 1, tzinfo=UTC)


def version_of(number):
    return f"{number}" * 32


@pytest.fixture
def put(bench):
    """`put(number, *chunks)`: a version of a snapshot of so many chunks, each a list of pages, exported `at`."""

    def archive(number, *chunks, at=DAY, manifest=True):
        folder = bench.layout.snapshot_archive(SNAPSHOT_ARTICLES, NAME)
        folder.mkdir(parents=True, exist_ok=True)
        versions = {}
        for index, pages in enumerate(chunks):
            identifier = f"{NAME}_chunk_{index}"
            content = archive_bytes(identifier, *(record(page) for page in pages))
            version = hashlib.md5(content).hexdigest()
            name = f"{identifier}.{version[:8]}.tar.gz"
            (folder / name).write_bytes(content)
            versions[name] = version
        return write_set(folder, version_of(number), versions, at) if manifest else None

    return archive


def snapshot(number, project="enwiki", namespace=0):
    return models.Snapshot.model_validate(listed(project, namespace, version=version_of(number)))


def test_the_snapshots_of_mirrored_projects_and_namespaces_are_taken():
    records = [snapshot(1), snapshot(1, namespace=14), *(snapshot(1, one) for one in ("frwiki", "dewiki", "itwiki"))]
    scope, odd = [("enwiki", 0), ("dewiki", 0), ("itwiki", 0), ("frwiki", 14)], OddRecord("?", "", {"itwiki"}, {0})
    found = snapshot_sets.mirrored(Listing(b"", tuple(records), "", DAY, (odd,)), scope)
    assert [one.identifier for one in found] == [NAME, "dewiki_namespace_0"]


def test_a_version_is_archived_when_its_own_set_is_whole(bench, put):
    assert not snapshot_sets.is_archived(snapshot(1), bench.layout, SNAPSHOT_ARTICLES)
    put(1, [1], manifest=False)
    assert not snapshot_sets.is_archived(snapshot(1), bench.layout, SNAPSHOT_ARTICLES)
    put(1, [1], [2, 3])
    assert snapshot_sets.is_archived(snapshot(1), bench.layout, SNAPSHOT_ARTICLES)
    assert not snapshot_sets.is_archived(snapshot(2), bench.layout, SNAPSHOT_ARTICLES)
    # versions have no order: an earlier export that the service offers again is another one
    put(2, [4], at=DAY - timedelta(days=1))
    assert snapshot_sets.is_archived(snapshot(2), bench.layout, SNAPSHOT_ARTICLES)
    victim = next(bench.layout.snapshot_archive(SNAPSHOT_ARTICLES, NAME).glob("*_chunk_1*.tar.gz"))
    victim.unlink()
    assert not snapshot_sets.is_archived(snapshot(1), bench.layout, SNAPSHOT_ARTICLES)
    with pytest.raises(NotArchivedError, match=f"{victim.name} of {NAME} was removed from the archive"):
        snapshot_sets.archived_snapshot(NAME, bench.layout, SNAPSHOT_ARTICLES, version_of(1))


def test_the_newest_export_is_taken_unless_a_version_is_named(bench, put):
    put(2, [1], [2], at=DAY + timedelta(days=2))
    put(3, [3], at=DAY.replace(day=2, tzinfo=None))  # a date without a zone is in UTC
    newest = snapshot_sets.archived_snapshot(NAME, bench.layout, SNAPSHOT_ARTICLES)
    assert (newest.version, newest.exported_at) == (version_of(2), DAY + timedelta(days=2))
    assert [one.identifier for one in newest.archives] == [f"{NAME}_chunk_0", f"{NAME}_chunk_1"]
    assert {one.snapshot_version for one in newest.archives} == {version_of(2)}
    older = snapshot_sets.archived_snapshot(NAME, bench.layout, SNAPSHOT_ARTICLES, version_of(3))
    assert (older.version, older.exported_at) == (version_of(3), DAY + timedelta(days=1))
    with pytest.raises(NotArchivedError, match=r"The archive does not contain all files of enwiki_namespace_0"):
        snapshot_sets.archived_snapshot(NAME, bench.layout, SNAPSHOT_ARTICLES, version_of(4))
    # a set without a date is as old as its manifest
    path, moment = put(1, [1], at=None), DAY + timedelta(days=5)
    os.utime(path, (moment.timestamp(), moment.timestamp()))
    assert snapshot_sets.archived_snapshot(NAME, bench.layout, SNAPSHOT_ARTICLES).exported_at == moment


def test_the_newest_whole_versions_are_loaded_by_a_rebuild_the_oldest_first(bench, put):
    for number, days in ((1, 1), (2, 4), (3, 2), (4, 3)):
        put(number, [number], at=DAY + timedelta(days=days))
    kept = rebuilding.kept_versions(bench.layout, SNAPSHOT_ARTICLES, NAME)
    assert [one.version for one in kept] == [*map(version_of, (3, 4, 2))]
    kept[1].archives[0].path.unlink()
    kept = rebuilding.kept_versions(bench.layout, SNAPSHOT_ARTICLES, NAME)
    assert [one.version for one in kept] == [*map(version_of, (1, 3, 2))]
    # of a dataset without a current state, one is enough
    stateless = replace(SNAPSHOT_ARTICLES, state=None)
    assert [one.version for one in rebuilding.kept_versions(bench.layout, stateless, NAME)] == [version_of(2)]


def test_a_snapshot_is_loaded_when_all_its_archives_are_converted(bench, put):
    put(1, [1], [2, 3])
    archived = snapshot_sets.archived_snapshot(NAME, bench.layout, SNAPSHOT_ARTICLES)
    lake = ConfiguredLake(Settings(data=bench.data, bodies=("html",)))
    how = {"bodies": ["html"], "converter": bench.converter, "engine": bench.engine}
    for missing, of in ((2, archived.archives[:1]), (1, archived.archives[1:])):
        with pytest.raises(NotArchivedError, match=f"{missing} of 2 archives of {NAME} are not converted"):
            snapshot_sets.all_conversions(archived, lake)
        one = replace(archived, archives=of)
        convert_archives(one.identifier, one.archives, bench.layout, **how)
    with pytest.raises(NotArchivedError):
        snapshot_sets.all_conversions(archived, ConfiguredLake(Settings(data=bench.data)))

    conversions = snapshot_sets.all_conversions(archived, lake)
    assert [one.row_count for one in conversions] == [1, 2]
    load = snapshot_sets.load_snapshot(archived, conversions, bench.warehouse)
    assert (load.row_count, load.file_count, load.is_base, load.changed) == (3, 2, True, True)
    assert not snapshot_sets.load_snapshot(archived, conversions, bench.warehouse).changed
    assert bench.warehouse.apply_changes().row_count == 3
    conversions[1].path.write_bytes(b"no rows")
    with pytest.raises(LakeError, match=rf"^The lake file {conversions[1].path} or its rejects file cannot be read\."):
        snapshot_sets.all_conversions(archived, lake)


def test_what_is_asked_of_the_planner_leaves_the_floor_free_and_counts_what_is_made_of_the_files():
    options = snapshot_sets.fetch_options(1.5, SnapshotOptions(chunks=True, beyond_quota=True, most_units=7))
    assert (options.keep_free_bytes, options.disk_factor) == (1_500_000_000, snapshot_sets.DISK_FACTOR)
    assert (options.form, options.beyond_quota, options.most_units) == ("chunks", True, 7)
    assert snapshot_sets.fetch_options(0, SnapshotOptions(whole=True)).form == "whole"
    assert snapshot_sets.fetch_options(0).form is None
    assert snapshot_sets.DISK_FACTOR > 2
