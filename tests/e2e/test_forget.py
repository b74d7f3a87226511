"""A project that is mirrored no longer is dropped whole: what it was, what stays, and kills on the way."""

import hashlib
import re
from pathlib import Path

import pytest

from resources import datasets
from resources.tables import HourState
from resources.warehouse import HourStatus, Warehouse

ROOT = Path(__file__).resolve().parents[2]
#: Everything that is published of a project, in one text.
OF_PROJECT = (
    "SELECT (SELECT bit_xor(hash(t)) FROM (SELECT * EXCLUDE (source_at) FROM articles WHERE project_id = $p) t) AS a, "
    "(SELECT bit_xor(hash(t)) FROM (FROM article_changes WHERE project_id = $p) t) AS c, "
    "(SELECT bit_xor(hash(t)) FROM (FROM article_bodies WHERE project_id = $p) t) AS b, "
    "(SELECT bit_xor(hash(t)) FROM (FROM snapshot_articles WHERE project_id = $p) t) AS s, "
    "(SELECT bit_xor(hash(t)) FROM (SELECT * EXCLUDE (checked_at) FROM hours WHERE project_id = $p) t) AS h, "
    "(SELECT bit_xor(hash(t)) FROM (SELECT * EXCLUDE (applied_at) FROM loads WHERE project_id = $p) t) AS l, "
    "(SELECT bit_xor(hash(t)) FROM (FROM project_state WHERE project_id = $p) t) AS p, "
    "(SELECT count(*) FROM articles WHERE project_id = $p) AS n"
)
#: Ends its process by SIGKILL when it is about to remove or rename the n-th file or folder.
KILLED = """
import os, signal, sys
left = int(sys.argv.pop(1))
def count(event, arguments):
    global left
    if event in {"os.remove", "os.rename", "os.rmdir"} and "frwiki" in str(arguments) + str(sys.argv):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
from pipelines.cli import main
main()
"""


def files(data, name=""):
    """Digests of the files of the archive and the lake whose path holds a text."""
    return {
        path.relative_to(data).as_posix(): hashlib.md5(path.read_bytes()).hexdigest()
        for folder in ("archive", "lake")
        for path in (data / folder).rglob("*")
        if path.is_file() and name in path.relative_to(data).as_posix()
    }


@pytest.fixture
def both(mirrored, copy):
    """The environment of a copy of a folder with two projects, of which one is to be mirrored from now on."""
    return copy(mirrored | {"WME_PROJECTS": "enwiki"})


def test_a_dropped_project_leaves_nothing_and_the_other_one_as_it_was(call, both, hours):
    data = Path(both["WME_DATA"])

    def of(project):
        told = call("sql", OF_PROJECT.replace("$p", f"'{project}'"), "--format", "csv", environ=both).done()
        return told.out

    # unfinished files of it go as well; others whose names hold its name stay
    first = data / f"archive/batches/date={hours[0]:%Y-%m-%d}/hour={hours[0]:%H}"
    for name in (".frwiki_namespace_0.aaaaaaaa.tar.gz.tmp", "frwiki_namespace_14.aaaaaaaa.tar.gz.part"):
        (first / name).write_bytes(b"half")
    for name in ("frwikibooks_namespace_0.aaaaaaaa.tar.gz", "x_frwiki_namespace_0.a.tar.gz", "frwiki_namespaces"):
        (first / name).write_bytes(b"of another")
    before, everything = of("enwiki"), files(data)
    its = {name for name in everything if re.search(r"/\.?frwiki_namespace_", name)}
    call("forget", "frwiki", "--yes", environ=both | {"WME_PROJECTS": "enwiki,frwiki"}).fails(
        "frwiki is in WME_PROJECTS, so the next run would load the project again. Nothing was removed."
    )
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
    assert of("frwiki").splitlines()[1] == ",,,,,,,0", "something is left"
    rejects = "SELECT count(*) FROM rejects WHERE project_id = 'frwiki'"
    assert call("sql", rejects, "--format", "csv", environ=both).out.splitlines()[1] == "0"
    lone = f"archive/batches/date={hours[2]:%Y-%m-%d}/hour={hours[2]:%H}"
    assert files(data) == {
        name: digest for name, digest in everything.items() if name not in its and not name.startswith(lone)
    }
    assert not (data / lone).exists()
    assert not list((data / "lake").rglob("*frwiki*"))
    call("forget", "frwiki", "--yes", environ=both, history=True).done(" contains no data for frwiki.")
    assert files(data, "reference")
    call(
        "run", "--from", f"{hours[2]:%Y-%m-%dT%H}", "--no-reference", environ=both | {"WME_PROJECTS": "enwiki,frwiki"}
    ).done()
    assert of("frwiki") != of("zzwiki")


def test_kills_on_the_way_are_made_good_by_calling_it_again(call, killed, both, hours):
    data = Path(both["WME_DATA"])
    # the list of an hour is kept that another project was looked for in
    Warehouse(data).record_statuses(
        [HourStatus(hours[2], "enwiki", 0, HourState.ABSENT, "Quiet.")], dataset=datasets.ARTICLE_CHANGES
    )
    everything = files(data)
    kept = {name: digest for name, digest in everything.items() if "frwiki" not in name}
    pages = (
        "SELECT count(*), count(html) FROM articles JOIN article_bodies USING (project_id, article_id, version_id, "
        "source_at)"
    )
    left = []
    # before, while and after it publishes: a publication removes and renames some files of its own
    for at in (0, 9, 22):
        killed(KILLED, str(at), "forget", "frwiki", "--yes", environ=both)
        left.append(len(files(data, "frwiki")))
        # whatever was done so far, what is published can be read whole
        assert call("sql", pages, environ=both).code == 0
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[0]
    call("forget", "frwiki", "--yes", environ=both, history=True).done()
    assert not files(data, "frwiki")
    assert files(data) == kept
    assert "contains no data for frwiki" in call("forget", "frwiki", "--yes", environ=both, history=True).out


def test_forgetting_what_is_not_there(call, filled, tmp_path):
    nothing = call("forget", "dewiki", "--yes", environ=filled[0])
    assert (nothing.code, nothing.err.count("\n")) == (0, 1)
    assert " contains no data for dewiki." in nothing.out
    call("forget", "dewiki", environ={"WME_DATA": str(tmp_path / "none")}).done()
    assert not (tmp_path / "none").exists()
    for wrong in ("../x", "En", ""):
        call("forget", wrong, environ=filled[0]).fails("is not a valid project. A valid example is enwiki.", code=2)
