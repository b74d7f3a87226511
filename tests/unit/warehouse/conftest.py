"""A lake made by hand: Parquet files of the declared schema, and what a conversion would say of them."""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import datasets
from resources.datasets import LISTS
from resources.tables import ARTICLE_CHANGES, LOOKUPS, REJECTED_LINES, SNAPSHOT_ARTICLES
from resources.tables.reference import REFERENCE_TABLES
from resources.warehouse import ConvertedFile, Snapshot, Warehouse
from tests.builds import NO_BAR, OpenWarehouse, close, close_all, drop_all, lay, looking

START = datetime(2026, 11, 1, tzinfo=UTC)
#: The bytes of files by the digest of their rows: mirrors that are compared have the same ones.
_written: dict[tuple[str, str], bytes] = {}
ROOT = Path(__file__).parents[3]


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
        row = {
            "article_id": article_id,
            "name": name,
            "change_type": change_type,
            "event_at": START + timedelta(minutes=minute),
            "version_id": more.pop("version_id", 1000 + minute),
            "event_id": f"event-{article_id}-{minute}-{change_type}",
        }
        return row | more

    def file(self, hour, rows, project="enwiki", namespace=0, rejects=(), tag=""):
        """Writes one file, named by its content; the same rows give the same file."""
        own = {"batch_hour": self.hour(hour), "project_id": project, "namespace_id": namespace}
        whole = [dict.fromkeys(ARTICLE_CHANGES.schema.names) | row | own for row in rows]
        identifier = f"{project}_namespace_{namespace}"
        folder = f"date={self.hour(hour):%Y-%m-%d}/hour={self.hour(hour):%H}"
        content = repr((whole, list(rejects), tag)).encode()
        made = self._written(f"article_changes/{folder}", identifier, content, whole, ARTICLE_CHANGES, **own)
        if not rejects:
            return made
        lines = [
            own
            | {
                "archive": f"{identifier}.tar.gz",
                "member": f"{identifier}_0.ndjson",
                "line_number": line,
                "byte_offset": 10 * line,
                "reason": "not JSON",
                "raw": raw,
                "raw_bytes": len(raw),
            }
            for line, raw in enumerate(rejects, 1)
        ]
        rejects_path = self.data / "lake" / "rejects" / folder / made.path.name
        rejects_path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(lines, schema=REJECTED_LINES.schema), rejects_path)
        return replace(made, rejects_path=rejects_path, reject_count=len(rejects))

    def lookups(self, minute, *answers, purpose="repair", project="enwiki", namespace=0):
        """Writes a file of answers that came at `minute`.

        Pairs of the title that was asked for and the row found, or None.
        """
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

    def snapshot(self, chunks, project="enwiki", namespace=0, tag="", version=None):
        """Writes the files of one version, one per list of rows.

        Named by content, so the same rows are the same version.
        """
        identifier = f"{project}_namespace_{namespace}"
        version = version or hashlib.md5(repr((chunks, tag)).encode()).hexdigest()
        own = {"snapshot_id": identifier, "snapshot_version": version}
        own |= {"project_id": project, "namespace_id": namespace}
        folder, files = f"snapshot_articles/{identifier}/{version[:8]}", []
        for number, rows in enumerate(chunks):
            whole = [dict.fromkeys(SNAPSHOT_ARTICLES.schema.names) | row | own for row in rows]
            content = repr((whole, number, tag)).encode()
            files.append(self._written(folder, f"{identifier}_chunk_{number}", content, whole, SNAPSHOT_ARTICLES))
        return Snapshot(
            identifier, version, project, namespace, tuple(files), len(files), START, datasets.SNAPSHOT_ARTICLES
        )

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
        facts = {
            "path": path,
            "rejects_path": None,
            "identifier": identifier,
            "version": hashlib.md5(content).hexdigest(),
            "digest": digest,
            "row_count": len(rows),
            "reject_count": 0,
            "update_count": kinds["update"],
            "delete_count": kinds["delete"],
            "visibility_change_count": kinds["visibility-change"],
            "archive_bytes": 111,
            "ndjson_bytes": 2222,
            "lake_bytes": path.stat().st_size,
        }
        return ConvertedFile(**facts | more)

    @staticmethod
    def dataset(name):
        """A list by its name."""
        return next(dataset for dataset in LISTS if dataset.name == name)

    def reference(self, name, rows):
        """Writes a reference table's file."""
        table = next(table for table in REFERENCE_TABLES if table.name == name)
        path = self.data / "lake" / name / f"{name}.{hashlib.sha256(repr(rows).encode()).hexdigest()[:8]}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = [dict.fromkeys(table.schema.names) | row for row in rows]
        pq.write_table(pa.Table.from_pylist(whole, schema=table.schema), path)
        return path


class Clock:
    """Stands still unless moved."""

    def __init__(self):
        self.now = START + timedelta(hours=30)

    def __call__(self):
        return self.now


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
def elsewhere(tmp_path):
    """Runs Python lines that know of DuckDB alone in a process and a folder of their own.

    Gives the lines it printed.
    """

    def run(program, path):
        command = [
            sys.executable,
            "-c",
            NO_BAR + "import duckdb, sys\npath = sys.argv[1]\n" + textwrap.dedent(program),
            str(path),
        ]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        return told.stdout.splitlines()

    return run


@pytest.fixture
def make(tmp_path):
    """A new lake and warehouse each time, for tests that need several."""
    count = iter(range(1_000_000))

    return lambda: _mirror(tmp_path / f"data-{next(count)}")


@pytest.fixture
def mirror(make):
    return make()


def _mirror(data):
    return SimpleNamespace(data=data, lake=Lake(data), warehouse=_warehouse(data, Clock()))


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """`again(made, begin, ...)`: the result of `begin(made, ...)` for a new mirror.

    It is run once for a module and copied, without the published files.
    """

    @cache
    def first(begin, *words):
        made = _mirror(tmp_path_factory.mktemp("first"))
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
def small_disk(tmp_path, clock):
    """A mirror on a disk of its own; within `with small_disk.full():` nothing more can be written to it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    if (told := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"no file system can be mounted here: {told.stderr.strip()}")

    @contextlib.contextmanager
    def full():
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield
        ballast.unlink()

    try:
        yield SimpleNamespace(data=disk, lake=Lake(disk), warehouse=Warehouse(disk, clock=clock), full=full)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], capture_output=True, check=False)


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


@pytest.fixture(scope="session")
def make_lake():
    """`make_lake(data)`: a lake below any folder, for fixtures that outlive one test."""
    return Lake


@pytest.fixture
def state():
    """`state(warehouse)`: the whole current state as comparable text, both maxima included."""

    def read(warehouse):
        with looking(warehouse) as connection:
            return {
                table: sorted(
                    repr(row) for row in connection.sql(f"SELECT * FROM {table}").to_arrow_table().to_pylist()
                )
                for table in ("articles", "internal.titles", "internal.pages")
            }

    return read
