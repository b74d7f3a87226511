"""The container file, read as its builders do: its instructions, and what of the checkout it copies."""

import json
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "deploy" / "Containerfile"


class Instruction(NamedTuple):
    """An instruction, with its words as they are written."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its words; of the form in brackets, those in it."""
        start = self.text.find("[")
        return json.loads(self.text[start:]) if start >= 0 else self.text.split()


def instructions() -> list[Instruction]:
    """All instructions in their order, each on one line."""
    text = re.sub(r"^\s*#.*\n", "", PATH.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [Instruction(*line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def copied() -> list[str]:
    """The files and folders of the checkout that are copied into the stage that builds."""
    lines = (one.words for one in instructions() if one.name == "COPY" and "--from" not in one.text)
    return [source for *sources, _ in lines for source in sources]
