"""`articles` and the bodies equal the sandbox's own page table, whatever happened to the hours on their way in.

The truth is read from the world's pages, never folded from records. Expected rows are made here from the wire form by plain
Python, so that nothing of the converter is trusted. Compared: every column of `articles` and a digest of both bodies, in
both directions.
"""

from __future__ import annotations

import hashlib
import json
import random
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from assets.converting import files_of
from resources.lake import Archive, convert
from resources.sandbox import Settings, running
from resources.sandbox.world import World
from resources.tables import ARTICLES, TIMESTAMP
from resources.warehouse import LakeFile

HOUR = timedelta(hours=1)


def dig(record, path):
    for part in path.split("."):
        if not isinstance(record, dict) or part not in record:
            return None
        record = record[part]
    return record


def moment(text):
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction:0<6.6}+00:00")


def plain(value, kind):
    """A JSON value as the column's type; absent, null and empty are the same."""
    if value in (None, "", [], {}):
        return None
    if kind == TIMESTAMP:
        return moment(value)
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value.get(field.name), field.type) for field in kind}
    if pa.types.is_floating(kind):
        return float(value)
    return value


def expected_row(record, batch_hour):
    row = {c.name: plain(dig(record, c.path), c.type) for c in ARTICLES if c.path is not None}
    row["namespace_id"] = record["namespace"]["identifier"]
    row["batch_hour"] = batch_hour
    row["change_type"] = record["event"]["type"]
    row["event_at"] = moment(record["event"].get("date_published") or record["event"]["date_created"])
    row["extra"] = None
    body = record["article_body"]
    row["bodies"] = digest(body.get("html"), body.get("wikitext"))
    return row


def found_row(row):
    """A row of the warehouse in the same plain form; flags and counts that are absent in the record may be null."""
    values = {
        c.name: plain(row[c.name], c.type) if not isinstance(row[c.name], datetime) else row[c.name] for c in ARTICLES
    }
    values["namespace_id"] = row["namespace_id"]
    values["bodies"] = digest(row["html"], row["wikitext"])
    return values


def digest(html, wikitext):
    return hashlib.sha256(f"{html}\0{wikitext}".encode()).hexdigest()


def truth_of(mirror, hours):
    """Rows by (project, page): pages with an event in the hours that are live when the last hour's export begins."""
    world, rows = mirror.sandbox.world, {}
    for project in mirror.settings.projects:
        until = world.export_started_at(project, hours[-1])
        for namespace in mirror.settings.namespaces:
            for record in world.truth(project, namespace, until, since=hours[0]):
                published = moment(record["event"]["date_published"])
                # files overlap: the first of the loaded hours whose export began after the event holds it
                first = next(h for h in hours if published < world.export_started_at(project, h))
                rows[project, record["identifier"]] = expected_row(record, first)
    return rows


def found_in(mirror):
    with mirror.warehouse.connect_published() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = connection.sql(
            "SELECT a.*, b.html, b.wikitext FROM articles a "
            "LEFT JOIN article_bodies b USING (project_id, article_id, version_id, batch_hour)"
        ).to_arrow_table()
    rows = table.to_pylist()
    found = {(row["project_id"], row["article_id"]): found_row(row) for row in rows}
    assert len(found) == len(rows), "a page stands twice in articles, or its bodies do"
    return found


def assert_same(found, truth, what="at the end"):
    assert len(truth) > 50
    wrong = [key for key in truth.keys() | found.keys() if found.get(key) != truth.get(key)]
    if wrong:
        key = min(wrong)
        have, want = found.get(key) or {}, truth.get(key) or {}
        columns = {
            name: (have.get(name), want.get(name))
            for name in have.keys() | want.keys()
            if have.get(name) != want.get(name)
        }
        pytest.fail(f"{what}, {len(wrong)} of {len(truth)} pages differ, first {key}: (found, truth) {columns}")


def in_order(mirror, hours, _draw, _folder):
    assert mirror.materialize(hours).success
    assert mirror.publish().success


def shuffled(mirror, hours, draw, _folder):
    for hour in draw.sample(hours, len(hours)):
        assert mirror.materialize([hour]).success
        if draw.random() < 0.5:  # some hours are taken in alone, some together
            assert mirror.publish().success
    assert mirror.publish().success


def twice(mirror, hours, draw, folder):
    in_order(mirror, hours, draw, folder)
    shuffled(mirror, hours, draw, folder)
    for hour in hours:
        assert not mirror.warehouse.load_hour(hour, lake_files(mirror, hour)).changed


def redone(mirror, hours, draw, folder):
    """One hour is loaded from another world first, taken in, and then mended by the true one."""
    wrong_hour = draw.choice(hours)
    world = World(
        Settings(state=folder, seed=99, projects=mirror.settings.projects, changes_per_hour=60, body_bytes=500)
    )
    strange = []
    for batch in world.batches(wrong_hour):
        project, namespace = batch.record["is_part_of"]["identifier"], batch.record["namespace"]["identifier"]
        if namespace in mirror.settings.namespaces:
            archive = Archive(batch.path, batch.record["identifier"], batch.version, wrong_hour, project, namespace)
            strange.append(convert(archive, mirror.layout))
    assert mirror.materialize([hour for hour in hours if hour < wrong_hour] or hours).success
    assert mirror.warehouse.load_hour(wrong_hour, files_of(LakeFile, strange)).changed
    assert mirror.publish().success
    assert mirror.materialize(hours).success
    assert mirror.publish().success


def lake_files(mirror, hour):
    from assets import batches

    scope = [(p, n) for p in mirror.settings.projects for n in mirror.settings.namespaces]
    archived = batches.archived_hour(hour, mirror.layout, scope)
    return files_of(LakeFile, [convert(archive, mirror.layout) for archive in archived.archives])


def check(tmp_path, monkeypatch, mirror_class, seed, way, *, overlap=True, hours=4, changes=60, namespaces=(0,)):
    now = datetime(2026, 2, 3, 4, 30, tzinfo=UTC) + timedelta(hours=7 * seed)
    settings = Settings(
        state=tmp_path / "sandbox",
        seed=seed,
        now=now,
        projects=("enwiki", "frwiki"),
        namespaces=(0, 10),
        changes_per_hour=changes,
        overlap=overlap,
        body_bytes=500,
    )
    with running(settings) as sandbox, ExitStack() as stack:
        mirror = mirror_class(
            sandbox, tmp_path / "data", monkeypatch, projects=settings.projects, namespaces=namespaces
        )
        stack.callback(mirror.instance.dispose)
        chosen = mirror.newest(hours)
        way(mirror, chosen, random.Random(seed), tmp_path / "other")
        assert_same(found_in(mirror), truth_of(mirror, chosen))
        before = articles_digest(mirror)
        mirror.warehouse.rebuild_articles()
        assert articles_digest(mirror) == before, "a rebuild gives another table"
        return mirror, chosen


def articles_digest(mirror):
    rows = mirror.rows("SELECT md5(articles::VARCHAR) FROM articles")
    return sorted(row[0] for row in rows)


@pytest.fixture
def mirror_class(mirror):
    return type(mirror)


@pytest.mark.parametrize(("seed", "way"), [(1, in_order), (2, shuffled), (3, twice), (4, redone), (5, redone)])
def test_articles_are_the_truth(tmp_path, monkeypatch, mirror_class, seed, way):
    check(tmp_path, monkeypatch, mirror_class, seed, way)


def test_without_overlap_and_over_two_namespaces(tmp_path, monkeypatch, mirror_class):
    check(tmp_path, monkeypatch, mirror_class, 6, shuffled, overlap=False, namespaces=(0, 10))


def test_over_two_namespaces_with_overlap(tmp_path, monkeypatch, mirror_class):
    check(tmp_path, monkeypatch, mirror_class, 7, redone, namespaces=(0, 10))


def test_the_hours_hold_what_makes_the_truth_hard(tmp_path, monkeypatch, mirror_class):
    """At least five of each special kind; without them the comparison would show little."""
    mirror, hours = check(tmp_path, monkeypatch, mirror_class, 8, in_order, hours=3)
    world = mirror.sandbox.world
    for project in mirror.settings.projects:
        kinds = [event.kind for event in world.events(project, hours[0], hours[-1] + HOUR)]
        assert {"delete", "move"} & set(kinds)
        counts = {kind: kinds.count(kind) for kind in set(kinds)}
        rare = {kind: count for kind, count in counts.items() if count < 5}
        assert not rare, f"{project}: {json.dumps(counts)}"
        assert len(counts) >= 10, counts


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("way", [in_order, shuffled, twice, redone])
def test_articles_are_the_truth_over_many_seeds(tmp_path, monkeypatch, mirror_class, seed, way):
    check(
        tmp_path, monkeypatch, mirror_class, seed, way, hours=8, changes=200, overlap=seed % 3 != 0, namespaces=(0, 10)
    )


# --- with snapshots underneath, at the end and at any moment ---------------------------------------------------------

PROJECTS = ("enwiki", "frwiki", "simplewiki")


def without_source(row):
    return {name: value for name, value in row.items() if name != "batch_hour"}


def truth_at(mirror, moment_of):
    """Rows by (project, page) of all pages that live after the events before a moment of each project."""
    world, rows = mirror.sandbox.world, {}
    for project in mirror.settings.projects:
        for namespace in mirror.settings.namespaces:
            for record in world.truth(project, namespace, moment_of(project)):
                rows[project, record["identifier"]] = without_source(expected_row(record, None))
    return rows


def pages_in(mirror, source, *parameters):
    with mirror.warehouse.connect_published() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = connection.sql(
            f"SELECT a.*, b.html, b.wikitext FROM {source} a "
            "LEFT JOIN article_bodies b USING (project_id, article_id, version_id, batch_hour)",
            params=list(parameters) or None,
        ).to_arrow_table()
    rows = table.to_pylist()
    found = {(row["project_id"], row["article_id"]): without_source(found_row(row)) for row in rows}
    assert len(found) == len(rows), "a page stands twice, or its bodies do"
    return found


def disturbed(mirror, hours, draw, _folder):
    """Shuffled, some repeated, some taken in at once."""
    for hour in draw.sample(hours, len(hours)):
        assert mirror.materialize([hour]).success
        if draw.random() < 0.2:
            assert mirror.publish().success
    for hour in draw.sample(hours, 3):
        assert mirror.materialize([hour]).success


def check_snapshots(
    tmp_path, monkeypatch, mirror_class, seed, way, *, days=2, changes=40, articles=150, moments=10, late=False
):
    draw = random.Random(seed)
    start = datetime(2026, 2, 3, 5, 20, tzinfo=UTC) + timedelta(days=seed)
    settings = Settings(
        state=tmp_path / "sandbox",
        seed=seed,
        now=start,
        projects=PROJECTS,
        namespaces=(0, 10),
        changes_per_hour=changes,
        articles=articles,
        body_bytes=400,
        chunk_bytes=100_000,
        single_member=seed % 2 == 0,
    )
    with running(settings) as sandbox, ExitStack() as stack:
        mirror = mirror_class(sandbox, tmp_path / "data", monkeypatch, projects=PROJECTS, namespaces=(0,))
        stack.callback(mirror.instance.dispose)
        world = sandbox.world
        exported = min(
            world.snapshot_times(one, start)[0] for one in world.snapshot_identifiers() if one.endswith("namespace_0")
        )
        first = exported.replace(minute=0, second=0, microsecond=0) - HOUR
        if not late:
            assert all(made.success for made in mirror.take_snapshots())
        hours = []
        for _ in range(days):
            until = sandbox.clock.now()
            new = [h for h in mirror.newest(47) if h >= first and h not in hours]
            way(mirror, new, draw, tmp_path)
            hours += new
            assert mirror.publish().success
            if late and len(hours) == len(new):
                # a snapshot that comes after the hours that it overlaps
                assert all(made.success for made in mirror.take_snapshots())
            sandbox.clock.set(until + timedelta(days=1))
        assert mirror.publish().success
        last = hours[-1]
        assert_same(
            pages_in(mirror, "articles"),
            truth_at(mirror, lambda project: world.export_started_at(project, last)),
            "at the end",
        )
        before = sorted(mirror.rows("SELECT md5(articles::VARCHAR) FROM articles"))
        mirror.warehouse.rebuild_articles()
        assert sorted(mirror.rows("SELECT md5(articles::VARCHAR) FROM articles")) == before, "a rebuild differs"
        ended = max(
            world.snapshot_times(one, start)[1] for one in world.snapshot_identifiers() if one.endswith("namespace_0")
        )
        for moment in draw.choices([h for h in hours if h > ended], k=moments):
            at = moment + timedelta(seconds=draw.randrange(3600))
            at = min(at, last + HOUR)
            assert_same(
                pages_in(mirror, "articles_at(?)", at), truth_at(mirror, lambda _project, at=at: at), f"at {at}"
            )
        return mirror


@pytest.mark.parametrize(("seed", "way", "late"), [(1, in_order, False), (2, disturbed, True)])
def test_articles_over_snapshots_are_the_truth(tmp_path, monkeypatch, mirror_class, seed, way, late):
    check_snapshots(
        tmp_path, monkeypatch, mirror_class, seed, way, days=1, changes=25, articles=80, moments=2, late=late
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 220))
def test_articles_over_snapshots_are_the_truth_over_many_seeds(tmp_path, monkeypatch, mirror_class, seed):
    check_snapshots(tmp_path, monkeypatch, mirror_class, seed, disturbed, late=seed % 3 == 0)
