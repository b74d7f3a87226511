"""The options of `wme sandbox` and `python -m resources.sandbox`, with a sentence for every value that cannot be used."""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast, get_args

from resources.sandbox.accounts.quotas import QuotaKind
from resources.sandbox.api.operations import EVERY_GROUP, FREE_GROUP
from resources.sandbox.settings import YEARS, Settings
from resources.sandbox.world import reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HIGHEST_PORT = 65_535
_ACCOUNT_NAME = re.compile(r"[\w.@+-]{1,255}")
#: Hours that the service keeps.
_KEPT_HOURS = 48


@dataclass(frozen=True)
class Account:
    """An account that the sandbox starts with."""

    name: str
    group: str
    temporary: bool


@dataclass(frozen=True)
class Quota:
    """How many downloads of a kind an account has."""

    name: str
    kind: QuotaKind
    limit: int


@dataclass(frozen=True)
class Options:
    """Everything that the command line says."""

    settings: Settings
    port: int
    object_port: int
    realtime_port: int
    idle: float | None
    owner: Path | None
    prepare: int
    snapshot_hour: int | None
    accounts: tuple[Account, ...]
    quotas: tuple[Quota, ...]
    admitted: tuple[tuple[str, str], ...]


class _Parser(argparse.ArgumentParser):
    """Ends a wrong call with one sentence and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong."""
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
        settings = settings_from(parsed)
    except ValueError as error:
        parser.error(str(error))
    return Options(
        settings=settings,
        port=parsed.port,
        object_port=parsed.object_port,
        realtime_port=parsed.realtime_port,
        idle=parsed.idle,
        owner=parsed.owner,
        prepare=parsed.prepare,
        snapshot_hour=parsed.snapshot_hour,
        accounts=(*parsed.account, *parsed.temporary),
        quotas=tuple(parsed.quota),
        admitted=tuple(parsed.admit),
    )


def settings_from(parsed: argparse.Namespace) -> Settings:
    """The settings that parsed arguments describe.

    Raises:
        ValueError: They describe none; the message says why.
    """
    return Settings(
        state=parsed.state,
        seed=parsed.seed,
        projects=parsed.projects,
        namespaces=parsed.namespaces,
        articles=parsed.articles,
        changes_per_hour=parsed.changes_per_hour,
        entities=parsed.entities,
        body_bytes=parsed.body_bytes,
        chunk_bytes=parsed.chunk_bytes,
        single_member=parsed.single_member,
        stream_rate=parsed.stream_rate,
        speed=parsed.speed,
        snapshot_hour=parsed.snapshot_hour or 0,
        now=parsed.now,
        overlap=parsed.overlap,
        source_2025=parsed.source_2025,
        corpus=parsed.corpus,
    )


def command_line(
    settings: Settings, *, idle_seconds: float | None = None, owner: Path | None = None, prepare: int = 0
) -> list[str]:
    """The arguments that serve these settings."""
    words = ["serve", "--state", str(settings.state.absolute()), "--seed", str(settings.seed)]
    words += ["--projects", ",".join(settings.projects), "--namespaces", ",".join(map(str, settings.namespaces))]
    words += ["--changes-per-hour", str(settings.changes_per_hour), "--body-bytes", str(settings.body_bytes)]
    words += ["--entities", str(settings.entities)]
    words += ["--chunk-bytes", str(settings.chunk_bytes), "--prepare", str(prepare)]
    words += ["--stream-rate", f"{settings.stream_rate:g}", "--speed", f"{settings.speed:g}"]
    if settings.snapshot_hour:
        words += ["--snapshot-hour", str(settings.snapshot_hour)]
    if settings.articles is not None:
        words += ["--articles", str(settings.articles)]
    if settings.now is not None:
        words += ["--now", settings.now.isoformat()]
    if not settings.overlap:
        words += ["--no-overlap"]
    if settings.single_member:
        words += ["--single-member"]
    if settings.source_2025:
        words += ["--source-2025"]
    if settings.corpus is not None:
        words += ["--corpus", str(settings.corpus.absolute())]
    if idle_seconds is not None:
        words += ["--idle", str(idle_seconds)]
    if owner is not None:
        words += ["--owner", str(owner.absolute())]
    return words


def add_arguments(parser: argparse.ArgumentParser, *, state: Path | None = None) -> None:
    """Declare the arguments; `state` is the default of `--state` (None: it must be given)."""
    add = parser.add_argument
    text = "folder for keys, accounts, archives and the outbox"
    text += "" if state is None else " (default: %(default)s)"
    add("--state", type=Path, default=state, required=state is None, help=text)
    ports = _whole(0, _HIGHEST_PORT)
    add("--port", type=ports, default=0, help="port of the service (default: a free one)")
    add("--object-port", type=ports, default=0, help="port of signed downloads (default: a free one)")
    add("--realtime-port", type=ports, default=0, help="port of the streams (default: a free one)")
    add("--idle", type=_seconds, metavar="SECONDS", help="stop after this long without a request (default: never)")
    add(
        "--owner",
        type=Path,
        metavar="FILE",
        help="stop when the process that held a lock on this file has ended (default: no file)",
    )
    add(
        "--prepare",
        type=_whole(0, _KEPT_HOURS),
        default=_KEPT_HOURS,
        metavar="HOURS",
        help="prepare this many hours, and the snapshots, before the sandbox is ready, so that listing them is quick; "
        "0: make each archive when it is first listed (default: %(default)s)",
    )

    world = parser.add_argument_group("the world")
    add = world.add_argument
    add("--seed", type=int, default=Settings.seed, help="seed of the world (default: %(default)s)")
    projects = ",".join(Settings.projects)
    add(
        "--projects",
        type=_projects,
        default=projects,
        help="projects that have articles, separated by commas (default: %(default)s)",
    )
    namespaces = ",".join(map(str, Settings.namespaces))
    add(
        "--namespaces",
        type=_namespaces,
        default=namespaces,
        help="namespaces that have articles (default: %(default)s)",
    )
    pages = "pages in namespace 0 of each project (default: about 5,000, fewer if there are few changes)"
    add("--articles", type=int, help=pages)
    add(
        "--changes-per-hour",
        type=int,
        default=Settings.changes_per_hour,
        help="events per hour and project in namespace 0 (default: %(default)s)",
    )
    add(
        "--entities",
        type=int,
        default=Settings.entities,
        help="items of Wikidata, beside some properties; 0: no Wikidata (default: %(default)s)",
    )
    add(
        "--body-bytes",
        type=int,
        default=Settings.body_bytes,
        help="mean size of HTML and wikitext together (default: %(default)s)",
    )
    chunk = "uncompressed size of a chunk of a snapshot (default: %(default)s)"
    add("--chunk-bytes", type=int, default=Settings.chunk_bytes, help=chunk)
    add(
        "--single-member",
        action="store_true",
        help="put a snapshot's lines into one member instead of one for every chunk",
    )
    add(
        "--now",
        type=_moment,
        help="stop the clock at this moment, for example 2026-11-20T05:00:00Z (default: real time)",
    )
    add(
        "--speed",
        type=_factor,
        default=Settings.speed,
        help="let the clock run so many times as fast as real time, from the first start on (default: %(default)g)",
    )
    add(
        "--snapshot-hour",
        type=_whole(0, 23),
        metavar="HOUR",
        help="hour of the day (UTC) in which snapshots are exported (default: three hours before the first start, so that the newest hours follow "
        "them; 0 where the clock is stopped)",
    )
    add(
        "--stream-rate",
        type=_factor,
        default=Settings.stream_rate,
        metavar="MESSAGES",
        help="messages a second on a stream of all parts; 0: no throttle (default: %(default)g)",
    )
    add(
        "--overlap",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let the hours overlap as the service's do",
    )
    add("--source-2025", action="store_true", help="behave like the service's public source of August 2025")
    add("--corpus", type=Path, help="take bodies from a folder of real records (NDJSON, plain or .gz)")

    accounts = parser.add_argument_group("accounts (also control requests, see docs/sandbox.md)")
    add = accounts.add_argument
    add(
        "--account",
        type=_account(temporary=False),
        action="append",
        default=[],
        metavar="NAME[:GROUP]",
        help=f"make an account in one of the groups {', '.join(EVERY_GROUP)} (default: {FREE_GROUP}); its name and password "
        "are written to accounts/NAME.json in the state folder",
    )
    add(
        "--temporary",
        type=_account(temporary=True),
        action="append",
        default=[],
        metavar="NAME[:GROUP]",
        help="the same with a temporary password: the first login is answered with NEW_PASSWORD_REQUIRED",
    )
    add(
        "--quota",
        type=_quota,
        action="append",
        default=[],
        metavar="NAME:KIND=LIMIT",
        help=f"limit an account's requests of a kind: {', '.join(get_args(QuotaKind))}",
    )
    add(
        "--admit",
        type=_admission,
        action="append",
        default=[],
        metavar="NETWORK[:GROUP]",
        help="admit requests from these addresses without a token, for example 127.0.0.0/8:group_2 (default: group_3)",
    )


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min  # noqa: DTZ901 - refused below like any other without a zone
    if moment.tzinfo is None or moment.astimezone(UTC).year not in YEARS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a moment with a time zone from {YEARS[0]} to {YEARS[-1]}; write it like 2026-11-20T05:00:00Z"
        )
    return moment


def _projects(text: str) -> tuple[str, ...]:
    names = _parts(text)
    for name in names:
        if name not in reference.PROJECTS:
            raise argparse.ArgumentTypeError(
                f"the sandbox knows no project {name!r}; {reference.nearest(name, list(reference.PROJECTS))}"
            )
    return names


def _namespaces(text: str) -> tuple[int, ...]:
    parts = _parts(text)
    for part in parts:
        if part not in map(str, reference.NAMESPACES):
            listed = ", ".join(map(str, reference.NAMESPACES))
            raise argparse.ArgumentTypeError(f"the service has no namespace {part!r}; it has {listed}")
    return tuple(map(int, parts))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _with_group(text: str, usual: str) -> tuple[str, str]:
    """The text before `:group_n`, and the group."""
    before, separator, number = text.rpartition(":group_")
    if not separator:
        return text, usual
    if f"group_{number}" not in EVERY_GROUP:
        raise argparse.ArgumentTypeError(f"there is no group 'group_{number}'; there are {', '.join(EVERY_GROUP)}")
    return before, f"group_{number}"


def _account(*, temporary: bool) -> Callable[[str], Account]:
    def read(text: str) -> Account:
        name, group = _with_group(text, FREE_GROUP)
        if not _ACCOUNT_NAME.fullmatch(name) or not name.strip("."):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not an account; write NAME or NAME:GROUP with a group of {', '.join(EVERY_GROUP)}"
            )
        return Account(name, group, temporary)

    return read


def _quota(text: str) -> Quota:
    match = re.fullmatch(r"(.+):(\w+)=([0-9]{1,9})", text)
    if match is None or match[2] not in get_args(QuotaKind):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a quota; write NAME:KIND=LIMIT with a kind of {', '.join(get_args(QuotaKind))}"
        )
    return Quota(match[1], cast("QuotaKind", match[2]), int(match[3]))


def _admission(text: str) -> tuple[str, str]:
    network, group = _with_group(text, EVERY_GROUP[-1])
    try:
        return str(ip_network(network)), group
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range of addresses; write, for example, 127.0.0.0/8 or ::1/128"
        ) from None
