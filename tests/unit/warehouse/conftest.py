"""A lake made by hand: Parquet files of the declared schema, and what a conversion would say of them."""

import contextlib
import hashlib
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.steps.compaction import compact_lake
from resources import datasets
from resources.datasets import LISTS
from resources.engine import Engine
from resources.lake import Layout
from resources.tables import LOOKUPS, REJECTED_LINES
from resources.warehouse import ConvertedFile, LakeFileError, Snapshot, Warehouse
from tests.builds import OpenWarehouse, close, close_all, drop_all, lay, looking, shown

START = datetime(2026, 11, 1, tzinfo=UTC)
#: The bytes of files by the digest of their rows: mirrors that are compared have the same ones.
_written: dict[tuple[str, str], bytes] = {}
ROOT = Path(__file__).parents[3]
#: Tables of a build file, and their columns that tell of when and how often, and not of what.
TABLES = {
    **dict.fromkeys(("article_changes", "articles", "rejects", "internal.titles", "internal.pages"), ""),
    "internal.hidden_rows": "",
    "loads": "EXCLUDE (loaded_at, applied_at)",
    "hours": "EXCLUDE (load_count, checked_at)",
    "snapshots": "EXCLUDE (loaded_at, applied_at)",
}


def lasting(connection, tables=tuple(TABLES)):
    """What does not depend on when and how often a build file was loaded, as comparable text."""
    rows = {table: connection.execute(f"SELECT * {TABLES[table]} FROM {table}").fetchall() for table in tables}
    return {table: sorted(map(repr, of_table)) for table, of_table in rows.items()}


class Lake:
    """Writes lake files below a data folder."""

    def __init__(self, data):
        self.data = data

    @staticmethod
    def hour(number):
        return START + timedelta(hours=number)

    @staticmethod
    def change(article_id, name, minute, change_type="update", **more):
        """One row; `minute` counts from the start and orders the changes."""
        row = {"article_id": article_id, "name": name, "change_type": change_type, "version_id": 1000 + minute}
        row |= {"event_at": START + timedelta(minutes=minute), "event_id": f"event-{article_id}-{minute}-{change_type}"}
        return row | more

    def file(self, hour, rows, project="enwiki", namespace=0, rejects=(), tag="", dataset=datasets.ARTICLE_CHANGES):
        """Writes one file, named by its content; the same rows give the same file."""
        own = {"batch_hour": self.hour(hour), "project_id": project, "namespace_id": namespace}
        folder = f"date={self.hour(hour):%Y-%m-%d}/hour={self.hour(hour):%H}"
        return self.of(dataset, folder, f"{project}_namespace_{namespace}", rows, rejects, tag, **own)

    def of(self, dataset, folder, identifier, rows, rejects=(), tag="", **own):
        """Writes a file of any dataset; `own` columns have the same value in all rows."""
        whole = [dict.fromkeys(dataset.table.schema.names) | row | own for row in rows]
        content = repr((whole, list(rejects), tag)).encode()
        own = {name: own[name] for name in ("batch_hour", "project_id", "namespace_id") if name in own}
        made = self._written(f"{dataset.name}/{folder}", identifier, content, whole, dataset.table, **own)
        if not rejects:
            return made
        # the ledger knows better
        same = {"batch_hour": START - timedelta(days=9), "project_id": "of", "namespace_id": 99}
        same |= {"archive": f"{identifier}.tar.gz", "member": f"{identifier}_0.ndjson", "reason": "not JSON"}
        places = [{"line_number": line, "byte_offset": 10 * line} for line in range(1, len(rejects) + 1)]
        lines = [same | place | {"raw": raw, "raw_bytes": len(raw)} for place, raw in zip(places, rejects, strict=True)]
        rejects_path = self.data / "lake" / "rejects" / folder / made.path.name
        rejects_path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(lines, schema=REJECTED_LINES.schema), rejects_path)
        return replace(made, rejects_path=rejects_path, reject_count=len(rejects))

    def lookups(self, minute, *answers, purpose="repair", project="enwiki", namespace=0):
        """Writes a file of answers that came at `minute`: pairs of an asked title and the row found, or None."""
        moment = START + timedelta(minutes=minute, microseconds=7)
        own = {"project_id": project, "namespace_id": namespace, "source_at": moment}
        asked = {"looked_up_at": moment, "purpose": purpose}
        rows = [
            dict.fromkeys(LOOKUPS.schema.names)
            | {name: value for name, value in (found or {}).items() if name in LOOKUPS.schema.names}
            | {"asked_name": title, "is_found": found is not None}
            | own
            | asked
            for title, found in answers
        ]
        folder = f"lookups/date={moment:%Y-%m-%d}/hour={moment:%H}"
        more = {"update_count": len(rows), **own}
        return self._written(folder, f"{project}_namespace_{namespace}", repr(rows).encode(), rows, LOOKUPS, **more)

    def snapshot(
        self, chunks, project="enwiki", namespace=0, tag="", version=None, rejects=(), of=datasets.SNAPSHOT_ARTICLES
    ):
        """Writes the files of one version, one per list of rows. The same rows are the same version."""
        identifier = f"{project}_namespace_{namespace}"
        version = version or hashlib.md5(repr((chunks, tag)).encode()).hexdigest()
        own = {"snapshot_id": identifier, "snapshot_version": version}
        own |= {"project_id": project, "namespace_id": namespace}
        files = [
            self.of(of, f"{identifier}/{version[:8]}", f"{identifier}_chunk_{n}", rows, rejects, f"{tag} {n}", **own)
            for n, rows in enumerate(chunks)
        ]
        return Snapshot(identifier, version, project, namespace, tuple(files), len(files), START, of)

    def _written(self, folder, identifier, content, rows, table, **more):
        """Writes rows as a lake file, and returns what a conversion says of it."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.data / "lake" / folder / f"{identifier}.{digest[:8]}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        if (digest, table.name) not in _written:
            pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
            _written[digest, table.name] = path.read_bytes()
        path.write_bytes(_written[digest, table.name])
        kinds = Counter(row.get("change_type") for row in rows)
        facts = {"path": path, "rejects_path": None, "identifier": identifier, "digest": digest, "reject_count": 0}
        facts |= {"version": hashlib.md5(content).hexdigest(), "row_count": len(rows)}
        facts |= {"archive_bytes": 111, "ndjson_bytes": 2222, "lake_bytes": path.stat().st_size}
        facts |= {f"{one.replace('-', '_')}_count": kinds[one] for one in ("update", "delete", "visibility-change")}
        return ConvertedFile(**facts | more)

    @staticmethod
    def dataset(name):
        """A list by its name."""
        return next(dataset for dataset in LISTS if dataset.name == name)

    def reference(self, name, rows):
        """Writes a reference table's file."""
        return self.of(self.dataset(name), "", name, rows).path


class Clock:
    """Stands still unless moved."""

    def __init__(self):
        self.now = START + timedelta(hours=30)

    def __call__(self):
        return self.now


def mirror_in(data):
    """A data folder with its lake and warehouse."""
    return SimpleNamespace(data=data, lake=Lake(data), warehouse=_warehouse(data, Clock()))


def compact(made, days=0.0, **more):
    """Compact what is due some days later."""
    made.warehouse._clock.now += timedelta(days=days)
    more = {"memory_bytes": 1 << 18, "threads": 2} | more
    return compact_lake(Layout(made.data), made.warehouse, Engine(workers=1), **more)


def rewritten(made, days=0.0):
    """A compaction of which the rows are written and not taken in: the arguments of its commit."""
    taken, commit = [], made.warehouse.commit_compaction
    made.warehouse.commit_compaction = lambda *args: taken.append(args) or commit(args[0], (), {}, args[3])
    with pytest.raises(LakeFileError, match=r"The compaction of the (day from|version \w{8} of) .* does not match"):
        compact(made, days)
    del made.warehouse.commit_compaction
    return taken[0]


def lake_files(warehouse, view="lake_article_bodies"):
    """The lake files that a view of the published file would read."""
    with shown(warehouse) as connection:
        query = "SELECT sql FROM duckdb_views() WHERE view_name = ?"
        words = [one for (text,) in connection.execute(query, [view]).fetchall() for one in text.split("'")]
    return [one for one in words if one.startswith("/") and one.endswith(".parquet")]


@pytest.fixture(autouse=True)
def _dropped(tmp_path):
    yield
    drop_all(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def _closed():
    yield
    close_all()


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def lake(data):
    return Lake(data)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def warehouse(data, clock):
    return _warehouse(data, clock)


@pytest.fixture
def closing_warehouse(data, clock):
    """A warehouse that closes its files after each operation, for tests of just that."""
    return Warehouse(lay(data), lock_timeout=5.0, clock=clock)


def _warehouse(data, clock):
    return OpenWarehouse(lay(data), lock_timeout=5.0, clock=clock)


@pytest.fixture
def make(tmp_path):
    """A new lake and warehouse each time, for tests that need several."""
    count = iter(range(1_000_000))

    return lambda: mirror_in(tmp_path / f"data-{next(count)}")


@pytest.fixture
def mirror(make):
    return make()


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """The result of `begin(made, ...)` for a new mirror, which is made once for a module and copied."""

    @cache
    def first(begin, *words):
        made = mirror_in(tmp_path_factory.mktemp("first"))
        told = begin(made, *words)
        close_all()
        return made, told

    def copied(made, begin, *words):
        template, told = first(begin, *words)
        build = Path("warehouse") / "build.duckdb"
        shutil.copytree(template.data / "lake", made.data / "lake", dirs_exist_ok=True)
        close(made.data / build)
        (made.data / build).parent.mkdir(exist_ok=True)
        shutil.copyfile(template.data / build, made.data / build)
        made.warehouse._clock = Clock()
        made.warehouse._clock.now = template.warehouse._clock()
        return told

    return copied


@pytest.fixture
def killing():
    """`with killing(data, date) as kill_at`: compactions and publications that are killed, each at its phase."""

    @contextlib.contextmanager
    def started(data, date):
        command = [sys.executable, "-m", "tests.unit.warehouse.killing_steps", str(data), date]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def kill_at(phase):
                close_all()
                process.stdin.write(f"{phase}\n")
                process.stdin.flush()
                assert process.stdout.readline() == "-9\n", phase

            yield kill_at

    return started


@pytest.fixture
def state():
    """`state(warehouse)`: the whole current state as comparable text, both maxima included."""

    def read(warehouse):
        with looking(warehouse) as connection:
            return lasting(connection, ("articles", "internal.titles", "internal.pages"))

    return read
