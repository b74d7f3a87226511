"""The state of an hour in each layer, as Dagster shows it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from assets.describe import lake_metadata_of, markdown, sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import dagster as dg

    from assets.steps.hour import ArchivedHour
    from resources.lake import ConvertedFile
    from resources.warehouse import HourLoad


class Layer(NamedTuple):
    """One materialized layer of one hour.

    It has its asset, its metadata, the version of the data, and True if this run changed it.
    """

    key: dg.AssetKey
    metadata: dict[str, Any]
    data_version: str
    is_new: bool


def _digest(parts: Iterable[str]) -> str:
    return hashlib.md5("\n".join(sorted(parts)).encode(), usedforsecurity=False).hexdigest()


def archive_layer(key: dg.AssetKey, archived: ArchivedHour) -> Layer:
    """The metadata of an hour in the archive."""
    files = [
        {"project": a.project_id, "namespace": a.namespace_id, "version": a.version, "size": a.path.stat().st_size}
        for a in archived.archives
    ]
    metadata: dict[str, Any] = {
        "files": len(files),
        "bytes": sum(file["size"] for file in files),
        "files_fetched": len(archived.fetched),
        "bytes_fetched": sum(landed.size_bytes for landed in archived.fetched),
        "requests": archived.request_count,
        "archives": markdown(files, ("project", "namespace", "version", "size")),
    }
    if archived.archives:
        metadata["dagster/uri"] = str(archived.archives[0].path.parent)
    if archived.absent:
        metadata["absent"] = ", ".join(f"{project} namespace {namespace}" for project, namespace in archived.absent)
    if archived.remark:
        metadata["odd_records"] = archived.remark
    version = _digest(f"{a.identifier} {a.version}" for a in archived.archives)
    return Layer(key, sized(metadata), version, is_new=bool(archived.fetched))


def hour_lake_layer(key: dg.AssetKey, archived: ArchivedHour, conversions: Sequence[ConvertedFile]) -> Layer:
    """The metadata of an hour in the lake."""
    # fetching and converting, by archive; loading is one transaction for the whole hour
    seconds = {c.identifier: round(archived.seconds.get(c.identifier, 0.0) + c.seconds, 3) for c in conversions}
    metadata = lake_metadata_of(conversions) | {"seconds_by_archive": seconds}
    drift = [
        {"archive": c.identifier, "field": d.path, "count": d.count, "example": d.example}
        for c in conversions
        for d in c.drift
    ]
    if drift:
        metadata["unknown_fields"] = markdown(drift, ("archive", "field", "count", "example"))
    return Layer(key, metadata, _digest(c.digest for c in conversions), is_new=any(c.converted for c in conversions))


def hour_warehouse_layer(key: dg.AssetKey, conversions: Sequence[ConvertedFile], load: HourLoad) -> Layer:
    """The metadata of an hour in DuckDB."""
    by_project = [
        {
            "project": c.project_id,
            "namespace": c.namespace_id,
            "rows": c.row_count,
            "update": c.update_count,
            "delete": c.delete_count,
            "rejects": c.reject_count,
        }
        for c in conversions
    ]
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": load.held_row_count,
        "duplicates": load.held_duplicate_count,
        "changed": load.changed,
        "projects": markdown(by_project, ("project", "namespace", "rows", "update", "delete", "rejects")),
    }
    if not load.held_row_count:
        metadata["empty"] = "The service lists no change of the mirrored projects in this hour."
    return Layer(key, metadata, _digest(c.digest for c in conversions), is_new=load.changed)
