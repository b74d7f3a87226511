"""The resources as the settings want them. Commands that only talk to the service use `Settings.access`, without Dagster."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from resources.adapters import ConfiguredEngine, ConfiguredEnterprise, ConfiguredLake, ConfiguredWarehouse

if TYPE_CHECKING:
    from pipelines.settings import Settings


def build_resources(settings: Settings) -> dict[str, Any]:
    """The four resources under the keys that assets ask for, as plain objects; `build_defs` makes them Dagster's."""
    return {
        "enterprise": ConfiguredEnterprise(
            access=settings.access,
            projects=settings.projects,
            namespaces=settings.namespaces,
            wikidata=settings.wikidata,
            watchlist=settings.watchlist,
            lookups_per_day=settings.lookups_per_day,
            check_pages=settings.check_pages,
        ),
        "lake": ConfiguredLake(
            data=settings.data,
            bodies=settings.bodies,
            max_record_mb=settings.max_record_mb,
            min_free_gb=settings.min_free_gb,
            grace_hours=settings.grace_hours,
        ),
        "warehouse": ConfiguredWarehouse(
            data=settings.data,
            publish_minutes=None if settings.publish_every is None else settings.publish_every / timedelta(minutes=1),
            storage_version=settings.storage_version,
            hot_days=settings.hot_days,
        ),
        "engine": ConfiguredEngine(**engine_fields(settings)),
    }


def engine_fields(settings: Settings) -> dict[str, Any]:
    """What the settings say of the engine, for its resource and those that report elsewhere."""
    return {"address": settings.engine, "memory_mb": settings.memory_mb}
