"""Generate the last tables of `docs/endpoints.md` and `docs/assumptions.md`.

Paths come from the interface description, routes from the sandbox, assets from the declared datasets. The page itself
names the call of the client, the command and the test. A cell without a name begins with a dash and says why.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from resources import datasets
from resources.datasets import Dataset, Family
from resources.sandbox.api import streams
from resources.sandbox.api.app import OPERATIONS as DATA
from resources.sandbox.files import read_yaml
from tests.documents import DOCS, ROOT


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


@cache
def _ways() -> dict[str, Reach]:
    rows = (DOCS / "endpoints.md").read_text().rpartition("|---|\n")[2].splitlines()
    cells = [[cell.strip("` ").removeprefix("wme ") for cell in row.strip("|").split("|")] for row in rows]
    return {title: Reach(client, command, test) for title, client, command, _, _, test in cells}


def reach(operation: Described) -> Reach:
    """How an endpoint is reached; a `KeyError` names an endpoint that the page leaves out."""
    return _ways()[_title(operation).strip("` ")]


def _title(operation: Described) -> str:
    return f"`{', '.join(operation.methods)} {operation.path}`" + (" (Beta)" if operation.beta else "")


def asking(operation: Described) -> list[Dataset]:
    """The datasets whose own paths begin as the operation's does."""
    place = operation.path.partition("{")[0].strip("/").removeprefix("v2/")
    return [one for one in datasets.datasets() if one.endpoint == place and operation.area == "data"]


def assets(operation: Described) -> tuple[str, ...]:
    """The assets that ask an endpoint: the archives of the datasets that do."""
    found = asking(operation)
    if any(one.family is Family.LIST for one in found) and not operation.many:
        return ()
    return tuple(sorted({f"archive/{one.archive}" for one in found}))


def pages() -> dict[str, str]:
    """Return the text (Markdown) of each page, by its path; the rows of its last table are generated."""
    found = {}
    for name, rows in (("docs/endpoints.md", _rows()), ("docs/assumptions.md", _chosen())):
        before, line, _ = (ROOT / name).read_text().rpartition("|---|\n")
        found[name] = before + line + "\n".join(rows) + "\n"
    return found


def _rows() -> Iterator[str]:
    modules = {one.path: one.handler.__module__.rpartition(".")[2] for one in (*DATA, *streams.OPERATIONS)}
    for operation in OPERATIONS:
        way = reach(operation)
        cells = [
            _title(operation),
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
        return "- endless stream"
    if operation.tag == "Metadata":
        return "- the list contains every record"
    return "- requested individually" if operation.quota == "ondemand" else "- not mirrored"


def _name(cell: str, before: str = "") -> str:
    return cell if cell.startswith("- ") else f"`{before}{cell}`"


def _chosen() -> Iterator[str]:
    for name, choice in read_yaml("choices.yaml").items():
        cells = [choice["statement"], choice["instead"], choice["decided"], choice.get("untried", f"`{name}`")]
        yield f"| {' | '.join(cells)} |"
