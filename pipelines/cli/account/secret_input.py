"""How passwords and codes reach a command: from a variable, from standard input, or from a terminal that does not show them.

Never from an argument: the shell's history keeps those, and every user of the machine sees them in the process list.
"""

from __future__ import annotations

import os
import sys

import click

#: The variables, beside WME_PASSWORD, which is a setting.
NEW_PASSWORD, CODE = "WME_NEW_PASSWORD", "WME_CODE"
#: Characters of a line that is read; the service takes 2,048 of a code and 256 of a password.
_LONGEST = 4_096

from_stdin = click.option(
    "--password-stdin",
    "stdin",
    is_flag=True,
    help="Read passwords and codes that no variable has from standard input, one per line, in the order of the prompts.",
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
                f"`{ctx.command_path}` takes no argument. A password or code in an argument would be kept by the shell's history and "
                "shown in the process list; use a variable, --password-stdin or the prompt, and change the password if it was typed here.",
                ctx,
            ) from None


def secret(what: str, variable: str, *, stdin: bool, again: bool = False) -> str:
    """One password or code.

    Args:
        what: Its name for people, for example "new password".
        variable: Variable of the environment that may hold it.
        stdin: Read it from standard input where that does not.
        again: On a terminal, have it typed twice.

    Raises:
        UsageError: It is nowhere, and there is no terminal to ask at.
    """
    if given := os.environ.get(variable, ""):
        return given
    if stdin:
        line = sys.stdin.readline(_LONGEST).rstrip("\r\n")
        if not line:
            raise click.UsageError(
                f"Standard input has no line with the {what}. Nothing was sent. Write one, or set {variable}."
            )
        return line
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"The {what} is needed, and there is no terminal to ask at. Nothing was sent. Set {variable}, or pass --password-stdin and "
            "write it to standard input."
        )
    answer: str = click.prompt(
        what.capitalize(), hide_input=True, confirmation_prompt=f"Repeat the {what}" if again else False, err=True
    )
    return answer
