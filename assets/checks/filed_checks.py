"""The checks that hours and snapshots share: of archives, of their Parquet files, and of the rows in DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import dagster as dg
import pyarrow.parquet as pq

from assets import layers
from assets.checks.findings import REBUILD, Check, Found
from resources import files
from resources.formatting import counted
from resources.lake import drift_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resources.datasets import Dataset
    from resources.lake import Archive, ConvertedFile

#: Share of the lines that may be rejected before somebody should look.
REJECTS_SHARE = 0.001


class Audit(Protocol):
    """The rows of a partition in DuckDB, compared with its ledger."""

    @property
    def row_count(self) -> int:
        """Rows that are there."""

    @property
    def expected_count(self) -> int:
        """Rows that were loaded."""

    @property
    def repeated_count(self) -> int:
        """Rows whose key another one has."""


_Audit = TypeVar("_Audit", bound=Audit)


@dataclass(frozen=True)
class Filed(Generic[_Audit]):
    """The results of a run, by the user-visible name of each partition.

    `audit` is called when all of them are loaded.
    """

    archives: Mapping[str, Sequence[Archive]]
    conversions: Mapping[str, Sequence[ConvertedFile]]
    audit: Callable[[], Mapping[str, _Audit]]

    @cached_property
    def audits(self) -> Mapping[str, _Audit]:
        """The audits of the loaded rows, queried once."""
        return self.audit()


def shared(dataset: Dataset, partition: str, row: str) -> list[Check[Filed[_Audit]]]:
    """The checks of a dataset of archives: those that its columns allow.

    Args:
        dataset: The dataset.
        partition: What a partition of it is called, for example hour.
        row: What a row of it is called, for example event.
    """
    archive, lake, warehouse = layers.keys(dataset)
    found: list[Check[Filed[_Audit]]] = [
        Check(
            dg.AssetCheckSpec(
                "archives_verified",
                asset=archive,
                description=f"Every archive of the {partition} still has the MD5 reported by the service.",
            ),
            _verified,
            f"Remove the file and materialize {archive.to_user_string()} of the {partition} while the service "
            "keeps it; later, restore it from a backup.",
        ),
        Check(
            dg.AssetCheckSpec(
                "rows_accounted",
                asset=lake,
                description="The Parquet files hold the rows that their conversion counted.",
            ),
            _accounted,
            f"Remove the Parquet file, then materialize {lake.to_user_string()} and {warehouse.to_user_string()} "
            f"of the {partition}; the archive is whole.",
        ),
        Check(
            dg.AssetCheckSpec(
                "rejects_share", asset=lake, description=f"At most {REJECTS_SHARE:.1%} of the lines were rejected."
            ),
            _rejects,
            "`wme rejects` counts them by reason; after an update that reads them, `wme rejects --retry`.",
            is_warning=True,
        ),
    ]
    if "extra" in dataset.table.schema.names:
        found.append(
            Check(
                dg.AssetCheckSpec(
                    "fields_known",
                    asset=lake,
                    description=(
                        "Every field of the records has a column. A field without one is kept in `extra`: it is new, "
                        "not an error."
                    ),
                ),
                _known,
                "Nothing is lost; a newer version may have a column for it.",
                is_warning=True,
            )
        )
    found.append(
        Check(
            dg.AssetCheckSpec(
                "loaded_whole",
                asset=warehouse,
                description=f"DuckDB holds the {partition}'s rows, less the exact duplicates.",
            ),
            audited(
                lambda a: (
                    a.row_count != a.expected_count and f"{counted(a.row_count, 'row')}, {a.expected_count:,} expected"
                )
            ),
            REBUILD,
        )
    )
    if dataset.table.key:
        found.append(
            Check(
                dg.AssetCheckSpec(
                    "unique_key", asset=warehouse, description=f"No {row} appears twice in one {partition}."
                ),
                audited(lambda a: a.repeated_count and counted(a.repeated_count, f"repeated {row}")),
                REBUILD,
            )
        )
    return found


def audited(wrong: Callable[[_Audit], str | bool | int]) -> Callable[[Filed[_Audit]], Found]:
    """A check of what DuckDB holds: `wrong` says what is, or nothing."""

    def find(made: Filed[_Audit]) -> Found:
        answers = [(name, wrong(audit)) for name, audit in made.audits.items()]
        return Found([f"{name}: {text}" for name, text in answers if text], len(answers))

    return find


def _verified(made: Filed[_Audit]) -> Found:
    archives = [(name, archive) for name, archives in made.archives.items() for archive in archives]
    wrong = []
    for name, archive in archives:
        digest = files.md5_of(archive.path)
        if digest != archive.version:
            wrong.append(
                f"{archive.identifier} of {name} is damaged: {archive.path} has the MD5 {digest}, the service reported "
                f"{archive.version}"
            )
    return Found(wrong, len(archives))


def _accounted(made: Filed[_Audit]) -> Found:
    rows = [(name, c, pq.read_metadata(c.path).num_rows) for name, some in made.conversions.items() for c in some]
    return Found(
        [
            f"{c.identifier} of {name}: {counted(count, 'row')} in {c.path}, {c.row_count:,} counted"
            for name, c, count in rows
            if count != c.row_count
        ],
        len(rows),
    )


def _rejects(made: Filed[_Audit]) -> Found:
    wrong, looked_at = [], 0
    for name, some in made.conversions.items():
        rows, rejects = sum(c.row_count for c in some), sum(c.reject_count for c in some)
        looked_at += rows + rejects
        if rejects > REJECTS_SHARE * (rows + rejects):
            wrong.append(f"{name}: {rejects:,} of {counted(rows + rejects, 'line')} rejected")
    return Found(wrong, looked_at)


def _known(made: Filed[_Audit]) -> Found:
    conversions = [c for some in made.conversions.values() for c in some]
    seen_in: dict[str, list[str]] = {}
    for name, some in made.conversions.items():
        for seen in drift_of(some):
            seen_in.setdefault(seen.path, []).append(name)
    return Found(
        [
            f"{seen.path} in {counted(seen.count, 'place')}, first in {min(seen_in[seen.path])}, for example "
            f"{seen.example}"
            for seen in drift_of(conversions)
        ],
        len(conversions),
    )
