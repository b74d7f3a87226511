"""How late an asset may be until the Dagster UI says so; the daemon looks every half a minute.

Dagster looks at assets and not at hours: an old hour that is materialized again makes its assets fresh as well. Whether each of the last
48 hours is there is said by the check `last_48_hours_covered`; that the pipeline stands still, when no check runs either, is said here.
"""

from datetime import timedelta
from typing import Final

import dagster as dg

from resources.datasets import LATE, RETENTION, Family

#: What each hour changes. It fails long before the service forgets an hour.
HOURLY: Final = dg.FreshnessPolicy.time_window(warn_window=LATE, fail_window=RETENTION / 4)
#: What changes rarely, and is fetched once a day.
DAILY: Final = dg.FreshnessPolicy.time_window(warn_window=timedelta(days=1.5), fail_window=timedelta(days=3))
#: By family. Snapshots and lookups are fetched when there is reason to, so nothing is late there.
OF_FAMILY: Final = {Family.HOURLY: HOURLY, Family.LIST: DAILY}
