"""Structured contents tables: pages as parsed by the service, and tables derived from nested parts of the pages.

Record fields come from the service's data dictionary for structured contents, the names before March 2025 (`infobox`,
`article_sections`), and recorded responses. If the service cannot parse a page, it sends the article record instead, so
these tables include all article columns.
"""

from dataclasses import replace

import pyarrow as pa

from resources.tables.articles import SNAPSHOT_ARTICLES
from resources.tables.declaration import DOUBLE, INT, PROJECT_AND_NAMESPACE, TEXT, Column, Table, required

_AS_SERVED = "JSON text, exactly as served"
_BODIES = tuple(
    Column(f"{name}_json", TEXT, f"{description}; {_AS_SERVED}.", name, json=True, body=True)
    for name, description in {
        "infoboxes": "Infoboxes of the page",
        "infobox": "infoboxes_json under its name before 2025",
        "sections": "Sections, starting with one named Abstract",
        "article_sections": "sections_json under its name before 2025",
        "references": "References (footnotes) of the page",
        "tables": "Tables of the page",
    }.items()
)
#: A structured record does not contain its namespace; the archive determines it.
_OF_ARTICLE = tuple(
    replace(column, required=False) if column.name == "namespace_id" else column for column in SNAPSHOT_ARTICLES
)
STRUCTURED_ARTICLES = Table(
    "structured_articles",
    "Pages in the newest loaded structured contents snapshots, with one row per page. Infoboxes, sections, references "
    "and tables are in `structured_bodies`, as served, and in separate tables.",
    (
        *(column for column in _OF_ARTICLE if not column.body and column.name != "extra"),
        Column("description", TEXT, "Short description of the page.", "description"),
        Column(
            "attribution_json",
            TEXT,
            'Numbers of editors and references, as strings (`"57"`, `">100"`), and the month of the last revision. The '
            "column contains JSON text, exactly as served.",
            "attribution",
            json=True,
        ),
        SNAPSHOT_ARTICLES["extra"],
        *_BODIES,
        *(column for column in _OF_ARTICLE if column.body),
    ),
    key=("snapshot_id", "snapshot_version", "article_id"),
)
_PAGE = (
    *PROJECT_AND_NAMESPACE,
    required("article_id", INT, "Page ID, unique within its project."),
    required("name", TEXT, "Title of the page."),
)
STRUCTURED_BODIES = Table(
    "structured_bodies",
    "Large values of `structured_articles`, which stay in the lake: JSON text, exactly as served, and the "
    "text of pages that arrived as article records. Join on project_id and article_id.",
    (*_PAGE, required("version_id", INT, "Revision ID."), *_BODIES, *(column for column in _OF_ARTICLE if column.body)),
    key=("project_id", "article_id"),
)
_POSITION = required(
    "position",
    pa.list_(INT),
    "Position on the page. For example, [3, 1] is the first part of the third part. Positions sort in page order.",
)


def _path(of: str) -> Column:
    return required("path", TEXT, f"JSON path of the {of} in its `structured_bodies` column.")


_LINK_COUNT = required("link_count", INT, "Number of links in this part.")
_CITATION_COUNT = required("citation_count", INT, "Number of citations in this part.")
INFOBOX_FIELDS = Table(
    "infobox_fields",
    "Infobox fields in page order, with one row for each part that is neither an infobox nor a heading.",
    (
        *_PAGE,
        _POSITION,
        _path("field"),
        required("infobox_number", INT, "Position of the infobox on the page, starting at 1."),
        Column("infobox_name", TEXT, "Name of the infobox, for example Infobox settlement."),
        Column("heading", TEXT, "Infobox heading above the field."),
        Column("part_type", TEXT, "Kind of part, for example field, image, list or list_item."),
        Column("label", TEXT, "Label of the field, or null if the field has no label."),
        Column("value", TEXT, "Value as plain text."),
        Column("values", pa.list_(TEXT), "Separate values, if the service sends them."),
        _LINK_COUNT,
        _CITATION_COUNT,
    ),
    key=("project_id", "article_id", "position"),
)
SECTIONS = Table(
    "sections",
    "Page sections, including nested sections, in page order. The first section is named Abstract.",
    (
        *_PAGE,
        _POSITION,
        _path("section"),
        required("level", INT, "Nesting level: 1 for a top-level section, 2 for a section inside it, and so on."),
        Column("heading", TEXT, "Name of the section."),
        Column(
            "headings",
            pa.list_(TEXT),
            "Names of the parent sections, from the top, followed by the section's own name.",
        ),
        Column("text", TEXT, "Paragraphs and list items, one per line, without nested sections."),
        _LINK_COUNT,
        _CITATION_COUNT,
        Column("table_ids", pa.list_(TEXT), "Identifiers of the section's tables (table_id in `article_tables`)."),
    ),
    key=("project_id", "article_id", "position"),
)
ARTICLE_REFERENCES = Table(
    "article_references",
    "Page references (footnotes), in page order.",
    (
        *_PAGE,
        _POSITION,
        _path("reference"),
        Column("reference_id", TEXT, "Identifier that citations use, for example cite_note-3."),
        Column("reference_group", TEXT, "Group of footnotes."),
        Column("reference_type", TEXT, "Kind of source, for example web or journal."),
        Column("title", TEXT, "Title of the source, from `title` in the metadata."),
        Column("url", TEXT, "URL of the source, from `url` in the metadata or else from the first link in the text."),
        Column("text", TEXT, "Footnote as plain text."),
        Column("source", TEXT, "Source as plain text, if the footnote is a short citation."),
        Column("metadata_json", TEXT, "All metadata, as a JSON object with string values."),
    ),
    key=("project_id", "article_id", "position"),
)
ARTICLE_TABLES = Table(
    "article_tables",
    "Page tables that the service parsed with high confidence, in page order.",
    (
        *_PAGE,
        _POSITION,
        _path("table"),
        Column("table_id", TEXT, "Identifier that consists of the section's path and the table's number."),
        Column("confidence_score", DOUBLE, "The service's confidence that it parsed the table correctly (0 to 1)."),
        required("header_count", INT, "Header rows."),
        required("row_count", INT, "Rows."),
        required("column_count", INT, "Number of cells in the widest row."),
        Column("headers", pa.list_(pa.list_(TEXT)), "Text of each header cell, by row."),
        Column("rows", pa.list_(pa.list_(TEXT)), "Text of each body cell, by row."),
        Column("footers", pa.list_(pa.list_(TEXT)), "Text of each footer cell, by row."),
    ),
    key=("project_id", "article_id", "position"),
)
ARTICLE_LINKS = Table(
    "article_links",
    "All links in infoboxes, sections and references, in page order.",
    (
        *_PAGE,
        required("origin", TEXT, "Kind of part that contains the link: infobox, section or reference."),
        _POSITION,
        _path("link"),
        Column("url", TEXT, "Target URL of the link."),
        Column("text", TEXT, "Text of the link."),
    ),
    key=("project_id", "article_id", "origin", "position"),
)
CITATIONS_PER_PAGE = Table(
    "citations_per_page",
    "Number of references and citations on each page.",
    (
        *_PAGE,
        required("reference_count", INT, "Number of references."),
        required("citation_count", INT, "Number of citations in infoboxes and sections."),
        required("cited_reference_count", INT, "Number of references that are cited in infoboxes and sections."),
    ),
    key=("project_id", "article_id"),
)
#: Tables derived from the bodies, in creation order.
STRUCTURED_VIEWS = (INFOBOX_FIELDS, SECTIONS, ARTICLE_REFERENCES, ARTICLE_TABLES, ARTICLE_LINKS, CITATIONS_PER_PAGE)
