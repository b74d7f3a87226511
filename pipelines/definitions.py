"""The code location: everything that Dagster loads.

`defs` is built from the environment once, at import. The data folder is read for its oldest hour; no network is touched.
"""

from __future__ import annotations

from pipelines import importing

# isort: split
import functools
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import current, layers, partitions, published, report, standing_checks
from assets.families import hourly, lists, lookups, snapshots, streams
from assets.maintenance import compacted
from pipelines import settings as settings_module
from pipelines.automation.jobs import build_jobs, stream
from pipelines.automation.schedules import SCHEDULES
from pipelines.automation.sensors import build_sensors
from pipelines.process import history
from pipelines.process.processes import executor
from pipelines.report import attention, page
from pipelines.wiring import build_resources
from resources import datasets
from resources.datasets import Family
from resources.lake import Layout

importing.done()

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.datasets import Dataset


@functools.lru_cache(maxsize=4)
def build_assets(
    hours: dg.HourlyPartitionsDefinition, offered: tuple[Dataset, ...]
) -> tuple[dg.AssetsDefinition | dg.AssetSpec, ...]:
    """The assets of every declared dataset, then what is made of all of them. Hours and snapshots can be materialized of those `offered` alone."""
    # no setting is in them but the first hour and the choice of datasets: a command that builds definitions of its own mostly finds these made
    of_snapshots, of_hours = datasets.datasets(Family.SNAPSHOT), datasets.datasets(Family.HOURLY)
    return (
        *_referenced(
            *lists.list_assets(datasets.datasets(Family.LIST)),
            *(asset for one in of_snapshots if one in offered for asset in snapshots.snapshot_assets(one)),
            *(hourly.hourly_assets(one, hours) for one in of_hours if one in offered),
            lookups.lookups,
            *(current.current_state(one) for one in current.STATES),
            compacted.compacted,
            published.published_warehouse(),
        ),
        streams.LIVE,
        *(
            spec
            for one in (*of_snapshots, *of_hours)
            if one not in offered
            for spec in layers.without_steps(
                one, hours if one.family is Family.HOURLY else partitions.snapshots_of(one)
            )
        ),
    )


def _referenced(*assets: dg.AssetsDefinition) -> tuple[dg.AssetsDefinition, ...]:
    """The assets, whose pages name the file and line that make them."""
    with warnings.catch_warnings():
        # nobody who runs a command can do anything about it; a test holds what it does
        warnings.simplefilter("ignore", dg.BetaWarning)
        return tuple(dg.with_source_code_references(assets))  # type: ignore[arg-type]


def first_hour(settings: settings_module.Settings, *asked: datetime) -> datetime:
    """The first hour that is a partition.

    WME_FIRST_HOUR, by default the oldest hour that the service still had when the mirror began. Earlier where the archive,
    the lake or what is `asked` for begins earlier, so that nothing that was made is out of sight.
    """
    chosen = settings.first_hour or partitions.first_of_mirror(settings.data, datetime.now(UTC))
    layout = Layout(settings.data)
    made = [
        partitions.oldest_hour(folder)
        for one in datasets.datasets(Family.HOURLY)
        for folder in (layout.archive / one.archive, layout.lake / one.name)
    ]
    first = min([chosen, *asked, *(hour for hour in made if hour is not None)])
    return max(first, min(settings.first_hour or partitions.EARLIEST, partitions.EARLIEST))


def build_defs(
    settings: settings_module.Settings | None = None,
    *,
    asked: Sequence[datetime] = (),
    all_datasets: bool = False,
    **overrides: Any,
) -> dg.Definitions:
    """Fresh definitions.

    Args:
        settings: Settings; default: those of the environment.
        asked: Hours that are partitions in any case.
        all_datasets: Datasets that are not mirrored can be materialized, too: those that a command names.
        overrides: Resources by key (`enterprise`, `lake`, `warehouse`, `engine`) in place of the settings' own, as of `build_resources`, and
            `loggers` for Dagster's own.

    Raises:
        SettingsError: The environment holds a value that cannot be used.
    """
    chosen = settings if settings is not None else settings_module.read()
    loggers = overrides.pop("loggers", None)
    hours = partitions.hours_since(first_hour(chosen, *asked))
    mirrored = tuple(one for one in datasets.datasets() if chosen.scope_of(one))
    offered = datasets.datasets() if all_datasets else mirrored
    jobs = build_jobs(mirrored, offered)
    return dg.Definitions(
        # what the page says is collected above the assets, with the settings
        assets=(
            layers.SERVICE,
            *build_assets(hours, offered),
            *_referenced(report.report(functools.partial(page.write, chosen))),
        ),
        asset_checks=(
            *standing_checks.STANDING,
            standing_checks.nothing_needs_attention(functools.partial(attention.sentences, chosen)),
        ),
        jobs=[*jobs, stream],
        schedules=SCHEDULES,
        sensors=build_sensors(chosen, jobs),
        resources=_defined(build_resources(chosen) | overrides, chosen),
        # parallel work runs inside the assets; a process per step would cost seconds and log in again
        executor=executor,
        loggers=loggers,
    )


def _defined(resources: dict[str, Any], settings: settings_module.Settings) -> dict[str, Any]:
    """The resources for Dagster."""
    texts = {"enterprise": settings.access.sentence}
    return {
        # of no asset's, and without a choice: Dagster's own reads and writes wherever a run says
        "io_manager": dg.IOManagerDefinition(lambda _: dg.InMemoryIOManager(), config_schema={}),  # type: ignore[no-untyped-call]
        **{name: one.definition(texts.get(name)) for name, one in resources.items()},
    }


history.reuse()
settings_module.load_env_file()
defs = build_defs()
