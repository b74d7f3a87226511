"""Verification of all lake files, and a rebuild of lake and warehouse from the archive alone.

A rebuild keeps files that are converted and loaded already, so the same call continues a killed one, and on a complete
mirror it changes nothing. The service is not contacted. Dagster's history stays as it is: its hours are materialized,
which is true again in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assets.published import fill_coverage
from assets.steps.rebuilding import load_archived
from resources import damage, machine
from resources.adapters import build_resources
from resources.data_folder import facts_of
from resources.datasets.paths import with_bodies
from resources.engine import Engine
from resources.errors import clause
from resources.formatting import counted

if TYPE_CHECKING:
    from assets.steps.rebuilding import Only, Rebuilt
    from resources.engine.mapping import Reporter
    from resources.settings import Settings
    from resources.warehouse import Warehouse

_FILES = """
SELECT lake_path FROM loads WHERE compaction_id IS NULL
UNION SELECT lake_path FROM compacted_files
ORDER BY 1"""


def verify(warehouse: Warehouse, reporter: Reporter) -> str:
    """Read the lake files of the published file's ledger, and note the damaged ones, which then count as missing.

    Returns what was found, in a sentence. Files that are gone are for the publication to name.
    """
    lake = warehouse.data / "lake"
    named = [path for (path,) in warehouse.sql(_FILES).rows]
    paths = [
        path
        for path in dict.fromkeys(half for name in named for half in (name, with_bodies(name)))
        if (lake / path).is_file()
    ]
    engine = Engine(workers=machine.cores(), reporter=reporter)
    sizes = {path: (lake / path).stat().st_size for path in paths}

    def read(path: str) -> str | None:
        try:
            damage.verify(lake / path)
        except damage.UNREADABLE as error:
            return clause(error) if damage.is_damage(error) else None
        finally:
            advance(sizes[path])
        return None

    found = []
    with engine.task("verify the lake", sum(sizes.values()), "B") as advance:
        for path, outcome in zip(paths, engine.map(read, paths), strict=True):
            if (why := outcome.unwrap()) is not None:
                warehouse.note_damage(path, why)
                found.append(f"{path} ({why})")
    wrong = f"; damaged: {', '.join(found)}" if found else "; none is damaged"
    return f"{counted(len(paths), 'lake file')} verified{wrong}."


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
