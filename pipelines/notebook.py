"""Access to the published file from a notebook with `from pipelines.notebook import connect`."""

import os
from pathlib import Path

import duckdb
from dotenv import dotenv_values

from resources import settings
from resources.settings.types import env_file
from resources.warehouse import NotPublishedError, Warehouse


def connect(data: str | Path | None = None) -> duckdb.DuckDBPyConnection:
    """Open a read-only connection to the published file, with times in UTC. Close the connection after use.

    The connection does not block other processes, and continues to read the same version of the file even if a newer
    version is published. Lake file footers are cached in memory, so later queries for page text are faster.

    Only the published file is read-only. Queries can read and write other files, attach databases and load extensions
    with the permissions of the notebook's user. In contrast, `wme sql` can access only the published file and the lake.

    Args:
        data: Data folder. The default is `WME_DATA` from the environment or from the settings file, which is `.env` or
            the file in WME_ENV_FILE. Without `WME_DATA`, the default is `data` in the settings file's folder, as for
            `wme`. A relative `data` path is resolved against the working folder.

    Raises:
        NotPublishedError: The data folder has no published file.
        QueryError: The file is damaged, or was written by a newer version of DuckDB.
    """
    if data is None:
        named = {**dotenv_values(env_file()), **os.environ}.get("WME_DATA") or ""
        data = settings.read_data({"WME_DATA": named})
    warehouse = Warehouse(Path(data))
    try:
        connection = warehouse.connect_published()
    except NotPublishedError:
        raise NotPublishedError(
            f"There is no published file {warehouse.published_path.absolute()}. If this is not the data folder, "
            "specify the folder, for example connect('/srv/mirror/data'), or set WME_DATA. If nothing has been "
            "published yet, run `wme run`."
        ) from None
    connection.execute("SET parquet_metadata_cache = true")
    return connection
