"""The bench of the assets, for what runs them."""

from tests.unit.assets.conftest import bench

__all__ = ["bench"]
