"""Settings of a sandbox: world, clock, ports, accounts and state folder.

`options` derives the command line flags and their help from these declarations. There are no environment variables for
them.
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

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, DirectoryPath, Field

#: Years of the sandbox's clock: revision numbers would be negative before the first and exceed 32 bits after the last.
YEARS = range(2021, 2041)
FREE_GROUP = "group_1"
EVERY_GROUP = (FREE_GROUP, "group_2", "group_3")
PAID_GROUPS = ("group_2", "group_3")
#: Group with all permissions.
TOP_GROUP = EVERY_GROUP[-1]
QuotaKind = Literal["ondemand", "snapshot", "chunk", "batch"]

#: Bytes read at both ends of a corpus file for its digest: names, sizes and ends identify a corpus without reading
#: gigabytes at every start.
_PROBE_BYTES = 65_536
#: More pages would have the same numbers as new pages.
_MOST_ARTICLES = 400_000
#: The events of an hour are held in memory while its archives are built.
_MOST_CHANGES = 100_000
#: One day in four minutes: at a higher speed, the archives of an hour would not be ready in time.
_MOST_SPEED = 360

#: Number of hours that the service retains.
KEPT_HOURS = 48
_ACCOUNT_NAME = re.compile(r"[\w.@+-]{1,255}")


class Account(NamedTuple):
    """Account to create at the start."""

    name: str
    group: str


class Quota(NamedTuple):
    """Limit of an account's requests of one kind."""

    name: str
    kind: QuotaKind
    limit: int


class Admission(NamedTuple):
    """Address range that needs no token."""

    network: str
    group: str


def _with_group(text: str, usual: str) -> tuple[str, str]:
    """Split `TEXT:group_n` into text and group; the group defaults to `usual`."""
    before, separator, number = text.rpartition(":group_")
    if not separator:
        return text, usual
    if f"group_{number}" not in EVERY_GROUP:
        raise ValueError(f"there is no group 'group_{number}'; the groups are {', '.join(EVERY_GROUP)}")
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
        raise ValueError(f"{text!r} is not an address range; write, for example, 127.0.0.0/8 or ::1/128") from None


_Port = Annotated[int, Field(ge=0, le=65_535)]
_Account = Annotated[Account, BeforeValidator(_account)]


def _split(value: Any) -> Any:
    """Split a comma-separated text into its unique parts; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def check_year(moment: datetime) -> datetime:
    """Return the moment in UTC; raises ValueError if its year is outside `YEARS`."""
    if moment.astimezone(UTC).year not in YEARS:
        raise ValueError(f"the year must be between {YEARS[0]} and {YEARS[-1]}, not {moment.year}")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(check_year)]


class Settings(BaseModel):
    """Settings of a sandbox. Equal settings give byte-identical worlds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    state: Path = Field(description="folder for keys, accounts, archives and the outbox")
    seed: int = Field(default=1, description="seed of the world")
    projects: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=("enwiki", "frwiki", "simplewiki"),
        min_length=1,
        description="projects (database names) with articles, separated by commas; the reference lists contain more",
    )
    namespaces: Annotated[tuple[int, ...], BeforeValidator(_split)] = Field(
        default=(0, 10, 14), min_length=1, description="namespaces with articles, separated by commas"
    )
    articles: int | None = Field(
        default=None,
        ge=1,
        le=_MOST_ARTICLES,
        description="pages in namespace 0 of each project; raised if the changes need more "
        "(default: about 5,000, fewer if there are few changes)",
    )
    changes_per_hour: int = Field(
        default=2200,
        ge=1,
        le=_MOST_CHANGES,
        description="events per hour and project in namespace 0; each other namespace has a few percent of that",
    )
    entities: int = Field(
        default=400, ge=0, le=_MOST_ARTICLES, description="Wikidata items, in addition to 36 properties; 0: no Wikidata"
    )
    now: Moment | None = Field(
        default=None, description="stop the clock at this moment, for example 2026-11-20T05:00:00Z (default: real time)"
    )
    overlap: bool = Field(default=True, description="let consecutive hourly batches overlap, like those of the service")
    corpus: DirectoryPath | None = Field(
        default=None, description="use page text from a folder of real records (NDJSON, plain or .gz)"
    )
    body_bytes: int = Field(default=6000, ge=1, description="mean total size of a page's HTML and wikitext, in bytes")
    chunk_bytes: int = Field(default=8_000_000, ge=1, description="uncompressed size of a snapshot's chunk, in bytes")
    stream_rate: float = Field(
        default=50.0, ge=0, description="messages per second on a stream of all parts; 0: no limit"
    )
    speed: float = Field(
        default=1.0,
        gt=0,
        le=_MOST_SPEED,
        description="run the clock this many times as fast as real time, counted from the first start",
    )
    snapshot_hour: int = Field(
        default=0,
        ge=0,
        le=23,
        description="hour of the day (UTC) in which snapshots are exported (default: three hours before the first "
        "start, so that newer hourly batches exist; 0 with a stopped clock)",
    )
    single_member: bool = Field(
        default=False, description="write a snapshot's lines to one member instead of one member per chunk"
    )

    port: _Port = Field(default=0, description="port of the service (default: a free one)")
    object_port: _Port = Field(default=0, description="port of signed downloads (default: a free one)")
    realtime_port: _Port = Field(default=0, description="port of the streams (default: a free one)")
    idle: float | None = Field(
        default=None, gt=0, description="stop after this many seconds without a request (default: never)"
    )
    owner: Path | None = Field(
        default=None, description="stop when the process that held a lock on this file has ended (default: no file)"
    )
    prepare: int = Field(
        default=0,
        ge=0,
        le=KEPT_HOURS,
        description="prepare this many hours, and the snapshots, before the sandbox is ready, so that listings are "
        "fast; 0: build each archive when it is first listed",
    )
    account: tuple[_Account, ...] = Field(
        default=(),
        description=f"create an account in one of the groups {', '.join(EVERY_GROUP)} (default: {FREE_GROUP}); its "
        "name and password are written to accounts/NAME.json in the state folder",
    )
    temporary: tuple[_Account, ...] = Field(
        default=(),
        description="create an account with a temporary password; its first login returns NEW_PASSWORD_REQUIRED",
    )
    quota: tuple[Annotated[Quota, BeforeValidator(_quota)], ...] = Field(
        default=(), description=f"limit an account's requests of one kind: {', '.join(get_args(QuotaKind))}"
    )
    admit: tuple[Annotated[Admission, BeforeValidator(_admission)], ...] = Field(
        default=(),
        description="admit requests from these addresses without a token, for example 127.0.0.0/8:group_2 "
        f"(default: {TOP_GROUP})",
    )

    @cached_property
    def corpus_digest(self) -> str | None:
        """Return a digest (16 hex digits) of the names, sizes and ends of the corpus files; None without a corpus."""
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
        """Return the origin of the sandbox's data: `sandbox-<seed>-<digest of the other settings of the world>`.

        The digest does not depend on the ports, the state folder, the clock, the snapshot hour or the stream rate.
        """
        shape = json.dumps(
            [
                self.projects,
                self.namespaces,
                self.articles,
                self.changes_per_hour,
                self.entities,
                self.overlap,
                False,  # a removed setting: without it, existing data folders would reject their sandbox
                self.body_bytes,
                self.chunk_bytes,
                self.single_member,
                self.corpus_digest,
            ]
        )
        return f"sandbox-{self.seed}-{hashlib.sha256(shape.encode()).hexdigest()[:12]}"
