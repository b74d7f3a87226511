"""Reading all lake files and comparing every data page with its checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources import damage, machine
from resources.datasets.paths import with_bodies
from resources.engine import Engine
from resources.errors import clause
from resources.formatting import counted

if TYPE_CHECKING:
    from resources.engine.mapping import Reporter
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
