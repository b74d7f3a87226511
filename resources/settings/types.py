"""Types that parse and validate setting values, and the advice for invalid values."""

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticUseDefault

from resources.enterprise import Service
from resources.enterprise.errors import InvalidRequest
from resources.enterprise.models import in_range
from resources.errors import MirrorError

_CHECKOUT = Path(__file__).resolve().parents[2]
#: Folder that contains `.env`, and base folder of a relative WME_DATA. This is the checkout, even if a command or
#: Dagster starts in another folder. An installed wheel has no checkout and uses the working folder.
PROJECT = _CHECKOUT if (_CHECKOUT / "workspace.yaml").exists() else Path.cwd()
#: Variable that replaces the project's `.env` with another settings file. Relative paths are resolved against that
#: file's folder.
ENV_FILE = "WME_ENV_FILE"
BODIES: Final[tuple[Literal["html", "wikitext"], ...]] = ("html", "wikitext")
#: Maximum for numeric settings. Larger numbers are assumed to be mistakes, and much larger numbers exceed the date
#: range.
LARGEST: Final = 1_000_000
#: Minimum requests per second. With a lower rate, a client would seem to hang.
SLOWEST: Final = 0.001


class SettingsError(MirrorError, ValueError):
    """A setting is invalid. The message names the variable and describes a valid value."""


@dataclass(frozen=True)
class Write:
    """Description of a valid value, for error messages. If `hidden` is true, messages omit the invalid value."""

    words: str
    hidden: bool = False


def of_text(parse: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that parses strings. Other values are validated only by their type."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def split(text: str) -> list[str]:
    if not (words := [word for part in text.split(",") if (word := part.strip())]):
        raise PydanticUseDefault
    return list(dict.fromkeys(words))


def _address(text: str) -> str:
    url = text.rstrip("/")
    try:
        Service(base_url=url, allow_http=True)
    except InvalidRequest as error:
        raise ValueError from error
    return url


def env_file() -> Path:
    """Return the absolute path of this process's settings file."""
    path = Path(os.environ.get(ENV_FILE) or PROJECT / ".env")
    return path.parent.resolve() / path.name  # the file itself may be a symbolic link into another folder


def is_address(text: str) -> bool:
    """Return True if a hook is an HTTP(S) URL, or False if it is a program."""
    return re.match(r"https?://", text, re.IGNORECASE) is not None


def hook(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    is_usable = bool(urlsplit(text).hostname) if is_address(text) else bool(shlex.split(text))
    if not is_usable or not text.isprintable():
        raise ValueError
    return secret


def host(text: str) -> tuple[str, int | None] | None:
    """Return the host name and port from a `Host` header or a setting, or None if the text is invalid.

    The port is None if it is the default port.
    """
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::(\d{1,5}))?", text.lower(), re.ASCII)
    if found is None:
        return None
    return found[1], None if found[2] is None or int(found[2]) in {80, 443} else int(found[2])


def known_host(text: str) -> str:
    if host(text) is None:
        raise ValueError
    return text


def publication(text: str) -> timedelta | None:
    if text.lower() in {"run", "off"}:
        return timedelta(0) if text.lower() == "run" else None
    if not 0 < (minutes := float(text)) <= LARGEST:
        raise ValueError
    return timedelta(minutes=minutes)


def hour(text: str) -> datetime:
    return in_range(datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC))


def file(text: str) -> Path:
    # no shell expands `~` in `.env`
    return env_file().parent / (Path(text).expanduser() if text == "~" or text.startswith("~/") else text)


def _folder(text: str) -> Path:
    folder = file(text)
    if set("*?[") & set(str(folder)):
        raise ValueError
    return folder


Url = Annotated[
    str,
    AfterValidator(_address),
    Write("a URL like https://host[:port][/path], or remove the variable to use the real service", hidden=True),
]
Flag = Annotated[bool, Write("1 or 0, or remove the variable")]
_Amount = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Gigabytes = Annotated[_Amount, Write(f"a number of gigabytes from 0 to {LARGEST:,}, for example 5")]
Hours = Annotated[_Amount, Write(f"a number of hours from 0 to {LARGEST:,}, for example 5")]
COUNT = Write(f"a whole number from 0 to {LARGEST:,}, for example 100")
Folder = Annotated[
    Path,
    of_text(_folder),
    Write(
        "a path without *, ? or [, because DuckDB treats these characters as wildcards and would read files in "
        "other folders"
    ),
]
