"""Keeping the published file as it should be, from the command line: publish, relocate."""

import json
import re
import shutil
from pathlib import Path

import pytest

from resources.data_folder import copying
from tests.builds import replaced_file

BODIES = "SELECT count(*) FROM articles JOIN article_bodies USING (project_id, article_id, version_id, source_at)"


@pytest.fixture
def copied(filled, tmp_path):
    """The environment of a copy of the filled data folder; its views still read the lake of the original."""
    environ, _ = filled
    shutil.copytree(environ["WME_DATA"], tmp_path / "copy")
    return environ | {"WME_DATA": str(tmp_path / "copy")}


def test_moved_folder_is_mended_in_place(call, copied, tmp_path):
    call("relocate", environ=copied).done("now refers to the moved lake and reads 4 files there")
    assert "already refers to this lake" in call("relocate", environ=copied).out
    before = call("sql", BODIES, "--format", "csv", environ=copied).done()

    moved = copied | {"WME_DATA": str(tmp_path / "moved, it's here")}
    shutil.move(copied["WME_DATA"], moved["WME_DATA"])
    call("sql", BODIES, environ=moved).fails(
        "Only files of this mirror's lake can be read", "run `wme relocate` to update the lake paths in this file"
    )
    assert "now refers to the moved lake and reads 4 files" in call("relocate", environ=moved).out
    assert call("sql", BODIES, "--format", "csv", environ=moved).out == before.out

    lake = tmp_path / "moved, it's here" / "lake"
    one = next(lake.glob("article_changes/**/*.parquet"))
    aside = one.rename(tmp_path / one.name)
    again = copied | {"WME_DATA": str(tmp_path / "third")}
    shutil.move(moved["WME_DATA"], again["WME_DATA"])
    assert (
        "reads 3 files there. 1 lake file is missing. Restore the missing file, then run `wme publish`."
        in call("relocate", environ=again).out
    )
    shutil.move(aside, tmp_path / "third" / one.relative_to(lake.parent))
    # without the lake nothing is mended, rather than all bodies left out
    shutil.move(tmp_path / "third" / "warehouse.duckdb", tmp_path / "warehouse.duckdb")
    call("relocate", environ=copied | {"WME_DATA": str(tmp_path)}).fails(
        "None of the 4 lake files", "Nothing was changed"
    )


def test_run_that_does_not_publish_says_so_and_publish_does(call, copied, hours):
    hourly = copied | {"WME_PUBLISH": "600"}
    newest = f"{hours[2]:%Y-%m-%dT%H}"

    def published():
        facts = json.loads(call("status", "--json", environ=hourly).out)["facts"]
        assert facts["next publication"].startswith("by the first run after ")
        assert facts["next publication"].endswith(" UTC (WME_PUBLISH=600)")
        rows = call(
            "sql", "--format", "csv", "SELECT count(DISTINCT batch_hour) FROM article_changes", environ=hourly
        ).out
        return rows.splitlines()[1]

    assert published() == "2"
    # the table tells what was loaded, published or not
    ran = call("run", "--from", newest, environ=hourly).done(
        f"{hours[2]:%Y-%m-%d %H}", "The loaded data will be published by the first run after"
    )
    assert published() == "2"
    assert "missing" not in ran.out  # told of the pipeline's own file as well
    told = call("publish", environ=hourly).done()
    assert re.search(
        r"warehouse\.duckdb was published at .* UTC\. New data will be published by the first run after", told.out
    )
    assert published() == "3"
    runs = Path(copied["WME_DATA"]) / "dagster/history/runs"
    before = sorted(runs.iterdir())
    assert "already contains all loaded data" in call("publish", environ=hourly, history=True).out
    assert sorted(runs.iterdir()) == before  # no run of Dagster's, which would take seconds


def test_replaced_files_are_listed_and_then_removed_but_not_while_a_backup_copies_them(call, copied):
    data = Path(copied["WME_DATA"])
    old = replaced_file(data)
    before = sorted(data.glob("lake/**/*.parquet"))
    wide, at_once = copied | {"COLUMNS": "300"}, copied | {"WME_GRACE_HOURS": "0"}
    told = call("clean", "--dry-run", environ=wide).done(
        "0 files would be removed now (0 B). Kept during the grace period of 24 hours: 1 replaced file (21 B)."
    )
    assert old.relative_to(data).as_posix() in told.out.replace("\n", "")
    call("clean", environ=wide).done("hours: 1 replaced file")
    with copying(data):
        call("clean", environ=at_once).done(
            "A backup is in progress. No files are removed until the backup has finished.", "0 files removed (0 B)."
        )
        call("forget", "frwiki", "--yes", environ=copied | {"WME_PROJECTS": "enwiki"}).fails(
            "is in progress. Nothing was removed."
        )
    assert sorted(data.glob("lake/**/*.parquet")) == before
    call("clean", environ=at_once).done("1 file removed (21 B).")
    assert sorted(data.glob("lake/**/*.parquet")) == [path for path in before if path != old]


def test_damaged_lake_files_are_named_and_come_back_from_the_archive(call, copied):
    data = Path(copied["WME_DATA"])
    assert call("relocate", environ=copied).code == 0
    before = call("sql", BODIES, "--format", "csv", environ=copied)
    cut, flipped, *_ = sorted(data.glob("lake/article_changes/**/*.parquet"))
    whole = {path: path.read_bytes() for path in (cut, flipped)}

    # what the size shows, every command that looks at it names, and the next publication mends
    cut.write_bytes(whole[cut][:1000])
    shown = call("status", environ=copied)
    assert (shown.code, cut.name in shown.out) == (0, True)
    assert call("report", environ=copied).code == 0
    assert cut.name in (data / "report.html").read_text()
    mended = call("publish", environ=copied).done()
    assert f"Restored from the archive: {cut.relative_to(data / 'lake').as_posix()}." in unfolded(mended.err)
    assert cut.read_bytes() == whole[cut]

    # what only its pages show is found by reading them
    place = len(whole[flipped]) // 3
    flipped.write_bytes(whole[flipped][:place] + b"\xff\xff\xff" + whole[flipped][place + 3 :])
    assert "already contains all loaded data" in call("publish", environ=copied).out
    verified = call("publish", "--verify", environ=copied).done()
    assert f"Damaged files: {flipped.relative_to(data / 'lake').as_posix()} (" in unfolded(verified.out)
    assert flipped.read_bytes() == whole[flipped]
    assert call("sql", BODIES, "--format", "csv", environ=copied).out == before.out

    # what the archive lacks is left out, and no command is green
    (archive,) = data.glob(
        f"archive/batches/{cut.parent.relative_to(data / 'lake/article_changes')}/{cut.name.split('.')[0]}.*.tar.gz"
    )
    archive.unlink()
    cut.write_bytes(b"")
    failed = call("publish", environ=copied).fails()
    for told in (f"{cut.name} has 0 bytes", "All other data is published", "restore", "is not archived"):
        assert told in unfolded(failed.err), told
    again = call("publish", environ=copied)
    assert (again.code, cut.name in again.err) == (1, True)
    assert int(call("sql", BODIES, "--format", "csv", environ=copied).out.split()[-1]) < int(before.out.split()[-1])


def unfolded(text):
    return " ".join(text.split())
