"""The bench of the assets, for what runs them."""

from __future__ import annotations

import pytest

from tests.builds import close_all
from tests.unit.assets.conftest import bench

__all__ = ["bench"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    close_all()
