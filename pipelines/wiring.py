"""The resources as the settings want them. Commands that only talk to the service use `Settings.access`, without Dagster."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from resources.access import Access
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource

if TYPE_CHECKING:
    from pipelines.settings import Settings


def build_resources(settings: Settings) -> dict[str, Any]:
    """The four resources under the keys that assets ask for.

    The password is handed on by the name of its variable, so that no page or log of Dagster can show it.
    """
    data = str(settings.data)
    return {
        "enterprise": _enterprise(
            settings,
            dg.EnvVar("WME_PASSWORD") if settings.password is not None else None,
            _described(settings.access),
        ),
        "lake": LakeResource(
            data=data,
            bodies=list(settings.bodies),
            max_record_mb=settings.max_record_mb,
            min_free_gb=settings.min_free_gb,
            grace_hours=settings.grace_hours,
        ),
        "warehouse": WarehouseResource(
            data=data,
            publish_minutes=None if settings.publish_every is None else settings.publish_every / timedelta(minutes=1),
            storage_version=settings.storage_version,
            hot_days=settings.hot_days,
        ),
        "engine": EngineResource(**engine_fields(settings)),
    }


def engine_fields(settings: Settings) -> dict[str, Any]:
    """What the settings say of the engine, for its resource and those that report elsewhere."""
    return {"address": settings.engine, "memory_mb": settings.memory_mb}


def build_enterprise(settings: Settings) -> EnterpriseResource:
    """The service's resource outside Dagster, with the password itself.

    Dagster would make an instance to look one variable up, which takes half a second.
    """
    return _enterprise(settings, settings.access.password, EnterpriseResource)


def _enterprise(settings: Settings, password: str | None, kind: type[EnterpriseResource]) -> EnterpriseResource:
    access = settings.access
    reached = {one.name: getattr(access, one.name) for one in fields(Access)} | {"password": password}
    if access.use_sandbox:
        found = access.found_sandbox()
        url, realtime_url = (None, None) if found is None else (found.url, found.realtime_url)
        reached |= {"auth_url": url, "base_url": url, "realtime_url": realtime_url}
    return kind(
        **reached,
        projects=list(settings.projects),
        namespaces=list(settings.namespaces),
        wikidata=settings.wikidata,
        watchlist=None if settings.watchlist is None else str(settings.watchlist),
        lookups_per_day=settings.lookups_per_day,
        check_pages=settings.check_pages,
    )


def _described(access: Access) -> type[EnterpriseResource]:
    """The class with a text of its own: Dagster shows it on the resource's page and in the launchpad."""
    names = {"__doc__": access.sentence, "__module__": EnterpriseResource.__module__}
    return type(EnterpriseResource.__name__, (EnterpriseResource,), names)
