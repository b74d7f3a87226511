"""SVG charts for the report page, drawn by Vega-Lite and coloured by the page's light or dark style sheet.

Text uses the reader's fonts. Names from the data appear only as text, never as markup.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from itertools import groupby
from typing import Any, Final

import vl_convert

#: Chart width: as wide as a phone, and nearly as wide as a card, so that labels are about as large as text.
_WIDTH: Final = 360
_HEIGHT: Final = 130
_ROW: Final = 15
#: Label and share of a row's height for each state of a coverage map, so that states differ not only in colour.
STATES: Final = {
    "loaded": ("loaded", 0.6),
    "empty": ("empty file", 0.3),
    "absent": ("absent from the batch listing", 0.3),
    "not_yet": ("not published yet", 0.12),
    "unknown": ("nothing recorded", 0.92),
    "missing": ("missing", 0.92),
    "past_retention": ("past retention, lost", 0.92),
}
#: Label format of numbers, by unit. Thousands and millions are abbreviated.
_LABELS: Final = {"": "format(datum.value, '~s')", "B": "format(datum.value, '~s') + 'B'", "h": "datum.value + ' h'"}
#: Label format of times: the time of day, but at midnight the date, or the month on its first day.
_TIMES: Final = (
    "utchours(datum.value) || utcminutes(datum.value) ? utcFormat(datum.value, '%H:%M') : "
    "utcdate(datum.value) == 1 ? utcFormat(datum.value, '%b %Y') : utcFormat(datum.value, '%b %-d')"
)
_CONFIG: Final = {
    "font": "system-ui, sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "title": None,
        "labelFontSize": 11,
        "labelColor": "var(--muted)",
        "labelLimit": 110,
        "domainColor": "var(--grid)",
        "tickColor": "var(--grid)",
        "gridColor": "var(--grid)",
    },
    "axisY": {"domain": False, "ticks": False, "tickCount": 4},
    "axisX": {"grid": False},
}


def areas(edges: Sequence[datetime], series: Sequence[Sequence[float | None]], unit: str, label: str) -> str:
    """Draw quantities (None if unknown) between `edges` as stacked areas.

    `unit` is `B`, `h` or empty. `label` is for screen readers.
    """
    rows = [
        {"at": at.isoformat(), "value": value, "series": number}
        for number, values in enumerate(series)
        for at, value in zip(edges, [*values, *values[-1:]], strict=True)
    ]
    # no labels for fractions of files
    axis = {"labelExpr": _LABELS[unit]} | ({} if unit == "h" else {"tickMinStep": 1})
    scale = {"nice": False, "domainMin": 0}
    numbers = list(range(len(series)))
    colours = {"domain": numbers, "range": [f"var(--series-{number})" for number in numbers]}
    picture = {
        "data": {"values": rows},
        "mark": {"type": "area", "interpolate": "step-after"},
        "encoding": {
            "x": _time("at"),
            "y": {"field": "value", "type": "quantitative", "axis": axis, "scale": scale, "stack": "zero"},
            "color": {"field": "series", "type": "nominal", "scale": colours, "legend": None},
            "order": {"field": "series"},
        },
    }
    return _svg(picture, _HEIGHT, label)


def coverage(edges: Sequence[datetime], rows: Mapping[str, Sequence[str]], label: str) -> str:
    """Draw one row per name and one cell per time span, coloured by state. Adjacent equal cells are merged."""
    spans: dict[str, list[dict[str, str]]] = {}
    for name, states in rows.items():
        end = 0
        for state, those in groupby(states):
            first, end = end, end + len(list(those))
            span = {"row": name, "at": edges[first].isoformat(), "until": edges[end].isoformat()}
            spans.setdefault(state, []).append(span)
    row = {"field": "row", "type": "nominal", "scale": {"domain": list(rows)}, "axis": {"labelPadding": 4}}
    limits = [edges[0].isoformat(), edges[-1].isoformat()]
    layers = [
        {
            "data": {"values": spans[state]},
            # the stroke keeps a single hour visible in a chart of a year
            "mark": {
                "type": "bar",
                "height": {"band": height},
                "color": f"var(--state-{number})",
                "stroke": f"var(--state-{number})",
                "strokeWidth": 0.6,
            },
            "encoding": {"x": _time("at", limits), "x2": {"field": "until"}, "y": row},
        }
        for number, (state, (_, height)) in enumerate(STATES.items())
        if state in spans
    ]
    return _svg({"layer": layers}, _ROW * len(rows), label)


def _time(field: str, limits: Sequence[str] | None = None) -> dict[str, Any]:
    scale = {"type": "utc"} | ({"domain": limits} if limits else {})
    axis = {"labelExpr": _TIMES, "tickCount": 5, "labelOverlap": True, "labelFlush": False}
    return {"field": field, "type": "temporal", "scale": scale, "axis": axis}


def _svg(picture: Mapping[str, Any], height: int, label: str) -> str:
    whole = {
        **picture,
        "width": _WIDTH,
        "height": height,
        # space for readers' fonts that are wider than the font used to measure labels
        "padding": {"left": 10, "right": 16, "top": 4, "bottom": 2},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": _CONFIG,
    }
    drawn = vl_convert.vegalite_to_svg(whole, allowed_base_urls=[])
    # remove attributes for scripts and screen readers, which use the label instead
    plain = re.sub(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"', "", drawn)
    plain = re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", plain)
    found = re.fullmatch(r'<svg[^>]* viewBox="([^"]*)"[^>]*>(.*)</svg>\s*', plain, re.DOTALL)
    assert found is not None
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="{found[1]}" role="img" aria-label="{escape(label)}"'
    return f"<svg {head}>{found[2]}</svg>"
