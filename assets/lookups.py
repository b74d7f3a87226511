"""Assets for page lookups.

A single step without partitions covers the archive, the lake and the warehouse. The `lookup` module contains the step's
parts.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from assets import layers
from assets.describe import as_failure, failure, run_config, sentence
from assets.steps import lookup
from resources.adapters import EngineResource, EnterpriseResource, LakeResource, WarehouseResource, run_fields
from resources.datasets import LOOKUPS
from resources.enterprise.errors import ServiceUnavailable
from resources.lake import LakeError
from resources.lake.journal import Asked
from resources.settings.types import LARGEST
from resources.tables import Purpose
from resources.warehouse import Warehouse

#: Response timeout in seconds. Lookups are not retried, because each retry can cost another unit of quota.
ANSWER_SECONDS = 60.0
#: Group of free accounts, and the number of pages that the check looks up each day with a paid account.
FREE_GROUP, PAID_SAMPLE = "group_1", 10


_now = partial(datetime.now, UTC)


class LookupsConfig(BaseModel):
    """Lookup budget for a run."""

    most_lookups: int | None = Field(
        default=None,
        ge=0,
        le=LARGEST,
        description="Maximum number of lookups in this run. The default is the day's remaining budget "
        "(lookups_per_day in the enterprise resource).",
    )


@dg.multi_asset(name="look_up", specs=layers.specs(LOOKUPS), config_schema=run_fields(LookupsConfig.model_fields))
def lookups(
    context: dg.AssetExecutionContext,
    enterprise: EnterpriseResource,
    lake: LakeResource,
    warehouse: WarehouseResource,
    engine: EngineResource,
) -> Any:
    """Look up watched and uncertain pages within the budget, and load the responses."""
    config = run_config(LookupsConfig, context)
    layout, store, workers = lake.layout, warehouse.warehouse, engine.engine(context.log.info)
    with as_failure(), lookup.alone(layout), engine.converter(lake) as converter:
        bodies = lake.bodies_of(LOOKUPS)
        # load the paid responses of a killed run before any request
        rows, unusable = lookup.load(layout, store, converter, workers, bodies)
        watched = lookup.read_watchlist(enterprise.settings.watchlist)
        enterprise.settings.check()
        budget = lookup.Budget(layout.root, enterprise.settings.lookups_per_day, _now)
        most = budget.left if config.most_lookups is None else min(budget.left, config.most_lookups)
        wanted = lookup.plan(watched, enterprise.settings.scope, store, most, _now())
        found, missing, failures = 0, 0, list[str]()
        if wanted:
            with enterprise.client(ANSWER_SECONDS) as client:
                left = lookup.units_left(client)
                found, missing, failures = lookup.ask(wanted[:left], client, layout, budget, workers, _now)
            more, unusable = lookup.load(layout, store, converter, workers, bodies)
            rows += more
    metadata = {
        "wanted": len(wanted),
        "found": found,
        "not_found": missing,
        "failed": len(failures),
        "budget_left": budget.left,
        "rows": rows,
    }
    context.log.info("%s", metadata)
    keys = layers.own(context.selected_asset_keys)
    for key in layers.keys(LOOKUPS):
        yield dg.MaterializeResult(asset_key=keys[key], metadata=metadata)
    told = ""
    if unusable:
        told = f"Some stored responses could not be loaded. All other responses are loaded. {sentence(unusable[0])}"
    if failures:
        raise failure(
            ServiceUnavailable(
                "Some pages could not be looked up. Received responses are kept. The next run requests the remaining "
                f"pages. {failures[0]} {told}".strip()
            )
        )
    if unusable:
        raise failure(LakeError(told))


def reconcile(
    enterprise: EnterpriseResource,
    lake: LakeResource,
    store: Warehouse,
    engine: EngineResource,
    say: Callable[[str], None],
) -> tuple[int, int, list[str]]:
    """Look up random pages from `articles` and compare them with the service, at most once in 24 hours.

    Missing pages are not reported, because they might have been deleted or moved. Pages that changed after the last
    loaded hour are not compared. Return the numbers of compared and missing pages, and a sentence for each difference.
    """
    usual = enterprise.settings.check_pages
    if (
        usual == 0
        or (usual is None and (enterprise.settings.sandbox or enterprise.settings.anonymous))
        or not store.build_path.exists()
    ):
        return 0, 0, []
    since = _now()
    if (last := store.last_lookup_at(Purpose.CHECK)) is not None and since - last < timedelta(days=1):
        return 0, 0, []
    layout, workers = lake.layout, engine.engine(say)
    with lookup.alone(layout), enterprise.client(ANSWER_SECONDS) as client:
        budget, left = lookup.Budget(layout.root, enterprise.settings.lookups_per_day, _now), lookup.units_left(client)
        if usual is None:
            user = client.account.known_user()
            usual = 0 if user is None or set(user.groups or ()) <= {FREE_GROUP} else PAID_SAMPLE
        count = min(usual, budget.left, usual if left is None else left)
        pages = store.sampled_pages(enterprise.settings.projects, enterprise.settings.namespaces, count)
        wanted = [Asked(page.project_id, page.namespace_id, page.name, Purpose.CHECK) for page in pages]
        lookup.ask(wanted, client, layout, budget, workers, _now)
        with engine.converter(lake) as converter:
            lookup.load(layout, store, converter, workers, lake.bodies_of(LOOKUPS))
    answers = {(one.project_id, one.asked_name): one for one in store.lookups_since(since, Purpose.CHECK)}
    known = [(page, answers[page.project_id, page.name]) for page in pages if (page.project_id, page.name) in answers]
    comparable = [(page, one) for page, one in known if one.event_at is not None and one.event_at < page.known_until]
    different = [
        f"{page.project_id} {page.name}: page {page.article_id}, revision {page.version_id} here; "
        f"page {one.article_id}, revision {one.version_id} on the service"
        for page, one in comparable
        if (page.article_id, page.version_id) != (one.article_id, one.version_id)
    ]
    return len(comparable), sum(not one.is_found for _, one in known), different
