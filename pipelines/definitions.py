"""Dagster definitions for the mirror.

`build_defs` builds definitions from settings, for this project or for another Dagster project. Dagster loads `defs` as
the code location, with settings from the environment and the project's `.env`. Loading the definitions reads the oldest
hour from the data folder, but does not use the network. Importing this module reads nothing.
"""

import functools
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets import coverage_checks, current, hourly, layers, lists, lookups, published, snapshots, streams
from pipelines.automation.jobs import build_jobs, build_schedules
from pipelines.automation.sensors import build_sensors
from pipelines.embedding import Prefix
from pipelines.process.processes import executor
from pipelines.report import page, status
from resources import connection, datasets
from resources import settings as settings_module
from resources.adapters import build_resources
from resources.datasets import Dataset, Family
from resources.lake import Layout


@functools.lru_cache(maxsize=4)
def build_assets(
    hours: dg.HourlyPartitionsDefinition, offered: tuple[Dataset, ...]
) -> tuple[dg.AssetsDefinition | dg.AssetSpec, ...]:
    """Build the assets for all datasets and for their publication. Only `offered` datasets can be materialized."""
    # the assets depend only on the first hour and the choice of datasets, so commands that build definitions repeatedly
    # mostly find them in the cache
    of_snapshots, of_hours = datasets.datasets(Family.SNAPSHOT), datasets.datasets(Family.HOURLY)
    named = {one: dg.DynamicPartitionsDefinition(name=one.archive) for one in of_snapshots}
    partitions = dict.fromkeys(of_hours, hours) | named
    without_steps = (
        spec.replace_attributes(partitions_def=own, automation_condition=None, freshness_policy=None)
        for one, own in partitions.items()
        if one not in offered
        for spec in layers.specs(one)
    )
    return (
        *_referenced(
            *lists.list_assets(datasets.datasets(Family.LIST)),
            *(asset for one in of_snapshots if one in offered for asset in snapshots.snapshot_assets(one)),
            *(hourly.hourly_assets(one, hours) for one in of_hours if one in offered),
            lookups.lookups,
            *(current.current_state(one) for one in current.STATES),
            published.compacted,
            published.published_warehouse(),
        ),
        streams.LIVE,
        *without_steps,
    )


def _referenced(*assets: dg.AssetsDefinition) -> tuple[dg.AssetsDefinition, ...]:
    """Attach the source file and line to each asset, for the Dagster UI."""
    with warnings.catch_warnings():
        # users of a command cannot act on the beta warning; a test covers the function
        warnings.simplefilter("ignore", dg.BetaWarning)
        return tuple(dg.with_source_code_references(assets))  # type: ignore[arg-type]


def first_hour(settings: settings_module.Settings, *asked: datetime) -> datetime:
    """Return the first hourly partition.

    The first hour is WME_FIRST_HOUR, or by default the oldest hour that the service retained when the mirror began. If
    the archive, the lake or the hours in `asked` begin earlier, the first hour is earlier as well, so that all existing
    data is visible.
    """
    chosen = settings.first_hour or layers.first_of_mirror(settings.data, datetime.now(UTC))
    layout = Layout(settings.data)
    made = [
        layers.oldest_hour(folder)
        for one in datasets.datasets(Family.HOURLY)
        for folder in (layout.archive / one.archive, layout.lake / one.name)
    ]
    first = min([chosen, *asked, *(hour for hour in made if hour is not None)])
    return max(first, min(settings.first_hour or layers.EARLIEST, layers.EARLIEST))


def hourly_partitions(settings: settings_module.Settings, *asked: datetime) -> dg.HourlyPartitionsDefinition:
    """Return the hourly assets' partitions, including the hours in `asked`, for assets in another project."""
    return layers.hours_since(first_hour(settings, *asked))


def build_defs(
    settings: settings_module.Settings,
    *,
    prefix: str = "",
    asked: Sequence[datetime] = (),
    all_datasets: bool = False,
    **overrides: Any,
) -> dg.Definitions:
    """Build definitions only from the settings, without reading the environment or `.env`.

    Args:
        settings: Settings.
        prefix: Prefix of all asset keys, and of the names of groups, steps, jobs, schedules, sensors, resources, pools
            and dynamic partitions. With a prefix, the definitions have no executor, IO manager or logger, and can be
            merged into another project's definitions.
        asked: Hours that are always included in the partitions.
        all_datasets: True if datasets that are not mirrored can also be materialized, for commands that name them.
        overrides: Resources by key (`enterprise`, `lake`, `warehouse`, `engine`) that replace the resources from
            `build_resources`.

    Raises:
        ValueError: A name cannot begin with the prefix.
    """
    named = Prefix(prefix)
    hours = hourly_partitions(settings, *asked)
    mirrored = tuple(one for one in datasets.datasets() if settings.scope_of(one))
    offered = datasets.datasets() if all_datasets else mirrored
    texts = {"enterprise": connection.description(settings)}
    objects = build_resources(settings) | overrides
    resources: dict[str, Any] = {name: one.definition(texts.get(name)) for name, one in objects.items()}
    if not prefix:
        # no asset uses an IO manager, but Dagster's default has a run configuration that can read and write any path
        resources["io_manager"] = dg.IOManagerDefinition(lambda _: dg.InMemoryIOManager(), config_schema={})  # type: ignore[no-untyped-call]
    # the report's content is collected here, above the assets, because it needs the settings
    report = _referenced(published.report(functools.partial(page.write, settings)))
    attention = coverage_checks.nothing_needs_attention(lambda: page.attention(status.collect(settings)))
    return dg.Definitions(
        assets=[named.asset(one) for one in (layers.SERVICE, *build_assets(hours, offered), *report)],
        asset_checks=[named.check(one) for one in (*coverage_checks.CHECKS, attention)],
        jobs=build_jobs(mirrored, offered, named),
        schedules=build_schedules(named),
        sensors=build_sensors(settings, offered, named),
        resources={named.name(key): one for key, one in resources.items()},
        # assets parallelize internally; a process per step would cost seconds and log in again
        executor=None if prefix else executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the code location's definitions. Raises SettingsError if a setting has an invalid value."""
    settings_module.load_env_file()
    return build_defs(settings_module.read())
