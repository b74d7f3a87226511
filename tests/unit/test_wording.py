"""Retired terms.

No text that users read has them (help, guides, messages, descriptions in the Dagster UI, the dictionary).
"""

import ast
import re
import tokenize
from functools import cache
from pathlib import Path

import click
import pytest

from pipelines import cli
from pipelines.definitions import build_defs
from resources import datasets
from resources.adapters import build_resources
from resources.settings import Settings
from tests import commands

ROOT = Path(__file__).resolve().parents[2]
#: Each with what is said instead.
RETIRED = {
    r"Dagster's pages?": "the Dagster UI",
    r"how the data lies": "data layout",
    r"\b(told|tells|telling)\b": "reported, prints, shows, logs",
    r"\bsits? failed": "failed hour",
    r"\b(list of an hour|hour's list|list of the hour)\b": "batch listing",
    r"\bno set any more\b": "no longer belongs together",
    r"\bsuffic(e|es|ed)\b": "is enough",
    r"\bsigned address(es)?\b": "signed URLs",
    r"\banew\b": "again",
    r"\b(stands?|stood) (twice|in(?! for)|here|there|beside)\b": "is, appears",
    r"\blies? (about|beside|there|here|below|with)\b": "is, has",
    r"\bwhatever seems better\b": "always",
    r"\bsay \d": "for example",
    r"\bin vain\b": "without success",
    r"\bis begun\b": "is started",
}
DOCUMENTS = [*sorted(ROOT.glob("*.md")), ROOT / ".env.example", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(
    path
    for room in ("pipelines", "assets", "resources")
    for path in (ROOT / room).rglob("*.py")
    if not path.is_relative_to(ROOT / "resources" / "sandbox")
)
ANY = re.compile("|".join(f"(?:{term})" for term in RETIRED), re.IGNORECASE)


@cache
def nodes(path):
    """The nodes of a module's syntax tree that say something."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.arg, ast.Constant, ast.JoinedStr)
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]


def retired(text):
    """What is wrong with a text: each retired term with its surroundings."""
    plain = " ".join(text.split())
    if not ANY.search(plain):
        return []
    return [
        f"{plain[max(0, found.start() - 40) : found.end() + 20]!r}: say {better!r}"
        for term, better in RETIRED.items()
        for found in re.finditer(term, plain, re.IGNORECASE)
    ]


def documents():
    """The documents, without their fenced blocks."""
    for path in DOCUMENTS:
        yield path.name, re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)


def messages():
    """The strings of all modules that are sentences, docstrings left out; what is filled in is a dot."""
    for path in MODULES:
        docstrings = {
            id(node.body[0].value)
            for node in nodes(path)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        parts = {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes(path):
            if id(node) in docstrings | parts:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "·" for part in node.values)
            else:
                continue
            if " " in text and not text.lstrip().startswith(("SELECT", "WITH", "CREATE")):
                yield path.relative_to(ROOT), text


def helps():
    for words, command in [((), cli.wme), *commands.every()]:
        yield words, command.get_help(click.Context(command, info_name=" ".join(words)))


def descriptions():
    """The descriptions in the Dagster UI."""
    defs = build_defs(Settings())
    described = [*defs.resolve_all_asset_specs(), *defs.jobs, *defs.schedules, *defs.sensors]
    described += [check for asset in defs.asset_checks for check in asset.check_specs]
    yield from ((one, one.description or "") for one in described)
    for resource in build_resources(Settings()).values():
        yield resource, type(resource).__doc__
        yield from ((name, Settings.model_fields[name].description or "") for name in resource.numbers)


def declarations():
    """The descriptions of datasets, tables and columns."""
    yield from ((one.name, one.description) for one in datasets.datasets())
    for table in datasets.tables():
        yield from ((one.name, one.description) for one in (table, *table))


def docstrings(path):
    """The docstrings of a module, with the name of what each describes."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


def docstrings_and_comments():
    """Those of all modules; the comments of a module are one text."""
    for path in MODULES:
        yield from ((f"{path.relative_to(ROOT)} {name}", text) for name, text in docstrings(path))
        with path.open(encoding="utf-8") as lines:
            found = [one.string for one in tokenize.generate_tokens(lines.readline) if one.type == tokenize.COMMENT]
        yield path.relative_to(ROOT), " ".join(found)


@pytest.mark.parametrize(
    ("texts", "least"),
    [
        *((documents, 10), (helps, 20), (descriptions, 30), (declarations, 100)),
        *((messages, 1000), (docstrings_and_comments, 1000)),
    ],
)
def test_no_text_has_a_retired_term(texts, least):
    found = list(texts())
    assert len(found) > least
    assert [(place, wrong) for place, text in found for wrong in retired(text)] == []


def test_no_description_is_an_f_string_without_its_prefix():
    assert [text for _, text in declarations() if "{" in text] == []


#: Words of names that had to be explained; a module, class, function or argument has none of them.
RETIRED_NAMES = {"anew", "beside", "carrying", "leash", "patience", "strangers", "told", "wishes"}


def names(path):
    """The names that a module declares, and its own."""
    yield path.stem
    for node in nodes(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


def test_names_have_no_retired_word():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in names(path)
        if RETIRED_NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    ]
    assert not found, "\n".join(found)


def test_docstrings_begin_with_a_verb_or_a_noun():
    found = [
        f"{path.relative_to(ROOT)} {name}: {text.splitlines()[0]}"
        for path in sorted(
            path for room in ("pipelines", "assets", "resources") for path in (ROOT / room).rglob("*.py")
        )
        for name, text in docstrings(path)
        if re.match(r"(What|Whether|How|Which|Where|Why|When|Whoever)\b", text)
    ]
    assert not found, "\n".join(found)
