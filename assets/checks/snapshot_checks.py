"""The checks of the snapshot that a run has made, or of all that are archived.

A run pays for its own snapshot: 1.5 s of processor time for each GB of archive, and less for its rows than loading them
took.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assets.checks.filed_checks import Filed, shared
from assets.checks.findings import Check, results
from assets.steps import snapshot
from assets.steps.converting import NotArchivedError, known_conversions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import dagster as dg

    from assets.steps.snapshot import ArchivedSnapshot
    from resources.adapters import LakeResource
    from resources.datasets import Dataset
    from resources.lake import ConvertedFile
    from resources.warehouse import SnapshotAudit, Warehouse


def of_snapshots(dataset: Dataset) -> list[Check[Filed[SnapshotAudit]]]:
    """The checks of a dataset of snapshots: those that its columns allow."""
    return shared(dataset, "snapshot", "row")


@dataclass
class SnapshotsMade:
    """The archives, lake files and rows of some snapshots, by their identifiers."""

    dataset: Dataset
    archived: dict[str, ArchivedSnapshot] = field(default_factory=dict)
    conversions: dict[str, list[ConvertedFile]] = field(default_factory=dict)

    @classmethod
    def recalled(cls, dataset: Dataset, lake: LakeResource) -> SnapshotsMade:
        """The results of earlier runs for every archived snapshot; nothing is fetched, converted or loaded."""
        made, layout = cls(dataset), lake.layout
        for folder in sorted((layout.archive / dataset.archive).glob("*/")):
            try:
                archived = made.archived[folder.name] = snapshot.archived_snapshot(folder.name, layout, dataset=dataset)
            except NotArchivedError:
                continue  # it was never complete
            made.conversions[folder.name] = known_conversions(
                archived.archives, layout, lake.bodies_of(dataset), lake.record_bytes_max
            )
        return made

    def checked(self, selected: Collection[dg.AssetCheckKey], store: Warehouse) -> Iterator[dg.AssetCheckResult]:
        """Answer the selected checks."""

        def audit() -> dict[str, SnapshotAudit]:
            with store.auditing() as auditor:
                return {one.snapshot_id: one for one in auditor.snapshots(self.archived, self.dataset)}

        archives = {name: archived.archives for name, archived in self.archived.items()}
        return results(of_snapshots(self.dataset), Filed(archives, self.conversions, audit), selected)
