"""What has come and was not taken yet: bounded, so that a slow disk slows the service down instead of filling the memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """Whole records of some parts, one a line, in the order in which they came over one connection."""

    parts: tuple[int, ...]
    lines: bytes


class Inbox:
    """Records of all connections. They are let in while fewer than `room` bytes wait.

    Attributes:
        long: Held by the connection that puts a long record together. There is one at a time: all connections together hold one such record and what
            waits here, and not one each.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.long = threading.Lock()
        self._waiting: dict[tuple[int, ...], list[bytes]] = {}
        self._size = 0
        self._changed = threading.Condition()
        self._is_open = True
        self._failure: Exception | None = None

    def put(self, parts: tuple[int, ...], lines: bytes) -> bool:
        """Add records when there is room for them; False: nobody will take them any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < self._room or not self._is_open)
            if self._is_open:
                self._waiting.setdefault(parts, []).append(lines)
                if not self._size:
                    self._changed.notify_all()
                self._size += len(lines)
            return self._is_open

    def take(self, seconds: float) -> list[Block]:
        """Everything that has come; waits so long for it at the most.

        Raises:
            Exception: What ended the stream, once all that came before it was taken.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._size or self._failure or not self._is_open, seconds)
            found = [
                Block(parts, lines[0] if len(lines) == 1 else b"".join(lines)) for parts, lines in self._waiting.items()
            ]
            self._waiting, self._size = {}, 0
            self._changed.notify_all()
            if not found and self._failure is not None:
                raise self._failure
            return found

    def fail(self, failure: Exception) -> None:
        """End the stream; the first failure counts."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more in."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
