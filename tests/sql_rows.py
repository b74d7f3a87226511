"""Count the rows of SQL statements on a read-only file, in this process or with the DuckDB of another folder.

`python sql_rows.py FILE` reads blocks from standard input (JSON, a list of lists of statements) and writes the version
of DuckDB and, for each block, the row counts; an error message ends its block.
"""

import json
import sys

import duckdb


def count(path: str, blocks: list[list[str]]) -> list[list[int | str]]:
    """Execute each block over a connection of its own. The file is opened once, which costs more than most blocks."""
    results: list[list[int | str]] = []
    with duckdb.connect(path, read_only=True) as opened:
        for block in blocks:
            counts: list[int | str] = []
            with opened.cursor() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                try:
                    counts.extend(len(connection.execute(statement).fetchall()) for statement in block)
                except duckdb.Error as error:
                    counts.append(str(error))
            results.append(counts)
    return results


if __name__ == "__main__":
    json.dump([duckdb.__version__, count(sys.argv[1], json.load(sys.stdin))], sys.stdout)
