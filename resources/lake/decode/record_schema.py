"""The schema of a record, derived from a table's declaration."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resources.tables import Column, Table

#: Below this a double holds every whole number, and stands for no other one.
EXACT_DOUBLE = 2**53


@dataclass
class Node:
    """One place in a record: an object with known fields, a list, or a leaf.

    Exactly one of `fields`, `element`, `leaf` and `json` is set. `whole` marks a leaf that is parsed as a double but
    must be a whole number. `json` is any value, kept as it is written.
    """

    fields: dict[str, Node] | None = None
    element: Node | None = None
    leaf: pa.DataType | None = None
    whole: bool = False
    json: bool = False

    def type(self, *, plain: bool) -> pa.DataType:
        """The Arrow type to parse this place as.

        With `plain` it takes only what is plainly as declared: whole numbers without a point, and times as text, which
        are cast only where they have a zone.
        """
        if self.fields is not None:
            parsed = {name: node for name, node in self.fields.items() if not node.json}
            return pa.struct([pa.field(name, node.type(plain=plain)) for name, node in parsed.items()])
        if self.element is not None:
            return pa.list_(self.element.type(plain=plain))
        if plain and self.whole:
            return pa.int64()
        return pa.string() if plain and pa.types.is_timestamp(self.leaf) else self.leaf


@dataclass(frozen=True)
class RecordSchema:
    """The mapping from records to the rows of one table.

    `schema` is the schema of records, and `plain` that of the simplest ones. No record has fewer than `least_bytes`
    bytes: a required value would be missing. `paths` are the places of the columns that are parsed, and `json` those of
    the columns that are stored as JSON text.
    """

    table: Table
    root: Node
    schema: pa.Schema
    plain: pa.Schema
    least_bytes: int
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    json: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the table's columns that are in the record, taken from the parsed record.

        Raises:
            pa.ArrowInvalid: A value cannot be cast to its column's type without loss.
        """
        objects: dict[tuple[str, ...], dict[str, pa.Array]] = {
            (): {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
        }

        found = {}
        for name, path in self.paths.items():
            array, column = _inside(objects, path[:-1])[path[-1]], self.table[name]
            if column.wire is not None:
                _require_exact(array)
            found[name] = pc.cast(array, column.type)
        return found


def _inside(objects: dict[tuple[str, ...], dict[str, pa.Array]], path: tuple[str, ...]) -> dict[str, pa.Array]:
    """Return the members of the object at a path.

    This is no closure, because a recursive closure keeps all arrays until the next garbage collection.
    """
    if path not in objects:
        parent = _inside(objects, path[:-1])[path[-1]]
        # flatten() carries the parent's nulls into the children
        objects[path] = dict(zip((item.name for item in parent.type), parent.flatten(), strict=True))
    return objects[path]


def _require_exact(array: pa.Array) -> None:
    """Raise pa.ArrowInvalid for numbers that a double cannot tell from others."""
    found = pc.min_max(array).as_py()
    if found["max"] is not None and not -EXACT_DOUBLE < found["min"] <= found["max"] < EXACT_DOUBLE:
        raise pa.ArrowInvalid("a number is beyond the whole numbers that a double holds exactly")


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
    schema, plain = (pa.schema(root.type(plain=plain)) for plain in (False, True))
    return RecordSchema(table, root, schema, plain, _least_bytes(table), paths, json_paths)


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
