"""Rules for every page of documentation: length, links, names that exist, and a row for all that needs one."""

import argparse
import ast
import inspect
import re
import runpy
import signal
from pathlib import Path

import click
import pytest

from pipelines import cli
from pipelines.cli import account as account_commands
from pipelines.definitions import build_defs
from pipelines.process import interrupts
from pipelines.report import metrics
from resources import datasets, settings
from resources.lake.decode import native
from resources.sandbox import options as sandbox_options
from resources.sandbox.api import control as sandbox_control
from resources.sandbox.process import SandboxConflictError, SandboxStartError
from resources.settings import types
from resources.tables import HourState
from resources.tables.entities import ENTITY_VIEWS
from resources.tables.structured import STRUCTURED_VIEWS
from resources.tables.views import MACROS, QUESTIONS
from tests import generated
from tests.commands import every
from tests.contract import __main__ as contract
from tests.documents import DECISIONS, DOCS, GUIDES, PAGES, ROOT, anchors, blocks, commands, name_of, prose
from tests.unit.test_errors_travel import OURS

#: Pages with a limit of their own.
LIMITS = {"README.md": 150, "CHANGELOG.md": 60, **dict.fromkeys(map(name_of, DECISIONS), 60)}
TEXT = "\n".join(page.read_text() for page in GUIDES)


def test_no_page_is_too_long():
    lengths = {name_of(page): len(page.read_text().splitlines()) for page in PAGES}
    assert {name: length for name, length in lengths.items() if length > LIMITS.get(name, 400)} == {}


def test_links_lead_to_a_page_and_a_heading():
    targets, dead = {page: anchors(page) for page in PAGES}, []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            name, _, anchor = target.partition("#")
            found = (page.parent / name).resolve() if name else page
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            inside = found.is_relative_to(ROOT) and found.exists()
            if not inside or (anchor and anchor not in targets.get(found, ())):
                dead.append(f"{name_of(page)}: {target}")
    assert dead == []


def test_index_names_every_page():
    index = DOCS / "README.md"
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#]+)", index.read_text())}
    pages = {page for page in DOCS.glob("*.md") if page != index}
    assert sorted(page.name for page in pages - linked) == []


def test_generated_pages_repeat_the_code():
    written = {name_of(page): page.read_text() for page in [*(DOCS / "tables").glob("*.md")]}
    rendered = generated.pages()
    written |= {name: (ROOT / name).read_text() for name in rendered if (ROOT / name).exists()}
    assert written == rendered, "`make docs` writes the pages again"


def test_decisions_are_numbered_without_a_gap_and_have_their_parts():
    for number, page in enumerate(DECISIONS, 1):
        text = page.read_text()
        assert (int(page.name[:4]), text.startswith(f"# {number}. ")) == (number, True), page.name
        for part in () if "uperseded by" in text else ("Context", "Decision", "Evidence", "Consequences"):
            assert re.search(rf"^(\*\*{part}\.?\*\*|## {part}$)", text, re.MULTILINE), (page.name, part)


# --- commands --------------------------------------------------------------------------------------------------------


def resolve(words):
    """Return the command that words name, and the words that follow."""
    command, rest = cli.wme, list(words)
    while isinstance(command, click.Group) and rest:
        assert rest[0] in command.commands, f"there is no command wme {' '.join(words)}"
        command = command.commands[rest.pop(0)]
    return command, rest


def test_every_command_line_can_be_parsed():
    found, of_sandbox = commands("wme"), set()
    assert len(found) > 20
    for words in found:
        command, rest = resolve(words)
        if command.name == "sandbox":  # has a parser of its own
            of_sandbox |= {word for word in words if word.startswith("--")}
            continue
        context = click.Context(command, info_name=command.name, resilient_parsing=False)
        values, arguments, _ = command.make_parser(context).parse_args(args=list(rest))
        assert not arguments, words
        for option in command.params:
            if isinstance(option, click.Option) and isinstance(values.get(option.name), str):
                option.type_cast_value(context, values[option.name])
    parser = argparse.ArgumentParser()
    sandbox_options.add_arguments(parser)
    assert set() < of_sandbox <= {name for action in parser._actions for name in action.option_strings}


def test_control_requests_of_the_sandbox_are_those_that_exist():
    rows = re.findall(r"^\| `(.*?) /sandbox/(\w+)` \|", (DOCS / "sandbox.md").read_text(), re.MULTILINE)
    named = sorted((name, method) for methods, name in rows for method in re.findall("[A-Z]+", methods))
    cases = re.findall(r'case (.*?), "(\w+)"(.*):', inspect.getsource(sandbox_control.Control.answer))
    there = {(name, method) for one, name, more in cases for method in re.findall("[A-Z]+", one + more)}
    assert named == sorted(there)
    assert len(named) > 20


def test_targets_of_make_are_named_and_exist():
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for words in commands("make") for word in words if "=" not in word}
    named |= set(re.findall(r"`make ([a-z-]+)", TEXT))
    assert {"run", "test", "ui", "check"} <= named <= targets
    assert sorted(name for name in targets - {"help"} if f"make {name}" not in TEXT) == []


def test_every_command_is_in_a_guide():
    named = (" ".join(("wme", *words)) for words, command in every() if not isinstance(command, click.Group))
    assert sorted(command for command in named if command not in TEXT) == []


def test_every_command_and_option_that_a_page_names_exists():
    for page in PAGES:
        for named in re.findall(r"`wme ([a-z][^`]*)`", page.read_text()):
            command, _ = resolve(re.match(r"(?:[a-z-]+(?: |$))+", named)[0].split())
            if command.name != "sandbox" and page in GUIDES:  # the sandbox has a parser of its own
                options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
                unknown = set(re.findall(r"(?<= )--[a-z-]+", named)) - options - {"--help"}
                assert not unknown, (name_of(page), named)


# --- names -----------------------------------------------------------------------------------------------------------


def test_every_module_and_folder_that_a_guide_names_exists():
    for page in GUIDES:
        for named in re.findall(r"`((?:pipelines|assets|resources)/[\w/]+(?:\.py|/))`", page.read_text()):
            assert (ROOT / named).exists(), (name_of(page), named)


def test_every_table_and_state_is_explained_and_every_view_and_macro_has_an_example():
    assert sorted(table.name for table in datasets.tables() if f"`{table.name}`" not in TEXT) == []
    assert sorted(state for state in HourState if f"| `{state}` |" not in TEXT) == []
    examples = "\n".join(block for page in GUIDES for _, block in blocks(page, "sql"))
    views = (*QUESTIONS, *STRUCTURED_VIEWS, *ENTITY_VIEWS, *MACROS)
    assert [one.name for one in views if not re.search(rf"\b(FROM|JOIN) {one.name}\b", examples)] == []


# --- settings --------------------------------------------------------------------------------------------------------


def test_variables_that_are_read_are_known_and_no_page_names_another():
    # switches, which the settings file's reader, the decoder, `wme auth` and `make test-live` read, are no settings
    modules = (native, account_commands, contract, types)
    sources = (Path(module.__file__).read_text() for module in modules)
    known = {*settings.NAMES, *(name for source in sources for name in re.findall(r'"(WME_[A-Z_]+)"', source))}
    assert settings.unknown(dict.fromkeys(known, "")) == []
    for page in PAGES:
        # `_WME_COMPLETE`, by which click writes the completion of a shell, is no setting
        assert sorted({*re.findall(r"(?<!_)WME_[A-Z_]+", page.read_text())} - known) == [], name_of(page)


def test_examples_of_the_settings_can_be_used():
    fields = settings.Settings.model_fields
    examples = {field.validation_alias: field.examples[0] for field in fields.values() if field.examples}
    assert settings.read(examples).projects == ("enwiki", "frwiki")


# --- pictures --------------------------------------------------------------------------------------------------------

IMAGES = DOCS / "images"
DRAW = runpy.run_path(str(IMAGES / "draw.py"))


def test_pictures_are_as_drawn_and_have_at_most_200_kb():
    assert (IMAGES / "architecture.svg").read_text() == DRAW["architecture"](), "`make docs` draws it again"
    sizes = {path.name: path.stat().st_size for path in IMAGES.iterdir() if path.suffix in {".svg", ".png"}}
    assert sizes.keys() == {"architecture.svg", "report.png"}
    assert max(sizes.values()) <= 200_000


def test_the_text_of_a_picture_is_found_again():
    png = DRAW["with_text"]((IMAGES / "report.png").read_bytes(), "author", "nobody")
    assert b"author\0nobody" in png
    assert png.startswith(b"\x89PNG")


# --- a row for each check, alarm, error, exit code and metric, and for no other --------------------------------------

#: Where sentences about hours and snapshots come from.
HEALTH = ROOT / "resources" / "warehouse" / "read" / "coverage.py"
GUIDE = (ROOT / "docs" / "troubleshooting.md").read_text()
RUN = (ROOT / "docs" / "run.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
#: Errors of the sandbox, which shares no code with the mirror.
SANDBOX = {(one.__name__, "no") for one in (SandboxConflictError, SandboxStartError)}
#: Errors of which only subclasses are raised.
ABSTRACT = {"EnterpriseError", "WarehouseError", "_UnavailableError"}
#: Errors that the client raises and handles itself.
INTERNAL = {"RefreshRefused", "NewPasswordRefused", "BrokenAnswer", "NoConnection"}


def sentences():
    """What the source adds to what needs attention, as far as it is said there: the texts of each sentence."""
    for path in sorted([*(ROOT / "pipelines" / "report").glob("*.py"), HEALTH]):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(place, "append" | "insert")) if ast.unparse(place).endswith("troubles"):
                    told = node.args[-1]
                case ast.Assign(targets=[ast.Name("trouble")]):
                    told = node.value
                case ast.Call(func=ast.Name("StreamSection"), args=[_, ast.List(elts=[told]), *_]):
                    pass
                case ast.Assign(targets=[ast.Name("reason")], value=ast.Constant(str())):
                    told = node.value
                case _:
                    continue
            parts = (one.value for one in ast.walk(told) if isinstance(one, ast.Constant))
            if text := "".join(part for part in parts if isinstance(part, str)):
                yield pytest.param(text, id=f"{path.stem}-{node.lineno}")


def bold():
    return re.findall(r"^\*\*(.+?)\*\* ", SECTIONS["Lines of wme status"], re.MULTILINE)


def test_each_check_and_automation_has_its_row_and_each_row_one():
    graph = build_defs(settings.Settings()).resolve_asset_graph()
    rows = re.findall(r"^\| `(\w+)` \|", SECTIONS["Checks"], re.MULTILINE)
    assert set(rows) == {key.name for key in graph.asset_check_keys}
    defs = build_defs(settings.Settings(wikidata=True))
    table = re.findall(r"^\| (`.*? (?:schedules?|sensors?)\b.*?) \|", RUN, re.MULTILINE)
    named = {name: "on by default" in row for row in table for name in re.findall(r"`([a-z_0-9]+)`", row)}
    assert named == {one.name: one.default_status.value == "RUNNING" for one in (*defs.schedules, *defs.sensors)}


@pytest.mark.parametrize("text", list(sentences()))
def test_each_sentence_that_needs_attention_is_explained(text):
    assert [phrase for phrase in bold() if phrase in text], text


def test_each_explained_sentence_is_one_that_is_still_said():
    modules = (*(ROOT / "pipelines" / "report").glob("*.py"), HEALTH, ROOT / "resources" / "tables" / "ledger.py")
    source = "".join(path.read_text() for path in modules)
    # a sentence may go over several lines of the source
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    assert len(bold()) >= 13
    assert [phrase for phrase in bold() if phrase not in source] == []


def test_each_error_has_its_row_and_each_row_its_error():
    """The column *retry* repeats the attribute of the class."""
    rows = re.findall(r"^\| `(\w+)` \|.*?\| (yes|no) \|", SECTIONS["Errors"], re.MULTILINE)
    errors = {kind.__name__: kind.retryable for kind in OURS if kind.__name__ not in ABSTRACT | INTERNAL}
    del errors["MirrorError"]
    assert set(rows) == SANDBOX | {(name, "yes" if retryable else "no") for name, retryable in errors.items()}


def test_each_exit_code_has_its_row():
    """`wme` ends with success, failure, wrong usage (click), or 128 plus the number of the signal that ends it."""
    codes = {0, 1, click.UsageError.exit_code, *(128 + number for number in (*interrupts._SIGNALS, signal.SIGKILL))}
    rows = re.findall(r"^\| ([\d, ]+) \|", SECTIONS["Exit codes"], re.MULTILINE)
    assert sorted(int(code) for row in rows for code in row.split(",")) == sorted(codes)


def test_each_metric_has_its_row():
    source = Path(metrics.__file__).read_text()
    figures = (metrics.FIGURES | metrics.STREAM).values()
    names = {*re.findall(r'gauge\(\s*"(\w+)"', source), *(name for name, _ in figures)}
    rows = re.findall(r"^\| (`wme_.*?) \|", RUN, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`wme_(\w+)`", row)} == names
