"""A sandbox with a tiny, hand-made world: the service's behaviour is tested without the real one's weight."""

import io
import json
import sqlite3
import tarfile
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests

from resources.sandbox import Settings, running
from resources.sandbox.accounts.tokens import TokenMint
from resources.sandbox.clock import Clock
from resources.sandbox.store.archived_world import ArchivedWorld

NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
BOUND_SECONDS = 300
#: The members of a record of a file, in their order.
FILE_KEYS = ["identifier", "version", "date_modified", "is_part_of", "in_language", "namespace", "size"]


def refused(title):
    """The requests or commands of a section of `refusals.txt`, each with the message that refuses it."""
    _, *sections = Path(__file__).with_name("refusals.txt").read_text().strip().split("\n\n# ")
    _, *lines = next(one for one in sections if one.startswith(f"{title}\n")).split("\n")
    return [(request, told.strip()) for request, told in zip(lines[::2], lines[1::2], strict=True)]


def wait_until(condition):
    """Waits until something happened in another thread or process; fails after some minutes."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def members_of(archive):
    content = archive if isinstance(archive, bytes) else archive.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar]


def lines_of(archive):
    return [line for _, content in members_of(archive) for line in content.splitlines()]


def records_of(file):
    return [json.loads(line) for line in lines_of(file.path)]


class Client:
    """Calls as a curl user would make them."""

    NOW, HOUR, DOWNLOAD = NOW, "/v2/batches/2025-03-09/05", "/v2/batches/2025-03-09/05/enwiki_namespace_0/download"

    def __init__(self, sandbox, session, token=""):
        self.sandbox, self.session, self.token = sandbox, session, token
        # each request would otherwise look through the environment for a proxy, and for a .netrc
        session.trust_env = False

    @property
    def archive(self):
        """The file behind DOWNLOAD."""
        return self.sandbox.world.batches(datetime(2025, 3, 9, 5, tzinfo=UTC))[0]

    def login(self, username=None, password=None):
        body = {"username": username or self.sandbox.username, "password": password or self.sandbox.password}
        answer = self.auth("login", body)
        assert answer.status_code == 200, answer.text
        self.token = answer.json().get("access_token", "")
        return answer.json()

    def auth(self, operation, body, **options):
        return self.session.post(f"{self.sandbox.url}/v1/{operation}", json=body, timeout=120, **options)

    def call(self, path, method="GET", **options):
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= options.pop("headers", {})
        options.setdefault("allow_redirects", False)
        return self.session.request(method, self.sandbox.url + path, headers=headers, timeout=120, **options)

    def signed(self, path):
        answer = self.call(path)
        assert answer.status_code == 307, answer.text
        return answer.headers["Location"]

    def fetch(self, url, method="GET", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.request(method, url, headers=named, timeout=120)


@pytest.fixture(scope="session")
def signing_key(tmp_path_factory):
    """One key for all sandboxes of the tests: making one takes longer than most tests."""
    folder = tmp_path_factory.mktemp("key")
    TokenMint(folder, Clock(), "http://nowhere")
    return (folder / "signing-key.pem").read_bytes()


def prepared_state(folder, signing_key):
    state = folder / "state"
    state.mkdir(exist_ok=True)
    (state / "signing-key.pem").write_bytes(signing_key)
    (state / "signing-key.pem").chmod(0o600)
    return state


@contextmanager
def logged_in(sandbox):
    """A client of the default account, with a session of its own."""
    with requests.Session() as session:
        client = Client(sandbox, session)
        client.login()
        yield client


@contextmanager
def small_sandbox(folder, signing_key, make_world=ArchivedWorld, **options):
    """A client of a sandbox with a small world of its own."""
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 5, "body_bytes": 300, "entities": 0}
    settings = Settings(**{"state": prepared_state(folder, signing_key), "now": NOW, **small, **options})
    with running(settings, world=make_world(settings)) as sandbox, logged_in(sandbox) as client:
        yield client


@pytest.fixture(scope="session")
def begin_again(tmp_path_factory, signing_key):
    """Puts the sandbox that tests without settings of their own share back to where it began."""
    folder, projects = tmp_path_factory.mktemp("sandbox"), ("enwiki", "frwiki")
    with small_sandbox(folder, signing_key, projects=projects) as client, closing(sqlite3.connect(":memory:")) as kept:
        sandbox, database = client.sandbox, client.sandbox.accounts._database._connection
        account, token = sandbox.settings.state / "account.json", client.token
        password = account.read_bytes()
        # a login is dear: its tokens are put back, too
        database.backup(kept)

        def reset():
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
def client(begin_again):
    """A client of the shared sandbox."""
    return begin_again()


@pytest.fixture(scope="module")
def real(tmp_path_factory, signing_key):
    with small_sandbox(tmp_path_factory.mktemp("real"), signing_key, chunk_bytes=400_000, entities=10) as client:
        yield client
