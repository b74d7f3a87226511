"""The truth of the sandbox's Wikidata compared with a mirror: entities, their texts and statements.

The truth is read from the world's pages, never folded from records. Plain Python makes the expected rows from the wire
form, so that nothing of the converter or of the views is trusted.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

from resources.sandbox.world.world import World
from resources.tables.entities import ENTITIES, ENTITY_VIEWS
from resources.warehouse import Warehouse
from tests.truth import assert_same as assert_same_rows
from tests.truth import dig, moment, plain

Row = dict[str, Any]

WIKI, NAMESPACES = "wikidatawiki", (0, 120)
PARTS = ("labels", "descriptions", "aliases", "statements", "sitelinks")
#: Name, way through the record and reader of each column that the record tells.
COLUMNS = [(c.name, None if c.path is None else c.path.split("."), plain(c.type)) for c in ENTITIES]


def expected_row(record: Any) -> Row:
    """The row of `entities` that a record must become without `source_at`, and its parts as JSON."""
    row: Row = {name: of(dig(record, path)) for name, path, of in COLUMNS if path is not None}
    row["namespace_id"] = record["namespace"]["identifier"]
    row["event_at"] = moment(record["event"]["date_published"])
    row |= {"extra": None, "source_at": None}
    return row | {f"{part}_json": record["entity"].get(part) for part in PARTS}


def truth(world: World, when: datetime, since: datetime | None = None) -> dict[str, Any]:
    """The records by identifier of the entities before a moment, or of those with an event `since` then."""
    return {record["name"]: record for n in NAMESPACES for record in world.truth(WIKI, n, when, since)}


def found_rows(warehouse: Warehouse, source: str, *parameters: Any) -> dict[str, Row]:
    """The rows of a table or macro of entities in the form of `expected_row`."""
    with warehouse.connect_published() as connection:
        rows = connection.sql(
            f"SELECT found.*, {', '.join(f'{part}_json' for part in PARTS)} FROM {source} AS found "
            "LEFT JOIN entity_bodies USING (project_id, entity_id, event_at, source_at)",
            params=list(parameters) or None,
        ).to_arrow_table()
    found = {}
    for row in rows.to_pylist():
        texts = {f"{part}_json": row[f"{part}_json"] for part in PARTS}
        parsed = {name: None if text is None else json.loads(text) for name, text in texts.items()}
        values = {name: of(row[name]) for name, _, of in COLUMNS}
        assert row["entity_id"] not in found, "an entity stands twice, or its bodies do"
        found[row["entity_id"]] = values | {"namespace_id": row["namespace_id"], "source_at": None} | parsed
    return found


def assert_same(found: dict[str, Row], records: dict[str, Any], what: str = "at the end") -> None:
    """See that the rows are those of the entities."""
    assert_same_rows(found, {name: expected_row(record) for name, record in records.items()}, what)


def _statement(entity: str, of: str, position: int, statement: Any) -> Row:
    value = statement["value"]
    data = {name.lower(): one for name, one in value.get("content_data", {}).items()}
    unit = re.search(r"Q\d+$", data.get("unit", ""))
    time = re.fullmatch(r"\+(\d{4})-(\d\d)-(\d\d)T00:00:00Z", data.get("time", ""))
    at = None
    if time:
        at = datetime(*(max(1, int(part)) for part in time.groups()), tzinfo=UTC)
    text = value.get("content") or data.get("time") or data.get("amount") or data.get("text")
    if "latitude" in data:
        text = f"{data['latitude']!r}, {data['longitude']!r}"
    return {
        "entity_id": entity,
        "property_id": of,
        "position": position,
        "statement_id": statement["identifier"],
        "rank": statement["rank"],
        "value_type": value["type"],
        "data_type": statement["property"]["data_type"],
        "value": text,
        "number": float(data["amount"]) if "amount" in data else None,
        "unit_id": unit and unit[0],
        "time": data.get("time"),
        "time_precision": data.get("precision") if "time" in data else None,
        "time_at": at,
        "latitude": data.get("latitude"),
        "longitude": data.get("longitude"),
        "language_id": data.get("language"),
        "qualifiers_json": statement.get("qualifiers"),
        "references_json": statement.get("references"),
        "statement_json": statement,
    }


def derived(records: dict[str, Any]) -> dict[str, list[Row]]:
    """The rows of every table that is derived from entities."""
    rows: dict[str, list[Row]] = {table.name: [] for table in ENTITY_VIEWS}
    for name, record in records.items():
        entity = record["entity"]
        for of, column in (("labels", "label"), ("descriptions", "description")):
            texts = entity.get(of, {})
            rows[f"entity_{of}"] += [{"entity_id": name, "language_id": lang, column: t} for lang, t in texts.items()]
        rows["entity_aliases"] += [
            {"entity_id": name, "language_id": language, "position": number, "alias": alias}
            for language, aliases in entity.get("aliases", {}).items()
            for number, alias in enumerate(aliases, 1)
        ]
        rows["entity_sitelinks"] += [
            {
                "entity_id": name,
                "project_id": site,
                "title": link["title"],
                "badges": link.get("badges", []),
                "url": link["url"],
            }
            for site, link in entity.get("sitelinks", {}).items()
        ]
        rows["entity_statements"] += [
            _statement(name, of, number, statement)
            for of, statements in entity.get("statements", {}).items()
            for number, statement in enumerate(statements, 1)
        ]
    preferred = {_group(row) for row in rows["entity_statements"] if row["rank"] == "preferred"}
    rows["best_statements"] = [
        row
        for row in rows["entity_statements"]
        if row["rank"] == ("preferred" if _group(row) in preferred else "normal")
    ]
    return rows


def _group(statement: Row) -> tuple[Any, Any]:
    return statement["entity_id"], statement["property_id"]


def assert_derived(warehouse: Warehouse, records: dict[str, Any]) -> None:
    """See that every table that is derived from entities holds what the records say."""
    for table in ENTITY_VIEWS:
        with warehouse.connect_published() as connection:
            found = connection.table(table.name).to_arrow_table().to_pylist()
        for row in found:
            row |= {name: json.loads(text) for name, text in row.items() if name.endswith("_json") and text is not None}
        key, expected = table.key, derived(records)[table.name]
        have, want = ({tuple(row[name] for name in key): row for row in rows} for rows in (found, expected))
        assert (len(have), len(want)) == (len(found), len(expected)), f"{table.name}: a key stands twice"
        wrong = sorted(one for one in have.keys() | want.keys() if have.get(one) != want.get(one))
        first = wrong and f"{have.get(wrong[0])} where the truth is {want.get(wrong[0])}"[:3000]
        assert not wrong, f"{table.name}: {len(wrong)}, {first}"
