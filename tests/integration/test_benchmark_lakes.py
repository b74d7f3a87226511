"""The mirrors that the benchmark of growth makes are those that the package itself would have made, hour by hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.lakes import Stock, clone, projects
from pipelines import settings
from pipelines.report.status import collect
from resources.lake import Archive, Layout, find_conversion
from resources.tables import NO_SNAPSHOT
from resources.warehouse import Warehouse
from resources.warehouse.database.connect import Connector, answer

LAST = datetime(2026, 11, 20, 3, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Hours of the mirror, over midnight.
COUNT = 4
#: Moments at which something was done, which differ between two ways of doing it.
WHEN = {"loads": ("loaded_at", "applied_at"), "hours": ("checked_at",)}


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    return Stock.make(
        tmp_path_factory.mktemp("stock"), projects(4, rows=30), LAST, COUNT + 1, lambda _: None, templates=60
    )


@pytest.fixture(scope="module")
def made(stock, tmp_path_factory):
    return stock.mirror(tmp_path_factory.mktemp("made") / "data", LAST - HOUR, COUNT, lambda _: None)


def connected(data):
    return Connector(
        data / "warehouse" / "build.duckdb", data / "warehouse.duckdb", data / "state" / "lock", None, 60, "1GB"
    ).build("compare")


def contents(data):
    """All rows of all tables of a build file, less the moments at which they were written."""
    found = {}
    with connected(data) as connection:
        for schema, table in answer(connection, "SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL"):
            # versions, and how rows lie together, which follows from the number of transactions
            if table not in {"meta", "row_groups"}:
                besides = WHEN.get(table)
                columns = f"* EXCLUDE ({', '.join(besides)})" if besides else "*"
                rows = connection.execute(f"SELECT {columns} FROM {schema}.{table} ORDER BY ALL").fetchall()
                found[f"{schema}.{table}"] = rows
    return found


def test_the_build_file_is_that_of_loading_each_hour(stock, made, tmp_path):
    warehouse = Warehouse(tmp_path)
    for number in range(COUNT):
        hour = LAST - HOUR * (COUNT + 1 - number)
        assert warehouse.load_hour(hour, stock.hour(tmp_path, hour)).changed
        warehouse.apply_changes()
    ours, theirs = contents(made.data), contents(tmp_path)
    del ours["main.about"]  # comes with the first publication
    assert ours.keys() == theirs.keys()
    for table in theirs:
        assert ours[table] == theirs[table], table
    for table in (
        "main.article_changes",
        "main.articles",
        "main.loads",
        "main.hours",
        "internal.shadowed",
        "internal.titles",
    ):
        assert theirs[table], f"{table} is empty, so nothing was compared"
    kinds = {row[0] for row in made.sql("SELECT DISTINCT change_type FROM article_changes").rows}
    assert kinds == {"update", "delete", "visibility-change"}


def test_files_stand_where_a_conversion_leaves_them_and_tell_what_the_ledger_tells(made):
    layout = Layout(made.data)
    rows = made.sql("SELECT * FROM loads").rows
    names = made.sql("SELECT * FROM loads").columns
    assert len(rows) == COUNT * 4
    for row in (dict(zip(names, one, strict=True)) for one in rows):
        path = layout.archive / "none.tar.gz"
        archive = Archive(path, row["identifier"], row["version"], row["batch_hour"], row["project_id"], 0)
        found = find_conversion(archive, layout)
        assert found is not None
        assert found.path == layout.lake / row["lake_path"]
        for name in (
            "digest",
            "row_count",
            "update_count",
            "delete_count",
            "ndjson_bytes",
            "archive_bytes",
            "lake_bytes",
        ):
            assert getattr(found, name) == row[name]


def test_every_page_leads_to_the_body_of_its_revision(made):
    [(pages, right)] = made.sql(
        "SELECT count(*), count(*) FILTER (starts_with(html, concat('<!-- ', version_id, ' -->')) AND "
        "starts_with(wikitext, concat('<!-- ', version_id, ' -->'))) "
        "FROM articles LEFT JOIN article_bodies USING (project_id, article_id, version_id, source_at)"
    ).rows
    assert pages == right > 100


def test_the_state_is_clean_and_a_next_hour_is_loaded_by_the_package(stock, made, tmp_path):
    data = tmp_path / "data"
    clone(made.data, data)
    assert any(path.stat().st_nlink > 1 for path in Layout(data).lake.glob("**/*.parquet"))
    warehouse = Warehouse(data)
    names = ",".join(one.project_id for one in stock.projects)
    settled = settings.read({"WME_DATA": str(data), "WME_PROJECTS": names, "WME_SANDBOX": "1", "WME_MIN_FREE_GB": "0"})
    [trouble] = collect(
        settled, COUNT, LAST
    ).troubles  # this history has no snapshot, and nothing else is wrong with it
    assert NO_SNAPSHOT in trouble
    assert warehouse.load_hour(LAST - HOUR, stock.hour(data, LAST - HOUR)).changed
    assert warehouse.apply_changes().file_count == len(stock.projects)
    assert warehouse.publish().changed
    [trouble] = collect(settled, COUNT + 1, LAST + HOUR).troubles
    assert NO_SNAPSHOT in trouble
    audits = warehouse.audit([LAST - HOUR * (number + 1) for number in range(COUNT + 1)])
    assert len(audits) == COUNT + 1
    for audit in audits:
        assert (audit.row_count, audit.repeated_count, audit.early_count) == (audit.expected_count, 0, 0)
