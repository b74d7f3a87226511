"""A campaign of hostile answers: each operation, at any of its requests, meets answers spoilt at random from a seed.

Whatever comes, an operation ends as a result or as one `EnterpriseError`: short, printable, without secrets, in time,
with nothing written beside its folder. A failure names its seed: `run(seed)` is that case again.
"""

import io
import logging
import random
import re
import threading
import time
import traceback
from collections import Counter

import pytest

from resources.datasets import LISTS
from resources.enterprise import FetchOptions, Limits, Query, RetryPolicy, endpoints, errors
from tests.unit.enterprise import hostile
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.loopback import PASSWORD

NAME = "enwiki_namespace_0"
FILE = f"/v2/batches/2026-11-01/05/{NAME}"
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

    def __call__(self, request, reply):
        if not request.path.startswith(self.where):
            return None
        with self.lock:
            number, self.count = self.count, self.count + 1
            if not self.first <= number < self.first + self.times:
                return None
            request.signatures = set(self.fake.signatures)
            return hostile.spoil(self.kind or hostile.draw(self.chance), self.chance, request, reply)


@pytest.fixture
def run(fake, make_client, tmp_path, caplog):
    """Run a case by its seed; what it ended as, or AssertionError for what no case may do."""
    for name in ("resources", "urllib3"):
        caplog.set_level(logging.DEBUG, name)
    content = random.Random(1).randbytes
    for name, size in {NAME: 30_000, "dewiki_namespace_0": 150_000, "frwiki_namespace_14": 0}.items():
        fake.add(name, content(size))
    fake.add_snapshot("frwiki_namespace_0", content(20_000), content(10_000))

    def run_case(seed):
        chance, folder, error = random.Random(seed), tmp_path / f"case{seed}", None
        operation = chance.choice(sorted(OPERATIONS))
        fake.password, fake.uses_allowed = PASSWORD, chance.choice([90, 90, 0])
        fake.challenge = "NEW_PASSWORD_REQUIRED" if operation == "account.new_password" else None
        fake.hostile = Spoiler(chance, fake)
        caplog.clear()
        began = time.monotonic()
        try:
            with make_client(state=folder / "state", retry=RETRY, limits=LIMITS) as client:
                OPERATIONS[operation](client, folder / "archive")
        except errors.EnterpriseError as caught:
            error = caught
            assert re.fullmatch(r"\S.*\.", error.message), error.message
            assert error.message == str(error)
            assert len(error.message) <= errors.LONGEST_MESSAGE
            shows_no_secret("".join(traceback.format_exception(error)), error.message)
        finally:
            fake.hostile = None
        assert time.monotonic() - began < LONGEST_SECONDS
        assert all(record.exc_info is None for record in caplog.records)
        assert max(map(len, caplog.messages), default=0) <= errors.LONGEST_MESSAGE + 100
        shows_no_secret(caplog.text, *caplog.messages)
        assert {path.name.partition("case")[0] for path in tmp_path.iterdir()} <= {""}
        # what was landed as verified is what it says, and no file is larger than a record allows
        for path in folder.rglob("*"):
            assert path.suffix != ".gz" or path.read_bytes() in fake.objects.values()
            assert path.is_dir() or path.stat().st_size <= max(LIMITS.largest(200_000), LIMITS.list_bytes)
            assert path.name != "tokens.json" or path.stat().st_mode & 0o777 == 0o600
        return type(error).__name__

    return run_case


def shows_no_secret(text, *lines):
    for secret in (PASSWORD, NEW_PASSWORD, "X-Amz-Signature=", "ISSUEDSECRET", "SIGNEDSECRET", "SESSIONSECRET"):
        assert secret not in text, secret
    assert all(line.isprintable() for line in lines)


BLOCKS = [pytest.param(range(first, first + 500), marks=pytest.mark.soak) for first in range(0, 5_000, 500)]


@pytest.mark.parametrize("seeds", [range(100), *BLOCKS], ids=str)
def test_hostile_answers(run, seeds):
    wrong, ends = [], Counter()
    for seed in seeds:
        try:
            ends[run(seed)] += 1
        except Exception as error:  # noqa: BLE001  anything else than ours is what is looked for
            wrong.append(f"seed {seed}: {traceback.format_exception(error)[-2:]}"[:500])
    assert wrong == []
    assert len(ends) > 4
    assert ends["NoneType"] > len(seeds) / 20
