"""The warehouse: the DuckDB build file with loaded rows and current pages, and the published file for analysts.

Code for fetching, converting and scheduling belongs elsewhere. From the bottom up, `database`, `read`, `load`, `state`
with `compaction`, and `views` form layers.
"""

from resources.lake_files import ConvertedFile as ConvertedFile
from resources.warehouse.compaction.commit import Prepared as Prepared
from resources.warehouse.compaction.plan import Merge as Merge
from resources.warehouse.compaction.window import Moved as Moved
from resources.warehouse.database.recovery import remove_code as remove_code
from resources.warehouse.load.snapshots import KEEP_REPLACED as KEEP_REPLACED
from resources.warehouse.publisher import Publication as Publication
from resources.warehouse.publisher import next_text as next_text
from resources.warehouse.read.comparison import Comparison as Comparison
from resources.warehouse.read.ledger import FaultyFile as FaultyFile
from resources.warehouse.read.ledger import Ledger as Ledger
from resources.warehouse.read.ledger import Part as Part
from resources.warehouse.read.ledger import named as named
from resources.warehouse.read.ledger import named_in as named_in
from resources.warehouse.records import Applied as Applied
from resources.warehouse.records import HourLoad as HourLoad
from resources.warehouse.records import HourStatus as HourStatus
from resources.warehouse.records import LakeFileError as LakeFileError
from resources.warehouse.records import NotPublishedError as NotPublishedError
from resources.warehouse.records import QueryError as QueryError
from resources.warehouse.records import QueryResult as QueryResult
from resources.warehouse.records import Row as Row
from resources.warehouse.records import Snapshot as Snapshot
from resources.warehouse.records import SnapshotLoad as SnapshotLoad
from resources.warehouse.records import WarehouseBusyError as WarehouseBusyError
from resources.warehouse.records import WarehouseDamagedError as WarehouseDamagedError
from resources.warehouse.records import WarehouseError as WarehouseError
from resources.warehouse.records import WarehouseFullError as WarehouseFullError
from resources.warehouse.records import WarehouseVersionError as WarehouseVersionError
from resources.warehouse.state.auditor import Auditor as Auditor
from resources.warehouse.state.auditor import Findings as Findings
from resources.warehouse.warehouse import Warehouse as Warehouse
