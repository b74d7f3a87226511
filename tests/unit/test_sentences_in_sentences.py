"""An error inside the message of another one: a clause, never a sentence with its own advice and full stop."""

import ast
from pathlib import Path

import duckdb
import pytest

from resources import files
from resources.errors import MirrorError, clause
from resources.lake.errors import LakeError
from resources.lake.parquet import compaction as rewriting

ROOT = Path(__file__).resolve().parents[2]
#: The sandbox shares no code with the rest.
MODULES = [
    path
    for folder in ("pipelines", "assets", "resources")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "sandbox" not in path.parts
]


def caught(tree):
    """The names of errors: of handlers, and of parameters that are declared as exceptions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif (
            isinstance(node, ast.arg)
            and node.annotation
            and ast.unparse(node.annotation).endswith(("Exception", "Error"))
        ):
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MirrorError("The file is damaged. Remove it and run this again."), "The file is damaged"),
        (files.UnusableFileError("A folder. Move it away.", "It is a folder."), "It is a folder"),
        (OSError(28, "No space left on device", "/data/x"), "No space left on device: /data/x"),
        (OSError("[Errno 5] of pyarrow. Detail"), "[Errno 5] of pyarrow"),
        (ValueError("it holds 3.5 rows\nin two lines."), "it holds 3.5 rows"),
        (ValueError(), "ValueError"),
        (
            duckdb.IOException('IO Error: Cannot open file "a.parquet": No such file'),
            'IO Error: Cannot open file "a.parquet": No such file',
        ),
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
