"""Planning a snapshot: which form, why, and what it costs, from what the service, the disk and the folder have."""

import hashlib
import json
import pickle
import re
import shutil
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from resources.datasets import SNAPSHOT_ARTICLES
from resources.datasets.paths import name_of
from resources.enterprise import FetchOptions, Sidecar, check_together, errors, models, plan_snapshot, superseded
from resources.enterprise.snapshot.plan import PlannedFile
from resources.enterprise.snapshot.planner import planned_file
from tests.unit.enterprise.loopback import error_reply

NAME = "enwiki_namespace_0"
FOLDER = Path("/archive/snapshots")
OLD = "0" * 32
FUTURE = pytest.raises(errors.UnexpectedAnswer, match=f"{NAME} ended at 2026-11-02 06:20 UTC.* Nothing was fetched")


def record(identifier, size, **more):
    return {
        "identifier": identifier, "version": hashlib.md5(identifier.encode()).hexdigest(),
        "is_part_of": {"identifier": "enwiki"}, "namespace": {"identifier": 0},
        "size": {"value": size / 1e6, "unit_text": "MB"}, **more,
    }  # fmt: skip


class Offer:
    """A snapshot of `count` chunks of `size` bytes, as the service lists them."""

    def __init__(self, count=20, size=100_000_000, folder=FOLDER):
        self.folder = folder
        names = [f"{NAME}_chunk_{n}" for n in range(count)]
        self.chunks = [models.Chunk.model_validate(record(n, size)) for n in reversed(names)]
        self.snapshot = models.Snapshot.model_validate(record(NAME, max(count, 1) * size, chunks=names))

    def plan(self, *, snapshots=None, chunks=None, free=10**15, landed=(), left=None, listed=None, form=None, **more):
        units = {"snapshot": snapshots, "chunk": chunks}

        def planned(record):
            size, is_landed = record.approximate_bytes, record in landed
            there = size if is_landed else (left or {}).get(record.identifier, 0)
            return PlannedFile(record, self.folder / name_of(record.identifier, record.version), size, there, is_landed)

        return plan_snapshot(
            self.snapshot,
            planned(self.snapshot),
            [planned(chunk) for chunk in (self.chunks if listed is None else listed)],
            quotas={name: models.Quota(7, 7 + left) for name, left in units.items() if left is not None},
            free_bytes=free,
            options=FetchOptions(**more | ({} if form is None else {form: True})),
            dataset=SNAPSHOT_ARTICLES,
        )


@pytest.fixture
def offer():
    return Offer()


def test_chunks_are_in_the_order_of_their_numbers_under_names_with_their_version(offer):
    plan = offer.plan()
    assert [p.identifier for p in plan.files] == [f"{NAME}_chunk_{n}" for n in range(20)]
    assert {p.target.parent for p in plan.files} == {FOLDER}
    assert all(p.target.name == f"{p.identifier}.{p.version[:8]}.tar.gz" for p in plan.files)
    assert plan.manifest.name == f"{NAME}.{plan.snapshot.version[:8]}.set.json"
    # plans travel between processes
    assert pickle.loads(pickle.dumps(plan)) == plan


#: Chunks, bytes of each, snapshot and chunk units left, form and why. The last snapshot unit is dearer than chunks.
FORMS = [line.split(" | ") for line in Path(__file__).with_name("forms.txt").read_text().splitlines()]


@pytest.mark.parametrize(("count", "size", "snapshots", "chunks", "form", "why"), FORMS)
def test_the_form_follows_from_quota_and_machine(count, size, snapshots, chunks, form, why):
    count, size, snapshots, chunks = map(json.loads, (count, size, snapshots, chunks))
    plan = Offer(count, size).plan(snapshots=snapshots, chunks=chunks)
    assert plan.form == form
    assert re.search(why, plan.reason), plan.reason
    assert plan.product == ("snapshot" if form == "whole" else "chunk")
    assert len(plan.files) == (1 if form == "whole" else count)
    assert plan.reason in plan.sentence
    assert plan.sentence.endswith(".")


def test_a_dry_run_tells_units_and_bytes_that_are_missing(offer):
    plan = offer.plan(snapshots=30, chunks=1480, landed=offer.chunks[:5], left={f"{NAME}_chunk_3": 10**6})
    assert (plan.unit_count, plan.units_left, len(plan.missing)) == (15, 1480, 15)
    assert (plan.missing_bytes, plan.size_bytes) == (15 * 10**8 - 10**6, 20 * 10**8)
    assert plan.sentence == (
        f"{NAME} in 20 chunks, because 501.0 MB already exist in chunks. The download costs 15 chunk units (1,480 "
        "left) and fetches 1.5 GB (5 of 20 files already exist)."
    )
    # an unfinished file is gone on with for another unit
    plan = offer.plan(left={NAME: 1_999_000_000}, snapshots=30, chunks=1500)
    assert (plan.form, plan.unit_count, plan.missing_bytes) == ("whole", 1, 1_000_000)
    assert "2.0 GB already exist as one file" in plan.reason
    for form, landed in (("whole", [offer.snapshot]), ("chunks", offer.chunks)):
        plan = offer.plan(snapshots=0, chunks=0, free=0, landed=landed, keep_free_bytes=1)
        assert (plan.form, plan.unit_count, plan.missing_bytes, plan.missing, plan.fits_disk) == (form, 0, 0, (), True)
        assert plan.cost == "All files exist (2.0 GB), so the download costs nothing"
        check_together((plan,))


def test_disk_is_seen_to_before_the_start(offer):
    size = 2 * 10**9
    for free, floor, factor in ((size, 0, 1.0), (3 * size, 0, 3.0)):
        plan = offer.plan(free=free, keep_free_bytes=floor, disk_factor=factor)
        assert plan.fits_disk
        check_together((plan,))
    for free, floor, factor in ((size - 1, 0, 1.0), (size, 1, 1.0), (3 * size - 1, 0, 3.0)):
        plan = offer.plan(free=free, keep_free_bytes=floor, disk_factor=factor)
        assert not plan.fits_disk
        left = rf" and must leave 1 B free, but {FOLDER} has only 2\.0 GB free" if floor else ", but"
        with pytest.raises(errors.DiskFull, match=rf"about [26]\.0 GB of disk space{left}.* Nothing was fetched"):
            check_together((plan,))


def test_a_form_that_is_asked_for_is_taken_where_there_is_one(offer):
    assert (offer.plan(form="whole").form, offer.plan(form="whole", listed=[]).form) == ("whole", "whole")
    assert Offer(20, 10**6).plan(form="chunks").form == "chunks"
    told = r"costs 20 chunk units, but .* 3 left \(this form was chosen because this .*\)\. .* \(monthly\), request"
    with pytest.raises(errors.QuotaExceeded, match=told):
        check_together((offer.plan(form="chunks", chunks=3, snapshots=30),))
    for wrong in ({"whole": True, "chunks": True}, {"most_units": -1}, {"most_units": 1_000_001}):
        with pytest.raises(ValueError, match=r"exclusive|(greater|less) than or equal to (0|1000000)"):
            FetchOptions(**wrong)
    alone = Offer(0)
    assert (alone.plan().form, alone.plan().reason) == ("whole", "the service has no chunks of this snapshot")
    with pytest.raises(errors.InvalidRequest, match="no chunks of this snapshot"):
        alone.plan(form="chunks")
    # a list of chunks that does not fit the record is not trusted
    for count in (0, 19):
        plan = offer.plan(listed=offer.chunks[:count])
        assert (plan.form, len(plan.files)) == ("whole", 1)
        assert "differ" in plan.reason
        with pytest.raises(errors.InvalidRequest):
            offer.plan(listed=offer.chunks[:count], form="chunks")
    # chunks are numbered from 0 or 1
    for numbers, missing in (((0, 1, 2), 0), ((1, 2), 0), ((0, 5), 1), ((2, 3), 1), ((1, 2, 10**150), 3), ((7,), 1)):
        offer.chunks = [models.Chunk.model_validate(record(f"{NAME}_chunk_{n}", 10**8)) for n in numbers]
        offer.snapshot = models.Snapshot.model_validate(
            record(NAME, 10**9, chunks=[c.identifier for c in offer.chunks])
        )
        told = f"chunk {missing} is missing from the snapshot's chunks"
        assert [offer.plan().form, offer.plan().reason == told] == (["whole", True] if missing else ["chunks", False])
        with pytest.raises(errors.InvalidRequest, match=told) if missing else nullcontext():
            offer.plan(form="chunks")


def test_plans_that_fit_alone_may_not_fit_together_or_cost_more_than_was_allowed(offer):
    def plans(count=3, **options):
        return [offer.plan(form="chunks", **options) for _ in range(count)]

    check_together([])
    check_together(plans())
    check_together(plans(chunks=60))
    check_together([*plans(2, chunks=59), *plans(1, chunks=59, beyond_quota=True)])
    check_together([*plans(2, chunks=59), offer.plan(form="whole", snapshots=1)])
    told = r"3 snapshots .* 60 chunk units together, .* 59 left\. .* choose few"
    with pytest.raises(errors.QuotaExceeded, match=told):
        check_together([*plans(2, chunks=60), *plans(1, chunks=59), offer.plan(form="whole")])
    check_together(plans(free=6 * 10**9 + 1, keep_free_bytes=1))
    with pytest.raises(errors.DiskFull, match=r"Downloading 3 snapshots requires about 6.0 GB .* choose fewer"):
        check_together([*plans(2), *plans(1, free=6 * 10**9 - 1), *plans(1, landed=offer.chunks)])
    with pytest.raises(errors.DiskFull):
        check_together([*plans(2, free=6 * 10**9), *plans(1, free=6 * 10**9, keep_free_bytes=1)])
    check_together(plans(landed=offer.chunks, free=0, chunks=0))
    check_together((offer.plan(form="chunks", chunks=100, most_units=20),))
    dear = offer.plan(form="chunks", chunks=100, most_units=19, beyond_quota=True)
    with pytest.raises(errors.BudgetExceeded, match=r"in 20 chunks costs 20 quota units, but the limit is 19"):
        check_together((dear,))
    check_together((offer.plan(form="chunks", most_units=0, landed=offer.chunks),))
    both = [offer.plan(form="chunks", most_units=39), offer.plan(form="chunks", most_units=100)]
    with pytest.raises(errors.BudgetExceeded, match=r"Fetching 2 snapshots together costs 40 quota units"):
        check_together(both)


def land(folder, name, version, size=10):
    (folder / name).write_bytes(b"x" * size)
    Sidecar(name, version, size, "/v2/snapshots/x/download", datetime(2026, 1, 1, tzinfo=UTC)).write(folder / name)


def test_a_folder_is_looked_at_without_reading_archives(tmp_path):
    chunks = sorted(Offer(3).chunks, key=lambda chunk: chunk.identifier)
    names = [name_of(c.identifier, c.version) for c in chunks]
    land(tmp_path, names[0], chunks[0].version)
    (tmp_path / f"{names[1]}.part").write_bytes(b"x" * 30)
    (tmp_path / f"{names[1]}.part.100").write_bytes(b"x" * 12)
    (tmp_path / f"{chunks[2].identifier}.{OLD[:8]}.tar.gz.part").write_bytes(b"x" * 50)  # another version
    land(tmp_path, f"{chunks[2].identifier}.{OLD[:8]}.tar.gz", OLD)

    def found():
        return [(one.there_bytes, one.is_landed) for one in (planned_file(tmp_path, chunk) for chunk in chunks)]

    assert found() == [(10, True), (42, False), (0, False)]
    (tmp_path / names[0]).write_bytes(b"x" * 9)  # cut
    assert found() == [(0, False), (42, False), (0, False)]
    assert replace(planned_file(tmp_path, chunks[1]), size_bytes=41).missing_bytes == 0


def test_what_ends_all_downloads_is_raised_and_nothing_is_begun_after_it(client, fake, tmp_path):
    fake.add_snapshot(NAME, b"a", b"b", b"c")
    for number, status in enumerate((422, 403)):
        fake.script(f"*_chunk_{number}/download", error_reply(status, "no"))
    with pytest.raises(errors.Forbidden):
        client.snapshots.download(client.snapshots.plan(NAME, tmp_path, FetchOptions(chunks=True)), workers=1)
    assert fake.api.seen("*_chunk_2/download") == []


def test_a_file_that_is_gone_because_it_was_replaced_ends_its_set(client, fake, tmp_path):
    fake.add_snapshot(NAME, b"a", b"b")
    plan, name = client.snapshots.plan(NAME, tmp_path, FetchOptions(chunks=True)), f"{NAME}_chunk_0"
    new = fake.chunks[name] | {"version": "0" * 32}
    fake.script(f"*{name}/download", lambda _: fake.chunks.update({name: new}) or error_reply(404, "NoSuchKey"))
    with pytest.raises(errors.StaleSnapshot, match="chunk_0 has version"):
        client.snapshots.fetch(plan, plan.files[0])


def test_an_export_of_the_future_is_not_fetched(make_client, fake, clock, tmp_path):
    fake.add_snapshot(NAME, b"a", b"b")
    behind = clock() - timedelta(days=400)
    for client in (make_client(), make_client(now=lambda: behind)):  # the service's clock counts as well
        for ended, expectation in (("02T06:00:00", nullcontext()), ("02T06:20:00Z", FUTURE)):
            fake.snapshots[NAME]["date_modified"] = f"2026-11-{ended}"
            with expectation:
                client.snapshots.plan(NAME, tmp_path)


def test_a_folder_that_is_not_there_yet_has_the_room_of_its_disk(client, fake, tmp_path, monkeypatch):
    fake.add_snapshot(NAME, b"a", b"b")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", {tmp_path: Mock(total=9, free=5)}.get)
    for folder in (tmp_path / "a" / "b", Path("a") / "b"):
        plan = client.snapshots.plan(NAME, folder)
        assert (plan.folder, len(plan.missing)) == (folder, len(plan.files))
        assert plan.free_bytes == 5
    assert not (tmp_path / "a").exists()


def test_files_of_other_versions_and_forms_are_superseded_and_nothing_else(tmp_path):
    plan = Offer(3, folder=tmp_path).plan(form="chunks")
    for piece in plan.files[:2]:
        land(tmp_path, piece.target.name, piece.version)
    (tmp_path / f"{plan.files[2].target.name}.part").write_text("x")
    (tmp_path / f"{plan.files[2].target.name}.part.100").write_text("x")
    plan.manifest.write_text("{}")
    for name in ("notes.txt", f"{NAME}.tar.gz", f"{NAME}0.00000000.tar.gz", "frwiki_namespace_0.00000000.tar.gz"):
        (tmp_path / name).write_text("not ours")
    assert superseded(plan) == ()
    land(tmp_path, f"{NAME}_chunk_7.00000000.tar.gz", OLD)
    whole = name_of(NAME, plan.snapshot.version)
    land(tmp_path, whole, plan.snapshot.version)  # the other form of the same version
    (tmp_path / f"{NAME}_chunk_1.00000000.tar.gz.part").write_text("x")
    (tmp_path / f"{NAME}_chunk_1.00000000.tar.gz.part.100").write_text("x")
    (tmp_path / f"{NAME}.00000000.set.json").write_text("{}")
    one, seven = (f"{NAME}_chunk_{number}.00000000.tar.gz" for number in (1, 7))
    parts = [f"{one}.part", f"{one}.part.100", seven, f"{seven}.json"]
    assert [p.name for p in superseded(plan)] == [f"{NAME}.00000000.set.json", whole, f"{whole}.json", *parts]
