"""A mirror's connection to the service or the sandbox, and validation of configured names.

Commands and Dagster's resource share this module. The module does not import Dagster, so that commands start quickly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from resources import data_folder, files, sandbox
from resources.datasets import named
from resources.enterprise import EnterpriseClient, Limits, RetryPolicy, Service
from resources.enterprise.errors import ServiceUnavailable
from resources.errors import MirrorError
from resources.formatting import listed, moment_text
from resources.settings import Settings

if TYPE_CHECKING:
    from resources.lake import Layout

    Kind = Literal["projects", "namespaces"]


class SandboxError(MirrorError):
    """The data folder's sandbox could not be started or contacted."""

    ends_run = True


def description(settings: Settings) -> str:
    """Describe the configured service and its address, without starting a process or sending a request."""
    if not settings.sandbox:
        return f"The Enterprise Content Service at {settings.base_url}."
    found = found_sandbox(settings)
    where = (
        "The sandbox is not running. The first run that needs the sandbox starts it on a free local port."
        if found is None
        else f"The sandbox's address is {found.url} until the sandbox stops. The next start uses another port."
    )
    return (
        f"The built-in sandbox (synthetic pages) in {settings.data}, instead of the service. {where} Reload the "
        "definitions to check again."
    )


def found_sandbox(settings: Settings) -> sandbox.Record | None:
    """Return the recorded state of the data folder's running sandbox, or None if no sandbox is running."""
    return sandbox.find(sandbox_settings(settings.data).state)


def service(settings: Settings, *, writes: bool = True) -> Service:
    """Return the service to use, and bind the data folder to it. If the sandbox is configured, it is started.

    If `writes` is False, the folder may be full or read-only and is not bound. Raises FolderError, OriginError or
    SandboxError.
    """
    data = settings.data
    if writes or (settings.sandbox and found_sandbox(settings) is None):
        data_folder.ready(data)
    if not settings.sandbox:
        made = settings.service()  # validate first, because a malformed address must not be stored
        data_folder.claim(data, made.base_url, writes=writes)
        return made
    own = sandbox_settings(data)
    data_folder.claim(data, f"sandbox {own.identity}", writes=writes)
    try:
        endpoint = sandbox.attach(own, owner=data_folder.ui_lock(data))
    except (sandbox.SandboxConflictError, sandbox.SandboxStartError, ValueError) as error:
        raise SandboxError(str(error)) from error
    return Service(
        auth_url=endpoint.url,
        base_url=endpoint.url,
        realtime_url=endpoint.realtime_url,
        username=endpoint.username,
        password=endpoint.password,
        contact=settings.contact,
    )


@contextmanager
def client(settings: Settings, seconds: float | None = None, *, writes: bool = True) -> Iterator[EnterpriseClient]:
    """Open a client for the service as a context manager. All processes that use this data folder share its tokens.

    `seconds` limits the duration of a response and disables retries, for callers that cannot wait. If `writes` is
    False, a valid stored token is used without writing any file. A new token is always stored.
    """
    limits = Limits(keep_free_bytes=int(settings.min_free_gb * 1e9))
    retry = RetryPolicy(requests_per_second=settings.requests_per_second)
    if seconds is not None:
        limits = replace(limits, answer_seconds=seconds)
        retry = replace(retry, retries=0, connect_timeout=seconds / 2, read_timeout=seconds)
    with EnterpriseClient(
        service(settings, writes=writes), state=settings.data / "state", retry=retry, limits=limits
    ) as made:
        yield made


def sandbox_settings(data: Path) -> sandbox.Settings:
    return sandbox.Settings(state=data / "sandbox")


#: Maximum number of unknown names listed in a message.
_SHOWN = 10


class UnknownNameError(MirrorError):
    """A project or namespace is unknown to the service. The message suggests the most similar name."""

    ends_run = True


def check_names(
    client: EnterpriseClient,
    layout: Layout,
    projects: Iterable[str],
    namespaces: Iterable[int] = (),
    *,
    correct: str = "WME_PROJECTS or WME_NAMESPACES",
) -> None:
    """Check that the service has these projects and namespaces.

    If the archived lists do not contain all names, the service is queried once, because a name may be new. In messages,
    `correct` describes the source of the names. Raises UnknownNameError, or EnterpriseError if the service had to be
    queried, but did not respond.
    """
    kinds: dict[Kind, list[Any]] = {
        "projects": list(dict.fromkeys(projects)),
        "namespaces": list(dict.fromkeys(namespaces)),
    }
    told, note = [], ""
    for kind, names in kinds.items():
        try:
            records = json.loads(files.read(layout.list_archive(named(kind))))
            found = [record.get("identifier") for record in records if isinstance(record, dict)]
            known = {name for name in found if isinstance(name, str | int)}
        except (OSError, ValueError, TypeError, RecursionError):  # not archived yet, or damaged
            known = None
        if not names or (known is not None and set(names) <= known):
            continue
        try:
            listing = client.lists.reference(kind)
        except ServiceUnavailable as error:
            if known is None:
                raise type(error)(
                    f"The {kind} {listed(list(map(str, names)), _SHOWN)} cannot be checked: the service's list is not "
                    f"archived yet and cannot be fetched. {error}"
                ) from error
            fetched_at = datetime.fromtimestamp(layout.list_archive(named(kind)).stat().st_mtime, UTC)
            note = f" The list of {kind} is from {moment_text(fetched_at)} UTC, and the service is not responding."
        else:
            if listing.odd:
                continue  # a missing name may belong to an unusable record
            known = {record.identifier for record in listing.records}
        if unknown := [name for name in names if name not in known]:
            told.append(f"no {kind[:-1]} {listed([_suggested(name, known) for name in unknown], _SHOWN)}")
    if told:
        raise UnknownNameError(f"The service has {' and '.join(told)}. Nothing was fetched. Correct {correct}.{note}")


def _suggested(name: Any, known: set[Any]) -> str:
    if isinstance(name, int):
        return f"{name} (there are {', '.join(map(str, sorted(known)))})"
    near = get_close_matches(name, sorted(known), 1)
    return f"{name} (did you mean {near[0]}?)" if near else name
