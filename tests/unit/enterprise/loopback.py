"""A server on loopback whose answers are functions of what it is asked."""

import contextlib
import datetime as dt
import fnmatch
import json
import select
import socket
import threading
from dataclasses import dataclass, field
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


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
