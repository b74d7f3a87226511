"""Rejected lines: looked at, read again by a newer converter, and their hours done again without a loss."""

import base64
import json
import shutil
import zlib
from pathlib import Path

import pytest

from resources.lake.decode.records import RecordReader
from resources.lake.decode.rejected import merged, rejects_of
from resources.lake.decode.strict import read_record
from resources.lake.decode.strict_json import Bad
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import between

ROOT = Path(__file__).resolve().parents[2]
LONG = 2000
VERSION = "resources.lake.conversion.CONVERTER_VERSION"
#: Rows of the loaded files, repeated events among them: `agree` compares them with the table.
ROWS = "SELECT sum(row_count)::BIGINT FROM loads"
#: Where a retry is killed, one after another: before a function of the pipeline does its work, or when it has done it.
MOMENTS = (("assets.steps.hour", "load_hour", False), ("assets.steps.hour", "load_hour", True))
KILLED = """
import os, pkgutil, signal
place, name, after = {moment!r}
owner = pkgutil.resolve_name(place)
original = getattr(owner, name)
def killed(*arguments, **options):
    if after:
        original(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, killed)
from pipelines.cli import main
main()
"""


def chosen(line):
    """Whether the older reader does not understand a line: about one in ten."""
    return zlib.crc32(line) % 10 == 0


def is_record(line):
    try:
        read_record(line)
    except Bad:
        return False
    return True


def older_converter(patch, of):
    """Put an older converter in place, which rejects some good lines of certain archives."""
    original = RecordReader.read

    def read_lines(self, view):
        if not of(self):
            return original(self, view)
        refused, kept, place = [], [], 0
        for number, line in enumerate(bytes(view).split(b"\n")):
            if line and chosen(line) and is_record(line):  # what nobody can read keeps its own reason
                refused.append((number, place, "An older reader did not know this.", line))
                kept.append(b" " * len(line))
            else:
                kept.append(line)
            place += len(line) + 1
        rows = original(self, memoryview(b"\n".join(kept)))
        rows.line_count += len(refused)
        rows.rejects = merged([rows.rejects, rejects_of(refused)])
        return rows

    patch.setattr(VERSION, 0)
    patch.setattr(RecordReader, "read", read_lines)


@pytest.fixture(scope="module")
def loaded(filled, service, call, hours, tmp_path_factory):
    """Two hours loaded by the older converter, each with a line that nobody can read."""
    environ = filled[0] | {"WME_DATA": str(lay(tmp_path_factory.mktemp("older") / "data"))}
    for hour in hours[:2]:
        path = f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}/enwiki_namespace_0/download"
        service.faults.add(path=path, kind="line_malformed", listed=True, count=None)
    with pytest.MonkeyPatch.context() as patch:
        older_converter(patch, lambda reader: reader.given["batch_hour"] == hours[0])
        # many of the lines are too long for their rows, and lie in files
        patch.setattr("resources.lake.rejects.RAW_BYTES_MAX", LONG)
        patch.setattr("resources.lake.rejects.RAW_BEGINNING_BYTES", 100)
        told = call("run", *between(hours[0], hours[1]), "--no-reference", environ=environ)
    service.faults.clear()
    assert told.code == 0, told.err
    return environ


@pytest.fixture
def mirror(loaded, service, tmp_path):
    """A copy of that data folder to work on, with the converter of today."""
    shutil.copytree(loaded["WME_DATA"], tmp_path / "data")
    service.requests.clear()
    return loaded | {"WME_DATA": str(tmp_path / "data")}


def ask(environ, query, *parameters):
    return Warehouse(Path(environ["WME_DATA"])).sql(query, parameters).rows


def lake_of(environ):
    return sorted((Path(environ["WME_DATA"]) / "lake").rglob("*.parquet"))


def agree(environ):
    """Ledger, coverage, rows and lake files say the same of every hour."""
    wrong = ask(
        environ,
        "SELECT batch_hour, project_id FROM loads l JOIN hours h USING (batch_hour, project_id) "
        "WHERE h.state <> 'loaded' OR h.reject_count <> l.reject_count "
        "OR h.row_count <> l.row_count - l.duplicate_count OR l.applied_at IS NULL OR h.row_count <> "
        "(SELECT count(*) FROM article_changes c "
        "WHERE (c.batch_hour, c.project_id) = (l.batch_hour, l.project_id)) "
        "OR l.reject_count <> (SELECT count(*) FROM rejects r "
        "WHERE (r.batch_hour, r.project_id) = (l.batch_hour, l.project_id))",
    )
    assert wrong == []
    for (path,) in ask(environ, "SELECT lake_path FROM loads"):
        assert (Path(environ["WME_DATA"]) / "lake" / path).is_file()


READ_AGAIN = "would reject the same records again."


def test_lines_become_rows_when_the_converter_learnt_to_read_them(mirror, call, service, hours):
    [(before, refused)] = ask(mirror, f"SELECT ({ROWS}), (SELECT count(*) FROM rejects WHERE reason LIKE 'An older%')")
    assert refused > 3
    files = lake_of(mirror)
    ledger = "SELECT digest, loaded_at FROM loads WHERE project_id <> 'enwiki' AND batch_hour = ? ORDER BY ALL"
    others = ask(mirror, ledger, hours[1])

    told = call("rejects", "--retry", "--dry-run", environ=mirror).done(
        f"{refused + 2} rejected records in 3 archives were read by a different converter",
        f"Hours to convert again: {hours[0]:%Y-%m-%d %H:00}, {hours[1]:%Y-%m-%d %H:00} (UTC).",
    )
    assert told.out.endswith("Nothing was changed.\n")
    assert lake_of(mirror) == files

    told = f"Converted {refused} rejected records. Records still rejected in the same hours and snapshots: 2."
    call("rejects", "--retry", environ=mirror).done(told)
    assert list(service.requests) == []
    [(after, left)] = ask(mirror, f"SELECT ({ROWS}), (SELECT count(*) FROM rejects)")
    assert (after, left) == (before + refused, 2)
    agree(mirror)
    assert ask(mirror, "SELECT DISTINCT load_count FROM hours WHERE batch_hour = ?", hours[0]) == [(2,)]
    # an archive without rejected lines stays as the older converter made it
    assert others
    assert ask(mirror, ledger, hours[1]) == others
    assert set(files) <= set(lake_of(mirror))

    files, told = lake_of(mirror), call("rejects", "--retry", environ=mirror).done()
    read = f"2 rejected records were read by the current converter, which {READ_AGAIN}"
    assert told.out == f"{read}\nThere is nothing to convert again.\n"
    assert lake_of(mirror) == files


def test_a_retry_that_is_killed_again_and_again_loses_nothing(mirror, call, killed):
    [(total,)] = ask(mirror, ROWS)
    [(refused,)] = ask(mirror, "SELECT count(*) FROM rejects WHERE reason LIKE 'An older%'")
    for moment in MOMENTS:
        out = killed(KILLED.format(moment=moment), "rejects", "--retry", environ=mirror)
        assert f"{refused + 2} rejected records" in out
        # what analysts see is whole all the time
        assert ask(mirror, ROWS) == [(total,)]
    call("rejects", "--retry", environ=mirror).done(f"Converted {refused} rejected records.")
    assert ask(mirror, ROWS) == [(total + refused,)]
    agree(mirror)
    assert READ_AGAIN in call("rejects", "--retry", environ=mirror).out


def test_a_version_that_was_not_raised_and_an_archive_that_is_gone(mirror, call, monkeypatch, hours):
    files = lake_of(mirror)
    with monkeypatch.context() as patch:
        patch.setattr(VERSION, 0)  # as the older one, though the reader is today's
        told = call("rejects", "--retry", environ=mirror)
    assert told.code == 0
    assert READ_AGAIN in told.out
    assert lake_of(mirror) == files

    hour = Path(mirror["WME_DATA"]) / "archive" / "batches" / f"date={hours[0]:%Y-%m-%d}" / f"hour={hours[0]:%H}"
    victim = next(hour.glob("frwiki*.tar.gz"))
    away = victim.rename(victim.with_suffix(".away"))
    french = "SELECT * FROM article_changes WHERE project_id = 'frwiki' ORDER BY ALL"
    rows = ask(mirror, french)
    assert call("rejects", "--retry", "--dry-run", environ=mirror).code == 0
    where = f"batches/date={hours[0]:%Y-%m-%d}/hour={hours[0]:%H}/{victim.name}"
    told = call("rejects", "--retry", environ=mirror)
    told.fails(f"in {where} cannot be converted again", "Restore the file from a backup")
    older = "SELECT DISTINCT project_id FROM rejects WHERE reason LIKE 'An older%'"
    assert ask(mirror, older) == [("frwiki",)]
    # what is loaded of that archive stays
    assert ask(mirror, french) == rows

    # one that is cut is read, and its failure is the command's
    victim.write_bytes(away.read_bytes()[:-20])
    call("rejects", "--retry", environ=mirror).fails(victim.name)
    assert ask(mirror, french) == rows
    away.rename(victim)
    call("rejects", "--retry", "--project", "frwiki", environ=mirror | {"WME_PROJECTS": "dewiki"}).done()
    assert ask(mirror, older) == []
    agree(mirror)


def test_lines_of_a_snapshot_are_tried_again_and_the_snapshot_is_done_whole(filled, service, call, hours, tmp_path):
    environ = filled[0] | {"WME_DATA": str(lay(tmp_path / "data")), "WME_PROJECTS": "enwiki"}
    with pytest.MonkeyPatch.context() as patch:
        older_converter(patch, lambda reader: reader.table.name == "snapshot_articles")
        words = ("--from", f"{hours[0]:%Y-%m-%dT%H}", "--snapshots", "--dataset", "snapshot_articles")
        told = call("run", *words, "--no-reference", environ=environ)
    assert told.code == 0, told.err
    service.requests.clear()
    # repeated pages among them
    pages = "SELECT sum(row_count)::BIGINT FROM loads WHERE table_name = 'snapshot_articles'"
    ((refused,),), ((known,),) = ask(environ, "SELECT count(*) FROM rejects"), ask(environ, pages)
    assert refused > 0

    told = call("rejects", "--retry", "--dry-run", environ=environ)
    assert f"{refused:,} rejected records in 1 archive were read by a different converter" in told.out
    assert "Snapshots to convert again: enwiki_namespace_0." in told.out
    assert "Hours to" not in told.out
    assert ask(environ, pages) == [(known,)]

    told = call("rejects", "--retry", environ=environ).done(f"Converted {refused} rejected records.")
    assert told.out.endswith("same hours and snapshots: 0.\n")
    assert ask(environ, pages) == [(known + refused,)]
    held = "SELECT sum(row_count - duplicate_count)::BIGINT FROM loads WHERE table_name = 'snapshot_articles'"
    assert ask(environ, "SELECT count(*) FROM snapshot_articles") == ask(environ, held)
    assert ask(environ, "SELECT count(*) FROM rejects") == [(0,)]
    assert not service.requests  # all of it from the archive
    assert "There are no rejected records" in call("rejects", "--retry", environ=environ).out


def test_records_are_shown_with_their_bytes_and_as_json(mirror, call, hours):
    told = call("rejects", "--limit", "1", "--project", "frwiki", "--raw", environ=mirror)
    place, line, *_, last = told.out.splitlines()
    assert place.startswith(f"batches/date={hours[0]:%Y-%m-%d}/hour={hours[0]:%H}/frwiki_namespace_0.")
    assert place.endswith(": An older reader did not know this.")
    assert line.startswith("{")
    assert ", 1 shown." in last
    # which lines are long depends on the hour: of them all some are
    everything = call("rejects", "--project", "frwiki", "--raw", environ=mirror).out
    assert "bytes in total). The complete record is in lake/rejects/" in everything

    count = ask(mirror, "SELECT count(*) FROM rejects")[0][0]
    listed = [json.loads(line) for line in call("rejects", "--json", environ=mirror).out.splitlines()]
    assert len(listed) == count
    assert "raw" not in listed[0]
    whole = [json.loads(line) for line in call("rejects", "--json", "--raw", environ=mirror).out.splitlines()]
    for one in whole:
        raw = base64.b64decode(one["raw_base64"])
        assert len(raw) == one["bytes"]
        assert (one["raw_path"] is not None) == (one["bytes"] > LONG)
        assert not one["reason"].startswith("An older") or json.loads(raw)["name"]
    long = [one for one in whole if one["raw_path"] is not None]
    assert 0 < len(long) < len(whole)
    names = {path.name for path in (Path(mirror["WME_DATA"]) / "lake" / "rejects").rglob("*.lines.gz")}
    assert names == {one["raw_path"].rpartition("/")[2] for one in long}
    told = call("rejects", "--raw", "--limit", "1000", environ=mirror).out
    assert f"… ({long[0]['bytes']:,} bytes in total). The complete record is in lake/{long[0]['raw_path']}" in told


def test_a_file_of_long_lines_that_is_gone(mirror, call):
    for path in (Path(mirror["WME_DATA"]) / "lake" / "rejects").rglob("*.lines.gz"):
        path.unlink()
    call("rejects", "--json", "--raw", environ=mirror).fails("A long record cannot be read")
