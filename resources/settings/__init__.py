"""The settings of a mirror: which service, which projects, which folder.

They are read here, from the environment and from the settings file (`.env`). `model` declares each setting once, and
`types` what a variable's text means. Reading settings touches no network, and no file but `.env`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from dotenv import load_dotenv
from pydantic import ValidationError

from resources import files
from resources.enterprise import Service
from resources.enterprise.errors import InvalidRequest
from resources.settings.model import NAMES, Settings, sentence
from resources.settings.types import BODIES, ENV_FILE, PROJECT, SettingsError, env_file

__all__ = [
    "BODIES",
    "ENV_FILE",
    "NAMES",
    "PROJECT",
    "Settings",
    "SettingsError",
    "load_env_file",
    "read",
    "read_data",
    "unknown",
]


#: Longest `.env`.
_ENV_BYTES = 1 << 20
#: Read where it is needed, before there are settings.
_READ_ELSEWHERE = (ENV_FILE, "WME_NATIVE", "WME_NEW_PASSWORD", "WME_CODE", "WME_LIVE_DOWNLOADS")


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each variable of an environment that looks like a setting and is none."""
    known = (*NAMES, *_READ_ELSEWHERE)
    sentences = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith("WME_") and name not in known:
            near = get_close_matches(name.upper(), known, 1)
            hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists all settings."
            sentences.append(f"{name} is not a setting and has no effect; {hint}")
    return sentences


def load_env_file() -> None:
    """Take the variables of the settings file into the environment, where that does not have them already.

    The file is the one that WME_ENV_FILE names, by default the project's `.env`, which may be absent. Raises
    SettingsError: the file is none, cannot be read, or is no text.
    """
    path = env_file()
    if is_named := bool(os.environ.get(ENV_FILE)):
        os.environ[ENV_FILE] = str(path)  # absolute, for processes that are started in other folders
    problem = ""
    try:
        text = files.read(path, most=_ENV_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        if not is_named:
            return
        problem = str(error.strerror)
    except OSError as error:
        problem = str(error.strerror)
    except UnicodeDecodeError:
        problem = "it is no UTF-8 text"
    except files.UnusableFileError as error:
        problem = error.what
    else:
        problem = "it has a zero byte" if "\0" in text else ""
    if problem:
        raise SettingsError(
            f"The settings file {path} cannot be read ({problem}). Nothing was started. Correct the file, or remove it."
        )
    load_dotenv(stream=io.StringIO(text))


def read_data(environ: Mapping[str, str] | None = None) -> Path:
    """Return the absolute data folder, for commands without other settings. Raises SettingsError: it is unusable."""
    environ = os.environ if environ is None else environ
    return _validated({"WME_DATA": text} if (text := environ.get("WME_DATA", "").strip()) else {}).data


def _validated(given: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise SettingsError(sentence(error.errors()[0])) from None


def read(environ: Mapping[str, str] | None = None, *, scoped: bool = True) -> Settings:
    """The settings of an environment (default: this process's). Raises SettingsError: a value cannot be used.

    With `scoped`, an account needs WME_PROJECTS; without it, an account without WME_PROJECTS has none.
    """
    environ = os.environ if environ is None else environ
    given = {name: text for name in NAMES if (text := environ.get(name, "").strip())}
    settings = _validated(given)
    has_account = settings.username is not None or settings.anonymous
    if "WME_SANDBOX" not in given and "WME_PASSWORD" in given and not has_account:
        raise SettingsError(
            "WME_PASSWORD is set and WME_USERNAME is not. Set both for an account, none for the sandbox, or "
            "WME_SANDBOX=1."
        )
    if settings.sandbox:
        return settings
    try:
        Service(
            auth_url=settings.auth_url,
            base_url=settings.base_url,
            realtime_url=settings.realtime_url,
            allow_http=settings.allow_http,
        )
    except InvalidRequest as error:
        raise SettingsError(error.message) from None
    if not has_account:
        raise SettingsError(
            "WME_SANDBOX=0 switches the sandbox off and no account is configured; "
            "set WME_USERNAME and WME_PASSWORD, or WME_ANONYMOUS=1 where your address is admitted without a token."
        )
    if not given.get("WME_PROJECTS", "").strip(" ,"):
        if not scoped:
            return settings.model_copy(update={"projects": ()})
        raise SettingsError(
            "WME_PROJECTS is not set. With an account it must name the projects to mirror, for example "
            "WME_PROJECTS=enwiki,frwiki: unset never means all nine hundred."
        )
    return settings
