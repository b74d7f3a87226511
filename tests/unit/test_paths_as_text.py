"""Paths may be strings wherever people begin: constructors and functions that the guides name."""

import inspect
from datetime import UTC, datetime

import pytest

from pipelines.notebook import connect
from pipelines.operations import backup, restore
from pipelines.report import page
from resources import sandbox
from resources.enterprise import (
    EnterpriseClient,
    Hours,
    Lists,
    Service,
    ServiceFiles,
    Sidecar,
    Snapshots,
    is_landed,
    read_listing,
    read_set,
)
from resources.enterprise.listing import Listing
from resources.lake import Archive, Layout
from resources.warehouse import Warehouse

HOUR = datetime(2026, 11, 20, 5, tzinfo=UTC)


def test_each_door_takes_a_string(tmp_path):
    folder = str(tmp_path)
    assert Layout(folder) == Layout(tmp_path)
    assert Warehouse(folder).published_path == tmp_path / "warehouse.duckdb"
    assert Archive(f"{folder}/x", "x", "1", HOUR, "enwiki", 0).path == tmp_path / "x"
    assert sandbox.Settings(state=folder, corpus=folder) == sandbox.Settings(state=tmp_path, corpus=tmp_path)
    assert sandbox.find(folder) is None
    assert not is_landed(f"{folder}/x", "1")
    for missing in (read_listing, read_set):
        with pytest.raises(FileNotFoundError):
            missing(f"{folder}/x")


def test_the_client_takes_a_string(tmp_path):
    service = Service("http://127.0.0.1:9", "http://127.0.0.1:9", "http://127.0.0.1:9", "somebody", "Passw0rd-1")
    with EnterpriseClient(service, state=str(tmp_path / "state")) as client:
        assert not client.account.status().logged_in
        landed = client.lists.land(Listing(b"[]", (), "/v2/projects", HOUR, 1), str(tmp_path / "list.json"))
    assert Sidecar.read(str(tmp_path / "list.json")) == landed
    with pytest.raises(TypeError, match=r"os\.PathLike"):
        EnterpriseClient(service, state=None)  # type: ignore[arg-type]


def test_no_entry_point_is_declared_to_take_a_path_object_only():
    kinds = (EnterpriseClient, Hours, Lists, ServiceFiles, Snapshots, Warehouse)
    functions = [
        *kinds,
        is_landed,
        read_listing,
        read_set,
        backup.plan,
        backup.take,
        restore.restore,
        page.write,
        connect,
    ]
    members = [one for kind in kinds for one in vars(kind).items() if not one[0].startswith("_") and callable(one[1])]
    functions += [member for _, member in members]
    declared = [
        (function.__qualname__, name, str(parameter.annotation))
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    paths = [one for one in declared if "Path" in one[2]]
    assert len(paths) > 15
    assert [one for one in paths if "StrPath" not in one[2] and "str |" not in one[2]] == []
