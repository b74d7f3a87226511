"""Command line options of `wme sandbox` and `python -m resources.sandbox`, derived from the settings."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from resources.sandbox.settings import KEPT_HOURS, Settings
from resources.sandbox.world import reference

_ACCOUNTS = "accounts (docs/sandbox.md describes control requests for accounts)"
_METAVARS = {
    "idle": "SECONDS",
    "owner": "FILE",
    "prepare": "HOURS",
    "snapshot_hour": "HOUR",
    "stream_rate": "MESSAGES",
    "account": "NAME[:GROUP]",
    "temporary": "NAME[:GROUP]",
    "quota": "NAME:KIND=LIMIT",
    "admit": "NETWORK[:GROUP]",
}
#: Names of the settings that belong to the process and not to the world or the accounts.
_PROCESS = ("state", "port", "object_port", "realtime_port", "idle", "owner", "prepare")
#: Command line defaults that differ from the defaults in `Settings`.
_DEFAULTS = {"prepare": KEPT_HOURS}


class _Parser(argparse.ArgumentParser):
    """Argument parser that prints an error as one sentence and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): ", r"\1: ", message)
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            known = [name for action in self._actions for name in action.option_strings]
            message = f"There is no option {unknown[1]}; {reference.nearest(unknown[1], known)}"
            if not unknown[1].startswith("--"):
                message = f"{unknown[1]!r} is not an option. Run `{self.prog} --help` to list the options"
        ending = "" if message.endswith(("?", ".")) else "."
        self.exit(2, f"{message[0].upper()}{message[1:]}{ending}\n")


def parse(words: Sequence[str] | None, *, called: str, state: Path | None = None) -> Settings:
    """Parse `words`, or the arguments of this process if `words` is None.

    Raises:
        SystemExit: Help was requested (status 0) or an argument is invalid (status 2). A message was printed.
    """
    parser = _Parser(
        prog=called, description="Run a local content service in the foreground. Press Ctrl-C to stop the service."
    )
    add_arguments(parser, state=state)
    given = list(sys.argv[1:] if words is None else words)
    parsed = parser.parse_args(given[1:] if given[:1] == ["serve"] else given)
    try:
        settings = Settings.model_validate(_DEFAULTS | vars(parsed))
    except ValidationError as error:
        parser.error(_sentence(error))
    try:
        for name in settings.projects:
            reference.project(name)
    except ValueError as error:
        parser.error(f"--projects: {error}")
    for number in settings.namespaces:
        if number not in reference.NAMESPACES:
            there = ", ".join(map(str, reference.NAMESPACES))
            parser.error(f"--namespaces: the service does not have namespace {number}; use one of {there}")
    return settings


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    if "error" in first.get("ctx", {}):
        said = str(first["ctx"]["error"])
    else:
        said = f"{first['msg'][0].lower()}{first['msg'][1:]}; the value is {first['input']!r}"
    return f"{_flag(str(first['loc'][0]))}: {said}"


def add_arguments(parser: argparse.ArgumentParser, *, state: Path | None = None) -> None:
    """Declare the arguments. `state` is the default for `--state`; if `state` is None, `--state` is required."""
    world, accounts = parser.add_argument_group("the world"), parser.add_argument_group(_ACCOUNTS)
    for name, field in Settings.model_fields.items():
        more: dict[str, Any] = {"default": argparse.SUPPRESS, "metavar": _METAVARS.get(name)}
        default, text = _DEFAULTS.get(name, field.default), field.description or ""
        if name == "state":
            default = state
            more = {"default": state, "required": state is None}
        elif default is True:
            more = {"default": argparse.SUPPRESS, "action": argparse.BooleanOptionalAction}
        elif default is False:
            more = {"default": argparse.SUPPRESS, "action": "store_true"}
        elif default == ():
            more["action"] = "append"
        if not isinstance(default, bool) and default not in (None, ()) and "(default:" not in text:
            text += f" (default: {_text(default)})"
        group = parser if name in _PROCESS else accounts if default == () else world
        group.add_argument(_flag(name), help=text, **more)


def command_line(settings: Settings) -> list[str]:
    """Return the arguments for these settings, except the accounts, quotas and admissions, which the state stores."""
    words = ["serve"]
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        if field.default == () or value == _DEFAULTS.get(name, field.default):
            continue
        if isinstance(value, bool):
            words.append(_flag(name) if value else _flag(f"no_{name}"))
        else:
            words += [_flag(name), _text(value.absolute() if isinstance(value, Path) else value)]
    return words


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:g}" if isinstance(value, float) else str(value)
