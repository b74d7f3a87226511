"""Single files of the service by path: their quotas and headers, written to any object, and read while fetched."""

import gzip
import hashlib
import io
import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from resources.enterprise import Limits, endpoints, errors, models
from tests.endpoints import OPERATIONS
from tests.unit.enterprise.loopback import Reply, error_reply
from tests.unit.lake.conftest import tar_bytes

NAME = "enwiki_namespace_0"
PATH = f"/v2/batches/2026-11-01/05/{NAME}"


@pytest.fixture
def packed():
    lines = b"".join(json.dumps({"n": number, "text": "x" * 50}).encode() + b"\n" for number in range(5000))
    return gzip.compress(tar_bytes([(f"{NAME}_0.ndjson", lines)]), 1, mtime=0)


def test_a_file_is_written_to_any_object_for_one_unit(client, fake, content):
    fake.add(NAME, content)
    written, came = io.BytesIO(), []
    # takes at most 1,000 bytes at a time, and can neither be read, moved in nor closed
    target = SimpleNamespace(write=lambda data: written.write(data[:1000]))
    record = client.files.download(PATH, target, came.append)
    assert written.getvalue() == content
    assert (record.version, sum(came)) == (hashlib.md5(content).hexdigest(), len(content))
    fake.add_snapshot("frwiki_namespace_0", content)
    fake.script("*/download", error_reply(429, "Too Many Requests"))
    fake.user |= {"snapshot_requests_count": 16, "snapshot_limit": 15}
    path = "/v2/snapshots/frwiki_namespace_0"
    with pytest.raises(errors.QuotaExceeded, match=f"download URL of {path}: the account has used 16 of its 15 snap"):
        client.files.download(path, target)
    assert len(fake.api.seen(PATH + "/download")) == len(fake.store.requests) == 1
    client.files.download(PATH, SimpleNamespace(write=(parts := []).append))  # returns no count
    assert b"".join(parts) == content


def test_a_store_that_cannot_continue_or_a_target_that_is_full_is_said(client, fake, content):
    fake.add(NAME, content)
    full = Mock(write=Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(errors.DiskFull):
        client.files.download(PATH, full)
    fake.ranges = False
    fake.cut(5000)
    told = r"was lost after 5,000 bytes.*does not support resuming.*cannot be"
    with pytest.raises(errors.ServiceUnavailable, match=told):
        client.files.download(PATH, io.BytesIO())


@pytest.mark.parametrize(
    "path", ["", "/v2/projects/enwiki", "/v1/login", "https://x/v2/snapshots/a", "/v2/snapshots", "/v2/batchesx/1"]
)
def test_a_path_without_a_file_is_not_sent(client, fake, path):
    for call in (client.files.head, lambda path: client.files.download(path, io.BytesIO())):
        with pytest.raises(errors.InvalidRequest, match="is not the path of a file record"):
            call(path)
    assert not fake.api.requests


def test_a_chunk_may_be_asked_for_by_its_number():
    paths = [f"/v2/snapshots/{NAME}/chunks/{one}" for one in ("2", "chunk_2", f"{NAME}_chunk_2", "3", "x_chunk_3")]
    assert [endpoints.is_of(path, f"{NAME}_chunk_2") for path in paths] == [True, True, True, False, False]


def test_the_headers_of_a_file_as_the_service_writes_them(client, fake):
    headers = {
        "Content-Length": "215077", "Last-Modified": "Mon, 12 Feb 2024 00:50:09 UTC",
        "ETag": '"07971adf14969cdf7517dc243da523b3"', "Content-Type": "binary/octet-stream",
    }  # fmt: skip
    fake.script("*/download", Reply(200, b"", headers))
    head = client.files.head(PATH)
    assert (head.size_bytes, head.content_type) == (215077, "binary/octet-stream")
    assert head.modified_at.isoformat() == "2024-02-12T00:50:09+00:00"
    assert head.etag == '"07971adf14969cdf7517dc243da523b3"'
    assert [(one.method, one.path) for one in fake.api.seen("/v2/*")] == [("HEAD", PATH + "/download")]
    fake.script("*/download", Reply(404, b""))
    with pytest.raises(errors.NotFound):
        client.files.head(PATH)


def test_a_file_of_other_bytes_gives_its_bytes_or_records_and_then_the_error(client, fake, packed):
    fake.add(NAME, packed, version="0" * 32)
    target, found = io.BytesIO(), []
    for take in (lambda: client.files.download(PATH, target), lambda: found.extend(client.files.read(PATH))):
        with pytest.raises(errors.IntegrityError, match=r"the MD5 is different.*Discard the output"):
            take()
    assert (target.getvalue(), len(found)) == (packed, 5000)
    fake.add(NAME, packed[:-9])  # the bytes of the record, which are no archive
    with pytest.raises(errors.IntegrityError, match=f"^{PATH}: the gzip data is damaged .* 5,000 records"):
        [*client.files.read(PATH)]


def test_a_download_that_breaks_for_good_gives_its_records_and_then_the_error(client, fake, packed):
    fake.add(NAME, packed)
    fake.cut(len(packed) // 2, *[0] * 20)
    found = []
    told = r"4 times in a row\. [1-9][\d,]* bytes arrived\. This download cannot be resumed"
    with pytest.raises(errors.ServiceUnavailable, match=told):
        found.extend(client.files.read(PATH))
    assert [one["n"] for one in found] == [*range(len(found))]
    assert len(found) > 1000


def test_records_are_read_while_the_file_is_fetched_which_may_end_early_and_frees_the_connection(client, fake, packed):
    fake.add(NAME, packed)
    fake.cut(len(packed) // 2)
    assert [one["n"] for one in client.files.read(PATH)] == [*range(5000)]
    assert len(fake.api.seen(PATH + "/download")) == 1
    for _ in range(3):
        records = client.files.read(PATH)
        assert next(records)["n"] == 0
        records.close()
    assert [type(one) for one in client.files.read(PATH, models.Record)] == [models.Record] * 5000


def test_more_bytes_than_the_record_allows_are_not_taken(make_client, fake, content):
    fake.add(NAME, content, size=1)
    client = make_client(limits=Limits(margin_bytes=1000, margin_share=0))
    target = io.BytesIO()
    with pytest.raises(errors.IntegrityError, match=r"the archive has more than 1,00\d bytes"):
        client.files.download(PATH, target)
    assert not target.getvalue()


FILES = [one for one in OPERATIONS if one.path.endswith("/download")]


@pytest.mark.parametrize("described", FILES, ids=lambda one: one.path)
def test_each_download_uses_the_quota_of_the_description(described):
    path = described.path.removesuffix("/download").replace("{date}/{hour}", "2026-11-20/05")
    assert endpoints.file_quota(path.replace("{", "").replace("}", "")) == described.quota
    assert {one.quota for one in FILES} == {None, "snapshot", "chunk"}


@pytest.mark.parametrize("identifier", ["", ".", "..", "a\ud800"])
def test_a_value_that_leads_elsewhere_is_refused(identifier):
    with pytest.raises(errors.InvalidRequest, match="not a valid record identifier"):
        endpoints.record("/v2/codes", identifier)
    assert endpoints.record("/v2/codes", "a/../b?") == "/v2/codes/a%2F..%2Fb%3F"
