"""The bench of the assets, for what runs them."""

from __future__ import annotations

import pytest

from tests.builds import close_all, drop_all
from tests.unit.assets.conftest import bench

__all__ = ["bench"]


@pytest.fixture(autouse=True)
def _dropped(tmp_path):
    yield
    drop_all(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def _closed():
    yield
    close_all()
