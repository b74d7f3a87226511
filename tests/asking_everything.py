"""Every view and macro of a published file, found in its own catalog and queried to the last row and column.

A program as well, for another DuckDB: `python tests/asking_everything.py FILE [CALLS]` prints the answers as JSON. It
imports DuckDB alone.
"""

import json
import random
import sys

import duckdb

TITLES = [
    *("'Page 1'", "'page 1'", "'Page_1'", "''", "NULL", "'%'", "'_'", "'*'", "'a'' OR 1=1'", "chr(0)"),
    *("repeat('x', 100000)", "'{'"),
]
MOMENTS = [
    *("'2026-11-19 06:00:00+00'", "now()", "NULL", "'infinity'", "'-infinity'", "'0001-01-01'", "'9999-12-31'",
      "DATE '2026-11-19'"),
    *("TIMESTAMPTZ '290309-12-22 (BC) 00:00:00+00'", "TIMESTAMP '294247-01-10 04:00:54'"),
]  # fmt: skip
VALUES = {
    "project": ["'enwiki'", "NULL", "'enwiki'", "''", "'%'", "repeat('x', 100000)"],
    "page": ["100", "-1", "NULL", "1e300", "9223372036854775808", "'NaN'::DOUBLE", "[1]", "true", *TITLES],
    "title": TITLES,
    "wanted": TITLES,
    "inexact": ["true", "false", "NULL"],
    **dict.fromkeys(("moment", "since", "until"), MOMENTS),
}
#: Answers of macros to a title or project that is not there, or to a moment that is not exact: errors on purpose, which
#: the data dictionary describes.
ON_PURPOSE = (
    *("is not mirrored here", "is known by the title", "articles_at is not exact at"),
    "No structured contents of",
)


def queries(connection: duckdb.DuckDBPyConnection, calls_max: int) -> list[str]:
    """A query for each view, and up to `calls_max` calls of each macro: the usual one first."""
    views = connection.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal AND database_name = current_database() "
        "ORDER BY ALL"
    ).fetchall()
    macros = connection.execute(
        "SELECT function_name, parameters FROM duckdb_functions() WHERE NOT internal AND database_name = "
        "current_database() AND function_type IN ('macro', 'table_macro') ORDER BY ALL"
    ).fetchall()
    found = [f'FROM "{schema}"."{name}"' for schema, name in views]
    for name, parameters in macros:
        usual = [VALUES[one][0] for one in parameters]
        calls = [usual] + [
            [*usual[:place], value, *usual[place + 1 :]]
            for place, parameter in enumerate(parameters)
            for value in VALUES[parameter][1:]
        ]
        chosen = calls[:1] + random.Random(name).sample(calls[1:], min(calls_max, len(calls)) - 1)
        found += [f'FROM "{name}"({", ".join(values)})' for values in chosen]
    return found


def answers(path: str, calls_max: int = 1000) -> tuple[dict[str, int], dict[str, str]]:
    """The number of rows of each query, and the errors of those that failed."""
    counts, errors = {}, {}
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH '{path}' AS published (READ_ONLY)")
        connection.execute("USE published")
        for query in queries(connection, calls_max):
            # macros need the default; views are also read by their full names
            default, start = ("published", "FROM ") if "(" in query else ("memory", "FROM published.")
            connection.execute(f"USE {default}")
            full = query.replace("FROM ", start, 1)
            try:
                # a count alone would leave columns out that nobody asked for
                counts[query] = sum(len(batch.to_pylist()) for batch in connection.sql(full).to_arrow_reader(1000))
            except (duckdb.Error, OverflowError, ValueError) as error:
                if not any(words in str(error) for words in ON_PURPOSE):
                    errors[query] = f"{type(error).__name__}: {str(error)[:400]}"
    return counts, errors


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answers(sys.argv[1], *map(int, sys.argv[2:]))))
