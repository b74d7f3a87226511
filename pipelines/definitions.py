"""The code location: everything that Dagster loads.

`defs` is built from the environment once, at import. The data folder is read for its oldest hour; no network is touched.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checks, compacted, current, partitions, published
from assets.families import hourly, lists, lookups, snapshots, streams
from pipelines import settings as settings_module
from pipelines.automation.jobs import build_jobs
from pipelines.automation.schedules import SCHEDULES
from pipelines.automation.sensors import build_sensors
from pipelines.process import history
from pipelines.process.processes import executor
from resources import datasets
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Family
from resources.lake import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.datasets import Dataset


def build_assets(hours: dg.HourlyPartitionsDefinition) -> tuple[dg.AssetsDefinition, ...]:
    """The assets of every declared dataset, then what is made of all of them."""
    return _assets(hours, *(datasets.datasets(family) for family in (Family.LIST, Family.SNAPSHOT, Family.HOURLY)))


@functools.lru_cache(maxsize=4)
def _assets(
    hours: dg.HourlyPartitionsDefinition,
    of_lists: tuple[Dataset, ...],
    of_snapshots: tuple[Dataset, ...],
    of_hours: tuple[Dataset, ...],
) -> tuple[dg.AssetsDefinition, ...]:
    # no setting is in them but the first hour: a command that builds definitions of its own mostly finds these made
    return (
        *lists.list_assets(of_lists),
        *(asset for one in of_snapshots for asset in snapshots.snapshot_assets(one)),
        *(hourly.hourly_assets(one, hours) for one in of_hours),
        lookups.lookups,
        streams.live_changes,
        *(current.current_state(one) for one in current.STATES),
        compacted.compacted,
        published.published_warehouse(),
    )


def build_resources(settings: settings_module.Settings) -> dict[str, Any]:
    """The four resources under the keys that assets ask for.

    The password is handed on by the name of its variable, so that no page or log of Dagster can show it.
    """
    data = str(settings.data)
    return {
        "enterprise": _enterprise(settings, dg.EnvVar("WME_PASSWORD") if settings.password is not None else None),
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


def engine_fields(settings: settings_module.Settings) -> dict[str, Any]:
    """What the settings say of the engine, for its resource and those that report elsewhere."""
    return {"address": settings.engine, "memory_mb": settings.memory_mb}


def build_enterprise(settings: settings_module.Settings) -> EnterpriseResource:
    """The service's resource outside Dagster, with the password itself.

    Dagster would make an instance to look one variable up, which takes half a second.
    """
    return _enterprise(settings, settings.password.get_secret_value() if settings.password is not None else None)


def _enterprise(settings: settings_module.Settings, password: str | None) -> EnterpriseResource:
    return EnterpriseResource(
        data=str(settings.data),
        projects=list(settings.projects),
        namespaces=list(settings.namespaces),
        wikidata=settings.wikidata,
        auth_url=settings.auth_url,
        base_url=settings.base_url,
        realtime_url=settings.realtime_url,
        username=settings.username,
        password=password,
        contact=settings.contact,
        anonymous=settings.anonymous,
        min_free_gb=settings.min_free_gb,
        requests_per_second=settings.requests_per_second,
        watchlist=None if settings.watchlist is None else str(settings.watchlist),
        lookups_per_day=settings.lookups_per_day,
        check_pages=settings.check_pages,
        use_sandbox=settings.sandbox,
    )


def first_hour(settings: settings_module.Settings, *asked: datetime) -> datetime:
    """The first hour that is a partition.

    WME_FIRST_HOUR, by default the oldest hour that the service still has. Earlier where the archive,
    the lake or what is `asked` for begins earlier, so that nothing that was made is out of sight.
    """
    kept = partitions.recent_hours(datetime.now(UTC))[0]
    layout = Layout(settings.data)
    made = [
        partitions.oldest_hour(folder)
        for one in datasets.datasets(Family.HOURLY)
        for folder in (layout.archive / one.archive, layout.lake / one.name)
    ]
    first = min([settings.first_hour or kept, *asked, *(hour for hour in made if hour is not None)])
    return max(first, min(settings.first_hour or partitions.EARLIEST, partitions.EARLIEST))


def build_defs(
    settings: settings_module.Settings | None = None, *, asked: Sequence[datetime] = (), **overrides: Any
) -> dg.Definitions:
    """Fresh definitions.

    Args:
        settings: Settings; default: those of the environment.
        asked: Hours that are partitions in any case.
        overrides: Resources by key (`enterprise`, `lake`, `warehouse`, `engine`) in place of the settings' own, and
            `loggers` for Dagster's own.

    Raises:
        SettingsError: The environment holds a value that cannot be used.
    """
    chosen = settings if settings is not None else settings_module.read()
    loggers = overrides.pop("loggers", None)
    hours = partitions.hours_since(first_hour(chosen, *asked))
    jobs = build_jobs(lambda dataset: bool(chosen.scope_of(dataset)))
    return dg.Definitions(
        assets=build_assets(hours),
        asset_checks=checks.STANDING,
        jobs=jobs,
        schedules=SCHEDULES,
        sensors=build_sensors(jobs),
        resources=build_resources(chosen) | overrides,
        # parallel work runs inside the assets; a process per step would cost seconds and log in again
        executor=executor,
        loggers=loggers,
    )


history.reuse()
settings_module.load_env_file()
defs = build_defs()
