"""Sandbox that runs in this process and serves three ports from a separate thread."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from resources.sandbox.api import streams
from resources.sandbox.api.app import OPERATIONS, service_app
from resources.sandbox.api.control import Control
from resources.sandbox.api.middleware import Journal, misbehaving
from resources.sandbox.api.operations import API_NAME, OBJECTS_NAME, REALTIME_NAME, Operation, Service
from resources.sandbox.clock import Clock
from resources.sandbox.preparation import Preparation
from resources.sandbox.process import claimed, report
from resources.sandbox.settings import Settings
from resources.sandbox.store import objects
from resources.sandbox.store.archived_world import ArchivedWorld

#: Sockets of a port, one for each loopback address.
Loopback = tuple[socket.socket, ...]

_ADDRESSES = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
#: Maximum number of attempts to find a free port.
_TRIES = 20
_START_SECONDS = 60
#: Grace period for unfinished responses when the sandbox stops.
_GRACE_SECONDS = 1
_POLL_SECONDS = 0.002
#: Maximum bytes of a request's first line and headers. The URL of a GET can have 255 fields and filters.
_LONGEST_HEAD = 1 << 18


class Sandbox(Service):
    """Running sandbox with settings that a test can change."""

    def __init__(self, settings: Settings, world: ArchivedWorld, sockets: tuple[Loopback, Loopback, Loopback]) -> None:
        clock = Clock(settings.now, settings.speed, _started_at(settings) if settings.speed != 1 else None)
        api, downloads, realtime = (
            f"http://{name}:{bound[0].getsockname()[1]}"
            for name, bound in zip((API_NAME, OBJECTS_NAME, REALTIME_NAME), sockets, strict=True)
        )
        super().__init__(settings, world, clock, (api, downloads, realtime))
        self.operations = (*OPERATIONS, *streams.OPERATIONS)
        self.journal = Journal(clock)
        #: Requests on all ports, oldest first, with method, path and status.
        self.requests = self.journal.requests
        #: Default account.
        self.username, self.password = self.accounts.username, self.accounts.password
        control = Control(self, self.journal)

        def app(operations: tuple[Operation, ...]) -> ASGIApp:
            served = service_app(self, control, operations)
            return misbehaving(served, self.faults, "api", lambda path: path.removesuffix("/"))

        store = objects.object_store(self.areas, self.signer)
        store = misbehaving(store, self.faults, "objects", objects.api_path)
        apps = (app(OPERATIONS), store, app(streams.OPERATIONS))
        self._servers = [_server(self.journal.watch(one)) for one in apps]
        self._sockets = sockets
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="sandbox", daemon=True)

    def start(self) -> None:
        """Start serving and wait until all ports respond."""
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not all(server.started for server in self._servers):
            if time.monotonic() > deadline or not self._thread.is_alive():
                self.close()
                raise RuntimeError(f"The sandbox did not start within {_START_SECONDS} seconds. Try again.")
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Close all ports, keep-alive connections and the account database."""
        self.ending.set()
        for server in self._servers:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self.accounts.close()

    async def _serve(self) -> None:
        pairs = zip(self._servers, self._sockets, strict=True)
        await asyncio.gather(*(server.serve(sockets=list(bound)) for server, bound in pairs))


@contextmanager
def running(
    settings: Settings,
    *,
    world: ArchivedWorld | None = None,
    interrupted: Callable[[], bool] = bool,
    progress: Callable[[int, int], None] = lambda _ready, _of: None,
) -> Iterator[Sandbox]:
    """Run a sandbox in this process until the block ends. Port 0 means any free port.

    Other processes can attach to the sandbox through the state folder. `world` replaces the world from the settings.

    Separate processes first build the archives of `settings.prepare` hours and of the snapshots, until `interrupted`
    returns true. `progress` is called with the number of finished archives and the total number of archives. Other
    archives are built when they are first listed.

    Raises:
        SandboxConflictError: Another sandbox is using the state folder.
        OSError: A port is already in use.
    """
    settings.state.mkdir(parents=True, exist_ok=True)
    with claimed(settings), contextlib.ExitStack() as stack:
        world = ArchivedWorld(settings) if world is None else world
        bound = (_bind(settings.port), _bind(settings.object_port), _bind(settings.realtime_port))
        for one in (sock for several in bound for sock in several):
            stack.enter_context(one)
        sandbox = Sandbox(settings, world, bound)
        exports = {name: area.exports for name, area in sandbox.areas.items()}
        preparation = Preparation(settings, world, exports, sandbox.clock)
        try:
            if settings.prepare:
                for name, area in sandbox.areas.items():
                    area.exports.maker = partial(preparation.make_snapshots, name)
                    area.maker = preparation.make_hour

                def prepared(ready: int, of: int) -> None:
                    report(settings, ready=ready, of=of)
                    progress(ready, of)

                preparation.begin(interrupted, prepared)
            sandbox.start()
            urls = {"url": sandbox.url, "object_url": sandbox.object_url, "realtime_url": sandbox.realtime_url}
            report(settings, **urls)
            yield sandbox
        finally:
            preparation.close()
            sandbox.close()


def _started_at(settings: Settings) -> datetime:
    """Return the time when the folder's accelerated clock first started. A restart must not turn the clock back."""
    kept = settings.state / f"running-at-{settings.speed:g}"
    if not kept.exists():
        kept.write_text(datetime.now(UTC).isoformat())
    return datetime.fromisoformat(kept.read_text())


def _bind(port: int) -> Loopback:
    """Bind the port on both loopback addresses, or only on the IPv4 address if IPv6 is unavailable.

    `localhost` can resolve to either address, depending on the client.
    """
    for tries_left in reversed(range(1 if port else _TRIES)):
        first = _bound(socket.AF_INET, port)
        try:
            return first, _bound(socket.AF_INET6, first.getsockname()[1])
        except OSError:
            if not _has_ipv6():
                return (first,)
            first.close()
            # a port that is free for IPv4 might be in use for IPv6
            if not tries_left:
                raise
    raise AssertionError


def _has_ipv6() -> bool:
    try:
        _bound(socket.AF_INET6, 0).close()
    except OSError:
        return False
    return True


def _bound(family: socket.AddressFamily, port: int) -> socket.socket:
    # asyncio disables Nagle's algorithm only for an explicit protocol; otherwise, each response would take 40 ms
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((_ADDRESSES[family], port))
    except OSError as error:
        bound.close()
        where = f"Port {port} of {_ADDRESSES[family]}"
        advice = "Choose another port, or 0 for any free port."
        if error.errno == errno.EADDRINUSE:
            raise OSError(error.errno, f"{where} is already in use. {advice}") from None
        raise OSError(error.errno, f"{where} cannot be used ({error.strerror}). {advice}") from None
    return bound


def _server(app: ASGIApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        # httptools drops the body of upgrade requests, and Java's HttpClient sends such a request per connection
        http="h11",
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        lifespan="off",
        ws="none",
        log_config=None,
        # uvicorn would log each intentionally cut connection as an error
        log_level=100,
        access_log=False,
        server_header=False,
        date_header=False,  # `Journal` adds the date from the sandbox's clock
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return uvicorn.Server(config)
