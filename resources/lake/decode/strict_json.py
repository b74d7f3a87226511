"""Strict JSON parser, and an encoder that preserves the original text of numbers."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from resources import files

#: Maximum nesting depth of objects and lists. Python's own limit depends on its version and on the caller.
DEPTH_MAX = 500
#: Maximum numbers of characters in an integer and in a fraction that Python can reproduce exactly.
_INTEGER_LENGTH, _DOUBLE_LENGTH = 18, len("-2.2250738585072014e-308")
#: Maximum number of characters of a quoted string in a message.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Number:
    """Original text of a number that Python would write differently or change."""

    text: str


class Bad(Exception):  # noqa: N818  the line is bad, the program is not in error
    """A line cannot be converted. The exception message is the reason."""


def members_of(document: bytes) -> dict[str, str]:
    """Return the members of a JSON object that `read_document` accepts, with the original text of each value."""
    text = document.decode("utf-8-sig")
    found: dict[str, str] = {}
    place = _behind_blanks(text, _behind_blanks(text, 0) + 1)
    while text[place] != "}":
        name, place = _DECODER.raw_decode(text, _behind_blanks(text, place + (text[place] == ",")))
        start = _behind_blanks(text, _behind_blanks(text, place) + 1)
        _, place = _DECODER.raw_decode(text, start)
        found[name] = text[start:place]
        place = _behind_blanks(text, place)
    return found


def _behind_blanks(text: str, place: int) -> int:
    while text[place] in " \t\r\n":
        place += 1
    return place


def read_document(data: bytes, encoding: str = "utf-8-sig") -> Any:
    """Parse a JSON document strictly. Raises Bad for invalid JSON, invalid UTF-8, duplicate keys or NaN.

    Numbers that Python would write differently become a `Number`.
    """
    if files.is_crowded(data):
        raise Bad(f"It holds more than {files.VALUES_MAX:,} values, which no record does.")
    try:
        value = _DECODER.decode(data.decode(encoding))
    except UnicodeDecodeError as error:
        raise Bad(f"Not valid UTF-8: {error.reason} at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        # some of the decoder's messages end with "at"
        raise Bad(f"Not valid JSON: {error.msg.removesuffix(' at')} at character {error.pos}.") from error
    except RecursionError as error:
        raise Bad(_TOO_DEEP) from error
    if data.count(b"[") + data.count(b"{") > DEPTH_MAX and _is_deep(value):
        raise Bad(_TOO_DEEP)
    return value


def _is_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth > DEPTH_MAX


def text_of(value: Any) -> str:
    """Return a value as JSON without whitespace, with the original text of numbers."""
    try:
        return _ENCODER.encode(value)
    except TypeError:  # a Number
        parts: list[str] = []
        _write(value, parts.append)
        return "".join(parts)


def _write(value: Any, put: Callable[[str], None]) -> None:
    """Write a value recursively, because the encoder cannot write a `Number`."""
    if isinstance(value, Number):
        put(value.text)
    elif isinstance(value, dict):
        put("{")
        for place, (name, inner) in enumerate(value.items()):
            put(f"{',' if place else ''}{_ENCODER.encode(name)}:")
            _write(inner, put)
        put("}")
    elif isinstance(value, list):
        put("[")
        for place, inner in enumerate(value):
            put("," if place else "")
            _write(inner, put)
        put("]")
    else:
        put(_ENCODER.encode(value))


def shown(text: str) -> str:
    """Return the beginning of an untrusted string for a message. The string can be long and contain surrogates."""
    short = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return short.encode("utf-8", "backslashreplace").decode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise Bad(f"The key {shown(twice)} appears twice in one object.")
    return found


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _INTEGER_LENGTH and text != "-0" else Number(text)


def _fraction(text: str) -> float | Number:
    return number if len(text) <= _DOUBLE_LENGTH and repr(number := float(text)) == text else Number(text)


def _constant(name: str) -> Any:
    raise Bad(f"Not valid JSON: {name} is not a JSON number.")


_TOO_DEEP = "Nested too deeply to be a record."
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_fraction
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
