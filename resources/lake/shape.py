"""The form of a record, derived from a table's declaration.

Belongs here: the nested schema to parse with, the way from the parsed record to the table's columns, and the same form as
a tree for looking at a single record. Does not belong here: any rule about what a value must be beyond its type.
"""

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

    Exactly one of `fields`, `element` and `leaf` is set. `whole` marks a leaf that is parsed as a double but must be a
    whole number.
    """

    fields: dict[str, Node] | None = None
    element: Node | None = None
    leaf: pa.DataType | None = None
    whole: bool = False

    @property
    def type(self) -> pa.DataType:
        """The Arrow type to parse this place as."""
        if self.fields is not None:
            return pa.struct([pa.field(name, node.type) for name, node in self.fields.items()])
        return pa.list_(self.element.type) if self.element is not None else self.leaf


@dataclass(frozen=True)
class Shape:
    """How records become rows of one table."""

    table: Table
    root: Node
    schema: pa.Schema
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The table's columns that stand in the record, taken out of the parsed record.

        Raises:
            pa.ArrowInvalid: A value cannot be cast to its column's type without loss.
        """
        objects: dict[tuple[str, ...], dict[str, pa.Array]] = {
            (): {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
        }

        def inside(path: tuple[str, ...]) -> dict[str, pa.Array]:
            if path not in objects:
                parent = inside(path[:-1])[path[-1]]
                # flatten() carries the parent's nulls into the children
                objects[path] = dict(zip((item.name for item in parent.type), parent.flatten(), strict=True))
            return objects[path]

        found = {}
        for name, path in self.paths.items():
            array, column = inside(path[:-1])[path[-1]], self.table[name]
            found[name] = array if column.wire is None else _whole(array, column.type)
        return found


def _whole(array: pa.Array, declared: pa.DataType) -> pa.Array:
    """Doubles as whole numbers; raises pa.ArrowInvalid for a fraction and for numbers that a double cannot tell apart."""
    greatest = pc.max(pc.abs(array)).as_py()
    if greatest is not None and greatest >= EXACT_DOUBLE:
        raise pa.ArrowInvalid(f"{greatest} is beyond the whole numbers that a double holds exactly")
    return pc.cast(array, declared)


def _node(declared: pa.DataType, *, whole: bool = False) -> Node:
    if pa.types.is_struct(declared):
        return Node(fields={item.name: _node(item.type) for item in declared})
    if pa.types.is_list(declared):
        return Node(element=_node(declared.value_type))
    return Node(leaf=declared, whole=whole)


@cache
def shape_of(table: Table) -> Shape:
    """The form of the records that `table` is made of."""
    root = Node(fields={})
    paths = {}
    for column in table:
        if column.path is None:
            continue
        *parents, last = paths[column.name] = tuple(column.path.split("."))
        node = root
        for part in parents:
            assert node.fields is not None
            node = node.fields.setdefault(part, Node(fields={}))
        assert node.fields is not None
        whole = column.wire is not None and pa.types.is_integer(column.type)
        node.fields[last] = _node(column.wire or column.type, whole=whole)
    assert root.fields is not None
    schema = pa.schema([pa.field(name, node.type) for name, node in root.fields.items()])
    return Shape(table, root, schema, paths)
