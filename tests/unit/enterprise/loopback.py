"""A small content service on loopback for the client's tests: honest by default, and odd on demand.

It is written for these tests only and shares nothing with the sandbox: cut bodies, ignored ranges, redirects to
elsewhere and refused tokens are one line each here.
"""

import contextlib
import datetime as dt
import fnmatch
import hashlib
import json
import select
import socket
import threading
from dataclasses import dataclass, field
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from resources.enterprise import Service

PASSWORD = "PassPhrase-Kept-Secret-1!"
USERNAME = "mirror"


@dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes
    parameters: list  # the query, with what is repeated

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Reply:
    """`cut`: send only so many bytes of the body and close; `stall`: then wait for this event instead of closing."""

    status: int = 200
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    cut: int | None = None
    stall: threading.Event | None = None
    chunked: bool = False
    drop: bool = False  # close without an answer
    raw: object = None  # a function that writes to the connection itself, headers too; then it is closed


class Sender:
    """Sends one piece again and again until the client is gone, or far more has gone out than anybody should take."""

    def __init__(self, head, piece, *, most=64 << 20, pause=0.0):
        self.head, self.piece, self.most, self.pause = head, piece, most, pause
        self.sent, self.calls = 0, 0
        self.left = threading.Event()

    def __call__(self, connection):
        self.calls += 1
        # the system would let it grow to several megabytes, which nobody took
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        with contextlib.suppress(OSError):
            connection.sendall(self.head)
            while self.sent < self.most:
                connection.sendall(self.piece)
                self.sent += len(self.piece)
                # waits for the client to leave, a pause long
                if self.pause and select.select([connection], [], [], self.pause)[0] and not connection.recv(1):
                    break
        self.left.set()


def json_reply(value, status=200, **headers):
    return Reply(status, json.dumps(value).encode() + b"\n", {"Content-Type": "application/json", **headers})


def error_reply(status, message):
    return json_reply({"status": status, "message": message}, status)


def html_reply(status=200):
    return Reply(status, b"<html><body>Gateway</body></html>", {"Content-Type": "text/html"})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args):
        pass

    def handle_one(self):
        parts = urlsplit(self.path)
        headers = {k.lower(): v for k, v in self.headers.items()}
        query, body = parse_qsl(parts.query), self.rfile.read(int(headers.get("content-length") or 0))
        request = Request(self.command, parts.path, dict(reversed(query)), headers, body, query)
        with self.server.lock:
            self.server.requests.append(request)
        self.answer(self.server.application(request))

    do_GET = do_POST = do_HEAD = handle_one  # noqa: N815

    def answer(self, reply):
        self.close_connection |= reply.drop or reply.raw is not None or reply.cut is not None
        if reply.drop:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        with contextlib.suppress(OSError):
            if reply.raw is not None:
                reply.raw(self.connection)
                return
            body = reply.body[: reply.cut]
            self.send_response_only(reply.status)
            headers = {"Date": format_datetime(self.server.now(), usegmt=True), **reply.headers}
            if reply.chunked:
                headers["Transfer-Encoding"] = "chunked"
                half = max(1, len(body) // 2)
                pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:half], body[half:]) if piece]
                body = b"".join(pieces) + (b"0\r\n\r\n" if reply.cut is None else b"")
            elif reply.status != 204:
                headers.setdefault("Content-Length", str(len(reply.body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            if reply.stall is not None and not reply.stall.wait(120):
                self.server.stalls_sat_out += 1


class Loopback(ThreadingHTTPServer):
    """An HTTP/1.1 server in threads whose answers come from one function."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, application, host="127.0.0.1"):
        super().__init__((host, 0), Handler)
        self.application = application
        self.requests = []
        self.stalls_sat_out = 0
        self.now = lambda: dt.datetime.now(dt.UTC)  # told in the `Date` of every answer
        self.lock = threading.Lock()
        self.url = f"http://{host}:{self.server_port}"
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests

    def _serve(self):
        # `serve_forever` would look a hundred times a second for its end
        while not self._is_closing:
            self.handle_request()

    def seen(self, glob, method=None):
        with self.lock:
            return [r for r in self.requests if fnmatch.fnmatch(r.path, glob) and method in {None, r.method}]

    def close(self):
        if not self._is_closing:
            self._is_closing = True
            socket.create_connection(self.server_address).close()
            self._thread.join()
            self.server_close()


FRENCH = {"name": "Wikipédia", "identifier": "frwiki", "url": "https://fr.wikipedia.org", "code": "wiki"}
#: Records as the service sends them.
REFERENCE = {
    "codes": [{"identifier": "wiki", "name": "Wikipedia"}],
    "languages": [
        {"identifier": "fr", "name": "French", "alternate_name": "français", "direction": "ltr"},
        {"identifier": "ar", "name": "Arabic", "alternate_name": "العربية", "direction": "rtl"},
    ],
    "projects": [FRENCH | {"in_language": {"identifier": "fr"}}],
    "namespaces": [
        {"identifier": 0, "name": "Article", "description": "Pages"},
        {"identifier": 14, "name": "Category"},
    ],
}


class FakeService:
    """Authentication and data on one server, signed objects on a second; `clock` tells both their time."""

    def __init__(self, clock):
        self.password = PASSWORD
        self.expires_in = 86_400
        self.uses_allowed = 90
        self.challenge = None
        self.user = {"username": USERNAME, "groups": ["group_3"]}
        self.objects = {}  # identifier -> bytes behind the address
        self.records = {}  # identifier -> record
        self.signatures = set()
        self.ranges = True
        self.etags = True
        self._access = set()
        self._refresh = {}
        self._issued = 0
        self._scripted = []
        self.hostile = None  # spoils answers: a function of the request and the honest reply, which gives one or None
        self.endpoints = {}  # further ones, each with another whose answers it gives
        self.snapshots = {}
        self.chunks = {}
        self._lock = threading.Lock()
        self.api = Loopback(partial(self._answer, self._honest))
        self.api.now = clock
        self.store = Loopback(partial(self._answer, self.object))
        self.url = self.api.url

    def __enter__(self):
        return self

    def __exit__(self, *_raised):
        self.close()

    def close(self):
        self.api.close()
        self.store.close()

    def service(self, **changes):
        """What a client is told of it."""
        urls = dict.fromkeys(("auth_url", "base_url", "realtime_url"), self.url)
        return Service(**urls | {"username": USERNAME, "password": PASSWORD} | changes)

    def script(self, glob, *replies):
        """Answer the next requests to a path with these replies (or functions of the request), then be honest again."""
        self._scripted.extend((glob, reply) for reply in replies)

    def add(self, identifier, content, *, version=None, size=None):
        """Publish an object with its record; give a version or a size that lies, if it shall."""
        project, _, namespace = identifier.partition("_namespace_")
        self.objects[identifier] = content
        self.records[identifier] = {
            "identifier": identifier,
            "version": version or hashlib.md5(content).hexdigest(),
            "date_modified": "2026-11-01T06:04:11.123456789Z",
            "is_part_of": {"identifier": project},
            "in_language": {"identifier": "en"},
            "namespace": {"identifier": int(namespace.partition("_")[0])},
            "size": {"value": (len(content) if size is None else size) / 1e6, "unit_text": "MB"},
        }
        return self.records[identifier]

    def add_snapshot(self, identifier, *contents):
        """Publish a snapshot of so many chunks."""
        names = [f"{identifier}_chunk_{number}" for number in range(len(contents))]
        self.snapshots[identifier] = self.add(identifier, b"".join(contents)) | {"chunks": names}
        for name, content in zip(names, contents, strict=True):
            self.chunks[name] = self.add(name, content)
        for name in (identifier, *names):
            del self.records[name]  # it is no batch

    def revoke(self):
        """Everything that was issued ends."""
        self._access.clear()
        self._refresh.clear()

    def revoke_access(self):
        self._access.clear()

    def expire_signatures(self):
        self.signatures.clear()

    def _answer(self, honest, request):
        """The next reply of the script for this path, or an honest one; `hostile` may spoil either."""
        with self._lock:
            scripted = next((one for one in self._scripted if fnmatch.fnmatch(request.path, one[0])), None)
            if scripted is not None:
                self._scripted.remove(scripted)
        reply = scripted and scripted[1]
        reply = (reply(request) if callable(reply) else reply) or honest(request)
        return (self.hostile and self.hostile(request, reply)) or reply

    def _issue(self, kind):
        self._issued += 1
        return f"eyJ{kind}{self._issued:04d}.ISSUEDSECRET{self._issued:04d}.SIGNATURE{self._issued:04d}"

    def _honest(self, request):
        with self._lock:
            if request.path.startswith("/v1/") and request.path != "/v1/get-user":
                return self._auth(request)
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            if bearer not in self._access:
                return error_reply(401, "Unauthorized")
            return self._data(request)

    def _auth(self, request):
        fields = request.json
        if request.path == "/v1/login":
            if fields["username"] != USERNAME or fields["password"] != self.password:
                return error_reply(401, "Incorrect username or password.")
            challenge = {"challenge_name": self.challenge, "session": "SESSIONSECRET-0001"}
            return json_reply(challenge if self.challenge else self._grant())
        if request.path == "/v1/token-refresh":
            uses = self._refresh.get(fields["refresh_token"])
            if uses is None or fields["username"] != USERNAME:
                return error_reply(401, "Unauthorized.")
            if uses >= self.uses_allowed:
                return error_reply(429, "Refresh tokens limit has been exceeded.")
            self._refresh[fields["refresh_token"]] = uses + 1
            access = self._issue("ACCESS")
            self._access.add(access)
            return json_reply({"id_token": "x", "access_token": access, "expires_in": self.expires_in})
        if request.path == "/v1/token-revoke":
            if self._refresh.pop(fields["refresh_token"], None) is None:
                return error_reply(401, "Unauthorized")
            self._access.clear()
            return Reply(204)
        if request.path == "/v1/forgot-password":
            return Reply(204) if fields["username"] == USERNAME else error_reply(401, "User not found.")
        if request.path == "/v1/forgot-password-confirm":
            if fields["confirmation_code"] != "424242":
                return error_reply(401, "CodeMismatchException: Invalid verification code provided.")
            self.password = fields["password"]
            return Reply(204)
        if request.path == "/v1/change-password":
            if fields["previous_password"] != self.password or fields["access_token"] not in self._access:
                return error_reply(401, "Incorrect username or password.")
            self.password = fields["proposed_password"]
            return Reply(204)
        if request.path == "/v1/new-password-required":
            if fields["session"] != "SESSIONSECRET-0001":
                return error_reply(401, "Unauthorized.")
            self.password, self.challenge = fields["new_password"], None
            return json_reply(self._grant())
        return error_reply(404, "Not Found")

    def _grant(self):
        access, refresh = self._issue("ACCESS"), self._issue("REFRESH")
        self._access.add(access)
        self._refresh[refresh] = 0
        return {"id_token": "x", "access_token": access, "refresh_token": refresh, "expires_in": self.expires_in}

    def _data(self, request):
        path = request.path
        for endpoint, like in self.endpoints.items():
            path = path.replace(f"/v2/{endpoint}", f"/v2/{like}")
        parts = path.strip("/").split("/")
        if request.path == "/v1/get-user":
            return json_reply(self.user)
        if len(parts) == 2 and parts[1] in REFERENCE:
            return json_reply(REFERENCE[parts[1]])
        if parts[:2] == ["v2", "snapshots"]:
            return self._snapshot(request, parts[2:])
        if parts[:2] == ["v2", "batches"] and parts[2:4] == ["2026-11-01", "05"]:
            if len(parts) == 4:
                return json_reply(list(self.records.values()))
            if parts[4] in self.records and len(parts) == 5:
                return json_reply(self.records[parts[4]])
            if len(parts) == 6:
                return self._signed(parts[4])
        return error_reply(404, "Not Found")

    def _snapshot(self, request, parts):
        if not parts:
            return json_reply(list(self.snapshots.values()))
        records, name = self.snapshots, parts[0]
        if parts[1:2] == ["chunks"]:
            if len(parts) == 2:
                return json_reply([self.chunks[chunk] for chunk in self.snapshots[name]["chunks"]])
            records, name = self.chunks, parts[2]
        if name not in records:
            return error_reply(404, "NoSuchKey")
        if parts[-1] != "download":
            return json_reply(records[name])
        if request.method == "HEAD":
            return Reply(200, b"", {"Content-Length": str(len(self.objects[name])), "ETag": '"x"'})
        return self._signed(name)

    def _signed(self, name):
        signature = f"SIGNEDSECRET{len(self.signatures)}x{self._issued}"
        self._issued += 1
        self.signatures.add(signature)
        return Reply(307, b"", {"Location": f"{self.store.url}/objects/{name}?X-Amz-Signature={signature}"})

    def object(self, request):
        """The honest answer of the object store."""
        if "authorization" in request.headers:
            return Reply(400, b"<Error><Code>InvalidArgument</Code></Error>", {"Content-Type": "application/xml"})
        with self._lock:
            if request.query.get("X-Amz-Signature") not in self.signatures:
                body = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
                return Reply(403, body, {"Content-Type": "application/xml"})
        content = self.objects.get(request.path.rpartition("/")[2])
        if content is None:
            return Reply(404, b"<Error><Code>NoSuchKey</Code></Error>", {"Content-Type": "application/xml"})
        headers = {"Content-Type": "binary/octet-stream", "Accept-Ranges": "bytes"}
        etag = f'"{hashlib.sha1(content).hexdigest()}-2"'
        if self.etags:
            headers["ETag"] = etag
        wanted = request.headers.get("range")
        if not self.ranges or wanted is None or request.headers.get("if-range", etag) != etag:
            return Reply(200, content, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(content) - 1), len(content) - 1)
        if start >= len(content):
            return Reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return Reply(206, content[start : end + 1], headers)

    def cut(self, *places, stall=None, chunked=False, then=lambda: None):
        """Answer the next object requests honestly, but break off after so many bytes; `then` is called before."""

        def broken(place, request):
            reply = self.object(request)
            reply.cut, reply.stall, reply.chunked = place, stall, chunked
            then()
            return reply

        self.script("/objects/*", *(partial(broken, place) for place in places))
