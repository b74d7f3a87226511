"""Assets downstream of all tables: the published file, its report, and the compacted lake.

Analysts open the published file. A rename replaces this file atomically, and no process locks it.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from assets import current, layers
from assets.coverage_checks import failed_hours
from assets.describe import OWNERS, PREVIEW, PREVIEW_ROWS, as_failure, lake_metadata, markdown, sized
from assets.layers import HOUR
from assets.steps import rebuilding
from assets.steps.compaction import Compacted, compact_lake
from assets.steps.housekeeping import clean, is_due
from resources import datasets
from resources.adapters import COMPACTION_POOL, EngineResource, EnterpriseResource, LakeResource, WarehouseResource
from resources.data_folder import REPORT_PATH, facts_of
from resources.datasets import Family
from resources.formatting import counted, hour_text, markdown_text, size_text
from resources.lake_files import COMPACTED
from resources.tables import HourState
from resources.warehouse import HourStatus, Moved, Warehouse, WarehouseError, next_text

KEY = dg.AssetKey(["published", "warehouse"])

#: Tag of runs that publish only when due: runs from schedules, sensors and `wme run`. Materializing the asset manually
#: always publishes.
WHEN_DUE = {"wme/publish": "when due"}

#: Metadata entry with the repair results for missing or damaged lake files.
REPAIRED = "repaired"

_TABLES = """
SELECT table_name AS "table", 'table' AS kind, max(estimated_size) AS "rows" FROM duckdb_tables()
WHERE schema_name = 'main' OR table_name IN ('articles', 'article_changes', 'lookups') GROUP BY ALL
UNION ALL SELECT view_name, 'view', NULL FROM duckdb_views()
WHERE NOT internal AND schema_name = 'main' AND view_name NOT IN ('articles', 'article_changes', 'lookups')
ORDER BY ALL"""
_NEWEST = f"SELECT {', '.join(PREVIEW)} FROM articles ORDER BY event_at DESC, name LIMIT {PREVIEW_ROWS}"  # noqa: S608


def published_warehouse() -> dg.AssetsDefinition:
    """Return the asset for the published file, which is downstream of every dataset's table."""

    @dg.asset(
        key=KEY,
        # tables that feed a current state are indirect dependencies
        deps=[*current.KEYS, *(layers.warehouse_key(one) for one in datasets.datasets() if one.state is None)],
        group_name="published",
        kinds={"duckdb"},
        owners=list(OWNERS),
        freshness_policy=layers.HOURLY,
        description="The DuckDB file for analysts, with native tables and with views over page text in the lake. Each "
        "publication writes a new file and renames it to replace the old file. Readers therefore never "
        "wait and never see a partial load. Replaced lake and archive files are removed after a grace "
        "period.",
    )
    def publish(
        context: dg.AssetExecutionContext,
        enterprise: EnterpriseResource,
        lake: LakeResource,
        warehouse: WarehouseResource,
        engine: EngineResource,
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        """Record missing hours in the coverage, then publish. Runs tagged `WHEN_DUE` publish only if due."""
        store, every = warehouse.warehouse, warehouse.settings.publish_every
        with as_failure():
            # run this even if nothing is published, because the checks read gaps from the coverage
            fill_coverage(enterprise, store)
            _note_failed(context, enterprise, store)
        # before a publication, so that readers get few large row groups even right after a long backfill
        merged = _merged(context, store)
        if WHEN_DUE.items() <= context.run.tags.items() and not store.publish_is_due(every):
            context.log.info("Not published: %s", next_text(store.publication(), every))
            return dg.MaterializeResult(
                metadata=sized({"changed": False, **merged, **_kept(context, lake, store, every)})
            )
        with as_failure():
            rebuilding.complete(lake, warehouse, engine, enterprise)
            published = store.publish(facts_of(store.data))
            repaired = {}
            if published.faulty_lake_files:
                done = rebuilding.repaired(lake, warehouse, engine, context.log.info)
                repaired = {REPAIRED: rebuilding.format_repaired(done)}
                if done.load_count:
                    published = store.publish(facts_of(store.data))
        context.log.info("%s", published)
        metadata = {
            "dagster/uri": str(published.path),
            "bytes": published.size_bytes,
            "seconds": round(published.seconds, 3),
            "changed": published.changed,
            "seconds_locked": round(published.locked_seconds, 3),
            "lake_files": published.lake_file_count,
            "faulty_lake_files": len(published.faulty_lake_files),
            **repaired,
            **merged,
            "tables": _shown(store, _TABLES),
            "newest_articles": _shown(store, _NEWEST),
            **_kept(context, lake, store, every),
        }
        return dg.MaterializeResult(metadata=sized(metadata))

    return publish


def fill_coverage(enterprise: EnterpriseResource, store: Warehouse) -> None:
    """Record whether each mirrored hour is loaded, missing, or older than the service's retention period."""
    for dataset in datasets.datasets(Family.HOURLY):
        if scope := enterprise.settings.scope_of(dataset):
            projects, namespaces = ([*dict.fromkeys(names)] for names in zip(*scope, strict=True))
            store.fill_coverage(projects, namespaces, dataset=dataset)


def _note_failed(context: dg.AssetExecutionContext, enterprise: EnterpriseResource, store: Warehouse) -> None:
    """Record hours as missing if their run failed before recording a state."""
    now = datetime.now(UTC)
    why = (
        "Its run failed before processing the hour. The service still has the hour, so a run or a backfill can load it."
    )
    for dataset in filter(enterprise.settings.scope_of, datasets.datasets(Family.HOURLY)):
        if failed := sorted(failed_hours(context.instance, context.job_def, dataset, now, context.asset_key)):
            rows = store.coverage(failed[0], failed[-1] + HOUR, published=False, dataset=dataset)
            known = {(row.batch_hour, row.project_id, row.namespace_id) for row in rows}
            wanted = [(hour, *place) for hour in failed for place in enterprise.settings.scope_of(dataset)]
            missing = [HourStatus(*one, HourState.MISSING, why) for one in wanted if one not in known]
            store.record_statuses(missing, dataset=dataset)


def _merged(context: dg.AssetExecutionContext, store: Warehouse) -> dict[str, Any]:
    """Merge small row groups if enough accumulated. A failure is logged and does not fail the run."""
    try:
        return {"row_groups_merged": True} if store.merge_row_groups() else {}
    except WarehouseError as error:
        context.log.warning("Small row groups were not merged; the next run will try again. %s", error)
        return {}


def _kept(
    context: dg.AssetExecutionContext, lake: LakeResource, store: Warehouse, every: timedelta | None
) -> dict[str, Any]:
    """Maintain the mirror after a publication. Failures are logged and do not fail the run.

    Return metadata about this work, and the times of the last and the next publication.
    """
    last = store.publication()
    metadata: dict[str, Any] = {"next_publication": next_text(last, every)}
    if last is not None:
        metadata["published_at"] = dg.MetadataValue.timestamp(last.published_at)
    if not is_due(lake.layout, grace=lake.grace):
        return metadata
    try:
        cleaning = clean(lake.layout, store, grace=lake.grace)
    except (OSError, WarehouseError) as error:
        context.log.warning("Some replaced files could not be removed; the next run will try again. %s", error)
        return metadata
    return metadata | {
        "freed_files": len(cleaning.freed),
        "freed_bytes": cleaning.freed_bytes,
        "replaced_files": len(cleaning.waiting),
        "replaced_bytes": cleaning.waiting_bytes,
    }


def _shown(store: Warehouse, query: str) -> dg.MarkdownMetadataValue:
    answer = store.sql(query)
    return markdown([dict(zip(answer.columns, row, strict=True)) for row in answer.rows], answer.columns)


REPORT_KEY = dg.AssetKey(["published", "report"])


def report(write: Callable[[], Any]) -> dg.AssetsDefinition:
    """Return the asset for the report, downstream of the published file. `write` is `pipelines.report.page.write`."""

    @dg.asset(
        key=REPORT_KEY,
        deps=[KEY],
        group_name="published",
        kinds={"html"},
        owners=list(OWNERS),
        description="Self-contained HTML page about the published file: problems, coverage, lag, changes by "
        "project, most edited pages, deletions and moves, rejects, throughput, quota and storage. The "
        "web server of `wme ui` shows the page at [/report](/report). `wme report` writes the same file.",
    )
    def page(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
        """Write the report page."""
        with as_failure():
            made = write()
        context.log.info("Wrote %s (%s).", made.path, size_text(made.size_bytes))
        attention = "\n".join(f"- {markdown_text(text)}" for text in made.attention) or "Nothing needs attention."
        # a relative URL also works behind a proxy, and browsers do not open local files from a web page
        link = {"page": dg.MetadataValue.url(REPORT_PATH)} if context.asset_key == REPORT_KEY else {}
        metadata = {
            "attention": dg.MetadataValue.md(attention),
            "attention_count": made.attention_count,
            **link,
            "dagster/uri": str(made.path),
            "bytes": made.size_bytes,
            "pictures": made.picture_count,
            "seconds": round(made.seconds, 3),
        }
        return dg.MaterializeResult(metadata=sized(metadata))

    return page


COMPACTED_KEY = dg.AssetKey(["lake", "compacted"])


@dg.asset(
    key=COMPACTED_KEY,
    deps=[layers.warehouse_key(dataset) for dataset in datasets.datasets() if dataset.name in COMPACTED],
    group_name="lake",
    kinds={"parquet"},
    owners=list(OWNERS),
    pool=COMPACTION_POOL,
    metadata=lake_metadata(COMPACTED["article_changes"]),
    description="Lake files merged into a few files sorted by page. Hours are merged into windows of six hours, a day, "
    "ten days and a month. The chunks of each snapshot version are merged, too. Reading a page's text then "
    "opens about one file. The original files are removed after the grace period. Changes in compacted "
    "months are then removed from the DuckDB files and read from compacted files.",
)
def compacted(
    context: dg.AssetExecutionContext, lake: LakeResource, warehouse: WarehouseResource, engine: EngineResource
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Compact all pending windows and snapshot versions without blocking loads, publications or readers."""
    with as_failure(), engine.compactor(lake) as compactor:
        done = compact_lake(
            lake.layout,
            warehouse.warehouse,
            engine.engine(context.log.info),
            compactor=compactor,
            threads=engine.settings.threads,
            min_free_gb=lake.settings.min_free_gb,
            say=lambda one: context.log.info("%s", format_merged(one)),
        )
    made = [one for one in done if isinstance(one, Compacted)]
    return dg.MaterializeResult(
        metadata=sized(
            {
                "spans": len(made),
                "read_files": sum(one.read_files for one in made),
                "read_bytes": sum(one.read_bytes for one in made),
                "written_files": sum(one.written_files for one in made),
                "written_bytes": sum(one.written_bytes for one in made),
                "rows": sum(one.row_count for one in made),
                "changes_left_to_lake": sum(one.row_count for one in done if isinstance(one, Moved)),
            }
        )
    )


def format_merged(one: Compacted | Moved) -> str:
    """Describe one compaction, or one removal of changes from the DuckDB files, in a sentence."""
    if isinstance(one, Moved):
        return (
            f"Moved {counted(one.row_count, 'change')} from {hour_text(one.first_hour)} to {hour_text(one.end_hour)} "
            "UTC from the DuckDB files to compacted files."
        )
    text = (
        f"The {one.merge.label} was compacted: {counted(one.read_files, 'file')} ({size_text(one.read_bytes)}) into "
        f"{one.written_files} ({size_text(one.written_bytes)}), {counted(one.row_count, 'row')}."
    )
    if one.given_up_count:
        text += (
            f" {one.given_up_count:,} of its parts were reloaded or dropped during compaction and remain in separate "
            "files."
        )
    return text
