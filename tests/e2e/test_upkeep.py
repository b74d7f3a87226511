"""Keeping the published file as it should be: publish, relocate, clean, drop a project, and all of it by cron alone."""

import json
import re
import shutil
from pathlib import Path

import pytest

from resources import datasets
from resources.data_folder import copying
from resources.tables import HourState
from resources.warehouse import HourStatus, Warehouse
from tests.builds import lay, replaced_file
from tests.e2e.conftest import KILLED_AT, contents, digests, ran
from tests.e2e.programs import ROOT, bare

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
    advice = "run `wme relocate` to update the lake paths in this file"
    call("sql", BODIES, environ=moved).fails("Only files of this mirror's lake can be read", advice)
    assert "now refers to the moved lake and reads 4 files" in call("relocate", environ=moved).out
    assert call("sql", BODIES, "--format", "csv", environ=moved).out == before.out

    lake = tmp_path / "moved, it's here" / "lake"
    one = next(lake.glob("article_changes/**/*.parquet"))
    aside = one.rename(tmp_path / one.name)
    again = copied | {"WME_DATA": str(tmp_path / "third")}
    shutil.move(moved["WME_DATA"], again["WME_DATA"])
    missing = "reads 3 files there. 1 lake file is missing. Restore the missing file, then run `wme publish`."
    call("relocate", environ=again).done(missing)
    shutil.move(aside, tmp_path / "third" / one.relative_to(lake.parent))
    # without the lake nothing is mended, rather than all bodies left out
    shutil.move(tmp_path / "third" / "warehouse.duckdb", tmp_path / "warehouse.duckdb")
    there = copied | {"WME_DATA": str(tmp_path)}
    call("relocate", environ=there).fails("None of the 4 lake files", "Nothing was changed")


def test_run_that_does_not_publish_says_so_and_publish_does(call, copied, hours):
    hourly, newest = copied | {"WME_PUBLISH": "600"}, f"{hours[2]:%Y-%m-%dT%H}"

    def published():
        facts = json.loads(call("status", "--json", environ=hourly).out)["facts"]
        assert facts["next publication"].startswith("by the first run after ")
        assert facts["next publication"].endswith(" UTC (WME_PUBLISH=600)")
        query = "SELECT count(DISTINCT batch_hour) FROM article_changes"
        return call("sql", "--format", "csv", query, environ=hourly).out.splitlines()[1]

    assert published() == "2"
    # the table tells what was loaded, published or not
    ran = call("run", "--from", newest, environ=hourly)
    ran.done(f"{hours[2]:%Y-%m-%d %H}", "The loaded data will be published by the first run after")
    assert published() == "2"
    assert "missing" not in ran.out  # told of the pipeline's own file as well
    told = call("publish", environ=hourly).done()
    next_one = "New data will be published by the first run after"
    assert re.search(rf"warehouse\.duckdb was published at .* UTC\. {next_one}", told.out)
    assert published() == "3"
    runs = Path(copied["WME_DATA"]) / "dagster/history/runs"
    before = sorted(runs.iterdir())
    assert "already contains all loaded data" in call("publish", environ=hourly, history=True).out
    assert sorted(runs.iterdir()) == before  # no run of Dagster's, which would take seconds


def test_replaced_files_are_listed_and_then_removed_but_not_while_a_backup_copies_them(call, copied):
    data = Path(copied["WME_DATA"])
    old, before = replaced_file(data), sorted(data.glob("lake/**/*.parquet"))
    wide, at_once = copied | {"COLUMNS": "300"}, copied | {"WME_GRACE_HOURS": "0"}
    told = call("clean", "--dry-run", environ=wide)
    told.done("0 files would be removed now (0 B). Kept during the grace period of 24 hours: 1 replaced file (21 B).")
    assert old.relative_to(data).as_posix() in told.out.replace("\n", "")
    call("clean", environ=wide).done("hours: 1 replaced file")
    with copying(data):
        refused = "A backup is in progress. No files are removed until the backup has finished."
        call("clean", environ=at_once).done(refused, "0 files removed (0 B).")
        told = call("forget", "frwiki", "--yes", environ=copied | {"WME_PROJECTS": "enwiki"})
        told.fails("is in progress. Nothing was removed.")
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


def test_the_lines_for_cron_keep_a_mirror_whole_and_silent(account, service, call, hours, tmp_path):
    """In this process, but the last time that the first line runs: as cron gives it to a shell. All begin alike."""
    [recipe] = re.findall(r"^```cron\n(.*?)^```$", (ROOT / "docs" / "run.md").read_text(), re.MULTILINE | re.DOTALL)
    project, backups = tmp_path / "srv", tmp_path / "backups"
    project.mkdir()
    (project / ".venv").symlink_to(ROOT / ".venv")
    beginning = f"cd {project} && .venv/bin/wme "
    commands = [re.fullmatch(r"(?:[\d*]+ +){5}(.+)", line)[1] for line in recipe.splitlines()]
    lines = [line.replace("/srv/mirror", str(project)).replace("/mnt/backup/mirror", str(backups)) for line in commands]
    assert all(line.startswith(beginning) for line in lines)
    environ = account.environ(lay(tmp_path / "data"))
    warehouse = Warehouse(Path(environ["WME_DATA"]))

    def run(line):
        assert call(*line.removeprefix(beginning).split(), environ=environ) == (0, "", "")

    def snapshots():
        query = "SELECT list(snapshot_version) FROM snapshots WHERE table_name = 'snapshot_articles'"
        (loaded,) = warehouse.sql(query).rows
        assert warehouse.sql("SELECT DISTINCT state FROM hours WHERE state NOT IN ('loaded', 'empty')").rows == []
        return set(loaded[0])

    try:
        # a snapshot from before the newest hours: a run fetches all hours since
        service.clock.set(hours[-1])
        for name in ("enwiki_namespace_0", "frwiki_namespace_0"):
            service.exports.export(name)
        service.clock.release()
        for line in lines:
            run(line)
        first, states = snapshots(), warehouse.project_states()
        assert len(first) == 2
        assert all(state.exact_from_at < state.exact_until_at for state in states), states
        service.exports.export("enwiki_namespace_0")
        # the first line again, and the backup: nothing else depends on what was there before
        assert ran("/bin/sh", "-c", lines[0], environ=bare() | environ) == (0, "", "")
        run(next(line for line in lines if "backup" in line))
        assert len(snapshots() - first) == 1, "the newer snapshot was fetched and loaded"
        later = {state.project_id: state.base_boundary_at for state in warehouse.project_states()}
        assert [later[state.project_id] > state.base_boundary_at for state in states] == [True, False]
    finally:
        service.clock.release()
        service.exports.clear()
    assert len(list(backups.glob("*/MD5SUMS"))) == 2


def files(data, name=""):
    found = contents(data)
    return {path: found[path] for path in found if path.startswith(("archive/", "lake/")) and name in path}


@pytest.fixture
def both(mirrored, copy):
    """The environment of a copy of a folder with two projects, of which one is to be mirrored from now on."""
    return copy(mirrored | {"WME_PROJECTS": "enwiki"})


def test_a_dropped_project_leaves_nothing_and_the_other_one_as_it_was(call, both, hours):
    data = Path(both["WME_DATA"])

    def of(project):
        return digests(data, moments=False, project=project)

    # unfinished files of it go as well; others whose names hold its name stay
    first = data / f"archive/batches/date={hours[0]:%Y-%m-%d}/hour={hours[0]:%H}"
    for name in (".frwiki_namespace_0.aaaaaaaa.tar.gz.tmp", "frwiki_namespace_14.aaaaaaaa.tar.gz.part"):
        (first / name).write_bytes(b"half")
    for name in ("frwikibooks_namespace_0.aaaaaaaa.tar.gz", "x_frwiki_namespace_0.a.tar.gz", "frwiki_namespaces"):
        (first / name).write_bytes(b"of another")
    before, everything = of("enwiki"), files(data)
    its = {name for name in everything if re.search(r"/\.?frwiki_namespace_", name)}
    told = call("forget", "frwiki", "--yes", environ=both | {"WME_PROJECTS": "enwiki,frwiki"})
    told.fails("frwiki is in WME_PROJECTS, so the next run would load the project again. Nothing was removed.")
    for words, answer in ((["--dry-run"], ""), ([], "n\n")):
        told = call("forget", "frwiki", *words, environ=both, stdin=answer, history=True).done()
        facts = dict(line.split(":", 1) for line in told.out.splitlines() if ":" in line)
        kinds = {"articles", "article_changes", "snapshots", "loads", "hours"}
        assert set(facts["rows"].replace(",", "").split()) >= kinds
        assert facts["partitions"].strip() == "frwiki_namespace_0"
        assert facts["lake"].split()[0] == str(sum(name.startswith("lake") for name in its))
        # with the two files of the list of the hour that nobody else has
        assert facts["archive"].split()[0] == str(sum(name.startswith("archive") for name in its) + 2)
        assert told.out.rstrip().endswith("Nothing was removed.")
    assert files(data) == everything

    call("forget", "frwiki", environ=both, stdin="y\n", history=True).done("All data for frwiki was removed")
    assert of("enwiki") == before
    assert [name for name, (count, *_) in of("frwiki").items() if count] == ["projects"], "of the service's list"
    rejects = "SELECT count(*) FROM rejects WHERE project_id = 'frwiki'"
    assert call("sql", rejects, "--format", "csv", environ=both).out.splitlines()[1] == "0"
    lone = f"archive/batches/date={hours[2]:%Y-%m-%d}/hour={hours[2]:%H}"
    others = everything.keys() - its
    assert files(data) == {name: everything[name] for name in others if not name.startswith(lone)}
    assert not (data / lone).exists()
    assert not list((data / "lake").rglob("*frwiki*"))
    call("forget", "frwiki", "--yes", environ=both, history=True).done(" contains no data for frwiki.")
    assert files(data, "reference")
    mirrored = both | {"WME_PROJECTS": "enwiki,frwiki"}
    call("run", "--from", f"{hours[2]:%Y-%m-%dT%H}", "--no-reference", environ=mirrored).done()
    assert of("frwiki")["articles"][0] > 0


def test_kills_while_a_project_is_dropped_are_made_good_by_calling_it_again(call, killed, both, hours):
    data = Path(both["WME_DATA"])
    # the list of an hour is kept that another project was looked for in
    absent = HourStatus(hours[2], "enwiki", 0, HourState.ABSENT, "Quiet.")
    Warehouse(data).record_statuses([absent], dataset=datasets.ARTICLE_CHANGES)
    kept = {name: digest for name, digest in files(data).items() if "frwiki" not in name}
    pages, left = BODIES.replace("count(*)", "count(*), count(html)"), []
    # before, while and after it publishes: a publication removes and renames some files of its own
    for at in (0, 9, 22):
        killed(KILLED_AT, "", str(at), "forget", "frwiki", "--yes", environ=both)
        left.append(len(files(data, "frwiki")))
        # whatever was done so far, what is published can be read whole
        assert call("sql", pages, environ=both).code == 0
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[0]
    call("forget", "frwiki", "--yes", environ=both, history=True).done()
    assert not files(data, "frwiki")
    assert files(data) == kept
    assert "contains no data for frwiki" in call("forget", "frwiki", "--yes", environ=both, history=True).out
