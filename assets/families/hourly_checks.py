"""The checks of the hours that a run has made, as far as the columns of their dataset allow them."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import dagster as dg
import pyarrow.parquet as pq

from assets import layers
from assets.families.hour import HourlyRun
from assets.findings import told
from resources import files
from resources.datasets import Dataset
from resources.formatting import counted, hour_text
from resources.lake import drift_of
from resources.warehouse import HourAudit

#: Share of an hour's lines that may be rejected before somebody should look.
REJECTS_SHARE = 0.001


@dataclass(frozen=True)
class HourlyCheck:
    """A check of the hours of a run: its specification, and what finds out what is wrong.

    Attributes:
        find: Returns what is wrong, in sentences, and how many things were looked at.
        what_to_do: The way out, as the operator's guide has it at more length.
    """

    spec: dg.AssetCheckSpec
    find: Callable[[HourlyRun], tuple[list[str], int]]
    what_to_do: str
    is_warning: bool = False

    def result(self, run: HourlyRun) -> dg.AssetCheckResult:
        """The answer for the hours that a run made."""
        wrong, looked_at = self.find(run)
        return dg.AssetCheckResult(
            asset_key=self.spec.asset_key,
            check_name=self.spec.name,
            passed=not wrong,
            severity=dg.AssetCheckSeverity.WARN if self.is_warning else dg.AssetCheckSeverity.ERROR,
            description=told(wrong, self.what_to_do),
            metadata={"looked_at": looked_at, "wrong": len(wrong)},
        )


def hourly(dataset: Dataset) -> list[HourlyCheck]:
    """The checks of a dataset of hourly files: those that its columns allow."""
    archive, lake, warehouse = layers.keys(dataset)
    names = dataset.table.schema.names

    def check(
        name: str,
        asset: dg.AssetKey,
        description: str,
        find: Callable[[HourlyRun], tuple[list[str], int]],
        what_to_do: str,
        *,
        is_warning: bool = False,
    ) -> HourlyCheck:
        return HourlyCheck(dg.AssetCheckSpec(name, asset=asset, description=description), find, what_to_do, is_warning)

    load_again = f"Materialize {warehouse.to_user_string()} of the hour, then publish."
    found = [
        check(
            "archives_verified",
            archive,
            "Every archive of the hour still has the MD5 reported by the service.",
            _verified,
            f"Materialize {archive.to_user_string()} of the hour while the service keeps it; later, restore the file from a backup.",
        ),
        check(
            "rows_accounted",
            lake,
            "The Parquet files hold the rows that their conversion counted.",
            _accounted,
            f"Materialize {lake.to_user_string()} and {warehouse.to_user_string()} of the hour; the archive is whole.",
        ),
        check(
            "rejects_share",
            lake,
            f"At most {REJECTS_SHARE:.1%} of the lines were rejected.",
            _rejects,
            "`wme rejects` counts them by reason; after an update that reads them, `wme rejects --retry`.",
            is_warning=True,
        ),
    ]
    if "extra" in names:
        found.append(
            check(
                "fields_known",
                lake,
                "Every field of the records has a column. A field without one is kept in `extra`: it is new, not an error.",
                _known,
                "Nothing is lost; a newer version may have a column for it.",
                is_warning=True,
            )
        )
    found.append(
        check(
            "loaded_whole",
            warehouse,
            "DuckDB holds the hour's rows, less the exact duplicates within a file.",
            _audited(
                lambda a: (
                    a.row_count != a.expected_count and f"{counted(a.row_count, 'row')}, {a.expected_count:,} expected"
                )
            ),
            load_again,
        )
    )
    if dataset.table.key:
        found.append(
            check(
                "unique_key",
                warehouse,
                "No event appears twice in one hour.",
                _audited(lambda a: a.repeated_count and counted(a.repeated_count, "repeated event")),
                load_again,
            )
        )
    if "event_at" in names:
        found.append(
            check(
                "no_event_before_its_hour",
                warehouse,
                "An hour's file begins with the hour.",
                _audited(lambda a: a.early_count and f"{counted(a.early_count, 'event')} before the hour"),
                "The events are kept and count by their own time, so nothing is to be done.",
            )
        )
    return found


def of_run(run: HourlyRun, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
    """Answer the selected checks for the hours that a run made."""
    for check in hourly(run.dataset):
        if check.spec.key in selected:
            yield check.result(run)


def _verified(run: HourlyRun) -> tuple[list[str], int]:
    archives = [(hour, archive) for hour, archived in run.archived.items() for archive in archived.archives]
    wrong = []
    for hour, archive in archives:
        digest = files.md5_of(archive.path)
        if digest != archive.version:
            wrong.append(
                f"{archive.identifier} of {hour_text(hour)} is damaged: its MD5 is {digest}, the service reported {archive.version}"
            )
    return wrong, len(archives)


def _accounted(run: HourlyRun) -> tuple[list[str], int]:
    rows = [(hour, c, pq.read_metadata(c.path).num_rows) for hour, made in run.conversions.items() for c in made]
    return [
        f"{c.identifier} of {hour_text(hour)}: {counted(count, 'row')} in the file, {c.row_count:,} counted"
        for hour, c, count in rows
        if count != c.row_count
    ], len(rows)


def _rejects(run: HourlyRun) -> tuple[list[str], int]:
    wrong, looked_at = [], 0
    for hour, made in run.conversions.items():
        rows, rejects = sum(c.row_count for c in made), sum(c.reject_count for c in made)
        looked_at += rows + rejects
        if rejects > REJECTS_SHARE * (rows + rejects):
            wrong.append(f"{hour_text(hour)}: {rejects:,} of {counted(rows + rejects, 'line')} rejected")
    return wrong, looked_at


def _known(run: HourlyRun) -> tuple[list[str], int]:
    conversions = [c for made in run.conversions.values() for c in made]
    hours: dict[str, list[str]] = {}
    for hour, made in run.conversions.items():
        for seen in drift_of(made):
            hours.setdefault(seen.path, []).append(hour_text(hour))
    return [
        f"{seen.path} in {counted(seen.count, 'place')}, first in {min(hours[seen.path])}, for example {seen.example}"
        for seen in drift_of(conversions)
    ], len(conversions)


def _audited(wrong: Callable[[HourAudit], str | bool | int]) -> Callable[[HourlyRun], tuple[list[str], int]]:
    """A check of what DuckDB holds: `wrong` says what is, or nothing."""

    def find(run: HourlyRun) -> tuple[list[str], int]:
        audits = run.audits
        answers = [(audit, wrong(audit)) for audit in audits]
        return [f"{hour_text(audit.batch_hour)}: {text}" for audit, text in answers if text], len(audits)

    return find
