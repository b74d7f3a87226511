"""The outbox: a folder that takes the place of the e-mail that the service would send.

Each message, with its confirmation code or temporary password, is a JSON file of mode 0600.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from resources.sandbox.files import read_state, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from resources.sandbox.clock import Clock


@dataclass(frozen=True)
class Mail:
    """One message. `secret` is the confirmation code (`forgot-password`) or temporary password (`invitation`)."""

    path: Path
    to: str
    username: str
    purpose: str
    secret: str = field(repr=False)
    sent_at: datetime


class Outbox:
    """The messages of one state folder. Safe for threads."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """`folder` is made with the first message."""
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()

    def send(self, username: str, to: str, purpose: str, secret: str) -> None:
        """Add a message."""
        sent_at = self._clock.now().isoformat()
        content = {"to": to, "username": username, "purpose": purpose, "secret": secret, "sent_at": sent_at}
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            last = max((int(path.name[:6]) for path in self._folder.glob("*.json")), default=0)
            path = self._folder / f"{last + 1:06d}-{purpose}.json"
            write_private(path, json.dumps(content, indent=2).encode())

    def messages(self, username: str | None = None) -> list[Mail]:
        """The messages, oldest first, of one account or of all."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            content = read_state(path, "to", "username", "purpose", "secret", "sent_at")
            if username in (None, content["username"]):
                sent_at = datetime.fromisoformat(content.pop("sent_at"))
                found.append(Mail(path=path, sent_at=sent_at, **content))
        return found
