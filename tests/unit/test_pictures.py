"""The pictures of the documentation are small, and as fresh as what they show."""

import runpy
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
DRAW = runpy.run_path(str(FOLDER / "draw.py"))


def test_the_diagram_is_as_drawn():
    assert (FOLDER / "architecture.svg").read_text() == DRAW["architecture"](), "`make docs` draws it again"


def test_pictures_have_at_most_200_kb():
    pictures = [path for path in FOLDER.iterdir() if path.suffix in {".svg", ".png"}]
    assert {path.name for path in pictures} == {"architecture.svg", "report.png"}
    assert all(path.stat().st_size <= 200_000 for path in pictures)


def test_the_text_of_a_picture_is_found_again():
    png = DRAW["with_text"]((FOLDER / "report.png").read_bytes(), "author", "nobody")
    assert b"author\0nobody" in png
    assert png.startswith(b"\x89PNG")
