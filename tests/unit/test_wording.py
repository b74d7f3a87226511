"""Retired terms.

No text that users read has them (help, guides, messages, descriptions in the Dagster UI, the dictionary).
"""

from __future__ import annotations

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


def messages(path):
    """The strings of a module that are sentences, docstrings left out; what is filled in is a dot."""
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
            yield text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_have_no_retired_term(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    assert not retired(text), "\n".join(retired(text))


def test_messages_have_no_retired_term():
    found = [
        f"{path.relative_to(ROOT)}: {wrong}" for path in MODULES for text in messages(path) for wrong in retired(text)
    ]
    assert len(MODULES) > 100
    assert not found, "\n".join(found)


def commands(command, context):
    yield command.get_help(context)
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, click.Context(child, info_name=name, parent=context))


def test_help_has_no_retired_term():
    texts = list(commands(cli.wme, click.Context(cli.wme, info_name="wme")))
    found = [wrong for text in texts for wrong in retired(text)]
    assert len(texts) > 20
    assert not found, "\n".join(found)


def test_descriptions_in_the_dagster_ui_have_no_retired_term():
    defs = build_defs(Settings())
    texts = [spec.description for spec in defs.resolve_all_asset_specs()]
    texts += [one.description for one in (*defs.jobs, *defs.schedules, *defs.sensors)]
    texts += [check.description for asset in defs.asset_checks for check in asset.check_specs]
    for resource in build_resources(Settings()).values():
        texts += [type(resource).__doc__, *(Settings.model_fields[name].description for name in resource.numbers)]
    found = [wrong for text in texts if text for wrong in retired(text)]
    assert len(texts) > 30
    assert not found, "\n".join(found)


def test_declarations_have_no_retired_term():
    texts = [one.description for one in datasets.datasets()]
    texts += [text for table in datasets.tables() for text in (table.description, *(one.description for one in table))]
    found = [wrong for text in texts for wrong in retired(text)]
    assert not found, "\n".join(found)
    assert not [text for text in texts if "{" in text]  # an f-string without its prefix


def docstrings(path):
    """The docstrings of a module, with the name of what each describes."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


def comments(path):
    """The comments of a module, those of several lines joined."""
    with path.open(encoding="utf-8") as lines:
        yield " ".join(one.string for one in tokenize.generate_tokens(lines.readline) if one.type == tokenize.COMMENT)


def test_docstrings_and_comments_have_no_retired_term():
    found = [
        f"{path.relative_to(ROOT)}: {wrong}"
        for path in MODULES
        for text in (*(text for _, text in docstrings(path)), *comments(path))
        for wrong in retired(text)
    ]
    assert not found, "\n".join(found)


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
