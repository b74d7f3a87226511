"""The settings: which service, which projects, which folder.

Each is a field of `Settings`, and nothing else declares it: its variable, its default, its description (the README's and
that of `.env.example`), and what is wrong with a value, in a sentence. Reading them touches no disk and no network.
"""

from __future__ import annotations

import io
import os
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path  # noqa: TC003  pydantic looks it up
from typing import TYPE_CHECKING, Annotated, Any

from dotenv import load_dotenv
from pydantic import (
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from pipelines import values
from pipelines.values import BODIES, PROJECT, SANDBOX_PROJECTS, SettingsError
from resources import files
from resources.access import Access
from resources.enterprise import Service
from resources.enterprise.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resources.datasets import Dataset

__all__ = [
    "BODIES",
    "NAMES",
    "PROJECT",
    "SANDBOX_PROJECTS",
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
_READ_ELSEWHERE = (values.ENV_FILE, "WME_NATIVE", "WME_NEW_PASSWORD", "WME_CODE", "WME_LIVE_DOWNLOADS")


def _variable(field: str) -> str:
    return f"WME_{field.upper()}"


def _parsed(parse: Callable[[str, str], Any]) -> BeforeValidator:
    """A validator of a variable's text; values that are no text are taken as they are."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return parse(_variable(str(info.field_name)), value) if isinstance(value, str) else value

    return BeforeValidator(validate)


_Url = Annotated[str, _parsed(values.address)]
_Flag = Annotated[bool, _parsed(values.flag)]


class Settings(BaseModel):
    """Everything the environment decides. A description is a cell of the README's table; an example, a line of `.env.example`."""

    model_config = ConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_default=True,
        alias_generator=AliasGenerator(validation_alias=_variable),
    )

    username: str | None = Field(
        None, description="User name of the account. Without an account the sandbox is used.", examples=["you"]
    )
    password: SecretStr | None = Field(None, description="Password of the account.", examples=[""])
    projects: Annotated[tuple[str, ...], _parsed(values.projects)] = Field(
        SANDBOX_PROJECTS,
        description="Projects to mirror, separated by commas. Required with an account. Default: the sandbox's three.",
        examples=["enwiki,frwiki"],
    )
    namespaces: Annotated[tuple[int, ...], _parsed(values.namespaces)] = Field(
        (0,),
        description="Namespaces to mirror: 0 article, 6 file, 10 template, 14 category. Default: `0`.",
        examples=["0"],
    )
    wikidata: _Flag = Field(
        False,
        description="`1`: mirror the items and properties of Wikidata as well, which is far more data than any other project. "
        "Default: `0`.",
        examples=["1"],
    )
    bodies: Annotated[tuple[str, ...], _parsed(values.bodies)] = Field(
        BODIES,
        description="Bodies to keep: `html`, `wikitext`, both, or `none`. Default: `html,wikitext`.",
        examples=["html,wikitext"],
    )
    data: Annotated[Path, _parsed(values.data)] = Field(
        "data",  # type: ignore[assignment]  # made absolute when it is read
        description="Data folder, for everything that is fetched and made. A relative path starts at the folder of `.env` (or "
        "`--env-file`), wherever a command is run; `~/` is the home folder; `*`, `?` and `[` are not allowed. Default: `data`.",
        examples=["data"],
    )
    contact: str | None = Field(
        None,
        description="How the service can reach the operator; sent in the User-Agent. Default: none.",
        examples=["ops@example.org"],
    )
    anonymous: _Flag = Field(
        False,
        description="`1`: send no token, for IP addresses that the service admits without one. Default: `0`.",
        examples=["1"],
    )
    sandbox: _Flag = Field(
        default_factory=lambda given: given.get("username") is None and not given.get("anonymous"),
        description="`1`: always use the sandbox; `0`: never. Default: use it when no account is configured.",
        examples=["1"],
    )
    min_free_gb: Annotated[float, _parsed(values.quantity("gigabytes"))] = Field(
        1.0, description="Disk space (GB) that a run leaves free. Default: `1`.", examples=["1"]
    )
    max_record_mb: Annotated[int, _parsed(values.record_mb)] = Field(
        64,
        description="Longest record (MiB) to convert, from 16 to 1024; longer lines are rejected, whole. A line of this length takes "
        "twelve times as much memory. Default: `64`.",
        examples=["64"],
    )
    engine: Annotated[str, _parsed(values.engine)] = Field(
        "threads",
        description="Where archives are converted and lake files compacted: `threads` of each process, or the workers of a Dask scheduler (`dask://host:8786`). "
        "Default: `threads`.",
        examples=["dask://127.0.0.1:8786"],
    )
    memory_mb: Annotated[int | None, _parsed(values.memory_mb)] = Field(
        None,
        description="Memory (MiB) that a process may take while it converts; the number of its workers follows. Default: a quarter of "
        "what it may use (machine, control groups), 512 at least.",
        examples=["2048"],
    )
    first_hour: Annotated[datetime | None, _parsed(values.hour)] = Field(
        None,
        description="First hour (UTC) that the Dagster UI shows; archived hours are always shown. Default: the oldest hour that the "
        "service had when the data folder was first used.",
        examples=["2026-11-20T05"],
    )
    grace_hours: Annotated[float, _parsed(values.quantity("hours"))] = Field(
        24.0,
        description="Hours for which replaced files are kept for readers of an older published file. Default: `24`.",
        examples=["24"],
    )
    hot_days: Annotated[int | None, _parsed(values.hot_days)] = Field(
        90,
        description="Days whose changes the DuckDB files hold themselves; those of older hours are read from compacted files of the lake, under "
        "the same names. `all`: no hour leaves the DuckDB files. Default: `90`.",
        examples=["90"],
    )
    requests_per_second: Annotated[float | None, _parsed(values.quantity("requests a second", 10, values.SLOWEST))] = (
        Field(
            None,
            description="Requests a second that the account may make, if the vendor has stated it; the limit is applied in each process by itself. "
            "Default: adjusted to the service's refusals (429).",
            examples=["10"],
        )
    )
    watchlist: Annotated[Path | None, _parsed(values.file)] = Field(
        None,
        description="File of pages to look up when they change: a project, a space and a title on each line. A relative path starts at the "
        "folder of `.env`. Default: none.",
        examples=["watchlist.txt"],
    )
    lookups_per_day: Annotated[int, _parsed(values.count)] = Field(
        100,
        description="Lookups that a day (UTC) may spend on the watch list, on repairs and on checks. Default: `100`.",
        examples=["100"],
    )
    check_pages: Annotated[int | None, _parsed(values.count)] = Field(
        None,
        description="Pages of `articles` that a check looks up each day and compares. Default: 10 with a paid account, else none.",
        examples=["10"],
    )
    publish_every: timedelta | None = Field(
        timedelta(0),
        validation_alias="WME_PUBLISH",
        description="When runs publish: `run` (every run), a number of minutes (at most that often), or `off`. Default: `run`.",
        examples=["run"],
    )
    storage_version: Annotated[str | None, _parsed(values.storage_version)] = Field(
        None,
        description="File format of the DuckDB files: `v1.5.0` for DuckDB 1.5 and later, or `v2.0.0`. It can be raised, never "
        "lowered. Default: unchanged; `v1.5.0` for new files.",
        examples=["v1.5.0"],
    )
    ui_hosts: Annotated[tuple[str, ...], _parsed(values.hosts)] = Field(
        (),
        description="Public host names of the Dagster UI behind a proxy, separated by commas, with the port unless it is 80 or 443. The UI "
        "refuses requests under other names; `localhost` and `127.0.0.1` are always allowed. Default: none.",
        examples=["mirror.example.org"],
    )
    on_failure: Annotated[SecretStr | None, _parsed(values.hook)] = Field(
        None,
        description="Hook for failed runs in Dagster: an `http(s)://` address, to which a JSON document is sent by POST, or a program, which gets it on "
        "its standard input. Default: none.",
        examples=["https://ops.example.org/hooks/mirror"],
    )
    auth_url: _Url = Field(
        Service.auth_url, description="Address of the service's login. Default: the real one.", examples=[""]
    )
    base_url: _Url = Field(
        Service.base_url, description="Address of the service. Default: the real one.", examples=[""]
    )
    realtime_url: _Url = Field(
        Service.realtime_url, description="Address of the service's streams. Default: the real one.", examples=[""]
    )
    allow_http: _Flag = Field(
        False,
        description="`1`: allow these addresses to be `http://` ones of other machines. Anyone on the way can then read passwords and tokens. "
        "Default: `0`; `http://` only to this machine.",
        examples=["1"],
    )

    @field_validator("username")
    @classmethod
    def _lower(cls, name: str | None) -> str | None:
        return name and name.lower()  # the service's user pool knows names in lower case only

    @field_validator("publish_every", mode="before")
    @classmethod
    def _publish(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lower() in {"run", "off"}:
            return timedelta(0) if value.lower() == "run" else None
        if not (minutes := values.number(value)) > 0:
            raise SettingsError(
                f"WME_PUBLISH is {value!r}; write run (every run publishes), a number of minutes up to {values.LARGEST:,} (at most that "
                "often), or off."
            )
        return timedelta(minutes=minutes)

    def scope_of(self, dataset: Dataset) -> tuple[tuple[str, int], ...]:
        """The mirrored (project, namespace) pairs of a dataset; empty where it is not mirrored."""
        mirrored = ((project, namespace) for project in self.projects for namespace in self.namespaces)
        return dataset.scope(mirrored, wikidata=self.wikidata)

    @property
    def access(self) -> Access:
        """How the service is reached, with the password itself."""
        return Access(
            data=str(self.data),
            auth_url=self.auth_url,
            base_url=self.base_url,
            realtime_url=self.realtime_url,
            username=self.username,
            password=None if self.password is None else self.password.get_secret_value(),
            contact=self.contact,
            anonymous=self.anonymous,
            allow_http=self.allow_http,
            min_free_gb=self.min_free_gb,
            requests_per_second=self.requests_per_second,
            use_sandbox=self.sandbox,
        )

    @property
    def dagster_home(self) -> Path:
        """Folder of the Dagster instance: run history, logs, schedules."""
        return self.data / "dagster"


#: Every setting. A variable that is not here is not read, and one that looks like a setting is reported.
NAMES = tuple(str(field.validation_alias) for field in Settings.model_fields.values())


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each variable of an environment (default: this process's) that looks like a setting and is none."""
    known = (*NAMES, *_READ_ELSEWHERE)
    sentences = []
    for name in sorted(os.environ if environ is None else environ):
        if name.upper().startswith("WME_") and name not in known:
            near = get_close_matches(name.upper(), known, 1)
            hint = f"did you mean {near[0]}?" if near else "the README lists all settings."
            sentences.append(f"{name} is not a setting and has no effect; {hint}")
    return sentences


def load_env_file() -> None:
    """Take the variables of the settings file into the environment, where that does not have them already.

    The file is the one that WME_ENV_FILE names, by default the project's `.env`, which may be absent.

    Raises:
        SettingsError: The file is none, cannot be read, or is no text.
    """
    path = values.env_file()
    if is_named := bool(os.environ.get(values.ENV_FILE)):
        os.environ[values.ENV_FILE] = str(path)  # absolute, for processes that are started in other folders
    try:
        text = files.read(path, most=_ENV_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, files.UnusableFileError) as error:
        if isinstance(error, FileNotFoundError) and not is_named:
            return
        why = (
            error.what
            if isinstance(error, files.UnusableFileError)
            else getattr(error, "strerror", "it is no UTF-8 text")
        )
        text, problem = "", f"{why}"
    else:
        problem = "it has a zero byte" if "\0" in text else ""
    if problem:
        raise SettingsError(
            f"The settings file {path} cannot be read ({problem}). Nothing was started. Correct the file, or remove it."
        )
    load_dotenv(stream=io.StringIO(text))


def read_data(environ: Mapping[str, str] | None = None) -> Path:
    """The data folder, absolute, for what needs no other setting. A relative one lies in the folder of the settings file.

    Raises:
        SettingsError: It cannot be used.
    """
    named = (os.environ if environ is None else environ).get("WME_DATA", "").strip()
    return values.data("WME_DATA", named or "data")


def read(environ: Mapping[str, str] | None = None, *, scoped: bool = True) -> Settings:
    """The settings of an environment (default: this process's).

    Args:
        environ: Variables.
        scoped: The mirrored projects are needed. Without it, an account without WME_PROJECTS has none.

    Raises:
        SettingsError: A value cannot be used; nothing was touched.
    """
    environ = os.environ if environ is None else environ
    given = {name: text for name in NAMES if (text := environ.get(name, "").strip())}
    try:
        settings = Settings.model_validate(given)
    except ValidationError as error:
        raise error.errors(include_input=False)[0]["ctx"]["error"] from None
    has_account = settings.username is not None or settings.anonymous
    if "WME_SANDBOX" not in given and "WME_PASSWORD" in given and not has_account:
        raise SettingsError(
            "WME_PASSWORD is set and WME_USERNAME is not. Set both for an account, none for the sandbox, or WME_SANDBOX=1."
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
    if not values.words("", given.get("WME_PROJECTS", "")):
        if not scoped:
            return settings.model_copy(update={"projects": ()})
        raise SettingsError(
            "WME_PROJECTS is not set. With an account it must name the projects to mirror, for example "
            "WME_PROJECTS=enwiki,frwiki: unset never means all nine hundred."
        )
    return settings
