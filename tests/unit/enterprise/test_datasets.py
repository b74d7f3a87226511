"""Datasets that exist nowhere else: the client lists and fetches them by their declaration."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from resources import files
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.enterprise import FetchOptions, Sidecar, check_together, errors, is_landed, read_listing, read_set
from tests.unit.enterprise.loopback import error_reply, json_reply

STRUCTURED = replace(ARTICLE_CHANGES, endpoint="structured/batches", quota="structured")
DUMPS = replace(SNAPSHOT_ARTICLES, endpoint="structured/snapshots", is_chunked=False, quota="structured")
NAME = "enwiki_namespace_0"


@pytest.fixture
def fake(fake):
    fake.endpoints = {STRUCTURED.endpoint: "batches", DUMPS.endpoint: "snapshots"}
    return fake


def test_a_list_has_records_with_the_fields_that_were_sent(client, fake):
    sent = [{"identifier": 7, "copy": None, "of": {"name": "A"}}, {"other": [1]}]
    fake.script("/v2/licences", json_reply(sent))
    listing = client.lists.records("/v2/licences")
    assert (listing.url_path, json.loads(listing.raw)) == ("/v2/licences", sent)
    first, second = listing
    assert (first["identifier"], first["copy"], first["of"], second["other"]) == (7, None, {"name": "A"}, [1])
    with pytest.raises(KeyError):
        second["identifier"]


def test_hourly_files_come_from_the_endpoint_and_draw_on_the_quota_of_their_dataset(client, fake, hour, tmp_path):
    fake.add(NAME, b"content")
    target = tmp_path / "x.tar.gz"
    (record,) = client.hours.listing(hour, STRUCTURED)
    assert client.hours.record(hour, NAME, STRUCTURED) == record
    with pytest.raises(errors.NotPublishedYet):
        client.hours.record(hour + timedelta(hours=1), NAME, STRUCTURED)
    path = f"/v2/structured/batches/2026-11-01/05/{NAME}/download"
    fake.user |= {"structured_requests_count": 15, "structured_limit": 15}
    fake.script(path, error_reply(429, "Too Many Requests"))
    with pytest.raises(errors.QuotaExceeded, match="15 structured units"):
        client.hours.download(hour, record, target, dataset=STRUCTURED)
    assert client.hours.download(hour, record, target, dataset=STRUCTURED).fetched
    assert json.loads((tmp_path / "x.tar.gz.json").read_bytes())["url_path"] == path
    fake.add(NAME, b"replaced")
    assert client.hours.download(hour, record, tmp_path / "y.tar.gz", dataset=STRUCTURED).size_bytes == 8
    assert not fake.api.seen("/v2/batches*")


def test_a_snapshot_without_chunks_is_one_file(client, fake, tmp_path):
    fake.add_snapshot(NAME, b"first", b"second")
    assert [record.identifier for record in client.snapshots.listing(DUMPS)] == [NAME]
    plan = client.snapshots.plan(NAME, tmp_path, dataset=DUMPS)
    assert (plan.form, plan.product, plan.unit_count) == ("whole", "structured", 1)
    assert "the service has no chunks of this snapshot" in plan.sentence
    client.snapshots.download(plan)
    found = read_set(plan.manifest)
    assert (found.snapshot.identifier, [file.name for file in found.files]) == (NAME, [plan.files[0].target.name])
    with pytest.raises(errors.InvalidRequest, match="no chunks of this snapshot"):
        client.snapshots.plan(NAME, tmp_path, FetchOptions(chunks=True), dataset=DUMPS)
    assert not fake.api.seen("/v2/snapshots*")
    assert not fake.api.seen("*/chunks*")


def test_a_snapshot_whose_files_are_free_costs_nothing(client, fake, tmp_path):
    fake.user |= {"snapshot_requests_count": 15, "snapshot_limit": 15, "chunk_requests_count": 1, "chunk_limit": 1}
    fake.add_snapshot(NAME, b"first", b"second")
    free = replace(DUMPS, quota=None, chunk_quota=None, is_chunked=True)
    for form in ("whole", "chunks"):
        plan = client.snapshots.plan(NAME, tmp_path, FetchOptions(**{form: True}), dataset=free)
        assert (plan.unit_count, plan.units_left, plan.fits_quota, plan.product) == (0, None, True, None)
        assert "The download costs no quota and fetches 11 B" in plan.sentence
        check_together((plan,))
        assert len(fake.api.seen("*/chunks")) == (form == "chunks"), "their list is read only if it is needed"
    client.snapshots.fetch(plan, plan.files[0])
    plan = client.snapshots.plan(NAME, tmp_path, plan.options, free)
    assert plan.cost == "The download costs no quota and fetches 6 B (1 of 2 files already exist)"


def test_an_archived_list_is_read_as_it_was_landed(client, fake, hour, tmp_path):
    fake.script("/v2/batches/*", json_reply([fake.add(NAME, b"content"), 5]))
    target, listing = tmp_path / "batches.json", client.hours.listing(hour)
    sidecar = client.lists.land(listing, target)
    assert (target.read_bytes(), sidecar) == (listing.raw, Sidecar.read(target))
    assert (sidecar.identifier, sidecar.url_path) == ("batches/2026-11-01/05", "/v2/batches/2026-11-01/05")
    assert is_landed(target, sidecar.version)
    assert not is_landed(target, "0" * 32)
    assert files.md5_of(target) == sidecar.version
    assert read_listing(target) == listing
    target.write_bytes(b" " + listing.raw)  # a version of which the sidecar says nothing
    assert read_listing(target).url_path == ""
    (tmp_path / "batches.json.json").unlink()
    alone = read_listing(target)
    assert (alone.records, alone.url_path, alone.odd) == (listing.records, "", listing.odd)
    assert abs(alone.fetched_at - datetime.now(UTC)).total_seconds() < 3600
    target.write_bytes(b'{"not": "a list"}')
    told = r"batches\.json is not a batch listing \(Input should be a valid \w+\)\."
    with pytest.raises(errors.IntegrityError, match=told):
        read_listing(target)
    with pytest.raises(FileNotFoundError):
        read_listing(tmp_path / "nothing")


def test_a_set_is_read_as_it_was_confirmed(client, fake, tmp_path):
    fake.add_snapshot(NAME, b"first", b"second")
    plan = client.snapshots.plan(NAME, tmp_path, FetchOptions(chunks=True))
    told = rf"{plan.files[0].target.name} is not in {tmp_path}, so {NAME} is incom"
    with pytest.raises(errors.StateError, match=told):
        client.snapshots.confirm(plan)
    together = threading.Barrier(2, timeout=30)  # breaks unless both are fetched at once
    fake.script("/objects/*", *[lambda _: together.wait() and None] * 2)
    client.snapshots.download(plan, workers=2)
    assert not together.broken
    found = read_set(plan.manifest)
    assert (found.snapshot, found.form) == (plan.snapshot, "chunks")
    fetched = [(piece.target.name, piece.identifier, piece.version) for piece in plan.files]
    assert [(file.name, file.identifier, file.version) for file in found.files] == fetched
    content = json.loads(plan.manifest.read_bytes())
    content["files"][0]["name"] = "../elsewhere.tar.gz"
    for damaged in (json.dumps(content), "{", "[]"):
        plan.manifest.write_text(damaged)
        told = r"json is not a snapshot manifest \(The file .*json is damaged \(.*\)\)\. Nothing"
        with pytest.raises(errors.IntegrityError, match=told):
            read_set(plan.manifest)


def test_chunks_that_changed_under_the_same_snapshot_end_its_set(client, fake, tmp_path):
    dataset = replace(DUMPS, is_chunked=True)
    fake.add_snapshot(NAME, *[b"%d" % number for number in range(6)])
    names = fake.snapshots[NAME]["chunks"]
    plan = client.snapshots.plan(NAME, tmp_path, FetchOptions(chunks=True), dataset)
    for file in plan.files:
        client.snapshots.fetch(plan, file)
    names[:1] = ["enwiki_namespace_0_chunk_6"]
    for number, name in enumerate(names):
        fake.chunks[name] = fake.add(name, b"new" if number < 4 else b"%d" % number)
    with pytest.raises(errors.StaleSnapshot) as caught:
        client.snapshots.confirm(plan)
    new, old = (files.new_md5(content).hexdigest()[:8] for content in (b"new", b"1"))
    assert caught.value.message.startswith(
        f"The service replaced {NAME} after it was planned: {NAME}_chunk_0 no longer exists, {NAME}_chunk_6 is new, "
        f"{NAME}_chunk_1 has version {new} instead of {old}, and 2 more. 6 complete files (6 B) of this version are "
        f"kept in {tmp_path}. If you start over, the download costs 4 chunk units (no limit is known) and fetches 12 B"
    )
    fake.snapshots[NAME]["version"] = "f" * 32
    told = f": {NAME} has version ffffffff instead of {plan.snapshot.version[:8]}"
    with pytest.raises(errors.StaleSnapshot, match=told):
        client.snapshots.confirm(plan)
    fake.script("*/chunks", error_reply(404, "NoSuchKey"))
    plan = client.snapshots.plan(NAME, tmp_path, dataset=dataset)
    assert (plan.form, "chunk list differ" in plan.reason) == ("whole", True)
    assert not fake.api.seen("/v2/snapshots*")
