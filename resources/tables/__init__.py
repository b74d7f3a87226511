"""Table declarations, with names, Arrow types, descriptions, keys, and paths of values in the service's records.

Arrow schemas, DuckDB tables and comments, Dagster column schemas, checks and the data dictionary are derived from these
declarations. This package depends only on pyarrow.
"""

from resources.tables.articles import ARTICLE_BODIES as ARTICLE_BODIES
from resources.tables.articles import ARTICLE_CHANGES as ARTICLE_CHANGES
from resources.tables.articles import ARTICLES as ARTICLES
from resources.tables.articles import LOOKUPS as LOOKUPS
from resources.tables.articles import SNAPSHOT_ARTICLES as SNAPSHOT_ARTICLES
from resources.tables.articles import VISIBILITY_CHANGES as VISIBILITY_CHANGES
from resources.tables.articles import ChangeType as ChangeType
from resources.tables.articles import Purpose as Purpose
from resources.tables.declaration import TIMESTAMP as TIMESTAMP
from resources.tables.declaration import Column as Column
from resources.tables.declaration import Table as Table
from resources.tables.declaration import version_of as version_of
from resources.tables.entities import ENTITIES as ENTITIES
from resources.tables.ledger import COMPACTED_FILES as COMPACTED_FILES
from resources.tables.ledger import COVERED as COVERED
from resources.tables.ledger import HOURS as HOURS
from resources.tables.ledger import LOADS as LOADS
from resources.tables.ledger import NO_SNAPSHOT as NO_SNAPSHOT
from resources.tables.ledger import PROJECT_STATE as PROJECT_STATE
from resources.tables.ledger import RECHECKS as RECHECKS
from resources.tables.ledger import REJECTED_LINES as REJECTED_LINES
from resources.tables.ledger import REJECTS as REJECTS
from resources.tables.ledger import SNAPSHOTS as SNAPSHOTS
from resources.tables.ledger import HourState as HourState
