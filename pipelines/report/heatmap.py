"""Coverage heat map for the terminal, with one row for each project and namespace, and one cell per hour.

Letters show all states, so the map is readable without colours. Only the shades for row counts need colours.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from resources.tables import HourState
from resources.warehouse.read.coverage import OUTSIDE, UNKNOWN, Cell, Place

#: Number of hours between two numbers on the ruler.
_TICK: Final = 6
#: Shades of loaded hours, from few rows to many, relative to the line's largest hour.
_SHADES: Final = ("white on #14532d", "white on #15803d", "black on #4ade80")


_REDONE: Final = "redone"
#: Letter, style and meaning of each state.
_MARKS: Final = {
    HourState.LOADED: ("L", _SHADES[-1], "loaded (brighter for more changes)"),
    _REDONE: ("R", _SHADES[-1], "reloaded with different content"),
    HourState.EMPTY: ("E", "black on #bae6fd", "empty (the file had no records)"),
    HourState.ABSENT: ("a", "black on #a3a3a3", "absent (not in the batch listing)"),
    HourState.MISSING: ("M", "bold white on #dc2626", "missing"),
    HourState.PAST_RETENTION: ("P", "bold white on #7f1d1d", "past retention (lost)"),
    HourState.NOT_YET: (".", "dim", "not published yet"),
    UNKNOWN: ("?", "black on #facc15", "nothing recorded yet"),
    OUTSIDE: ("-", "dim", "outside the mirrored range"),
}


def lines(places: Sequence[Place], width: int) -> Iterator[Text]:
    """Yield the lines of the map and its legend, at most `width` characters wide, for places with the same hours."""
    names = [place.name.replace(" namespace", "") for place in places]
    margin = max(map(len, names)) + 2
    fitting = max(12, min(width - margin, 72))
    # a multiple of whole days aligns the days of all lines
    step = fitting // 24 * 24 or fitting // _TICK * _TICK
    count = len(places[0].cells)
    for start in range(0, count, step):
        cells = places[0].cells[start : start + step]
        yield Text(" " * margin + _ruler(cells, "%Y-%m-%d", 24), style="dim")
        yield Text(f"{'UTC':<{margin}}{_ruler(cells, '%H', _TICK)}", style="dim")
        for name, place in zip(names, places, strict=True):
            line = Text(f"{name:<{margin}}")
            most = max((cell.row_count or 0 for cell in place.cells), default=0)
            for cell in place.cells[start : start + step]:
                letter, style, _ = _MARKS[_kind(cell)]
                if cell.state == HourState.LOADED and most:
                    style = _SHADES[min(len(_SHADES) - 1, (cell.row_count or 0) * len(_SHADES) // most)]
                line.append(letter, style)
            yield line
    kinds, line = {_kind(cell) for place in places for cell in place.cells}, Text()
    for letter, style, meaning in (mark for kind, mark in _MARKS.items() if kind in kinds):
        entry = Text.assemble((letter, style), f" {meaning}")
        if line and len(line) + 2 + len(entry) > width:
            yield line
            line = Text()
        line = Text("  ").join((line, entry)) if line else entry
    yield line


def _kind(cell: Cell) -> str:
    return _REDONE if cell.redone and cell.state == HourState.LOADED else cell.state


def _ruler(cells: Sequence[Cell], form: str, every: int) -> str:
    """Return a line with the time at each multiple of `every` hours and, if there is space, at the first hour."""
    ruler = ""
    for place, cell in enumerate(cells):
        is_first = place == 0 and all(one.batch_hour.hour % every for one in cells[1:11])
        if is_first or cell.batch_hour.hour % every == 0:
            ruler = f"{ruler:<{place}}{cell.batch_hour:{form}}"
    return ruler
