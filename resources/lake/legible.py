"""Text that came from outside, as it may appear in a message, a log or a table."""

from __future__ import annotations


def legible(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, each of which can be printed and encoded; others appear as escapes.

    A text that was cut ends with `…`.
    """
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(text) <= limit and len(shown) <= limit else f"{shown[: limit - 1]}…"
