"""Repair of missing or damaged lake files: convert the archive again, then load the result again.

The rows do not change, so Dagster's history of the hour or the snapshot stays true. A damaged file is removed only
after its archive was found, and is restored if the conversion fails. A kill in between leaves a missing file, which the
next run makes again.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from assets.describe import sentence
from assets.steps import hour as batches
from assets.steps import snapshot as snapshot_sets
from assets.steps.converting import NotArchivedError, convert_archives
from resources import files
from resources.adapters import EngineResource, LakeResource, WarehouseResource
from resources.datasets import Dataset, Family, named
from resources.engine import Engine
from resources.errors import MirrorError, ends_run
from resources.files import set_aside
from resources.formatting import counted, hour_text, listed
from resources.lake import Archive, ConvertedFile, Converter, Layout, journal
from resources.remote import RemoteConverter
from resources.warehouse import FaultyFile, Part, Warehouse

_log = logging.getLogger(__name__)
#: Hours, and versions of snapshots, that one run makes again, so that a publication never waits for a month of them.
#: The next run goes on.
MOST = 48
_SHOWN = 5


@dataclass
class Repaired:
    """Outcome of a repair.

    Attributes:
        replaced: Files whose rows are loaded from good files again.
        failed: A sentence for each hour, snapshot or lookup that could not be made again.
        waiting: Hours and snapshots that are left to the next run, or for which the disk has no room now.
        load_count: Hours, snapshots and lookups that were loaded again.
    """

    replaced: list[FaultyFile] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    waiting: int = 0
    load_count: int = 0


@dataclass(frozen=True)
class Repair:
    """Repair of lake files from the archive."""

    layout: Layout
    store: Warehouse
    converter: Converter | RemoteConverter
    engine: Engine
    bodies_of: Callable[[Dataset], frozenset[str]]
    min_free_bytes: int = 0

    def run(self, faulty: Sequence[FaultyFile], most: int | None = MOST) -> Repaired:
        """Make the files again, those of the newest hours first; `most`: hours and snapshots at most (None: all).

        Raises:
            MirrorError: Everything else would fail as well: the disk is full, another process holds the warehouse.
        """
        done = Repaired()
        bad: set[Part] = set()
        units = list(_units(faulty))
        for number, parts in enumerate(units):
            is_short = shutil.disk_usage(self.layout.root).free < self.min_free_bytes
            if is_short or (most is not None and number >= most):
                done.waiting = len(units) - number
                bad.update(part for rest in units[number:] for part in rest)
                break
            own = [file for file in faulty if file.parts and set(file.parts) <= set(parts)]
            try:
                self._load(parts, [files.within(self.layout.lake, file.lake_path) for file in own])
                done.load_count += 1
            except (MirrorError, OSError) as error:
                if ends_run(error):
                    raise
                bad.update(parts)
                done.failed.append(f"{_name(parts[0])}: {sentence(error)}")
        done.replaced = [file for file in faulty if file.parts and bad.isdisjoint(file.parts)]
        for file in done.replaced:
            _log.warning("The lake file %s. It was replaced from the archive.", file)
        return done

    def _load(self, parts: Sequence[Part], damaged: Sequence[Path]) -> None:
        """Convert and load what one load is made of; `damaged`: its own files, those that are gone too."""
        dataset, first = named(parts[0].table_name), parts[0]
        if dataset.family is Family.SNAPSHOT:
            assert first.snapshot_id is not None
            archived = snapshot_sets.archived_snapshot(first.snapshot_id, self.layout, dataset, first.snapshot_version)
            made = self._converted(archived.identifier, archived.archives, dataset, damaged)
            snapshot_sets.load_snapshot(archived, made, self.store, reload=True)
        elif dataset.family is Family.HOURLY:
            assert first.batch_hour is not None
            places = sorted({(part.project_id, part.namespace_id) for part in parts})
            hour = batches.archived_hour(first.batch_hour, self.layout, places, dataset)
            if hour.absent:
                raise NotArchivedError(
                    "The archived listing of the hour does not name "
                    f"{', '.join(f'{name} {number}' for name, number in hour.absent)}, so there is nothing to convert. "
                    "Nothing was changed. Restore the file from a backup."
                )
            made = self._converted(hour_text(first.batch_hour), hour.archives, dataset, damaged)
            batches.load_hour(hour, made, self.store, reload=True)
        else:
            self._load_lookups(
                dataset, {(part.project_id, part.namespace_id, part.source_at) for part in parts}, damaged
            )

    def _load_lookups(self, dataset: Dataset, wanted: set[tuple[str, int, datetime]], damaged: Sequence[Path]) -> None:
        archives = [
            one for one in journal.archives(self.layout) if (one.project_id, one.namespace_id, one.source_at) in wanted
        ]
        if len(archives) < len(wanted):
            raise NotArchivedError(
                "The archive of the answers is gone, so there is nothing to convert. Nothing was changed. Restore the "
                "file from a backup."
            )
        made = self._converted("the lookups", archives, dataset, damaged)
        self.store.load_lookups(made, reload=True)

    def _converted(
        self, name: str, archives: Sequence[Archive], dataset: Dataset, damaged: Sequence[Path]
    ) -> list[ConvertedFile]:
        how: dict[str, Any] = {"bodies": self.bodies_of(dataset), "converter": self.converter, "engine": self.engine}
        aside = [(path, set_aside(path)) for path in damaged if os.path.lexists(path)]
        try:
            made = convert_archives(name, archives, self.layout, **how)
        except BaseException:
            for path, kept in aside:
                if not path.exists():
                    kept.replace(path)
            raise
        # what a killed repair left, too; of a folder, somebody may want what is in it
        for kept in [kept for path in damaged for kept in path.parent.glob(f"{path.name}.damaged*")]:
            if not kept.is_dir():
                kept.unlink()
        return made


def _units(faulty: Sequence[FaultyFile]) -> Iterator[list[Part]]:
    """The parts to load together, an hour's or one other: newest first."""

    def unit(part: Part) -> tuple[str, ...]:
        if part.batch_hour is not None:
            return (part.batch_hour.isoformat(), part.table_name)
        return ("", part.table_name, part.project_id, str(part.namespace_id), part.source_at.isoformat())

    parts = sorted({part for file in faulty for part in file.parts}, key=unit, reverse=True)
    for _, together in groupby(parts, unit):
        yield list(together)


def _name(part: Part) -> str:
    if part.snapshot_id is not None:
        return f"{part.table_name} {part.snapshot_id}"
    moment = part.batch_hour or part.source_at
    return f"{part.table_name} {hour_text(moment)} UTC"


def repaired(
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
    say: Callable[[str], None],
    most: int | None = MOST,
) -> Repaired:
    """Make missing or damaged lake files of the build file's ledger again (`Repair.run`).

    Files without an archive cannot be made again.
    """
    store = warehouse.warehouse
    faulty = store.faulty_lake_files()
    with engine.converter(lake) as converter:
        floor = int(lake.settings.min_free_gb * 1e9)
        return Repair(lake.layout, store, converter, engine.engine(say), lake.bodies_of, floor).run(faulty, most)


def format_repaired(done: Repaired) -> str:
    some = []
    if done.replaced:
        some.append(f"Made again from the archive: {listed([file.lake_path for file in done.replaced], _SHOWN)}.")
    if done.waiting:
        some.append(
            f"{counted(done.waiting, 'hour')} or versions of snapshots wait for the next run, or for room on the disk."
        )
    if done.failed:
        some.append(f"{counted(len(done.failed), 'load')} cannot be made again: {' '.join(done.failed[:_SHOWN])}")
    return " ".join(some)
