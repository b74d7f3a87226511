"""The clock of this machine beside the service's.

Source: every answer of the service carries a `Date`, one from a cache also its `Age`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from resources.enterprise.http.answers import moment_in, number_in
from resources.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

_log = logging.getLogger(__name__)

#: A smaller difference is none: answers take time, and so do clocks.
TOLERANCE: Final = timedelta(minutes=5)
#: Older answers of a cache say nothing about the present.
_OLDEST: Final = 86_400


class ServiceClock:
    """The local clock, compared with the `Date` of every answer. Safe for several threads.

    Args:
        local: Gives the moment, aware, by the clock of this machine.
    """

    _told: Final[set[str]] = set()  # by this process: each command has several clients

    def __init__(self, local: Callable[[], datetime]) -> None:
        self.local = local
        self.ahead = timedelta(0)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Compare with an answer that has just come; a difference of minutes is a warning, once."""
        moment = moment_in(headers, "Date")
        age = number_in(headers, "Age") or 0
        if moment is None or age > _OLDEST:
            return
        ahead = self.local() - moment - timedelta(seconds=age)
        self.ahead = ahead if abs(ahead) >= TOLERANCE else timedelta(0)
        if self.is_wrong and (problem := self.problem) not in self._told:
            self._told.add(problem)
            _log.warning(
                "%sHours and the ends of tokens are reckoned from it: set it right (time synchronization).", self.remark
            )

    @property
    def is_wrong(self) -> bool:
        """Whether the last answer was minutes away."""
        return bool(self.ahead)

    @property
    def problem(self) -> str:
        """The difference in words, without a full stop."""
        way = "ahead of" if self.ahead > timedelta(0) else "behind"
        return f"the clock of this machine is {_spoken(abs(self.ahead))} {way} the service's"

    @property
    def remark(self) -> str:
        """The difference as a sentence to stand before others, with a blank; nothing where there is none."""
        return f"{self.problem[0].upper()}{self.problem[1:]}. " if self.is_wrong else ""

    def now(self) -> datetime:
        """The moment as the service has it, as far as it is known."""
        return self.local() - self.ahead


def _spoken(span: timedelta) -> str:
    """A span in its largest unit, about: a difference that drifts is told once."""
    span += timedelta(seconds=30)  # an answer takes time, and three days less a second are three days
    for unit, length in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        number = span // length
        if number:
            return counted(number, unit)
    return "less than a minute"
