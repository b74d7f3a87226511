"""`wme snapshots`, as people and scripts meet it: lists, dry runs, downloads, and what stops them."""

import json
from pathlib import Path

import pytest

from assets.steps.snapshot import DISK_FACTOR
from resources.enterprise import Sidecar
from resources.files import md5_of
from resources.formatting import size_text
from resources.sandbox import Settings, running
from resources.warehouse import Warehouse
from tests.builds import lay
from tests.e2e.conftest import PROJECTS, is_sentence

NAME, OTHER = (f"{project}_namespace_0" for project in PROJECTS)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A sandbox whose snapshots have several chunks each."""
    small = {"namespaces": (0, 14), "changes_per_hour": 60, "body_bytes": 2000, "chunk_bytes": 250_000}
    with running(Settings(state=tmp_path_factory.mktemp("snapshots"), projects=PROJECTS, **small)) as sandbox:
        yield sandbox


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "data" / "archive" / "snapshots"


@pytest.fixture
def chunk_counts(call, environ):
    told = call("snapshots", "list", "--json", environ=environ)
    return {record["identifier"]: record["chunk_count"] for record in map(json.loads, told.out.splitlines())}


def quota(account, **left):
    for kind, count in left.items():
        account.sandbox.accounts.set_quota(account.username, kind, limit=1000, used=1000 - count)


def downloads(service):
    """Requests for signed addresses that were granted, each of which cost a unit."""
    return [seen for seen in list(service.requests) if seen.path.endswith("/download") and seen.status == 307]


def test_list_shows_the_mirrored_snapshots_and_names_the_projects_that_have_none(environ, call, service):
    sentence = "The service has no snapshots for nowiki in the mirrored namespaces (0)."
    told = call("snapshots", "list", environ=environ | {"WME_PROJECTS": "enwiki,nowiki"}).fails(sentence)
    header, row = told.out.splitlines()
    assert header.split() == [*("identifier", "project", "namespace", "size", "chunks", "version", "modified", "(UTC)")]
    *place, size, unit, chunks, version, day, moment = row.split()
    assert place == [NAME, "enwiki", "0"]
    assert (float(size) > 0, unit in {"kB", "MB"}, int(chunks) > 3, len(version)) == (True, True, True, 8)
    assert day.startswith("20")
    assert moment.count(":") in {1, 2}
    call("snapshots", "list", "--project", "nowiki", environ=environ).fails("`wme snapshots list --all`", out="")
    sentences = "no project enwikki (did you mean enwiki?). Nothing was fetched. Correct --project."
    call("snapshots", "list", "--project", "enwikki", environ=environ).fails(sentences, out="")
    told = call("snapshots", "list", "--all", "--json", environ=environ)
    listed = [json.loads(line) for line in told.out.splitlines()]
    assert {(s["project_id"], s["namespace_id"]) for s in listed} == {(p, n) for p in PROJECTS for n in (0, 14)}
    assert all(len(s["version"]) == 32 and s["size_bytes"] > 1000 and s["date_modified"] for s in listed)
    told = call("snapshots", "list", "--project", "frwiki", "--json", environ=environ)
    assert [json.loads(line)["identifier"] for line in told.out.splitlines()] == [OTHER, "frwiki_namespace_14"]
    told = call("snapshots", "chunks", NAME, "1", environ=environ)
    assert [json.loads(line)["identifier"] for line in told.out.splitlines()] == [f"{NAME}_chunk_1"]
    assert downloads(service) == []


def test_plan_tells_form_reason_units_and_bytes_and_fetches_nothing(environ, call, service, archive, chunk_counts):
    told = call("snapshots", "plan", NAME, OTHER, NAME, "--chunks", environ=environ)
    assert (told.code, told.err) == (0, "")
    first, second, together, last = told.out.splitlines()
    counts = chunk_counts
    assert first.startswith(f"{NAME} in {counts[NAME]} chunks, because this form was requested. The download costs ")
    assert f"The download costs {counts[OTHER]} chunk units (" in second
    assert together.startswith(f"Total of the 2 snapshots: {sum(counts.values())} chunk units of quota, ")
    assert together.endswith(" free).")
    assert last == "Nothing was downloaded."
    plan = json.loads(call("snapshots", "plan", "--json", "--chunks", NAME, OTHER, environ=environ).out)
    assert [s["identifier"] for s in plan["snapshots"]] == [NAME, OTHER]
    assert plan["unit_counts"] == {"chunk": sum(chunk_counts.values())}
    assert plan["missing_bytes"] == sum(s["missing_bytes"] for s in plan["snapshots"]) > 10_000
    sizes = [size_text(plan[name]) for name in ("missing_bytes", "disk_bytes")]
    assert "{} to download, {} of disk space ".format(*sizes) in together
    # as the assets count it, with what comes of the files later
    assert plan["disk_bytes"] == sum(int(s["missing_bytes"] * DISK_FACTOR) for s in plan["snapshots"])
    assert plan["obstacle"] is None
    one = plan["snapshots"][0]
    assert (one["form"], one["product"], one["fits_quota"], one["fits_disk"]) == ("chunks", "chunk", True, True)
    assert one["sentence"].startswith(f"{NAME} in ")
    assert downloads(service) == []
    assert not archive.exists()


def test_plan_of_what_cannot_be_finished_exits_with_1(environ, call, account, chunk_counts):
    quota(account, chunk=chunk_counts[NAME] + 1, snapshot=1)
    call("snapshots", "plan", "--chunks", NAME, environ=environ).done()
    told = call("snapshots", "plan", "--chunks", NAME, OTHER, environ=environ).fails()
    assert told.out.rstrip().endswith("Nothing was downloaded.")
    assert f"costs {sum(chunk_counts.values())} chunk units together, but the account has" in told.err
    assert is_sentence(told.err.removeprefix("Error: "))
    told = call("snapshots", "plan", "--chunks", "--json", NAME, OTHER, environ=environ)
    told.fails(json.loads(told.out)["obstacle"])
    told = call("snapshots", "plan", "--json", "--most-units", "0", NAME, environ=environ)
    told.fails(json.loads(told.out)["obstacle"])
    assert "but the limit is 0" in told.err
    assert call("snapshots", "plan", "--chunks", "--beyond-quota", NAME, OTHER, environ=environ).code == 0
    assert call("snapshots", "plan", "--whole", NAME, OTHER, environ=environ).code == 1


def test_download_lands_verified_files_and_the_second_fetches_nothing(environ, call, service, archive, chunk_counts):
    count = chunk_counts[NAME]
    told = call("snapshots", "download", "--chunks", NAME, "--workers", "2", environ=environ).done()
    files = sorted((archive / NAME).glob("*.tar.gz"))
    assert len(files) == len(downloads(service)) == count
    assert all(md5_of(path) == Sidecar.read(path).version for path in files)
    assert len(list((archive / NAME).glob("*.set.json"))) == 1
    assert f"download {NAME}: " in told.err
    # the folder belongs to its service from now on
    assert (Path(environ["WME_DATA"]) / "state" / "service.json").exists()
    assert f"{NAME}: {count} files, " in told.out
    assert f"fetched {count} of them (" in told.out
    assert told.out.rstrip().endswith(f" for {count} chunk units.")
    assert environ["WME_PASSWORD"] not in told.out + told.err
    assert "X-Amz" not in told.out + told.err

    told = call("snapshots", "download", NAME, environ=environ)
    told.done("All files exist", "fetched 0 of them (0 B) for 0 chunk units.")
    assert "download " not in told.err
    assert len(downloads(service)) == count


def test_the_next_run_loads_what_is_archived_and_not_loaded(environ, call, runner, service, hours):
    """A snapshot of `wme snapshots download`, and a missing hour whose archives came to a run that was killed then."""
    lay(Path(environ["WME_DATA"]))
    assert call("snapshots", "download", NAME, environ=environ).code == 0
    first, failed, last = (f"{hour:%Y-%m-%dT%H}" for hour in hours)
    path = f"/v2/batches/{hours[1]:%Y-%m-%d}/{hours[1]:%H}/*/download"
    service.faults.add(path=path, kind="status", status=403, count=None)
    words = ("run", "--no-reference", "--from")
    told = call(*words, first, "--to", failed, environ=environ | {"WME_PUBLISH": "off"})
    service.faults.clear()
    assert "1 of 2 hours failed." in told.err
    assert f"Snapshot {NAME} (snapshot_articles), from the archive" in told.err
    killed = runner.start(environ, hours[1:2], history=False)
    assert killed.wait_for("> convert")
    killed.kill()
    service.requests.clear()
    told = call(*words, last, environ=environ).done()
    hour = f"{failed.replace('T', ' ')}:00"
    assert f"Hours {hour} to {hour} UTC (article_changes), from the archive" in told.err
    assert {f"/{hours[2]:%H}/" in seen.path for seen in downloads(service)} == {True}
    warehouse = Warehouse(Path(environ["WME_DATA"]))
    states = warehouse.sql("SELECT DISTINCT batch_hour, state FROM hours WHERE project_id = 'frwiki' ORDER BY 1").rows
    assert states == [(hour, "loaded") for hour in hours]
    assert warehouse.sql("SELECT project_id, count(*) FROM snapshots GROUP BY ALL").rows == [("enwiki", 1)]


def test_download_of_several_as_json_costs_a_run_nothing(environ, call, archive):
    dry = ("run", "--snapshots", "--dry-run", "--no-reference", "--hours", "1")
    call(*dry, environ=environ).done("; 2 quota units.")
    report = json.loads(call("snapshots", "download", "--whole", "--json", NAME, OTHER, environ=environ).done().out)
    assert (report["failures"], report["not_begun"]) == ([], [])
    for name, done in zip((NAME, OTHER), report["snapshots"], strict=True):
        assert (done["identifier"], done["form"], done["file_count"], done["used_unit_count"]) == (name, "whole", 1, 1)
        assert done["fetched_bytes"] == done["size_bytes"] > 10_000
        assert (Path(done["folder"]) / done["manifest"]).exists()
        assert Path(done["folder"]) == archive / name
    assert "; 0 quota units." in call(*dry, environ=environ).out


def test_nothing_is_begun_that_the_quota_cannot_finish(environ, call, service, account, archive, chunk_counts):
    count = chunk_counts[NAME]
    quota(account, chunk=count - 2, snapshot=0)
    told = f"costs {count} chunk units, but the account has {count - 2} left"
    call("snapshots", "download", NAME, environ=environ).fails(told)
    assert downloads(service) == []
    assert not archive.exists()

    call("snapshots", "download", NAME, OTHER, "--beyond-quota", "--workers", "1", environ=environ).fails(
        "1 of 2 snapshots failed.", f"\n- {NAME}: ", f"Downloads that were not started: {OTHER}."
    )
    assert len(list((archive / NAME).glob("*.tar.gz"))) == count - 2
    told = call("snapshots", "download", NAME, "--beyond-quota", "--json", environ=environ).fails()
    assert [failure["identifier"] for failure in json.loads(told.out)["failures"]] == [NAME]
    assert not (archive / OTHER).exists()

    quota(account, chunk=2, snapshot=0)
    call("snapshots", "download", NAME, environ=environ).done("fetched 2 of them")


def test_a_snapshot_replaced_half_way_is_told_with_what_starting_again_costs(environ, call, service, archive):
    service.exports.export(NAME, after_downloads=2)
    call("snapshots", "download", "--chunks", "--workers", "1", NAME, environ=environ).fails(
        f"The service replaced {NAME} after it was planned", "If you start over, the download costs "
    )
    assert not list((archive / NAME).glob("*.set.json"))
    sizes = [path.stat().st_size for path in (archive / NAME).iterdir()]
    told = f"contains {len(sizes)} files from other versions or forms ({size_text(sum(sizes))})."
    call("snapshots", "download", "--chunks", NAME, environ=environ).done(told)
    service.exports.clear()


def test_a_snapshot_that_there_is_not(environ, call, archive):
    absent = "nowiki_namespace_0"
    call("snapshots", "plan", absent, environ=environ).fails(f"The service has no snapshot {absent}.")
    unknown = "no project enwikki (did you mean enwiki?) and no namespace 5 (there are 0, 6, 10, 14)"
    call("snapshots", "download", "enwikki_namespace_5", environ=environ).fails(unknown, "Correct enwikki_namespace_5.")
    assert not archive.exists()


def test_terminal_gets_a_bar(account, service, tmp_path, on_terminal):
    service.faults.add(path="/v2/snapshots/*", kind="slow", count=None, bytes_per_second=400_000)
    text = on_terminal("snapshots", "download", NAME, environ=account.environ(tmp_path / "data"), columns=100)
    assert "━" in text or "╸" in text
    assert f"download {NAME}" in text
    assert f"download {NAME}: " not in text
