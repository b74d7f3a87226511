"""Retired terms.

No text that users read has them (help, guides, messages, descriptions in the Dagster UI, the dictionary).
"""

import ast
import re
import tokenize
from functools import cache
from pathlib import Path

from resources import datasets

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
ROOMS = ("pipelines", "assets", "resources")
MODULES = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if not path.is_relative_to(ROOT / "resources" / "sandbox")
)
ANY = re.compile("|".join(f"(?:{term})" for term in RETIRED), re.IGNORECASE)


@cache
def nodes(path):
    """The nodes of a module's syntax tree that say something."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.arg, ast.Constant, ast.JoinedStr)
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]


def texts(path):
    """The texts of a module: each string, docstrings too, with a dot for what is filled in; all comments as one."""
    parts = {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "·" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value
    with path.open(encoding="utf-8") as lines:
        tokens = tokenize.generate_tokens(lines.readline)
        yield " ".join(one.string for one in tokens if one.type == tokenize.COMMENT)


def retired(text):
    """Each retired term of a text with its surroundings."""
    plain = " ".join(text.split())
    if not ANY.search(plain):
        return []
    return [
        f"{plain[max(0, found.start() - 40) : found.end() + 20]!r}: say {better!r}"
        for term, better in RETIRED.items()
        for found in re.finditer(term, plain, re.IGNORECASE)
    ]


def test_no_text_has_a_retired_term():
    found = [(path, re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)) for path in DOCUMENTS]
    found += [(path, text) for path in MODULES for text in texts(path)]
    assert len(found) > 5000
    assert [(path.relative_to(ROOT), wrong) for path, text in found for wrong in retired(text)] == []


def test_no_description_is_an_f_string_without_its_prefix():
    described = [*datasets.datasets(), *(one for table in datasets.tables() for one in (table, *table))]
    assert [one.description for one in described if "{" in one.description] == []


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
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node))
        if re.match(r"(What|Whether|How|Which|Where|Why|When|Whoever)\b", text)
    ]
    assert not found, "\n".join(found)
