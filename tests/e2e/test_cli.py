"""The command line, as people and scripts meet it: what it tells, where, and with which exit code."""

import json
import re
import signal
import socket
import sys
from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest
import requests

from pipelines import cli
from pipelines.cli import run
from pipelines.process.interrupts import SENTENCE
from resources.datasets import ARTICLE_CHANGES
from resources.enterprise.http.answers import ServiceClock
from resources.formatting import size_text
from resources.warehouse import Warehouse
from tests import commands
from tests.builds import lay
from tests.e2e.conftest import between, ran, started
from tests.e2e.programs import PATIENCE_SECONDS, bare


def lines_of(told, project):
    return [line for line in told.out.splitlines() if f"  {project} " in line and line.startswith("20")]


def sizes(row):
    return f"{size_text(row.archive_bytes)} {size_text(row.ndjson_bytes)}".split()


def test_run_ends_with_a_table_the_file_and_three_answers(filled, hours):
    environ, told = filled
    assert (told.code, "Traceback" in told.err) == (0, False), told.err
    summary = Warehouse(Path(environ["WME_DATA"])).summary(hours=hours[:2], dataset=ARTICLE_CHANGES)
    counts = ("file_count", "row_count", "duplicate_count", "update_count", "delete_count", "reject_count")
    for project in ("enwiki", "frwiki"):
        shown = [line.split() for line in lines_of(told, project)]
        assert [f"{line[0]} {line[1]}" for line in shown] == [f"{hour:%Y-%m-%d %H:00}" for hour in hours[:2]]
        its = [row for row in summary if row.project_id == project]
        cells = [[*(f"{getattr(row, name):,}" for name in counts), *sizes(row)] for row in its]
        assert [line[2:-1] for line in shown] == [[project, "0", "loaded", *of_row] for of_row in cells]
        assert all(int(line[6]) > 50 and float(line[-1]) > 0 for line in shown), shown
    assert f"{environ['WME_DATA']}/warehouse.duckdb" in told.out
    for question, query in run.EXAMPLES.items():
        _, answer = told.out.split(f"{question}\n{query}\n")
        header, *rows = answer.split("\n\n")[0].splitlines()
        assert "project_id" in header
        assert len(rows) >= 2, answer
    for kind in ("download", "convert"):
        assert f"{kind} {hours[0]:%Y-%m-%d %H:00}: " in told.err
    assert re.search(r"^list: 2 hours in \d+\.\d s$", told.err, re.MULTILINE)


def test_for_cron_a_second_run_is_silent_and_for_scripts_a_document(filled, call, service, hours):
    environ, first = filled
    service.requests.clear()
    told = call("run", "--quiet", "--json", *between(hours[0], hours[1]), environ=environ)
    assert (told.code, told.err) == (0, "")
    assert not [seen for seen in list(service.requests) if seen.path.endswith("/download")]
    assert not [seen for seen in service.requests if seen.path == "/v2/projects"]
    assert (Path(environ["WME_DATA"]) / "warehouse.duckdb").stat().st_mode & 0o777 == 0o444
    document = json.loads(told.out)
    assert (document["is_published"], document["failures"], document["is_unreachable"]) == (True, [], False)
    assert document["published_file"] == f"{environ['WME_DATA']}/warehouse.duckdb"
    rows = [row for row in document["hours"] if row["project_id"] == "enwiki"]
    assert [datetime.fromisoformat(row["batch_hour"]) for row in rows] == hours[:2]
    assert [f"{row['row_count']:,}" for row in rows] == [line.split()[6] for line in lines_of(first, "enwiki")]
    assert all(row["archive_bytes"] > 0 and row["state"] == "loaded" for row in rows)
    assert (document["data"], document["repaired"]) == (environ["WME_DATA"], "")
    # a run that fails is not silent
    call("run", "--quiet", "--from", "2019-01-01T05", "--no-reference", environ=environ).fails("2026-01-01", out="")
    call("run", "--dry-run", "--json", environ=environ).fails(code=2, out="")
    # nor is what comes after it
    assert "published" in call("status", environ=environ).out
    figures = json.loads(call("status", "--json", environ=environ).out)["figures"]
    assert figures["article_count"] > 50
    assert figures["change_count"] > 100
    assert figures["published_bytes"] > 1e6


def test_dry_run_tells_what_would_be_fetched_and_fetches_nothing(environ, filled, call, service, hours, tmp_path):
    service.requests.clear()
    told = call("run", "--dry-run", *between(hours[0], hours[1]), environ=environ).done("To fetch: 4 files, 0.")
    assert {line.split()[-1] for line in lines_of(told, "enwiki")} == {"yes"}
    assert "and the reference lists; 0 quota units." in told.out
    assert told.out.rstrip().endswith("Nothing was fetched.")
    assert not [seen for seen in list(service.requests) if seen.path.endswith("/download")]
    assert not (tmp_path / "data" / "archive").exists()
    told = call("run", "--dry-run", *between(hours[0], hours[1]), environ=filled[0])
    assert "To fetch: 0 files, 0.000 GB; 0 quota units." in told.out
    assert {line.split()[-1] for line in lines_of(told, "enwiki")} == {"no"}


def test_variable_that_is_no_setting_is_reported_once_on_standard_error(filled, call):
    told = call("sql", "SELECT 1", "--format", "csv", environ=filled[0] | {"WME_PROJECT": "enwiki"})
    assert (told.code, told.out) == (0, "1\n1\n")
    assert told.err == "WME_PROJECT is not a setting and has no effect; did you mean WME_PROJECTS?\n"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"WME_PROJECTS": ""}, "WME_PROJECTS is not set."),
        ({"WME_PASSWORD": "wrong"}, "Check WME_USERNAME and WME_PASSWORD"),
        ({"WME_PASSWORD": ""}, "Run `wme auth login`, or set WME_PASSWORD."),
        ({"WME_MIN_FREE_GB": "900000"}, "Free some space, choose fewer hours or projects"),
        ({"WME_BASE_URL": "nowhere"}, "http"),
    ],
)
def test_what_stops_a_run_is_a_sentence(call, environ, hours, change, sentence):
    lay(Path(environ["WME_DATA"]))
    call("run", *between(hours[0], hours[0]), "--no-reference", environ=environ | change).fails(sentence)


@pytest.mark.parametrize("words", [["run"], ["run", "--dry-run"], ["batches"], ["snapshots", "list"]], ids=" ".join)
def test_misspelt_names_are_refused_before_a_list_or_file_is_fetched(environ, filled, call, service, words, tmp_path):
    # as in a folder that knows the lists, and in an empty one
    for known in (filled[0], environ):
        service.requests.clear()
        call(*words, environ=known | {"WME_PROJECTS": "enwiki,enwikki,frwik", "WME_NAMESPACES": "0,5"}).fails(
            "enwikki (did you mean enwiki?), frwik (did you mean frwiki?) and no namespace 5 (there are 0,",
            "Nothing was fetched. Correct WME_PROJECTS or WME_NAMESPACES.",
        )
        assert {seen.path for seen in list(service.requests)} <= {"/v1/login", "/v2/projects", "/v2/namespaces"}
    assert "enwikki" not in call("sql", "SELECT DISTINCT project_id FROM hours", environ=filled[0]).out
    assert not (tmp_path / "data" / "archive").exists()


def test_run_that_starts_too_early_does_not_move_the_beginning(copy, filled, call, hours):
    environ = copy(filled[0])
    query = "SELECT (SELECT count(*) FROM hours), * FROM project_state ORDER BY ALL"
    before = call("sql", query, "--format", "csv", environ=environ).out
    old = hours[0] - timedelta(hours=231)
    sentences = ("1 of 1 hour failed.", "it retains each hour for two days")
    told = call("run", *between(old, old), "--no-reference", environ=environ).fails(*sentences)
    # the mirror never had it: no row is left that somebody would take for a loss
    assert lines_of(told, "enwiki") == []
    assert call("sql", query, "--format", "csv", environ=environ).out == before
    assert "older gaps" not in call("status", environ=environ).out


def test_clock_that_is_wrong_is_said_instead_of_hours_that_are_not_there(call, environ, service, monkeypatch, caplog):
    monkeypatch.setattr(ServiceClock, "_logged", set())
    service.clock.advance(-timedelta(days=3))
    try:
        told = call("run", environ=environ)
    finally:
        service.clock.release()
    told.fails("has not begun: this machine's clock is 3 days ahead of the service's.")
    assert "not published" not in told.err
    warnings = [message for message in caplog.messages if "correct it (time synchronization)" in message]
    assert len(warnings) == 1  # once for all clients of a command


def test_what_the_system_refuses_is_a_sentence(environ, call, hours, tmp_path):
    data = tmp_path / "data"
    data.write_text("a file in the place of the folder")
    words = ["run", *between(hours[0], hours[0]), "--no-reference"]
    for command in (words, ["auth", "login"], ["status"]):
        call(*command, environ=environ).fails("data")
    # in the middle of a run
    data.unlink()
    (lay(data) / "warehouse.duckdb").mkdir()
    call(*words, environ=environ).fails("Is a directory: ", "Committed data is kept.")


def test_failures_agree_with_the_table_and_name_their_dataset(environ, call, service, hours):
    """Counted as the table shows the hours, each once, with the dataset where there are several."""
    lay(Path(environ["WME_DATA"]))
    # what the account may not fetch ends a run: of the two hours the later one
    failing = f"/v2/*/{hours[2]:%Y-%m-%d}/{hours[2]:%H}/*/download"
    service.faults.add(path=failing, kind="status", status=403, count=None)
    both = environ | {"WME_WIKIDATA": "1"}
    told = call("run", "--no-reference", *between(hours[1], hours[2]), environ=both)
    assert told.code == 1
    rows = [row.split()[5] for row in told.out.splitlines() if row.startswith(("article_changes ", "entity_changes "))]
    assert (rows.count("loaded"), rows.count("missing")) == (4, 4), told.out
    said = told.err.partition("Error: ")[2].splitlines()
    for dataset, line in zip(("article_changes", "entity_changes"), said[::2], strict=True):
        assert line == f"{dataset}: 1 of 2 hours failed. The other hour is loaded."
    assert all(line.startswith(f"- {hours[2]:%Y-%m-%d %H:00}: ") for line in said[1::2])
    assert not any(question in told.out for question in run.EXAMPLES)
    assert "\n1 hour missing. See `wme status` for commands" in told.out
    sentences = ("Error: 1 of 2 hours failed.", f"\n- {hours[2]:%Y-%m-%d %H:00}: ")
    call("run", *between(hours[1], hours[2]), "--no-reference", environ=environ).fails(*sentences)
    assert call("status", "--check", "--json", environ=environ).code == 1
    told = call("status", "--check", environ=environ)
    assert told.code == 1
    assert f"! enwiki namespace 0 {hours[2]:%Y-%m-%d %H:00}: missing. " in told.out

    told = call("run", "--no-reference", *between(hours[2], hours[2]), environ=both | {"WME_MIN_FREE_GB": "999999"})
    said = told.err.partition("Error: ")[2].splitlines()
    need = re.compile(r"(\w+): The run needs about .* must leave 999,999.0 GB of disk space free \(WME_MIN_FREE_GB\), ")
    assert [need.match(line)[1] for line in said] == ["article_changes", "entity_changes"]


def test_what_meets_every_dataset_alike_is_said_once(call, copy, filled, hours):
    environ = copy(filled[0]) | {"WME_WIKIDATA": "1", "WME_PASSWORD": "Wr0ng-password!"}
    (Path(environ["WME_DATA"]) / "state" / "tokens.json").unlink()
    said = call("run", "--no-reference", *between(hours[2], hours[2]), environ=environ).err.partition("Error: ")[2]
    assert said.count("Check WME_USERNAME and WME_PASSWORD") == 1, said
    assert "_changes: " not in said


def test_pages_on_a_port_that_is_taken(environ, call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = call("ui", "--port", str(taken.getsockname()[1]), environ=environ)
    assert told.code == 1
    assert "is not available" in told.err
    assert "Choose another port with --port." in told.err


def test_batches_lists_the_mirrored_files_or_all(environ, call, hours, service):
    told = call("batches", f"{hours[0]:%Y-%m-%dT%H}", environ=environ)
    title, header, *rows = told.out.splitlines()
    assert title == f"{hours[0]:%Y-%m-%d %H:00} UTC"
    assert header.split() == ["identifier", "version", "modified", "bytes"]
    assert [row.split()[0] for row in rows] == ["enwiki_namespace_0", "frwiki_namespace_0"]
    # as people, tables and Dagster write hours
    for form in ("%Y-%m-%d-%H:00", "%Y-%m-%d %H:00", "%Y-%m-%dT%H:00Z"):
        assert call("batches", f"{hours[0]:{form}}", environ=environ).out == told.out
    everything = call("batches", "--all", f"{hours[0]:%Y-%m-%dT%H}", environ=environ).out
    listed = {batch.record["identifier"] for batch in service.world.batches(hours[0])}
    assert {row.split()[0] for row in everything.splitlines()[2:]} == listed
    assert call("batches", environ=environ).out.splitlines()[0] > title


def test_sandbox_serves_the_account_of_the_environment_until_it_is_interrupted(forked, tmp_path):
    account = {"WME_USERNAME": "Ada", "WME_PASSWORD": "Secret-Word-1"}
    words = ["sandbox", "--changes-per-hour", "5", "--body-bytes", "100", "--projects", "enwiki", "--prepare", "0"]
    process = forked(*words, environ={**account, "WME_DATA": str(tmp_path / "data")})
    address = process.stdout.readline().split()[4]
    assert requests.get(f"{address}/spec", timeout=PATIENCE_SECONDS).json()["openapi"].startswith("3.1")
    told = "".join(process.stdout.readline() for _ in range(5))
    assert "The account Ada has the password from WME_PASSWORD." in told
    assert "curl" in told
    body = {"username": account["WME_USERNAME"], "password": account["WME_PASSWORD"]}
    assert requests.post(f"{address}/v1/login", json=body, timeout=PATIENCE_SECONDS).json()["expires_in"] == 86_400
    assert (tmp_path / "data" / "sandbox" / "account.json").exists()
    second = forked(*words, environ={"WME_DATA": str(tmp_path / "data")})
    _, err = second.communicate(timeout=PATIENCE_SECONDS)
    assert (second.returncode, address in err) == (1, True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    # a slow machine sees how far the preparation is first
    assert (process.returncode, err.splitlines()[-1]) == (130, SENTENCE)
    written = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert not any(b"Secret-Word-1" in content for content in [*written, (told + out + err).encode()])


def test_sandbox_keeps_its_state_below_the_data_folder_or_says_why_it_cannot_be_started(call, tmp_path):
    environ, state = {"WME_DATA": str(tmp_path / "data")}, tmp_path / "file" / "state"
    told = call("sandbox", "--help", environ=environ | {"COLUMNS": "300"})
    told.done("[--state STATE]", f"(default: {tmp_path / 'data' / 'sandbox'})")
    told = call("sandbox", "--projects", "enwki", environ=environ)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("--projects: The sandbox has no project 'enwki'; did you mean enwiki ")
    state.parent.write_text("")
    sentence = f"The sandbox cannot use {state}: Not a directory. Choose another folder with --state.\n"
    assert call("sandbox", "--state", str(state), environ=environ) == (1, "", sentence)
    assert not (tmp_path / "data").exists()


def test_terminal_gets_bars_instead_of_lines(account, service, hours, tmp_path, on_terminal):
    service.faults.add(path="/v2/batches/*", kind="slow", count=None, bytes_per_second=200_000)
    words = ["run", "--no-reference", *between(hours[0], hours[0])]
    text = on_terminal(*words, environ=account.environ(lay(tmp_path / "data")), columns=80)
    assert "━" in text or "╸" in text
    assert f"download {hours[0]:%Y-%m-%d %H:00}" in text
    assert " MB in " not in text
    assert " kB in " not in text
    assert "DuckDB file:" in text
    table = [line for line in text.splitlines() if line.startswith(f"{hours[0]:%Y-%m-%d %H:00}  ")]
    assert len(table) == 2
    assert all(len(line) <= 80 for line in table)


def test_the_shell_completes_commands_and_options(environ, tmp_path):
    """The completion that `docs/install.md` describes."""
    asked = environ | {"_WME_COMPLETE": "bash_complete", "COMP_WORDS": "wme run --qu", "COMP_CWORD": "2"}
    out, err = started(environ=asked).communicate(timeout=PATIENCE_SECONDS)
    assert "plain,--quiet" in out.splitlines(), (out, err)
    assert not (tmp_path / "data").exists()


def test_output_goes_into_no_file_where_a_standard_stream_is_closed():
    text = "import os, pipelines.__main__ as m; m.open_streams(); m.sys.stdout.write('x'); file = os.open('/', 0); "
    text += "os._exit(file + sum(map(os.get_inheritable, range(3))) + 8 * (os.fstat(1) != os.stat(os.devnull)))"
    for closed in ("<&- >&- 2>&-", ">&-"):
        assert ran("/bin/sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, text) == (3 + 3, "", "")


def test_help_of_every_command_says_what_it_is_fits_a_terminal_and_cuts_no_sentence(call, tmp_path):
    environ = {"WME_DATA": str(tmp_path / "data"), "COLUMNS": "80"}
    # the list imports no command
    assert cli.wme.sentences() == {name: one.get_short_help_str(300) for name, one in cli.wme.commands.items()}
    found = dict(commands.every())
    assert {("run",), ("status",), ("sql",), ("auth", "login"), ("sandbox",), ("ui",)} <= set(found)
    for words, command in [((), cli.wme), *found.items()]:
        undescribed = [one.name for one in command.params if isinstance(one, click.Option) and not one.help]
        assert (bool(command.help), undescribed) == (True, []), words
        told = call(*words, "--help", environ=environ).done()
        rest = told.out.split("\n\n", 1)[1]  # behind the usage
        assert [line for line in told.out.splitlines() if len(line) > 80] == [], words
        assert "..." not in rest, words
        if isinstance(command, click.Group):
            listed = " ".join(rest.split())
            for name, one in command.commands.items():
                sentence = re.split(r"(?<=\.)\s", " ".join(one.help.split()))[0]
                assert f" {name} {sentence}" in listed, (words, name)


@pytest.mark.parametrize(
    ("words", "spared", "shown"),
    [
        ("--help", "dagster pyarrow requests pydantic rich duckdb distributed", "Run a read-only query on the"),
        ("worker --help", "dagster duckdb distributed", "ends when the scheduler ends"),
        ("status", "dagster resources.sandbox.server distributed", "There is no published file"),
    ],
)
def test_what_is_not_needed_is_not_imported(words, spared, shown, tmp_path):
    code = (
        "import sys; from pipelines import cli\n"
        f"try: cli.wme({words.split()})\n"
        "except SystemExit: pass\n"
        f"sys.exit(', '.join(set({spared.split()}) & set(sys.modules)))"
    )
    environ = bare() | {"WME_DATA": str(tmp_path / "data")}
    told = ran(sys.executable, "-c", code, environ=environ)
    assert told.err.strip() == ""
    assert shown in " ".join(told.out.split())
