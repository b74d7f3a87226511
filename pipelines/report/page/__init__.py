"""The report: one HTML page that needs nothing but itself, of the published file and the status.

What draws and fills it takes a while to import: only who makes a page does.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipelines.report import attention
from pipelines.report import status as statuses
from resources import files
from resources.errors import MirrorError
from resources.formatting import listed, moment_text
from resources.lake import Layout
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resources.files import StrPath
    from resources.settings import Settings

#: Sentences about gaps that are shown, and about all else; facts of one name; characters of a fact.
_GAPS, _SHOWN, _FACTS, _LONGEST = 10, 20, 5, 300
#: Facts about the account, which a page that may be mailed does not have.
_PRIVATE = frozenset({"tokens"})


class Report(NamedTuple):
    """A page that was written: its path and size, the lines of attention, its pictures, and the seconds it took."""

    path: Path
    size_bytes: int
    attention: Sequence[str]
    attention_count: int
    picture_count: int
    seconds: float


def write(settings: Settings, output: StrPath | None = None, now: datetime | None = None) -> Report:
    """Write the page of a data folder, whole or not at all.

    Args:
        settings: Its settings.
        output: Where; default: `report.html` in the data folder.
        now: The moment it is about; default: this one.

    Raises:
        MirrorError: Nothing is published yet; nothing was written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    from pipelines.report.page import content  # noqa: PLC0415

    began, moment = time.monotonic(), now or datetime.now(UTC)
    status = statuses.collect(settings, statuses.HOURS, moment)
    warehouse = Warehouse(settings.data)
    build_bytes = warehouse.build_path.stat().st_size if warehouse.build_path.exists() else 0
    cards = []
    try:
        with warehouse.open_published() as published:
            cards = list(content.cards(published, status, build_bytes))
    except MirrorError as error:
        if not warehouse.published_path.exists():
            raise
        if str(error) not in status.troubles:
            status.troubles.append(str(error))
    lines = attention.lines(status)
    environment = Environment(
        loader=PackageLoader("pipelines.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": content.cell_text, "svg": Markup}
    environment.tests["link"] = lambda value: isinstance(value, content.Link)
    page = environment.get_template("page.html").render(
        headline=list(content.headline(status)),
        facts=list(_facts(status)),
        cards=cards,
        troubles=(shown := _shown(lines)),
        more=len(lines) - len(shown),
        moment=moment_text(moment),
    )
    path = Path(output or Layout(settings.data).report).absolute()
    encoded = page.encode("utf-8", "replace")
    files.write(path, encoded)
    return Report(
        path=path,
        size_bytes=len(encoded),
        attention=shown,
        attention_count=len(lines),
        picture_count=sum(card.picture is not None for card in cards),
        seconds=time.monotonic() - began,
    )


def _shown(lines: Sequence[attention.Line]) -> list[str]:
    """The first lines in the order of `wme status`, where the command that closes gaps follows them."""
    shown, left = [], {True: _GAPS, False: _SHOWN}
    for line in lines:
        if left[line.is_gap]:
            left[line.is_gap] -= 1
            shown.append(line.text)
    return shown


def _facts(status: statuses.Status) -> Iterator[tuple[str, str]]:
    """The facts of `wme status`, each name with all it says, as far as there is room."""
    values: dict[str, list[str]] = {}
    for name, value in status.facts:
        if name in _PRIVATE:
            continue
        values.setdefault(name, []).append(str(value))
    for name, those in values.items():
        text = listed(those, _FACTS)
        yield name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... (`wme status` shows all)"
