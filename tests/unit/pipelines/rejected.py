"""Data folders with rejected lines, which an older reader is imagined to have rejected."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.operations.rebuild import Selection, plan_retry
from resources import datasets
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.lake import Layout
from resources.settings import Settings
from resources.tables import REJECTED_LINES
from tests.builds import OpenWarehouse, lay
from tests.unit.assets.conftest import listed, record, write_set
from tests.unit.warehouse.conftest import START, Clock, Lake

GOOD = [json.dumps(record(number)).encode() for number in range(9)]
FRENCH = [json.dumps(record(number, "frwiki")).encode() for number in range(3)]
SNAPSHOT = "enwiki_namespace_0"


class Folder:
    """A data folder whose rejected lines are what the tests say; the older reader that rejected them is imagined."""

    def __init__(self, data):
        self.data, self.layout, self.lake = data, Layout(data), Lake(data)
        self.warehouse = OpenWarehouse(lay(data), lock_timeout=5.0, clock=Clock())
        self.settings = Settings(data=data, projects=("dewiki",))
        self.lists = {}

    def load(self, number, rejects, project="enwiki", *, archived=True, digest=None):
        """Load an hour with these lines as rejects, of an archive that is there or not."""
        file = self.lake.file(number, [self.lake.change(number + 1, "A", 60 * number + 1)], project, rejects=rejects)
        file = file if digest is None else replace(file, digest=digest(file))
        self.warehouse.load_hour(self.lake.hour(number), [file], dataset=datasets.ARTICLE_CHANGES)
        records = self.lists.setdefault(number, [])
        records.append(listed(project, version=file.version))
        listing = self.layout.batch_list(ARTICLE_CHANGES, self.lake.hour(number))
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.write_text(json.dumps(records))
        if archived:
            self.layout.batch_archive(
                ARTICLE_CHANGES, self.lake.hour(number), file.identifier, file.version
            ).write_bytes(b"archive")
        return file

    def load_snapshot(self, version, rejects, *, at=START):
        """Load a version of a snapshot of two chunks, the second with these lines as rejects."""
        snapshot = self.lake.snapshot([[self.lake.change(5, "E", 20)], [self.lake.change(6, "F", 30)]], version=version)
        folder = self.layout.snapshot_archive(SNAPSHOT_ARTICLES, SNAPSHOT)
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"{file.identifier}.{file.version[:8]}.tar.gz" for file in snapshot.files]
        lines = [
            {
                "batch_hour": None,
                "project_id": "enwiki",
                "namespace_id": 0,
                "archive": f"snapshots/{SNAPSHOT}/{names[1]}",
                "member": "m.ndjson",
                "line_number": number,
                "byte_offset": 0,
                "reason": "not JSON",
                "raw": raw,
                "raw_bytes": len(raw),
            }
            for number, raw in enumerate(rejects, 1)
        ]
        path = self.data / "lake" / "rejects" / f"{version}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(lines, schema=REJECTED_LINES.schema), path)
        second = replace(snapshot.files[1], rejects_path=path, reject_count=len(rejects))
        self.warehouse.load_snapshot(replace(snapshot, files=(snapshot.files[0], second), exported_at=at))
        for name in names:
            (folder / name).write_bytes(b"archive")
        return write_set(
            folder, version, {name: file.version for name, file in zip(names, snapshot.files, strict=True)}, at
        )

    def retry(self, **selection):
        """Plan to convert again the archives with rejected lines of what is loaded by now."""
        if self.warehouse.unpublished_revision() is not None:
            self.warehouse.publish()
        return plan_retry(self.settings, Selection(**selection))
