"""A host is out of reach: whichever it is and whenever, the run says so once and loads what is archived."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def relay(mirror: Any) -> Iterator[Relay]:
    relay = Relay(mirror.sandbox.url)
    mirror.configure(base_url=relay.url)
    yield relay
    relay.close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def lose(host: str, mirror: Any, relay: Relay, last: Any, closed_port: int) -> None:
    if host == "the service":
        relay.is_last = lambda path: path == f"/v2/batches/{last:%Y-%m-%d}/{last:%H}"
    elif host == "accounts":
        mirror.configure(auth_url=f"http://127.0.0.1:{closed_port}", username=f"{mirror.username}-2")
    else:
        port = mirror.sandbox.object_url.rpartition(":")[2].encode()
        relay.replaced = b":" + port, b":" + str(closed_port).encode().zfill(len(port))


@pytest.mark.parametrize("host", ["the service", "accounts", "the object store"])
def test_the_run_says_so_once_and_loads_what_is_archived(
    mirror: Any, relay: Relay, host: str, closed_port: int
) -> None:
    mirror.configure(projects=("enwiki",))
    hours = mirror.newest(3)
    # an hour that is archived and not loaded, as a killed run leaves it
    assert mirror.materialize(hours[1:2], ["archive/batches"]).success
    lose(host, mirror, relay, hours[0], closed_port)
    listed = len(mirror.requests(""))
    made = mirror.materialize(hours)
    assert made.sentence.count("the connection was refused (") == 1
    first, *lines = made.sentence.split("\n")
    assert first == "2 of 3 hours failed. The other hour is loaded."
    assert len(lines) == 1
    assert lines[0].startswith(f"- 2 hours from {hours[0]:%Y-%m-%d %H:00} to {hours[2]:%Y-%m-%d %H:00}: Could not ")
    assert made.allow_retries
    assert mirror.loaded() == mirror.truth(hours[1:2])
    # of the object store's loss only the lists of the hours came before; none of them is asked for again
    assert len(mirror.requests("")) - listed <= 3 + 3
    mirror.configure(auth_url=mirror.sandbox.url, username=mirror.username)
    relay.replaced = b"", b""
    if host == "the service":
        relay.mend()
    assert mirror.materialize(hours).success
    assert mirror.loaded() == mirror.truth(hours)
