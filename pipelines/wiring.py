"""The resources as the settings want them. Commands that only talk to the service use `Settings.access`, without Dagster."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg
from pydantic import Field

from resources.access import Access
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource

if TYPE_CHECKING:
    from pipelines.settings import Settings

_Resource = TypeVar("_Resource", bound=dg.ConfigurableResource[Any])


def build_resources(settings: Settings) -> dict[str, Any]:
    """The four resources under the keys that assets ask for.

    The password is handed on by the name of its variable, so that no page or log of Dagster can show it.
    """
    data = str(settings.data)
    return {
        "enterprise": _preset(
            EnterpriseResource,
            settings.access.sentence,
            **_enterprise(settings) | {"password": None if settings.password is None else dg.EnvVar("WME_PASSWORD")},
        ),
        "lake": _preset(
            LakeResource,
            data=data,
            bodies=list(settings.bodies),
            max_record_mb=settings.max_record_mb,
            min_free_gb=settings.min_free_gb,
            grace_hours=settings.grace_hours,
        ),
        "warehouse": _preset(
            WarehouseResource,
            data=data,
            publish_minutes=None if settings.publish_every is None else settings.publish_every / timedelta(minutes=1),
            storage_version=settings.storage_version,
            hot_days=settings.hot_days,
        ),
        "engine": _preset(EngineResource, **engine_fields(settings)),
    }


def engine_fields(settings: Settings) -> dict[str, Any]:
    """What the settings say of the engine, for its resource and those that report elsewhere."""
    return {"address": settings.engine, "memory_mb": settings.memory_mb}


def build_enterprise(settings: Settings) -> EnterpriseResource:
    """The service's resource outside Dagster, with the password itself.

    Dagster would make an instance to look one variable up, which takes half a second.
    """
    return EnterpriseResource(**_enterprise(settings))


def _enterprise(settings: Settings) -> dict[str, Any]:
    access = settings.access
    reached = {one.name: getattr(access, one.name) for one in fields(Access)}
    if access.use_sandbox:
        found = access.found_sandbox()
        url, realtime_url = (None, None) if found is None else (found.url, found.realtime_url)
        reached |= {"auth_url": url, "base_url": url, "realtime_url": realtime_url}
    return reached | {
        "projects": list(settings.projects),
        "namespaces": list(settings.namespaces),
        "wikidata": settings.wikidata,
        "watchlist": None if settings.watchlist is None else str(settings.watchlist),
        "lookups_per_day": settings.lookups_per_day,
        "check_pages": settings.check_pages,
    }


def _preset(kind: type[_Resource], text: str | None = None, **values: Any) -> _Resource:
    """A resource of a class of its own, which has these values as defaults.

    Dagster fills what a run does not set with the defaults of the class: of a run that sets one field in the launchpad, the others
    would not be the settings'. The class's text, `text` or its own, is on the resource's page and in the launchpad.
    """
    given = {name: value for name, value in values.items() if name != "password"}
    declared = {name: kind.model_fields[name] for name in given}
    body: dict[str, Any] = {
        name: Field(default=given[name], description=field.description, json_schema_extra=field.json_schema_extra)
        for name, field in declared.items()
    }
    body["__annotations__"] = {name: field.annotation for name, field in declared.items()}
    body |= {"__doc__": text or kind.__doc__, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), body)(**values)  # type: ignore[no-any-return]
