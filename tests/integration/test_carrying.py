"""Layers that follow the one before them, evaluated as the automation sensors do.

The instance and the mirror are real.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from assets.layers import key_of
from tests.integration.test_automation import Fresh, fresh, offered, service  # noqa: F401  fixtures

if TYPE_CHECKING:
    from collections.abc import Sequence

ARCHIVE, LAKE, WAREHOUSE = "archive/batches", "lake/article_changes", "warehouse/article_changes"


class Sensors:
    """The automation sensors of a mirror, each with what it remembers between its ticks."""

    def __init__(self, mirror: Fresh) -> None:
        self._mirror = mirror
        self._cursors: dict[str, dg.AssetDaemonCursor | None] = {}

    def tick(self, layer: str) -> dict[str, list[Any]]:
        """The partitions of each asset that a sensor asks for."""
        definition = self._mirror.defs.resolve_sensor_def(f"carry_to_{layer}")
        assert isinstance(definition, dg.AutomationConditionSensorDefinition)
        assert definition.default_status is dg.DefaultSensorStatus.STOPPED
        found = dg.evaluate_automation_conditions(
            self._mirror.defs,
            self._mirror.instance,
            asset_selection=definition.asset_selection,
            cursor=self._cursors.get(layer),
        )
        self._cursors[layer] = found.cursor
        keys = definition.asset_selection.resolve(self._mirror.defs.resolve_asset_graph())
        asked = {key.to_user_string(): found.get_requested_partitions(key) for key in sorted(keys)}
        return {key: sorted(partitions) for key, partitions in asked.items() if partitions}


def hours_of(mirror: Fresh, count: int) -> Sequence[datetime]:
    return offered(mirror.sandbox, datetime.now(UTC) - timedelta(minutes=5))[-count:]


def test_what_was_materialized_alone_is_followed_layer_by_layer_and_nothing_else(fresh):  # noqa: F811
    first, second, third = hours_of(fresh, 3)
    assert fresh.materialize([first], ARCHIVE).success  # before the sensors were turned on
    sensors = Sensors(fresh)
    assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})

    assert fresh.materialize([second, third], ARCHIVE).success
    wanted = [key_of(second), key_of(third)]
    assert sensors.tick("warehouse") == {}
    assert sensors.tick("lake") == {LAKE: wanted}
    assert sensors.tick("lake") == {}
    assert fresh.materialize([second, third], LAKE).success
    assert sensors.tick("lake") == {}
    assert sensors.tick("warehouse") == {WAREHOUSE: wanted}
    assert fresh.materialize([second, third], WAREHOUSE).success
    assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})
    assert fresh.resources["warehouse"].warehouse.pending_hours() == [second, third]

    assert fresh.materialize([first, second]).success  # through all layers
    for _ in range(2):
        assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})


def test_a_failure_is_asked_for_once_and_then_left_to_people(fresh):  # noqa: F811
    (hour,) = hours_of(fresh, 1)
    sensors = Sensors(fresh)
    assert sensors.tick("lake") == {}
    assert fresh.materialize([hour], ARCHIVE).success
    (archive,) = (fresh.settings.data / "archive" / "batches").glob("**/*.tar.gz")
    archive.write_bytes(b"no archive")
    assert sensors.tick("lake") == {LAKE: [key_of(hour)]}
    assert not fresh.materialize([hour], LAKE).success
    assert [sensors.tick("lake") for _ in range(3)] == [{}, {}, {}]
    assert sensors.tick("warehouse") == {}


def test_lists_follow_as_well_and_lookups_are_no_layers(fresh):  # noqa: F811
    sensors = Sensors(fresh)
    assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})
    alone = fresh.defs.resolve_job_def("reference").execute_in_process(
        instance=fresh.instance, asset_selection=[dg.AssetKey(["archive", "reference"])]
    )
    assert alone.success
    assert sensors.tick("lake") == {f"lake/{name}": [None] for name in ("codes", "languages", "namespaces", "projects")}
    carried = {
        key for key, node in fresh.defs.resolve_asset_graph()._asset_nodes_by_key.items() if node.automation_condition
    }
    assert not {key for key in carried if "lookups" in key.path or "live_changes" in key.path}


@pytest.mark.parametrize("layer", ["lake", "warehouse"])
def test_the_sensors_look_at_their_own_layer_alone(fresh, layer):  # noqa: F811
    definition = fresh.defs.resolve_sensor_def(f"carry_to_{layer}")
    graph = fresh.defs.resolve_asset_graph()
    assert {key.path[0] for key in definition.asset_selection.resolve(graph)} == {layer}
