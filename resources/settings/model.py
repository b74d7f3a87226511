"""Declarations of all settings, each with its variable, default, bounds, description, and advice for invalid values.

Commands read settings from the environment, and resources hold the values. The Dagster launchpad offers the numeric
settings that a run can change.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from resources.datasets import Dataset
from resources.enterprise import Service
from resources.settings import types
from resources.settings.types import SettingsError, Write

#: Maximum length of a value in an error message.
_SHOWN = 60


class Settings(BaseModel):
    """All settings, as documented in `docs/settings.md` and `.env.example`."""

    model_config = ConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_default=True,
        alias_generator=lambda field: f"WME_{field.upper()}",
    )

    # the service stores user names in lower case
    username: Annotated[str, StringConstraints(to_lower=True)] | None = Field(
        None, description="The account's user name. The sandbox is used if no account is configured.", examples=["you"]
    )
    password: SecretStr | None = Field(None, description="The account's password.")
    projects: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")], ...],
        types.of_text(types.split),
        Write("database names such as enwiki or zh_yuewiki, separated by commas"),
    ] = Field(
        ("enwiki", "frwiki", "simplewiki"),
        description="Projects to mirror, separated by commas. Required if an account is configured. Default: the "
        "sandbox's three projects.",
        examples=["enwiki,frwiki"],
    )
    namespaces: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        types.of_text(types.split),
        Write("namespace numbers (0, 6, 10, 14), separated by commas"),
    ] = Field(
        (0,),
        description="Namespaces to mirror: 0 (article), 6 (file), 10 (template), 14 (category). Default: `0`.",
        examples=["0"],
    )
    wikidata: types.Flag = Field(
        False,
        description="Set to `1` to mirror Wikidata items and properties as well. Wikidata is far larger than any other "
        "project. Default: `0`.",
        examples=["1"],
    )
    bodies: Annotated[
        tuple[Literal["html", "wikitext"], ...],
        types.of_text(lambda text: () if text == "none" else types.split(text)),
        Write("one of html / wikitext / html,wikitext / none"),
    ] = Field(
        types.BODIES,
        description="Page text formats to store: `html`, `wikitext`, both, or `none`. Default: `html,wikitext`.",
        examples=["html,wikitext"],
    )
    data: types.Folder = Field(
        "data",  # type: ignore[assignment]  # made absolute when it is read
        description="Folder for all downloaded and created data. Relative paths are resolved against the "
        "folder that contains `.env` (or the `--env-file`). `~/` is the home folder. `*`, `?` and `[` are not allowed. "
        "Default: `data`.",
        examples=["data"],
    )
    contact: str | None = Field(
        None,
        description="Operator contact to send to the service in the User-Agent header. Default: none.",
        examples=["ops@example.org"],
    )
    anonymous: types.Flag = Field(
        False,
        description="Set to `1` if the service accepts requests from your IP address without a token. Default: `0`.",
        examples=["1"],
    )
    sandbox: types.Flag = Field(
        default_factory=lambda given: given.get("username") is None and not given.get("anonymous"),
        description="Set to `1` to always use the sandbox, or to `0` to never use it. Default: `1` if no account is "
        "configured.",
        examples=["1"],
    )
    min_free_gb: types.Gigabytes = Field(
        1.0, description="Disk space (GB) that runs leave free. Default: `1`.", examples=["1"]
    )
    max_record_mb: Annotated[
        int,
        Field(ge=16, le=1024),
        Write(
            "a maximum record length in MiB: a whole number from 16 to 1024. Conversion requires memory equal to "
            "twelve times a record's length"
        ),
    ] = Field(
        64,
        description="Maximum length of a record to convert, from 16 to 1024 MiB. Longer records are stored unmodified "
        "in `rejects`. Conversion requires memory equal to twelve times a record's length. Default: `64`.",
        examples=["64"],
    )
    engine: Annotated[
        str,
        StringConstraints(pattern=r"^(threads|dask://([\w.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5})$"),
        Write("threads, or the URL of a Dask scheduler, for example dask://host:8786"),
    ] = Field(
        "threads",
        description="Engine that converts archives and compacts lake files. Use `threads` for local threads, or the "
        "URL of a Dask scheduler (`dask://host:8786`). Default: `threads`.",
        examples=["dask://127.0.0.1:8786"],
    )
    workers: Annotated[int, Field(ge=1, le=64), Write("a whole number from 1 to 64")] = Field(
        4, description="Number of parallel downloads. Default: `4`.", examples=["4"]
    )
    threads: Annotated[int | None, Field(ge=1, le=1024), Write("a whole number from 1 to 1,024")] = Field(
        None, description="Number of conversion threads per process. Default: one per core.", examples=["2"]
    )
    memory_mb: Annotated[
        int | None,
        Field(ge=256, le=types.LARGEST),
        Write("a memory limit in MiB: a whole number of at least 256 (enough for one worker), for example 2048"),
    ] = Field(
        None,
        description="Conversion memory limit (MiB) per process. A low memory limit also reduces the number of threads. "
        "Default: a quarter of the memory available to the process, at least 512.",
        examples=["2048"],
    )
    first_hour: Annotated[
        datetime | None, types.of_text(types.hour), Write("an hour in UTC, for example 2026-11-20T05")
    ] = Field(
        None,
        description="First hour (UTC) to show in the Dagster UI. Archived hours are always shown. Default: the oldest "
        "hour that was available when the data folder was first used.",
        examples=["2026-11-20T05"],
    )
    grace_hours: types.Hours = Field(
        24.0,
        description="Number of hours to keep replaced files for readers of an older published file. Default: `24`.",
        examples=["24"],
    )
    requests_per_second: Annotated[
        float | None,
        Field(ge=types.SLOWEST, le=types.LARGEST, allow_inf_nan=False),
        Write(f"a number of requests per second from {types.SLOWEST} to {types.LARGEST:,}, for example 10"),
    ] = Field(
        None,
        description="Maximum number of requests per second, if the vendor has specified a limit. Each process applies "
        "the limit separately. Default: adjusted automatically after 429 responses.",
        examples=["10"],
    )
    watchlist: Annotated[Path | None, types.of_text(types.file)] = Field(
        None,
        description="File that lists the pages to look up when they change. Each line has a project, a space and a "
        "title. A relative path is resolved against the folder that contains `.env`. Default: none.",
        examples=["watchlist.txt"],
    )
    lookups_per_day: Annotated[int, Field(ge=0, le=types.LARGEST), types.COUNT] = Field(
        100,
        description="Maximum number of lookups per UTC day for the watch list, repairs and checks. Default: `100`.",
        examples=["100"],
    )
    check_pages: Annotated[int | None, Field(ge=0, le=types.LARGEST), types.COUNT] = Field(
        None,
        description="Number of pages in `articles` to compare with the service each day. Default: `10` with a paid "
        "account, otherwise none.",
        examples=["10"],
    )
    publish_every: Annotated[
        timedelta | None,
        types.of_text(types.publication),
        Write(f"run (after every run), the number of minutes between publications (up to {types.LARGEST:,}), or off"),
    ] = Field(
        timedelta(0),
        validation_alias="WME_PUBLISH",
        description="Publication schedule: `run` (after every run), the minimum interval in minutes, or `off`. "
        "Default: `run`.",
        examples=["run"],
    )
    storage_version: Annotated[
        Literal["v1.5.0", "v2.0.0"] | None,
        Write("a DuckDB storage version, either v1.5.0 or v2.0.0"),
    ] = Field(
        None,
        description="Storage version of the DuckDB files: `v1.5.0` for DuckDB 1.5 and later, or `v2.0.0`. The version "
        "cannot be lowered. Default: unchanged for existing files, and `v1.5.0` for new files.",
        examples=["v1.5.0"],
    )
    ui_hosts: Annotated[
        tuple[Annotated[str, AfterValidator(types.known_host)], ...],
        types.of_text(types.split),
        Write(
            "host names without https:// or a path, separated by commas, for example mirror.example.org or "
            "mirror.example.org:8443"
        ),
    ] = Field(
        (),
        description="Public host names of the Dagster UI behind a proxy, separated by commas. Include ports other than "
        "80 and 443. The UI rejects other host names, except `localhost` and `127.0.0.1`. Default: none.",
        examples=["mirror.example.org"],
    )
    on_failure: Annotated[
        Annotated[SecretStr, AfterValidator(types.hook)] | None,
        Write(
            "https://host/path, or a program with shell-quoted arguments, for example "
            "/usr/local/bin/notify --channel mirror",
            hidden=True,
        ),
    ] = Field(
        None,
        description="Hook for failed Dagster runs. An `http(s)://` URL receives a JSON document in a POST request. A "
        "program receives the document on standard input. Default: none.",
        examples=["https://ops.example.org/hooks/mirror"],
    )
    auth_url: types.Url = Field(Service.auth_url, description="URL of the login service. Default: the real service.")
    base_url: types.Url = Field(Service.base_url, description="URL of the content service. Default: the real service.")
    realtime_url: types.Url = Field(
        Service.realtime_url, description="URL of the realtime service. Default: the real service."
    )
    allow_http: types.Flag = Field(
        False,
        description="Set to `1` to allow `http://` URLs that point to other machines. With `http://`, passwords and "
        "tokens are not encrypted on the network. Default: `0`, which allows `http://` only for the local machine.",
        examples=["1"],
    )

    def check(self) -> None:
        """Raise SettingsError if a run changed a numeric setting to an invalid value.

        Steps call this method, because Dagster retries runs that fail before their first step.
        """
        try:
            type(self).model_validate(dict(self))
        except ValidationError as error:
            raise SettingsError(f"{sentence(error.errors()[0], by_field=True)} Nothing was done.") from None

    def service(self) -> Service:
        """Return the service and the account. Raises InvalidRequest if an address is invalid."""
        names = ("auth_url", "base_url", "realtime_url", "username", "contact", "anonymous", "allow_http")
        password = None if self.password is None else self.password.get_secret_value()
        return Service(**{name: getattr(self, name) for name in names}, password=password)

    @property
    def scope(self) -> tuple[tuple[str, int], ...]:
        """Mirrored (project, namespace) pairs, in configured order."""
        return tuple((project, namespace) for project in self.projects for namespace in self.namespaces)

    def scope_of(self, dataset: Dataset) -> tuple[tuple[str, int], ...]:
        """Return a dataset's mirrored (project, namespace) pairs, or an empty tuple if the dataset is not mirrored."""
        if dataset.places:
            return dataset.places if self.wikidata else ()
        return self.scope

    @property
    def dagster_home(self) -> Path:
        """Folder of the Dagster instance, which contains the run history, logs and schedules."""
        return self.data / "dagster"


#: Names of all setting variables. Other variables are ignored, but similar names are reported.
NAMES = tuple(str(field.validation_alias) for field in Settings.model_fields.values())
_FIELDS = dict(zip(NAMES, Settings.model_fields, strict=True))


def sentence(fault: ErrorDetails, *, by_field: bool = False) -> str:
    """Return an error message for an invalid value, with the variable's name or (if `by_field`) the field's name."""
    name, *inner = map(str, fault["loc"])
    field = _FIELDS.get(name, name)
    said = next((one for one in Settings.model_fields[field].metadata if isinstance(one, Write)), None)
    shown = field if by_field else name
    if said is None:
        return f"{shown} is not valid: {fault['msg']}."
    if said.hidden:
        return f"{shown} is not valid (the value is hidden because it might contain a secret); use {said.words}."
    text = repr(fault["input"])
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{shown} {'has' if inner else 'is'} {text}; use {said.words}."
