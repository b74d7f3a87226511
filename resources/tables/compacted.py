"""What compacted files hold: the rows of many lake files, each with its place in the file it came from."""

from __future__ import annotations

from dataclasses import replace

from resources.tables.articles import ARTICLE_CHANGES
from resources.tables.declaration import INT, Column, Table

FILE_ROW = Column(
    "file_row", INT, "Place of the row in the lake file that it was converted into, from 0.", required=True
)
#: A row is found by its page, its revision or its title.
_LOOKED_UP = frozenset({"article_id", "version_id", "name"})


def _compacted(table: Table) -> Table:
    narrow = (replace(column, lookup=column.name in _LOOKED_UP) for column in table if not column.body)
    bodies = (column for column in table if column.body)
    return Table(f"compacted_{table.name}", table.description, (*narrow, FILE_ROW, *bodies))


#: The form of compacted files, by the table whose rows they hold.
COMPACTED = {table.name: _compacted(table) for table in (ARTICLE_CHANGES,)}
#: The order of their rows; unique, since a row's place in its file is.
SORTED_BY = ("project_id", "article_id", "version_id", "batch_hour", "namespace_id", FILE_ROW.name)
