"""A small content service for the client's tests: honest by default, and odd on demand.

It is written for these tests only and shares nothing with the sandbox: cut bodies, ignored ranges, redirects to
elsewhere and refused tokens are one line each here.
"""

import fnmatch
import hashlib
import threading
from functools import partial

from resources.enterprise import Service
from tests.unit.enterprise.loopback import Loopback, Reply, error_reply, json_reply

PASSWORD = 'PassPhrase-Kept-"Sécret\\1"!'
USERNAME = "mirror"
FRENCH = {"name": "Wikipédia", "identifier": "frwiki", "url": "https://fr.wikipedia.org", "code": "wiki"}
#: Records as the service sends them.
REFERENCE = {
    "codes": [{"identifier": "wiki", "name": "Wikipedia"}],
    "languages": [
        {"identifier": "fr", "name": "French", "alternate_name": "français", "direction": "ltr"},
        {"identifier": "ar", "name": "Arabic", "alternate_name": "العربية", "direction": "rtl"},
    ],
    "projects": [FRENCH | {"in_language": {"identifier": "fr"}}],
    "namespaces": [{"identifier": 0, "name": "Article", "description": "All"}, {"identifier": 14, "name": "Category"}],
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
            "identifier": identifier, "version": version or hashlib.md5(content).hexdigest(),
            "date_modified": "2026-11-01T06:04:11.123456789Z", "is_part_of": {"identifier": project},
            "in_language": {"identifier": "en"}, "namespace": {"identifier": int(namespace.partition("_")[0])},
            "size": {"value": (len(content) if size is None else size) / 1e6, "unit_text": "MB"},
        }  # fmt: skip
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
