"""The checks of the reference lists. A list has some hundred rows, so that all of it costs some milliseconds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow.parquet as pq

from assets import layers
from assets.checks.findings import Check, Found
from resources.datasets import named
from resources.formatting import counted

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from resources.adapters import EnterpriseResource
    from resources.datasets import Dataset

#: What of the settings must be in a list, and the setting.
_MIRRORED = {named("projects"): "WME_PROJECTS", named("namespaces"): "WME_NAMESPACES"}


@dataclass(frozen=True)
class Converted:
    """A list as it was archived, and its Parquet file."""

    raw: bytes
    path: Path
    odd: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loaded:
    """The keys of a list's rows in DuckDB, and what is mirrored."""

    keys: list[tuple[Any, ...]]
    enterprise: EnterpriseResource


def converted(dataset: Dataset) -> Check[Converted]:
    """The check of a list in the lake."""
    key = layers.lake_key(dataset)
    return Check(
        dg.AssetCheckSpec(
            "rows_accounted",
            asset=key,
            description="The Parquet file holds a row for each record of the archived list.",
        ),
        _accounted,
        f"Remove the Parquet file and materialize {key.to_user_string()}; the archived list is whole. Records that are "
        "named here came like this from the service: report them to the vendor.",
    )


def loaded(dataset: Dataset) -> list[Check[Loaded]]:
    """The checks of a list in DuckDB."""
    key = layers.warehouse_key(dataset)
    again = f"Materialize {layers.archive_key(dataset).to_user_string()} and what follows from it."
    found: list[Check[Loaded]] = [
        Check(
            dg.AssetCheckSpec("not_empty", asset=key, description="The list has rows."),
            partial(_empty, dataset),
            f"The service sent an empty list. {again}",
        ),
        Check(
            dg.AssetCheckSpec("unique_key", asset=key, description="No entry appears twice in the list."),
            _repeated,
            again,
        ),
    ]
    if dataset in _MIRRORED:
        setting = _MIRRORED[dataset]
        found.append(
            Check(
                dg.AssetCheckSpec(
                    "mirrored_known", asset=key, description=f"The service's list has everything that {setting} names."
                ),
                partial(_unknown, dataset),
                f"Nothing new can come of it. What is loaded stays. Correct {setting}, or ask the service why it is "
                "gone.",
                is_warning=True,
            )
        )
    return found


def _accounted(made: Converted) -> Found:
    expected, count = len(json.loads(made.raw)), pq.read_metadata(made.path).num_rows
    wrong = [f"{counted(count, 'row')} in {made.path}, {counted(expected, 'record')} archived", *made.odd]
    return Found(wrong if count != expected else [], expected)


def _empty(dataset: Dataset, made: Loaded) -> Found:
    return Found([] if made.keys else [f"{dataset.name} has no row"], len(made.keys))


def _repeated(made: Loaded) -> Found:
    counts = Counter(made.keys)
    wrong = [f"{', '.join(map(str, key))} has {count} rows" for key, count in counts.items() if count > 1]
    return Found(wrong, len(made.keys))


def _unknown(dataset: Dataset, made: Loaded) -> Found:
    wanted = made.enterprise.settings.projects if dataset.name == "projects" else made.enterprise.settings.namespaces
    known = {key for (key,) in made.keys}
    return Found([f"the list of {dataset.name} lacks {one}" for one in wanted if one not in known], len(wanted))
