"""Rules for texts: terms that are retired, and errors inside the messages of other errors."""

import ast
import re
import tokenize
from functools import cache
from pathlib import Path

import duckdb
import pytest

from resources import datasets, files
from resources.errors import MirrorError, clause
from resources.lake.errors import LakeError
from resources.lake.parquet import compaction as rewriting

ROOT = Path(__file__).resolve().parents[2]
#: Retired terms, as regular expressions, each with what is said instead.
RETIRED = dict(line.split(" => ") for line in Path(__file__).with_name("retired_terms.txt").read_text().splitlines())
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
    assert [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in names(path)
        if RETIRED_NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    ] == []


def test_docstrings_begin_with_a_verb_or_a_noun():
    assert [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node))
        if re.match(r"(What|Whether|How|Which|Where|Why|When|Whoever)\b", text)
    ] == []


# --- an error inside the message of another one: a clause, never a sentence with its own advice and full stop ---------


def caught(tree):
    """The names of errors: of handlers, and of parameters that are declared as exceptions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.arg) and ast.unparse(node.annotation or node).endswith(("Exception", "Error")):
            yield node.arg


def embedded(path):
    """Each error of a module that stands before a full stop, a comma or a bracket of an f-string as it is."""
    tree = ast.parse(path.read_text())
    names = {form for name in caught(tree) for form in (name, f"str({name})", f"{name}.what", f"{name}.message")}
    for text in ast.walk(tree):
        if isinstance(text, ast.JoinedStr):
            for value, behind in zip(text.values, text.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and ast.unparse(value.value) in names:
                    literal = behind.value if isinstance(behind, ast.Constant) else ""
                    if literal.startswith((".", ",", ";", ":", ")")):
                        yield f"{path.relative_to(ROOT)}:{text.lineno} {ast.unparse(value.value)}"


def test_no_message_has_an_error_in_its_middle_but_as_a_clause():
    assert [found for path in MODULES for found in embedded(path)] == []


CANNOT_OPEN = 'IO Error: Cannot open file "a.parquet": No such file'


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MirrorError("The file is damaged. Remove it and run this again."), "The file is damaged"),
        (files.UnusableFileError("A folder. Move it away.", "It is a folder."), "It is a folder"),
        (OSError(28, "No space left on device", "/data/x"), "No space left on device: /data/x"),
        (OSError("[Errno 5] of pyarrow. Detail"), "[Errno 5] of pyarrow"),
        (ValueError("it holds 3.5 rows\nin two lines."), "it holds 3.5 rows"),
        (ValueError(), "ValueError"),
        (duckdb.IOException(CANNOT_OPEN), CANNOT_OPEN),
    ],
)
def test_a_clause_is_what_an_error_says_first(error, said):
    assert clause(error) == said


def test_a_folder_in_the_place_of_a_lake_file_is_named_in_whole_sentences(tmp_path, monkeypatch):
    monkeypatch.setattr(rewriting, "is_damage", lambda _: False)
    with pytest.raises(LakeError) as told, rewriting._reading("a.parquet"):
        files.read(tmp_path)
    assert str(told.value) == (
        f"The lake file a.parquet cannot currently be read: {tmp_path} is a folder, but a regular file is expected. "
        "The file was not compacted; nothing was changed."
    )
