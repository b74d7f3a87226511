"""The names of what is mirrored: refused before anything is fetched where the service does not know them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from resources import files
from resources.datasets import named
from resources.enterprise.errors import ServiceUnavailable
from resources.errors import MirrorError
from resources.formatting import listed, moment_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resources.enterprise import EnterpriseClient
    from resources.lake import Layout

    Kind = Literal["projects", "namespaces"]

#: Unknown names that are named.
_SHOWN = 10


class UnknownNameError(MirrorError):
    """A project or namespace that the service does not have; the message suggests the nearest."""

    ends_run = True


def check(
    client: EnterpriseClient,
    layout: Layout,
    projects: Iterable[str],
    namespaces: Iterable[int] = (),
    *,
    correct: str = "WME_PROJECTS or WME_NAMESPACES",
) -> None:
    """See that the service has these projects and namespaces.

    The archived lists decide where they know all the names; else the service is asked once, since a name may be new.

    Args:
        client: Asked only where the archived lists do not know a name, or are not there.
        layout: Where the lists are archived.
        projects: Projects, for example enwiki.
        namespaces: Namespaces, for example 0.
        correct: Where the names come from, for the message.

    Raises:
        UnknownNameError: The service does not have one of them; nothing was fetched.
        EnterpriseError: The service was needed and did not answer.
    """
    kinds: dict[Kind, list[Any]] = {
        "projects": list(dict.fromkeys(projects)),
        "namespaces": list(dict.fromkeys(namespaces)),
    }
    told, note = [], ""
    for kind, names in kinds.items():
        known = _archived(layout, kind)
        if not names or (known is not None and set(names) <= known):
            continue
        try:
            listing = client.lists.reference(kind)
        except ServiceUnavailable as error:
            if known is None:
                raise type(error)(
                    f"Whether the service has the {kind} {listed(list(map(str, names)), _SHOWN)} cannot be checked: "
                    f"its list of them is not archived yet, and cannot be fetched. {error}"
                ) from error
            fetched_at = datetime.fromtimestamp(layout.list_archive(named(kind)).stat().st_mtime, UTC)
            note = f" The list of {kind} is of {moment_text(fetched_at)} UTC, and the service does not answer now."
        else:
            if listing.odd:
                continue  # a name that the list lacks may be that of a record which cannot be used
            known = {record.identifier for record in listing.records}
        if unknown := [name for name in names if name not in known]:
            told.append(f"no {kind[:-1]} {listed([_suggested(name, known) for name in unknown], _SHOWN)}")
    if told:
        raise UnknownNameError(f"The service has {' and '.join(told)}. Nothing was fetched. Correct {correct}.{note}")


def _archived(layout: Layout, kind: Kind) -> set[Any] | None:
    """Names of an archived list, without odd records; None: there is none that can be read."""
    try:
        records = json.loads(files.read(layout.list_archive(named(kind))))
        found = [record.get("identifier") for record in records if isinstance(record, dict)]
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return {name for name in found if isinstance(name, str | int)}


def _suggested(name: Any, known: set[Any]) -> str:
    if isinstance(name, int):
        return f"{name} (there are {', '.join(map(str, sorted(known)))})"
    near = get_close_matches(name, sorted(known), 1)
    return f"{name} (did you mean {near[0]}?)" if near else name
