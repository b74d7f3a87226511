"""Examples of pieces of paths, of bodies and of records. All values are made up; titles and identifiers are real."""

from __future__ import annotations

from typing import Any


def _part(example: str, text: str, pattern: str | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    return {"description": text, "schema": schema | ({"pattern": pattern} if pattern else {}), "example": example}


_SNAPSHOT = _part("enwiki_namespace_0", "Project and namespace, as the list has them")
_CHUNK = _part("enwiki_namespace_0_chunk_0", "Identifier of the chunk, or its number alone")
_WIKIDATA = _part("wikidatawiki_namespace_0", "Project and namespace, as the list has them")
_WIKIDATA_CHUNK = _part("wikidatawiki_namespace_0_chunk_0", "Identifier of the chunk, or its number alone")
_ENTITY = _part("Q42", "Identifier of an item (Q) or a property (P)")
#: Pieces of paths, by operation and name; with an empty operation for all others.
PARTS: dict[tuple[str, str], dict[str, Any]] = {
    ("", "identifier"): _SNAPSHOT,
    ("", "snapshot_identifier"): _SNAPSHOT,
    ("", "chunk_identifier"): _CHUNK,
    ("", "date"): _part("2026-11-20", "Day in UTC"),
    ("", "hour"): _part("05", "Hour in UTC, two digits"),
    ("", "name"): _part("Earth", "Title"),
    ("code", "identifier"): _part("wiki", "Identifier"),
    ("language", "identifier"): _part("en", "Identifier"),
    ("project", "identifier"): _part("enwiki", "Identifier"),
    ("namespace", "identifier"): _part("0", "Number"),
    ("wikidata-item", "identifier"): _part("Q42", "Identifier of the item"),
    ("wikidata-property", "identifier"): _part("P31", "Identifier of the property"),
    ("wikidata-label", "identifier"): _ENTITY,
    **{
        (f"wikidata-{kind}{end}", name): part
        for kind, end in (("snapshot", ""), ("snapshot", "-download"), ("batch", ""), ("batch", "-download"))
        for name, part in (("identifier", _WIKIDATA),)
    },
    **{
        (f"wikidata-chunk{end}", name): part
        for end in ("", "s", "-download")
        for name, part in (("snapshot_identifier", _WIKIDATA), ("chunk_identifier", _WIKIDATA_CHUNK))
    },
}

_USER = {"username": "your-name"}
BODY_EXAMPLES: dict[str, Any] = {
    "login": {**_USER, "password": "..."},
    "token-refresh": {**_USER, "refresh_token": "..."},
    "token-revoke": {"refresh_token": "..."},
    "forgot-password": _USER,
    "forgot-password-confirm": {**_USER, "password": "...", "confirmation_code": "123456"},
    "change-password": {"access_token": "...", "previous_password": "......", "proposed_password": "......"},
    "new-password-required": {**_USER, "session": "...", "new_password": "......"},
    "fields": {"fields": ["identifier"]},
}

_TOKENS = {"id_token": "...", "access_token": "...", "expires_in": 86_400}
_MOMENT = "2026-11-20T06:04:07.123456789Z"
_FILE = {
    "identifier": "enwiki_namespace_0",
    "version": "07971adf14969cdf7517dc243da523b3",
    "date_modified": _MOMENT,
    "is_part_of": {"identifier": "enwiki"},
    "in_language": {"identifier": "en"},
    "namespace": {"identifier": 0},
    "size": {"value": 215.077, "unit_text": "MB"},
}
_ARTICLE = {
    "name": "Earth",
    "identifier": 9228,
    "date_modified": "2026-11-20T05:12:00Z",
    "version": {"identifier": 1_300_000_000, "is_minor_edit": True},
    "url": "https://en.wikipedia.org/wiki/Earth",
    "namespace": {"identifier": 0},
    "in_language": {"identifier": "en"},
    "main_entity": {"identifier": "Q2", "url": "https://www.wikidata.org/entity/Q2"},
    "is_part_of": {"identifier": "enwiki", "url": "https://en.wikipedia.org"},
    "license": [{"identifier": "CC-BY-SA-4.0", "url": "https://creativecommons.org/licenses/by-sa/4.0/"}],
}
#: By schema.
RECORD_EXAMPLES: dict[str, Any] = {
    "login": {**_TOKENS, "refresh_token": "..."},
    "tokens": _TOKENS,
    "new-password-required": {**_TOKENS, "refresh_token": "...", "session": "..."},
    "user": {
        "groups": ["group_1"],
        "ondemand_requests_count": 12,
        "ondemand_limit": 50_000,
        "snapshot_requests_count": 1,
        "snapshot_limit": 30,
        "chunk_requests_count": 0,
        "chunk_limit": 1_500,
        "username": "your-name",
        "apis": [{"path": "/v2/codes", "method": "GET"}],
    },
    "code": {"identifier": "wiki", "name": "Wikipedia", "description": "The free encyclopedia."},
    "language": {"identifier": "dv", "name": "Divehi", "alternate_name": "ދިވެހިބަސް", "direction": "rtl"},
    "project": {
        "name": "Wikipedia",
        "identifier": "enwiki",
        "url": "https://en.wikipedia.org",
        "code": "wiki",
        "in_language": {"identifier": "en"},
    },
    "namespace": {"name": "Article", "identifier": 0, "description": "The pages that readers come for."},
    "snapshot": {**_FILE, "chunks": ["enwiki_namespace_0_chunk_1", "enwiki_namespace_0_chunk_0"]},
    "chunk": {**_FILE, "identifier": "enwiki_namespace_0_chunk_0"},
    "batch": _FILE,
    "article": {**_ARTICLE, "article_body": {"html": "<!DOCTYPE html>...", "wikitext": "'''Earth''' is ..."}},
    "structured-content": {
        **_ARTICLE,
        "description": "Third planet from the Sun",
        "infoboxes": [
            {
                "name": "Infobox planet",
                "type": "infobox",
                "has_parts": [{"name": "Satellites", "type": "field", "value": "1"}],
            }
        ],
        "sections": [
            {"name": "Abstract", "type": "section", "has_parts": [{"type": "paragraph", "value": "Earth is"}]}
        ],
    },
    "wikidata-article": {
        "name": "Q42",
        "identifier": 138,
        "url": "https://www.wikidata.org/wiki/Q42",
        "namespace": {"identifier": 0},
        "is_part_of": {"identifier": "wikidatawiki", "url": "https://www.wikidata.org"},
        "entity": {"identifier": "Q42", "type": "item", "labels": {"en": "Douglas Adams"}},
    },
    "labels": {"en": "Douglas Adams", "ja": "ダグラス・アダムズ"},
}
