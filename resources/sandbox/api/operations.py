"""Declarations of the service's operations with path, methods, permitted groups and quota.

Routing, permissions, quotas and `get-user` are derived from these declarations. `data/interface.yaml` describes
parameters and responses. Tests compare the description with the declarations.

Source: the service's interface description and its documentation of groups and quotas.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from resources.sandbox.accounts.accounts import Accounts
from resources.sandbox.accounts.database import RateLimit
from resources.sandbox.accounts.tokens import TokenExpiredError, TokenMint, TokenRefusedError
from resources.sandbox.accounts.users import User
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.parameters import body_fields
from resources.sandbox.clock import Clock
from resources.sandbox.faults import Faults
from resources.sandbox.settings import EVERY_GROUP, FREE_GROUP, QuotaKind, Settings
from resources.sandbox.store.archived_world import STRUCTURED, WIKIDATA, ArchivedWorld, Contents, EntityContents
from resources.sandbox.store.exports import Exports
from resources.sandbox.store.object_index import ObjectIndex, Signer
from resources.sandbox.store.topics import Topic
from resources.sandbox.world.entities import PROJECT

#: Loopback names of the API and of the object store. If both had the same name, a client that keeps its token on
#: redirects within a host would send the token to the object store, which refuses tokens. The service also has a
#: separate host for streams. The sandbox has a separate port instead.
API_NAME, OBJECTS_NAME = "127.0.0.1", "localhost"
REALTIME_NAME = OBJECTS_NAME
LOOPBACK_NAMES = (API_NAME, OBJECTS_NAME, "::1")


class Service:
    """State that all operations share, such as the world, clock, accounts, faults and limits."""

    def __init__(self, settings: Settings, world: ArchivedWorld, clock: Clock, addresses: tuple[str, str, str]) -> None:
        """Serve `world`. `addresses` are the URLs for the API, downloads and streams."""
        self.settings = settings
        self.world = world
        self.clock = clock
        self.url, self.object_url, self.realtime_url = addresses
        self.faults = Faults()
        self.rate = RateLimit()
        self.mint = TokenMint(settings.state, clock, self.url)
        self.accounts = Accounts(settings.state, clock, self.mint)
        self.signer = Signer(secrets.token_bytes(32), clock)
        contents: dict[str, Contents] = {"": world, WIKIDATA: EntityContents(world), STRUCTURED: world.structured}
        #: File index of each area (articles, Wikidata or structured contents). The name of the articles area is empty.
        self.areas = {
            name: ObjectIndex(one, clock, self.faults, Exports(one, clock), settings.state / "damaged", name)
            for name, one in contents.items()
        }
        #: Article snapshot exports.
        self.exports = self.areas[""].exports
        #: Stream topics by record schema.
        self.topics = {
            "article": Topic(world, settings.projects),
            "wikidata-article": Topic(world, (PROJECT,) if settings.entities else ()),
        }
        #: Operations on all ports.
        self.operations: tuple[Operation, ...] = ()
        self.stopped, self.ending = threading.Event(), threading.Event()

    def objects_for(self, request: Request) -> str:
        """Return an object store URL whose host name differs from the request's host name."""
        if request.url.hostname != OBJECTS_NAME:
            return self.object_url
        return self.object_url.replace(OBJECTS_NAME, API_NAME, 1)


@dataclass(frozen=True)
class Call:
    """Request to an operation. `user` is None if the operation needs no token."""

    operation: Operation
    service: Service
    request: Request
    user: User | None

    @property
    def area(self) -> ObjectIndex:
        """Return the files in the operation's area (articles, Wikidata or structured contents)."""
        return self.service.areas[self.operation.area]

    @property
    def is_free(self) -> bool:
        """Return whether the user has a free account. Free accounts get separate snapshot copies."""
        return self.user is not None and self.user.group == FREE_GROUP

    @property
    def accept(self) -> str | None:
        return self.request.headers.get("accept")

    def part(self, name: str) -> str:
        return str(self.request.path_params[name])


@dataclass(frozen=True)
class Operation:
    """Operation of the service. If `groups` is None, no token is needed. If `groups` is empty, every user has access.

    If `is_token_in_body` is true, the token can be in the body instead of the header. `area` is the area of the files.
    """

    methods: tuple[str, ...]
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    groups: tuple[str, ...] | None = EVERY_GROUP
    quota: QuotaKind | None = None
    is_token_in_body: bool = False
    area: str = ""


async def perform(operation: Operation, service: Service, request: Request) -> Response:
    """Check the token, group, rate limit and quota, then run the operation. A failed check raises an HTTP error."""
    user = None
    if operation.groups is not None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not token and operation.is_token_in_body:
            content = (await body_fields(request) or {}).get("access_token")
            token = content if isinstance(content, str) else ""
        user = identify(service, request, token)
        if operation.groups and user.group not in operation.groups:
            raise Refusal(403)
        if not service.rate.admit(user.username):
            raise Refusal(429)
        if (
            operation.quota is not None
            and request.method != "HEAD"
            and not service.accounts.quotas.spend(user, operation.quota)
        ):
            raise Refusal(429)
    return await operation.handler(Call(operation, service, request, user))


def identify(service: Service, request: Request, token: str) -> User:
    """Identify the user by token or, if the token is missing or invalid, by IP address."""
    address = request.client.host if request.client is not None else ""
    try:
        if token:
            return service.accounts.identify(token)
        refused = Refusal(401)
    except TokenExpiredError as expired:
        # the service's gateway refuses expired tokens with a different message
        refused = Refusal(401, str(expired), is_bare=True)
    except TokenRefusedError as refusal:
        refused = Refusal(401, str(refusal))
    admitted = service.accounts.admissions.user(address) if address else None
    if admitted is None:
        raise refused
    return admitted
