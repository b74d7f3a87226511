"""Texts of others on a terminal: nothing that it would obey; in a file or pipe the exact bytes."""

import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from rich.console import Console

import pipelines.cli
from pipelines.cli import records, terminal
from pipelines.process import interrupts
from resources.enterprise import Listing
from resources.formatting import printable
from resources.warehouse import Warehouse
from tests.builds import lay

#: Sets a title, writes to the clipboard, makes a link, clears the screen, reverses the text; ESC, C1 and bidi forms.
HOSTILE = "\x1b]0;t\x07 \x1b]52;c;aGk=\x07 \x1b]8;;http://x\x1b\\ \x1b[2J \x9b31m \x9d0;t\x9c \x7f \r \u202eabc\u2066"
OBEYED = "\x1b\x07\x7f\x9b\x9c\x9d\u202e\u2066"


@pytest.fixture
def screen(monkeypatch):
    """`screen(function, ...)`: what a terminal gets as output and errors of a call."""

    def shown(function, *words):
        outer, inner = os.openpty()
        with os.fdopen(inner, "w", encoding="utf-8", newline="") as file, os.fdopen(outer, "rb", buffering=0) as read:
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", file)
                patched.setattr(sys, "stderr", file)
                function(*words)
                file.write("\x00")  # the end
                file.flush()
            found = b""
            while not found.endswith(b"\x00"):
                found += read.read(65_536)
        return found[:-1].decode().replace("\r\n", "\n")

    return shown


BACKGROUND = """
import fcntl, os, termios
from pipelines.process import interrupts
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if job := os.fork():
    status = os.waitpid(job, os.WUNTRACED)[1]
    os._exit(99 if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status))
os.setpgid(0, 0)
interrupts._leave(termios.tcgetattr(0))
os._exit(0)
"""


def test_a_job_in_the_background_of_a_shell_is_not_stopped_as_it_leaves():
    outer, inner = os.openpty()
    with os.fdopen(outer, "rb"), os.fdopen(inner, "rb") as screen:
        job = {"stdin": screen, "stderr": subprocess.PIPE, "start_new_session": True, "timeout": 60}
        done = subprocess.run([sys.executable, "-c", BACKGROUND], check=False, **job)
    assert (done.returncode, done.stderr.decode()) == (0, f"{interrupts.SENTENCE}\n")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(*words)`: a command of `wme` on a published file; returns its exit code."""
    Warehouse(lay(tmp_path)).publish()
    monkeypatch.setenv("WME_DATA", str(tmp_path))

    def main(*words):
        monkeypatch.setattr(sys, "argv", ["wme", *words])
        with pytest.raises(SystemExit) as stop:
            pipelines.cli.main()
        return stop.value.code or 0

    return main


def of_sqlite(name):
    return type("SqliteError", (Exception,), {"sqlite_errorname": f"SQLITE_{name}"})("of the history")


FULL = "The disk is full. Committed work is kept. Free some disk space, then run the command again."
LOCKED = (
    "Another process has locked Dagster's run history. Committed work is kept. End the process that uses "
    "`dagster/history`, then run the command again."
)
TOLD = {of_sqlite("FULL"): FULL, of_sqlite("BUSY_SNAPSHOT"): LOCKED, of_sqlite("LOCKED_SHAREDCACHE"): LOCKED}
ENDED = "The command needs a reply, but standard input has ended. Nothing was changed."


@pytest.mark.parametrize(("raised", "told"), [(click.Abort(), ENDED), *TOLD.items()])
def test_what_ends_a_command_is_said_and_options_choose_how_much_is_logged(run, monkeypatch, capsys, raised, told):
    levels = []
    monkeypatch.setattr(logging, "basicConfig", lambda *, level, handlers: levels.append(level))
    assert [run("sql", "SELECT 1"), run("-v", "sql", "SELECT 1"), *levels] == [0, 0, logging.WARNING, logging.INFO]

    def stop(**_):
        try:
            raise raised
        finally:
            assert isinstance(raised, click.Abort)  # what else is raised while it is handled

    capsys.readouterr()
    monkeypatch.setattr(pipelines.cli.wme, "main", stop)
    assert (run("status"), capsys.readouterr()) == (1, ("", f"{told}\n"))


def test_records_for_people_are_cut_where_they_are_long_and_say_so(capsys):
    record = {"a": {"b": "x" * 301, "c": list(range(8)), "d": {}, "e": "x" * 300}}
    content = json.dumps([record, {f"n{number}": number for number in range(201)}]).encode()
    records._show(Listing(content, (), "", datetime.now(UTC)), "text")
    members = [f"a.c.{number}  {number}" for number in range(6)]
    cut, last = f"a.b    {'x' * 300}... (301 characters)", f"a.e    {'x' * 300}"
    first = [cut, *members, "a.c    ... 8 in total", "a.d    {}", last]
    second = [*(f"{f'n{number}':<4}  {number}" for number in range(200)), "... --json prints the complete record."]
    assert capsys.readouterr().out.splitlines() == [*first, "", *second]


def literal(text):
    return " || ".join(f"chr({ord(c)})" for c in text)


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_answers_on_a_terminal_hold_nothing_that_it_obeys(screen, run, form):
    told = screen(run, "sql", "--format", form, f'SELECT {literal(HOSTILE)} AS a, \'é 日本 "q"\' AS "{HOSTILE}"')
    assert not set(told) & set(OBEYED)
    assert "\r" not in told
    assert "é 日本" in told
    assert "\\u202eabc" in told
    if form == "json":
        assert json.loads(told.replace("\\x0d", "\\r"))["a"].count("\x1b") == HOSTILE.count("\x1b")


def test_answers_elsewhere_are_exact(run, capfdbinary):
    query = f"SELECT {literal(HOSTILE)} AS a"
    assert (run("sql", "--format", "csv", query), run("sql", "--format", "json", query)) == (0, 0)
    out = capfdbinary.readouterr().out.decode()
    assert out.startswith((f"a\n{HOSTILE}\n", f'a\n"{HOSTILE}"\n'))  # Python 3.13 quotes a carriage return
    assert json.loads(out.splitlines()[-1])["a"] == HOSTILE


def test_failures_and_log_lines_hold_nothing_that_a_terminal_obeys(screen, run):
    def fail():
        assert (run("sql", f'FROM "{HOSTILE}"'), run("sql", "--format", HOSTILE, "SELECT 1")) == (1, 2)
        terminal.log_handler().handle(logging.LogRecord("a", logging.WARNING, "a", 1, "Told: %s", (HOSTILE,), None))
        terminal.say(HOSTILE)
        terminal.warn(HOSTILE)
        terminal.OUT.print(f"[x] {HOSTILE}", markup=False, style="bold")
        terminal.echo(HOSTILE, err=True)

    told = screen(fail).replace("\x1b[1m", "").replace("\x1b[0m", "")  # bold is ours
    assert not set(told) & set(OBEYED)
    assert told.count("52;c;aGk=") == told.count("\\x1b]52;c;aGk=\\x07") >= 6


def test_usual_texts_stay_as_they_are_at_the_left_of_a_column_and_numbers_at_the_right():
    drawn = terminal.table(["rows", "name", "size"], [[1, "a", None], [None, "b", 2.5]])
    assert [column.justify for column in drawn.columns] == ["right", "left", "right"]
    usual = "É, 日本語, עברית, \tcell\nline"
    assert (printable(usual), printable("\ud800\u2028")) == (usual, "\\ud800\\u2028")


#: Widths of a terminal, and what it shows of a table with two columns that may go.
NARROW = {23: "name b c 日本語 xxxxxxxxx yyyy", 22: "name b 日本語 xxxxxxxxx", 16: "name 日本語"}
NARROW |= {5: "row 1 name 日本語 b xxxxxxxxx c yyyy"}


@pytest.mark.parametrize(("width", "shown"), NARROW.items())
def test_a_table_loses_columns_in_order_until_it_fits_or_is_written_out(monkeypatch, capsys, width, shown):
    monkeypatch.setattr(terminal, "OUT", Console(width=width))
    terminal.show(("name", "b", "c"), [("日本語", "x" * 9, "y" * 4)], spare=("c", "b"))
    assert capsys.readouterr().out.split() == shown.split()


def test_every_text_of_the_command_line_passes_the_terminal_module():
    """`click.echo` prints what it gets; only `terminal.echo` knows what it is printed on."""
    found = set()
    for path in Path(pipelines.cli.__file__).parent.rglob("*.py"):
        if path != Path(terminal.__file__):
            found |= {line.strip() for line in path.read_text().splitlines() if "click.echo(" in line}
    ended = '"The command needs a reply, but standard input has ended. Nothing was changed."'
    assert found <= {"click.echo()", f"click.echo({ended}, err=True)"}


@pytest.mark.parametrize("answers", [True, False])
def test_results_are_silent_apart_from_progress_until_a_command_ends(answers):
    with click.Context(click.Command("run")):
        terminal.hush(answers=answers, progress=not answers)
        assert (terminal.OUT.quiet, terminal.ERR.quiet) == (answers, not answers)
    assert (terminal.OUT.quiet, terminal.ERR.quiet) == (False, False)


def test_a_log_gets_lines_of_progress_although_the_results_go_to_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "OUT", Console(force_terminal=True))
    with terminal.progress() as reporter, reporter("Work", 4, "file") as advance:
        advance(4)
    assert capsys.readouterr().err.startswith("Work: 4 files\nWork: 4 files in ")
