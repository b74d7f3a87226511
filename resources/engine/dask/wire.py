"""The interface of a run and its workers: address, versions, calls and their answers."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import distributed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The key of a worker's versions in what it tells the scheduler.
VERSIONS = "wme_versions"


@dataclass(frozen=True)
class Call:
    """One task: plain arguments, a key that is the same for the same work, and what people call it.

    Of those that are `alone`, a worker process is given one at a time, because each takes the memory of one.
    """

    key: str
    label: str
    arguments: tuple[Any, ...]
    alone: bool = False


@dataclass(frozen=True)
class Probe:
    """A file in the shared folder that only those find who see the same folder."""

    name: str
    secret: str


@dataclass(frozen=True)
class Answer:
    """The result of a call, or the error that it raised."""

    value: Any = None
    error: Exception | None = None


def own_versions() -> dict[str, str]:
    """Return the versions of the local software that both sides must share."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": str(vars(distributed)["__version__"]),
    }


def resource_of(versions: Mapping[str, str], *, alone: bool = False) -> str:
    text = "\n".join(f"{name} {value}" for name, value in sorted(versions.items()))
    return f"wme-{hashlib.sha256(text.encode()).hexdigest()[:12]}{'-alone' if alone else ''}"


def url(address: str) -> str:
    """Return Dask's own form of an address.

    Connections are encrypted if Dask's configuration names an authority (DASK_DISTRIBUTED__COMM__TLS__CA_FILE).
    """
    place = address.removeprefix("dask://")
    has_tls = dask.config.get("distributed.comm.tls.ca-file", None) or dask.config.get(
        "distributed.comm.require-encryption", None
    )
    return f"{'tls' if has_tls else 'tcp'}://{place}"


def visible(folder: Path) -> None:
    """Make a network file system refresh its view of a folder."""
    with contextlib.suppress(OSError):
        next(folder.iterdir(), None)


def short(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0][:300]


def quiet() -> None:
    """Dask's own messages are its own; ours are sentences."""
    for name in ("distributed", *(one for one in logging.root.manager.loggerDict if one.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)
