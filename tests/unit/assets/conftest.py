"""A mirror of one hour: a service on loopback that serves real archives, and a data folder."""

import gzip
import json
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg
import pytest

from assets.published import WHEN_DUE, published_warehouse
from assets.steps import hour as batches
from assets.steps.converting import convert_archives
from assets.steps.hourly_run import HourlyRun
from resources.adapters import ConfiguredEngine, ConfiguredEnterprise, ConfiguredLake, ConfiguredWarehouse
from resources.datasets import ARTICLE_CHANGES, named
from resources.engine import Engine, line_reporter
from resources.enterprise import EnterpriseClient
from resources.formatting import hour_text
from resources.lake import Converter, Layout
from resources.settings import Settings
from tests.builds import OpenWarehouse, drop_all, lay
from tests.unit.enterprise.conftest import HOUR, QUICK, Clock
from tests.unit.enterprise.fake_service import FakeService
from tests.unit.enterprise.loopback import json_reply
from tests.unit.lake.conftest import tar_bytes

NEXT = HOUR + timedelta(hours=1)


def record(number, project="enwiki", **changes):
    """A record of the service's form; `changes` replace whole fields."""
    at = "2026-11-01T05:10:1"
    event = {"identifier": f"{project}-{number}", "type": "update"}
    event |= {"date_created": f"{at}1.123Z", "date_published": f"{at}2.123456Z"}
    return {
        "name": f"Page {number}", "identifier": number, "date_modified": f"{at}1Z", "event": event,
        "version": {"identifier": 9000 + number}, "namespace": {"identifier": 0}, "is_part_of": {"identifier": project},
        "article_body": {"html": f"<p>{number}</p>", "wikitext": f"text {number}"},
    } | changes  # fmt: skip


def listed(project="enwiki", namespace=0, **fields):
    """The service's record of a file, with these fields besides."""
    of = {"is_part_of": {"identifier": project}, "namespace": {"identifier": namespace}}
    return {"identifier": f"{project}_namespace_{namespace}"} | of | fields


def write_set(folder, version, files, at):
    """Note that a version of a snapshot has these files (names by their version), as its download does."""
    named_files = [{"name": name, "identifier": name.partition(".")[0], "version": of} for name, of in files.items()]
    snapshot = listed(version=version, date_modified=None if at is None else at.isoformat())
    path = folder / f"{snapshot['identifier']}.{version[:8]}.set.json"
    path.write_text(json.dumps({"snapshot": snapshot, "files": named_files}))
    return path


def archive_bytes(identifier, *records):
    """A tar.gz with one member of these records; bytes are lines as they are."""
    lines = (one if isinstance(one, bytes) else json.dumps(one).encode() for one in records)
    data = b"".join(line + b"\n" for line in lines)
    return gzip.compress(tar_bytes([(f"{identifier}_0.ndjson", data)]), 1, mtime=0)


class Bench:
    """Everything that the steps of an hour work with. `said` holds the lines of progress."""

    def __init__(self, data, fake, client, clock, converter):
        self.data, self.layout, self.said = data, Layout(data), []
        self.fake, self.client, self.clock, self.converter = fake, client, clock, converter
        self.engine = Engine(workers=2, reporter=line_reporter(self.said.append, seconds=3600))

    @property
    def warehouse(self):
        return OpenWarehouse(self.data, lock_timeout=5.0, clock=self.clock)

    def serve(self, project, *records, namespace=0, **lies):
        """Export the hour's file of a project (anew); numbers stand for records. Returns its version."""
        identifier = f"{project}_namespace_{namespace}"
        lines = [record(one, project) if isinstance(one, int) else one for one in records]
        return str(self.fake.add(identifier, archive_bytes(identifier, *lines), **lies)["version"])

    def serve_next(self, times=1):
        """Have the next hour listed with no file in it."""
        self.fake.script("/v2/batches/2026-11-01/06", *[json_reply([])] * times)

    def know(self, kind, *names):
        path = self.layout.list_archive(named(kind))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([{"identifier": name} for name in names]))

    def plan(self, *scope):
        return batches.plan_hour(HOUR, self.client, self.layout, scope, ARTICLE_CHANGES)

    def fetch(self, *scope):
        return batches.fetch_hour(self.plan(*scope), self.client, self.layout, self.engine)

    def convert(self, archived, bodies=("html", "wikitext")):
        how = {"bodies": bodies, "converter": self.converter, "engine": self.engine}
        return convert_archives(hour_text(archived.plan.hour), archived.archives, self.layout, **how)

    def downloads(self):
        return len(self.fake.api.seen("*/download"))

    def states(self):
        rows = self.warehouse.coverage(published=False, dataset=ARTICLE_CHANGES)
        return {(row.batch_hour, row.project_id, row.namespace_id): row.state for row in rows}

    def resources(self, *projects, min_free_gb=0.0, publish_minutes=0.0):
        """The resources of the assets, on this bench's service and clock."""
        bench = self

        class OnClock(ConfiguredEnterprise):
            @contextmanager
            def client(self):
                yield bench.client

        class OfWarehouse(ConfiguredWarehouse):
            @property
            def warehouse(self):
                return bench.warehouse

        every = None if publish_minutes is None else timedelta(minutes=publish_minutes)
        how = {"projects": projects or ("enwiki",), "min_free_gb": min_free_gb, "publish_every": every}
        settings = Settings(data=self.data, **how)
        return {"enterprise": OnClock(settings), "lake": ConfiguredLake(settings), "warehouse": OfWarehouse(settings)}

    def run(self, *projects, min_free_gb=0.0):
        """A run over hours that nothing was done of."""
        own = self.resources(*projects, min_free_gb=min_free_gb)
        return HourlyRun(**own, converter=self.converter, engine=self.engine, dataset=ARTICLE_CHANGES)


@pytest.fixture
def bench(tmp_path):
    """A bench whose service has an hour (HOUR) without a file, and whose clock stands behind the end of the next."""
    clock = Clock()
    clock.advance(hours=1)
    with (
        FakeService(clock) as fake,
        EnterpriseClient(fake.service(), tmp_path / "state", clock=clock, retry=QUICK) as client,
        Converter(workers=1) as converter,
    ):
        made = Bench(lay(tmp_path / "data"), fake, client, clock, converter)
        made.know("projects", "dewiki", "enwiki", "frwiki", "itwiki")
        made.know("namespaces", 0, 14)
        yield made
        drop_all(tmp_path)


@pytest.fixture(scope="session")
def _history():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def instance(_history):
    """Dagster's history without a run in it; to make one takes ten times as long as to empty it."""
    yield _history
    _history.wipe()


@pytest.fixture
def publish(bench, instance):
    """`publish(minutes, *projects)`: materialize the published file; `tags`: of its run. Returns the metadata."""

    def run(minutes, *projects, tags=WHEN_DUE):
        own = bench.resources(*projects, publish_minutes=minutes)
        own["engine"] = ConfiguredEngine(Settings(threads=1))
        result = dg.materialize([published_warehouse()], instance=instance, resources=own, tags=tags)
        (made,) = result.asset_materializations_for_node("published__warehouse")
        return {name: value.value for name, value in made.metadata.items()}

    return run
