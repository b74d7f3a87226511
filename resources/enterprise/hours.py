"""An hour whose list or file is not there: not yet, no more, or never asked for by a clock that is right.

Belongs here: telling the three apart, by the service's clock, and saying so.
Does not belong here: requests.

Source: the service's reference for realtime batches (the list of an hour appears when its exports have ended; 48 hours).
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from resources.enterprise import errors
from resources.enterprise.http import endpoints

if TYPE_CHECKING:
    from datetime import datetime

    from resources.enterprise.http.skew import ServiceClock


def spoken(hour: datetime) -> str:
    """An hour in words."""
    return f"the hour {hour.astimezone(UTC) if hour.tzinfo else hour:%Y-%m-%d %H}:00 UTC"


def passed(hour: datetime, clock: ServiceClock) -> errors.RetentionPassed | None:
    """The error that the service no longer keeps an hour, None where it does."""
    if clock.now() - hour < endpoints.BATCH_RETENTION:
        return None
    return errors.RetentionPassed(
        f"{clock.remark}The service no longer has {spoken(hour)}: it keeps an hour for two days. What was fetched before is "
        "kept. This hour can only be loaded from an archive that has it; later hours are not touched by this.",
        status=404,
    )


def absent(hour: datetime, clock: ServiceClock) -> errors.EnterpriseError:
    """The error that an hour without a list is."""
    if clock.is_wrong and clock.now() < hour:
        return errors.ClockError(
            f"For the service {spoken(hour)} has not begun: {clock.problem}. Nothing was changed. Set the clock of this "
            "machine right (time synchronization) and run this again.",
            status=404,
        )
    return passed(hour, clock) or errors.NotPublishedYet(
        f"{clock.remark}The service has not published {spoken(hour)} yet: the list of an hour appears when all its exports "
        "have ended, some minutes after the hour. Nothing was changed. Run this again later; until two days after the hour "
        "nothing is lost.",
        status=404,
    )
