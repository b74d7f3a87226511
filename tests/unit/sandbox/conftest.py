"""A sandbox with a tiny, hand-made world: the service's behaviour is tested without the real one's weight."""

from __future__ import annotations

import io
import sqlite3
import tarfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import requests

from resources.sandbox import Settings, running
from resources.sandbox.store.archived_world import ArchivedWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resources.sandbox import Sandbox
    from resources.sandbox.store.archives import Piece

NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
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


@contextmanager
def logged_in(sandbox: Sandbox) -> Iterator[Client]:
    """A client of the default account, with a session of its own."""
    with requests.Session() as session:
        client = Client(sandbox, session)
        client.login()
        yield client


@contextmanager
def small_sandbox(
    folder: Path, signing_key: bytes, make_world: type[ArchivedWorld] = ArchivedWorld, **options: Any
) -> Iterator[Client]:
    """A client of a sandbox with a small world of its own."""
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 5, "body_bytes": 300, "entities": 0}
    settings = Settings(**{"state": prepared_state(folder, signing_key), "now": NOW, **small, **options})
    with running(settings, world=make_world(settings)) as sandbox, logged_in(sandbox) as client:
        yield client


@pytest.fixture(scope="session")
def begin_again(tmp_path_factory: pytest.TempPathFactory, signing_key: bytes) -> Iterator[Callable[[], Client]]:
    """Puts the sandbox that tests without settings of their own share back to where it began."""
    folder, projects = tmp_path_factory.mktemp("sandbox"), ("enwiki", "frwiki")
    with (
        small_sandbox(folder, signing_key, projects=projects) as client,
        closing(sqlite3.connect(":memory:")) as kept,
    ):
        sandbox, database = client.sandbox, client.sandbox.accounts._database._connection
        account, token = sandbox.settings.state / "account.json", client.token
        password = account.read_bytes()
        # a login is dear: its tokens are put back, too
        database.backup(kept)

        def reset() -> Client:
            sandbox.clock.set(NOW)
            sandbox.faults.clear()
            sandbox.rate.set(None)
            kept.backup(database)
            account.write_bytes(password)
            for mail in sandbox.accounts.outbox():
                mail.path.unlink()
            sandbox.requests.clear()
            return Client(sandbox, client.session, token)

        yield reset


@pytest.fixture
def client(begin_again: Callable[[], Client]) -> Client:
    """A client of the shared sandbox."""
    return begin_again()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, signing_key: bytes) -> Iterator[Client]:
    with small_sandbox(tmp_path_factory.mktemp("real"), signing_key, chunk_bytes=400_000, entities=10) as client:
        yield client
