"""The shapes of articles, structured contents and Wikidata entities. A member without a value is left out.

Source: the service's data dictionary and interface description; arrays and objects as recorded answers have them.
"""

from __future__ import annotations

from resources.sandbox.api.description.schemas import (
    FLAG,
    MOMENT,
    NUMBER,
    TEXT,
    WHOLE,
    Schema,
    keyed,
    listed,
    obj,
    ref,
    text,
)

_LINKED = obj(name=TEXT, url=TEXT)
_PART_OF = obj(identifier=text("enwiki"), url=text("https://en.wikipedia.org"))
_RISK = obj(prediction=FLAG, probability=obj(false=NUMBER, true=NUMBER))
_CELLS = listed(listed(obj(value=TEXT, nested_table={})))
_PARAGRAPH = obj(value=TEXT, links=listed(ref("link")))
_LABELS = {**keyed(TEXT), "description": "A text by language", "examples": [{"en": "Earth", "de": "Erde"}]}
#: What articles and structured contents have in common.
_COMMON: dict[str, Schema] = {
    "name": {**TEXT, "description": "Title, with spaces"},
    "identifier": {**WHOLE, "description": "Page id"},
    "abstract": TEXT,
    "date_created": MOMENT,
    "date_modified": MOMENT,
    "url": TEXT,
    "version": ref("version"),
    "main_entity": ref("entity-reference"),
    "additional_entities": listed(ref("entity-reference")),
    "in_language": obj(identifier=text("en")),
    "is_part_of": _PART_OF,
    "license": listed(ref("license")),
    "image": ref("image"),
    "event": ref("event"),
    "visibility": ref("visibility"),
}
_BETA_STATEMENTS = "By property, the statements. Their form is not public; this is the most likely one."

RECORDS: dict[str, Schema] = {
    "article": obj(
        **_COMMON,
        date_previously_modified=MOMENT,
        protection=listed(ref("protection")),
        previous_version=obj(identifier=WHOLE, number_of_characters=WHOLE),
        watchers_count=WHOLE,
        namespace=obj(identifier=WHOLE),
        categories=listed(_LINKED),
        templates=listed(_LINKED),
        redirects=listed(_LINKED),
        article_body=obj(html=TEXT, wikitext=TEXT),
    ),
    "structured-content": obj(
        **_COMMON,
        description={**TEXT, "description": "Short description of the page"},
        infoboxes=listed(ref("part")),
        sections=listed(ref("part")),
        references=listed(ref("reference")),
        tables=listed(ref("table")),
        attribution=obj(
            editors_count=obj(anonymous_count=TEXT, registered_count=TEXT),
            parsed_references_count=WHOLE,
            last_revised=TEXT,
        ),
    ),
    "version": obj(
        identifier={**WHOLE, "description": "Revision id"},
        comment=TEXT,
        tags=listed(TEXT),
        is_minor_edit=FLAG,
        is_flagged_stable=FLAG,
        has_tag_needs_citation=FLAG,
        is_breaking_news=FLAG,
        noindex=FLAG,
        scores=obj(
            revertrisk=_RISK,
            damaging=_RISK,
            goodfaith=_RISK,
            referencerisk=obj(reference_risk_score=NUMBER),
            referenceneed=obj(reference_need_score=NUMBER),
        ),
        editor=obj(
            identifier=WHOLE,
            name=TEXT,
            edit_count=WHOLE,
            groups=listed(TEXT),
            is_bot=FLAG,
            is_anonymous=FLAG,
            is_admin=FLAG,
            is_patroller=FLAG,
            has_advanced_rights=FLAG,
            date_started=MOMENT,
        ),
        number_of_characters=WHOLE,
        size=obj(value=NUMBER, unit_text=text("B")),
        maintenance_tags=obj(
            citation_needed_count=WHOLE, pov_count=WHOLE, clarification_needed_count=WHOLE, update_count=WHOLE
        ),
    ),
    "event": obj(
        identifier=TEXT,
        type=text("update", "delete", "visibility-change"),
        date_created=MOMENT,
        date_published=MOMENT,
        partition={**WHOLE, "description": "Streams only"},
        offset={**WHOLE, "description": "Streams only"},
        fail_count=WHOLE,
        fail_reason=TEXT,
    ),
    "visibility": obj(text=FLAG, editor=FLAG, comment=FLAG),
    "entity-reference": obj(identifier=text("Q2"), url=TEXT, aspects=listed(TEXT)),
    "license": obj(name=TEXT, identifier=text("CC-BY-SA-4.0"), url=TEXT),
    "protection": obj(type=text("edit"), level=text("autoconfirmed"), expiry=text("infinity")),
    "image": obj(
        content_url=TEXT,
        width=WHOLE,
        height=WHOLE,
        identifier=TEXT,
        name=TEXT,
        alternative_text=TEXT,
        caption=TEXT,
        thumbnail=obj(contentUrl=TEXT, width=WHOLE, height=WHOLE),
        encoding_format=TEXT,
        media_type=TEXT,
    ),
    "link": obj(url=TEXT, text=TEXT, images=listed(ref("image"))),
    "part": obj(
        name=TEXT,
        type=text("infobox", "section", "field", "image", "list", "list_item", "paragraph", "table"),
        value=TEXT,
        values=listed(TEXT),
        has_parts=listed(ref("part")),
        images=listed(ref("image")),
        links=listed(ref("link")),
        citations=listed(obj(identifier=TEXT, group=TEXT, text=TEXT)),
        table_references=listed(obj(identifier=TEXT, confidence_score=NUMBER)),
    ),
    "reference": obj(
        identifier=TEXT,
        group=TEXT,
        type=TEXT,
        metadata=keyed(TEXT),
        text=_PARAGRAPH,
        source=_PARAGRAPH,
        parent_reference=TEXT,
    ),
    "table": obj(identifier=TEXT, headers=_CELLS, rows=_CELLS, footers=_CELLS, confidence_score=NUMBER),
    "wikidata-article": obj(
        name=text("Q42"),
        identifier={**WHOLE, "description": "Page id"},
        date_created=MOMENT,
        date_modified=MOMENT,
        date_previously_modified=MOMENT,
        protection=listed(ref("protection")),
        redirects=listed(_LINKED),
        url=TEXT,
        namespace=obj(identifier=WHOLE),
        is_part_of=_PART_OF,
        version=ref("version"),
        entity=ref("entity"),
        visibility=ref("visibility"),
        license=listed(ref("license")),
        event=ref("event"),
    ),
    "entity": obj(
        identifier=text("Q42"),
        type=text("item", "property"),
        data_type=TEXT,
        labels=ref("labels"),
        descriptions=ref("labels"),
        aliases=keyed(listed(TEXT)),
        statements={**keyed(listed(ref("statement"))), "description": _BETA_STATEMENTS},
        sitelinks=keyed(obj(title=TEXT, badges=listed(TEXT), url=TEXT)),
    ),
    "labels": _LABELS,
    "statement": obj(
        identifier=TEXT,
        rank=text("normal", "preferred", "deprecated"),
        property=ref("property"),
        value=ref("value"),
        qualifiers=listed(obj(property=ref("property"), value=ref("value"))),
        references=listed(obj(identifier=TEXT, parts=listed(obj(property=ref("property"), value=ref("value"))))),
    ),
    "property": obj(identifier=text("P31"), data_type=text("wikibase-item"), labels=ref("labels")),
    "value": obj(
        type=TEXT,
        content={**TEXT, "description": "The value, if a text can hold it"},
        content_data={"type": "object", "description": "Otherwise the value: time, quantity, coordinates ..."},
        labels=ref("labels"),
    ),
}
