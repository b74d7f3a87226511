"""Structured contents, which are article records whose text is split into parts.

Source: the service's data dictionary for structured contents, and recorded responses. Parts are parsed from wikitext.
The parts are infoboxes, sections (the first section is named `Abstract`), paragraphs, lists, tables, links and
footnotes. Other wikitext syntax is dropped or kept as text. The service's parser reads HTML and supports more syntax.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from resources.sandbox.files import read_yaml
from resources.sandbox.world.wire import Chance

Record = dict[str, Any]

_WORDS = read_yaml("records.yaml")["structured"]
#: Projects with snapshots, fields that are copied from the article in this order, and computed fields.
PROJECTS, BASIC, COMPUTED = (_WORDS[name] for name in ("projects", "basic", "computed"))
_EVENT = "event"
_INFOBOX = re.compile(r"\{\{Infobox ([^|\n}]+)\n(.*?)^\}\}\n", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^ ?\| *(.+?) *= *(.*)$", re.MULTILINE)
_HEADING = re.compile(r"(={2,6}) *(.+?) *\1 *")
_CATEGORY = re.compile(r"\[\[[^\]|:]+:[^\]|]+\]\]")
_INLINE = re.compile(r"<ref[^>/]*>(.*?)</ref>|\[\[([^\]|]+)(?:\|([^\]]*))?\]\]|\{\{[^{}]*\}\}|'{2,}|<[^>]*>", re.DOTALL)
_PARAMETER = re.compile(r"\|\s*([\w-]+)\s*=\s*([^|}]*)")
_UNPARSED = 29


def structured(article: Record) -> Record | None:
    """Return an article's structured record with its event, or None if the parser fails.

    The parser fails on pages outside namespace 0 and on a few other pages without an apparent reason.
    """
    if (
        article["namespace"]["identifier"] != 0
        or article["identifier"] % _UNPARSED == 0
        or "article_body" not in article
    ):
        return None
    page = _Page(article)
    record = {key: article[key] for key in BASIC if key in article}
    found = {
        _EVENT: article.get(_EVENT),
        "description": page.description(),
        "infoboxes": page.infoboxes,
        "sections": page.sections,
        "references": page.references,
        "tables": page.tables,
        "attribution": page.attribution(),
    }
    return record | {key: value for key, value in found.items() if value}


def pick(article: Record, fields: tuple[str, ...]) -> Record:
    """Return the requested fields of an article's structured record, or by default all fields except the event.

    Tables are returned with the sections and cannot be requested separately. If the parser fails, the article is
    returned unchanged.
    """
    whole = structured(article)
    if whole is None:
        return article
    if not fields:
        return {key: value for key, value in whole.items() if key != _EVENT}
    wanted = {field.partition(".")[0] for field in fields} & {*BASIC, *COMPUTED}
    wanted = wanted | ({"tables"} if "sections" in wanted else set()) if wanted else {*BASIC}
    return {key: value for key, value in whole.items() if key in wanted}


class _Page:
    def __init__(self, article: Record) -> None:
        self._article = article
        self._chance = Chance("structured", article["is_part_of"]["identifier"], article["identifier"])
        self._base = article["is_part_of"]["url"] + "/wiki/"
        self.references: list[Record] = []
        self.tables: list[Record] = []
        text = article["article_body"].get("wikitext", "")
        self.infoboxes = [self._infobox(found) for found in _INFOBOX.finditer(text)]
        self.sections = self._sections(_INFOBOX.sub("", text))

    def description(self) -> str:
        """Return a short description, which is empty for some pages."""
        words = self._article.get("abstract", "").split()
        return " ".join(words[:5]) if len(words) > 5 and self._chance.below(6) else ""

    def attribution(self) -> Record:
        """Return the numbers of editors and references, and the month of the last revision."""
        registered = 1 + self._chance.below(140)
        return {
            "editors_count": {
                "anonymous_count": str(self._chance.below(60)),
                "registered_count": ">100" if registered > 100 else str(registered),
            },
            "parsed_references_count": len(self.references),
            "last_revised": f"{self._article['date_modified'][5:7]}/{self._article['date_modified'][2:4]}",
        }

    def _infobox(self, found: re.Match[str]) -> Record:
        fields = [{"name": name, "type": "field", **self._text(value)} for name, value in _FIELD.findall(found[2])]
        parts: list[Record] = fields
        if image := self._article.get("image"):
            caption = {"alternative_text": self._article["name"], "caption": f"{self._article['name']} (2026)"}
            parts = [{"type": "image", "images": [image | caption]}, *fields]
        for field in fields[:1]:  # the first field also contains a list of values
            field["values"] = field.get("value", "").split(", ")
        box = {"name": self._article["name"], "type": "section", "has_parts": parts}
        return {"name": f"Infobox {found[1]}", "type": "infobox", "has_parts": [box]}

    def _sections(self, text: str) -> list[Record]:
        abstract: Record = {"name": "Abstract", "type": "section", "has_parts": []}
        top, open_sections = [abstract], [(1, abstract)]
        for kind, content in _blocks(text):
            if kind == "heading":
                level, name = content
                section: Record = {"name": name, "type": "section", "has_parts": []}
                while len(open_sections) > 1 and open_sections[-1][0] >= level:
                    open_sections.pop()
                inside = level > 2 and len(open_sections) > 1
                (open_sections[-1][1]["has_parts"] if inside else top).append(section)
                open_sections = [*open_sections[: None if inside else 1], (level, section)]
                continue
            parts = open_sections[-1][1]["has_parts"]
            if kind == "table":
                self._table(content, open_sections[-1][1]["name"], parts)
            elif kind == "list":
                parts.append(
                    {"type": "list", "has_parts": [{"type": "list_item", **self._text(one)} for one in content]}
                )
            else:
                parts.append({"type": "paragraph", **self._text(content)})
        return [_without_empty(section) for section in top]

    def _table(self, lines: list[str], section: str, parts: list[Record]) -> None:
        headers = [_cells(line[1:], "!!") for line in lines if line.startswith("!")]
        rows = [_cells(line[1:], "||") for line in lines if line.startswith("|") and not line.startswith(("|-", "|}"))]
        if not rows:
            return
        if not self.tables and not self._chance.below(4):
            inner = {"headers": [], "rows": [_cells("a || b", "||")], "footers": []}
            rows[0][0]["nested_table"] = json.dumps(inner, separators=(",", ":"))
        anchor = re.sub(r"\W+", "_", section.lower())
        number = 1 + sum(table["identifier"].startswith(f"{anchor}_table") for table in self.tables)
        score = round(0.5 + self._chance.below(51) / 100, 2)
        table = {"identifier": f"{anchor}_table{number}", "headers": headers, "rows": rows, "confidence_score": score}
        self.tables.append({key: value for key, value in table.items() if value})
        parts.append(
            {"type": "table", "table_references": [{"identifier": table["identifier"], "confidence_score": score}]}
        )

    def _text(self, markup: str) -> Record:
        """Return the `value`, `links` and `citations` members of a part that contains this text."""
        links: list[Record] = []
        citations: list[Record] = []

        def plain(found: re.Match[str]) -> str:
            reference, target, label = found.groups()
            if reference is not None:
                citations.append(self._cited(reference))
            elif target is not None:
                links.append({"url": self._base + target.replace(" ", "_"), "text": label or target})
                return label or target
            return ""

        value = " ".join(_INLINE.sub(plain, markup).split())
        members = {"value": value, "links": links, "citations": citations}
        return {key: member for key, member in members.items() if member}

    def _cited(self, markup: str) -> Record:
        """Add a footnote to the references and return its citation."""
        number = len(self.references) + 1
        metadata = {name: value.strip() for name, value in _PARAMETER.findall(markup)}
        url, title = metadata.get("url", ""), metadata.get("title", "")
        text: Record = {"value": f'"{title}". {metadata.get("publisher", "")}'.strip() if metadata else markup}
        if url:
            text["links"] = [{"url": url, "text": f'"{title}"'}]
        reference: Record = {"identifier": f"cite_note-{number}", "type": "web", "metadata": metadata, "text": text}
        if self._chance.one_in(25):
            reference["group"] = "note"
            reference["source"] = {"value": title, "links": [{"url": f"{self._base}{number}", "text": title}]}
        self.references.append({key: value for key, value in reference.items() if value})
        return {"identifier": f"cite_note-{number}", "text": f"[{number}]"} | (
            {"group": "note"} if "group" in reference else {}
        )


def _without_empty(section: Record) -> Record:
    parts = [_without_empty(part) if part["type"] == "section" else part for part in section["has_parts"]]
    rest = {key: value for key, value in section.items() if key != "has_parts"}
    return rest | ({"has_parts": parts} if parts else {})


def _cells(line: str, between: str) -> list[Record]:
    return [{"value": cell.strip()} for cell in line.split(between)]


def _blocks(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the headings (level, name), tables (lines), lists (items) and paragraphs in a page's wikitext, in order."""
    waiting: dict[str, list[str]] = {"paragraph": [], "list": []}

    def rest() -> Iterator[tuple[str, Any]]:
        if any(line.strip() for line in waiting["paragraph"]):
            yield "paragraph", "\n".join(waiting["paragraph"])
        if waiting["list"]:
            yield "list", waiting["list"]
        waiting["paragraph"], waiting["list"] = [], []

    table: list[str] | None = None
    for line in text.split("\n"):
        if table is not None:
            table.append(line)
            if line.startswith("|}"):
                yield "table", table
                table = None
        elif line.startswith("{|"):
            yield from rest()
            table = []
        elif heading := _HEADING.fullmatch(line):
            yield from rest()
            yield "heading", (len(heading[1]), heading[2])
        elif line.startswith("* "):
            waiting["list"].append(line[2:])
        elif not line.strip():
            yield from rest()
        elif not _CATEGORY.fullmatch(line):
            if waiting["list"]:
                yield from rest()
            waiting["paragraph"].append(line)
    yield from rest()
