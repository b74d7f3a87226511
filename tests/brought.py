"""A data folder that archives of given lines are brought into, on the real path: NDJSON, converter, Parquet, load."""

import gzip
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from resources.datasets import Dataset
from resources.lake import Archive, ConvertedFile, Layout, convert
from resources.warehouse import Snapshot
from tests.builds import OpenWarehouse, lay
from tests.unit.lake.conftest import tar_bytes

HOUR = datetime(2026, 11, 19, 5, tzinfo=UTC)


class Brought:
    """The folder, and the warehouse in it. `options` are those of the warehouse."""

    def __init__(self, data: Path, **options: Any) -> None:
        self.layout, self.warehouse = Layout(data), OpenWarehouse(lay(data), **options)
        self._is_published = False

    def bring(
        self,
        dataset: Dataset,
        place: tuple[str, int],
        lines: Iterable[str | bytes],
        exported_at: datetime | None = None,
        **known: Any,
    ) -> tuple[ConvertedFile, Any]:
        """Convert and load an archive of a dataset with these lines; returns what both made of it.

        `known` is a `batch_hour`, a `source_at`, or a `snapshot_id` and `snapshot_version`. Without `exported_at`, a
        snapshot as older versions took it.
        """
        project, namespace = place
        data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
        packed = gzip.compress(tar_bytes([("records_0.ndjson", data)]), 1, mtime=0)
        version = hashlib.md5(packed).hexdigest()
        path = self.layout.archive / f"{dataset.name}-{version}.tar.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed)
        hour = known.pop("batch_hour", None)
        own = {"dataset": dataset} | ({"exported_at": exported_at} if "snapshot_id" in known else {})
        made = convert(
            Archive(path, f"{project}_namespace_{namespace}", version, hour, project, namespace, **own, **known),
            self.layout,
        )
        self._is_published = False
        if hour is not None:
            return made, self.warehouse.load_hour(hour, [made], dataset=dataset)
        if "source_at" in known:
            return made, self.warehouse.load_lookups([made])
        snapshot = Snapshot(*known.values(), project, namespace, (made,), 1, exported_at or HOUR, dataset)
        return made, self.warehouse.load_snapshot(snapshot)

    def ask(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of the published file."""
        if not self._is_published:
            self.warehouse.publish()
            self._is_published = True
        return self.warehouse.sql(query, list(parameters)).rows
