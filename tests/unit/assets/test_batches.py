"""The steps of an hour: what is fetched, when an hour counts as archived, what is remembered of it."""

import json
import os
import shutil
from datetime import timedelta

import pytest

from assets.steps import hour as batches
from assets.steps.converting import NotArchivedError
from resources.datasets import ARTICLE_CHANGES
from resources.enterprise import errors
from resources.lake import ArchiveError
from resources.tables import HourState
from tests.unit.enterprise.conftest import HOUR

EN, FR, IT = ("enwiki", 0), ("frwiki", 0), ("itwiki", 0)


def test_a_plan_takes_the_mirrored_files_alone_and_counts_what_is_not_archived(bench):
    bench.serve("enwiki", 1, 2)
    bench.serve("enwiki", 3, namespace=14)
    bench.serve("frwiki", *range(40))
    bench.serve("dewiki", 5)
    plan = bench.plan(FR, IT, EN)
    assert sorted(one.identifier for one in plan.wanted) == ["enwiki_namespace_0", "frwiki_namespace_0"]
    assert plan.absent == (IT,)
    sizes = {one.project_id: one.approximate_bytes for one in plan.wanted}
    assert (len(plan.missing), plan.missing_bytes) == (2, sum(sizes.values()))

    bench.fetch(EN)
    plan = bench.plan(FR, IT, EN)
    assert (len(plan.wanted), len(plan.missing), plan.missing_bytes) == (2, 1, sizes["frwiki"])
    bench.serve("enwiki", 1, 2, 3)  # another version is another file
    assert len(bench.plan(EN).missing) == 1


def test_the_list_that_is_kept_names_what_was_landed_though_the_hour_was_exported_again_meanwhile(bench):
    old = bench.serve("enwiki", 1)
    other, plan = bench.serve("frwiki", 1), bench.plan(EN, FR)
    new = bench.serve("enwiki", 1, 2)
    archived = batches.fetch_hour(plan, bench.client, bench.layout, bench.engine)
    listed = json.loads(bench.layout.batch_list(ARTICLE_CHANGES, HOUR).read_bytes())
    versions = {one["identifier"]: one["version"] for one in listed}
    assert versions == {"enwiki_namespace_0": new, "frwiki_namespace_0": other}
    assert new != old
    assert {one.version for one in archived.archives} == {new, other}
    # so that later, without the service, the hour is found whole
    found = batches.archived_hour(HOUR, bench.layout, [EN, FR], ARTICLE_CHANGES)
    assert set(found.archives) == set(archived.archives)
    assert [one.row_count for one in sorted(bench.convert(found), key=lambda one: one.project_id)] == [2, 1]


def test_an_hour_is_archived_without_the_files_that_cannot_be_fetched(bench):
    bench.serve("enwiki", 1)
    bench.serve("frwiki", 1, version="f" * 32)
    with pytest.raises(errors.IntegrityError):
        bench.fetch(FR)
    assert not bench.layout.batch_list(ARTICLE_CHANGES, HOUR).exists()
    with pytest.raises(NotArchivedError, match=r"The hour 2026-11-01 05:00 UTC is not archived"):
        batches.archived_hour(HOUR, bench.layout, [EN], ARTICLE_CHANGES)
    fetched = bench.fetch(EN, FR)
    assert [one.project_id for one in fetched.archives] == ["enwiki"]
    assert {place: type(error) for place, error in fetched.damaged.items()} == {FR: errors.IntegrityError}
    # so that it can be loaded from the archive for ever
    assert batches.archived_hour(HOUR, bench.layout, [EN], ARTICLE_CHANGES).archives == fetched.archives
    with pytest.raises(NotArchivedError, match="The frwiki_namespace_0 file "):
        batches.archived_hour(HOUR, bench.layout, [EN, FR], ARTICLE_CHANGES)
    found = batches.archived_hour(HOUR, bench.layout, [EN, FR], ARTICLE_CHANGES, partial=True)
    assert (found.archives, found.damaged.keys()) == (fetched.archives, {FR})
    with pytest.raises(NotArchivedError):
        batches.archived_hour(HOUR, bench.layout, [FR], ARTICLE_CHANGES, partial=True)
    bench.serve("frwiki", 1)
    assert len(bench.fetch(EN, FR).fetched) == 1  # the other was kept


def test_a_body_that_begins_again_is_not_counted_twice(bench):
    bench.serve("enwiki", *range(200))
    bench.fake.ranges = False
    bench.fake.cut(500, 900)
    size = bench.fetch(EN).archives[0].path.stat().st_size
    assert size > 900
    told = [line for line in bench.said if " in " in line]
    assert len(told) == 1
    assert told[0].startswith(f"download 2026-11-01 05:00: {size / 1e3:,.1f} kB in ")


def test_an_absent_hour_that_is_loaded_from_the_archive_was_checked_when_it_was_listed(bench):
    """A rebuild asks nobody, so a later listing may still name the project."""
    bench.serve("enwiki", 1)
    bench.fetch(EN, IT)
    listed_at = HOUR + timedelta(hours=2)
    os.utime(bench.layout.batch_list(ARTICLE_CHANGES, HOUR), times=(listed_at.timestamp(),) * 2)
    archived = batches.archived_hour(HOUR, bench.layout, [EN, IT], ARTICLE_CHANGES)
    load = batches.load_hour(archived, bench.convert(archived), bench.warehouse)
    assert (load.row_count, load.changed, bench.states()) == (1, True, {(HOUR, *EN): "loaded", (HOUR, *IT): "absent"})
    rows = bench.warehouse.coverage(published=False, dataset=ARTICLE_CHANGES)
    assert {row.project_id: row.checked_at for row in rows} == {"enwiki": bench.clock(), "itwiki": listed_at}


def test_the_disk_must_hold_what_is_made_of_the_archives_and_the_floor(bench, monkeypatch):
    bench.serve("enwiki", *range(300))
    plan, floor = bench.plan(EN), 2_000_000_000
    needed = int(2 * plan.missing_bytes * batches.DISK_FACTOR) + floor
    assert needed > floor + 2 * plan.missing_bytes
    usage = shutil.disk_usage(bench.data.parent)

    def check(free, gigabytes=2.0):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
        batches.check_disk([plan, plan], bench.data / "new", gigabytes)

    check(needed)
    assert (bench.data / "new").is_dir()
    told = r"for 2 hours and must leave 2\.0 GB of disk space free.*only 2\.0 GB is free in .*\. Nothing was "
    with pytest.raises(errors.DiskFull, match=told):
        check(needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=floor - 1))
    with pytest.raises(errors.DiskFull, match=r"^The run must leave 2\.0 GB of disk space free .*Nothing was "):
        batches.check_disk([], bench.data, 2.0)
    check(needed - floor, gigabytes=0)
    with pytest.raises(errors.DiskFull):
        check(needed - floor - 1, gigabytes=0)


def test_what_is_remembered_of_an_hour_that_failed():
    kinds = (errors.NotPublishedYet, errors.RetentionPassed, errors.NotFound, errors.EnterpriseError, OSError)
    states = [HourState.NOT_YET, HourState.PAST_RETENTION, *[HourState.MISSING] * 3]
    assert [batches.state_of(kind("No.")) for kind in kinds] == states
    with pytest.raises(errors.DiskFull):  # which the hour's other files meet as well
        batches.check_alone([errors.IntegrityError("Wrong."), errors.DiskFull("Full.")], 9)


def test_one_damaged_archive_fails_the_hour_and_the_others_are_converted(bench):
    for project in ("enwiki", "frwiki"):
        bench.serve(project, 1)
    archived = bench.fetch(EN, FR)
    whole = {one.project_id: one for one in archived.archives}
    content = whole["enwiki"].path.read_bytes()
    whole["enwiki"].path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ArchiveError, match="enwiki_namespace_0"):
        bench.convert(archived)
    whole["enwiki"].path.write_bytes(content)
    bench.said.clear()
    made = bench.convert(archived)
    assert {one.project_id: one.converted for one in made} == {"enwiki": True, "frwiki": False}
    assert [one.identifier for one in made] == [one.identifier for one in archived.archives]
    # what was there is no work, and not told as such
    assert bench.said[0] == f"convert 2026-11-01 05:00: {len(content)} B"
    bench.said.clear()
    assert ([one.converted for one in bench.convert(archived)], bench.said) == ([False, False], [])
    # with other bodies or another limit for records, it is another conversion
    assert all(one.converted for one in bench.convert(archived, bodies=("html",)))
    bench.converter.record_bytes_max += 1
    assert all(one.converted for one in bench.convert(archived))
