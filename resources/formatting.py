"""Formatting of quantities and times for messages, tables, progress and metadata."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import ValidationError


#: Matches code only between spaces, so that its backticks cannot pair with other backticks.
_CODE_OR_WORD: Final = re.compile(r"(?<!\S)(`[^`|]+`)(?=[.,:;)]*(?:\s|$))|\S+")


def counted(number: float, noun: str) -> str:
    """Return a number and a noun, for example `1 file` or `2 entries`. `noun` is singular and regular."""
    if number != 1 and noun.endswith("y") and noun[-2:-1] not in "aeiou":
        noun = f"{noun[:-1]}ies"
    elif number != 1:
        noun += "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number:,.0f} {noun}"


def size_text(count: float) -> str:
    """Format a number of bytes in decimal units, as the service does."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count:.0f} B"


def amount_text(value: float, unit: str) -> str:
    """Format a number of bytes (unit `B`) or of items (unit is a singular noun)."""
    return size_text(value) if unit == "B" else counted(value, unit)


def moment_text(when: datetime) -> str:
    """Format a time in UTC, for example `2026-11-20 05:00`. Seconds are included unless they are zero."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")


def hour_text(start: datetime) -> str:
    """Format the hour (UTC) that contains a time, for example `2026-11-20 05:00`."""
    return start.astimezone(UTC).strftime("%Y-%m-%d %H:00")


def listed(names: list[str], shown: int) -> str:
    """Join the first names and the number of further names, for example `a, b and 3 more`."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def value_text(value: Any, column: str = "") -> str:
    """Format one value for display, without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        # DuckDB returns sums of integers as decimals
        return f"{value:,f}"
    if isinstance(value, int):
        return str(value) if column.endswith("_id") else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return printable(str(value))


def exact_text(value: Any, column: str = "") -> str:
    """Format one value like `value_text`, but with six significant digits of a float, and with microseconds."""
    if isinstance(value, datetime) and value.microsecond:
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, float):
        # two decimals show at least six digits of a large number, and of others that have no more decimals
        is_whole = abs(value) >= 1e3 or float(f"{value:.6g}") == round(value, 2)
        return f"{value:,.2f}" if is_whole and abs(value) < 1e15 else f"{value:.6g}"
    return value_text(value, column)


def printable(text: str) -> str:
    """Escape control characters, direction overrides and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" if c < "\x7f" else f"\\u{ord(c):04x}" for c in text
    )


def legible(text: str, limit: int) -> str:
    """Escape unprintable characters in external text, and truncate it to `limit` characters with `…`."""
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(text) <= limit and len(shown) <= limit else f"{shown[: limit - 1]}…"


def markdown_text(text: str) -> str:
    """Convert external text (a title, a file name, an error) to a single line or table cell in Markdown.

    No part of the text becomes a link, an image or HTML. Words with characters that are unusual in prose become code,
    because bare URLs would become links even if escaped. Existing code, for example a command, remains code.
    """

    def converted(found: re.Match[str]) -> str:
        # a pipe would end the table cell, even in code
        return found[1] or r"\|".join(map(_markdown_word, found[0].split("|")))

    return re.sub(_CODE_OR_WORD, converted, " ".join(text.split()))


def _markdown_word(word: str) -> str:
    if re.fullmatch(r"[\w.,:;?'\"()%+=/-]*", word) and "://" not in word and "www." not in word.lower():
        return word
    # a code span ends with as many backticks as it starts with
    fence = "`" * (1 + max(map(len, re.findall("`+", word)), default=0))
    pad = " " if "`" in word else ""
    return f"{fence}{pad}{word}{pad}{fence}"


def refusal(error: ValidationError) -> str:
    """Return an error message with one sentence for each invalid value."""
    sentences = []
    for fault in error.errors(include_url=False):
        if fault["type"] == "value_error":
            sentences.append(str(fault["ctx"]["error"]))
            continue
        must = fault["msg"].replace("Input should", "it must")
        sentences.append(f"{'.'.join(map(str, fault['loc']))} is {fault['input']!r}; {must}.")
    return f"{' '.join(sentences)} Nothing was done."
