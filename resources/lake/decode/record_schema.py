"""The schema of a record, derived from a table's declaration."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resources.tables import Column, Table

#: Below this a double holds every whole number, and stands for no other one.
EXACT_DOUBLE = 2**53


@dataclass
class Node:
    """One place in a record: an object with known fields, a list, or a leaf.

    Exactly one of `fields`, `element`, `leaf` and `json` is set. `whole` marks a whole number that the service writes
    as a double. `json` is any value, kept as it is written.
    """

    fields: dict[str, Node] | None = None
    element: Node | None = None
    leaf: pa.DataType | None = None
    whole: bool = False
    json: bool = False

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of this place, without values that are kept as JSON."""
        if self.fields is not None:
            return pa.struct([(name, node.type) for name, node in self.fields.items() if not node.json])
        if self.element is not None:
            return pa.list_(self.element.type)
        return pa.int64() if self.whole else self.leaf


@dataclass(frozen=True)
class RecordSchema:
    """The mapping from records to the rows of one table.

    `type` is the Arrow type of records. Every record has at least `least_bytes` bytes, with its required values.
    `paths` are the places of the columns in a record, and `json` those of the columns that are stored as JSON text.
    """

    table: Table
    root: Node
    type: pa.StructType
    least_bytes: int
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    json: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def columns(self, records: list[dict[str, Any]]) -> dict[str, pa.Array]:
        """Return the table's columns that are in the records, whose values are as `strict.declared` returns them."""
        objects: dict[tuple[str, ...], dict[str, pa.Array]] = {(): _members(pa.array(records, self.type))}
        return {name: _inside(objects, path[:-1])[path[-1]] for name, path in self.paths.items()}


def _inside(objects: dict[tuple[str, ...], dict[str, pa.Array]], path: tuple[str, ...]) -> dict[str, pa.Array]:
    """Return the members of the object at a path.

    This is no closure, because a recursive closure keeps all arrays until the next garbage collection.
    """
    if path not in objects:
        parent = _inside(objects, path[:-1])[path[-1]]
        objects[path] = _members(parent)
    return objects[path]


def _members(objects: pa.StructArray) -> dict[str, pa.Array]:
    # flatten() carries the parent's nulls into the children
    return dict(zip((item.name for item in objects.type), objects.flatten(), strict=True))


def node_of(declared: pa.DataType, *, whole: bool = False) -> Node:
    """The form of a value of this type; `whole` as in Node."""
    if pa.types.is_struct(declared):
        return Node(fields={item.name: node_of(item.type) for item in declared})
    if pa.types.is_list(declared):
        return Node(element=node_of(declared.value_type))
    return Node(leaf=declared, whole=whole)


@cache
def record_schema_of(table: Table) -> RecordSchema:
    """The form of the records that `table` is made of."""
    root = Node(fields={})
    paths: dict[str, tuple[str, ...]] = {}
    json_paths: dict[str, tuple[str, ...]] = {}
    for column in table:
        if column.path is None:
            continue
        *parents, last = (json_paths if column.json else paths)[column.name] = tuple(column.path.split("."))
        node = root
        for part in parents:
            assert node.fields is not None
            node = node.fields.setdefault(part, Node(fields={}))
        assert node.fields is not None
        whole = column.wire is not None and pa.types.is_integer(column.type)
        node.fields[last] = Node(json=True) if column.json else node_of(column.wire or column.type, whole=whole)
    assert root.fields is not None
    return RecordSchema(table, root, root.type, _least_bytes(table), paths, json_paths)


def _least_bytes(table: Table) -> int:
    """The bytes of the shortest record that has all that is required."""
    needed = [column for column in table if column.required and column.default is None]
    paths = [column for column in needed if column.path is not None]
    # of those that a column follows from, one is enough
    sources = next(([table[name] for name in column.first_of] for column in needed if column.first_of), [])
    return min((len(_shortest([*paths, one])) for one in sources), default=len(_shortest(paths)))


def _shortest(columns: Iterable[Column]) -> bytes:
    """A record of the least that each column's value can be: every value has a byte at least."""
    record: dict[str, Any] = {}
    for column in columns:
        *parents, last = (column.path or "").split(".")
        place = record
        for part in parents:
            place = place.setdefault(part, {})
        is_text, is_time = pa.types.is_string(column.type), pa.types.is_timestamp(column.type)
        place[last] = "" if is_text else "0001-01-01" if is_time else 0
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
