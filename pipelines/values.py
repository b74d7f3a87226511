"""What a setting's text means: the value, or a sentence naming the variable and what to write instead."""

from __future__ import annotations

import math
import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from resources import access
from resources.enterprise import Service
from resources.enterprise.errors import InvalidRequest
from resources.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Callable

_CHECKOUT = Path(__file__).resolve().parents[1]
#: The folder that `.env` and a relative WME_DATA belong to: the checkout, wherever a command or Dagster is started. A wheel has none, and
#: there it is the folder in which they are started.
PROJECT = _CHECKOUT if (_CHECKOUT / "workspace.yaml").exists() else Path.cwd()
#: Names another settings file than the project's `.env`; relative paths then belong to its folder.
ENV_FILE = "WME_ENV_FILE"
#: What the sandbox serves by default.
SANDBOX_PROJECTS = ("enwiki", "frwiki", "simplewiki")
BODIES = ("html", "wikitext")
LARGEST: Final = access.LARGEST
SLOWEST: Final = access.SLOWEST
#: From the size of a block of lines to what the decoder can hold.
_RECORD_MB = range(16, 1025)
#: What a converter with one worker takes.
_MEMORY_MB_LEAST = 256
#: Characters that make a pattern of a path.
_PATTERNS = "*?["


class SettingsError(MirrorError, ValueError):
    """A setting that cannot be used; the message names the variable and what to write instead."""


def env_file() -> Path:
    """The settings file of this process."""
    path = Path(os.environ.get(ENV_FILE) or PROJECT / ".env")
    return path.parent.resolve() / path.name  # the folder that names the file, also where that is a link to another


def words(_name: str, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def projects(name: str, text: str) -> tuple[str, ...]:
    found = words(name, text)
    if wrong := [project for project in found if not re.fullmatch(r"[a-z0-9_]+", project)]:
        raise SettingsError(f"{name} names {wrong[0]!r}; projects are database names such as enwiki or zh_yuewiki.")
    return found or SANDBOX_PROJECTS


def namespaces(name: str, text: str) -> tuple[int, ...]:
    numbers = words(name, text)
    if not all(number.isdecimal() for number in numbers):
        raise SettingsError(f"{name} is {text!r}; write numbers of 0, 6, 10, 14, separated by commas.")
    return tuple(map(int, numbers)) or (0,)


def host(text: str) -> tuple[str, int | None] | None:
    """The name and port of a header `Host` or a setting, as they compare; None: not a host. Default ports of HTTP are no port."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::(\d{1,5}))?", text.lower(), re.ASCII)
    if found is None:
        return None
    return found[1], None if found[2] is None or int(found[2]) in {80, 443} else int(found[2])


def hosts(name: str, text: str) -> tuple[str, ...]:
    found = words(name, text)
    if wrong := [word for word in found if host(word) is None]:
        raise SettingsError(
            f"{name} names {wrong[0]!r}; write host names as a browser's address bar shows them, without https:// and without a path, separated "
            "by commas: mirror.example.org or mirror.example.org:8443."
        )
    return found


def bodies(name: str, text: str) -> tuple[str, ...]:
    found = words(name, text)
    if set(found) - {*BODIES, "none"} or ("none" in found and len(found) > 1):
        raise SettingsError(f"{name} is {text!r}; write html, wikitext, html,wikitext or none.")
    return () if found == ("none",) else found or BODIES


def flag(name: str, text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off"}:
        return False
    raise SettingsError(f"{name} is {text!r}; write 1 or 0, or leave it out.")


def address(name: str, text: str) -> str:
    url = text.rstrip("/")
    try:
        Service(base_url=url, allow_http=True)
    except InvalidRequest:
        # the address itself is not repeated: people put passwords into addresses
        raise SettingsError(
            f"{name} is not an address of the form https://host[:port][/path]. Nothing was sent. Correct {name}, or leave it "
            "out for the real service."
        ) from None
    return url


def is_address(text: str) -> bool:
    """Return whether a text is an http(s) address, and no program."""
    return re.match(r"https?://", text, re.IGNORECASE) is not None


def hook(name: str, text: str) -> str:
    try:
        is_usable = bool(urlsplit(text).hostname) if is_address(text) else bool(shlex.split(text))
    except ValueError:
        is_usable = False
    if not is_usable or not text.isprintable():
        # not repeated: the address of a webhook is a key
        raise SettingsError(
            f"{name} is neither an address nor a program; write https://host/path, or a program with its arguments as in a shell: "
            "/usr/local/bin/notify --channel mirror."
        )
    return text


def hour(name: str, text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    except ValueError:
        raise SettingsError(f"{name} is {text!r}; write an hour in UTC, for example 2026-11-20T05.") from None


def number(text: str) -> float:
    """A number of a setting; NaN: it is none, or cannot be meant."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if 0 <= value <= LARGEST else math.nan


def quantity(unit: str, example: int = 5, least: float = 0) -> Callable[[str, str], float]:
    def parse(name: str, text: str) -> float:
        if not (value := number(text)) >= least:
            from_least = f"from {least} " if least else ""
            raise SettingsError(
                f"{name} is {text!r}; write a number of {unit} {from_least}up to {LARGEST:,}, for example {example}."
            )
        return value

    return parse


def count(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(LARGEST)) or int(text) > LARGEST:
        raise SettingsError(f"{name} is {text!r}; write a whole number up to {LARGEST:,}, for example 100.")
    return int(text)


def hot_days(name: str, text: str) -> int | None:
    if text.lower() == "all":
        return None
    if not text.isdecimal() or len(text) > len(str(LARGEST)) or not 0 < int(text) <= LARGEST:
        raise SettingsError(
            f"{name} is {text!r}; write the number of days whose changes the DuckDB files hold themselves, from 1 up to {LARGEST:,}, for example "
            "90, or all."
        )
    return int(text)


def record_mb(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(LARGEST)) or int(text) not in _RECORD_MB:
        raise SettingsError(
            f"{name} is {text!r}; write the MiB of the longest record to convert, a whole number from {_RECORD_MB.start} to "
            f"{_RECORD_MB.stop - 1}. A line of that length takes twelve times as much memory."
        )
    return int(text)


def engine(name: str, text: str) -> str:
    if text == "threads" or re.fullmatch(r"dask://([\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}", text):
        return text
    raise SettingsError(f"{name} is {text!r}; write threads, or the address of a Dask scheduler: dask://host:8786.")


def memory_mb(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(LARGEST)) or int(text) < _MEMORY_MB_LEAST:
        raise SettingsError(
            f"{name} is {text!r}; write the MiB of memory that converting may take, a whole number from {_MEMORY_MB_LEAST} (one "
            "worker), for example 2048."
        )
    return int(text)


def storage_version(name: str, text: str) -> str:
    if not re.fullmatch(r"v\d+\.\d+\.\d+", text):
        raise SettingsError(
            f"{name} is {text!r}; write the version of DuckDB whose file format is wanted: v1.5.0 or v2.0.0."
        )
    return text


def file(_name: str, text: str) -> Path:
    # `.env` knows no shell that would know the home folder
    return env_file().parent / (Path(text).expanduser() if text == "~" or text.startswith("~/") else text)


def data(name: str, text: str) -> Path:
    folder = file(name, text)
    if set(_PATTERNS) & set(str(folder)):
        raise SettingsError(
            f"{name} is the folder {folder}. DuckDB takes {' '.join(_PATTERNS)} in a path for a pattern and would read "
            "files of other folders. Choose one without them."
        )
    return folder
