"""Assets for the reference lists, from the service to DuckDB.

One asset fetches all lists with small requests that use no quota. Each list has its own Parquet file and table.

Source: the service's metadata endpoints, /v2/codes, /v2/languages, /v2/projects, /v2/namespaces.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from assets import layers
from assets.checks import Check, Found, results
from assets.describe import as_failure, failure, preview
from assets.steps.converting import NotArchivedError
from resources import files
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Dataset, named
from resources.enterprise import endpoints
from resources.enterprise.errors import UnexpectedAnswer
from resources.formatting import counted
from resources.lake import ListConversion, convert_list

#: Settings whose values must appear in a reference list, by list.
_MIRRORED = {named("projects"): "WME_PROJECTS", named("namespaces"): "WME_NAMESPACES"}

_Converted = tuple[bytes, ListConversion]
_Loaded = tuple[list[tuple[Any, ...]], EnterpriseResource]


def list_assets(lists: Sequence[Dataset]) -> list[dg.AssetsDefinition]:
    """Return one archive asset for all lists, and one lake and one warehouse asset for each list."""

    @dg.multi_asset(name="archive_reference", specs=layers.specs(lists[0])[:1])
    def archive(
        context: dg.AssetExecutionContext, enterprise: EnterpriseResource, lake: LakeResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        metadata: dict[str, Any] = {}
        digest, empty = files.new_md5(), list[str]()
        with as_failure(), enterprise.client() as client:
            for dataset in lists:
                listing = client.lists.records(endpoints.records(dataset))
                if not listing.records:  # would replace all rows of the list's table by none
                    empty.append(dataset.name)
                    continue
                client.lists.land(listing, lake.layout.list_archive(dataset))
                metadata[f"{dataset.name}_count"] = len(listing.records)
                digest.update(listing.raw)
        context.log.info("Reference lists archived: %s", metadata)
        if empty:
            raise failure(
                UnexpectedAnswer(
                    f"The service sent empty lists of {' and '.join(empty)}, which were not stored. Earlier lists and "
                    "their tables are kept. Run the command again later. If the lists are still empty, check the "
                    "configured service addresses, or contact the vendor."
                )
            )
        return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(digest.hexdigest()))

    @dg.multi_asset(
        name="lake_reference",
        specs=[layers.specs(one)[1] for one in lists],
        check_specs=[check.spec for one in lists for check in _checks(one) if check.asset == layers.lake_key(one)],
        can_subset=True,
    )
    def convert(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[Any]:
        selected = layers.own(context.selected_asset_keys)
        checked = {layers.unprefixed(check.asset_key) for check in context.selected_asset_check_keys}
        for dataset in lists:
            key = layers.lake_key(dataset)
            if key not in selected and key not in checked:
                continue
            with as_failure():
                raw, conversion = _converted(dataset, lake)
            if key in selected:
                metadata: dict[str, Any] = {
                    "dagster/row_count": conversion.row_count,
                    "dagster/uri": str(conversion.path),
                    "preview": preview([conversion.path], dataset.table.schema.names),
                }
                if conversion.odd:
                    metadata["odd_records"] = "; ".join(conversion.odd)
                    context.log.warning(
                        "Some records in the list of %s were skipped: %s", dataset.name, metadata["odd_records"]
                    )
                yield dg.MaterializeResult(
                    asset_key=selected[key],
                    metadata=metadata,
                    data_version=dg.DataVersion(files.new_md5(raw).hexdigest()),
                )
            yield from results(_checks(dataset), (raw, conversion), context.selected_asset_check_keys)

    @dg.multi_asset(
        name="warehouse_reference",
        specs=[layers.specs(one)[2] for one in lists],
        check_specs=[check.spec for one in lists for check in _checks(one) if check.asset != layers.lake_key(one)],
        can_subset=True,
    )
    def load(
        context: dg.AssetExecutionContext,
        enterprise: EnterpriseResource,
        lake: LakeResource,
        warehouse: WarehouseResource,
    ) -> Iterator[Any]:
        selected = layers.own(context.selected_asset_keys)
        for dataset in lists:
            if (key := layers.warehouse_key(dataset)) not in selected:
                continue
            with as_failure():
                count = warehouse.warehouse.load_list(dataset, _converted(dataset, lake)[1].path)
            yield dg.MaterializeResult(asset_key=selected[key], metadata={"dagster/row_count": count})
        with as_failure(), warehouse.warehouse.auditing() as auditor:
            keys = {dataset: auditor.keys(dataset) for dataset in lists}
        for dataset in lists:
            made = keys[dataset], enterprise
            yield from results(_checks(dataset), made, context.selected_asset_check_keys)

    return [archive, convert, load]


def _converted(dataset: Dataset, lake: LakeResource) -> _Converted:
    """Return an archived list and its Parquet file. Create the Parquet file if it is missing."""
    try:
        raw = files.read(lake.layout.list_archive(dataset))
    except FileNotFoundError as error:
        raise NotArchivedError(
            f"The list of {dataset.name} is not archived. Materialize archive/reference first."
        ) from error
    return raw, convert_list(dataset, raw, lake.layout)


def _checks(dataset: Dataset) -> list[Check[Any]]:
    """Return the check of a list's Parquet file (`_Converted`), then the checks of its table (`_Loaded`)."""
    archive, lake, key = layers.keys(dataset)
    again, setting = f"Materialize {archive.to_user_string()} and its downstream assets.", _MIRRORED.get(dataset)
    found: list[Check[Any]] = [
        Check(
            "rows_accounted",
            lake,
            "The Parquet file contains one row for each record of the archived list.",
            _accounted,
            f"The archived list is intact. Remove the Parquet file and materialize {lake.to_user_string()}. Report the "
            "records listed here to the vendor, because the service sent them in this form.",
        ),
        Check(
            "not_empty",
            key,
            "The list is not empty.",
            lambda made: Found([] if made[0] else [f"{dataset.name} has no rows"], len(made[0])),
            f"The service sent an empty list. {again}",
        ),
        Check("unique_key", key, "No entry appears twice in the list.", _repeated, again),
        Check(
            "mirrored_known",
            key,
            f"The service's list contains every value of {setting}.",
            partial(_unknown, dataset),
            f"No new data arrives for missing names. Loaded data is kept. Correct {setting}, or contact the vendor.",
            is_warning=True,
        ),
    ]
    return found if setting else found[:-1]


def _accounted(made: _Converted) -> Found:
    raw, conversion = made
    expected, count = len(json.loads(raw)), pq.read_metadata(conversion.path).num_rows
    wrong = f"{conversion.path} contains {counted(count, 'row')}, but the list has {counted(expected, 'record')}"
    return Found([wrong, *conversion.odd] if count != expected else [], expected)


def _repeated(made: _Loaded) -> Found:
    counts = Counter(made[0])
    wrong = [f"{', '.join(map(str, key))} has {count} rows" for key, count in counts.items() if count > 1]
    return Found(wrong, len(made[0]))


def _unknown(dataset: Dataset, made: _Loaded) -> Found:
    keys, enterprise = made
    wanted = enterprise.settings.projects if dataset.name == "projects" else enterprise.settings.namespaces
    known = {key for (key,) in keys}
    return Found([f"{one} is not in the list of {dataset.name}" for one in wanted if one not in known], len(wanted))
