"""Reads an archive in order over one connection, for whoever keeps its bytes elsewhere than in a file of ours.

A body that breaks off is continued where it stopped, within the same call. Nothing is kept for a later one.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from resources import files
from resources.enterprise import errors
from resources.enterprise.download.opening import WORTH, ChangedError, Opened, Opener, OversizeError, RangeIgnoredError
from resources.enterprise.download.partial_file import Segment
from resources.enterprise.http.answers import BrokenAnswer, etag_in, number_in

if TYPE_CHECKING:
    from collections.abc import Generator

    from resources.enterprise.download.opening import Ranges
    from resources.enterprise.download.signed_url import Source
    from resources.enterprise.http.transport import Transport

_log = logging.getLogger(__name__)


@dataclass
class _Passed:
    """What is known of an object whose bytes were passed on."""

    etag: str | None = None
    size: int | None = None
    segments: list[Segment] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Bytes that were passed on."""
        return sum(segment.done for segment in self.segments)


class SequentialTransfer(Opener):
    """Passes on the bytes of one archive, in order, each once."""

    kept: ClassVar = "This download cannot be continued."
    advice: ClassVar = "Discard what came of it, and run this again."

    def __init__(self, source: Source, transport: Transport, ranges: Ranges) -> None:
        self._passed = _Passed()
        super().__init__(source, self._passed, transport, ranges)

    def pieces(self) -> Generator[bytes, None, None]:
        """The bytes, in pieces of 256 KiB at most; verified when the last one is taken.

        Raises:
            IntegrityError: They are not those that the record names. The service may have replaced the archive meanwhile.
            EnterpriseError: The archive could not be fetched.
        """
        digest = files.new_md5()
        try:
            for piece in self._all():
                digest.update(piece)
                yield piece
            problem = None if digest.hexdigest() == self._source.version else "its bytes have another MD5"
        except RangeIgnoredError:
            raise errors.ServiceUnavailable(
                f"Could not {self._doing}: the connection broke after {self._passed.done:,} bytes, and the object store does not "
                f"continue a download. {self.kept} {self.advice}"
            ) from None
        except OversizeError as error:
            problem = f"it has more than {error.largest:,} bytes"
        except ChangedError:
            problem = "it was replaced while it was fetched"
        if problem is not None:
            raise errors.IntegrityError(
                f"{self._source.identifier} is not what the service's record names (version {self._source.version}): {problem}. "
                f"{self.kept} {self.advice} If it stays so, the archive is damaged at the service: tell the vendor."
            )

    def _left(self) -> str:
        return f"{self._passed.done} bytes came. {self.kept} {self.advice}"

    def _all(self) -> Generator[bytes, None, None]:
        segment, failures = Segment(0, None), 0
        while True:
            before = segment.done
            try:
                yield from self._once(segment)
            except BrokenAnswer as error:
                failures = 1 if segment.done - before >= WORTH else failures + 1
                self._pause(failures, error)
                _log.info("%s broke off at byte %d; going on.", self._source.identifier, segment.position)
            else:
                return

    def _once(self, segment: Segment) -> Generator[bytes, None, None]:
        """The bytes from the segment's next one on, until the body ends or breaks off."""
        opened = self._opened(segment if segment.done else None)
        try:
            if not self._passed.segments:
                headers = opened.response.headers
                self._passed.etag = etag_in(headers)
                self._passed.size = segment.end = number_in(headers, "Content-Length")
                self._passed.segments = [segment]
                self._fits(segment.end or 0)
            self._address.worked()
            yield from self._read(opened, segment)
        finally:
            opened.response.close()
        if segment.remaining not in {0, None}:
            raise self._broken(segment, "it ended early")

    def _read(self, opened: Opened, segment: Segment) -> Generator[bytes, None, None]:
        timely = segment.done
        while segment.remaining != 0 and (piece := self._piece(opened.response, segment)):
            self._fits(segment.position + len(piece))
            segment.done += len(piece)
            if segment.done - timely >= self._limits.slow_bytes:
                opened.deadline.restart()
                timely = segment.done
            began = time.monotonic()
            yield piece
            # whoever takes the bytes may need any time
            opened.deadline.extend(time.monotonic() - began)
