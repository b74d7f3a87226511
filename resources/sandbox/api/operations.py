"""The operations of the service as data: path, methods, groups that may use it, quota that it counts against.

Routing, permissions, quotas and `get-user` are derived from these declarations. What the operations take and answer is in
`description`, which the tests compare with them.

Source: the service's interface description and its documentation of groups and quotas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from resources.sandbox.accounts.tokens import TokenRefusedError
from resources.sandbox.api.answers import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from threading import Event

    from starlette.requests import Request
    from starlette.responses import Response

    from resources.sandbox.accounts.accounts import Accounts
    from resources.sandbox.accounts.limits import RateLimit
    from resources.sandbox.accounts.quotas import QuotaKind
    from resources.sandbox.accounts.tokens import TokenMint
    from resources.sandbox.accounts.users import User
    from resources.sandbox.clock import Clock
    from resources.sandbox.settings import Settings
    from resources.sandbox.store.archived_world import ArchivedWorld
    from resources.sandbox.store.exports import Exports
    from resources.sandbox.store.object_index import ObjectIndex, Signer
    from resources.sandbox.store.topics import Topic

#: The two names of the machine itself that every machine has. The service's data and its downloads have one each: a
#: client that keeps its token on redirects within a host would otherwise send it to the object store, which refuses it.
#: The streams have a host of their own as well; here that is a port of its own.
API_NAME, OBJECTS_NAME = "127.0.0.1", "localhost"
REALTIME_NAME = OBJECTS_NAME
LOOPBACK_NAMES = (API_NAME, OBJECTS_NAME, "::1")

FREE_GROUP = "group_1"
EVERY_GROUP = (FREE_GROUP, "group_2", "group_3")
PAID_GROUPS = ("group_2", "group_3")


@dataclass(frozen=True)
class Area:
    """Files beside those of the articles, with listings of their own."""

    exports: Exports
    object_index: ObjectIndex


@dataclass(frozen=True)
class Service:
    """What the operations work with. `topics` are by the schema of their records; `ending` is set once the sandbox ends."""

    settings: Settings
    clock: Clock
    accounts: Accounts
    mint: TokenMint
    rate: RateLimit
    contents: ArchivedWorld
    exports: Exports
    object_index: ObjectIndex
    areas: Mapping[str, Area]
    topics: Mapping[str, Topic]
    signer: Signer
    url: str
    object_url: str
    realtime_url: str
    operations: tuple[Operation, ...]
    ending: Event

    def objects_for(self, request: Request) -> str:
        """Where the object store answers under another name than the one that the request came to."""
        if request.url.hostname != OBJECTS_NAME:
            return self.object_url
        return self.object_url.replace(OBJECTS_NAME, API_NAME, 1)


@dataclass(frozen=True)
class Call:
    """One request to one operation, and the user who makes it (None: no user is asked for)."""

    service: Service
    request: Request
    user: User | None

    def within(self, area: str) -> Call:
        """The same call on the files of an area."""
        its = self.service.areas[area]
        return replace(self, service=replace(self.service, exports=its.exports, object_index=its.object_index))

    @property
    def accept(self) -> str | None:
        """The `Accept` header."""
        return self.request.headers.get("accept")

    def part(self, name: str) -> str:
        """A piece of the path."""
        return str(self.request.path_params[name])


@dataclass(frozen=True)
class Operation:
    """One operation. `groups` None: no token is asked for; empty: any known user."""

    methods: tuple[str, ...]
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    groups: tuple[str, ...] | None = EVERY_GROUP
    quota: QuotaKind | None = None


async def perform(operation: Operation, service: Service, request: Request) -> Response:
    """Answer a request: who is it, may they, not too fast, quota left; then the operation itself.

    Raises:
        Refusal: 401, 403, 429, or what the operation refuses.
    """
    user = None
    if operation.groups is not None:
        user = identify(service, request)
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
    return await operation.handler(Call(service, request, user))


def identify(service: Service, request: Request) -> User:
    """Who makes the request, by its bearer token or, without one, by the address it comes from.

    Raises:
        Refusal: 401; the message is the cause.
    """
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not token:
        address = request.client.host if request.client is not None else ""
        admitted = service.accounts.admissions.user(address) if address else None
        if admitted is None:
            raise Refusal(401)
        return admitted
    try:
        return service.accounts.identify(token)
    except TokenRefusedError as refusal:
        raise Refusal(401, str(refusal)) from None
