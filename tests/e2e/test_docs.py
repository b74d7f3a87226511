"""The documents: what they show works, and what they name exists."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import click
import duckdb
import pytest

from pipelines import cli
from pipelines.cli import account as account_commands
from pipelines.process import instance
from pipelines.report import dictionary
from resources import datasets, settings
from resources.engine.mapping import EngineError
from resources.enterprise.errors import EnterpriseError
from resources.lake import errors as lake_errors
from resources.lake.decode import native
from resources.sandbox import options as sandbox_options
from resources.sandbox.api import control as sandbox_control
from resources.settings import types
from resources.tables import ENTITY_VIEWS, MACROS, QUESTIONS, STRUCTURED_VIEWS, HourState
from resources.warehouse.errors import WarehouseError
from tests.contract import __main__ as contract
from tests.e2e.conftest import PATIENCE_SECONDS, bare

ROOT = Path(__file__).resolve().parents[2]
HOUR = timedelta(hours=1)
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
#: The guides for analysts, who need no other page.
ANALYST_GUIDES = ("analyst", "cookbook", "history", "structured", "faq", "concepts")
GUIDES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in (*ANALYST_GUIDES, "operator", "data-engineer", "sandbox")),
]
NOTEBOOK = ROOT / "docs" / "notebooks" / "first_questions.py"
#: Commands of the documents that are run as they stand, on a filled data folder.
CHEAP = {
    "status",
    "sql",
    "rejects",
    "dictionary",
    "batches",
    "auth status",
    "auth login",
    "auth refresh",
    "snapshots list",
    "snapshots plan",
}


def blocks(path, language):
    """The fenced blocks of a language, each with its line number."""
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        yield path.read_text()[: found.start()].count("\n") + 2, found[1]


def statements():
    for path in GUIDES:
        for line, block in blocks(path, "sql"):
            settings_before = []
            for number, statement in enumerate(re.split(r";.*$", block, flags=re.MULTILINE)):
                if statement.strip().startswith(("SET ", "CREATE TEMP ")):
                    settings_before.append(statement)
                elif re.sub(r"--.*", "", statement).strip():
                    ending = block.split(statement, 1)[1].split("\n", 1)[0]
                    yield pytest.param(tuple(settings_before), statement, ending, id=f"{path.stem}-{line}-{number}")


def lines(prefix):
    """The lines of shell blocks that begin with a word, without comments; redirections and pipes are left out."""
    found = []
    for path in GUIDES:
        for _, block in blocks(path, "sh"):
            for line in block.splitlines():
                # a pipe into one of our commands is that command with standard input
                for part in re.split(r"\s\|\s", line):
                    words = shlex.split(part, comments=True)
                    if words[:1] == [prefix]:
                        found.append(words[: next((n for n, word in enumerate(words) if word[0] in "<>"), None)][1:])
    return found


@pytest.fixture(scope="module")
def mirror(filled, service, call, hours, tmp_path_factory):
    """The environment of a data folder with snapshots and all hours since: the filled folder, copied and run on."""
    environ, told = filled
    assert told.code == 0, told.err
    data = shutil.copytree(environ["WME_DATA"], tmp_path_factory.mktemp("mirror") / "data")
    environ = environ | {"WME_DATA": str(data)}
    # snapshots as of the first of the hours: after those of midnight there may be a day of hours, or midnight may be
    # among the hours
    service.clock.set(hours[0] + HOUR / 2)
    for identifier in service.exports.identifiers():
        service.exports.export(identifier)

    environ |= {"WME_WIKIDATA": "1"}
    for words in (
        ("--snapshots", "--from", f"{hours[0] - HOUR:%Y-%m-%dT%H}"),
        ("--from", f"{hours[0]:%Y-%m-%dT%H}", "--to", f"{hours[-1] + HOUR:%Y-%m-%dT%H}"),
    ):
        told = call("run", *words, environ=environ)
        assert told.code == 0, told.err
        service.clock.release()
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


@pytest.mark.parametrize(("settings_before", "statement", "ending"), list(statements()))
def test_sql_answers_with_rows(published, settings_before, statement, ending):
    with duckdb.connect(published, read_only=True) as connection:
        for setting in ("SET TimeZone = 'UTC'", *settings_before):
            connection.execute(setting)
        rows = connection.execute(statement).fetchall()
    if "no row" not in statement + ending:
        assert rows, "the documents promise rows here"


#: What another DuckDB answers; `json.loads(sys.stdin.read())` are the blocks, each the settings before a query and the
#: query.
ASKING = """
import duckdb, json, sys
answers = [duckdb.__version__]
for *settings, query in json.loads(sys.stdin.read()):
    with duckdb.connect(sys.argv[1], read_only=True) as connection:
        try:
            for setting in ("SET TimeZone = 'UTC'", *settings):
                connection.execute(setting)
            answers.append(len(connection.execute(query).fetchall()))
        except duckdb.Error as error:
            answers.append(str(error))
print(json.dumps(answers))
"""


def test_sql_answers_with_rows_in_another_duckdb(published, tmp_path):
    if (folder := os.environ.get("TEST_OTHER_DUCKDB")) is None:
        pytest.skip("TEST_OTHER_DUCKDB names no folder with another DuckDB, as it does in `make test`")
    blocks_of_sql = [one.values for one in statements()]
    asked = [[*settings_before, statement] for settings_before, statement, _ in blocks_of_sql]
    done = subprocess.run(
        [sys.executable, "-c", ASKING, str(published)],
        input=json.dumps(asked),
        env=os.environ | {"PYTHONPATH": str(Path(folder).resolve())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    version, *answers = json.loads(done.stdout)
    assert version != duckdb.__version__
    for (_, statement, ending), answer in zip(blocks_of_sql, answers, strict=True):
        assert isinstance(answer, int), (statement, answer)
        assert answer or "no row" in statement + ending, statement


def run_python(name):
    """Run the Python blocks of a document, in order and in one namespace; returns it."""
    names = {}
    for line, block in blocks(ROOT / name, "python"):
        # without this file's own `from __future__`, as whoever copies the block runs it
        exec(compile("\n" * (line - 1) + block, ROOT / name, "exec", dont_inherit=True), names)
    return names


def test_python_of_the_readme_runs(workplace):
    connection = run_python("README.md")["connection"]
    assert connection.sql("SELECT count(*) > 10 FROM articles").fetchall() == [(True,)]
    connection.close()


def test_python_of_the_analysts_guide_runs(workplace):
    names = run_python("docs/analyst.md")
    assert len(names["newest"]) == 3
    assert names["activity"].schema["hour_at"].time_zone == "UTC"
    assert names["table"].num_rows > 10
    assert names["found"] is None, "the folder was not moved"
    assert names["changes"]


def test_python_of_the_guide_to_structured_contents_runs(workplace):
    assert run_python("docs/structured.md")["headings"]


@pytest.mark.parametrize("column", ["batch_hour", "source_at"])
def test_constant_condition_on_the_hour_opens_its_files_alone(published, column):
    with duckdb.connect(published, read_only=True) as connection:
        connection.execute("SET VARIABLE newest = (SELECT max(batch_hour) FROM hours WHERE state = 'loaded')")
        (told,) = connection.execute(
            f"EXPLAIN (ANALYZE, FORMAT json) SELECT count(wikitext) FROM article_bodies WHERE {column} = "
            "getvariable('newest')"
        ).fetchall()
        ((hours,),) = connection.execute(
            "SELECT count(*) FROM hours WHERE state = 'loaded' AND table_name = 'article_changes'"
        ).fetchall()
    opened, of = re.search(r'"Scanning Files": "(\d+)/(\d+)', told[1]).groups()
    assert (int(opened), int(of)) == (2, hours)


def test_mirror_of_the_documents_is_exact(published):
    with duckdb.connect(published, read_only=True) as connection:
        gap = "first_gap_at <= (SELECT max(batch_hour) FROM hours WHERE state = 'loaded')"
        states = connection.execute(f"SELECT base_snapshot IS NOT NULL, {gap} IS TRUE FROM project_state").fetchall()
    assert states == [(True, False)] * 2


def test_python_of_the_data_engineers_guide_runs(workplace, capsys):
    names = run_python("docs/data-engineer.md")
    assert names["conversion"].row_count > 20
    assert names["warehouse"].sql("SELECT count(*) > 10 FROM articles").rows == [(True,)]
    assert "503" in capsys.readouterr().out


@pytest.fixture(scope="module")
def asked(published, tmp_path_factory):
    """What the notebook printed, and what `asking.py` wrote of it.

    The answers, the plots, the sentence without a published file.
    """
    folder = tmp_path_factory.mktemp("asked")
    words = [NOTEBOOK, folder / "empty", published.parent, folder / "answers.json"]
    done = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("asking.py"), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**bare(), "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "TZ": "America/New_York"},
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "answers.json").read_text())


def test_notebook_asks_ten_questions_and_prints_their_answers(asked):
    _, *questions = re.split(r"^## (?=\d)", asked[0], flags=re.MULTILINE)
    assert [int(question.split(".")[0]) for question in questions] == list(range(1, 11))
    assert all(re.search(r"^├─.*\n│ ", question, re.MULTILINE) for question in questions), "a table has a row at least"


def test_answers_of_the_notebook_are_those_of_the_file(asked, published):
    tables = asked[1]["tables"]
    assert len(tables) == NOTEBOOK.read_text().count(" = ask(")
    assert all(tables.values()), {name for name, rows in tables.items() if not rows}
    with duckdb.connect(published, read_only=True) as connection:
        counts = connection.execute(
            "SELECT project_id, namespace_id, count(*) FROM articles GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        (edits,) = connection.execute("SELECT CAST(sum(edit_count) AS BIGINT) FROM activity").fetchone()
    answered = [(row["project_id"], row["namespace_id"], row["article_count"]) for row in tables["coverage"]]
    assert answered == counts
    assert sum(row["edit_count"] for row in tables["hourly_edits"]) == edits
    assert {row["what"] for row in tables["deleted_and_moved"]} == {"deleted", "moved"}
    *before, now = tables["before_and_now"]
    assert now["event_at"] in [row["event_at"] for row in tables["history"]]
    earlier = [row for row in tables["history"] if row["event_at"] < now["event_at"]]
    if earlier[-1]["change_type"] == "delete" and not before:
        assert now["name"] == earlier[-1]["name"].replace("_", " "), (
            "only a page that came back was not there just before"
        )
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


def test_notebook_without_a_published_file_says_what_to_do(asked):
    assert "There is no published file" in asked[1]["refusal"]
    assert "`wme run`" in asked[1]["refusal"]


def test_notebook_needs_none_of_the_large_libraries(asked):
    assert asked[1]["heavy"] == []


def test_guides_say_how_to_open_the_notebook_and_how_to_print_it(asked):
    name = NOTEBOOK.relative_to(ROOT).as_posix()
    assert asked[1]["opened"] == str(NOTEBOOK)
    for path in (ROOT / "README.md", ROOT / "docs" / "analyst.md"):
        for command in ("marimo edit", "python"):
            assert f".venv/bin/{command} {name}" in path.read_text(), path.name


def test_no_python_goes_untested():
    with_python = {path.name for path in DOCUMENTS if list(blocks(path, "python"))}
    assert with_python == {"README.md", "analyst.md", "structured.md", "data-engineer.md"}


def command_of(words):
    """The command that words name, and its own words."""
    command, rest = cli.wme, list(words)
    while isinstance(command, click.Group):
        assert rest, words
        assert rest[0] in command.commands, f"there is no command {' '.join(words)}"
        command = command.commands[rest.pop(0)]
    return command, rest


def test_every_command_line_of_ours_can_be_parsed():
    found = lines("wme")
    assert len(found) > 20
    for words in found:
        command, rest = command_of(words)
        if command.name == "sandbox":  # has a parser of its own
            continue
        context = click.Context(command, info_name=command.name, resilient_parsing=False)
        values, arguments, _ = command.make_parser(context).parse_args(args=list(rest))
        assert not arguments, words
        for option in command.params:
            if isinstance(option, click.Option) and isinstance(values.get(option.name), str):
                option.type_cast_value(context, values[option.name])


def test_options_of_the_sandbox_exist():
    named = {word for words in lines("wme") if words[0] == "sandbox" for word in words if word.startswith("--")}
    parser = argparse.ArgumentParser()
    sandbox_options.add_arguments(parser)
    assert {"--seed", "--projects"} <= named
    assert named <= {name for action in parser._actions for name in action.option_strings}


def test_cheap_commands_run(mirror, call, workplace):
    run = [words for words in lines("wme") if words[0] in CHEAP or " ".join(words[:2]) in CHEAP or "--dry-run" in words]
    assert len(run) > 8
    for words in run:
        told = call(*words, environ=mirror, stdin="FROM project_state")
        # a check tells of the mirror, which lags here
        assert told.code == 0 or "--check" in words, (words, told.err)
        assert told.out or {"--quiet", "-q"} & {*words}, words


@pytest.mark.skipif(shutil.which("curl") is None, reason="the lines need curl")
def test_lines_of_the_sandboxs_guide_answer_as_it_says(wme, tmp_path):
    """The whole guide as one script, after the first block, which starts the sandbox."""
    (start, *_), *rest = [block.splitlines() for _, block in blocks(ROOT / "docs" / "sandbox.md", "sh")]
    assert start.startswith("wme sandbox --port 8090 --object-port 8091 --realtime-port 8092 ")
    # free ports instead, and a small world: two sandboxes of two test runs shall not meet
    words = shlex.split(re.sub(r"809\d", "0", start))[1:]
    small = ["--changes-per-hour", "5", "--body-bytes", "300", "--projects", "enwiki", "--prepare", "1"]
    process = wme(*words, *small, environ={"WME_DATA": str(tmp_path / "data")})
    try:
        url, _, realtime = re.findall(r"http://[\w.]+:\d+", process.stdout.readline())
        lines = [line for block in rest for line in block]
        expected = [line.rpartition("#")[2].strip() for line in lines if line.startswith("code ")]
        assert len(expected) > 15
        script = "set -euo pipefail\n" + "\n".join(lines).replace("http://127.0.0.1:8090", url).replace(
            "http://localhost:8092", realtime
        )
        done = subprocess.run(
            ["bash", "-c", script],
            check=False,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert re.findall(r"(?<![^\n\]}])(\d{3})$", done.stdout, re.MULTILINE) == expected
        assert "cannot read" not in done.stdout
        assert 'status":4' not in done.stdout
        assert (tmp_path / "batch.tar.gz").read_bytes()[:2] == b"\x1f\x8b"
        assert (tmp_path / "part").stat().st_size == 100
        assert 0 <= json.loads((tmp_path / "event.json").read_bytes())["event"].get("partition", 0) < 5
        assert "event: message\ndata: {" in done.stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)


def test_control_requests_of_the_sandboxs_guide_are_those_there_are():
    rows = re.findall(r"^\| `(.*?) /sandbox/(\w+)` \|", (ROOT / "docs" / "sandbox.md").read_text(), re.MULTILINE)
    told = sorted((name, method) for methods, name in rows for method in re.findall("[A-Z]+", methods))
    cases = re.findall(r'case (.*?), "(\w+)"(.*):', inspect.getsource(sandbox_control.Control.answer))
    there = {(name, method) for one, name, more in cases for method in re.findall("[A-Z]+", one + more)}
    assert told == sorted(there)
    assert len(told) > 20


def test_every_target_of_make_exists():
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for words in lines("make") for word in words if "=" not in word}
    assert {"run", "test", "ui", "check"} <= named <= targets
    text = "\n".join(path.read_text() for path in GUIDES)
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets
    for target in targets - {"help"}:
        assert f"make {target}" in text, f"no document names `make {target}`"


def all_commands(group=cli.wme, words=("wme",)):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from all_commands(command, (*words, name))
        else:
            yield " ".join((*words, name))


@pytest.mark.parametrize("command", sorted(all_commands()))
def test_every_command_is_in_the_documents(command):
    assert any(command in path.read_text() for path in GUIDES)


def test_every_command_that_the_documents_name_exists():
    for path in DOCUMENTS:
        for named in re.findall(r"`wme ((?:[a-z-]+ ?)+)[^`]*`", path.read_text()):
            command, words = cli.wme, named.split()
            while isinstance(command, click.Group) and words:
                assert words[0] in command.commands, named
                command = command.commands[words.pop(0)]


def test_every_option_that_the_guides_name_exists():
    for path in GUIDES:
        for command, option in re.findall(r"`wme ([a-z]+)[^`]*? (--[a-z-]+)", path.read_text()):
            if command != "sandbox":
                options = {name for p in cli.wme.commands[command].params for name in (*p.opts, *p.secondary_opts)}
                assert option in options | {"--help"}, (path.name, command, option)


def test_data_dictionary_is_what_the_declarations_say():
    written = {path.name: path.read_text() for path in (ROOT / "docs" / "tables").glob("*.md")}
    assert written == dictionary.pages(), "`wme dictionary --folder docs/tables` writes the pages anew"


def analysts_blocks(language):
    return "\n".join(block for name in ANALYST_GUIDES for _, block in blocks(ROOT / "docs" / f"{name}.md", language))


def test_every_table_and_state_is_in_the_guides_for_analysts():
    text = "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in ANALYST_GUIDES)
    for table in datasets.tables():
        assert f"`{table.name}`" in text, table.name
    for state in HourState:
        assert f"| `{state}` |" in text, state


def test_every_view_and_macro_has_an_example_in_the_guides_for_analysts():
    examples = analysts_blocks("sql")
    for one in (*QUESTIONS, *STRUCTURED_VIEWS, *ENTITY_VIEWS, *MACROS):
        assert re.search(rf"\b(FROM|JOIN) {one.name}\b", examples), one.name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        found = (path.parent / name).resolve() if name else path
        assert found.exists(), target
        assert found.is_relative_to(ROOT), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, target


def test_every_module_and_folder_that_the_guides_name_exists():
    for path in GUIDES:
        for named in re.findall(r"`((?:pipelines|assets|resources)/[\w/]+(?:\.py|/))`", path.read_text()):
            assert (ROOT / named).exists(), (path.name, named)


def read_variables():
    return set(settings.NAMES)


def read_switches():
    """What is read elsewhere.

    By the reader of the settings file; by the converter, of whoever compares or mends; by `wme auth`, a secret that is
    on its way; by `make test-live`.
    """
    modules = (native, account_commands, contract, types)
    return {name for module in modules for name in re.findall(r'"(WME_[A-Z_]+)"', Path(module.__file__).read_text())}


def test_nothing_that_is_read_is_reported_as_unknown():
    assert settings.unknown(dict.fromkeys(read_variables() | read_switches(), "")) == []


def test_settings_of_the_readme_are_those_declared():
    declared = []
    for field in settings.Settings.model_fields.values():
        meaning, _, default = field.description.partition(" Default: ")
        row = (f"`{field.validation_alias}`", meaning.rstrip("."), default.rstrip(".") or "none")
        declared.append(f"| {' | '.join(row)} |")
    assert [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| `WME_")] == declared


def test_settings_of_the_example_are_those_declared():
    head, *declared = (ROOT / ".env.example").read_text().split("\n\n")
    assert all(line.startswith("# ") for line in head.splitlines())
    assert [entry.rstrip("\n") for entry in declared] == [
        f"# {field.description.replace('`', '')}\n#{field.validation_alias}={field.examples[0]}"
        for field in settings.Settings.model_fields.values()
    ]


def test_examples_of_the_settings_can_be_used():
    examples = {field.validation_alias: field.examples[0] for field in settings.Settings.model_fields.values()}
    assert settings.read(examples).projects == ("enwiki", "frwiki")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_document_names_an_unknown_variable(path):
    # `_WME_COMPLETE`, by which click writes the completion of a shell, is no setting
    assert set(re.findall(r"(?<!_)WME_[A-Z_]+", path.read_text())) <= read_variables() | read_switches()


def subclasses(kind):
    for found in kind.__subclasses__():
        yield found.__name__
        yield from subclasses(found)


def test_every_error_is_in_the_operators_table():
    text = (ROOT / "docs" / "operator.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    roots = (EngineError, EnterpriseError, lake_errors.LakeError, WarehouseError)
    kinds = {name for root in roots for name in subclasses(root)}
    # raised and answered inside the client
    kinds -= {
        name
        for name in kinds
        if name in {"RefreshRefused", "NewPasswordRefused", "BrokenAnswer", "NoConnection", "EndlessRecord"}
    }
    assert kinds <= named


def test_example_of_dagsters_settings_is_the_one_that_is_used(tmp_path):
    assert instance.TEMPLATE.samefile(ROOT / "dagster.example.yaml")
    home = instance.prepare(tmp_path / "dagster")
    assert (home / "dagster.yaml").read_bytes() == instance.TEMPLATE.read_bytes()


def test_decisions_are_numbered_without_a_gap():
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    for name in names:
        text = (ROOT / "docs" / "decisions" / name).read_text()
        assert text.startswith(f"# {int(name[:4])}. ")
        for part in ("Context", "Decision", "Evidence", "Consequences"):
            assert f"**{part}.**" in text, name
