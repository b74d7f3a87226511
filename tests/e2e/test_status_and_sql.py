"""What `wme status` and `wme sql` tell, in a terminal and for scripts."""

import contextlib
import json
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.cli import run, terminal
from pipelines.process.interrupts import SENTENCE
from tests.e2e.conftest import between, started, until
from tests.e2e.programs import PATIENCE_SECONDS


def cells_of(told, project):
    return next(line for line in told.out.splitlines() if line.startswith(f"{project} 0  ")).split()[2]


def test_status_of_an_empty_folder_says_what_to_do(environ, call, tmp_path, service):
    service.requests.clear()
    absent = f"! There is no published file {tmp_path / 'data' / 'warehouse.duckdb'}"
    call("status", environ={"WME_DATA": environ["WME_DATA"]}).done("sandbox (not started yet)", absent, "`wme run`")
    assert not (tmp_path / "data").exists()
    assert list(service.requests) == []
    assert call("status", "--check", environ=environ).code == 1
    call("sql", "SELECT 1", environ=environ).fails("run the pipeline once (`wme run`).", out="")


def test_status_tells_how_the_mirror_stands(filled, call, service, hours):
    environ, _ = filled
    service.requests.clear()
    told = call("status", environ=environ).done()
    assert list(service.requests) == []
    facts = dict(line.split(":", 1) for line in told.out.splitlines() if ":" in line and line[0].isalpha())
    assert facts["service"].strip() == service.url
    assert "Logged in as filler." in facts["tokens"]
    assert environ["WME_PASSWORD"] not in told.out
    # the loaded hours stand beside one another, those after them are not known yet
    for project in ("enwiki", "frwiki"):
        cells = cells_of(told, project)
        assert (len(cells), cells.strip("-?")) == (48, "LL")
    assert "L loaded (brighter for more changes)" in told.out
    assert "- outside the mirrored range" in told.out


def test_status_with_settings_that_do_not_fit_the_folder(filled, call):
    call("status", environ=filled[0] | {"WME_PROJECTS": "enwiki,dewiki,enwikki", "WME_NAMESPACES": "0,5"}).done(
        "! dewiki namespace 0: no hours have been loaded yet.",
        "! The service's list of projects does not contain enwikki, so no files will arrive. Correct WME_PROJECTS",
        "! The service's list of namespaces does not contain 5, so no files will arrive. Correct WME_NAMESPACES",
    )
    told = call("status", environ=filled[0] | {"WME_BASE_URL": "https://api.enterprise.wikimedia.com"})
    told.done("contains data from", "Set WME_DATA to another folder")


def test_status_of_a_gap(filled, call, copy, hours):
    environ, after = copy(filled[0]), hours[2] + timedelta(hours=1)
    told = call("run", *between(after, after), "--no-reference", environ=environ)
    # nobody needs the examples twice
    assert "DuckDB file: " in told.out
    assert not any(question in told.out for question in run.EXAMPLES)
    told = call("status", environ=environ)
    assert f"! frwiki namespace 0 {hours[2]:%Y-%m-%d %H:00}: missing. The hour was not fetched" in told.out
    assert [cells_of(told, project).strip("-?") for project in ("enwiki", "frwiki")] == ["LLML", "LLML"]
    document = json.loads(call("status", "--json", "--hours", "72", environ=environ).out)
    missing = [(project, f"{hours[2]:%Y-%m-%dT%H:%M:%SZ}", "missing") for project in ("enwiki", "frwiki")]
    assert [(gap["project_id"], gap["first_hour"], gap["state"]) for gap in document["gaps"]] == missing
    assert [len(place["hours"]) for place in document["coverage"]] == [72, 72]
    (command,) = re.findall(r"^! `wme (run .*)` fetches", told.out, re.MULTILINE)
    assert "To fetch: 2 files, 0." in call(*command.split(), "--dry-run", environ=environ).out


def test_sql_as_json_from_standard_input(filled, call):
    query = "SELECT name, event_at, categories, DATE '2026-01-01' AS day, 1.5::DECIMAL(4,1) AS d FROM articles LIMIT 2"
    told = call("sql", "--format", "json", environ=filled[0], stdin=query)
    rows = [json.loads(line) for line in told.out.splitlines()]
    assert len(rows) == 2
    assert datetime.fromisoformat(rows[0]["event_at"]).tzinfo is not None
    assert isinstance(rows[0]["categories"], list)
    assert (rows[0]["day"], rows[0]["d"]) == ("2026-01-01", "1.5")


@pytest.mark.parametrize(
    ("query", "told_of"),
    [
        ("SELECT nonsense FROM articles", "nonsense"), ("SELEKT 1", "SELEKT"), ("FROM no_such_table", "no_such_table"),
        ("FROM read_text('/etc/hostname')", "--allow-files"),
        ("SELECT error('of the query itself') FROM articles", "of the query itself"),
    ],
)  # fmt: skip
def test_sql_that_cannot_be_answered_is_no_traceback(filled, call, query, told_of):
    told = call("sql", query, environ=filled[0])
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("DuckDB cannot answer this query. ")
    assert told_of in told.err
    assert "Traceback" not in told.err
    assert 'File "' not in told.err


def test_statements_run_where_files_are_allowed(filled, call, tmp_path):
    copy = f"COPY (FROM codes) TO '{tmp_path}/codes.csv'"
    call("sql", copy, environ=filled[0]).fails("this is COPY. Nothing was done.", out="")
    assert not (tmp_path / "codes.csv").exists()
    call("sql", "--allow-files", copy, environ=filled[0]).done()
    assert len((tmp_path / "codes.csv").read_text().splitlines()) > 2
    assert call("sql", "--allow-files", "SET threads = 1", environ=filled[0]).code == 0
    told = call("sql", "--allow-files", "DELETE FROM codes", environ=filled[0])
    assert (told.code, "read-only" in told.err) == (1, True)


def test_published_file_that_is_damaged(filled, call, tmp_path):
    (tmp_path / "warehouse.duckdb").write_bytes(b"no database" * 500)
    environ = filled[0] | {"WME_DATA": str(tmp_path)}
    for words in (["sql", "SELECT 1"], ["rejects"]):
        call(*words, environ=environ).fails("Remove the published file and run `wme publish`")
    call("status", environ=environ).done("! DuckDB cannot open warehouse.duckdb")


def test_reader_that_has_seen_enough(filled):
    # more than a pipe holds
    for words in (["--format", "csv"], ["--limit", "5000"]):
        process = started("sql", *words, "SELECT range, 'words that make it long' FROM range(5000)", environ=filled[0])
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "", words
        process.stderr.close()
        assert process.wait(timeout=PATIENCE_SECONDS) in {0, 1}, words


def open_files(pid):
    paths = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            paths.add(str(entry.readlink()))
    return paths


def test_interrupt_ends_a_query(filled):
    process = started("sql", "SELECT sum(a.range * b.range) FROM range(9999999) a, range(9999999) b", environ=filled[0])
    published = f"{filled[0]['WME_DATA']}/warehouse.duckdb"

    until(lambda: published in open_files(process.pid))
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=PATIENCE_SECONDS), process.returncode) == (("", f"{SENTENCE}\n"), 130)


def test_rows_that_do_not_fit_a_terminal_stand_below_one_another(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "OUT", terminal.Console(width=40, highlight=False))
    terminal.show(["a_long_name_of_a_column", "another_long_name"], [("x" * 30, 1234567), ("y", None)])
    assert capsys.readouterr().out.splitlines() == [
        "row 1", "a_long_name_of_a_column  " + "x" * 30, "another_long_name        1,234,567", "row 2",
        "a_long_name_of_a_column  y", "another_long_name        ",
    ]  # fmt: skip
    terminal.show(["name", "spare"], [("x" * 30, "y" * 20)], spare=["spare"])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["name", "x" * 30]
    terminal.show(["n" * 45, "s" * 50], [("x", "y")], spare=["s" * 50])
    assert capsys.readouterr().out.splitlines() == ["row 1", f"{'n' * 45:50}  x", f"{'s' * 50}  y"]
    terminal.show(["a", "b"], [(True, datetime(2026, 1, 1, 5, tzinfo=UTC)), (False, None)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["a", "b"], ["yes", "2026-01-01", "05:00"], ["no"],
    ]  # fmt: skip
