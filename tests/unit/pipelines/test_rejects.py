"""Rejected lines as they are chosen, counted and shown; the older reader that rejected them is imagined."""

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.operations import rebuild
from pipelines.operations.rebuild import Selection, plan_retry
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.lake import Archive, Layout, digest_of
from resources.settings import Settings
from resources.tables import REJECTED_LINES
from tests.builds import OpenWarehouse, ask, lay
from tests.unit.assets.conftest import listed, record, write_set
from tests.unit.warehouse.conftest import START, Clock, Lake

GOOD = [json.dumps(record(number)).encode() for number in range(9)]
FRENCH, SNAPSHOT = [json.dumps(record(number, "frwiki")).encode() for number in range(3)], "enwiki_namespace_0"


class Folder:
    """A data folder whose rejected lines are what the tests say."""

    def __init__(self, data):
        self.data, self.layout, self.lake = data, Layout(data), Lake(data)
        self.warehouse = OpenWarehouse(lay(data), lock_timeout=5.0, clock=Clock())
        self.settings = Settings(data=data, projects=("dewiki",))
        self.lists = {}

    def load(self, number, rejects, project="enwiki", *, archived=True, is_of_today=False):
        """Load an hour with these lines as rejects, of an archive that is there or not."""
        file = self.lake.file(number, [self.lake.change(number + 1, "A", 60 * number + 1)], project, rejects=rejects)
        if is_of_today:
            archive = Archive(self.data, file.identifier, file.version, file.batch_hour, project, 0)
            file = replace(file, digest=digest_of(archive, frozenset(self.settings.bodies)))
        self.warehouse.load_hour(self.lake.hour(number), [file], dataset=ARTICLE_CHANGES)
        records = self.lists.setdefault(number, [])
        records.append(listed(project, version=file.version))
        listing = self.layout.batch_list(ARTICLE_CHANGES, self.lake.hour(number))
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.write_text(json.dumps(records))
        if archived:
            hour = self.lake.hour(number)
            self.layout.batch_archive(ARTICLE_CHANGES, hour, file.identifier, file.version).write_bytes(b"archive")
        return file

    def load_snapshot(self, version, rejects, *, at=START):
        """Load a version of a snapshot of two chunks, the second with these lines as rejects."""
        snapshot = self.lake.snapshot([[self.lake.change(5, "E", 20)], [self.lake.change(6, "F", 30)]], version=version)
        folder = self.layout.snapshot_archive(SNAPSHOT_ARTICLES, SNAPSHOT)
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"{file.identifier}.{file.version[:8]}.tar.gz" for file in snapshot.files]
        same = {"batch_hour": None, "project_id": "enwiki", "namespace_id": 0, "member": "m.ndjson", "byte_offset": 0}
        same |= {"archive": f"snapshots/{SNAPSHOT}/{names[1]}"}
        why = "no JSON at byte {0}: the text '{0}\n', where a date is expected"
        numbered = ({"line_number": n, "raw": raw, "raw_bytes": len(raw)} for n, raw in enumerate(rejects, 1))
        lines = [same | one | {"reason": why.format(one["line_number"])} for one in numbered]
        path = self.data / "lake" / "rejects" / f"{version}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(lines, schema=REJECTED_LINES.schema), path)
        second = replace(snapshot.files[1], rejects_path=path, reject_count=len(rejects))
        self.warehouse.load_snapshot(replace(snapshot, files=(snapshot.files[0], second), exported_at=at))
        for name in names:
            (folder / name).write_bytes(b"archive")
        versions = {name: file.version for name, file in zip(names, snapshot.files, strict=True)}
        return write_set(folder, version, versions, at)

    def retry(self, **selection):
        """Plan to convert again the archives with rejected lines of what is loaded by now."""
        if self.warehouse.unpublished_revision() is not None:
            self.warehouse.publish()
        return plan_retry(self.settings, Selection(**selection))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three hours of one project, one of them of another too, and a snapshot."""
    made = Folder(tmp_path_factory.mktemp("rejects") / "data")
    for number, lines in ((0, GOOD[:1]), (1, GOOD[1:4]), (2, GOOD[4:6])):
        made.load(number, lines)
    made.load(1, FRENCH, "frwiki")
    made.load_snapshot("a" * 32, GOOD[6:9])
    made.warehouse.publish()
    return made


def test_lines_are_counted_and_shown_with_the_newest_hour_first(folder):
    hours = [(ARTICLE_CHANGES, folder.lake.hour(number)) for number in range(3)]
    snapshot = (SNAPSHOT_ARTICLES, SNAPSHOT)
    chosen = (hours, hours[:1], [snapshot], [*hours[:1], snapshot], [])
    assert [rebuild.count(folder.warehouse, parts) for parts in chosen] == [9, 1, 3, 4, 0]

    of_hours = Selection(project="enwiki", reason="JSON")
    shown = [(row[0], row[3]) for row in rebuild.places(folder.warehouse, of_hours, 100).rows if "chunk" not in row[1]]
    hours = [folder.lake.hour(number) for number in range(3)]
    assert shown == [(hours[2], 1), (hours[2], 2), (hours[1], 1), (hours[1], 2), (hours[1], 3), (hours[0], 1)]
    assert len(rebuild.places(folder.warehouse, of_hours, 2).rows) == 2
    lines = list(rebuild.lines(folder.warehouse, Selection(hour=hours[1], project="enwiki"), raw=True))
    assert [line["raw"] for line in lines] == GOOD[1:4]
    assert [line["bytes"] for line in rebuild.lines(folder.warehouse, Selection(hour=START), limit=1)] == [len(GOOD[0])]

    first, second = rebuild.by_reason(folder.warehouse, Selection()).rows
    assert first[:4] == (9, "not JSON", START, "enwiki_namespace_0.tar.gz enwiki_namespace_0_0.ndjson line 1")
    assert second[:2] == (3, "no JSON at byte …: the text …, where a date is expected")
    (row,) = rebuild.by_reason(folder.warehouse, Selection(project="frwiki")).rows
    assert (row[:3], row[4]) == ((3, "not JSON", folder.lake.hour(1)), FRENCH[0][:80])


@pytest.fixture
def empty(tmp_path):
    return Folder(tmp_path / "data")


def test_archives_of_another_converter_are_converted_again_and_those_of_the_present_one_are_not(empty):
    empty.load(0, [GOOD[0], b"no record", GOOD[1]])
    empty.load(1, [b"never"], is_of_today=True)
    empty.load(2, [])
    planned = empty.retry()
    assert (planned.parts, planned.obstacles()) == ({(ARTICLE_CHANGES, START): {("enwiki", 0)}}, [])
    assert planned.sentences() == [
        "1 rejected record was read by the current converter, which would reject the same records again.",
        "3 rejected records in 1 archive were read by a different converter or with different settings.",
        "Hours to convert again: 2026-11-01 00:00 (UTC).",
    ]


def test_nothing_is_done_for_lines_that_would_be_rejected_again(empty):
    again = "were read by the current converter, which would reject the same records again."
    nothing = "There is nothing to convert again."
    told = (["There are no rejected records to convert again."], [f"2 rejected records {again}", nothing])
    for number, (lines, sentence) in enumerate(zip(([], [b"a", b"b"]), told, strict=True)):
        empty.load(number, lines, is_of_today=True)
        planned = empty.retry()
        assert (planned.parts, planned.obstacles(), planned.sentences()) == ({}, [], sentence)


def test_only_chosen_lines_are_planned(folder):
    assert folder.retry(project="frwiki").archives.total() == 3
    hour = START + timedelta(hours=1)
    assert folder.retry(hour=hour).parts == {(ARTICLE_CHANGES, hour): {("enwiki", 0), ("frwiki", 0)}}
    assert folder.retry(reason="JSON").archives.total() == 12
    assert folder.retry(reason="another").sentences() == ["There are no rejected records to convert again."]


def test_an_archive_that_is_gone_is_named_and_the_others_are_converted(empty):
    empty.load(0, GOOD[:2], archived=False)
    empty.load(0, FRENCH, "frwiki")
    planned = empty.retry()
    assert planned.parts == {(ARTICLE_CHANGES, START): {("frwiki", 0)}}
    told = "2 rejected records in enwiki_namespace_0.tar.gz cannot be converted again"
    assert planned.obstacles()[0].startswith(told)


def test_a_snapshot_is_converted_again_if_all_of_its_files_are_there(empty):
    manifest = empty.load_snapshot("a" * 32, GOOD[:3])
    assert empty.retry().parts == {(SNAPSHOT_ARTICLES, SNAPSHOT): {("enwiki", 0)}}
    assert "Snapshots to convert again: enwiki_namespace_0." in empty.retry().sentences()
    # the lines are of the other chunk
    next(manifest.parent.glob("*_chunk_0*.tar.gz")).unlink()
    planned = empty.retry()
    assert planned.parts == {}
    assert "or another file of its snapshot is not on disk" in planned.obstacles()[0]


def test_lines_of_lookups_are_left_to_their_next_run(empty):
    file = empty.lake.lookups(5, ("A", None))
    path = empty.load(0, [b"no record"]).rejects_path
    for again in (False, True):
        empty.warehouse.load_lookups([replace(file, rejects_path=path, reject_count=1)], reload=again)
    assert ask(empty.warehouse, "SELECT count(*) FROM rejects WHERE table_name = 'lookups'") == [(1,)]
    assert [dataset for dataset, _ in empty.retry().parts] == [ARTICLE_CHANGES]
