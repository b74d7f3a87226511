"""The warehouse: the DuckDB build file with loaded rows and current pages, and the published file for analysts.

Code for fetching, converting and scheduling belongs elsewhere. From the bottom up, `database`, `read`, `load`, `state`
with `compaction`, and `views` form layers.
"""

from __future__ import annotations

from resources.lake_files import ConvertedFile
from resources.warehouse.compaction.commit import Prepared
from resources.warehouse.compaction.plan import Merge
from resources.warehouse.compaction.window import Moved
from resources.warehouse.database.recovery import remove_code
from resources.warehouse.load.snapshots import KEEP_REPLACED
from resources.warehouse.publisher import Publication, next_text
from resources.warehouse.read.comparison import Comparison
from resources.warehouse.read.ledger import FaultyFile, Ledger, Named, Part, named, named_in
from resources.warehouse.records import (
    Applied,
    Audit,
    HourAudit,
    HourLoad,
    HourStatus,
    LakeFileError,
    NotPublishedError,
    QueryError,
    QueryResult,
    Row,
    Snapshot,
    SnapshotLoad,
    WarehouseBusyError,
    WarehouseDamagedError,
    WarehouseError,
    WarehouseFullError,
    WarehouseVersionError,
)
from resources.warehouse.state.auditor import Auditor, Findings, Overlooked
from resources.warehouse.warehouse import Warehouse

__all__ = [
    "KEEP_REPLACED",
    "Applied",
    "Audit",
    "Auditor",
    "Comparison",
    "ConvertedFile",
    "FaultyFile",
    "Findings",
    "HourAudit",
    "HourLoad",
    "HourStatus",
    "LakeFileError",
    "Ledger",
    "Merge",
    "Moved",
    "Named",
    "NotPublishedError",
    "Overlooked",
    "Part",
    "Prepared",
    "Publication",
    "QueryError",
    "QueryResult",
    "Row",
    "Snapshot",
    "SnapshotLoad",
    "Warehouse",
    "WarehouseBusyError",
    "WarehouseDamagedError",
    "WarehouseError",
    "WarehouseFullError",
    "WarehouseVersionError",
    "named",
    "named_in",
    "next_text",
    "remove_code",
]
