"""A campaign of hostile answers: each operation, at any of its requests, meets answers spoilt at random from a seed.

Whatever comes, an operation ends as a result or as one `EnterpriseError`: short, printable, without secrets, in time,
with nothing written outside of its folder. A failure names its seed: `run(world, seed)` is that case again.
"""

import contextlib
import io
import logging
import logging.handlers
import os
import random
import re
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from resources.datasets import LISTS
from resources.enterprise import EnterpriseClient, FetchOptions, Limits, Query, RetryPolicy, Service, endpoints, errors
from tests.unit.enterprise import hostile
from tests.unit.enterprise.conftest import HOUR, Clock
from tests.unit.enterprise.loopback import PASSWORD, USERNAME, FakeService, Sender

NAME = "enwiki_namespace_0"
FILE = f"/v2/batches/2026-11-01/05/{NAME}"
SAMPLE = 60
CAMPAIGN = 5_000
BLOCK = 500

LIMITS = Limits(
    list_bytes=1 << 20,
    record_bytes=1 << 17,
    refusal_bytes=1 << 15,
    answer_seconds=0.4,
    slow_bytes=20_000,
    slow_seconds=0.3,
    margin_bytes=100_000,
    unstated_bytes=300_000,
    range_count=3,
    ranged_bytes=100_000,
    range_bytes=20_000,
)
RETRY = RetryPolicy(retries=2, first_wait=0.001, longest_wait=0.01, connect_timeout=1, read_timeout=0.3)
#: An operation sends some ten requests, each tried three times, each of which lasts 0.4 s at most; and the machine is
#: busy.
LONGEST_SECONDS = 60.0

QUERY = Query(fields=("identifier",), filters={"identifier": "frwiki"})
NEW_PASSWORD = "AnotherPhrase-Kept-Secret-2!"


def plan(client, folder):
    return client.snapshots.plan("frwiki_namespace_0", folder / "snapshots", FetchOptions(chunks=True))


#: Every public operation of the client.
OPERATIONS = {
    "lists.reference": lambda c, f: [
        c.lists.reference(kind) for kind in ("codes", "languages", "projects", "namespaces")
    ],
    "lists.records": lambda c, f: [c.lists.records(endpoints.records(dataset), QUERY) for dataset in LISTS],
    "lists.record": lambda c, f: c.lists.record("/v2/projects/frwiki", Query(fields=("identifier",))),
    "files.head": lambda c, f: c.files.head(FILE),
    "files.download": lambda c, f: [
        c.files.download(path, io.BytesIO()) for path in (FILE, "/v2/snapshots/frwiki_namespace_0")
    ],
    "files.read": lambda c, f: [*c.files.read(FILE)],
    "lookups.articles": lambda c, f: c.lookups.articles("Josephine Baker", Query(fields=("identifier",))),
    "lookups.structured": lambda c, f: c.lookups.structured("Josephine Baker"),
    "lookups.entity": lambda c, f: [
        c.lookups.entity(*one) for one in (("items", "Q42"), ("properties", "P31"), ("labels", "Q42"))
    ],
    "hours.listing": lambda c, f: c.hours.listing(HOUR),
    "hours.record": lambda c, f: c.hours.record(HOUR, NAME),
    "hours.download": lambda c, f: [
        c.hours.download(HOUR, record, f / f"{record.identifier}.{record.version[:8]}.tar.gz")
        for record in c.hours.listing(HOUR)
    ],
    "lists.land": lambda c, f: c.lists.land(c.lists.reference("projects"), f / "projects.json"),
    "snapshots.listing": lambda c, f: c.snapshots.listing(),
    "snapshots.record": lambda c, f: c.snapshots.record("frwiki_namespace_0"),
    "snapshots.chunks": lambda c, f: c.snapshots.chunks("frwiki_namespace_0"),
    "snapshots.plan": plan,
    "snapshots.fetch": lambda c, f: c.snapshots.fetch(found := plan(c, f), found.files[0]),
    "snapshots.confirm": lambda c, f: c.snapshots.confirm(plan(c, f)),
    "snapshots.download": lambda c, f: c.snapshots.download(plan(c, f), workers=2),
    **{
        f"account.{name}": lambda c, f, name=name: getattr(c.account, name)()
        for name in ("user", "quotas", "known_user", "login", "forgot_password")
    },
    "account.refresh": lambda c, f: (c.account.login(), c.account.refresh()),
    "account.revoke": lambda c, f: (c.account.login(), c.account.revoke()),
    "account.status": lambda c, f: (c.account.login(), c.account.status()),
    "account.confirm_password": lambda c, f: c.account.confirm_password("424242", PASSWORD),
    "account.change_password": lambda c, f: c.account.change_password(PASSWORD, PASSWORD),
    "account.new_password": lambda c, f: c.account.new_password(NEW_PASSWORD),
    "close": lambda c, f: (c.account.user(), c.close(), c.account.user()),
}


def test_every_public_operation_meets_hostile_answers(client):
    public = {
        f"{prefix}{name}"
        for prefix, owner in {"": client, **{f"{name}.": owner for name, owner in vars(client).items()}}.items()
        if hasattr(owner, "redactor") and not prefix.startswith("_")
        for name, member in vars(type(owner)).items()
        if callable(member) and not name.startswith("_")
    }
    # for the requests of the others; and the stream, which asks nothing before it is entered (test_streams.py)
    assert set(OPERATIONS) == public - {"account.access_token", "account.renew", "account.now", "stream"}


class Written:
    """Every path that this process opens to write, makes, renames or removes, while a case is under way."""

    def __init__(self):
        self.paths = None
        sys.addaudithook(self._heard)  # for the rest of the process: there is no way to take one back

    def _heard(self, event, arguments):
        if self.paths is None:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | os.PathLike) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.paths.append(os.fspath(path))
        elif event in {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.truncate", "os.rmdir"}:
            self.paths.extend(os.fspath(a) for a in arguments if isinstance(a, str | os.PathLike))


written = Written()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A fake service for many cases, the folder of their files, and the log of all."""
    clock, log, chance = Clock(), logging.handlers.BufferingHandler(10_000), random.Random(1)
    loggers = [logging.getLogger(name) for name in ("resources", "urllib3")]
    for logger in loggers:
        logger.addHandler(log)
        logger.setLevel(logging.DEBUG)
    with FakeService(clock) as fake:
        fake.add(NAME, chance.randbytes(30_000))
        fake.add("dewiki_namespace_0", chance.randbytes(150_000))
        fake.add("frwiki_namespace_14", b"")
        fake.add_snapshot("frwiki_namespace_0", chance.randbytes(20_000), chance.randbytes(10_000))
        yield SimpleNamespace(folder=tmp_path_factory.mktemp("hostile"), clock=clock, fake=fake, log=log)
    for logger in loggers:
        logger.removeHandler(log)
        logger.setLevel(logging.NOTSET)


class Spoiler:
    """Spoils the requests of one case: some of them, or all from one on, in one way or in several."""

    def __init__(self, chance, fake):
        self.chance, self.fake = chance, fake
        self.where = chance.choice(["/", "/v1/", "/v2/", "/objects/"])
        self.first = chance.choice([0, 0, 1, 1, 2, 3, 5])
        self.times = chance.choice([1, 1, 2, 99])
        self.kind = hostile.draw(chance) if chance.random() < 0.8 else None
        self.count = 0
        self.lock = threading.Lock()  # one random source for the threads of the servers
        self.endless = []

    def __call__(self, request, reply):
        if not request.path.startswith(self.where):
            return None
        with self.lock:
            number, self.count = self.count, self.count + 1
            if not self.first <= number < self.first + self.times:
                return None
            request.signatures = set(self.fake.signatures)
            spoilt = (self.kind or hostile.draw(self.chance))(self.chance, request, reply)
            if isinstance(spoilt.raw, Sender):
                self.endless.append(spoilt.raw)
            return spoilt


def run(world, seed):
    """Run one case, and say what it ended as, or raise AssertionError for what no case may do."""
    chance = random.Random(seed)
    folder = world.folder / f"case{seed}"
    fake = world.fake
    fake.password, fake.challenge = PASSWORD, None
    fake.uses_allowed = chance.choice([90, 90, 0])
    operation = chance.choice(sorted(OPERATIONS))
    if operation == "account.new_password":
        fake.challenge = "NEW_PASSWORD_REQUIRED"
    spoiler = Spoiler(chance, fake)
    service = Service(fake.url, fake.url, fake.url, USERNAME, PASSWORD, "tests@example.org")
    written.paths = []
    world.log.buffer.clear()
    began = time.monotonic()
    ended, error = "a result", None
    with EnterpriseClient(service, folder / "state", clock=world.clock, retry=RETRY, limits=LIMITS) as client:
        fake.hostile = spoiler
        try:
            OPERATIONS[operation](client, folder / "archive")
        except errors.EnterpriseError as caught:
            ended, error = type(caught).__name__, caught
        finally:
            fake.hostile = None
            paths, written.paths = written.paths, None
    seconds = time.monotonic() - began
    if error is not None:
        told = "".join(traceback.format_exception(error))
        assert len(error.message) <= errors.LONGEST_MESSAGE
        assert error.message == str(error)
        assert error.message.isprintable()
        assert re.fullmatch(r"\S.*\.", error.message), error.message
        shows_no_secret(told)
    for record in world.log.buffer:
        assert record.exc_info is None
        line = record.getMessage()
        shows_no_secret(line)
        assert line.isprintable()
        assert len(line) <= errors.LONGEST_MESSAGE + 100
    outside = [path for path in paths if not Path(path).resolve().is_relative_to(folder)]
    assert outside == []
    assert seconds < LONGEST_SECONDS
    assert all(sender.sent < sender.most for sender in spoiler.endless)
    intact(world, folder)
    return ended


def shows_no_secret(text):
    for secret in (PASSWORD, NEW_PASSWORD, "X-Amz-Signature=", "ISSUEDSECRET", "SIGNEDSECRET", "SESSIONSECRET"):
        assert secret not in text, secret


def intact(world, folder):
    """What was landed as verified is what it says, and no file is larger than a record allows."""
    for path in folder.rglob("*.tar.gz"):
        assert path.read_bytes() in world.fake.objects.values()
    for path in folder.rglob("*"):
        assert path.is_dir() or path.stat().st_size <= max(LIMITS.largest(200_000), LIMITS.list_bytes)
    with contextlib.suppress(FileNotFoundError):
        assert (folder / "state" / "tokens.json").stat().st_mode & 0o777 == 0o600


def campaign(world, seeds):
    """Run the cases; what was wrong, by seed, and how they ended."""
    wrong, ends = [], Counter()
    for seed in seeds:
        try:
            ends[run(world, seed)] += 1
        except Exception as error:  # noqa: BLE001  anything else than ours is what is looked for
            written.paths = None
            frames = traceback.extract_tb(error.__traceback__)[-1]
            wrong.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]} ({frames.filename}:{frames.lineno})")
    return wrong, ends


def test_a_sample_of_hostile_answers(world):
    wrong, ends = campaign(world, range(SAMPLE))
    assert wrong == []
    assert len(ends) > 4
    assert ends["a result"] > SAMPLE / 20


@pytest.mark.soak
@pytest.mark.parametrize("block", range(CAMPAIGN // BLOCK))
def test_hostile_answers(world, block):
    wrong, ends = campaign(world, range(block * BLOCK, (block + 1) * BLOCK))
    assert wrong == []
    assert len(ends) > 6
