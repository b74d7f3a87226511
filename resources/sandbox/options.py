"""The options of `wme sandbox` and `python -m resources.sandbox`, derived from their declarations."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, cast, get_args

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from resources.sandbox.settings import EVERY_GROUP, FREE_GROUP, TOP_GROUP, QuotaKind, Settings
from resources.sandbox.world import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

_ACCOUNT_NAME = re.compile(r"[\w.@+-]{1,255}")
#: Hours that the service keeps.
_KEPT_HOURS = 48
_ACCOUNTS = "accounts (also control requests, see docs/sandbox.md)"
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


class Account(NamedTuple):
    """An account that the sandbox starts with."""

    name: str
    group: str


class Quota(NamedTuple):
    """A limit of an account's requests of a kind."""

    name: str
    kind: QuotaKind
    limit: int


class Admission(NamedTuple):
    """Addresses that need no token."""

    network: str
    group: str


def _with_group(text: str, usual: str) -> tuple[str, str]:
    """The text before `:group_n`, and the group."""
    before, separator, number = text.rpartition(":group_")
    if not separator:
        return text, usual
    if f"group_{number}" not in EVERY_GROUP:
        raise ValueError(f"there is no group 'group_{number}'; there are {', '.join(EVERY_GROUP)}")
    return before, f"group_{number}"


def _account(text: str) -> Account:
    name, group = _with_group(text, FREE_GROUP)
    if not _ACCOUNT_NAME.fullmatch(name) or not name.strip("."):
        groups = ", ".join(EVERY_GROUP)
        raise ValueError(f"{text!r} is not an account; write NAME or NAME:GROUP with a group of {groups}")
    return Account(name, group)


def _quota(text: str) -> Quota:
    match, kinds = re.fullmatch(r"(.+):(\w+)=([0-9]{1,9})", text), get_args(QuotaKind)
    if match is None or match[2] not in kinds:
        raise ValueError(f"{text!r} is not a quota; write NAME:KIND=LIMIT with a kind of {', '.join(kinds)}")
    return Quota(match[1], cast("QuotaKind", match[2]), int(match[3]))


def _admission(text: str) -> Admission:
    network, group = _with_group(text, TOP_GROUP)
    try:
        return Admission(str(ip_network(network)), group)
    except ValueError:
        raise ValueError(f"{text!r} is not a range of addresses; write, for example, 127.0.0.0/8 or ::1/128") from None


_Port = Annotated[int, Field(ge=0, le=65_535)]
_Account = Annotated[Account, BeforeValidator(_account)]


class Options(Settings):
    """Everything that the command line says."""

    port: _Port = Field(default=0, description="port of the service (default: a free one)")
    object_port: _Port = Field(default=0, description="port of signed downloads (default: a free one)")
    realtime_port: _Port = Field(default=0, description="port of the streams (default: a free one)")
    idle: float | None = Field(
        default=None, gt=0, description="stop after this long without a request (default: never)"
    )
    owner: Path | None = Field(
        default=None, description="stop when the process that held a lock on this file has ended (default: no file)"
    )
    prepare: int = Field(
        default=_KEPT_HOURS,
        ge=0,
        le=_KEPT_HOURS,
        description="prepare this many hours, and the snapshots, before the sandbox is ready, so that listing them is "
        "quick; 0: make each archive when it is first listed",
    )
    account: tuple[_Account, ...] = Field(
        default=(),
        description=f"make an account in one of the groups {', '.join(EVERY_GROUP)} (default: {FREE_GROUP}); its name "
        "and password are written to accounts/NAME.json in the state folder",
    )
    temporary: tuple[_Account, ...] = Field(
        default=(),
        description="the same with a temporary password: the first login is answered with NEW_PASSWORD_REQUIRED",
    )
    quota: tuple[Annotated[Quota, BeforeValidator(_quota)], ...] = Field(
        default=(), description=f"limit an account's requests of a kind: {', '.join(get_args(QuotaKind))}"
    )
    admit: tuple[Annotated[Admission, BeforeValidator(_admission)], ...] = Field(
        default=(),
        description="admit requests from these addresses without a token, for example 127.0.0.0/8:group_2 "
        f"(default: {TOP_GROUP})",
    )

    @field_validator("projects")
    @classmethod
    def _projects_are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            reference.project(name)
        return names

    @field_validator("namespaces")
    @classmethod
    def _namespaces_are_served(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        for number in numbers:
            if number not in reference.NAMESPACES:
                there = ", ".join(map(str, reference.NAMESPACES))
                raise ValueError(f"the service has no namespace {number}; it has {there}")
        return numbers


class _Parser(argparse.ArgumentParser):
    """Ends a wrong call with one sentence and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Print the error."""
        message = re.sub(r"^argument (\S+): ", r"\1: ", message)
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            known = [name for action in self._actions for name in action.option_strings]
            message = f"There is no option {unknown[1]}; {reference.nearest(unknown[1], known)}"
            if not unknown[1].startswith("--"):
                message = f"{unknown[1]!r} is not an option; {self.prog} --help lists them"
        ending = "" if message.endswith(("?", ".")) else "."
        self.exit(2, f"{message[0].upper()}{message[1:]}{ending}\n")


def parse(words: Sequence[str] | None, *, called: str, state: Path | None = None) -> Options:
    """Parse a command line.

    Args:
        words: Arguments; default: this process's own. A leading `serve` is left out.
        called: Command that the help names.
        state: Default of `--state`; None: it must be given.

    Raises:
        SystemExit: Help was asked for (0), or something is wrong (2); a sentence was printed.
    """
    parser = _Parser(
        prog=called, description="Serve a local content service in the foreground until it is stopped (Ctrl-C)."
    )
    add_arguments(parser, state=state)
    given = list(sys.argv[1:] if words is None else words)
    parsed = parser.parse_args(given[1:] if given[:1] == ["serve"] else given)
    try:
        return Options.model_validate(vars(parsed))
    except ValidationError as error:
        parser.error(_sentence(error))


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    if "error" in first.get("ctx", {}):
        said = str(first["ctx"]["error"])
    else:
        said = f"{first['msg'][0].lower()}{first['msg'][1:]}; it is {first['input']!r}"
    return f"{_flag(str(first['loc'][0]))}: {said}"


def add_arguments(parser: argparse.ArgumentParser, *, state: Path | None = None) -> None:
    """Declare the arguments; `state` is the default of `--state` (None: it must be given)."""
    world, accounts = parser.add_argument_group("the world"), parser.add_argument_group(_ACCOUNTS)
    for name, field in Options.model_fields.items():
        more: dict[str, Any] = {"default": argparse.SUPPRESS, "metavar": _METAVARS.get(name)}
        default, text = field.default, field.description or ""
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
        is_world = name in Settings.model_fields and name != "state"
        group = world if is_world else accounts if default == () else parser
        group.add_argument(_flag(name), help=text, **more)


def command_line(
    settings: Settings, *, idle_seconds: float | None = None, owner: Path | None = None, prepare: int = 0
) -> list[str]:
    """Return the arguments that serve these settings."""
    words = ["serve"]
    given = {name: getattr(settings, name) for name in Settings.model_fields}
    for name, value in {**given, "idle": idle_seconds, "owner": owner, "prepare": prepare}.items():
        if value == Options.model_fields[name].default:
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
