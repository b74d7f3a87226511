"""The datasets that there are."""

from __future__ import annotations

import copyreg
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import resources.tables as declared
from resources.datasets.declaration import Dataset, Family, Uniqueness
from resources.datasets.live import LIVE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resources.tables import Table

LISTS = tuple(
    Dataset(
        table,
        Family.LIST,
        endpoint=table.name,
        archive="reference",
        description="The service's reference lists as served. They change rarely.",
    )
    for table in declared.REFERENCE_TABLES
)
ARTICLE_CHANGES = Dataset(
    declared.ARTICLE_CHANGES,
    Family.HOURLY,
    endpoint="batches",
    archive="batches",
    description="The service's hourly files of changed articles, verified.",
    bodies=declared.ARTICLE_BODIES,
    state=declared.ARTICLES,
    stream=LIVE_CHANGES,
    # both halves of a move share the event; a row without an event is compared in full
    unique=Uniqueness(
        key=("coalesce(event_id, '')", "title"),
        further=("event_id", "CASE WHEN event_id IS NULL THEN {row_digest} END"),
        newest_first=("event_at DESC", "version_id DESC", "change_type = 'update' DESC", "{row_digest} DESC"),
    ),
    body_of=("article_id", "version_id"),
    leaves_warehouse=True,
)
SNAPSHOT_ARTICLES = Dataset(
    declared.SNAPSHOT_ARTICLES,
    Family.SNAPSHOT,
    endpoint="snapshots",
    archive="snapshots",
    description="The service's snapshots of whole projects, verified.",
    bodies=declared.ARTICLE_BODIES,
    rows_stay_in_lake=True,
    unique=Uniqueness(
        key=("article_id", "version_id"),
        newest_first=("event_at DESC", "change_type <> 'delete' DESC", "{event_key_of_snapshot} DESC"),
    ),
    is_chunked=True,
    quota="snapshot",
    chunk_quota="chunk",
    state=declared.ARTICLES,
)
STRUCTURED_ARTICLES = Dataset(
    declared.STRUCTURED_ARTICLES,
    Family.SNAPSHOT,
    endpoint="snapshots/structured-contents",
    archive="structured_contents",
    description="The service's snapshots of structured contents, verified: the articles of a project, parsed.",
    bodies=declared.STRUCTURED_BODIES,
    derived=declared.STRUCTURED_VIEWS,
    native=(declared.INFOBOX_FIELDS,),
)
#: Items and properties. What no public text says of Wikidata's files, their identifiers above all, is as for articles.
WIKIDATA = (("wikidatawiki", 0), ("wikidatawiki", 120))
ENTITY_CHANGES = Dataset(
    declared.ENTITY_CHANGES,
    Family.HOURLY,
    endpoint="batches/wikidata",
    archive="wikidata_batches",
    description="The service's hourly files of changed items and properties of Wikidata, verified.",
    bodies=declared.ENTITY_BODIES,
    state=declared.ENTITIES,
    places=WIKIDATA,
)
SNAPSHOT_ENTITIES = Dataset(
    declared.SNAPSHOT_ENTITIES,
    Family.SNAPSHOT,
    endpoint="snapshots/wikidata",
    archive="wikidata_snapshots",
    description="The service's snapshots of all items and properties of Wikidata, verified.",
    bodies=declared.ENTITY_BODIES,
    state=declared.ENTITIES,
    places=WIKIDATA,
    derived=declared.ENTITY_VIEWS,
    is_chunked=True,
    quota="snapshot",
    chunk_quota="chunk",
)
LOOKUPS = Dataset(
    declared.LOOKUPS,
    Family.LOOKUP,
    endpoint="articles",
    archive="lookups",
    description="The service's answers about single pages that were looked up.",
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
    """Return all datasets, or all of a family, in the order of their declaration."""
    return tuple(one for one in _declared if family in (None, one.family))


def named(name: str) -> Dataset:
    """The dataset of this name. Raises KeyError where there is none."""
    return {one.name: one for one in _declared}[name]


def base_of(dataset: Dataset) -> Dataset | None:
    """The snapshots that the hours of a dataset follow: those that decide the same state. None: there are none."""
    snapshots = datasets(Family.SNAPSHOT) if dataset.state is not None else ()
    return next((one for one in snapshots if one.state is dataset.state), None)


def _by_name(dataset: Dataset) -> tuple[Callable[[str], Dataset], tuple[str]]:
    return named, (dataset.name,)


# in another process a dataset is the one that is declared there
copyreg.pickle(Dataset, _by_name)


def tables() -> tuple[Table, ...]:
    """Return all tables, including the datasets' own, in the order of the dictionary."""
    own = dict.fromkeys(
        table
        for one in _declared
        if one not in (*LISTS, ARTICLE_CHANGES, SNAPSHOT_ARTICLES)
        for table in (*filter(None, [one.state]), one.table, *filter(None, [one.bodies]), *one.derived)
    )
    return (
        declared.ARTICLES,
        declared.ARTICLE_CHANGES,
        declared.ARTICLE_BODIES,
        declared.SNAPSHOT_ARTICLES,
        declared.SNAPSHOTS,
        declared.REDIRECTS,
        *declared.REFERENCE_TABLES,
        *own,
        declared.HOURS,
        declared.PROJECT_STATE,
        declared.LOADS,
        declared.COMPACTED_FILES,
        declared.REJECTS,
        declared.VISIBILITY_CHANGES,
        *declared.LIVE_VIEWS,
        *declared.STREAM_VIEWS,
        *declared.QUESTIONS,
        declared.ABOUT,
    )


@contextmanager
def also(*more: Dataset) -> Iterator[None]:
    """Declare further datasets within the context: all that is built in it includes them.

    Raises:
        ValueError: A table, or the folder of an archive, is another dataset's already.
    """
    names = Counter(table.name for table in (*tables(), *(one.table for one in more)))
    folders = Counter(one.archive for one in (*_declared, *more) if one.family is not Family.LIST)
    if twice := [name for counted in (names, folders) for name, count in counted.items() if count > 1]:
        raise ValueError(f"Declared twice: {', '.join(twice)}.")
    before = list(_declared)
    _declared.extend(more)
    try:
        yield
    finally:
        _declared[:] = before
