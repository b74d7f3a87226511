"""Layers that follow the one before them, evaluated as the automation sensors do.

The instance and the mirror are real.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.layers import key_of
from tests.integration.daemon import offered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.daemon import Daemon

ARCHIVE, LAKE, WAREHOUSE = "archive/batches", "lake/article_changes", "warehouse/article_changes"


class Sensors:
    """The automation sensors of a mirror, each with what it remembers between its ticks."""

    def __init__(self, mirror: Daemon) -> None:
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
        assert {key.path[0] for key in keys} == {layer}
        asked = {key.to_user_string(): found.get_requested_partitions(key) for key in sorted(keys)}
        return {key: sorted(partitions) for key, partitions in asked.items() if partitions}


def hours_of(mirror: Daemon, count: int) -> Sequence[datetime]:
    return offered(mirror.sandbox, datetime.now(UTC) - timedelta(minutes=5))[-count:]


def test_what_was_materialized_alone_is_followed_layer_by_layer_and_nothing_else(daemon):
    first, second, third = hours_of(daemon, 3)
    assert daemon.materialize([first], ARCHIVE).success  # before the sensors were turned on
    sensors = Sensors(daemon)
    assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})

    assert daemon.materialize([second, third], ARCHIVE).success
    wanted = [key_of(second), key_of(third)]
    assert sensors.tick("warehouse") == {}
    assert sensors.tick("lake") == {LAKE: wanted}
    assert sensors.tick("lake") == {}
    assert daemon.materialize([second, third], LAKE).success
    assert sensors.tick("lake") == {}
    assert sensors.tick("warehouse") == {WAREHOUSE: wanted}
    assert daemon.materialize([second, third], WAREHOUSE).success
    assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})
    assert daemon.warehouse.pending_hours() == [second, third]

    assert daemon.materialize([first, second]).success  # through all layers
    for _ in range(2):
        assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})


def test_a_failure_is_asked_for_once_and_then_left_to_people(daemon):
    (hour,) = hours_of(daemon, 1)
    sensors = Sensors(daemon)
    assert sensors.tick("lake") == {}
    assert daemon.materialize([hour], ARCHIVE).success
    (archive,) = (daemon.settings.data / "archive" / "batches").glob("**/*.tar.gz")
    archive.write_bytes(b"no archive")
    assert sensors.tick("lake") == {LAKE: [key_of(hour)]}
    assert not daemon.materialize([hour], LAKE).success
    assert [sensors.tick("lake") for _ in range(3)] == [{}, {}, {}]
    assert sensors.tick("warehouse") == {}


def test_lists_follow_as_well_and_lookups_are_no_layers(daemon):
    sensors = Sensors(daemon)
    assert (sensors.tick("lake"), sensors.tick("warehouse")) == ({}, {})
    assert daemon.execute("reference", asset_selection=[dg.AssetKey(["archive", "reference"])]).success
    assert sensors.tick("lake") == {f"lake/{name}": [None] for name in ("codes", "languages", "namespaces", "projects")}
    carried = {
        key for key, node in daemon.defs.resolve_asset_graph()._asset_nodes_by_key.items() if node.automation_condition
    }
    assert not {key for key in carried if "lookups" in key.path or "live_changes" in key.path}
