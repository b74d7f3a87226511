"""The form of a record, derived from a table's declaration."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from resources.tables import Table

#: Below this a double holds every whole number, and stands for no other one.
EXACT_DOUBLE = 2**53


@dataclass
class Node:
    """One place in a record: an object with known fields, a list, or a leaf.

    Exactly one of `fields`, `element`, `leaf` and `json` is set. `whole` marks a leaf that is parsed as a double but must be a
    whole number. `json` is any value, kept as it is written.
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
class Shape:
    """How records become rows of one table: `schema` is that of records, and `plain` that of the plainest ones.

    `paths` are those of the columns that are parsed, `json` those of the columns that are kept as they are written.
    """

    table: Table
    root: Node
    schema: pa.Schema
    plain: pa.Schema
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    json: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The table's columns that stand in the record, taken out of the parsed record.

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
    """The members of the object at a path. No closure: one that calls itself keeps all arrays until the next garbage collection."""
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
def shape_of(table: Table) -> Shape:
    """The form of the records that `table` is made of."""
    root = Node(fields={})
    paths: dict[str, tuple[str, ...]] = {}
    json: dict[str, tuple[str, ...]] = {}
    for column in table:
        if column.path is None:
            continue
        *parents, last = (json if column.json else paths)[column.name] = tuple(column.path.split("."))
        node = root
        for part in parents:
            assert node.fields is not None
            node = node.fields.setdefault(part, Node(fields={}))
        assert node.fields is not None
        whole = column.wire is not None and pa.types.is_integer(column.type)
        node.fields[last] = Node(json=True) if column.json else node_of(column.wire or column.type, whole=whole)
    assert root.fields is not None
    return Shape(table, root, pa.schema(root.type(plain=False)), pa.schema(root.type(plain=True)), paths, json)
