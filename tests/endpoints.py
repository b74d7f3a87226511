"""Generate the pages of the endpoints and of the assumptions about the service: `python -m tests.endpoints`.

Paths come from the interface description, routes from the sandbox, assets from the declared datasets; what is declared
here is the call of the client, the command and the test. A cell without a name begins with a dash and says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources import datasets
from resources.datasets import Family
from resources.sandbox.api import streams
from resources.sandbox.api.app import OPERATIONS as DATA
from resources.sandbox.files import read_yaml
from tests.contract.choices import CHOICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.datasets import Dataset

_ENDPOINTS = """\
# Endpoints

<<<<<<< HEAD
Every endpoint of the [interface description](sandbox.md#what-it-serves), and where it is used, served and tested in
this project. `python -m tests.generated` writes this page; a test notices when it differs from the description or the
code.
=======
This page lists every endpoint of the [interface description](sandbox.md#what-it-serves), and where this project calls, serves and tests it.
`make docs` generates the page.
>>>>>>> 0fe646b1 (Shorten the README, draw its pictures, and add the pages around it)

- *client*: a method, starting from an `EnterpriseClient`
- *command*: the command that calls the method
- *assets*: the assets that send requests to the endpoint
- *sandbox*: a module of `resources/sandbox/api`
- *test*: a function below `tests`

A cell that begins with a dash gives the reason why there is none.

| endpoint | client | command | assets | sandbox | test |
|---|---|---|---|---|---|
"""
_ASSUMPTIONS = """\
# Assumptions about the service

The real service could not be reached while this package was developed. Its behaviour was learnt from the public documentation, from the public source
of August 2025, from the official clients, and from recorded responses. **None of the assumptions below is confirmed.** `make docs` generates this
page from `resources/sandbox/data/choices.yaml`.

To compare them with the service of your account:

```sh
make test-live                          # metadata, listings and lookups; a few units of lookup quota
WME_LIVE_DOWNLOADS=1 make test-live     # two downloads besides
```

The command prints each assumption that it confirmed or refuted.

## Effects on a mirror

| assumption | source | if it is wrong |
|---|---|---|
| Hourly files exist for 48 hours. | documentation of the official clients | Hours expire sooner. `hours` reports them as `past_retention`. |
| Hourly files need a paid account. A free one gets 403. | documentation | A free account can load hours too. |
| Listing and downloading hourly files cost no quota. | public source | Runs spend quota that `wme auth status` shows. |
| Each snapshot, each chunk and each lookup costs one unit. | public source | `wme run --dry-run` reports wrong costs. |
| A refresh token lasts 90 days and 90 uses. | documentation | `wme` logs in again with the password. |
| An hour's file is ready within some minutes after the hour. | recorded responses | Hours are loaded later. The sensor `discover_hours` finds them. |
| Only projects and namespaces with changes are listed for an hour. | recorded responses | Hours are reported as absent although their file failed at the service. |
| The MD5 in a listing is that of the file. | public source | Downloads fail their verification. Nothing unverified is loaded. |

## Choices of the sandbox

The documentation is silent or contradicts itself about these points. The sandbox behaves as the first column says. The last column names the check of
`make test-live`, or the reason why no check exists.

| assumption | alternative | made in | check |
|---|---|---|---|
"""
_SANDBOX = "unit/sandbox/test_service_"


@dataclass(frozen=True)
class Described:
    """One endpoint as the interface description has it: the same for all its methods."""

    name: str
    path: str
    methods: tuple[str, ...]
    area: str
    tag: str
    beta: bool
    paid: bool
    token: bool
    quota: str | None
    #: Name of the schema of the answer, or of each record of it.
    answer: str | None
    many: bool


def _described(path: str, item: dict[str, Any]) -> Described:
    methods = {name.upper(): one for name, one in item.items() if name != "servers"}
    one = next(iter(methods.values()))
    schema = one["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
    counted = re.search(r"Counts against the `(\w+)` quota", one["description"])
    return Described(
        name=one["operationId"].rpartition("-")[0],
        path=path,
        methods=tuple(methods),
        area=item.get("servers", [{"url": "{data}"}])[0]["url"].strip("{}"),
        tag=one["tags"][0],
        beta=one.get("x-beta", False),
        paid="Needs a paid account." in one["description"],
        token=bool(one["security"]),
        quota=counted and counted[1],
        answer=schema.get("items", schema).get("$ref", "").rpartition("/")[2] or None,
        many=schema.get("type") == "array",
    )


OPERATIONS = tuple(_described(path, item) for path, item in read_yaml("interface.yaml")["paths"].items())


@dataclass(frozen=True)
class Reach:
    """How an endpoint is reached: the client's method, the command, and a test that asks it."""

    client: str
    command: str
    test: str


def _account(client: str, command: str, test: str) -> Reach:
    return Reach(f"account.{client}", f"auth {command}", f"{_SANDBOX}authentication.py::{test}")


_LIST_HAS_IT = "- the list has every record"
_ADMINISTRATION = "- for monitoring"
_STREAM = "- answers without an end"
_STREAM_READ = f"{_SANDBOX}streams.py::test_everything_that_is_kept_each_event_once"
_ONLY_METADATA = f"{_SANDBOX}metadata.py::test_lists_and_single_records_by_get_and_post"
_NOT_MIRRORED = "- not mirrored"
_DESCRIBED = f"{_SANDBOX}schemathesis.py::test_answers_are_as_described"
_BY_NAME: dict[str, Reach] = {
    "login": _account("login", "login", "test_login_hands_out_tokens_that_open_data"),
    "token-refresh": _account("refresh", "refresh", "test_makes_another_access_token_and_no_refresh_token"),
    "token-revoke": _account("revoke", "revoke", "test_ends_the_refresh_token_and_what_came_from_it"),
    "forgot-password": _account("forgot_password", "forgot-password", "test_is_replaced_with_the_code_of_the_outbox"),
    "forgot-password-confirm": _account("confirm_password", "confirm-password", "test_wrong_codes"),
    "change-password": _account("change_password", "change-password", "test_changes_it"),
    "new-password-required": _account("new_password", "new-password", "test_first_login_is_answered_with_a_challenge"),
    "get-user": _account("user", "status", "test_tells_groups_counters_and_permissions"),
    "snapshots": Reach("snapshots.listing", "snapshots list", f"{_SANDBOX}snapshots.py::test_the_list"),
    "snapshot": Reach("snapshots.record", "snapshots show ID", f"{_SANDBOX}snapshots.py::test_one_record"),
    "snapshot-download": Reach(
        "snapshots.fetch",
        "snapshots download ID",
        f"{_SANDBOX}snapshots.py::test_a_download_by_redirect_and_its_headers",
    ),
    "chunks": Reach("snapshots.chunks", "snapshots chunks ID", f"{_SANDBOX}snapshots.py::test_chunks"),
    "chunk": Reach(
        "lists.record", "snapshots chunks ID CHUNK", f"{_SANDBOX}snapshots.py::test_a_chunk_by_its_name_or_its_number"
    ),
    "chunk-download": Reach(
        "snapshots.fetch",
        "snapshots download ID",
        f"{_SANDBOX}snapshots.py::test_the_chunks_together_are_the_snapshot",
    ),
    "batches": Reach("hours.listing", "batches HOUR", f"{_SANDBOX}batches.py::test_the_list_of_an_hour"),
    "batch": Reach("hours.record", "batches HOUR ID", f"{_SANDBOX}batches.py::test_one_record"),
    "batch-download": Reach("hours.download", "run", f"{_SANDBOX}batches.py::test_get_is_redirected_to_the_other_port"),
    "articles": Reach(
        "lookups.articles", "article NAME", f"{_SANDBOX}lookups.py::test_a_title_in_every_spelling_of_a_path"
    ),
    "structured-contents": Reach("lookups.structured", "structured NAME", _DESCRIBED),
}


def reach(operation: Described) -> Reach:
    """How an endpoint is reached. The families have the same calls for each of their datasets."""
    if operation.area == "realtime":
        return Reach("stream", "stream" if operation.name == "article-stream" else _NOT_MIRRORED, _STREAM_READ)
    if operation.tag == "Service":
        return Reach(_ADMINISTRATION, _ADMINISTRATION, f"{_SANDBOX}metadata.py::test_open_routes")
    if operation.tag == "Metadata":
        kind = operation.path.split("/")[2]
        return (
            Reach("lists.reference", f"lists {kind}", _ONLY_METADATA)
            if operation.many
            else Reach("lists.record", f"lists {kind} ID", _ONLY_METADATA)
        )
    if operation.tag == "Wikidata":
        labels = " --labels" if operation.answer == "labels" else ""
        return Reach("lookups.entity", f"entity ID{labels}", _DESCRIBED)
    plain = operation.name.removeprefix("wikidata-").removeprefix("structured-")
    if operation.name in _BY_NAME:
        return _BY_NAME[operation.name]
    way = replace(_BY_NAME[plain], test=_DESCRIBED)
    named = [f"{way.command} --dataset {one.name}" for one in _asking(operation)]
    return replace(way, command=(named or [_NOT_MIRRORED])[0] if way.command != "run" else way.command)


def _asking(operation: Described) -> list[Dataset]:
    """The datasets whose own paths begin as the operation's does."""
    place = operation.path.partition("{")[0].strip("/").removeprefix("v2/")
    return [one for one in datasets.datasets() if one.endpoint == place and operation.area == "data"]


def assets(operation: Described) -> tuple[str, ...]:
    """The assets that ask an endpoint: the archives of the datasets that do."""
    found = _asking(operation)
    if any(one.family is Family.LIST for one in found) and not operation.many:
        return ()
    return tuple(sorted({f"archive/{one.archive}" for one in found}))


def pages() -> dict[str, str]:
    """Return the text (Markdown) of each generated page, by its path below `docs`."""
    return {
        "endpoints.md": _ENDPOINTS + "\n".join(_rows()) + "\n",
        "assumptions.md": _ASSUMPTIONS + "\n".join(_chosen()) + "\n",
    }


def _rows() -> Iterator[str]:
    modules = {one.path: one.handler.__module__.rpartition(".")[2] for one in (*DATA, *streams.OPERATIONS)}
    for operation in OPERATIONS:
        way = reach(operation)
        cells = [
            f"`{', '.join(operation.methods)} {operation.path}`" + (" (Beta)" if operation.beta else ""),
            _name(way.client),
            _name(way.command, "wme "),
            ", ".join(f"`{key}`" for key in assets(operation)) or _without_asset(operation),
            _name(modules.get(operation.path, "- not served")),
            _name(way.test),
        ]
        yield f"| {' | '.join(cells)} |"


def _without_asset(operation: Described) -> str:
    if operation.area == "authentication" or operation.tag == "Service":
        return "- no data"
    if operation.area == "realtime":
        return _STREAM
    if operation.tag == "Metadata":
        return _LIST_HAS_IT
    return "- asked for singly" if operation.quota == "ondemand" else _NOT_MIRRORED


def _name(cell: str, before: str = "") -> str:
    return cell if cell.startswith("- ") else f"`{before}{cell}`"


def _chosen() -> Iterator[str]:
    for choice in CHOICES:
        cells = [choice.statement, choice.instead, choice.decided, choice.untried or f"`{choice.name}`"]
        yield f"| {' | '.join(cells)} |"
<<<<<<< HEAD
=======


if __name__ == "__main__":
    for name, text in pages().items():
        (Path(__file__).resolve().parents[1] / "docs" / name).write_text(text)
>>>>>>> 0fe646b1 (Shorten the README, draw its pictures, and add the pages around it)
