"""A campaign of hostile answers: each operation, at any of its requests, meets answers spoilt at random from a seed.

Whatever comes, an operation ends as a result or as one `EnterpriseError`: short, printable, without secrets, in time,
with nothing written beside its folder. A failure names its seed: `run(seed)` is that case again.
"""

import gzip
import io
import itertools
import json
import logging
import random
import re
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import pytest

from resources.datasets import LISTS
from resources.enterprise import FetchOptions, Limits, Query, RetryPolicy, endpoints, errors
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.fake_service import PASSWORD
from tests.unit.enterprise.loopback import Reply, json_reply

NAME = "enwiki_namespace_0"
FILE = f"/v2/batches/2026-11-01/05/{NAME}"
LIMITS = Limits(
    list_bytes=1 << 20,
    record_bytes=1 << 17,
    refusal_bytes=1 << 15,
    answer_seconds=0.4,
    margin_bytes=100_000,
    unstated_bytes=300_000,
    range_count=3,
    ranged_bytes=100_000,
    range_bytes=20_000,
)
RETRY = RetryPolicy(retries=2, first_wait=0.001, longest_wait=0.01, connect_timeout=1, read_timeout=0.3)
#: An operation sends some ten requests, each tried three times for 0.4 s at most; and the machine is busy.
LONGEST_SECONDS = 60.0

QUERY = Query(fields=("identifier",), filters={"identifier": "frwiki"})
NEW_PASSWORD = "AnotherPhrase-Kept-Secret-2!"


def plan(client, folder):
    return client.snapshots.plan("frwiki_namespace_0", folder / "snapshots", FetchOptions(chunks=True))


#: Every public operation of the client.
OPERATIONS = {
    "lists.reference": lambda c, f: c.lists.reference("projects"),
    "lists.records": lambda c, f: [c.lists.records(endpoints.records(dataset), QUERY) for dataset in LISTS],
    "lists.record": lambda c, f: c.lists.record("/v2/projects/frwiki", Query(fields=("identifier",))),
    "files.head": lambda c, f: c.files.head(FILE),
    "files.download": lambda c, f: c.files.download("/v2/snapshots/frwiki_namespace_0", io.BytesIO()),
    "files.read": lambda c, f: [*c.files.read(FILE)],
    "lookups.articles": lambda c, f: c.lookups.articles("Josephine Baker", Query(fields=("identifier",))),
    "lookups.structured": lambda c, f: c.lookups.structured("Josephine Baker"),
    "lookups.entity": lambda c, f: c.lookups.entity("items", "Q42"),
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


#: The path of a request that is refused, the operation that sends it, and its purpose.
PURPOSES = Path(__file__).with_name("purposes.txt").read_text().replace("FILE", FILE).splitlines()


@pytest.mark.parametrize("line", PURPOSES)
def test_a_refusal_says_what_was_tried(client, fake, tmp_path, line):
    path, name, doing = line.split(" ", 2)
    fake.add(NAME, b"x")
    fake.add_snapshot("frwiki_namespace_0", b"y", b"z")
    fake.script(path, Reply(418))
    with pytest.raises(errors.UnexpectedAnswer) as caught:
        OPERATIONS[name](client, tmp_path)
    advice = "Nothing was changed. This status is not documented. Check the configured service addresses."
    assert str(caught.value) == f"Could not {doing}: the service responded with status 418. {advice}"


@pytest.mark.parametrize("line", [line for line in PURPOSES if "read the record" in line])
def test_the_record_of_another_file_is_refused_before_anything_is_fetched(client, fake, tmp_path, line):
    path, name, doing = line.split(" ", 2)
    fake.add(NAME, b"x")
    fake.add_snapshot("frwiki_namespace_0", b"y", b"z")
    fake.script(path, json_reply(fake.add("itwiki_namespace_0", b"z")))
    told = f"Could not {doing}: the service responded with the record of itwiki_namespace_0 instead. Nothing was"
    with pytest.raises(errors.UnexpectedAnswer, match=told):
        OPERATIONS[name](client, tmp_path)
    assert fake.store.requests == []


# An honest answer is spoilt in its status, headers, body or values.

# fmt: off
STATUSES = [
    *range(100, 103), *range(199, 209), *range(300, 309), *range(400, 452), *range(500, 512), 599, 600, 999,
    "abc", "-1", "20", "2000",
]

OBEYED = "\x1b]0;x\x07\x1b[2J\r\n\x9b31m\u202e\u2066\u2028\x00\x7f"

NUMBERS = [
    "Infinity", "-Infinity", "NaN", "1e999", "-1e999", "1e-999", "-1", "0", "-0.0", "9" * 30, "9" * 5000, "0.1e1",
    "1" + "0" * 400, "18446744073709551616", "2147483648", "1.7976931348623157e308", "01", "0x10", "1_000", "\u0661",
]

TEXTS = [eval(line) for line in Path(__file__).with_name("texts.txt").read_text().splitlines()]

HEADERS = {
    "Content-Length": [*NUMBERS, "7", "99999", "5, 7", "5, 5", "", "+5", "0x5"],
    "Content-Encoding": [
        "gzip", "deflate", "br", "zstd", "compress", "gzip, gzip", ", ".join(["gzip"] * 40), "x" * 500, "identity",
    ],
    "Transfer-Encoding": ["chunked", "gzip, chunked", "chunked, chunked", "x", "identity", "\x0bchunked"],
    "Content-Type": ["text/html", "application/json; charset=utf-16", "\x1b[2J", "", "x" * 9000],
    "Content-Range": [
        f"bytes {n}-{m}/{s}" for n, m, s in [("0", "9", "10"), ("9", "0", "5"), ("0", "9" * 5000, "9"), ("5", "9", "*")]
    ],
    "ETag": ['"x"', 'W/"x"', "x" * 60_000, "", '"\x1b[2J"', '"\xff"', '"a\r\n b"'],
    "Retry-After": [*NUMBERS, "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 +1400", "soon"],
    "Date": [
        "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 +1400", "Sun, 01 Nov 2026 06:10:00 -9999", "x",
        OBEYED[:3],
    ],
    "Age": [*NUMBERS],
    "Location": [
        "http://[::1", "http://", "ftp://127.0.0.1/x", "data:,x", "?", "http://u:p@127.0.0.1/x", "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/", "http://127.0.0.1:1/x", "http://\xe4/", "/objects/" + "x" * 9000, "", "\x1b[2J",
    ],
    "Last-Modified": ["Mon, 12 Feb 2024 00:50:09 UTC", "Fri, 31 Dec 99999 23:59:59 GMT", "x"],
    "Set-Cookie": [
        "a=b; expires=Thu, 99 Jan 99999 99:99:99 GMT", "=" * 5000, "a=b; Max-Age=" + "9" * 5000, "a=\x1b[2J; Domain=.x",
    ],
    "X-Long": ["x" * 70_000],
    "X\x00Y": ["x"],
    " folded": ["x"],
}

# fmt: on


def flat(reply, *, status=None, headers=(), body=None):
    """An answer as bytes, with whatever stands in its fields."""
    body = reply.body if body is None else body
    fields = {**reply.headers, **dict(headers)}
    if not any(name.lower() in {"content-length", "transfer-encoding"} for name in fields):
        fields["Content-Length"] = str(len(body))
    lines = [f"HTTP/1.1 {status or reply.status} Odd", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def other_head(chance, request, reply):
    """Another status, other headers, or both."""
    headers = {name: chance.choice(HEADERS[name]) for name in chance.sample(sorted(HEADERS), chance.randint(0, 3))}
    return flat(reply, status=chance.choice(STATUSES) if chance.random() < 0.5 else None, headers=headers)


def other_body(chance, request, reply):
    sent = reply.body
    page, nested = b"<html>" + OBEYED.encode(), (b"[" * 60_000, b'{"a":' * 20_000, b"9" * 5000)
    values = (b"", b" \n", b"null", b"[]", b"{}", b"[{}]", b'"text"', b"NaN")
    noise = (chance.randbytes(chance.choice([1, 100, 100_000])), sent + chance.randbytes(20))
    cut = (sent[: chance.randrange(len(sent) + 1)], sent * 2, sent.replace(b'"', b"'"), b"[" + b"[]," * 300000 + b"[]]")
    encoded = (b"\xef\xbb\xbf" + sent, sent.decode("utf-8", "replace").encode("utf-16"))
    packed = gzip.compress(sent)
    if chance.random() < 0.1:
        return flat(reply, headers={"Content-Encoding": "gzip"}, body=chance.choice([packed, packed[:-9], packed * 9]))
    return flat(reply, body=chance.choice([page, *nested, *values, *noise, *cut, *encoded]))


def evil_message(chance, request, reply):
    """A refusal that repeats what it was sent, and what a terminal obeys."""
    told = [OBEYED, str(request.headers.get("authorization")), request.body.decode("utf-8", "replace"), request.path]
    told += [f"http://127.0.0.1/x?X-Amz-Signature={signature}" for signature in sorted(request.signatures)[:3]]
    chance.shuffle(told)
    message = chance.choice(["", "x" * chance.choice([10, 290, 60_000])]).join(told)
    body = json.dumps({"status": 400, "message": chance.choice([message, [message], None, 5])}).encode()
    return flat(reply, status=chance.choice([400, 401, 403, 404, 418, 422, 429, 500, 503]), body=body)


def other_value(chance, request, reply):
    """A valid answer with one to three values of another kind at random places."""
    try:
        tree = json.loads(reply.body)
    except ValueError:
        return other_body(chance, request, reply)
    places = []

    def walk(node):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    if isinstance(tree, dict | list):
        walk(tree)
    written = []
    for node, key in chance.sample(places, min(len(places), chance.randint(1, 3))):
        kind = chance.randrange(7)
        if kind == 0 and isinstance(node, dict):
            node.pop(key, None)
        elif kind == 1:
            written.append(chance.choice(NUMBERS))
            node[key] = f"@{len(written) - 1}@"
        elif kind in {2, 3}:
            node[key] = chance.choice(TEXTS)
        elif kind == 4:
            node[key] = chance.choice([None, True, [], {}, [[]], {"identifier": None}, [None] * 1000, {"a": {"b": []}}])
        elif kind == 5 and isinstance(node[key], list):
            node[key] = node[key] * chance.choice([2, 1000])
        else:
            node[key] = [node[key]]
    text = json.dumps(tree)
    for number, value in enumerate(written):
        text = text.replace(f'"@{number}@"', value)
    return flat(reply, body=text.encode("utf-8", "surrogatepass"))


def broken_off(chance, request, reply):
    whole = flat(reply)
    return whole[: chance.randrange(len(whole) + 1)]


#: Kinds with how often each is drawn.
KINDS = {other_head: 36, other_body: 12, evil_message: 10, other_value: 24, broken_off: 8}


def spoiler(chance, fake):
    """Spoils the requests of one case: some of them, or all from one on, in one way or in several."""
    where = chance.choice(["/", "/v1/", "/v2/", "/objects/"])
    first, times = chance.choice([0, 0, 1, 1, 2, 3, 5]), chance.choice([1, 1, 2, 99])
    kinds = chance.choices(list(KINDS), list(KINDS.values()), k=chance.choice([1, 1, 1, 1, 8]))
    numbers, lock = itertools.count(), threading.Lock()  # one random source for the threads of the servers

    def spoil(request, reply):
        if not request.path.startswith(where):
            return None
        with lock:
            number = next(numbers)
            if not first <= number < first + times:
                return None
            request.signatures = set(fake.signatures)
            spoilt = kinds[number % len(kinds)](chance, request, reply)
        return Reply(raw=lambda connection: connection.sendall(spoilt))

    return spoil


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
        fake.hostile = spoiler(chance, fake)
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
        assert all(path.name.startswith("case") for path in tmp_path.iterdir())
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
