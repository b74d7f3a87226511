"""Data dictionary in Markdown, generated from table declarations as one document or as one page per table group."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from resources import datasets
from resources.tables import Column, Table

_TITLE = "# Data dictionary\n"

_HEAD = """\
The DuckDB file holds the same descriptions as comments, which `duckdb_tables()`, `duckdb_views()` and
`duckdb_columns()` show. It does not have the columns marked *only in the lake*, which are in the Parquet files.

*From* is the path of the value in the service's record. Columns without a path are computed by the pipeline. Times are
in UTC.

A record with a value of another type than its column is rejected, and the reason names the path, the value and the
expected type. A number in quotation marks is text, and a fraction is never rounded to a whole number. These forms are
accepted because they lose nothing:

- `timestamp`: a date, or a date and a time to the hour, minute, second or up to six digits of a second, separated by
  `T` or a space; a time with an offset is converted to UTC, a time without one is read as UTC.
- `double`: whole numbers too.
- *sent as double*: a whole number also as `26124.0` or `2.6124e4`, below 2 to the power of 53.
- *any JSON*: every JSON value, stored as text exactly as it was sent.
- any column that may be null: null, or no such field.
"""

#: File name, title and tables of each page; the last page contains tables that no group names.
_PAGES = {
    "articles": ("Pages", "articles article_changes article_bodies snapshot_articles snapshots redirects lookups"),
    "reference": ("Reference lists", "codes languages projects namespaces"),
    "structured": (
        "Structured contents",
        (
            "structured_articles structured_bodies infobox_fields sections article_references article_tables "
            "article_links citations_per_page"
        ),
    ),
    "wikidata": (
        "Wikidata",
        (
            "entities entity_changes entity_bodies snapshot_entities entity_labels entity_descriptions entity_aliases "
            "entity_sitelinks entity_statements best_statements"
        ),
    ),
    "views": (
        "Views of pages and changes",
        (
            "distinct_changes activity most_edited newest_articles deleted_articles likely_reverted actual_reverts "
            "breaking_news vandalism_candidates article_categories article_templates titles"
        ),
    ),
    "live": ("Realtime stream", "live_changes changes_live articles_live visibility_changes stream_state stream_runs"),
    "coverage": ("Coverage, loads and rejects", "hours project_state loads compacted_files rejects about"),
    "other": ("Other tables", ""),
}


def render() -> str:
    """Return the complete dictionary in Markdown."""
    tables = datasets.tables()
    return "\n".join([_TITLE, _HEAD, *(_section(table, tables, {}) for table in tables)])


def pages() -> dict[str, str]:
    """Return the file name and Markdown of each page in `docs/tables`."""
    tables = datasets.tables()
    page_of = dict.fromkeys((table.name for table in tables), "other")
    page_of |= {table: page for page, (_, names) in _PAGES.items() for table in names.split()}
    written = {}
    index = [_TITLE, "`wme dictionary --folder docs/tables` writes these pages.\n", _HEAD]
    for page, (title, _) in _PAGES.items():
        here = [table for table in tables if page_of[table.name] == page]
        if not here:
            continue
        files = {table: f"{name}.md" for table, name in page_of.items() if name != page}
        head = [f"# {title}\n", "Part of the [data dictionary](README.md), which explains types and paths.\n"]
        written[f"{page}.md"] = "\n".join([*head, *(_section(table, tables, files) for table in here)])
        first = {table.name: table.description.split(". ")[0].rstrip(".") for table in here}
        rows = [f"| [`{name}`]({page}.md#{name}) | {sentence}. |" for name, sentence in first.items()]
        index.append("\n".join([f"## {title}\n", "| table | contents |", "|---|---|", *rows, ""]))
    return {"README.md": "\n".join(index), **written}


def write(folder: Path) -> None:
    """Write the pages into a folder, and delete pages of removed groups."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for stale in {path.name for path in folder.glob("*.md")} - texts.keys():
        (folder / stale).unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _section(table: Table, declared: Sequence[Table], files: Mapping[str, str]) -> str:
    """Describe a table. `files` contains the files of tables that are described on other pages.

    If an earlier table shares at least 20 columns and three quarters of this table's columns, these columns are counted
    but not described again.
    """
    least = max(20, 0.75 * len(table.columns))
    earlier = declared[: declared.index(table)]
    base = next((one for one in earlier if sum(column in one.columns for column in table) >= least), None)
    key = f"\nRows are identified by {', '.join(f'`{name}`' for name in table.key)}.\n" if table.key else ""
    own = [column for column in table if base is None or column not in base.columns]
    text = f"## {table.name}\n\n{table.description}\n{key}"
    if base is not None:
        others, link = "Its" if not own else "The other", f"{files.get(base.name, '')}#{base.name}"
        text += f"\n{others} {len(table.columns) - len(own)} columns match those of [`{base.name}`]({link})"
        missing = [f"`{column.name}`" for column in base if column.name not in {one.name for one in table}]
        text += f"; `{base.name}` also has {', '.join(missing)}.\n" if missing else ".\n"
    absent, shown_by = _in_lake(table)
    if absent:
        named = ", ".join(f"`{column.name}`" for column in table if column.name in absent)
        text += f"\nOnly in the lake: {named}."
        text += f" In DuckDB, see [`{shown_by}`]({files.get(shown_by, '')}#{shown_by}).\n" if shown_by else "\n"
    if own:
        rows = "\n".join(_row(column, is_absent=column.name in absent) for column in own)
        text += f"\n| column | type | meaning | from |\n|---|---|---|---|\n{rows}\n"
    return text


def _in_lake(table: Table) -> tuple[frozenset[str], str | None]:
    """Return the columns that only the table's lake files have, and the name of the view that shows these columns."""
    if table not in (dataset.table for dataset in datasets.datasets()):
        return frozenset(), None
    views = dict.fromkeys(one.bodies for one in datasets.datasets() if one.bodies is not None)
    own = [one.bodies for one in datasets.datasets() if one.table is table and one.bodies is not None]
    return table.bodies, next((view.name for view in (*own, *views) if table.bodies <= view.bodies), None)


def _row(column: Column, *, is_absent: bool) -> str:
    kind = str(column.type).replace("|", "\\|")
    source = f"`{column.path}`" if column.path else ""
    cast = f", sent as {column.wire}" if column.wire is not None else ", any JSON" if column.json else ""
    null = "" if column.required else ", may be null"
    place = ", only in the lake" if is_absent else ""
    return f"| `{column.name}` | {kind}{cast}{null}{place} | {column.description} | {source} |"
