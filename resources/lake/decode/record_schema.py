"""Record schema and row rules, both derived from a table's declaration, and their representation for decode.c."""

from __future__ import annotations

import ctypes
import datetime as dt
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from resources.tables import TIMESTAMP, Column, Table

#: A double represents every integer below this limit exactly and unambiguously.
EXACT_DOUBLE = 2**53


@dataclass
class Node:
    """A value in a record, which is an object with known fields, a list, or a leaf.

    Exactly one of `fields`, `element`, `leaf` and `json` is set. `whole` marks an integer that the service writes as a
    double. `json` marks a value of any type that is stored as JSON text.
    """

    fields: dict[str, Node] | None = None
    element: Node | None = None
    leaf: pa.DataType | None = None
    whole: bool = False
    json: bool = False

    @property
    def type(self) -> pa.DataType:
        """Arrow type of this value, without fields that are stored as JSON."""
        if self.fields is not None:
            return pa.struct([(name, node.type) for name, node in self.fields.items() if not node.json])
        if self.element is not None:
            return pa.list_(self.element.type)
        return pa.int64() if self.whole else self.leaf


@dataclass(frozen=True)
class RecordSchema:
    """Mapping from records to a table's rows.

    `type` is the Arrow type of records. `least_bytes` is the size of the shortest record with all required values.
    `paths` maps columns to their paths in a record, and `json` does the same for columns stored as JSON text.
    """

    root: Node
    type: pa.StructType
    least_bytes: int
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    json: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def columns(self, records: list[dict[str, Any]]) -> dict[str, pa.Array]:
        """Return the columns that have a path in the records. `records` contains results of `strict.declared`."""
        objects = pa.array(records, self.type)
        return {name: pc.struct_field(objects, path) for name, path in self.paths.items()}


def node_of(declared: pa.DataType, *, whole: bool = False) -> Node:
    """Return the node for a value of this type. See `Node` for `whole`."""
    if pa.types.is_struct(declared):
        return Node(fields={item.name: node_of(item.type) for item in declared})
    if pa.types.is_list(declared):
        return Node(element=node_of(declared.value_type))
    return Node(leaf=declared, whole=whole)


@cache
def record_schema_of(table: Table) -> RecordSchema:
    """Return the record schema for `table`."""
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
    return RecordSchema(root, root.type, _least_bytes(table), paths, json_paths)


def _least_bytes(table: Table) -> int:
    """Return the size in bytes of the shortest record with all required values."""
    needed = [column for column in table if column.required and column.default is None]
    paths = [column for column in needed if column.path is not None]
    # a column with several sources needs only one source
    sources = next(([table[name] for name in column.first_of] for column in needed if column.first_of), [])
    return min((len(_shortest([*paths, one])) for one in sources), default=len(_shortest(paths)))


def _shortest(columns: Iterable[Column]) -> bytes:
    """Return a record with the shortest possible value of each column."""
    record: dict[str, Any] = {}
    for column in columns:
        *parents, last = (column.path or "").split(".")
        place = record
        for part in parents:
            place = place.setdefault(part, {})
        is_text, is_time = pa.types.is_string(column.type), pa.types.is_timestamp(column.type)
        place[last] = "" if is_text else "0001-01-01" if is_time else 0
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def value_at(record: Mapping[str, Any], way: Iterable[str]) -> Any:
    """Return the value at a path in a record whose objects match the declaration, or None if the value is missing."""
    value: Any = record
    for name in way:
        value = None if value is None else value.get(name)
    return value


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: Range of Python's datetime, because Python programs cannot read other times.
_YEARS = (
    (pc.greater_equal, dt.datetime.min.replace(tzinfo=dt.UTC)),
    (pc.less_equal, dt.datetime.max.replace(tzinfo=dt.UTC)),
)
#: Suffix of the reject reason if a record's project or namespace differs from the archive's.
OF_ANOTHER = ", which the archive is of."
#: The column that orders the states of a page.
_EVENT_AT = "event_at"


@dataclass(frozen=True)
class Rules:
    """Rules that rows of `table` must satisfy; see `RecordReader` for `given` and `latest`."""

    table: Table
    given: Mapping[str, str | int | dt.datetime]
    latest: dt.datetime | None

    @cached_property
    def expected(self) -> dict[str, str | int]:
        """Archive values that records must not contradict. Times are in microseconds since 1970."""
        return {
            name: _micros(value) if isinstance(value, dt.datetime) else value
            for name, value in self.given.items()
            if self.table[name].path is not None
        }

    @cached_property
    def most(self) -> dict[str, int]:
        """Maximum value per column in a record. Times are in microseconds since 1970."""
        is_bound = self.latest is not None and _EVENT_AT in self.table.schema.names
        return {_EVENT_AT: _micros(self.latest)} if is_bound and self.latest is not None else {}

    def complete(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Add default values, and columns that are derived from other columns."""
        columns |= {c.name: pc.fill_null(columns[c.name], c.default) for c in self.table if c.default is not None}
        return columns | {c.name: pc.coalesce(*(columns[s] for s in c.first_of)) for c in self.table if c.first_of}

    def problems(self, columns: dict[str, pa.Array], count: int) -> pa.DictionaryArray:
        """Return a sentence for each of `count` rows that breaks a rule, and null for every other row."""
        found = pa.nulls(count, pa.int32())
        sentences: list[str] = []

        def mark(bad: pa.BooleanArray, sentence: str) -> None:
            nonlocal found
            fresh = pc.and_(pc.is_null(found), pc.fill_null(bad, False))
            if pc.any(fresh).as_py():
                found = pc.if_else(fresh, pa.scalar(len(sentences), found.type), found)
                sentences.append(sentence)

        declared = [(c, columns[c.name]) for c in self.table if c.name in columns and (c.path or c.first_of)]
        for column, array in declared:
            if column.required and array.null_count:
                mark(pc.is_null(array), self._lacking(column))
        for column, array in declared:
            if column.required and column.lookup and pa.types.is_string(column.type):
                mark(pc.equal(array, ""), f"{column.path or column.name} is empty.")
        for column, array in declared:
            if (expected := self.given.get(column.name)) is not None:
                differs = pc.not_equal(array, pa.scalar(expected, column.type))
                mark(differs, f"{column.path} is not {expected}{OF_ANOTHER}")
        for column, array in declared:
            if column.values:
                known = pc.is_in(array, value_set=pa.array([*column.values, None], column.type))
                mark(pc.invert(known), f"{column.path or column.name} is not one of {', '.join(column.values)}.")
        for name in self.most:
            column = self.table[name]
            mark(
                pc.greater(columns[name], pa.scalar(self.latest, column.type)),
                f"The first of {', '.join(self._paths(column))} is after {self.latest:%Y-%m-%d %H:%M:%S} UTC, more "
                "than a day after the record was archived or received.",
            )
        for name, array in columns.items():
            for values in _times(array):
                is_within = pc.and_(*(compare(values, pa.scalar(end, values.type)) for compare, end in _YEARS))
                mark(pc.invert(is_within), f"{name} is not within the years 1 to 9999 (UTC).")
        return pa.DictionaryArray.from_arrays(found, pa.array(sentences, pa.string()))

    def lacking_in(self, record: Mapping[str, Any]) -> str:
        """Return the reject reason for a record that matches the declared types but lacks a required value."""
        return next(
            self._lacking(column)
            for column in self.table
            if column.required and column.default is None and (column.path or column.first_of)
            if all(value_at(record, path.split(".")) is None for path in self._paths(column))
        )

    def _lacking(self, column: Column) -> str:
        what = column.path or f"each of {', '.join(self._paths(column))}"
        return f"{what} is missing, and no row can be without it."

    def _paths(self, column: Column) -> list[str]:
        """Return the paths of a column's values in a record."""
        return [column.path] if column.path else [self.table[name].path or name for name in column.first_of]


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamp arrays of an array, including those inside objects."""
    if array.null_count == len(array):
        return
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for inner in array.flatten():
            yield from _times(inner)


def _micros(moment: dt.datetime) -> int:
    """Return the microseconds since 1970."""
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


_ROUTE, _STRUCT, _LIST, _TEXT, _INTEGER, _DOUBLE, _WHOLE, _BOOL, _TIME = range(9)
_KINDS = {pa.string(): _TEXT, pa.int64(): _INTEGER, pa.float64(): _DOUBLE, pa.bool_(): _BOOL, TIMESTAMP: _TIME}
_REQUIRED, _NOT_EMPTY, _DISCARD, _DEFAULT, _JSON = (1 << bit for bit in range(5))
#: Maximum number of bytes in a field name that the decoder supports.
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
    """A table in the decoder's format: the record's node, then its descendants, with siblings next to each other.

    Raises ValueError if the decoder does not support a column's type or a field's name.
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
        """Add the descendants of the node at `place`, level by level."""
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
        # decode.c expects the default first
        for value in sorted({*column.values, *filter(None, [column.default])}, key=lambda one: one != column.default):
            self._name(value)
        node.first_source, node.source_count = len(self.sources), len(column.first_of)
        if column.first_of and pa.types.is_nested(column.type):
            raise ValueError(f"The column {column.name} cannot be the first of several objects or lists.")
        self.sources += [self.places[name] for name in column.first_of]
        # a required column without a path or sources gets its value from the archive
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
