"""Settings for a mirror, such as the service, the projects and the data folder.

This module reads the settings from the environment and the settings file (`.env`). `model` declares each setting once,
and `types` parses the values. Reading settings does not access the network or any file except `.env`.
"""

import io
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from dotenv import load_dotenv
from dotenv.parser import parse_stream
from pydantic import ValidationError

from resources import files
from resources.enterprise.errors import InvalidRequest
from resources.settings.model import NAMES as NAMES
from resources.settings.model import Settings as Settings
from resources.settings.model import sentence
from resources.settings.types import BODIES as BODIES
from resources.settings.types import ENV_FILE as ENV_FILE
from resources.settings.types import PROJECT as PROJECT
from resources.settings.types import SettingsError as SettingsError
from resources.settings.types import env_file

#: Maximum size of the settings file.
_ENV_BYTES = 1 << 20
#: Variables that other modules read before the settings exist.
_READ_ELSEWHERE = (ENV_FILE, "WME_NATIVE", "WME_NEW_PASSWORD", "WME_CODE", "WME_LIVE_DOWNLOADS")


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each environment variable that looks like a setting but is unknown."""
    known = (*NAMES, *_READ_ELSEWHERE)
    sentences = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith("WME_") and name not in known:
            near = get_close_matches(name.upper(), known, 1)
            hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists all settings."
            sentences.append(f"{name} is not a setting and has no effect; {hint}")
    return sentences


def load_env_file() -> None:
    """Add the settings file's variables to the environment without changing existing variables.

    WME_ENV_FILE specifies the settings file. The default is the project's `.env`, which is optional. Raises
    SettingsError if the file specified by WME_ENV_FILE is missing, or if a line of the settings file is unreadable.
    """
    path = env_file()
    if is_named := bool(os.environ.get(ENV_FILE)):
        os.environ[ENV_FILE] = str(path)  # absolute, because child processes may start in other folders
    problem = ""
    try:
        text = files.read(path, most=_ENV_BYTES).decode("utf-8-sig")
        problem = "the file contains a null byte" if "\0" in text else ""
        # python-dotenv skips such lines with a warning, so their settings would have no effect
        for line in (one.original.line for one in parse_stream(io.StringIO(text)) if one.error and not problem):
            problem = f"line {line} does not have the form NAME=value, or a quotation mark is missing"
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not is_named:
            return
        problem = str(error.strerror)
    except UnicodeDecodeError:
        problem = "the file is not UTF-8 text"
    except files.UnusableFileError as error:
        problem = error.what
    if problem:
        raise SettingsError(
            f"The settings file {path} cannot be read ({problem}). Nothing was started. Correct the file, or remove it."
        )
    load_dotenv(stream=io.StringIO(text))


def read_data(environ: Mapping[str, str] | None = None) -> Path:
    """Return the absolute path of the data folder. Raises SettingsError if the path is invalid."""
    environ = os.environ if environ is None else environ
    return _validated({"WME_DATA": text} if (text := environ.get("WME_DATA", "").strip()) else {}).data


def _validated(given: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise SettingsError(sentence(error.errors()[0])) from None


def read(environ: Mapping[str, str] | None = None, *, scoped: bool = True) -> Settings:
    """Return the settings from an environment (default: `os.environ`). Raises SettingsError if a value is invalid.

    If `scoped` is true and an account is configured, WME_PROJECTS is required. If `scoped` is false, WME_PROJECTS is
    optional and defaults to no projects.
    """
    environ = os.environ if environ is None else environ
    given = {name: text for name in NAMES if (text := environ.get(name, "").strip())}
    settings = _validated(given)
    has_account = settings.username is not None or settings.anonymous
    if "WME_SANDBOX" not in given and "WME_PASSWORD" in given and not has_account:
        raise SettingsError(
            "WME_PASSWORD is set, but WME_USERNAME is not. To use an account, set both variables. To use the sandbox, "
            "remove WME_PASSWORD or set WME_SANDBOX=1."
        )
    if settings.sandbox:
        return settings
    try:
        settings.service()
    except InvalidRequest as error:
        raise SettingsError(error.message) from None
    if not has_account:
        raise SettingsError(
            "WME_SANDBOX=0 disables the sandbox, but no account is configured. Set WME_USERNAME and WME_PASSWORD, or "
            "set WME_ANONYMOUS=1 if the service accepts your IP address without a token."
        )
    if not given.get("WME_PROJECTS", "").strip(" ,"):
        if not scoped:
            return settings.model_copy(update={"projects": ()})
        raise SettingsError(
            "WME_PROJECTS is not set. If an account is configured, WME_PROJECTS must list the projects to mirror, for "
            "example WME_PROJECTS=enwiki,frwiki. Mirroring all nine hundred projects is not the default."
        )
    return settings
