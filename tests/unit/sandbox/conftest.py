"""A sandbox with a tiny, hand-made world: the service's behaviour is tested without the real one's weight."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import requests

from resources.sandbox import Settings, running
from resources.sandbox.store.archives import Piece
from tests.unit.enterprise.loopback import REFERENCE
from tests.unit.lake.conftest import tar_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resources.sandbox import Sandbox

NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
HARD_TITLE = 'AC//DC/: "why"? 100% <&#> 東京/'
BOUND_SECONDS = 300
#: The members of a record of a file, in their order.
FILE_KEYS = ["identifier", "version", "date_modified", "is_part_of", "in_language", "namespace", "size"]


def wait_until(condition: Callable[[], Any]) -> None:
    """Waits until something happened in another thread or process; fails after some minutes."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def members_of(archive: Path | bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    content = archive if isinstance(archive, bytes) else archive.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar]


def lines_of(archive: Path | bytes) -> list[bytes]:
    return [line for _, content in members_of(archive) for line in content.splitlines()]


class TinyWorld:
    """Two files in every hour; the list of an hour appears five minutes after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._batch = cache(self._batch)

    def codes(self):
        return [{"identifier": "wiki", "name": "Wikipedia", "description": "The free encyclopedia."}]

    def languages(self):
        return REFERENCE["languages"]

    def projects(self):
        english = {"name": "Wikipedia", "identifier": "enwiki", "url": "https://en.wikipedia.org"}
        return [*REFERENCE["projects"], {**english, "code": "wiki", "in_language": {"identifier": "en"}}]

    def namespaces(self):
        return [
            {"name": name, "identifier": number} for name, number in (("Article", 0), ("File", 6), ("Category", 14))
        ]

    def article(self, project: str, name: str, hour: datetime) -> dict[str, Any] | None:
        """One article in both projects, under a title that is hard to write in a path."""
        if name.replace("_", " ") != HARD_TITLE:
            return None
        return {
            "name": HARD_TITLE,
            "identifier": 5,
            "version": {"identifier": 1_234_567, "scores": {"revertrisk": {"probability": {"true": 0.25}}}},
            "namespace": {"identifier": 0},
            "in_language": {"identifier": project[:2]},
            "categories": [{"name": "Category:A", "url": "https://a"}, {"name": "Category:B"}],
            "is_part_of": {"identifier": project},
            "article_body": {"wikitext": "<b> & co"},
            "event": {"date_created": f"{hour:%Y-%m-%dT%H:%M:%SZ}"},
        }

    def hour_ready_at(self, hour: datetime) -> datetime:
        return hour + timedelta(hours=1, minutes=5)

    def snapshot_identifiers(self) -> tuple[str, ...]:
        """None: snapshots are tested with the real world."""
        return ()

    def entity_identifiers(self) -> tuple[str, ...]:
        """None: there is no Wikidata here."""
        return ()

    @property
    def structured(self) -> TinyWorld:
        """None either."""
        return self

    def batches(self, hour: datetime) -> list[Piece]:
        return [self._batch(hour, "enwiki", "en", 0), self._batch(hour, "frwiki", "fr", 14)]

    def _batch(self, hour: datetime, project: str, language: str, namespace: int) -> Piece:
        identifier = f"{project}_namespace_{namespace}"
        path = self.folder / f"{hour:%Y%m%d%H}-{identifier}.tar.gz"
        lines = [
            {"name": f"Page {member}-{i}", "identifier": 1 + i, "article_body": {"wikitext": "é" * 40}}
            for member in range(2)
            for i in range(200)
        ]
        texts = [json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines]
        members = [(f"{identifier}_{n}.ndjson", b"".join(texts[200 * n : 200 * n + 200])) for n in range(2)]
        content = gzip.compress(tar_bytes(members), mtime=0)
        path.write_bytes(content)
        version = hashlib.md5(content).hexdigest()
        record = {
            "identifier": identifier,
            "version": version,
            "date_modified": f"{hour + timedelta(hours=1, minutes=4, seconds=7):%Y-%m-%dT%H:%M:%S}.123456789Z",
            "is_part_of": {"identifier": project},
            "in_language": {"identifier": language},
            "namespace": {"identifier": namespace},
            "size": {"value": round(len(content) / 1e6, 3), "unit_text": "MB"},
        }
        return Piece(identifier, path, version, len(content), record)


@dataclass
class Client:
    """Calls as a curl user would make them."""

    sandbox: Sandbox
    session: requests.Session
    token: str = field(default="", repr=False)
    NOW = NOW

    def __post_init__(self) -> None:
        # each request would otherwise look through the environment for a proxy, and for a .netrc
        self.session.trust_env = False

    HOUR = "/v2/batches/2025-03-09/05"
    DOWNLOAD = f"{HOUR}/enwiki_namespace_0/download"

    @property
    def archive(self) -> Piece:
        """The file behind DOWNLOAD."""
        return self.sandbox.world.batches(datetime(2025, 3, 9, 5, tzinfo=UTC))[0]

    def login(self, username: str | None = None, password: str | None = None) -> dict[str, Any]:
        body = {"username": username or self.sandbox.username, "password": password or self.sandbox.password}
        answer = self.auth("login", body)
        assert answer.status_code == 200, answer.text
        self.token = answer.json().get("access_token", "")
        return answer.json()

    def auth(self, operation: str, body: dict[str, Any], **options: Any) -> requests.Response:
        return self.session.post(f"{self.sandbox.url}/v1/{operation}", json=body, timeout=120, **options)

    def call(self, path: str, method: str = "GET", **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= options.pop("headers", {})
        options.setdefault("allow_redirects", False)
        return self.session.request(method, self.sandbox.url + path, headers=headers, timeout=120, **options)

    def signed(self, path: str) -> str:
        answer = self.call(path)
        assert answer.status_code == 307, answer.text
        return answer.headers["Location"]

    def fetch(self, url: str, method: str = "GET", **headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.request(method, url, headers=named, timeout=120)


@pytest.fixture(scope="session")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """One key for all sandboxes of the tests: making one takes longer than most tests."""
    from resources.sandbox.accounts.tokens import TokenMint
    from resources.sandbox.clock import Clock

    folder = tmp_path_factory.mktemp("key")
    TokenMint(folder, Clock(), "http://nowhere")
    return (folder / "signing-key.pem").read_bytes()


def prepared_state(folder: Path, signing_key: bytes) -> Path:
    state = folder / "state"
    state.mkdir(exist_ok=True)
    (state / "signing-key.pem").write_bytes(signing_key)
    (state / "signing-key.pem").chmod(0o600)
    return state


@dataclass
class Shared:
    """A sandbox that tests without settings of their own share, and how it is put back to where it began."""

    sandbox: Sandbox
    token: str
    #: A login is dear: its tokens are put back, too.
    rows: dict[str, list[tuple[Any, ...]]]
    account: bytes
    TABLES = ("users", "access_tokens", "refresh_tokens", "quotas", "sessions", "codes", "admissions")

    @classmethod
    def begun(cls, sandbox: Sandbox) -> Shared:
        with logged_in(sandbox) as client:
            database = sandbox.accounts._database
            rows = {table: [tuple(row) for row in database.rows(f"SELECT * FROM {table}")] for table in cls.TABLES}
            return cls(sandbox, client.token, rows, (sandbox.settings.state / "account.json").read_bytes())

    def reset(self) -> None:
        self.sandbox.clock.set(NOW)
        self.sandbox.faults.clear()
        self.sandbox.rate.set(None)
        for table, rows in self.rows.items():
            self.sandbox.accounts._database.change(f"DELETE FROM {table}")
            for row in rows:
                self.sandbox.accounts._database.change(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", *row)
        (self.sandbox.settings.state / "account.json").write_bytes(self.account)
        for mail in self.sandbox.accounts.outbox():
            mail.path.unlink()
        self.sandbox.requests.clear()


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory, signing_key: bytes) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("sandbox")
    settings = Settings(state=prepared_state(folder, signing_key), now=NOW)
    with running(settings, world=TinyWorld(folder)) as sandbox:
        yield Shared.begun(sandbox)


@contextmanager
def logged_in(sandbox: Sandbox) -> Iterator[Client]:
    """A client of the default account, with a session of its own."""
    with requests.Session() as session:
        client = Client(sandbox, session)
        client.login()
        yield client


@pytest.fixture
def client(shared_sandbox: Shared) -> Iterator[Client]:
    """A client of the shared sandbox, which is first put back to where it began."""
    shared_sandbox.reset()
    with requests.Session() as session:
        yield Client(shared_sandbox.sandbox, session, shared_sandbox.token)


@contextmanager
def small_sandbox(
    folder: Path, signing_key: bytes, make_world: Callable[[Settings], Any] = lambda _: None, **options: Any
) -> Iterator[Client]:
    """A client of a sandbox with a small world of its own, and not a hand-made one."""
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 5, "body_bytes": 300, "entities": 0}
    settings = Settings(**{"state": prepared_state(folder, signing_key), "now": NOW, **small, **options})
    with running(settings, world=make_world(settings)) as sandbox, logged_in(sandbox) as client:
        yield client


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, signing_key: bytes) -> Iterator[Client]:
    with small_sandbox(tmp_path_factory.mktemp("real"), signing_key, chunk_bytes=400_000, entities=10) as client:
        yield client
