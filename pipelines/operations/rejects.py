"""The lines that could not be converted, as an operator looks at them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from resources.lake.rejects import whole_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resources.datasets import Dataset
    from resources.lake import Layout
    from resources.warehouse import QueryResult, Warehouse

#: What a reason says of the single line (a value, a place in it) is left out where lines are counted by reason.
_KIND = """\
regexp_replace(regexp_replace(reason, '(?s)the (text|number|truth value) .*, where', 'the \\1 …, where'),
    '(at (?:byte|character)) \\d+', '\\1 …')"""
_PLACE = "archive || ' ' || member || ' line ' || line_number"
_ORDER = "source_at, archive, member, line_number"
_NEWEST_FIRST = "source_at DESC, archive, member, line_number"
#: Bytes of a line that are shown as an example of it.
_EXAMPLE_BYTES = 80
#: Lines handed out at once.
_BATCH_ROWS = 256


@dataclass(frozen=True)
class Selection:
    """Which rejected lines: those of one hour, of one project, whose reason holds a text. None: all."""

    hour: datetime | None = None
    project: str | None = None
    reason: str | None = None

    def where(self) -> tuple[str, list[Any]]:
        """The choice as a condition on the table `rejects`, and its parameters."""
        found: dict[str, Any] = {
            "batch_hour = ?": self.hour,
            "project_id = ?": self.project,
            "contains(lower(reason), lower(?))": self.reason,
        }
        chosen = {condition: value for condition, value in found.items() if value is not None}
        return " AND ".join(chosen) or "true", list(chosen.values())


def by_reason(warehouse: Warehouse, selection: Selection) -> QueryResult:
    """Lines by reason, the most frequent first: their count, the first hour and place, the beginning of that line.

    Raises:
        NotPublishedError: Nothing was published yet.
    """
    where, parameters = selection.where()
    # equal reasons of a member first: there may be millions of lines
    return warehouse.sql(
        f"SELECT sum(lines)::BIGINT AS lines, {_KIND} AS reason, min(batch_hour) AS first_hour, "  # noqa: S608  constant texts
        f"arg_min({_PLACE}, ({_ORDER})) AS first_place, arg_min(begins, ({_ORDER})) AS begins FROM ("
        "SELECT reason, source_at, batch_hour, archive, member, count(*) AS lines, min(line_number) AS line_number, "
        f"arg_min(raw[1:{_EXAMPLE_BYTES}], line_number) AS begins FROM rejects WHERE {where} GROUP BY ALL"
        ") GROUP BY ALL ORDER BY lines DESC, reason",
        parameters,
    )


def count(
    warehouse: Warehouse,
    hours: Mapping[Dataset, Sequence[datetime]],
    snapshots: Mapping[Dataset, Sequence[str]] | None = None,
) -> int:
    """How many lines of some hours and snapshots are rejected, whatever the reason."""
    # by the archive's folder, because a snapshot that gains rows may get another source_at
    chosen: list[tuple[Dataset, str, Sequence[Any]]] = [
        (dataset, "batch_hour", parts) for dataset, parts in hours.items()
    ]
    chosen += [(dataset, "split_part(archive, '/', 2)", parts) for dataset, parts in (snapshots or {}).items()]
    return sum(
        warehouse.sql(
            f"SELECT count(*) FROM rejects WHERE table_name = ? AND list_contains(?, {part})",  # noqa: S608  constant texts
            [dataset.name, list(parts)],
        ).rows[0][0]
        for dataset, part, parts in chosen
    )


def places(warehouse: Warehouse, selection: Selection, limit: int) -> QueryResult:
    """Where the lines stand and why they were rejected, newest hour first.

    Raises:
        NotPublishedError: Nothing was published yet.
    """
    where, parameters = selection.where()
    return warehouse.sql(
        "SELECT batch_hour, archive, member, line_number, byte_offset, reason, raw_bytes AS bytes "  # noqa: S608
        f"FROM rejects WHERE {where} ORDER BY {_NEWEST_FIRST} LIMIT {limit:d}",
        parameters,
    )


def lines(
    warehouse: Warehouse, selection: Selection, *, limit: int | None = None, raw: bool = False
) -> Iterator[dict[str, Any]]:
    """The lines as rows of the table `rejects`, newest hour first, a few in memory at a time.

    Without `raw` a row has the number of its `bytes` instead of them. `raw` of a line with a `raw_path` is its beginning.

    Raises:
        NotPublishedError: Nothing was published yet.
    """
    where, parameters = selection.where()
    with warehouse.connect_published() as connection:
        found = connection.sql(
            f"SELECT * EXCLUDE (raw, raw_bytes), raw_bytes AS bytes{', raw' if raw else ''} "  # noqa: S608
            f"FROM rejects WHERE {where} ORDER BY {_NEWEST_FIRST}{'' if limit is None else f' LIMIT {limit:d}'}",
            params=parameters,
        )
        for batch in found.to_arrow_reader(_BATCH_ROWS):
            yield from batch.to_pylist()


def as_json(line: dict[str, Any], layout: Layout) -> Iterator[str]:
    """A row of `lines` as JSON, a piece at a time: times in ISO 8601, the whole line in base64 as `raw_base64`.

    Raises:
        OSError: The file with the line is not there any more.
    """
    plain: dict[str, Any] = {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in line.items()
    }
    raw = plain.pop("raw", None)
    text = json.dumps(plain, ensure_ascii=False)
    if raw is None:
        yield text
        return
    yield f'{text[:-1]}, "raw_base64": "'
    held = b""
    for piece in (raw,) if line["raw_path"] is None else whole_line(layout, line["raw_path"], line["raw_offset"]):
        data = held + piece
        whole = len(data) - len(data) % 3  # of which base64 needs no padding
        held = data[whole:]
        yield base64.b64encode(data[:whole]).decode()
    yield f'{base64.b64encode(held).decode()}"}}'
