"""Dataset declarations, with the service's endpoint and the table for each dataset.

Requests, quota, paths, conversion, ledger, loads, coverage, checks, Dagster definitions, the data dictionary, and the
commands that list and fetch data are derived from these declarations. Code for a single dataset, such as the current
articles or the planning of chunks within a quota, belongs elsewhere. This package imports only the tables.
"""

import copyreg
import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from resources.datasets.live import LIVE_CHANGES
from resources.tables import Table, articles, entities, ledger, reference, structured, views

#: Time for which the service retains an hour's files.
RETENTION: Final = timedelta(hours=48)
#: Age at which a missing hour needs attention. The service publishes an hour a few minutes after the hour ends.
LATE: Final = timedelta(hours=4)

#: Maximum time by which an event can be later than its hour, snapshot or lookup. Records with a later event are
#: rejected, because their date is wrong: as a page's newest state, they would hide all later edits.
AHEAD: Final = timedelta(days=1)


def last_complete_hour(now: datetime) -> datetime:
    """Return the newest hour that has ended. The service lists the hour's files a few minutes later."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)


class Family(enum.StrEnum):
    """Kind of a dataset's endpoint, which determines the dataset's partitions."""

    LIST = "list"  # one JSON array, which is replaced completely; no partitions
    HOURLY = "hourly"  # an archive per project and namespace, listed by hour; partitioned by hour
    SNAPSHOT = "snapshot"  # an archive or chunks per project and namespace; partitioned by snapshot identifier
    LOOKUP = "lookup"  # single pages, requested individually; no partitions


#: Columns whose values the archive determines. Every table in the family has these columns.
_GIVEN: dict[Family, tuple[str, ...]] = {
    Family.LIST: (),
    Family.HOURLY: ("batch_hour", "project_id", "namespace_id"),
    Family.SNAPSHOT: ("snapshot_id", "snapshot_version", "project_id", "namespace_id"),
    Family.LOOKUP: ("source_at", "project_id", "namespace_id"),
}


@dataclass(frozen=True)
class Uniqueness:
    """Rule for duplicate rows, expressed as SQL that uses columns, `title` (the name with spaces) and shared formulas.

    Rows are duplicates if their `key` (never null) and `further` are equal. `further` is for expressions that are slow
    or can be null. Among duplicate rows, the first row in `newest_first` order is used.
    """

    key: tuple[str, ...]
    newest_first: tuple[str, ...] = ()
    further: tuple[str, ...] = ()


#: Default columns that order rows with the same key, unless a dataset declares another rule.
_NEWEST = ("event_at", "version_id")


@dataclass(frozen=True, eq=False)  # each dataset is declared once, so equality is identity
class Dataset:
    """A dataset that the service offers.

    Attributes:
        table: Table for the records in the lake and the warehouse. The dataset has the same name as the table.
        family: Kind of endpoint.
        endpoint: Endpoint path under `/v2/`, for example `batches`.
        archive: Folder under `archive/`, and the last part of the archive asset's key. Lists share `reference`.
        description: Human-readable description of the archive asset's content.
        is_chunked: True if the service also offers snapshots in chunks (snapshots only).
        quota: `get-user` counter that a file consumes, or None if files are free.
        chunk_quota: `get-user` counter that a chunk consumes.
        bodies: View in the published file with the body columns, which stay in the lake, or None if no view exists.
            Hours and snapshots can share a view.
        derived: Tables derived from `bodies`, each defined in its own SQL file.
        native: Derived tables that a load stores. All other derived tables are views.
        state: Current-state table that the rows determine, or None (hours and snapshots only).
        stream: Lake folder with the same events from the realtime stream, or None (hours only).
        rows_stay_in_lake: True if DuckDB stores only the rows that determine the state.
        leaves_warehouse: True if DuckDB stores an hour's rows only until its month is compacted.
        unique: Rule for duplicates within an hourly file or among a snapshot's files. If None, the table's key is used.
        body_of: Columns that identify a body. Rows with the same values in these columns share one body if they belong
            to the same project and hour, even in different files. If empty, each row has a separate body.
        compacted_by: Columns by which compacted files are sorted, after the project (hours only).
        places: Fixed (project, namespace) pairs of a dataset that is mirrored only on request. If empty, the configured
            pairs are mirrored.
    """

    table: Table
    family: Family
    endpoint: str
    archive: str
    description: str
    is_chunked: bool = False
    quota: str | None = None
    chunk_quota: str | None = None
    bodies: Table | None = None
    derived: tuple[Table, ...] = ()
    native: tuple[Table, ...] = ()
    state: Table | None = None
    stream: str | None = None
    rows_stay_in_lake: bool = False
    leaves_warehouse: bool = False
    unique: Uniqueness | None = None
    body_of: tuple[str, ...] = ()
    compacted_by: tuple[str, ...] = ()
    places: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def views(self) -> tuple[Table, ...]:
        """Tables that are derived from page text at query time."""
        return tuple(table for table in self.derived if table not in self.native)

    @property
    def given(self) -> tuple[str, ...]:
        """Columns whose values the archive determines. A record with a different value is rejected."""
        return _GIVEN[self.family]

    @property
    def uniqueness(self) -> Uniqueness:
        """Rule for duplicate rows, either declared or derived from the table's key."""
        if self.unique is not None:
            return self.unique
        key = tuple(f'"{name}"' for name in self.table.key if name not in self.given)
        order = tuple(f'"{name}" DESC NULLS LAST' for name in _NEWEST if name in self.table.schema.names)
        return Uniqueness(key, order)


LISTS = tuple(
    Dataset(
        table,
        Family.LIST,
        endpoint=table.name,
        archive="reference",
        description="The service's reference lists, as served. These lists rarely change.",
    )
    for table in reference.REFERENCE_TABLES
)
ARTICLE_CHANGES = Dataset(
    articles.ARTICLE_CHANGES,
    Family.HOURLY,
    endpoint="batches",
    archive="batches",
    description="Verified hourly files from the service, containing changed articles.",
    bodies=articles.ARTICLE_BODIES,
    state=articles.ARTICLES,
    stream=LIVE_CHANGES,
    # both rows of a page move have the same event; rows without an event are compared in full
    unique=Uniqueness(
        key=("coalesce(event_id, '')", "title"),
        further=("event_id", "CASE WHEN event_id IS NULL THEN {row_digest} END"),
        newest_first=("event_at DESC", "version_id DESC", "change_type = 'update' DESC", "{row_digest} DESC"),
    ),
    body_of=("article_id", "version_id"),
    compacted_by=("article_id", "version_id"),
    leaves_warehouse=True,
)
SNAPSHOT_ARTICLES = Dataset(
    articles.SNAPSHOT_ARTICLES,
    Family.SNAPSHOT,
    endpoint="snapshots",
    archive="snapshots",
    description="Verified snapshots of complete projects from the service.",
    bodies=articles.ARTICLE_BODIES,
    rows_stay_in_lake=True,
    unique=Uniqueness(
        key=("article_id", "version_id"),
        newest_first=("event_at DESC", "change_type <> 'delete' DESC", "{event_key_of_snapshot} DESC"),
    ),
    is_chunked=True,
    quota="snapshot",
    chunk_quota="chunk",
    state=articles.ARTICLES,
)
STRUCTURED_ARTICLES = Dataset(
    structured.STRUCTURED_ARTICLES,
    Family.SNAPSHOT,
    endpoint="snapshots/structured-contents",
    archive="structured_contents",
    description="Verified structured contents snapshots (a project's parsed articles) from the service.",
    bodies=structured.STRUCTURED_BODIES,
    derived=structured.STRUCTURED_VIEWS,
    native=(structured.INFOBOX_FIELDS,),
)
#: Items and properties. Undocumented details of Wikidata's files (above all their identifiers) are assumed to be the
#: same as for article files.
WIKIDATA = (("wikidatawiki", 0), ("wikidatawiki", 120))
ENTITY_CHANGES = Dataset(
    entities.ENTITY_CHANGES,
    Family.HOURLY,
    endpoint="batches/wikidata",
    archive="wikidata_batches",
    description="Verified hourly files from the service, containing changed Wikidata items and properties.",
    bodies=entities.ENTITY_BODIES,
    state=entities.ENTITIES,
    places=WIKIDATA,
    compacted_by=("entity_id", "event_at"),
)
SNAPSHOT_ENTITIES = Dataset(
    entities.SNAPSHOT_ENTITIES,
    Family.SNAPSHOT,
    endpoint="snapshots/wikidata",
    archive="wikidata_snapshots",
    description="Verified snapshots of all Wikidata items and properties from the service.",
    bodies=entities.ENTITY_BODIES,
    state=entities.ENTITIES,
    places=WIKIDATA,
    derived=entities.ENTITY_VIEWS,
    is_chunked=True,
    quota="snapshot",
    chunk_quota="chunk",
)
LOOKUPS = Dataset(
    articles.LOOKUPS,
    Family.LOOKUP,
    endpoint="articles",
    archive="lookups",
    description="The service's responses to page lookups.",
    quota="ondemand",
)
_declared: list[Dataset] = [
    *LISTS,
    ARTICLE_CHANGES,
    SNAPSHOT_ARTICLES,
    STRUCTURED_ARTICLES,
    ENTITY_CHANGES,
    SNAPSHOT_ENTITIES,
    LOOKUPS,
]


def datasets(family: Family | None = None) -> tuple[Dataset, ...]:
    """Return all datasets, or all datasets in a family, in declaration order."""
    return tuple(one for one in _declared if family in (None, one.family))


def default(family: Family) -> Dataset:
    """Return a family's default dataset for commands, which is the first declared dataset."""
    return datasets(family)[0]


def named(name: str) -> Dataset:
    """Return the dataset with this name. Raises KeyError if no such dataset exists."""
    return {one.name: one for one in _declared}[name]


def base_of(dataset: Dataset) -> Dataset | None:
    """Return the snapshot dataset that determines the same state as this hourly dataset, or None."""
    snapshots = datasets(Family.SNAPSHOT) if dataset.state is not None else ()
    return next((one for one in snapshots if one.state is dataset.state), None)


def _by_name(dataset: Dataset) -> tuple[Callable[[str], Dataset], tuple[str]]:
    return named, (dataset.name,)


# datasets are pickled by name, so that another process uses its own declaration
copyreg.pickle(Dataset, _by_name)


def tables() -> tuple[Table, ...]:
    """Return all tables, including dataset tables, in the order of the data dictionary."""
    own = (
        table for one in _declared for table in (one.state, one.table, one.bodies, *one.derived) if table is not None
    )
    found = (
        articles.ARTICLES,
        articles.ARTICLE_CHANGES,
        articles.ARTICLE_BODIES,
        articles.SNAPSHOT_ARTICLES,
        ledger.SNAPSHOTS,
        articles.REDIRECTS,
        *reference.REFERENCE_TABLES,
        *own,
        ledger.HOURS,
        ledger.PROJECT_STATE,
        ledger.LOADS,
        ledger.COMPACTED_FILES,
        ledger.REJECTS,
        articles.VISIBILITY_CHANGES,
        *views.LIVE_VIEWS,
        *views.STREAM_VIEWS,
        *views.QUESTIONS,
        ledger.ABOUT,
    )
    return tuple(dict.fromkeys(found))
