"""A live publication: analysts see what is kept of the stream. Beside a stream it runs in a process of its own.

Each one takes some hundred megabytes for a second. In the process of a stream, which goes on for months, what is left of them adds up; a process that
ends gives everything back. That costs 0.3 to 0.4 seconds of processor time, once a minute, for the start of Python.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from resources.data_folder import facts_of
from resources.errors import MirrorError, clause
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parents[2]
#: Has DuckDB's allocator give freed memory back at once. Otherwise it keeps 30 MiB for a process that is about to end. It costs 5 % more processor time,
#: which is the better bargain beside a stream.
ENVIRONMENT = {"DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
#: A publication takes seconds, and 20 s with a million events; one that takes this long hangs.
_LIMIT_SECONDS = 900.0


class PublicationProcessError(MirrorError):
    """The process of a live publication ended without having done its work."""

    retryable = True


def publisher(data: Path, *, wait_seconds: float, storage_version: str | None = None) -> Callable[[], str | None]:
    """What lets analysts see the events kept so far, in a process of its own; it returns what keeps them from that, in a sentence, or None.

    Args:
        data: Data folder.
        wait_seconds: How long to wait for who writes the warehouse.
        storage_version: Of a file that has to be published anew first.
    """
    words = [str(data.resolve()), str(wait_seconds), *([] if storage_version is None else [storage_version])]

    def publish() -> str | None:
        command = [sys.executable, "-m", __name__, *words]
        try:
            # a session of its own: Ctrl-C in a terminal is meant for the stream, which still has this done at its end
            done = subprocess.run(  # noqa: S603  our own words
                command,
                cwd=_ROOT,
                env=ENVIRONMENT | os.environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LIMIT_SECONDS,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise _failed(f"did not end within {_LIMIT_SECONDS:,.0f} s and was killed") from None
        except OSError as error:
            raise _failed(f"could not be started ({clause(error)})") from error
        if done.returncode:
            raise _failed(_end(done.returncode, done.stderr))
        if told := done.stderr.strip():
            _log.warning("%s", told)
        return done.stdout or None

    return publish


def publish_live(warehouse: Warehouse) -> str | None:
    """Let analysts see the events kept so far; what keeps them from that, in a sentence, or None.

    Raises:
        MirrorError: The warehouse is busy, damaged or has no room; what analysts saw stays.
    """
    if not warehouse.published_path.exists():
        return "Analysts see events once there is a published file: `wme run` makes one."
    if warehouse.publish_live(facts_of(warehouse.data)) is None:
        return "Hours were loaded that are not published: analysts see newer events after the next publication (`wme publish`)."
    return None


def _failed(how: str) -> PublicationProcessError:
    return PublicationProcessError(
        f"The process that shows events to analysts {how}. No event was lost; analysts see the newest ones after the next attempt."
    )


def _end(code: int, said: str) -> str:
    if code < 0:
        return f"was ended by signal {-code} ({signal.strsignal(-code)})"
    last = said.strip().rpartition("\n")[2]
    return f"ended with {code} ({last})" if last else f"ended with {code}"


def _main(data: str, wait_seconds: str, storage_version: str | None = None) -> None:
    warehouse = Warehouse(Path(data), storage_version=storage_version, lock_timeout=float(wait_seconds))
    try:
        hindrance = publish_live(warehouse)
    except MirrorError as error:
        hindrance = str(error)
    sys.stdout.write(hindrance or "")


if __name__ == "__main__":
    _main(*sys.argv[1:])
