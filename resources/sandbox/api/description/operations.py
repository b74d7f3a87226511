"""What can be asked of the service: every operation of the interface, with what it takes and what it returns.

Source: the service's interface description and its list of changes (Wikidata files, Beta). Sign-up and the
files of Commons are left out, for the reasons in docs/decisions/0032.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Area = Literal["authentication", "data", "realtime"]

#: Status codes of errors that the service's own description lists.
LISTED_DATA = (401, 403, 404, 422, 500)
LISTED_STREAM = (401, 403, 422, 500)
LISTED_PASSWORD = (401, 422, 500)
#: Six by number; which they are is not public.
LISTED_LOGIN = (400, 401, 403, 422, 429, 500)

_BOTH = ("GET", "POST")
_DOWNLOAD = ("GET", "HEAD")


@dataclass(frozen=True)
class Described:
    """One operation: the same for all its methods.

    Attributes:
        name: Identifies it; with the method it is the `operationId`.
        answer: Schema of the answer, or of each record of it; `download` for a redirect, None for no body.
        many: The answer is a list.
        takes: The parameters of the data and realtime areas that it reads.
        body: The authentication body that it reads.
        beta: The service calls it Beta.
        paid: Accounts of the free group may not use it.
        token: A bearer token is asked for.
        quota: What a request counts against.
        listed: Errors that the service's own description lists.
        answered: Errors that the service is known to answer.
    """

    name: str
    summary: str
    path: str
    tag: str
    methods: tuple[str, ...] = _BOTH
    area: Area = "data"
    answer: str | None = None
    many: bool = False
    takes: tuple[str, ...] = ()
    body: str | None = None
    beta: bool = False
    paid: bool = False
    token: bool = True
    quota: Literal["snapshot", "chunk", "ondemand"] | None = None
    listed: tuple[int, ...] = LISTED_DATA
    answered: tuple[int, ...] = (400, 401, 403, 404, 422, 429, 500)
    text: str = ""


_LIST, _ONE, _LOOKUP = ("fields", "filters"), ("fields",), ("fields", "filters", "limit")
_STREAM = ("since", "fields", "filters", "parts", "offsets", "since_per_partition")
_UNITS = "A GET counts one unit of the quota, a range too; ask for the redirect once and use the signed URL for 60 s."


def _login(name: str, summary: str, answer: str | None = None, *more: int, text: str = "") -> Described:
    listed = LISTED_LOGIN if name == "login" else LISTED_PASSWORD
    return Described(
        name,
        summary,
        f"/v1/{name}",
        "Authentication",
        ("POST",),
        "authentication",
        answer,
        body=name,
        token=False,
        listed=listed,
        answered=(401, 422, *more, 500),
        text=text,
    )


def _reference(kind: str, singular: str, first: str) -> tuple[Described, ...]:
    return (
        Described(kind, f"All {kind}", f"/v2/{kind}", "Metadata", answer=singular, many=True, takes=_LIST, text=first),
        Described(
            singular, f"One of the {kind}", f"/v2/{kind}/{{identifier}}", "Metadata", answer=singular, takes=_ONE
        ),
    )


@dataclass(frozen=True)
class _Files:
    """A family of archives: the list, one record, the download."""

    name: str
    what: str
    path: str
    tag: str
    record: str = "snapshot"
    part: str = "identifier"
    quota: Literal["snapshot", "chunk"] | None = None
    beta: bool = False
    paid: bool = False
    plural: str = ""

    def operations(self) -> tuple[Described, ...]:
        one = f"{self.path}/{{{self.part}}}"
        kind = {"tag": self.tag, "beta": self.beta, "paid": self.paid}
        counted = _UNITS if self.quota else "Not counted against a quota."
        return (
            Described(
                self.plural or f"{self.name}s",
                f"The {self.what}s",
                self.path,
                answer=self.record,
                many=True,
                takes=_LIST,
                **kind,  # type: ignore[arg-type]
            ),
            Described(self.name, f"One {self.what}", one, answer=self.record, takes=_ONE, **kind),  # type: ignore[arg-type]
            Described(
                f"{self.name}-download",
                f"The archive of a {self.what}",
                f"{one}/download",
                methods=_DOWNLOAD,
                answer="download",
                quota=self.quota,
                answered=(307, 401, 403, 404, 429, 500),
                text=f"GET redirects to a signed URL that lives 60 seconds, HEAD returns the headers. {counted}",
                **kind,  # type: ignore[arg-type]
            ),
        )


def _service(name: str, summary: str, path: str, answer: str | None = None, area: Area = "data") -> Described:
    return Described(name, summary, path, "Service", ("GET",), area, answer, token=False, listed=(), answered=())


def _lookup(name: str, summary: str, path: str, answer: str, tag: str, *, beta: bool, text: str) -> Described:
    return Described(
        name, summary, path, tag, answer=answer, many=True, takes=_LOOKUP, beta=beta, quota="ondemand", text=text
    )


def _wikidata(name: str, what: str, answer: str) -> Described:
    return Described(
        f"wikidata-{name}",
        f"{what[0].upper()}{what[1:]} of Wikidata",
        f"/v2/wikidata/{'properties' if name == 'property' else f'{name}s'}/{{identifier}}",
        "Wikidata",
        answer=answer,
        many=True,
        takes=_ONE,
        beta=True,
        quota="ondemand",
        text="A list of one; 404 if there is none.",
    )


def _stream(name: str, summary: str, path: str, answer: str, *, beta: bool) -> Described:
    return Described(
        name,
        summary,
        path,
        "Streams",
        area="realtime",
        answer=answer,
        many=True,
        takes=_STREAM,
        beta=beta,
        paid=True,
        listed=LISTED_STREAM,
        answered=(401, 403, 422, 429, 500),
        text="Server-sent events, or one JSON object a line by `Accept: application/x-ndjson`, without an end. A JSON "
        "body is read on GET as well. Headers come with the first event. `fields` must name members, objects by `.*`.",
    )


_NAMES = "The title: exact, case-sensitive, with its namespace's prefix; spaces or `_`, and slashes as they are. "
_WINNERS = "Looked up in every project: filter by `is_part_of.identifier` to be exact, otherwise which win is chance."
_MEMBERS = (
    " Members of arrays are asked for by `#` (`categories.#.name`) and come back in an object instead of the array."
)
_SHAPE = " An article that cannot be structured comes back as an article."
_HOUR = "/v2/batches/{date}/{hour}"
_STRUCTURED, _ENTITIES = "/v2/snapshots/structured-contents", "/v2/snapshots/wikidata"
_CHUNKS = "{snapshot_identifier}/chunks"

OPERATIONS: tuple[Described, ...] = (
    _login(
        "login",
        "Log in with username and password",
        "login",
        400,
        text="With a temporary password the answer is a challenge (`challenge_name`, `session`) and no tokens.",
    ),
    _login("token-refresh", "Get a new access token", "tokens", 429, text="90 times for each refresh token, then 429."),
    _login("token-revoke", "Revoke a refresh token and its access tokens"),
    _login("forgot-password", "Have a confirmation code sent"),
    _login("forgot-password-confirm", "Set a password with the code", text="A 401 says what is wrong."),
    _login("change-password", "Change the password", text="The access token is sent in the body, and in the header."),
    _login("new-password-required", "Answer the challenge of a login", "new-password-required"),
    Described(
        "get-user",
        "The account: groups, quotas, permissions",
        "/v1/get-user",
        "Authentication",
        ("POST",),
        "authentication",
        "user",
        listed=(),
        answered=(401, 429, 500),
    ),
    *_reference("codes", "code", "The kinds of project."),
    *_reference("languages", "language", ""),
    *_reference("projects", "project", "The wikis."),
    *_reference("namespaces", "namespace", ""),
    *_Files("structured-snapshot", "structured contents snapshot", _STRUCTURED, "Snapshots", beta=True).operations(),
    *_Files("wikidata-snapshot", "Wikidata snapshot", _ENTITIES, "Snapshots", quota="snapshot", beta=True).operations(),
    *_Files(
        "wikidata-chunk",
        "chunk of a Wikidata snapshot",
        f"{_ENTITIES}/{_CHUNKS}",
        "Snapshots",
        "chunk",
        "chunk_identifier",
        "chunk",
        beta=True,
    ).operations(),
    *_Files("snapshot", "snapshot", "/v2/snapshots", "Snapshots", quota="snapshot").operations(),
    *_Files(
        "chunk",
        "chunk of a snapshot",
        f"/v2/snapshots/{_CHUNKS}",
        "Snapshots",
        "chunk",
        "chunk_identifier",
        "chunk",
    ).operations(),
    *_Files(
        "wikidata-batch",
        "Wikidata file of an hour",
        "/v2/batches/wikidata/{date}/{hour}",
        "Batches",
        "batch",
        beta=True,
        paid=True,
        plural="wikidata-batches",
    ).operations(),
    *_Files("batch", "file of an hour", _HOUR, "Batches", "batch", paid=True, plural="batches").operations(),
    _lookup(
        "articles",
        "Articles by their title",
        "/v2/articles/{name}",
        "article",
        "On-demand",
        beta=False,
        text=_NAMES + _WINNERS + _MEMBERS,
    ),
    _lookup(
        "structured-contents",
        "Structured contents by their title",
        "/v2/structured-contents/{name}",
        "structured-content",
        "On-demand",
        beta=True,
        text=_NAMES + _WINNERS + _SHAPE,
    ),
    _wikidata("item", "an item", "wikidata-article"),
    _wikidata("property", "a property", "wikidata-article"),
    _wikidata("label", "the labels of an item or a property", "labels"),
    _stream("article-stream", "Changes of articles", "/v2/articles", "article", beta=False),
    _stream("wikidata-stream", "Changes of Wikidata", "/v2/wikidata", "wikidata-article", beta=True),
    _service("auth-status", "Whether the service is up", "/v1/status", area="authentication"),
    _service("status", "Whether the service is up", "/v2/status"),
    _service("healthz", "Health", "/healthz", "health"),
    _service("jwks", "Keys that tokens are signed with", "/pool/.well-known/jwks.json", "key-set", "authentication"),
)
