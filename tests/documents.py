"""The pages of documentation and their code blocks, as the tests of documents read them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Every page; one general rule applies to all of them.
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
#: Pages that explain: decisions report the past, and the changelog lists it.
GUIDES = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "decisions"]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """Yield the fenced blocks of a language, each with the number of its first line."""
    text = page.read_text()
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text[: found.start()].count("\n") + 2, found[1]


def statements(block: str) -> list[tuple[str, bool]]:
    """Split a block of SQL into statements, each with the promise that it returns rows.

    A comment with the words "no row" withdraws the promise; settings and temporary objects make none.
    """
    found = []
    for text, ending in re.findall(r"(.*?)(?:;(.*?)$|\Z)", block, re.DOTALL | re.MULTILINE):
        if code := re.sub(r"--.*", "", text).strip():
            prepares = code.startswith(("SET ", "CREATE TEMP "))
            found.append((text, not prepares and "no row" not in text + ending))
    return found


def commands(program: str) -> list[list[str]]:
    """Return the arguments of each call of a program in the guides' shell blocks, also behind a pipe."""
    found = []
    for page in GUIDES:
        for _, block in blocks(page, "sh"):
            for line in block.splitlines():
                for part in re.split(r"\s\|\s", line):
                    words = shlex.split(part, comments=True)
                    if words[:1] == [program]:
                        end = next((n for n, word in enumerate(words) if word[0] in "<>"), None)
                        found.append(words[1:end])
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
