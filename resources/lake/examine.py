"""One line, looked at closely: what is wrong with it, or what it says beyond the declaration.

Belongs here: the slow, exact look at single records that the fast path could not take whole. Its two answers are a
sentence (the line is a reject) and the fields that no column knows (they go to `extra`).
Does not belong here: reading many records quickly.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from resources.lake.shape import EXACT_DOUBLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.lake.shape import Node

#: Stands for "nothing beyond the declaration"; None is a value that a record may hold.
NOTHING: Any = object()
_INT64 = range(-(2**63), 2**63)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d(:?\d\d(:?\d\d(\.\d{1,6})?)?)?)?(Z|[+-]\d\d(:?\d\d)?)?",
    re.ASCII,
)
_TIME_EXPECTED = "a time with at most six digits of a second"
_SHOWN = 60


class Bad(Exception):  # noqa: N818  the line is bad, the program is not in error
    """A line that cannot be converted; its text is the reason."""


def read_record(line: bytes) -> dict[str, Any]:
    """The JSON object of one line, read strictly.

    Raises:
        Bad: The line is not one JSON object in valid UTF-8 with every key once.
    """
    value = read_document(line)
    if not isinstance(value, dict):
        raise Bad(f"A JSON object was expected, not {_kind(value)}.")
    return value


def read_document(data: bytes) -> Any:
    """One JSON document, read strictly: valid UTF-8, every key once, no NaN. Raises Bad otherwise."""
    return _read(data, "utf-8-sig")


def read_value(data: bytes) -> Any:
    """A value from inside a document, read as strictly. Raises Bad where it is none."""
    return _read(data, "utf-8")


def _read(data: bytes, encoding: str) -> Any:
    try:
        return _DECODER.decode(data.decode(encoding))
    except UnicodeDecodeError as error:
        raise Bad(f"Not valid UTF-8: {error.reason} at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        # some of its messages end with the word
        raise Bad(f"Not valid JSON: {error.msg.removesuffix(' at')} at character {error.pos}.") from error
    except RecursionError as error:
        raise Bad("Nested too deeply to be a record.") from error
    except ValueError as error:  # a number with more digits than Python converts
        raise Bad(f"Not valid JSON: {error}.") from error


def beyond(record: dict[str, Any], root: Node) -> Any:
    """The part of `record` that the declared form does not hold, with its nesting; NOTHING if there is none.

    A list whose elements hold unknown fields appears with one object per element (empty where it adds nothing), so that
    laying `extra` over the row gives the record back.

    Raises:
        Bad: A value has another type than the one declared for it.
    """
    return _beyond(record, root, "")


def text_of(extra: Any) -> str | None:
    """`extra` as JSON text; None where there is nothing.

    Raises:
        Bad: The text cannot be written as UTF-8 (half a surrogate pair), holds a number that no double can, or is nested
            too deeply.
    """
    if extra is NOTHING:
        return None
    try:
        text = json.dumps(extra, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Bad("Not valid JSON: half of a surrogate pair stands in an unknown field.") from error
    except ValueError as error:  # it was read as infinite
        raise Bad("A number in an unknown field is beyond every double.") from error
    except RecursionError as error:
        raise Bad("Nested too deeply to be a record.") from error
    return text


def unknown_fields(extra: dict[str, Any], root: Node) -> Iterator[tuple[str, Any]]:
    """The dotted path of each field that the declaration does not know, and its value; list elements are `[]`."""
    yield from _unknown(extra, root, "")


def _unknown(extra: Any, node: Node, path: str) -> Iterator[tuple[str, Any]]:
    if node.fields is not None:
        for name, value in extra.items():
            place = f"{path}.{name}" if path else name
            known = node.fields.get(name)
            if known is None:
                yield place, value
            else:
                yield from _unknown(value, known, place)
    elif node.element is not None:
        for value in extra:
            yield from _unknown(value, node.element, f"{path}[]")


def _beyond(value: Any, node: Node, path: str) -> Any:
    if value is None:
        return NOTHING
    if node.fields is not None:
        if not isinstance(value, dict):
            raise _mistyped(value, path or "The record", "an object")
        extra = {}
        for name, inner in value.items():
            known = node.fields.get(name)
            rest = inner if known is None else _beyond(inner, known, f"{path}.{name}" if path else name)
            if rest is not NOTHING:
                extra[name] = rest
        return extra or NOTHING
    if node.element is not None:
        if not isinstance(value, list):
            raise _mistyped(value, path, "a list")
        rests = [_beyond(item, node.element, f"{path}[]") for item in value]
        return [{} if rest is NOTHING else rest for rest in rests] if any(r is not NOTHING for r in rests) else NOTHING
    _check_leaf(value, node, path)
    return NOTHING


def _check_leaf(value: Any, node: Node, path: str) -> None:
    expected = _text_fault(value, node) if isinstance(value, str | bool | dict | list) else _number_fault(value, node)
    if expected is not None:
        raise _mistyped(value, path, expected)


def _text_fault(value: Any, node: Node) -> str | None:
    """What was expected instead of a value that is no number; None where it is right."""
    declared = node.leaf
    if pa.types.is_string(declared):
        return None if isinstance(value, str) else "text"
    if pa.types.is_boolean(declared):
        return None if isinstance(value, bool) else "true or false"
    if pa.types.is_timestamp(declared):
        return None if isinstance(value, str) and _is_time(value) else _TIME_EXPECTED
    return "a number"


def _number_fault(value: float, node: Node) -> str | None:
    """What was expected instead of a number; None where it is right."""
    declared = node.leaf
    if pa.types.is_integer(declared):
        return None if isinstance(value, int) and value in _INT64 else "a whole number of at most 64 bits"
    if not pa.types.is_floating(declared):
        return _text_fault({}, node)
    if not _is_double(value):
        return "a finite number"
    if node.whole and (value != int(value) or abs(value) >= EXACT_DOUBLE):
        return "a whole number below 2 to the power of 53"
    return None


def _is_double(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number greater than every double
        return False


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")  # Arrow has a year 0
    except ValueError:
        return False
    return True


def _mistyped(value: Any, path: str, expected: str) -> Bad:
    return Bad(f"{path} is {_kind(value)}, where {expected} is declared.")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"the text {shown}" if isinstance(value, str) else f"the {_name(value)} {shown}"


def _name(value: Any) -> str:
    return "truth value" if isinstance(value, bool) else "number"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Bad(f"The key {twice} stands twice in one object.")
    return found


def _constant(name: str) -> Any:
    raise Bad(f"Not valid JSON: {name} is not a JSON number.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
