"""Hostile records of every dataset, on the real path: NDJSON, converter, Parquet, load, publication.

Records are drawn from a seed. Typed fields get odd values of their type most of the time, because the converter rejects
others; fields that are kept as JSON get anything. Only rows count, never rejects.
"""

import json
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from resources import datasets
from resources.datasets import Dataset
from resources.datasets.live import LIVE_CHANGES
from resources.lake import ConvertedFile, ListError, convert_list
from resources.lake.live import LiveLake
from resources.tables import ARTICLE_CHANGES, TIMESTAMP
from tests.brought import HOUR, Brought

#: Deeper than a record may be; the other is not.
TOO_DEEP, DEEP = 10_000, 450


class Raw(str):
    """JSON text that is written as it is."""

    __slots__ = ()


def encode(value: Any) -> str:
    """A value as JSON, with the texts of `Raw` in it."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{encode(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return json.dumps(value)


TEXTS = [
    *("", " ", "_", "%", "*", "$", "$.a[*]", "a.b", "'", '"', "\\", "?", "\x00", "a\x00b", "\u202e", "\x1b[31m", "\x9b",
      "İ", "ß"),
    *("{", "[", '{"a":', '{"time":1}', "[1]", "null", "true", "str", "1e999", "-1", "NaN", "99999999999999999999",
      "https://x/q5"),
    *("infinity", "-infinity", "epoch", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "10000-01-01",
      "2026-02-30T00:00:00Z"),
    *("+9999-12-31T23:59:59Z", "+0000-00-00T00:00:00Z", "-13800000000-00-00T00:00:00Z", "+2001-99-99T99:99:99Z",
      "+2001-02-30T24:00:00Z"),
    *("x" * 70_000, "{" * 3000, "Page 1", "page 1", "Page_1", "enwiki", "mw-reverted", "mw-undo"),
]  # fmt: skip
NUMBERS = [0, -1, 1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.0]
ODD_NUMBERS = [2**63, 2**64, 10**30, -(10**400), 1e308, -1e308, Raw("1e999"), Raw("1E+2"), Raw("1.0")]
KEYS = [
    *("value", "values", "type", "name", "has_parts", "links", "citations", "url", "text", "Text", "identifier",
      "metadata", "title", "en"),
    *("", "a.b", '"', "'", "$", "*", "a\x00", "P1", "time", "TIME", "content", "content_data", "property", "rank",
      "\u0130", "0", "[0]"),
]  # fmt: skip
RAW = [
    Raw("[" * TOO_DEEP + "]" * TOO_DEEP),
    Raw("[" * DEEP + "]" * DEEP),
    Raw('{"has_parts":[' * (DEEP // 2) + "]}" * (DEEP // 2)),
    Raw('{"value":' * DEEP + "0" + "}" * DEEP),
    Raw('{"a":1,"a":2}'),
    Raw('{"en":"a","en":"b"}'),
    Raw('"\\ud800"'),
    Raw('{"\\udfff":"\\ud800"}'),
    Raw('"\\u0000"'),
    Raw(" [ 1 , {} ] "),
    *ODD_NUMBERS,
]
DATES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59Z", "2026-11-19T05:10:11"]


class Draw:
    """Draws values, records and mutations of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def text(self) -> str:
        return self.chance.choice(TEXTS)

    def any(self, depth: int = 3) -> Any:
        """Any JSON value."""
        kind = self.chance.randrange(8 if depth else 5)
        if kind < 5:
            few = (
                RAW
                if self.chance.random() < 0.02
                else TEXTS
                if kind < 3
                else [None, True, False, *NUMBERS, [], {}, [[]], [{}], [None]]
            )
            return self.chance.choice(few)
        count = self.chance.randrange(4)
        if kind == 5:
            return [self.any(depth - 1) for _ in range(count)]
        return {self.chance.choice(KEYS): self.any(depth - 1) for _ in range(count)}

    def mutated(self, value: Any, rate: float = 0.12) -> Any:
        """The value with some of its nodes replaced, left out or put into a list."""
        if self.chance.random() < rate:
            return self.any() if self.chance.random() < 0.8 else [value]
        if isinstance(value, dict):
            kept = {key: self.mutated(one, rate) for key, one in value.items() if self.chance.random() > rate / 3}
            return kept | ({self.chance.choice(KEYS): self.any(1)} if self.chance.random() < rate else {})
        if isinstance(value, list):
            return [self.mutated(one, rate) for one in value]
        return value

    def typed(self, kind: pa.DataType) -> Any:
        """An odd value of a type."""
        if pa.types.is_list(kind):
            return [self.typed(kind.value_type) for _ in range(self.chance.choice([0, 1, 1, 3]))]
        if pa.types.is_struct(kind):
            return {one.name: self.typed(one.type) for one in kind}
        odd = {
            pa.bool_(): [True, True, False, None],
            pa.int64(): NUMBERS[:-2],
            pa.float64(): [*NUMBERS, 1e308],
            TIMESTAMP: DATES,
        }
        return self.chance.choice(odd.get(kind, TEXTS))

    # --- records

    def record(self, dataset: Dataset, number: int, **fixed: Any) -> Raw:
        """A record drawn from the declaration of a dataset's table. `fixed`: columns with a certain value."""
        record: dict[str, Any] = {}
        for column in dataset.table:
            if column.path is None or (column.name in fixed and fixed[column.name] is None):
                continue
            if column.name in fixed:
                value = fixed[column.name]
            elif self.chance.random() < (0 if column.required or column.name == "modified_at" else 0.3):
                continue
            elif self.chance.random() < 0.002:
                value = self.any(1)
            elif column.json:
                value = self.mutated(self.documents().get(column.path, {}))
            elif column.values:
                value = self.chance.choice([*column.values, column.values[0], column.values[0]])
            elif column.required:  # pages, titles and events meet
                few = number if self.chance.random() < 0.8 else self.chance.randrange(number + 1)
                value = f"Page {few}" if few % 9 else self.text() or "Page"
                value = (
                    value
                    if column.type == pa.string()
                    else few
                    if column.type == pa.int64()
                    else self.typed(column.type)
                )
            elif column.wire is not None:  # only whole numbers that a double holds
                value = self.chance.choice([0, -1, 7, 2**53 - 1])
            else:
                value = self.typed(column.type)
            *above, name = column.path.split(".")
            place = record
            for key in above:
                place = place.setdefault(key, {})
                if not isinstance(place, dict):
                    break
            else:
                place[name] = value
        if self.chance.random() < 0.1:
            record[self.chance.choice(KEYS)] = self.any()
        return Raw(encode(record))

    def documents(self) -> dict[str, Any]:
        """What fields that are kept as JSON look like, by their path."""
        addresses = ["https://x", "/wiki/Page_1", "https://x/wiki/Page%202#a", "//x/wiki/%ff", "https://x/wiki/"]
        link = {"url": self.chance.choice(addresses), "text": "a"}
        cited = {"identifier": "cite_note-1", "group": "", "text": "[1]"}
        leaf = {
            "type": "field",
            "name": "label",
            "value": "v",
            "values": ["v", "w"],
            "links": [link],
            "citations": [cited],
        }
        section = {
            "type": "section",
            "name": "inner",
            "has_parts": [leaf, leaf | {"table_references": [{"identifier": "t1"}]}],
        }
        boxes = [{"type": "infobox", "name": "Infobox", "has_parts": [leaf, section]}]
        sections = [{"type": "section", "name": "Abstract", "has_parts": [leaf, section]}]
        text = {"value": "v", "links": [link]}
        of_book = {"identifier": "cite_note-1", "group": "g", "type": "web", "metadata": {"title": "t", "url": "u"}}
        cells = [[{"value": "v"}, {"value": "w"}], [], [{"value": None}]]
        table = {"identifier": "t1", "confidence_score": 0.5, "headers": cells[:1], "rows": cells, "footers": cells}
        time = {
            "time": "+2001-02-03T00:00:00Z",
            "precision": 11,
            "amount": "+5",
            "unit": "https://x/Q5",
            "latitude": 1.5,
        }
        data = self.chance.choice(
            [time, {"longitude": 1, "latitude": 2}, {"text": "a", "language": "en"}, {"Text": "b"}, "str"]
        )
        statement = {
            "identifier": "Q1$a",
            "rank": "normal",
            "property": {"identifier": "P1", "data_type": "time"},
            "value": {"type": "value", "content": self.chance.choice(["x", None]), "content_data": data},
            "qualifiers": [{"property": {"identifier": "P2"}, "value": {}}],
            "references": [],
        }
        return {
            "entity.labels": {"en": "a", "de": "b"},
            "entity.descriptions": {"en": "a"},
            "entity.aliases": {"en": ["a", "b"], "de": []},
            "entity.sitelinks": {"enwiki": {"title": "A", "badges": ["Q1"], "url": "https://x"}},
            "entity.statements": self.chance.choice([{"P1": [statement, statement], "P2": [statement]}, [statement]]),
            "infoboxes": boxes,
            "infobox": boxes,
            "sections": sections,
            "article_sections": sections,
            "references": [of_book | {"text": text, "source": text}],
            "tables": [table],
        }


class HostileMirror(Brought):
    """A data folder that hostile records are brought into.

    Args:
        data: The folder.
        seed: What the records are drawn from.
    """

    def __init__(self, data: Path, seed: int) -> None:
        super().__init__(data, clock=lambda: HOUR + timedelta(hours=3))
        self.draw = Draw(seed)
        self.rows: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()

    def fill(self, count: int, versions: int) -> None:
        """Bring in about `count` rows over all datasets, in so many versions of each snapshot, and publish them."""
        share = count // (3 + 2 * versions)
        for number, dataset in enumerate(datasets.datasets()):
            place = dataset.places[0] if dataset.places else ("enwiki", 0)
            if dataset.family is datasets.Family.LIST:
                self.bring_list(dataset, share // 8)
            elif dataset.family is datasets.Family.LOOKUP:
                moment = HOUR + timedelta(hours=2, microseconds=7)
                self.bring(dataset, place, self.lines(dataset, place, share), source_at=moment)
            elif dataset.family is datasets.Family.HOURLY:
                for hours in range(2):
                    hour = HOUR + timedelta(hours=hours)
                    self.bring(dataset, place, self.lines(dataset, place, share), batch_hour=hour)
            else:
                for version in range(versions):
                    identifier = f"{place[0]}_namespace_{place[1]}"
                    known = {"snapshot_id": identifier, "snapshot_version": f"{number}{version}" * 16}
                    self.bring(dataset, place, self.lines(dataset, place, share), HOUR, **known)
        self.bring_stream(share)
        self.warehouse.apply_changes()
        self.warehouse.apply_entity_changes()
        self.warehouse.publish()

    def lines(self, dataset: Dataset, place: tuple[str, int], count: int) -> list[Raw]:
        """Records of a project and namespace."""
        fixed = dict(zip(("project_id", "namespace_id"), place, strict=True))
        return [self.draw.record(dataset, number, **fixed) for number in range(count)]

    def bring(self, dataset: Dataset, *more: Any, **known: Any) -> tuple[ConvertedFile, Any]:
        """Convert and load an archive of a dataset, and count its lines."""
        made, loaded = super().bring(dataset, *more, **known)
        self.count(dataset.name, made.row_count, made.reject_count)
        return made, loaded

    def bring_list(self, dataset: Dataset, count: int) -> None:
        """Convert and load a list. One bad record refuses the whole list, so each is tried alone."""
        kept = []
        for number in range(count):
            record = self.draw.record(dataset, number)
            try:
                convert_list(dataset, f"[{record}]".encode(), self.layout)
            except ListError:
                self.rejects[dataset.name] += 1
            else:
                kept.append(record)
        made = convert_list(dataset, encode(kept).encode(), self.layout)
        self.count(dataset.name, self.warehouse.load_list(dataset, made.path), 0)

    def bring_stream(self, count: int) -> None:
        """Keep events of the stream, in several steps."""
        lake = LiveLake(self.layout, LIVE_CHANGES, ARTICLE_CHANGES)
        for first in range(0, count, 100):
            fixed = {
                "project_id": "enwiki",
                "namespace_id": 0,
                "event_partition": 3,
                "event_published_at": f"{HOUR:%FT}07:01:02Z",
            }
            records = [
                self.draw.record(datasets.ARTICLE_CHANGES, number, **fixed, event_offset=number)
                for number in range(first, min(first + 100, count))
            ]
            step = lake.add(["\n".join(records).encode() + b"\n"], HOUR + timedelta(hours=2))
            if step is not None:
                self.count(LIVE_CHANGES, step.row_count, step.reject_count)

    def count(self, name: str, rows: int, rejects: int) -> None:
        """Count what was brought in."""
        self.rows[name] += rows
        self.rejects[name] += rejects
