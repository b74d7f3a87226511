"""The files of provisional rows beside the published file.

Each publication has a folder of its own, whose name its views know, so that its rows are never put over those of another one. In it the
file with the greatest number counts: a new one takes the place of the last for whoever asks from then on.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from resources import files
from resources.damage import UNREADABLE, is_damage, read_footer, set_aside
from resources.datasets.live import LIVE_CHANGES, files_of
from resources.warehouse.database.connect import answer
from resources.warehouse.errors import LakeFileError, NotPublishedError
from resources.warehouse.live.provisional import first_hour, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    import duckdb

    from resources.warehouse.database.connect import Connector
    from resources.warehouse.live.provisional import Provisional

_log = logging.getLogger(__name__)

#: Row of `about` with the folder of a publication, relative to the data folder.
FOLDER = "live_folder"
#: A question that has begun may still open the file that was the newest then; a reader may keep a publication open for long.
_KEEP_FILE_SECONDS, _KEEP_FOLDER_SECONDS = 600.0, 86_400.0


class Shown(NamedTuple):
    """The folder of provisional rows of a publication, and its revision."""

    folder: Path
    revision: int


@dataclass(frozen=True)
class Beside:
    """The provisional rows beside one published file."""

    connector: Connector
    data: Path

    def is_used(self, now: datetime) -> bool:
        """Whether a stream brought anything of which the service may have no file yet."""
        return bool(files_of(self.data / "lake" / LIVE_CHANGES, first_hour(now)))

    def set_damaged_aside(self) -> None:
        """Rename the files of the stream that cannot be read, since the views find its files by a pattern."""
        for path in sorted((self.data / "lake" / LIVE_CHANGES).glob("*/*/*.parquet")):
            try:
                read_footer(path)
            except UNREADABLE as error:
                if is_damage(error):
                    aside = set_aside(path)
                    _log.warning(
                        "The file %s of the stream cannot be read (%s), and has the name %s now. Its events are missing until the stream or the "
                        "files of their hours bring them again.",
                        *(path, error, aside.name),
                    )

    def begin(self, connection: duckdb.DuckDBPyConnection, revision: int, now: datetime) -> str:
        """Make the folder of a publication that is being made, with its first file; returns its path, relative to the data folder.

        Where the build file has gone on meanwhile there is no row in it until the next one.
        """
        folder = f"warehouse/live/{revision}-{secrets.token_hex(4)}"
        with contextlib.suppress(NotPublishedError):
            self._clean(None if (shown := self.shown()) is None else shown.folder)
        (self.data / folder).mkdir(parents=True)
        try:
            self._write(connection, self.data / folder, revision, now, at_least_empty=True)
        except LakeFileError as error:
            _log.warning("%s", error)
            self._write(connection, self.data / folder, 0, now, at_least_empty=True)
        # the published file will not do without it, after a loss of power either
        for made in (self.data / folder, *(self.data / folder).parents[:2]):
            files.sync(made)
        return folder

    def is_whole(self) -> bool:
        """Whether the published file finds the files that its views name for the stream, if they name any."""
        with self.connector.published() as connection:
            about = dict(answer(connection, "SELECT name, value FROM about WHERE name = ?", [FOLDER]))
        streamed = files_of(self.data / "lake" / LIVE_CHANGES)
        folder = folder_of(self.data, about)
        return FOLDER not in about or bool(streamed and folder is not None and any(folder.glob("*.parquet")))

    def shown(self) -> Shown | None:
        """The folder that the published file looks into; None: it was published before there were events of a stream.

        Raises:
            NotPublishedError: Nothing was published so far.
        """
        with self.connector.published() as connection:
            about = dict(answer(connection, "SELECT name, value FROM about WHERE name IN ('revision', ?)", [FOLDER]))
        folder = folder_of(self.data, about)
        return None if folder is None else Shown(folder, int(about["revision"]))

    def add(self, shown: Shown, now: datetime) -> Provisional | None:
        """Write what the stream has by now beside the published file; None: hours were loaded since, which are to be published first.

        Raises:
            WarehouseBusyError: The build file was in use for too long.
        """
        with self.connector.build("write what the stream has") as connection:
            written = self._write(connection, shown.folder, shown.revision, now)
        self._clean(shown.folder)
        return written

    def _write(
        self,
        connection: duckdb.DuckDBPyConnection,
        folder: Path,
        revision: int,
        now: datetime,
        *,
        at_least_empty: bool = False,
    ) -> Provisional | None:
        newest = max((int(path.stem) for path in folder.glob("*.parquet")), default=0)
        path = folder / f"{newest + 1:012d}.parquet"
        [(found,)] = connection.execute("SELECT revision FROM internal.meta").fetchall()
        if found == revision or at_least_empty:
            return write(connection, self.data / "lake", path, now, is_empty=found != revision)
        return None

    def _clean(self, shown: Path | None) -> None:
        """Remove what nobody can be reading any more, and what was left by a kill; `shown` is read."""
        if shown is not None:
            newest = max(shown.glob("*.parquet"), default=None)
            for path in shown.iterdir():
                if path != newest and _age(path) > _KEEP_FILE_SECONDS:
                    path.unlink(missing_ok=True)
        for folder in (self.data / "warehouse" / "live").glob("*"):
            if folder != shown and _age(folder) > _KEEP_FOLDER_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def folder_of(data: Path, about: Mapping[str, str]) -> Path | None:
    """The folder that a published file names, or None where it names none below `warehouse/live`: files are written and removed there."""
    live = data / "warehouse" / "live"
    name = about.get(FOLDER, "").removeprefix("warehouse/live/")
    if "/" in name or not files.is_name(name) or (live / name).is_symlink() or not (live / name).is_dir():
        return None
    return live / name


def _age(path: Path) -> float:
    """Seconds since something was written there."""
    return time.time() - path.stat().st_mtime
