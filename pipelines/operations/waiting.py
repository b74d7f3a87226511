"""`wme run --wait`: how long to wait for a host that cannot be reached, and in which steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from resources.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.operations.run import RunReport

#: Between two attempts; the wait is doubled each time. A short outage ends soon, a long one costs a request a minute.
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
#: The service keeps an hour for two days.
DEFAULT_MINUTES, MOST_MINUTES = 60, 48 * 60


def outlast(
    attempt: Callable[[], RunReport], answers: Callable[[], bool], minutes: float, say: Callable[[str], None]
) -> RunReport:
    """Run again and again until no host is out of reach, and return the report of the last run.

    Args:
        attempt: A run. What an earlier one has done costs it nothing.
        answers: Whether the service can be reached now; one attempt.
        minutes: Longest wait, in all.
        say: Hears one line when a wait begins, and one when it is over.
    """
    left, pause = minutes * 60, FIRST_SECONDS
    while (report := attempt()).unreachable and left > 0:
        say("\n".join(report.failures))
        say(f"Waiting up to {counted(round(left / 60), 'minute')} for it. Ctrl-C stops waiting.")
        found = False
        while not found and left > 0:
            began = time.monotonic()
            time.sleep(min(pause, left))
            found = answers()
            left -= time.monotonic() - began
            pause = min(2 * pause, LONGEST_SECONDS)
        if not found:
            report.failures.append(f"After {counted(round(minutes), 'minute')} of waiting it still cannot be reached.")
            break
        say("It can be reached again; the run continues.")
    return report
