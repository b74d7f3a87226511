"""Making the lake and the warehouse again from the archive alone. The service is not contacted.

Files that are converted and loaded already are kept, so the same call continues a killed rebuild, and a rebuild of a
complete mirror changes nothing. Dagster's history stays as it is: its hours are materialized, which is true again
in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assets.published import fill_coverage
from assets.steps.rebuilding import load_archived
from resources.adapters import build_resources
from resources.data_folder import facts_of

if TYPE_CHECKING:
    from assets.steps.rebuilding import Only, Rebuilt
    from resources.settings import Settings


def rebuild(settings: Settings, only: Only | None = None, **overrides: Any) -> Rebuilt:
    """Convert and load everything that is archived and not loaded, and publish. One failure does not stop the rest.

    Args:
        settings: The settings. Projects that they do not name are loaded as well if they are archived.
        only: Hours and snapshots, each with its projects and namespaces; nothing else is made. Default: everything.
        overrides: Resources in place of the settings' own, for example `engine`.

    Raises:
        MirrorError: What would stop everything else as well: the disk is full, another process holds the warehouse.
    """
    resources = build_resources(settings) | overrides
    enterprise, store = resources["enterprise"], resources["warehouse"].warehouse
    if only is None:
        store.create()
    done = load_archived(resources["lake"], resources["warehouse"], resources["engine"], enterprise, only)
    fill_coverage(enterprise, store)
    if only is None:
        store.note_complete()
    store.publish(facts_of(settings.data))
    return done
