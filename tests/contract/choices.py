"""The choices of the sandbox where the service's texts are silent or disagree (`resources/sandbox/data/choices.yaml`).

`make test-live` tries each statement that can be tried with the configured account's service and prints which of them
hold; `docs/assumptions.md` lists them.
"""

from dataclasses import dataclass

from resources.sandbox.files import read_yaml


@dataclass(frozen=True)
class Choice:
    """One statement about the service.

    Attributes:
        name: Name of its check.
        statement: The chosen behaviour.
        instead: Another behaviour that texts or code suggest.
        decided: Where the choice is made or explained.
        untried: The reason why no check can try it; empty: one does.
    """

    name: str
    statement: str
    instead: str
    decided: str
    untried: str = ""


CHOICES = tuple(Choice(name, **texts) for name, texts in read_yaml("choices.yaml").items())
