"""The settings of a sandbox: its world, its clock, its ports, its accounts, and where it keeps its state.

Each is declared here once; `options` derives command line flags and their help. The sandbox reads no environment
variables for them.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    DirectoryPath,
    Field,
)

#: Years of the sandbox's clock: before the first the numbers of revisions would be negative, after the last beyond 32
#: bits.
YEARS = range(2021, 2041)
FREE_GROUP = "group_1"
EVERY_GROUP = (FREE_GROUP, "group_2", "group_3")
PAID_GROUPS = ("group_2", "group_3")
#: The group that may do everything.
TOP_GROUP = EVERY_GROUP[-1]
QuotaKind = Literal["ondemand", "snapshot", "chunk", "batch"]

#: Bytes read at either end of a corpus file for its digest: names, sizes and ends distinguish corpora without reading
#: gigabytes at every start.
_PROBE_BYTES = 65_536
#: Page numbers of more would meet those of new pages.
_MOST_ARTICLES = 400_000
#: The events of an hour are held in memory while its archives are made.
_MOST_CHANGES = 100_000
#: A day in four minutes: faster than that the archives of an hour are not made in time.
_MOST_SPEED = 360


#: Hours that the service keeps.
KEPT_HOURS = 48
_ACCOUNT_NAME = re.compile(r"[\w.@+-]{1,255}")


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


def _split(value: Any) -> Any:
    """The parts of a text, each once; any other value as it is."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def check_year(moment: datetime) -> datetime:
    """Return the moment in UTC."""
    if moment.astimezone(UTC).year not in YEARS:
        raise ValueError(f"the world has the years {YEARS[0]} to {YEARS[-1]}, not {moment.year}")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(check_year)]


class Settings(BaseModel):
    """Everything that decides what a sandbox answers, and how it runs. Equal worlds are byte-identical."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    state: Path = Field(description="folder for keys, accounts, archives and the outbox")
    seed: int = Field(default=1, description="seed of the world")
    projects: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=("enwiki", "frwiki", "simplewiki"),
        min_length=1,
        description="projects (database names) that have articles, separated by commas; the reference lists have more",
    )
    namespaces: Annotated[tuple[int, ...], BeforeValidator(_split)] = Field(
        default=(0, 10, 14), min_length=1, description="namespaces that have articles"
    )
    articles: int | None = Field(
        default=None,
        ge=1,
        le=_MOST_ARTICLES,
        description="pages in namespace 0 of each project, never so few that the changes could not be made on them "
        "(default: about 5,000, fewer if there are few changes)",
    )
    changes_per_hour: int = Field(
        default=2200,
        ge=1,
        le=_MOST_CHANGES,
        description="events per hour and project in namespace 0; the other namespaces have a few per cent of it",
    )
    entities: int = Field(
        default=400, ge=0, le=_MOST_ARTICLES, description="items of Wikidata, next to some properties; 0: no Wikidata"
    )
    now: Moment | None = Field(
        default=None, description="stop the clock at this moment, for example 2026-11-20T05:00:00Z (default: real time)"
    )
    overlap: bool = Field(default=True, description="let the hours overlap as the service's do")
    corpus: DirectoryPath | None = Field(
        default=None, description="take page text from a folder of real records (NDJSON, plain or .gz)"
    )
    body_bytes: int = Field(default=6000, ge=1, description="mean size of HTML and wikitext together")
    chunk_bytes: int = Field(default=8_000_000, ge=1, description="uncompressed size of a chunk of a snapshot")
    stream_rate: float = Field(
        default=50.0, ge=0, description="messages a second on a stream of all parts; 0: no throttle"
    )
    speed: float = Field(
        default=1.0,
        gt=0,
        le=_MOST_SPEED,
        description="let the clock run this much faster than real time, from the first start on",
    )
    snapshot_hour: int = Field(
        default=0,
        ge=0,
        le=23,
        description="hour of the day (UTC) in which snapshots are exported (default: three hours before the first "
        "start, so that the newest hours follow them; 0 where the clock is stopped)",
    )
    single_member: bool = Field(
        default=False, description="put a snapshot's lines into one member instead of one for every chunk"
    )

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
        default=0,
        ge=0,
        le=KEPT_HOURS,
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

    @cached_property
    def corpus_digest(self) -> str | None:
        """Digest (16 hex digits) of the corpus by names, sizes and ends of its files; None without a corpus."""
        if self.corpus is None:
            return None
        digest = hashlib.sha256()
        for path in sorted(p for p in self.corpus.rglob("*") if p.is_file()):
            size = path.stat().st_size
            digest.update(f"{path.relative_to(self.corpus).as_posix()}\0{size}\0".encode())
            with path.open("rb") as file:
                digest.update(file.read(_PROBE_BYTES))
                file.seek(max(0, size - _PROBE_BYTES))
                digest.update(file.read(_PROBE_BYTES))
        return digest.hexdigest()[:16]

    @cached_property
    def identity(self) -> str:
        """Origin of the sandbox's data: `sandbox-<seed>-<digest of everything else that shapes the world>`.

        Neither the address, nor the state folder, nor the clock, nor the hour of snapshots, nor the pace of streams is
        part of it.
        """
        shape = json.dumps(
            [
                self.projects,
                self.namespaces,
                self.articles,
                self.changes_per_hour,
                self.entities,
                self.overlap,
                False,  # a mode that is gone: without its place, data folders would refuse the sandbox they came from
                self.body_bytes,
                self.chunk_bytes,
                self.single_member,
                self.corpus_digest,
            ]
        )
        return f"sandbox-{self.seed}-{hashlib.sha256(shape.encode()).hexdigest()[:12]}"
