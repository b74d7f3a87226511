"""The documents: commands, SQL and Python of every page run on one filled data folder."""

import json
import os
import re
import shlex
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from resources.warehouse import Warehouse
from tests import sql_rows
from tests.documents import DOCS, GUIDES, ROOT, blocks, commands, name_of, statements
from tests.e2e.conftest import ran, started
from tests.e2e.programs import PATIENCE_SECONDS, bare

HOUR = timedelta(hours=1)
NOTEBOOK = DOCS / "notebooks" / "first_questions.py"
#: Commands of the documents that run unchanged on the filled folder, as does everything with `--dry-run`.
CHEAP = {"status", "sql", "rejects", "dictionary", "batches", "snapshots list", "snapshots plan"}
CHEAP |= {"auth status", "auth login", "auth refresh"}
#: Promises of the pages about variables of their Python blocks.
PROMISED = {
    "newest": lambda rows: len(rows) == 3,
    "activity": lambda table: table.schema["hour_at"].time_zone == "UTC",
    "table": lambda table: table.num_rows > 10,
    "found": lambda relocated: relocated is None,  # the folder was not moved
    "changes": bool,
    "headings": bool,
    "conversion": lambda conversion: conversion.row_count > 20,
    "warehouse": lambda warehouse: warehouse.sql("SELECT count(*) > 10 FROM articles").rows == [(True,)],
}


@pytest.fixture(scope="module")
def mirror(filled, service, call, hours, tmp_path_factory):
    """The environment of a data folder with snapshots and all hours since: the filled folder, copied and run on."""
    environ, told = filled
    assert told.code == 0, told.err
    data = shutil.copytree(environ["WME_DATA"], tmp_path_factory.mktemp("mirror") / "data")
    environ = environ | {"WME_DATA": str(data)}
    # snapshots as of the second of the hours: after those of midnight there may be a day of hours, or midnight may be
    # among the hours
    service.clock.set(hours[1] + HOUR / 2)
    for identifier in service.exports.identifiers():
        service.exports.export(identifier)
    service.clock.release()

    environ |= {"WME_WIKIDATA": "1"}
    first, last = (f"{hour:%Y-%m-%dT%H}" for hour in (hours[0], hours[-1] + HOUR))
    call("run", "--snapshots", "--from", first, "--to", last, environ=environ).done()
    yield environ
    service.exports.clear()


@pytest.fixture(scope="module")
def published(mirror):
    return Path(mirror["WME_DATA"]) / "warehouse.duckdb"


@pytest.fixture
def workplace(published, tmp_path, monkeypatch):
    """A working folder whose `data` is the filled folder."""
    (tmp_path / "data").symlink_to(published.parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WME_DATA", str(tmp_path / "data"))
    return tmp_path


def queries():
    """Return every block of SQL: its page and line, and its statements with what they promise."""
    return [(f"{name_of(page)}:{line}", statements(block)) for page in GUIDES for line, block in blocks(page, "sql")]


def assert_rows(results):
    """Assert that each statement ran, and that each one that promises rows returned some."""
    wrong = []
    for (place, promised), counts in zip(queries(), results, strict=True):
        for (statement, rows), count in zip(promised, counts, strict=False):
            if not isinstance(count, int) or (rows and not count):
                wrong.append(f"{place}: {count} for {statement.strip()}")
    assert not wrong, "\n".join(wrong)


def test_sql_of_every_page_returns_rows(published):
    found = queries()
    assert len(found) > 20
    # of a mirror that is exact
    gap = "first_gap_at <= (SELECT max(batch_hour) FROM hours WHERE state = 'loaded')"
    states = Warehouse(published.parent).sql(f"SELECT base_snapshot IS NOT NULL, {gap} IS TRUE FROM project_state").rows
    assert states == [(True, False)] * 2
    assert_rows(sql_rows.count(str(published), [[text for text, _ in block] for _, block in found]))


def test_sql_of_every_page_returns_rows_in_another_duckdb(published, tmp_path):
    if (folder := os.environ.get("TEST_OTHER_DUCKDB")) is None:
        pytest.skip("TEST_OTHER_DUCKDB names no folder with another DuckDB, as it does in `make test`")
    asked = json.dumps([[text for text, _ in block] for _, block in queries()])
    environ = os.environ | {"PYTHONPATH": str(Path(folder).resolve())}
    done = ran(sys.executable, sql_rows.__file__, published, input=asked, environ=environ, cwd=tmp_path).done()
    version, results = json.loads(done.out)
    assert version != duckdb.__version__
    assert_rows(results)


def test_python_of_every_page_runs(workplace):
    """Each page's blocks run in order and in one namespace, as a reader would copy them."""
    kept = set()
    for page in GUIDES:
        names = {}
        for line, block in blocks(page, "python"):
            # without this file's own `from __future__`
            exec(compile("\n" * (line - 1) + block, page, "exec", dont_inherit=True), names)
        for name in PROMISED.keys() & names.keys():
            assert PROMISED[name](names[name]), (name_of(page), name)
            kept.add(name)
    assert kept == PROMISED.keys()


@pytest.mark.parametrize("column", ["batch_hour", "source_at"])
def test_constant_condition_on_the_hour_opens_its_files_alone(published, column):
    with duckdb.connect(published, read_only=True) as connection:
        connection.execute("SET VARIABLE newest = (SELECT max(batch_hour) FROM hours WHERE state = 'loaded')")
        query = f"SELECT count(wikitext) FROM article_bodies WHERE {column} = getvariable('newest')"
        (told,) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchall()
        loaded = "SELECT count(*) FROM hours WHERE state = 'loaded' AND table_name = 'article_changes'"
        ((hours,),) = connection.execute(loaded).fetchall()
    opened, of = re.search(r'"Scanning Files": "(\d+)/(\d+)', told[1]).groups()
    assert (int(opened), int(of)) == (2, hours)


def test_cheap_commands_of_every_page_run(mirror, call, workplace):
    run = [one for one in commands("wme") if one[0] in CHEAP or " ".join(one[:2]) in CHEAP or "--dry-run" in one]
    assert len(run) > 8
    for words in run:
        told = call(*words, environ=mirror, stdin="FROM project_state")
        # a check reports on the mirror, which lags here
        assert told.code == 0 or "--check" in words, (words, told.err)
        assert told.out or {"--quiet", "-q"} & {*words}, words


@pytest.fixture(scope="module")
def asked(published, tmp_path_factory):
    """What the notebook printed, and what `asking.py` wrote of it."""
    folder = tmp_path_factory.mktemp("asked")
    words = [NOTEBOOK, folder / "empty", published.parent, folder / "answers.json"]
    environ = bare() | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "TZ": "America/New_York"}
    program = (sys.executable, "-W", "error", Path(__file__).with_name("asking.py"))
    done = ran(*program, *words, environ=environ, cwd=folder).done()
    return done.out, json.loads((folder / "answers.json").read_text())


def test_notebook_asks_ten_questions_or_says_what_to_do_without_a_published_file(asked):
    _, *questions = re.split(r"^## (?=\d)", asked[0], flags=re.MULTILINE)
    assert [int(question.split(".")[0]) for question in questions] == list(range(1, 11))
    assert all(re.search(r"^├─.*\n│ ", question, re.MULTILINE) for question in questions), "a table has a row at least"
    assert "There is no published file" in asked[1]["refusal"]
    assert "`wme run`" in asked[1]["refusal"]
    # it is opened as the guides say, and needs little
    assert (asked[1]["opened"], asked[1]["heavy"]) == (str(NOTEBOOK), [])
    name = NOTEBOOK.relative_to(ROOT).as_posix()
    for command in ("marimo edit", "python"):
        assert any(f".venv/bin/{command} {name}" in page.read_text() for page in GUIDES), command


def test_answers_of_the_notebook_are_those_of_the_file(asked, published):
    tables = asked[1]["tables"]
    assert len(tables) == NOTEBOOK.read_text().count(" = ask(")
    assert all(tables.values()), {name for name, rows in tables.items() if not rows}
    ask = Warehouse(published.parent).sql
    counts = ask("SELECT project_id, namespace_id, count(*) FROM articles GROUP BY ALL ORDER BY ALL").rows
    [(edits,)] = ask("SELECT CAST(sum(edit_count) AS BIGINT) FROM activity").rows
    assert [(row["project_id"], row["namespace_id"], row["article_count"]) for row in tables["coverage"]] == counts
    assert sum(row["edit_count"] for row in tables["hourly_edits"]) == edits
    assert {row["what"] for row in tables["deleted_and_moved"]} == {"deleted", "moved"}
    *before, now = tables["before_and_now"]
    assert now["event_at"] in [row["event_at"] for row in tables["history"]]
    earlier = [row for row in tables["history"] if row["event_at"] < now["event_at"]]
    if earlier[-1]["change_type"] == "delete" and not before:
        # only a page that came back was not there just before
        assert now["name"] == earlier[-1]["name"].replace("_", " ")
    else:
        assert before[0]["event_at"] in [row["event_at"] for row in earlier]
    assert tables["page_text"][0]["name"] == now["name"]
    assert tables["page_text"][0]["beginning"]


def test_plots_of_the_notebook_have_data_titles_and_a_text_for_who_does_not_see_them(asked):
    plots = asked[1]["plots"]
    assert len(plots) == NOTEBOOK.read_text().count("alt.Chart(")
    for name, plot in plots.items():
        rows = plot["datasets"][plot["data"]["name"]]
        assert rows, name
        assert plot["mark"]["type"] in {"bar", "line"}
        assert plot["description"], name
        assert plot["title"], name
        for channel in ("x", "y"):
            encoding = plot["encoding"][channel]
            assert encoding["title"], name
            assert any(row[encoding["field"]] is not None for row in rows), (name, channel)
        shown = [plot["encoding"][channel] for channel in plot["encoding"].keys() - {"tooltip"}]
        for encoding in [*shown, *plot["encoding"]["tooltip"]]:
            assert encoding["field"] in rows[0], name
            # Vega draws times in the zone of the browser otherwise
            assert encoding["type"] != "temporal" or encoding["timeUnit"].startswith("utc"), name


@pytest.mark.skipif(shutil.which("curl") is None, reason="the lines need curl")
def test_lines_of_the_sandboxs_guide_answer_as_it_says(tmp_path):
    """The whole guide as one script, after the first block, which starts the sandbox."""
    (start, *_), *rest = [block.splitlines() for _, block in blocks(DOCS / "sandbox.md", "sh")]
    assert start.startswith("wme sandbox --port 8090 --object-port 8091 --realtime-port 8092 ")
    # free ports instead, and a small world: two sandboxes of two test runs shall not meet
    words = shlex.split(re.sub(r"809\d", "0", start))[1:]
    small = ["--changes-per-hour", "5", "--body-bytes", "300", "--projects", "enwiki", "--prepare", "1"]
    process = started(*words, *small, environ={"WME_DATA": str(tmp_path / "data")})
    try:
        url, _, realtime = re.findall(r"http://[\w.]+:\d+", process.stdout.readline())
        lines = [line for block in rest for line in block]
        expected = [line.rpartition("#")[2].strip() for line in lines if line.startswith("code ")]
        assert len(expected) > 15
        script = "\n".join(["set -euo pipefail", *lines])
        script = script.replace("http://127.0.0.1:8090", url).replace("http://localhost:8092", realtime)
        done = ran("bash", "-c", script, cwd=tmp_path, environ={"PATH": os.environ["PATH"]}).done()
        assert re.findall(r"(?<![^\n\]}])(\d{3})$", done.out, re.MULTILINE) == expected
        assert "cannot read" not in done.out
        assert 'status":4' not in done.out
        assert ((tmp_path / "batch.tar.gz").read_bytes()[:2], (tmp_path / "part").stat().st_size) == (b"\x1f\x8b", 100)
        assert 0 <= json.loads((tmp_path / "event.json").read_bytes())["event"].get("partition", 0) < 5
        assert "event: message\ndata: {" in done.out
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
