"""Mirrors to report on, and the bench of the assets, for what runs them."""

from datetime import timedelta

import pytest

from pipelines.report.status import collect
from resources import datasets
from resources.settings import Settings
from tests.builds import OpenWarehouse, close_all, lay
from tests.unit.assets.conftest import _history, bench, instance
from tests.unit.enterprise.conftest import client, clock, fake, make_client
from tests.unit.warehouse.conftest import Clock, Lake, _closed, _dropped

__all__ = ["_closed", "_dropped", "_history", "bench", "client", "clock", "fake", "instance", "make_client"]

ONE = timedelta(hours=1)


class Mirror:
    """A data folder with what a test puts there."""

    def __init__(self, data, *, has_snapshots=True):
        self.has_snapshots = has_snapshots
        self.data, self.lake = data, Lake(data)
        self.warehouse = OpenWarehouse(lay(data), lock_timeout=5.0, clock=Clock())
        self.files = {}

    def load(self, number, project="enwiki", tag=""):
        file = self.lake.file(number, [self.lake.change(number + 1, "A", 60 * number + 1)], project, tag=tag)
        if self.has_snapshots and not any(of == project for _, of in self.files):
            self.warehouse.load_snapshot(self.lake.snapshot([[self.lake.change(1, "A", 60 * number + 30)]], project))
        self.warehouse.load_hour(self.lake.hour(number), [file], dataset=datasets.ARTICLE_CHANGES)
        self.files[number, project] = file

    def load_all(self, numbers, *projects):
        for project in projects or ("enwiki",):
            for number in numbers:
                self.load(number, project)

    def publish(self):
        self.warehouse.publish()
        close_all()

    def status(self, newest, hours=48, projects=("enwiki",), **more):
        """As of the minute in which the hour `newest` ended."""
        settings = Settings(data=self.data, **more).model_copy(update={"projects": projects})
        return collect(settings, hours, self.lake.hour(newest) + ONE)


@pytest.fixture
def mirror(tmp_path):
    return Mirror(tmp_path / "data")


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Five hours in a row above a snapshot, published."""
    made = Mirror(tmp_path_factory.mktemp("whole") / "data")
    made.load_all(range(5))
    made.publish()
    return made
