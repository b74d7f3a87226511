"""Passwords and codes from a variable, from standard input, or from a terminal that does not show them.

Never from an argument: the shell's history keeps those, and every user of the machine sees them in the process list.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import click

from pipelines.cli import terminal

#: Characters of a line that is read; the service takes 2,048 of a code and 256 of a password.
_LONGEST = 4_096


class Wanted(NamedTuple):
    """A secret that a command needs.

    Attributes:
        name: Its name for people.
        variable: Variable of the environment that may hold it.
        is_new: On a terminal, it is typed twice.
    """

    name: str
    variable: str
    is_new: bool = False


PASSWORD = Wanted("password", "WME_PASSWORD")
NEW_PASSWORD = Wanted("new password", "WME_NEW_PASSWORD", is_new=True)
CODE = Wanted("confirmation code", "WME_CODE")

from_stdin = click.option(
    "--password-stdin",
    "stdin",
    is_flag=True,
    help="Read the passwords and codes that no variable has from standard input: exactly one per line, in the order "
    "of the prompts.",
)


class Unargued(click.Command):
    """A command without arguments, which repeats none that it is given: it may be a password."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError:
            raise click.UsageError(
                f"`{ctx.command_path}` takes no argument. A password or code in an argument would be kept by the "
                "shell's history and shown in the process list; use a variable, --password-stdin or the prompt, and "
                "change the password if it was typed here.",
                ctx,
            ) from None


def secrets(*wanted: Wanted, stdin: bool) -> list[str]:
    """Passwords and codes in the order of their prompts, before anything is sent.

    Args:
        wanted: The secrets that a command needs.
        stdin: Read those that no variable has from standard input: exactly one line for each.

    Raises:
        UsageError: A secret is missing and there is no terminal, or standard input has another number of lines.
    """
    found = [os.environ.get(one.variable, "") for one in wanted]
    if stdin:
        open_places = [place for place, value in enumerate(found) if not value]
        for place, line in zip(open_places, _lines([wanted[place] for place in open_places]), strict=True):
            found[place] = line
    return [value or _typed(one) for one, value in zip(wanted, found, strict=True)]


def _lines(wanted: list[Wanted]) -> list[str]:
    """Lines of standard input, one for each secret; at a terminal, no more are read than that."""
    text = terminal.read(_LONGEST * (len(wanted) + 1), line_count=len(wanted))
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        del lines[-1]
    for place, one in enumerate(wanted):
        if not "".join(lines[place : place + 1]):
            raise click.UsageError(
                f"Standard input has no line with the {one.name}. Nothing was sent. Write one, or set {one.variable}."
            )
    if len(lines) > len(wanted):
        names = " and ".join(f"the {one.name}" for one in wanted) or "no secret"
        raise click.UsageError(
            f"Standard input has more lines than are needed: {names} must come from it. Variables (WME_PASSWORD, "
            "WME_NEW_PASSWORD, WME_CODE) or a stored login provide the rest. Nothing was sent. Remove the other "
            "lines, or unset the variable that is not meant."
        )
    return lines


def _typed(wanted: Wanted) -> str:
    """Ask at the terminal, which does not show the answer."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"The {wanted.name} is needed, and there is no terminal to ask at. Nothing was sent. Set "
            f"{wanted.variable}, or pass --password-stdin and write it to standard input."
        )
    answer: str = click.prompt(
        wanted.name.capitalize(),
        hide_input=True,
        confirmation_prompt=f"Repeat the {wanted.name}" if wanted.is_new else False,
        err=True,
    )
    return answer
