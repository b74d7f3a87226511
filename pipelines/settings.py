"""The settings: which service, which projects, which folder. Read from the environment once, by `definitions` and `cli`.

Belongs here: the names of the environment variables, their defaults, and what is wrong with a value, in a sentence.
Does not belong here: secrets in any printable form, and any touch of disk or network.
"""

from __future__ import annotations

import math
import os
import re
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from dotenv import load_dotenv
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from resources.enterprise import Service
from resources.enterprise.errors import InvalidRequest
from resources.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The project's folder. `.env` and a relative WME_DATA belong to it, wherever a command or Dagster is started.
PROJECT = Path(__file__).resolve().parents[1]
#: Every setting. A variable that is not here is not read, and one that looks like a setting is reported.
NAMES = (
    "WME_USERNAME",
    "WME_PASSWORD",
    "WME_PROJECTS",
    "WME_NAMESPACES",
    "WME_BODIES",
    "WME_DATA",
    "WME_MAX_RECORD_MB",
    "WME_MIN_FREE_GB",
    "WME_FIRST_HOUR",
    "WME_GRACE_HOURS",
    "WME_PUBLISH",
    "WME_STORAGE_VERSION",
    "WME_CONTACT",
    "WME_ANONYMOUS",
    "WME_SANDBOX",
    "WME_AUTH_URL",
    "WME_BASE_URL",
    "WME_REALTIME_URL",
)
#: Read where it is needed, before there are settings.
_READ_ELSEWHERE = ("WME_NATIVE",)
#: What the sandbox serves when nobody says otherwise.
SANDBOX_PROJECTS = ("enwiki", "frwiki", "simplewiki")
BODIES = ("html", "wikitext")
#: Larger numbers are slips, and far larger ones lead beyond the last date there is.
_LARGEST = 1_000_000
#: From the size of a block of lines to what the decoder can hold.
_RECORD_MB = range(16, 1025)
#: Characters that make a pattern of a path.
_PATTERNS = "*?["


class SettingsError(MirrorError, ValueError):
    """A setting that cannot be used; the message names the variable and what to write instead."""


class Settings(BaseModel):
    """Everything the environment decides.

    Attributes:
        sandbox: Use the built-in local content service. By default whenever no account is configured.
        projects: Projects to mirror, for example enwiki.
        namespaces: Namespaces to mirror.
        bodies: Which of html and wikitext to keep.
        data: Folder of everything that is fetched and made, absolute.
        max_record_mb: The longest record (MiB) that is converted; longer lines are rejected, whole.
        min_free_gb: Free disk space (GB) that a run leaves untouched.
        publish_every: How often runs publish at the most: each of them (0), so often, or never (None).
        storage_version: Storage version of DuckDB's files, for example v2.0.0; None: as they are.
        grace_hours: How long files that were replaced stay for those who may still read them.
        first_hour: First hour that Dagster shows, unless an earlier one is archived; None: of what the service keeps.
    """

    model_config = ConfigDict(frozen=True)

    username: str | None = None
    password: SecretStr | None = None
    auth_url: str = Service.auth_url
    base_url: str = Service.base_url
    realtime_url: str = Service.realtime_url
    projects: tuple[str, ...] = SANDBOX_PROJECTS
    namespaces: tuple[int, ...] = (0,)
    bodies: tuple[str, ...] = BODIES
    data: Path = Field(default_factory=lambda: PROJECT / "data")
    contact: str | None = None
    anonymous: bool = False
    sandbox: bool = True
    max_record_mb: int = 64
    min_free_gb: float = 1.0
    publish_every: timedelta | None = timedelta(0)
    storage_version: str | None = None
    grace_hours: float = 24.0
    first_hour: datetime | None = None

    @property
    def dagster_home(self) -> Path:
        """Folder of the Dagster instance: run history, logs, schedules."""
        return self.data / "dagster"


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each variable of an environment (default: this process's) that looks like a setting and is none."""
    known = (*NAMES, *_READ_ELSEWHERE)
    sentences = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith("WME_") and name not in known:
            near = get_close_matches(name.upper(), known, 1)
            hint = f"did you mean {near[0]}?" if near else "the README lists those that there are."
            sentences.append(f"{name} is not a setting and has no effect; {hint}")
    return sentences


def _flag(environ: Mapping[str, str], name: str) -> bool | None:
    text = environ[name].lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    if text:
        raise SettingsError(f"{name} is {text!r}; write 1 or 0, or leave it out.")
    return None


def load_env_file() -> None:
    """Take the variables of the project's `.env` into the environment, where that does not have them already."""
    load_dotenv(PROJECT / ".env")


def read_data(environ: Mapping[str, str] | None = None) -> Path:
    """The data folder, absolute, for what needs no other setting. A relative one lies in the project's folder.

    Raises:
        SettingsError: It cannot be used.
    """
    env = os.environ if environ is None else environ
    named = env.get("WME_DATA", "").strip() or "data"
    # `.env` knows no shell that would know the home folder
    data = PROJECT / (Path(named).expanduser() if named == "~" or named.startswith("~/") else named)
    if set(_PATTERNS) & set(str(data)):
        raise SettingsError(
            f"WME_DATA is the folder {data}. DuckDB takes {' '.join(_PATTERNS)} in a path for a pattern and would read "
            "files of other folders. Choose one without them."
        )
    return data


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of an environment (default: this process's).

    Raises:
        SettingsError: A value cannot be used; nothing was touched.
    """
    given = os.environ if environ is None else environ
    env = {name: given.get(name, "").strip() for name in NAMES}
    values: dict[str, object] = {}
    for field, name in (
        ("username", "WME_USERNAME"),
        ("password", "WME_PASSWORD"),
        ("auth_url", "WME_AUTH_URL"),
        ("base_url", "WME_BASE_URL"),
        ("realtime_url", "WME_REALTIME_URL"),
        ("contact", "WME_CONTACT"),
    ):
        if env[name]:
            values[field] = _address(name, env[name]) if field.endswith("_url") else env[name]
    values["data"] = read_data(given)
    if "username" in values:
        # the service's user pool knows names in lower case only
        values["username"] = str(values["username"]).lower()
    anonymous = _flag(env, "WME_ANONYMOUS") or False
    forced = _flag(env, "WME_SANDBOX")
    sandbox = forced if forced is not None else ("username" not in values and not anonymous)
    if sandbox and forced is None and "password" in values:
        raise SettingsError(
            "WME_PASSWORD is set and WME_USERNAME is not. Set both for an account, none for the sandbox, or WME_SANDBOX=1."
        )
    if not sandbox and not anonymous and "username" not in values:
        raise SettingsError(
            "WME_SANDBOX=0 switches the sandbox off and no account is configured; "
            "set WME_USERNAME and WME_PASSWORD, or WME_ANONYMOUS=1 where your address is admitted without a token."
        )
    values |= {"anonymous": anonymous, "sandbox": sandbox}

    projects = _words(env["WME_PROJECTS"])
    if projects:
        values["projects"] = projects
    elif not sandbox:
        raise SettingsError(
            "WME_PROJECTS is not set. With an account it must name the projects to mirror, for example "
            "WME_PROJECTS=enwiki,frwiki: unset never means all nine hundred."
        )
    wrong = [name for name in projects if not re.fullmatch(r"[a-z0-9_]+", name)]
    if wrong:
        raise SettingsError(
            f"WME_PROJECTS names {wrong[0]!r}; projects are database names such as enwiki or zh_yuewiki."
        )

    namespaces = _words(env["WME_NAMESPACES"] or "0")
    if not all(number.isdecimal() for number in namespaces):
        raise SettingsError(f"WME_NAMESPACES is {env['WME_NAMESPACES']!r}; write numbers of 0, 6, 10, 14 with commas.")
    values["namespaces"] = tuple(int(number) for number in namespaces) or (0,)

    bodies = _words(env["WME_BODIES"])
    if bodies:
        if set(bodies) - {*BODIES, "none"} or ("none" in bodies and len(bodies) > 1):
            raise SettingsError(f"WME_BODIES is {env['WME_BODIES']!r}; write html, wikitext, html,wikitext or none.")
        values["bodies"] = () if bodies == ("none",) else bodies

    for field, name, unit in (
        ("min_free_gb", "WME_MIN_FREE_GB", "gigabytes"),
        ("grace_hours", "WME_GRACE_HOURS", "hours"),
    ):
        text = env[name]
        if text:
            values[field] = _number(name, text, unit)
    longest = env["WME_MAX_RECORD_MB"]
    if longest:
        if not longest.isdecimal() or len(longest) > len(str(_LARGEST)) or int(longest) not in _RECORD_MB:
            raise SettingsError(
                f"WME_MAX_RECORD_MB is {longest!r}; write the MiB of the longest record to convert, a whole number from "
                f"{_RECORD_MB.start} to {_RECORD_MB.stop - 1}. A line of that length takes twelve times as much memory."
            )
        values["max_record_mb"] = int(longest)
    first = env["WME_FIRST_HOUR"]
    if first:
        values["first_hour"] = _hour("WME_FIRST_HOUR", first)
    storage = env["WME_STORAGE_VERSION"]
    if storage:
        if not re.fullmatch(r"v\d+\.\d+\.\d+", storage):
            raise SettingsError(
                f"WME_STORAGE_VERSION is {storage!r}; write a version of DuckDB whose files are to be made: v1.5.0 or v2.0.0."
            )
        values["storage_version"] = storage
    values["publish_every"] = _publish_every(env["WME_PUBLISH"].lower())
    return Settings.model_validate(values)


def _address(name: str, text: str) -> str:
    url = text.rstrip("/")
    try:
        Service(base_url=url)
    except InvalidRequest:
        # the address itself is not repeated: people put passwords into addresses
        raise SettingsError(
            f"{name} is not an address of the form https://host[:port][/path]. Nothing was sent. Correct {name}, or leave it "
            "out for the real service."
        ) from None
    return url


def _hour(name: str, text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    except ValueError:
        raise SettingsError(f"{name} is {text!r}; write an hour in UTC, for example 2026-11-20T05.") from None


def _number(name: str, text: str, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _LARGEST:
        raise SettingsError(f"{name} is {text!r}; write a number of {unit} up to {_LARGEST:,}, for example 5.")
    return number


def _publish_every(text: str) -> timedelta | None:
    if text in {"", "run"}:
        return timedelta(0)
    if text == "off":
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= _LARGEST:
        raise SettingsError(
            f"WME_PUBLISH is {text!r}; write run (each run publishes), a number of minutes up to {_LARGEST:,} (at most so often), "
            "or off."
        )
    return timedelta(minutes=minutes)
