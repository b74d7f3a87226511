"""Which service a data folder was filled from.

Belongs here: the note a data folder keeps of its service, and the refusal of any other. Synthetic pages must never
pass for real ones, and two services must never be mixed in one warehouse.
Does not belong here: what the service answers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from resources import files
from resources.errors import MirrorError

if TYPE_CHECKING:
    from pathlib import Path


class OriginError(MirrorError):
    """The data folder belongs to another service."""

    ends_run = True


def note_path(data: Path) -> Path:
    """Where the data folder says which service it was filled from."""
    return data / "state" / "service.json"


def origin_of(data: Path) -> str | None:
    """The service that a data folder was filled from; None while it is empty."""
    try:
        return str(json.loads(note_path(data).read_text())["service"])
    except FileNotFoundError:
        return None


def claim(data: Path, service: str) -> None:
    """Bind a data folder to `service`, or see that it is bound to it already.

    Args:
        data: The data folder.
        service: Address of the real service, or `sandbox <identity>`.

    Raises:
        OriginError: The folder was filled from another service; nothing was changed.
    """
    known = origin_of(data)
    if known is None:
        files.write(note_path(data), json.dumps({"service": service}).encode() + b"\n")
    elif known != service:
        told = (
            f"The data folder {data} was filled from {known}, and now {service} is asked for. Nothing was changed. "
            "Set WME_DATA to another folder for this service, or go back to the service the folder belongs to."
        )
        # without tokens nobody was ever let in there: as a rule a slip in an address
        if not (data / "archive").exists() and not (data / "state" / "tokens.json").exists():
            told += f" Nothing was fetched so far: if {known} was a slip, remove {note_path(data)}."
        raise OriginError(told)
