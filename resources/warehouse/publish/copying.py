"""Copying the build file in the state that a checkpoint left, while hours go on being loaded.

The lock is held for the checkpoint, and at the end for a look at whether the file was written since; the bytes are copied in
between, without it. Why the copy is then the state of the checkpoint:

- Whoever writes the build file holds the lock. So the mark of the file (identity, size, times, DuckDB's headers), taken under the
  lock after the checkpoint, is that of a file that nobody writes.
- Every write after that changes the file's times. The kernel's clock for them stands still for some milliseconds, so the
  lock is kept until it has moved on from the last write.
- So if the mark, again under the lock, is the same at the end, no byte was written in between, also by nobody who was killed
  before it could change the headers. What was committed to a log beside the file and never came to a checkpoint is no part of this state.

If the mark differs, there is another checkpoint, and the copy is compared with the file again, which finds whatever changed: twice
without the lock, then under it.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from resources.warehouse.database.connect import locked
from resources.warehouse.publish.blocks import SourceShrankError, copy_changed, mark
from resources.warehouse.views.prepared import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb

    from resources.warehouse.database.connect import Connector
    from resources.warehouse.publish.blocks import Mark

_State = TypeVar("_State")

#: Copies made without the lock, before one is made under it.
_WITHOUT_LOCK: Final = 2
#: The kernel's clock for files moves on within this time, seconds.
_TICK: Final = 0.02


@dataclass(frozen=True)
class Copied(Generic[_State]):
    """What was read of the state that was copied, the bytes written (None: no copy was wanted), and the seconds under the lock."""

    state: _State
    written_bytes: int | None
    locked_seconds: float


def copy_build(
    connector: Connector,
    target: Path,
    take_in: Callable[[duckdb.DuckDBPyConnection], None],
    read: Callable[[duckdb.DuckDBPyConnection], _State],
    is_wanted: Callable[[_State], bool],
) -> Copied[_State]:
    """Make `target` a copy of the build file, made ready for this and after a checkpoint; only the blocks that differ are written.

    `take_in` writes what belongs into the copy as well, under the lock, before each checkpoint. `read` asks the build file under the lock, after the
    checkpoint, and gives what is returned as `state`. `is_wanted` is asked once, without the lock, before anything is copied.

    Raises:
        WarehouseBusyError: somebody else held the build file for too long.
    """
    seconds, written, before = 0.0, 0, None
    with contextlib.ExitStack() as source:
        for attempt in range(_WITHOUT_LOCK + 1):
            with locked(connector.lock_path, connector.lock_timeout, "copy the warehouse for publishing"):
                started = time.perf_counter()
                # under the lock: it ends DuckDB's own lock on the file if another thread of this process holds one
                source.close()
                if before is not None and before == _mark(connector.build_path):
                    seconds += time.perf_counter() - started
                    break
                with connector.build_unlocked("publish") as connection:
                    take_in(connection)
                    prepare(connection)
                    connection.execute("CHECKPOINT")
                    state = read(connection)
                before = _settled(connector.build_path)
                if is_last := attempt == _WITHOUT_LOCK:
                    written += copy_changed(_open(source, connector.build_path), target)
                    source.close()
                seconds += time.perf_counter() - started
            if is_last:
                break
            if attempt == 0 and not is_wanted(state):
                return Copied(state, None, seconds)
            # it became shorter: the mark says so, too
            with contextlib.suppress(SourceShrankError):
                written += copy_changed(_open(source, connector.build_path), target)
    return Copied(state, written, seconds)


def _open(opened: contextlib.ExitStack, path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _mark(path: Path) -> Mark:
    with path.open("rb") as file:
        return mark(file.fileno())


def _settled(path: Path) -> Mark:
    """The mark of a file that nobody writes, at a moment at which any further write would change its times."""
    found = _mark(path)
    since = time.time() - max(found.file[-2:]) / 1e9
    if 0 <= since < _TICK:
        time.sleep(_TICK - since)
    return found
