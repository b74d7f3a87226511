"""Each alarm has its place in the operator's guide, and none that no longer exists has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pipelines.definitions import build_defs
from resources.settings import Settings

ROOT = Path(__file__).parents[3]
#: Where sentences about hours and snapshots come from.
HEALTH = ROOT / "resources" / "warehouse" / "read" / "coverage.py"
GUIDE = (ROOT / "docs" / "operator.md").read_text().partition("## Alarms\n")[2].partition("\n## ")[0]
CHECKS, LINES = GUIDE.split("### Lines of wme status")


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
    return re.findall(r"^\*\*(.+?)\*\* ", LINES, re.MULTILINE)


def test_each_check_has_its_row_and_each_row_its_check():
    graph = build_defs(Settings()).resolve_asset_graph()
    assert set(re.findall(r"^\| `(\w+)` \|", CHECKS, re.MULTILINE)) == {key.name for key in graph.asset_check_keys}


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
