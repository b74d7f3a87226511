"""Each check, alarm, error and exit code has its place in the guide, and no other has."""

import ast
import re
import signal
from pathlib import Path

import click
import pytest

from pipelines.definitions import build_defs
from pipelines.process import interrupts
from pipelines.report import metrics
from resources.sandbox.process import SandboxConflictError, SandboxStartError
from resources.settings import Settings
from tests.unit.test_errors_travel import OURS

ROOT = Path(__file__).parents[3]
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
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name("troubles") | ast.Attribute(attr="troubles"), attr="append" | "insert"
                    )
                ):
                    told = node.args[-1]
                case ast.Assign(targets=[ast.Name("trouble")]):
                    told = node.value
                case ast.Call(func=ast.Name("StreamSection"), args=[_, ast.List(elts=[told]), *_]):
                    pass
                case ast.Assign(targets=[ast.Name("reason")], value=ast.Constant(str())):
                    told = node.value
                case _:
                    continue
            if text := "".join(
                one.value for one in ast.walk(told) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ):
                yield pytest.param(text, id=f"{path.stem}-{node.lineno}")


def bold():
    return re.findall(r"^\*\*(.+?)\*\* ", SECTIONS["Lines of wme status"], re.MULTILINE)


def test_each_check_and_automation_has_its_row_and_each_row_one():
    graph = build_defs(Settings()).resolve_asset_graph()
    assert set(re.findall(r"^\| `(\w+)` \|", SECTIONS["Checks"], re.MULTILINE)) == {
        key.name for key in graph.asset_check_keys
    }
    defs = build_defs(Settings(wikidata=True))
    table = re.findall(r"^\| (`.*? (?:schedules?|sensors?)\b.*?) \|", RUN, re.MULTILINE)
    named = {name: "on by default" in row for row in table for name in re.findall(r"`([a-z_0-9]+)`", row)}
    assert named == {one.name: one.default_status.value == "RUNNING" for one in (*defs.schedules, *defs.sensors)}


@pytest.mark.parametrize("text", list(sentences()))
def test_each_sentence_that_needs_attention_is_explained(text):
    assert [phrase for phrase in bold() if phrase in text], text


def test_each_explained_sentence_is_one_that_is_still_said():
    source = "".join(
        path.read_text()
        for path in (
            *sorted((ROOT / "pipelines" / "report").glob("*.py")),
            *(HEALTH, ROOT / "resources" / "tables" / "ledger.py"),
        )
    )
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
    names = {
        *re.findall(r'gauge\(\s*"(\w+)"', source),
        *(name for name, _ in (metrics.FIGURES | metrics.STREAM).values()),
    }
    rows = re.findall(r"^\| (`wme_.*?) \|", RUN, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`wme_(\w+)`", row)} == names
