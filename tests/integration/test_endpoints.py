"""Every endpoint of the description has its way through the project, or says why not."""

import ast
from functools import cache, reduce
from pathlib import Path

import click
import pytest

from pipelines.cli import wme
from resources.enterprise import EnterpriseClient, Service
from tests import endpoints
from tests.endpoints import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
GRAPH = (ROOT / "tests/integration/asset_graph.txt").read_text().splitlines()
WAYS = [pytest.param(one, endpoints.reach(one), id=one.name) for one in OPERATIONS]


@cache
def functions(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def explained(cell):
    return cell.startswith("- ") and len(cell) > 5


@pytest.mark.parametrize(("operation", "way"), WAYS)
def test_the_call_of_the_client_the_command_and_the_test_exist(operation, way, tmp_path):
    """Of the command, what is written after it: options it has, and no more arguments than it takes."""
    client = EnterpriseClient(Service(), tmp_path)
    assert explained(way.client) or callable(reduce(getattr, way.client.split("."), client))
    path, _, function = way.test.partition("::")
    assert explained(way.test) or function in functions(ROOT / "tests" / path)
    command, words = wme, [] if explained(way.command) else way.command.split()
    while words and isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    named = {words[at + 1] for at, word in enumerate(words) if word == "--dataset"}
    assert named <= {one.name for one in endpoints.asking(operation)}
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    while options.keys() & words:
        at = next(number for number, word in enumerate(words) if word in options)
        del words[at : at + (1 if options[words[at]].is_flag else 2)]
    assert len(words) <= len([one for one in command.params if isinstance(one, click.Argument)])


def test_assets_exist_and_every_archive_has_its_endpoint():
    named = {asset for operation in OPERATIONS for asset in endpoints.assets(operation)}
    assert named <= set(GRAPH)
    assert named == {line for line in GRAPH if line.startswith("archive/")}


def test_the_page_has_a_row_for_each_and_no_empty_cell():
    rows = [line for text in endpoints.pages().values() for line in text.splitlines() if line.startswith("| ")]
    assert len([row for row in rows if "`GET" in row or "`POST" in row]) == len(OPERATIONS)
    assert not [row for row in rows if any(not cell.strip() for cell in row.strip("|").split("|"))]
