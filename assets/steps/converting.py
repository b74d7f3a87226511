"""Parallel conversion of archives to Parquet files, for hours and snapshots."""

import logging
import os
from collections.abc import Iterable, Sequence

from resources.adapters import ConfiguredLake
from resources.engine import Engine, Outcome
from resources.engine.mapping import increments
from resources.errors import MirrorError
from resources.lake import Archive, ConvertedFile, Converter, LakeError, Layout, digest_of, find_conversion
from resources.lake.conversion import targets
from resources.remote import RemoteWorkers

_log = logging.getLogger(__name__)


class NotArchivedError(MirrorError):
    """The archive does not contain the input for a conversion or a load."""


def convert_archives(
    name: str,
    archives: Sequence[Archive],
    layout: Layout,
    *,
    bodies: Iterable[str],
    converter: Converter | RemoteWorkers,
    engine: Engine,
) -> list[ConvertedFile]:
    """Convert the archives and return the Parquet files in the same order (see `attempts`).

    Raises the first error after converting all other archives, for example ArchiveError for a damaged archive.
    """
    outcomes = attempts(name, archives, layout, bodies=bodies, converter=converter, engine=engine)
    return [outcome.unwrap() for outcome in outcomes]


def attempts(
    name: str,
    archives: Sequence[Archive],
    layout: Layout,
    *,
    bodies: Iterable[str],
    converter: Converter | RemoteWorkers,
    engine: Engine,
    again: bool = False,
) -> list[Outcome[Archive, ConvertedFile]]:
    """Convert the archives and return, in the same order, a Parquet file or the error for each archive.

    Existing conversions are reused. Progress reports show `name`. With `again`, which remote workers do not support,
    existing files are verified against their checksums. Damaged files are replaced and marked as `converted`. Raises
    EngineError if the remote workers cannot be used.
    """
    kept, longest = frozenset(bodies), converter.record_bytes_max
    known = [None if again else find_conversion(archive, layout, kept, longest) for archive in archives]
    missing = [archive for archive, found in zip(archives, known, strict=True) if found is None]
    total = sum(archive.path.stat().st_size for archive in missing)
    with engine.task(f"convert {name}{' again' if again else ''}", total, "B") as advance:
        if isinstance(converter, RemoteWorkers):
            made = converter.convert_all(missing, bodies=kept, advance=advance)
        else:
            threads = converter

            def one(archive: Archive) -> ConvertedFile:
                return threads.convert(archive, layout, bodies=kept, progress=increments(advance), again=again)

            made = engine.map(one, missing, workers=threads.readers)
    rest = iter(made)
    outcomes = [
        Outcome(archive, result=found) if found is not None else next(rest)
        for archive, found in zip(archives, known, strict=True)
    ]
    for outcome in outcomes:
        if outcome.result is not None and outcome.result.converted:
            for remark in outcome.result.remarks:
                _log.warning("%s of %s: %s", outcome.result.identifier, name, remark)
    return outcomes


def known_conversions(archives: Iterable[Archive], lake: ConfiguredLake) -> list[ConvertedFile]:
    """Return the existing conversions of the archives. Raises LakeError if a file cannot be read."""
    known = []
    for archive in archives:
        settings = lake.bodies_of(archive.dataset), lake.record_bytes_max
        conversion = find_conversion(archive, lake.layout, *settings)
        if conversion is not None:
            known.append(conversion)
        elif os.path.lexists(path := targets(archive, lake.layout, digest_of(archive, *settings))[0]):
            raise LakeError(
                f"The lake file {path} or its rejects file cannot be read. Nothing was changed. Convert the archive "
                "again. If the file is loaded, the next publication converts the archive."
            )
    return known
