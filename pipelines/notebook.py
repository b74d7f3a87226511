"""Access to the published file in a notebook: `from pipelines.notebook import connect`."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
from dotenv import dotenv_values

from resources import settings
from resources.settings.types import env_file
from resources.warehouse import NotPublishedError, Warehouse


def connect(data: str | Path | None = None) -> duckdb.DuckDBPyConnection:
    """Open a read-only connection to the published file, with times in UTC. It blocks nobody. Close it after use.

    The connection keeps the version that it opened, even if a newer one is published; a new call opens the newest
    version. Footers of lake files are cached in memory, so later queries for page text are faster.

    Only the published file is read-only. Queries may read and write other files, attach databases and load extensions,
    with the rights of the notebook's user. `wme sql` is restricted to the published file and the lake.

    Args:
        data: Data folder. By default `WME_DATA` of the environment or of the settings file (`.env`, or the file named
            by WME_ENV_FILE), else `data` in the folder of that file, as for `wme`. A relative path is relative to the
            working folder.

    Raises:
        NotPublishedError: The folder has no published file; the message names the folder.
        QueryError: The file is damaged, or was written by a newer DuckDB.
    """
    if data is None:
        named = {**dotenv_values(env_file()), **os.environ}.get("WME_DATA") or ""
        data = settings.read_data({"WME_DATA": named})
    warehouse = Warehouse(Path(data))
    try:
        connection = warehouse.connect_published()
    except NotPublishedError:
        raise NotPublishedError(
            f"There is no published file {warehouse.published_path.absolute()}. If the data folder is another one, "
            "name it: connect('/srv/mirror/data'), or set WME_DATA. If it is the right one, nothing has been published "
            "yet: run `wme run`."
        ) from None
    connection.execute("SET parquet_metadata_cache = true")
    return connection
