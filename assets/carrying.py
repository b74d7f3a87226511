"""When a layer follows the one before it: as soon as that has changed by itself, without this one in the same run.

The pipeline's own runs bring an hour through all layers, so nothing follows them. What follows is what somebody materialized by hand, for
example the archive of some hours: their lake, then their tables. Only the automation sensors look at this, and they are off until somebody turns
them on. What comes behind the tables, the current states and the published file, is brought up to date by the sensor `publish_pending`.
"""

from typing import Final

import dagster as dg

#: Each change is followed once, whatever becomes of the run: a failure is left to people. The history from before a sensor was turned on is no change.
CARRIED: Final = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("the layer before it has changed")
