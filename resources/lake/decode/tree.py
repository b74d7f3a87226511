"""A table as it is described to the native decoder: nodes, rules and sources, as decode.c reads them."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING

import pyarrow as pa

from resources.lake.decode.record_schema import node_of, record_schema_of
from resources.tables import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resources.lake.decode.record_schema import Node
    from resources.tables import Column, Table

_ROUTE, _STRUCT, _LIST, _TEXT, _INTEGER, _DOUBLE, _WHOLE, _BOOL, _TIME = range(9)
_KINDS = {pa.string(): _TEXT, pa.int64(): _INTEGER, pa.float64(): _DOUBLE, pa.bool_(): _BOOL, TIMESTAMP: _TIME}
_REQUIRED, _NOT_EMPTY, _DISCARD, _DEFAULT, _JSON = (1 << bit for bit in range(5))
#: The longest name of a field that the decoder knows.
_NAME_BYTES_MAX = 48


class Description(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            *("kind", "flags", "first_child", "child_count", "name"),
            *("first_value", "value_count", "first_source", "source_count"),
        )
    ]


class Tree:
    """A table as the decoder wants it: nodes, the children of each one behind another, the record itself first.

    Raises:
        ValueError: A column has a type, or a field a name, that the decoder does not know.
    """

    def __init__(self, table: Table, bodies: frozenset[str]) -> None:
        self.nodes: list[Description] = []
        self.texts: list[bytes] = []
        self.names: list[tuple[int, int]] = []
        self.sources: list[int] = []
        self.routes: dict[int, tuple[str, ...]] = {0: ()}
        self.places: dict[str, int] = {}
        self._length = 0
        shape = record_schema_of(table)
        columns = {path: table[name] for name, path in (shape.paths | shape.json).items()}
        self._add("", _ROUTE)
        self._descend(shape.root, columns)
        for column in table:
            if column.path is None:
                place = self.places[column.name] = self._add("", _kind(node := node_of(column.type)))
                self._descend(node, {}, place)
        self.rules: list[int] = []
        for column in sorted(table, key=lambda column: bool(column.first_of)):
            self._rule(column, bodies)
        self.columns = [self.places[column.name] for column in table]

    def _descend(self, root: Node, columns: Mapping[tuple[str, ...], Column], place: int = 0) -> None:
        """Add the places inside the node at `place`, level by level."""
        waiting: deque[tuple[int, Node, tuple[str, ...]]] = deque([(place, root, ())])
        while waiting:
            number, node, path = waiting.popleft()
            children = {"": node.element} if node.element is not None else node.fields or {}
            self.nodes[number].first_child = len(self.nodes)
            self.nodes[number].child_count = len(children)
            is_route = self.nodes[number].kind == _ROUTE
            for name, child in children.items():
                way = (*path, name)
                column = columns.get(way) if is_route else None
                routed = is_route and column is None
                inner = self._add(name, _ROUTE if routed else _kind(child))
                if routed:
                    self.routes[inner] = way
                elif column is not None:
                    self.places[column.name] = inner
                waiting.append((inner, child, way))

    def _rule(self, column: Column, bodies: frozenset[str]) -> None:
        place = self.places[column.name]
        node = self.nodes[place]
        node.first_value, node.value_count = len(self.names), len(column.values)
        # the default first
        for value in sorted({*column.values, *filter(None, [column.default])}, key=lambda one: one != column.default):
            self._name(value)
        node.first_source, node.source_count = len(self.sources), len(column.first_of)
        if column.first_of and pa.types.is_nested(column.type):
            raise ValueError(f"The column {column.name} cannot be the first of several objects or lists.")
        self.sources += [self.places[name] for name in column.first_of]
        # a required value without another source comes from the archive
        if column.required and (column.path or column.first_of):
            node.flags |= _REQUIRED | (_NOT_EMPTY if column.lookup else 0)
        if column.default is not None:
            node.flags |= _DEFAULT
        if node.flags or column.values or column.first_of:
            self.rules.append(place)
        if column.body and column.name not in bodies:
            node.flags |= _DISCARD
        if column.json:
            node.flags |= _JSON

    def _add(self, name: str, kind: int) -> int:
        self.nodes.append(Description(kind, 0, 0, 0, len(self.names)))
        self._name(name)
        return len(self.nodes) - 1

    def _name(self, name: str) -> None:
        self.texts.append(name.encode())
        if len(self.texts[-1]) > _NAME_BYTES_MAX:
            raise ValueError(f"The name {name} has more than {_NAME_BYTES_MAX} bytes.")
        self.names.append((self._length, len(self.texts[-1])))
        self._length += len(self.texts[-1])


def _kind(node: Node) -> int:
    if node.fields is not None:
        return _STRUCT
    if node.element is not None:
        return _LIST
    if node.json:
        return _TEXT
    if node.leaf not in _KINDS:
        raise ValueError(f"A field of the type {node.leaf} cannot be read.")
    return _WHOLE if node.whole else _KINDS[node.leaf]
