"""Settings for the sandbox's world, clock, ports, accounts and state folder.

`options` derives the command line flags and their help from these declarations. Environment variables cannot change
these settings.
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

#: Valid years. Revision numbers would be negative before the first year and exceed 32 bits after the last year.
YEARS = range(2021, 2041)
FREE_GROUP = "group_1"
EVERY_GROUP = (FREE_GROUP, "group_2", "group_3")
PAID_GROUPS = ("group_2", "group_3")
#: Group with all permissions.
TOP_GROUP = EVERY_GROUP[-1]
QuotaKind = Literal["ondemand", "snapshot", "chunk", "batch"]

#: Number of bytes read at each end of a corpus file. With names and sizes, they identify a corpus without
#: reading gigabytes at every start.
_PROBE_BYTES = 65_536
#: Maximum number of pages. The numbers of further pages would collide with the numbers of newly created pages.
_MOST_ARTICLES = 400_000
#: Maximum number of changes per hour. An hour's events are in memory while its archives are being built.
_MOST_CHANGES = 100_000
#: Maximum clock speed, at which a day takes four minutes. At a higher speed, archives would not be ready in time.
_MOST_SPEED = 360

#: Number of hours that the service retains.
KEPT_HOURS = 48
_ACCOUNT_NAME = re.compile(r"[\w.@+-]{1,255}")


class Account(NamedTuple):
    name: str
    group: str


class Quota(NamedTuple):
    name: str
    kind: QuotaKind
    limit: int


class Admission(NamedTuple):
    """Address range whose requests need no token."""

    network: str
    group: str


def _with_group(text: str, usual: str) -> tuple[str, str]:
    """Split `TEXT:group_n` at the colon. The group defaults to `usual`."""
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
        raise ValueError(f"{text!r} is not a valid account; use NAME or NAME:GROUP with a group from {groups}")
    return Account(name, group)


def _quota(text: str) -> Quota:
    match, kinds = re.fullmatch(r"(.+):(\w+)=([0-9]{1,9})", text), get_args(QuotaKind)
    if match is None or match[2] not in kinds:
        raise ValueError(f"{text!r} is not a valid quota; use NAME:KIND=LIMIT with a kind from {', '.join(kinds)}")
    return Quota(match[1], cast("QuotaKind", match[2]), int(match[3]))


def _admission(text: str) -> Admission:
    network, group = _with_group(text, TOP_GROUP)
    try:
        return Admission(str(ip_network(network)), group)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid address range; examples are 127.0.0.0/8 and ::1/128") from None


_Port = Annotated[int, Field(ge=0, le=65_535)]
_Account = Annotated[Account, BeforeValidator(_account)]


def _split(value: Any) -> Any:
    """Split a comma-separated string into its unique parts. Any other value is returned unchanged."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def check_year(moment: datetime) -> datetime:
    """Convert `moment` to UTC. A year outside `YEARS` raises ValueError."""
    utc = moment.astimezone(UTC)
    if utc.year not in YEARS:
        raise ValueError(f"the year must be between {YEARS[0]} and {YEARS[-1]}, not {utc.year}")
    return utc


Moment = Annotated[AwareDatetime, AfterValidator(check_year)]


class Settings(BaseModel):
    """Settings of a sandbox. Equal settings produce byte-identical worlds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    state: Path = Field(description="folder for keys, accounts, archives and the outbox")
    seed: int = Field(default=1, description="seed for the generated data")
    projects: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=("enwiki", "frwiki", "simplewiki"),
        min_length=1,
        description="comma-separated database names of projects with articles; reference lists contain more projects",
    )
    namespaces: Annotated[tuple[int, ...], BeforeValidator(_split)] = Field(
        default=(0, 10, 14), min_length=1, description="comma-separated numbers of the namespaces that contain articles"
    )
    articles: int | None = Field(
        default=None,
        ge=1,
        le=_MOST_ARTICLES,
        description="pages in namespace 0 of each project; increased if --changes-per-hour requires more pages "
        "(default: about 5,000, or fewer with a low --changes-per-hour)",
    )
    changes_per_hour: int = Field(
        default=2200,
        ge=1,
        le=_MOST_CHANGES,
        description="events per hour in namespace 0 of each project; other namespaces get a few percent of this number",
    )
    entities: int = Field(
        default=400, ge=0, le=_MOST_ARTICLES, description="Wikidata items besides the 36 properties; 0 omits Wikidata"
    )
    now: Moment | None = Field(
        default=None, description="freeze the clock at this time, for example 2026-11-20T05:00:00Z (default: real time)"
    )
    overlap: bool = Field(default=True, description="let consecutive hourly batches overlap, as in the real service")
    corpus: DirectoryPath | None = Field(
        default=None, description="use page text from the real records in this folder (plain or gzipped NDJSON)"
    )
    body_bytes: int = Field(default=6000, ge=1, description="mean size of a page's HTML plus wikitext, in bytes")
    chunk_bytes: int = Field(default=8_000_000, ge=1, description="uncompressed size of a snapshot chunk, in bytes")
    stream_rate: float = Field(
        default=50.0, ge=0, description="maximum messages per second on a stream with all parts; 0 disables the limit"
    )
    speed: float = Field(
        default=1.0,
        gt=0,
        le=_MOST_SPEED,
        description="clock speed as a multiple of real time, counted from the first start",
    )
    snapshot_hour: int = Field(
        default=0,
        ge=0,
        le=23,
        description="UTC hour at which snapshots are exported every day (default: 0 if the clock is frozen, otherwise "
        "three hours before the first start, so that newer hourly batches exist)",
    )
    single_member: bool = Field(
        default=False, description="write a snapshot archive with one member instead of one member per chunk"
    )

    port: _Port = Field(default=0, description="port for the service (default: any free port)")
    object_port: _Port = Field(default=0, description="port for signed downloads (default: any free port)")
    realtime_port: _Port = Field(default=0, description="port for the streams (default: any free port)")
    idle: float | None = Field(
        default=None, gt=0, description="stop after this many seconds without a request (default: never)"
    )
    owner: Path | None = Field(
        default=None, description="stop when the process that holds a lock on this file ends (default: no file)"
    )
    prepare: int = Field(
        default=0,
        ge=0,
        le=KEPT_HOURS,
        description="number of hours to prepare, in addition to the snapshots, before the sandbox is ready; prepared "
        "archives make listings fast; 0 builds each archive when it is first listed",
    )
    account: tuple[_Account, ...] = Field(
        default=(),
        description=f"create an account in one of the groups {', '.join(EVERY_GROUP)} (default: {FREE_GROUP}) and "
        "write its name and password to accounts/NAME.json in the state folder",
    )
    temporary: tuple[_Account, ...] = Field(
        default=(),
        description="create an account with a temporary password; the first login returns NEW_PASSWORD_REQUIRED",
    )
    quota: tuple[Annotated[Quota, BeforeValidator(_quota)], ...] = Field(
        default=(), description=f"limit an account's requests of one kind: {', '.join(get_args(QuotaKind))}"
    )
    admit: tuple[Annotated[Admission, BeforeValidator(_admission)], ...] = Field(
        default=(),
        description="accept requests without a token from this address range, for example 127.0.0.0/8:group_2 "
        f"(default: {TOP_GROUP})",
    )

    @cached_property
    def corpus_digest(self) -> str | None:
        """Return 16 hex digits of the names, sizes and contents of the corpus files, or None without a corpus."""
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
        """Return the identifier of the sandbox's world: `sandbox-<seed>-<digest of the other world settings>`.

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
                False,  # placeholder for a removed setting, so existing data folders still accept their sandbox
                self.body_bytes,
                self.chunk_bytes,
                self.single_member,
                self.corpus_digest,
            ]
        )
        return f"sandbox-{self.seed}-{hashlib.sha256(shape.encode()).hexdigest()[:12]}"
