"""Generate the last tables of `docs/endpoints.md` and `docs/assumptions.md`.

Paths come from the interface description, routes from the sandbox, assets from the declared datasets; what is declared
here is the call of the client, the command and the test. A cell without a name begins with a dash and says why.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from resources import datasets
from resources.datasets import Dataset, Family
from resources.sandbox.api import streams
from resources.sandbox.api.app import OPERATIONS as DATA
from resources.sandbox.files import read_yaml
from tests.documents import ROOT

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
        paid="Requires a paid account." in one["description"],
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


_LIST_HAS_IT = "- the list contains every record"
_ADMINISTRATION = "- for monitoring"
_STREAM = "- endless stream"
_STREAM_READ = f"{_SANDBOX}streams.py::test_everything_that_is_kept_each_event_once"
_ONLY_METADATA = f"{_SANDBOX}metadata.py::test_lists_and_single_records_by_get_and_post"
_NOT_MIRRORED = "- not mirrored"
_DESCRIBED = f"{_SANDBOX}clients.py::test_answers_are_as_described"
_BY_NAME: dict[str, Reach] = {
    "login": _account("login", "login", "test_login_hands_out_tokens_that_open_data"),
    "token-refresh": _account("refresh", "refresh", "test_makes_another_access_token_and_no_refresh_token"),
    "token-revoke": _account("revoke", "revoke", "test_a_revocation_ends_the_refresh_token_and_what_came_from_it"),
    "forgot-password": _account(
        "forgot_password", "forgot-password", "test_is_replaced_with_the_newest_code_of_the_outbox"
    ),
    "forgot-password-confirm": _account("confirm_password", "confirm-password", "test_wrong_codes_and_weak_passwords"),
    "change-password": _account("change_password", "change-password", "test_a_password_is_changed"),
    "new-password-required": _account("new_password", "new-password", "test_an_invitation_and_its_challenge"),
    "get-user": _account("user", "status", "test_an_account_tells_groups_counters_and_permissions"),
    "snapshots": Reach("snapshots.listing", "snapshots list", f"{_SANDBOX}snapshots.py::test_the_list"),
    "snapshot": Reach("snapshots.record", "snapshots show ID", f"{_SANDBOX}snapshots.py::test_one_record"),
    "snapshot-download": Reach(
        "snapshots.fetch",
        "snapshots download ID",
        f"{_SANDBOX}snapshots.py::test_a_download_and_its_headers",
    ),
    "chunks": Reach("snapshots.chunks", "snapshots chunks ID", f"{_SANDBOX}snapshots.py::test_chunks"),
    "chunk": Reach(
        "lists.record", "snapshots chunks ID CHUNK", f"{_SANDBOX}snapshots.py::test_a_chunk_by_its_name_or_its_number"
    ),
    "chunk-download": Reach(
        "snapshots.fetch", "snapshots download ID", f"{_SANDBOX}snapshots.py::test_a_download_and_its_headers"
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
    """Return the text (Markdown) of each page, by its path; the rows of its last table are generated."""
    rows = {"docs/endpoints.md": _rows(), "docs/assumptions.md": _chosen()}
    return {name: _with_rows(ROOT / name, found) for name, found in rows.items()}


def _with_rows(page: Path, rows: Iterator[str]) -> str:
    before, line, _ = page.read_text().rpartition("|---|\n")
    return before + line + "\n".join(rows) + "\n"


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
    return "- requested individually" if operation.quota == "ondemand" else _NOT_MIRRORED


def _name(cell: str, before: str = "") -> str:
    return cell if cell.startswith("- ") else f"`{before}{cell}`"


def _chosen() -> Iterator[str]:
    for name, choice in read_yaml("choices.yaml").items():
        cells = [choice["statement"], choice["instead"], choice["decided"], choice.get("untried", f"`{name}`")]
        yield f"| {' | '.join(cells)} |"
