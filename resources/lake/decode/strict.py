"""Python checks of single lines, which find faults and count undeclared fields by path."""

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from resources.lake.decode.record_schema import EXACT_DOUBLE, Node, value_at
from resources.lake.decode.strict_json import SHOWN, Bad, Number, members_of, read_document, shown, text_of
from resources.lake_files import Drift

#: Marker for a value without undeclared parts. None cannot be the marker, because a record can contain null.
NOTHING: Any = object()
_INT64 = range(-(2**63), 2**63)
_INT64_LENGTH = len(str(-(2**63)))
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d(:?\d\d(:?\d\d(\.\d{1,6})?)?)?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Distance from year 0, which Python does not support, to the year 2000, which has the same calendar.
_FROM_YEAR_0 = timedelta(days=5 * 146_097)


def read_record(line: bytes) -> dict[str, Any]:
    """Return a line's JSON object. Raises Bad if the line is not a single object in valid UTF-8 with unique keys."""
    value = read_document(line)
    if not isinstance(value, dict):
        raise Bad(f"A JSON object was expected, not {_kind(value)}.")
    return value


def declared(value: Any, node: Node, path: str = "") -> tuple[Any, Any]:
    """Split a record, or a value at `path`, into its declared part (in the form that Arrow reads) and the remainder.

    Times are microseconds since 1970. The remainder is NOTHING if every field is declared. A time without a time zone
    is read as UTC, and its original string is part of the remainder. For a list whose elements have undeclared fields,
    the remainder contains one object, possibly empty, per element. Merging the remainder into the row therefore
    restores the record. Raises Bad if a value does not have the declared type.
    """
    if value is None or node.json:
        return None, NOTHING
    if node.fields is not None:
        if not isinstance(value, dict):
            raise _mistyped(value, path or "The record", "an object")
        kept, extra = {}, {}
        for name, inner in value.items():
            known = node.fields.get(name)
            if known is None:
                extra[name] = inner
                continue
            kept[name], rest = declared(inner, known, f"{path}.{name}" if path else name)
            if rest is not NOTHING:
                extra[name] = rest
        return kept, extra or NOTHING
    if node.element is not None:
        if not isinstance(value, list):
            raise _mistyped(value, path, "a list")
        if not value:
            return [], NOTHING
        items, rests = zip(*[declared(item, node.element, f"{path}[]") for item in value], strict=True)
        if all(rest is NOTHING for rest in rests):
            return items, NOTHING
        return items, [{} if rest is NOTHING else rest for rest in rests]
    if pa.types.is_timestamp(node.leaf):
        if not isinstance(value, str) or (found := _time(value)) is None:
            raise _mistyped(value, path, "a time with at most six digits of a second")
        micros, has_zone = found
        return micros, NOTHING if has_zone else value
    expected = _fault(value, node)
    if expected is not None:
        raise _mistyped(value, path, expected)
    if isinstance(value, str):
        if not _is_unicode(value):
            raise Bad(f"Not valid JSON: half of a surrogate pair is in {path}.")
        return value, NOTHING
    if isinstance(value, bool):
        return value, NOTHING
    number = value.text if isinstance(value, Number) else value
    if node.whole or pa.types.is_integer(node.leaf):
        return number if isinstance(number, int) else int(Decimal(number)), NOTHING
    return float(number), NOTHING


def extra_text(extra: Any) -> str | None:
    """Return `extra` as JSON text, or None for NOTHING. Raises Bad if a string contains an unpaired surrogate."""
    if extra is NOTHING:
        return None
    if not _is_unicode(text := text_of(extra)):
        raise Bad("Not valid JSON: half of a surrogate pair is in an unknown field.")
    return text


def json_texts(line: bytes, record: dict[str, Any], wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return a record's values that are stored as JSON, by path, exactly as written.

    Null and missing values are omitted. Raises Bad if a string contains an unpaired surrogate.
    """
    found: dict[tuple[str, ...], str] = {}
    texts: dict[tuple[str, ...], str] = {}
    for way in wanted:
        if (value := value_at(record, way)) is None:
            continue
        if not _is_unicode(text_of(value)):
            raise Bad(f"Not valid JSON: half of a surrogate pair is in {'.'.join(way)}.")
        for parent in (way[:depth] for depth in range(len(way)) if way[: depth + 1] not in texts):
            members = members_of(texts[parent].encode() if parent else line)
            texts |= {(*parent, name): text for name, text in members.items()}
        found[way] = texts[way]
    return found


def nested_fields(fields: Iterable[tuple[tuple[str, ...], bytes, bytes]]) -> dict[str, Any]:
    """Nest a row's undeclared fields, given as path, name and value. Raises Bad if a field is not strict JSON."""
    extra: dict[str, Any] = {}
    for way, name, value in fields:
        place = extra
        for part in way:
            place = place.setdefault(part, {})
        try:
            key = name.decode()
        except UnicodeDecodeError as error:
            raise Bad("Not valid UTF-8.") from error
        if key in place:
            raise Bad(f"The key {shown(key)} appears twice in one object.")
        place[key] = read_document(value, "utf-8")
    return extra


def unknown_fields(extra: Any, node: Node, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each undeclared field's dotted path and value. In paths, `[]` represents list elements."""
    if node.fields is not None:
        for name, value in extra.items():
            place = f"{path}.{name}" if path else name
            known = node.fields.get(name)
            if known is None:
                yield place, value
            else:
                yield from unknown_fields(value, known, place)
    elif node.element is not None:
        for value in extra:
            yield from unknown_fields(value, node.element, f"{path}[]")
    else:
        yield f"{path} (a time without a zone, read as UTC)", extra


def _is_unicode(text: str) -> bool:
    """Return True if a string can be encoded as UTF-8, which means that it contains no unpaired surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fault(value: Any, node: Node) -> str | None:
    """Return the expected kind of value if a leaf's value is invalid, or None if it is valid."""
    if pa.types.is_string(node.leaf):
        return None if isinstance(value, str) else "text"
    if pa.types.is_boolean(node.leaf):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, str | bool | dict | list):
        return "a number"
    if pa.types.is_integer(node.leaf):
        return None if _is_int64(value) else "a whole number of at most 64 bits"
    if isinstance(value, Number):
        double, mantissa = float(value.text), value.text.lower().partition("e")[0]
        if not math.isfinite(double):
            return "a finite number"
        if not double and any(digit in "123456789" for digit in mantissa):
            return "a number within the range of a double"
    if node.whole and not _is_exact(value):
        return "a whole number below 2 to the power of 53"
    return None


def _is_int64(value: float | Number) -> bool:
    if isinstance(value, Number):
        digits = value.text.removeprefix("-")
        return digits.isdecimal() and len(value.text) <= _INT64_LENGTH and int(value.text) in _INT64
    return isinstance(value, int)


def _is_exact(value: float | Number) -> bool:
    """Return True for an integer that a double represents exactly and unambiguously."""
    try:
        number = Decimal(value.text if isinstance(value, Number) else value)
        return abs(number) < EXACT_DOUBLE and number == number.to_integral_value()
    except InvalidOperation:  # the exponent exceeds the range of Decimal
        return False


def _time(text: str) -> tuple[int, bool] | None:
    """Return a time in microseconds since 1970 and whether it has a zone, or None if the string is not a time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    is_year_0 = text.startswith("0000")
    try:
        moment = datetime.fromisoformat(f"2000{text[4:]}" if is_year_0 else text)
    except ValueError:
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since - _FROM_YEAR_0 if is_year_0 else since) // _MICROSECOND, found["zone"] is not None


def _mistyped(value: Any, path: str, expected: str) -> Bad:
    return Bad(f"{path} is {_kind(value)}, where {expected} is declared.")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"the text {shown(text_of(value[: SHOWN + 1]))}"
    return f"the {'truth value' if isinstance(value, bool) else 'number'} {shown(text_of(value))}"


#: Maximum number of paths to count separately, in alphabetical order. The number is limited because every record can
#: add a path if keys are identifiers.
PATHS_MAX = 1_000
#: Path under which all other fields are counted.
OTHERS = "(other fields)"
_LENGTH = 200


class DriftCount:
    """Counts of undeclared fields by path. The result does not depend on the order of the calls."""

    def __init__(self) -> None:
        #: Count, first line and example by path.
        self._seen: dict[str, tuple[int, float, str]] = {}

    def add(self, extra: dict[str, Any], root: Node, line: int) -> None:
        """Count a line's undeclared fields. The example for a path is from the first line with this path."""
        for path, value in unknown_fields(extra, root):
            count, first, example = self._seen.get(_cut(path), (0, math.inf, ""))
            if line < first:
                first, example = line, _cut(text_of(value))
            self._seen[_cut(path)] = count + 1, first, example
            self._limit(2 * PATHS_MAX)

    def merge(self, found: Iterable[Drift]) -> None:
        """Add the counts of later lines."""
        for drift in found:
            count, first, example = self._seen.get(drift.path, (0, 0, drift.example))
            self._seen[drift.path] = count + drift.count, first, example
        self._limit(2 * PATHS_MAX)

    def _limit(self, limit: int) -> None:
        """Retain only the first PATHS_MAX paths if more than `limit` exist. A dropped path can never return."""
        if len(self._seen) > limit:
            others, _, _ = self._seen.pop(OTHERS, (0, 0, ""))
            for path in sorted(self._seen)[PATHS_MAX:]:
                others += self._seen.pop(path)[0]
            self._seen[OTHERS] = others, 0, '"…"'

    def result(self) -> list[Drift]:
        """Return the counted fields, sorted by path."""
        self._limit(PATHS_MAX)
        found = sorted(self._seen.items(), key=lambda item: (item[0] == OTHERS, item[0]))
        return [Drift(path, count, example) for path, (count, _, example) in found]


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"
