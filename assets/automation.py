"""Policies of assets that Dagster's daemon acts on: automation conditions and freshness.

The pipeline's own runs bring an hour through all layers, so nothing follows them. `FOLLOW_UPSTREAM` is for assets that
somebody
materialized by hand, for example the archive of some hours: their lake and then their tables follow. Only the
automation
sensors evaluate it, and they are off until somebody turns them on. The current states and the published file are
brought up to
date by the sensor `publish_pending`.

Freshness is of assets and not of hours: an old hour that is materialized again makes its assets fresh as well. The
check
`last_48_hours_covered` reports each missing hour; freshness reports that the pipeline does not run at all.
"""

from datetime import timedelta
from typing import Final

import dagster as dg

from resources.datasets import LATE, RETENTION, Family

#: Each change triggers one run; failures trigger none. The history from before a sensor was turned on is no change.
FOLLOW_UPSTREAM: Final = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("the layer before it has changed")
#: For assets that each hour changes. It fails long before the service forgets an hour.
HOURLY: Final = dg.FreshnessPolicy.time_window(warn_window=LATE, fail_window=RETENTION / 4)
#: For assets that change rarely and are fetched once a day.
DAILY: Final = dg.FreshnessPolicy.time_window(warn_window=timedelta(days=1.5), fail_window=timedelta(days=3))
#: By family. Snapshots and lookups are fetched when there is reason to, so nothing is late there.
OF_FAMILY: Final = {Family.HOURLY: HOURLY, Family.LIST: DAILY}
