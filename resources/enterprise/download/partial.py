"""Partial files of unfinished downloads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from resources import files


class Part:
    """The locked partial file of a download. `length` is the number of bytes that were appended.

    A process may be killed at any time, and the next process continues after the last byte. After a power failure, the
    file may contain wrong bytes, which the MD5 check of the complete file detects.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.length = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._is_gone = False

    @staticmethod
    def path_of(target: Path) -> Path:
        return target.with_name(target.name + ".part")

    @classmethod
    @contextlib.contextmanager
    def held(cls, target: Path, *, wait_seconds: float) -> Iterator[Part]:
        """Open or create the partial file, after waiting for another process that is using it. Raises BusyError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        path = cls.path_of(target)
        with files.held(path, wait_seconds=wait_seconds) as descriptor:
            part = cls(path, descriptor)
            try:
                yield part
            finally:
                if not part._is_gone and not part.length:
                    part.remove()

    def append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, self.length)
            view = view[written:]
            self.length += written

    def clear(self) -> None:
        """Delete all downloaded bytes."""
        os.ftruncate(self._descriptor, 0)
        self.length = 0

    def land(self, target: Path) -> None:
        """Durably rename the file to its final name."""
        files.put(self.path, target)
        self._is_gone = True

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._is_gone = True
