"""Hostile answers from a seed.

An honest answer of the fake service, spoilt in its status, headers, framing, body or values. Each function takes the
random source, the request and the honest reply, and gives another reply or the bytes to send.
"""

import gzip
import json
import socket
import struct
import zlib
from dataclasses import replace

from tests.unit.enterprise.loopback import Reply, Sender

#: What a hostile name carries, so that a file of it would be found anywhere.
MARK = "EvilName"

# fmt: off
STATUSES = [
    str(status) for status in (
        *range(100, 103), *range(199, 209), *range(300, 309), *range(400, 452), *range(500, 512), 599, 600, 999,
    )
]

OBEYED = "\x1b]0;x\x07\x1b[2J\r\n\x9b31m\u202e\u2066\u2028\x00\x7f"

NUMBERS = [
    "Infinity", "-Infinity", "NaN", "1e999", "-1e999", "1e-999", "-1", "0", "-0.0", "9" * 30, "9" * 5000, "0.1e1",
    "1" + "0" * 400, "18446744073709551616", "2147483648", "1.7976931348623157e308", "01", "0x10", "1_000", "\u0661",
]

TEXTS = [
    "", " ", "null", "../../" + MARK, "/tmp/" + MARK, "..", ".", "a/../" + MARK, "a\0b", OBEYED, "x" * 10_000, "CON",
    "NUL", "%2e%2e%2f" + MARK, "\\..\\" + MARK, "\ud800", "é" * 200, "-rf", "~", "$(id)", "{0}", "%s%n",
    "a\r\nX-Evil: 1", "\u20ac", MARK + "." * 300, "file:///etc/passwd", "http://[::1", "enwiki_namespace_0",
    "0" * 32, "f" * 33, "NEW_PASSWORD_REQUIRED",
]

MOMENTS = [
    "0000-01-01T00:00:00Z", "99999-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-23:59", "2026-13-45", "1e9",
    "now", "0001-01-01T00:00:00+14:00", "2026-11-01T24:00:00Z", "2026-11-01T06:04:11", "1969-12-31T23:59:59Z",
]

LOCATIONS = [
    "http://[::1", "http://[v1.x]:80/", "http://", "//", "ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "?",
    "#", "http://u:p@127.0.0.1/x", "http://127.0.0.1:0/", "http://127.0.0.1:99999/", "http://127.0.0.1:1/x",
    "http://\xe4/", "/objects/" + "x" * 9000, "http://127.0.0.1\\@x/", "http://127.0.0.1 /", "javascript:1", "",
    "\x1b[2J", "HTTP://[fe80::1%25x]/",
]

HEADERS = {
    "Content-Length": [*NUMBERS, "5, 7", "5, 5", "", "+5", "0x5"],
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
    "Location": LOCATIONS,
    "Last-Modified": ["Mon, 12 Feb 2024 00:50:09 UTC", "Fri, 31 Dec 99999 23:59:59 GMT", "x"],
    "Set-Cookie": [
        "a=b; expires=Thu, 99 Jan 99999 99:99:99 GMT", "=" * 5000, "a=b; Max-Age=" + "9" * 5000,
        "a=\x1b[2J; Domain=.x",
    ],
    "Connection": ["close", "keep-alive", "upgrade", "x, y"],
    "Upgrade": ["h2c"],
    "X-Long": ["x" * 70_000],
    "X\x00Y": ["x"],
    ": ": ["x"],
    " folded": ["x"],
    "WWW-Authenticate": ["Digest realm=x, nonce=y", "Negotiate"],
    "Trailer": ["Content-Length"],
}
# fmt: on


def flat(reply, *, status=None, headers=None, body=None):
    """An answer as bytes, with whatever stands in its fields."""
    body = reply.body if body is None else body
    fields = dict(reply.headers)
    fields.update(headers or {})
    if not any(name.lower() in {"content-length", "transfer-encoding"} for name in fields):
        fields["Content-Length"] = str(len(body))
    lines = [f"HTTP/1.1 {status or reply.status} Odd", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def sending(*pieces, reset=False):
    def send(connection):
        for piece in pieces:
            connection.sendall(piece)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    return Reply(raw=send)


# --- the kinds of hostility ------------------------------------------------------------------------------------------


def other_status(chance, request, reply):
    return sending(flat(reply, status=chance.choice([*STATUSES, "abc", "-1", "20", "2000"])))


def odd_headers(chance, request, reply):
    names = chance.sample(sorted(HEADERS), chance.randint(1, 3))
    return sending(flat(reply, headers={name: chance.choice(HEADERS[name]) for name in names}))


def many_headers(chance, request, reply):
    return sending(
        flat(reply, headers={f"X-{n}": "x" * chance.choice([1, 600]) for n in range(chance.choice([99, 101, 5000]))})
    )


def redirect(chance, request, reply):
    status = chance.choice(["301", "302", "303", "307", "308"])
    return sending(flat(reply, status=status, headers={"Location": chance.choice(LOCATIONS)}, body=b""))


def other_body(chance, request, reply):
    page = "<html>" + OBEYED
    bodies = [
        chance.randbytes(chance.choice([1, 100, 100_000])),
        page.encode(),
        b"",
        b" \n",
        b"null",
        b"[]",
        b"{}",
        b"[{}]",
        b'"text"',
        b"[" * 60_000,
        b'{"a":' * 20_000,
        b"9" * 5000,
        b"NaN",
        b"\xef\xbb\xbf" + reply.body,
        reply.body.decode("utf-8", "replace").encode("utf-16"),
        reply.body[: chance.randrange(len(reply.body) + 1)],
        reply.body + chance.randbytes(20),
        reply.body * 2,
        reply.body.replace(b'"', b"'"),
        b"[" + b"[]," * chance.choice([10, 300_000]) + b"[]]",
    ]
    return sending(flat(reply, body=chance.choice(bodies)))


def evil_message(chance, request, reply):
    """A refusal that repeats what it was sent, and what a terminal obeys."""
    told = [OBEYED, str(request.headers.get("authorization")), request.body.decode("utf-8", "replace"), request.path]
    told += [f"http://127.0.0.1/x?X-Amz-Signature={signature}" for signature in sorted(request.signatures)[:3]]
    chance.shuffle(told)
    message = chance.choice(["", "x" * chance.choice([10, 290, 60_000])]).join(told)
    body = json.dumps({"status": 400, "message": chance.choice([message, [message], None, 5])}).encode()
    status = chance.choice(["400", "401", "403", "404", "418", "422", "429", "500", "503"])
    return sending(flat(reply, status=status, body=body))


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
        elif kind == 2:
            node[key] = chance.choice(TEXTS)
        elif kind == 3:
            node[key] = chance.choice(MOMENTS)
        elif kind == 4:
            node[key] = chance.choice([None, True, [], {}, [[]], {"identifier": None}, [None] * 1000, {"a": {"b": []}}])
        elif kind == 5 and isinstance(node[key], list):
            node[key] = node[key] * chance.choice([2, 1000])
        else:
            node[key] = [node[key]]
    text = json.dumps(tree)
    for number, value in enumerate(written):
        text = text.replace(f'"@{number}@"', value)
    return sending(flat(reply, body=text.encode("utf-8", "surrogatepass")))


def packed(chance, request, reply):
    """Compressed, or said to be: bombs, damage, layers."""
    bomb = b" " * chance.choice([1 << 20, 32 << 20])
    encodings = {
        "gzip": [
            gzip.compress(reply.body),
            gzip.compress(bomb, 1),
            gzip.compress(reply.body)[:-9],
            gzip.compress(b"") * 50_000,
        ],
        "deflate": [zlib.compress(reply.body), zlib.compress(bomb, 1), b"x" * 50],
        "gzip, gzip": [gzip.compress(gzip.compress(bomb, 1), 1), gzip.compress(reply.body)],
        "gzip, deflate, gzip": [gzip.compress(zlib.compress(gzip.compress(bomb, 1)))],
    }
    encoding = chance.choice(sorted(encodings))
    return sending(flat(reply, headers={"Content-Encoding": encoding}, body=chance.choice(encodings[encoding])))


def broken_off(chance, request, reply):
    whole = flat(reply)
    return sending(whole[: chance.randrange(len(whole) + 1)], reset=chance.random() < 0.5)


def wrong_length(chance, request, reply):
    length = chance.choice([len(reply.body) + 1, max(0, len(reply.body) - 1), 10 * len(reply.body) + 10, 1 << 40, 0])
    return sending(flat(reply, headers={"Content-Length": str(length)}))


def odd_chunks(chance, request, reply):
    size, body = f"{len(reply.body):x}".encode(), reply.body
    forms = [
        size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        size + b"\r\n" + body + b"\r\n",
        size + b"\r\n" + body + b"0\r\n\r\n",
        b"-5\r\n" + body,
        b"zz\r\n" + body,
        b"f" * 5000 + b"\r\n" + body,
        b"\r\n" + body,
        size + b";" + b"x" * 100_000 + b"\r\n" + body + b"\r\n0\r\n\r\n",
        size + b"\n" + body + b"\n0\n\n",
        b"0\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        body,
        size + b"\r\n" + body + b"\r\n0\r\n\r\n" + flat(reply),
    ]
    return sending(flat(reply, headers={"Transfer-Encoding": "chunked"}, body=chance.choice(forms)))


def no_http(chance, request, reply):
    openings = [
        b"", b"\r\n\r\n", b"HTTP/0.9 200\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02",
    ]  # fmt: skip
    openings += [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 70_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    ]
    openings += [b"HTTP/1.1 200 OK\r\nnothing like a header\r\n\r\n", b"HTTP/1.1 200 OK\n\n", chance.randbytes(300)]
    return sending(chance.choice(openings) + chance.choice([b"", flat(reply), reply.body]))


def two_answers(chance, request, reply):
    return sending(
        flat(reply),
        flat(replace(reply, status=chance.choice([200, 401, 307])), body=b'[{"identifier": "' + MARK.encode() + b'"}]'),
    )


def endless(chance, request, reply):
    chunked = {"Transfer-Encoding": "chunked"}
    piece = chance.choice([b" ", b"x", b"[", b"[],"])
    forms = [
        Sender(
            flat(reply, headers={"Connection": "close", "Transfer-Encoding": "identity"}, body=reply.body[:50]),
            piece * 60_000,
        ),
        Sender(flat(reply, headers=chunked, body=b""), b"8000\r\n" + (piece * 0x8000)[:0x8000] + b"\r\n"),
        Sender(flat(reply, headers={"Content-Length": str(1 << 45)}, body=b""), piece * 60_000),
    ]
    return Reply(raw=chance.choice(forms))


def dripping(chance, request, reply):
    chunked = {"Transfer-Encoding": "chunked"}
    forms = [
        Sender(b"HTTP/1.1 200 O", b"K", pause=0.02),
        Sender(b"HTTP/1.1 200 OK\r\nX: ", b"y", pause=0.02),
        Sender(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.02),
        Sender(flat(reply, headers={"Content-Length": "100000"}, body=b""), b" ", pause=0.02),
        Sender(flat(reply, headers=chunked, body=b""), b"1\r\nx\r\n", pause=0.02),
        Sender(flat(reply, headers=chunked, body=b"5;"), b"x", pause=0.02),
        Sender(flat(reply, headers=chunked, body=b"0\r\n"), b"X: y\r\n", pause=0.02),
        Sender(
            flat(reply, status=chance.choice(["401", "404", "500"]), headers={"Content-Length": "99999"}, body=b""),
            b" ",
            pause=0.02,
        ),
    ]
    return Reply(raw=chance.choice(forms))


#: Kinds with how often each is drawn.
KINDS = {
    other_status: 8,
    odd_headers: 16,
    many_headers: 2,
    redirect: 6,
    other_body: 12,
    evil_message: 10,
    other_value: 24,
    packed: 5,
    broken_off: 7,
    wrong_length: 4,
    odd_chunks: 6,
    no_http: 6,
    two_answers: 3,
    endless: 3,
    dripping: 2,
}


def draw(chance):
    return chance.choices(list(KINDS), list(KINDS.values()))[0]
