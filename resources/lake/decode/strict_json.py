"""JSON read strictly, and written with its numbers as they were."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Objects and lists inside one another. Python itself gives up at a depth that depends on its version and its caller.
DEPTH_MAX = 500
#: Values in a line, which take many times their bytes in memory. The most in any recorded line are 33,000.
VALUES_MAX = 500_000
#: The longest whole number and the longest fraction that may be as Python writes them.
_INTEGER_LENGTH, _DOUBLE_LENGTH = 18, len("-2.2250738585072014e-308")
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
#: Characters of a text that a sentence shows.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written, where Python's own would be written in another way or hold another value."""

    text: str

    @property
    def double(self) -> float:
        """The nearest double; infinite beyond all of them."""
        return float(self.text)

    @property
    def vanishes(self) -> bool:
        """True if the number is not zero but its nearest double is."""
        return not self.double and any(digit in "123456789" for digit in self.text.lower().partition("e")[0])


class Bad(Exception):  # noqa: N818  the line is bad, the program is not in error
    """A line that cannot be converted; its text is the reason."""


def read_document(data: bytes) -> Any:
    """One JSON document, read strictly: valid UTF-8, every key once, no NaN. Raises Bad otherwise.

    Numbers that Python would not give back as they were written are a `Number`.
    """
    return _read(data, "utf-8-sig")


def read_value(data: bytes) -> Any:
    """A value from inside a document, read as strictly. Raises Bad where it is none."""
    return _read(data, "utf-8")


def members_of(document: bytes) -> dict[str, str]:
    """The members of a JSON object that was read before, each value as it is written."""
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


def is_crowded(data: bytes) -> bool:
    """Return True if a line holds more than VALUES_MAX values, by its commas and opening brackets outside of texts."""

    def count(part: bytes) -> int:
        return sum(map(part.count, (b",", b"[", b"{")))

    if len(data) <= VALUES_MAX or count(data) <= VALUES_MAX:
        return False
    found = place = 0
    for number, text in enumerate(_TEXT.finditer(data)):
        found += count(data[place : text.start()])
        place = text.end()
        if found > VALUES_MAX or number > 2 * VALUES_MAX:  # each is a key or a value
            return True
    return found + count(data[place:]) > VALUES_MAX


def _read(data: bytes, encoding: str) -> Any:
    if is_crowded(data):
        raise Bad(f"It holds more than {VALUES_MAX:,} values, which no record does.")
    try:
        value = _DECODER.decode(data.decode(encoding))
    except UnicodeDecodeError as error:
        raise Bad(f"Not valid UTF-8: {error.reason} at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        # some of its messages end with the word
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


def text_of(value: Any, *, ascii_only: bool = False) -> str:
    """A value as JSON, without blanks and with numbers as they were written."""
    encoder = _ASCII_ENCODER if ascii_only else _ENCODER
    try:
        return encoder.encode(value)
    except TypeError:  # a Number
        parts: list[str] = []
        _write(value, parts.append, encoder)
        return "".join(parts)


def _write(value: Any, put: Callable[[str], None], encoder: json.JSONEncoder) -> None:
    """Put together what the encoder gives, with numbers as they were written."""
    if isinstance(value, Number):
        put(value.text)
    elif isinstance(value, dict):
        put("{")
        for place, (name, inner) in enumerate(value.items()):
            put(f"{',' if place else ''}{encoder.encode(name)}:")
            _write(inner, put, encoder)
        put("}")
    elif isinstance(value, list):
        put("[")
        for place, inner in enumerate(value):
            put("," if place else "")
            _write(inner, put, encoder)
        put("]")
    else:
        put(encoder.encode(value))


def shown(text: str) -> str:
    """Return the beginning of a text from outside, which may be long and no Unicode, for a message."""
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
_ENCODER, _ASCII_ENCODER = (
    json.JSONEncoder(ensure_ascii=ascii_only, separators=(",", ":")) for ascii_only in (False, True)
)
