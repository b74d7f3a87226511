"""The calls of the official clients, as raw requests in their order: what each of them relies on.

The Python client asks for every list by POST, reads the headers of a download and fetches it in ranges, each through
the API. The Go client does the same with ranges that end one byte late, and reads dates itself. The TypeScript client
is made from the interface description: it asks by GET, writes slashes at the end of paths, and follows redirects.
"""

from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
import requests

SNAPSHOT = "/v2/snapshots/enwiki_namespace_0"
#: Official clients give up after this long.
PATIENCE = 30
LISTS = [
    "/v2/codes", "/v2/languages", "/v2/projects", "/v2/namespaces", "/v2/snapshots", f"{SNAPSHOT}/chunks",
    "/v2/snapshots/wikidata", "/v2/snapshots/structured-contents", "/v2/batches/2025-03-09/05",
]  # fmt: skip


@pytest.fixture
def bearer(real):
    real.login()
    return {"Authorization": f"Bearer {real.token}"}


def counted(real, bearer, kind):
    return real.auth("get-user", {}, headers=bearer).json()[f"{kind}_requests_count"]


@pytest.mark.parametrize("path", LISTS)
def test_every_list_by_post(real, bearer, path):
    """With `{}`, with null members, with the slash of a joined path; numbers with an exponent are numbers."""
    whole = real.call(path, "POST", json={})
    assert whole.status_code == 200
    assert isinstance(whole.json(), list)
    assert whole.json()
    for body in ({"fields": [], "filters": []}, {"fields": None, "filters": None}):
        assert real.call(f"{path}/", "POST", json=body).content == whole.content
    for size in [record["size"]["value"] for record in whole.json() if "size" in record]:
        assert f'"value":{size}e0' in whole.text
    lines = real.call(path, "POST", json={}, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert [json.loads(line) for line in lines] == whole.json()


@pytest.mark.parametrize("late", [0, 1], ids=["python", "go"])
@pytest.mark.parametrize(("path", "kind"), [(SNAPSHOT, "snapshot"), (f"{SNAPSHOT}/chunks/0", "chunk")])
def test_a_download_in_ranges_through_the_api(real, bearer, path, kind, late):
    """Each range costs a unit, the headers cost none; ranges may end beyond the end."""
    record = real.call(path, "POST", json={}).json()
    before = counted(real, bearer, kind)
    head = real.call(f"{path}/download", "HEAD")
    assert (head.status_code, head.headers["Accept-Ranges"], head.content) == (200, "bytes", b"")
    assert re.fullmatch(r'"[0-9a-f]{32}(-\d+)?"', head.headers["ETag"])
    # as a parser of RFC 1123 dates in Go reads it, and a strict reader of HTTP dates does not
    datetime.strptime(head.headers["Last-Modified"], "%a, %d %b %Y %H:%M:%S UTC")  # noqa: DTZ007
    size = int(head.headers["Content-Length"])
    step = -(-size // 4)

    def part(start):
        asked = {**bearer, "Range": f"bytes={start}-{start + step - 1 + late}"}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(f"{real.sandbox.url}{path}/download", headers=asked, timeout=PATIENCE)
        assert answer.status_code == 206
        assert answer.headers["Content-Range"].endswith(f"/{size}")
        return answer.content[:step]

    with ThreadPoolExecutor(4) as pool:
        content = b"".join(pool.map(part, range(0, size, step)))
    assert hashlib.md5(content).hexdigest() == record["version"]
    assert counted(real, bearer, kind) == before + 4


def test_a_generated_client_asks_by_get(real, bearer):
    """Fields and filters repeated; what it writes otherwise is ignored, not refused."""
    plain = real.call("/v2/projects")
    condition = json.dumps({"field": "identifier", "value": "enwiki"})
    chosen = real.call("/v2/projects", params=[("fields", "identifier"), ("fields", "code"), ("filters", condition)])
    assert chosen.json() == [{"identifier": "enwiki", "code": "wiki"}]
    for spelling in ("filters[identifier]=enwiki", "filters[0][field]=identifier", "fields[]=name"):
        assert real.call(f"/v2/projects/?{spelling}").content == plain.content
    followed = real.call(f"{SNAPSHOT}/download/", allow_redirects=True)
    assert followed.status_code == 200
    assert hashlib.md5(followed.content).hexdigest() == real.call(SNAPSHOT).json()["version"]
