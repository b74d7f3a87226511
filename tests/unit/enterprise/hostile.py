"""Hostile answers from a seed.

An honest answer of the fake service, spoilt in its status, headers, framing, body or values. Each kind is a function of
the random source, the request and the honest reply, and gives the bytes to send.
"""

import gzip
import json

from tests.unit.enterprise.loopback import Reply

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

TEXTS = [
    "", " ", "null", "../../EvilName", "/tmp/EvilName", "..", ".", "a/../EvilName", "a\0b", OBEYED, "x" * 10_000, "CON",
    "NUL", "%2e%2e%2fEvilName", "\\..\\EvilName", "\ud800", "é" * 200, "-rf", "~", "$(id)", "{0}", "%s%n",
    "a\r\nX-Evil: 1", "\u20ac", "EvilName." * 300, "file:///etc/passwd", "http://[::1", "enwiki_namespace_0",
    "0" * 32, "f" * 33, "NEW_PASSWORD_REQUIRED",
]

MOMENTS = [
    "0000-01-01T00:00:00Z", "99999-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-23:59", "2026-13-45", "1e9",
    "now", "0001-01-01T00:00:00+14:00", "2026-11-01T24:00:00Z", "2026-11-01T06:04:11", "1969-12-31T23:59:59Z",
]

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
        "a=b; expires=Thu, 99 Jan 99999 99:99:99 GMT", "=" * 5000, "a=b; Max-Age=" + "9" * 5000,
        "a=\x1b[2J; Domain=.x",
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
    cut = (
        sent[: chance.randrange(len(sent) + 1)],
        sent * 2,
        sent.replace(b'"', b"'"),
        b"[" + b"[]," * 300_000 + b"[]]",
    )
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
            node[key] = chance.choice([TEXTS, MOMENTS][kind - 2])
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


def draw(chance):
    return chance.choices(list(KINDS), list(KINDS.values()))[0]


def spoil(kind, chance, request, reply):
    spoilt = kind(chance, request, reply)
    return Reply(raw=lambda connection: connection.sendall(spoilt))
