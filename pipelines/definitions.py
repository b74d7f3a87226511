"""The code location: everything Dagster is told.

Belongs here: putting the parts together, and policy that is mapped over all assets. Does not belong here: the parts.
`defs` is built from the environment once, at import; no network is touched.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import dagster as dg
from dotenv import load_dotenv

from assets import articles, checks, hourly, published, reference, snapshots
from pipelines import settings as settings_module
from pipelines.jobs import JOBS
from pipelines.schedules import SCHEDULES
from pipelines.sensors import SENSORS
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource

ASSETS = (
    reference.archive_reference,
    reference.lake_reference,
    reference.warehouse_reference,
    snapshots.snapshot_files,
    snapshots.snapshot_articles,
    hourly.hourly_changes,
    articles.articles,
    published.published_warehouse,
)


def build_resources(settings: settings_module.Settings) -> dict[str, Any]:
    """The four resources under the keys that assets ask for.

    The password is handed on by the name of its variable, so that no page or log of Dagster can show it.
    """
    data = str(settings.data.absolute())
    return {
        "enterprise": EnterpriseResource(
            data=data,
            projects=list(settings.projects),
            namespaces=list(settings.namespaces),
            auth_url=settings.auth_url,
            base_url=settings.base_url,
            realtime_url=settings.realtime_url,
            username=settings.username,
            password=dg.EnvVar("WME_PASSWORD") if settings.password is not None else None,
            contact=settings.contact,
            anonymous=settings.anonymous,
            use_sandbox=settings.sandbox,
        ),
        "lake": LakeResource(
            data=data,
            bodies=list(settings.bodies),
            min_free_gb=settings.min_free_gb,
            grace_hours=settings.grace_hours,
        ),
        "warehouse": WarehouseResource(
            data=data,
            publish_minutes=None if settings.publish_every is None else settings.publish_every / timedelta(minutes=1),
            storage_version=settings.storage_version,
        ),
        "engine": EngineResource(),
    }


def build_enterprise(settings: settings_module.Settings) -> EnterpriseResource:
    """The service's resource outside Dagster, its password read from the environment."""
    resource: EnterpriseResource = build_resources(settings)["enterprise"].process_config_and_initialize()
    return resource


def build_defs(settings: settings_module.Settings | None = None, **overrides: Any) -> dg.Definitions:
    """Fresh definitions.

    Args:
        settings: Settings; default: those of the environment.
        overrides: Resources by key (`enterprise`, `lake`, `warehouse`, `engine`) in place of the settings' own, and
            `loggers` for Dagster's own.

    Raises:
        SettingsError: The environment holds a value that cannot be used.
    """
    chosen = settings if settings is not None else settings_module.read()
    loggers = overrides.pop("loggers", None)
    return dg.Definitions(
        assets=ASSETS,
        asset_checks=checks.STANDING,
        jobs=JOBS,
        schedules=SCHEDULES,
        sensors=SENSORS,
        resources=build_resources(chosen) | overrides,
        # parallel work runs inside the assets; a process per step would cost seconds and log in again
        executor=dg.in_process_executor,
        loggers=loggers,
    )


load_dotenv()
defs = build_defs()
