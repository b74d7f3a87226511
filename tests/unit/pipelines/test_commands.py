"""Whole answers of commands about mirrors made by hand, as `answers.txt` has them; what varies has a name there."""

import errno
import os
import re
import socket
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import click
import pytest
from click.testing import CliRunner

from assets.steps import stream
from assets.steps.compaction import compact_lake
from assets.steps.snapshot import DISK_FACTOR
from pipelines import cli
from pipelines.automation import discovery
from pipelines.cli import maintenance, records, run, terminal
from pipelines.operations import rebuild, snapshots
from pipelines.operations import run as runs
from pipelines.operations.drop_project import drop_project
from pipelines.process import interrupts
from pipelines.report import dictionary, status
from resources import connection, datasets, remote, storage
from resources.adapters import ConfiguredEngine
from resources.data_folder import claim, ui_lock
from resources.datasets import ENTITY_CHANGES, SNAPSHOT_ARTICLES, STRUCTURED_ARTICLES
from resources.engine import line_reporter
from resources.enterprise import FetchOptions, Filter, Query, StreamOptions
from resources.enterprise.query import Kind
from resources.formatting import size_text
from resources.settings import Settings
from resources.tables import HourState
from resources.warehouse import FaultyFile, HourStatus, Warehouse, named_in
from tests.builds import close_all
from tests.unit.warehouse.conftest import START

#: The sections of the file by title.
_, *SECTIONS = Path(__file__).with_name("answers.txt").read_text().rstrip().split("\n\n# ")
ANSWERS = dict(one.split("\n", 1) for one in SECTIONS)
SIZES = [line.split(" ") for line in ANSWERS["sizes"].splitlines()]
VARYING = [line.split(" = ") for line in ANSWERS["varying"].splitlines()]


@pytest.fixture
def answers(mirror, monkeypatch):
    """`answers(title)`: run the commands of a section, two months later, and see that they answer as it says."""
    monkeypatch.setattr(maintenance, "Warehouse", partial(Warehouse, clock=lambda: START + timedelta(days=62)))
    given = {"WME_DATA": str(mirror.data), "WME_PROJECTS": "enwiki", "WME_MIN_FREE_GB": "0"}

    def sizes(prefix):
        found = {name: (one.stat().st_size for one in mirror.data.glob(path) if one.is_file()) for name, path in SIZES}
        return {prefix + name: size_text(sum(those)) for name, those in found.items()}

    def see(title, shown=lambda out: out):
        for answer in ANSWERS[title].replace("TMP", str(mirror.data.parent))[2:].split("\n$ "):
            close_all()
            (line, _, wanted), before = answer.partition("\n"), sizes("was_")
            settings, words = line.split("wme ")
            more = dict(one.split("=") for one in settings.split())
            done = CliRunner(env=given | more).invoke(cli.wme, [one.replace("EMPTY", "") for one in words.split()])
            assert str(done.exit_code) == more.get("CODE", "0"), done.output
            told = done.stdout + (done.stderr.partition("Error: ")[2] or str(done.exception)) * bool(done.exit_code)
            out = re.sub(" +", " ", shown(re.sub(" +", " ", told))).replace(" \n", "\n").rstrip()
            for name, pattern in VARYING:
                out = re.sub(pattern, name, out)
            for name, size in {**before, **sizes("")}.items():
                wanted = wanted.replace(f"<{name}>", size)
            assert out.splitlines() == wanted.splitlines(), line

    return see


def test_wrong_calls_are_refused_before_anything_is_made(mirror, answers):
    answers("refused")
    assert CliRunner().invoke(cli.wme, ["forget", ""]).exit_code == 2
    assert not mirror.data.with_name("none").exists()


def test_compactions_and_what_they_leave_of_a_dropped_project(mirror, answers, monkeypatch):
    mirror.load_all(range(4), "enwiki", "frwiki")
    mirror.publish()
    compacting = Mock(side_effect=lambda *given, **more: compact_lake(*given, **more | {"compactor": None}))
    monkeypatch.setattr("assets.steps.compaction.compact_lake", compacting)
    monkeypatch.setattr(ConfiguredEngine, "compactor", lambda *_: nullcontext("workers"))
    answers("compact")
    passed = [compacting.call_args_list[0].kwargs[name] for name in ("compactor", "threads", "min_free_gb")]
    assert passed == ["workers", 3, 999999]
    of = "4; 0 hours in the DuckDB files, 4 before 2026-11-01 04:00 UTC in the lake"
    assert dict(mirror.status(4).facts)["changes"] == of
    assert rebuild.verify(mirror.warehouse, line_reporter(print)) == "Verified 3 lake files. No files are damaged."
    with monkeypatch.context() as patch:  # a file that this user may not read is not damaged
        patch.setattr(storage, "verify", Mock(side_effect=PermissionError(errno.EACCES, "Not allowed")))
        assert rebuild.verify(mirror.warehouse, line_reporter(print)).endswith(" No files are damaged.")
    mirror.warehouse.copy_to(mirror.data / "copy")
    monkeypatch.setattr("resources.warehouse.read.ledger._ROWS", 1)  # of the copy's ledger at a time
    named = [mirror.data / "lake" / path for paths, _ in named_in(mirror.data / "copy") for path in paths]
    assert [path.is_file() for path in named] == [True] * 3, "of the snapshot, and two of the compaction"


def test_a_removal_that_was_killed_before_its_publication_publishes_when_it_is_repeated(mirror):
    mirror.load_all(range(1), "enwiki", "frwiki")
    mirror.publish()
    mirror.warehouse.drop_project("frwiki")
    close_all()
    assert drop_project(Settings(data=mirror.data, projects=("enwiki",), storage_version="v2.0.0"), "frwiki").lake
    assert mirror.warehouse.sql("SELECT value FROM about WHERE name = 'storage_version'").rows == [("v2.0.0",)]
    assert mirror.warehouse.sql("SELECT DISTINCT project_id FROM articles").rows == [("enwiki",)]


def test_lookups_tell_how_many_pages_are_uncertain_though_nothing_was_published(mirror, monkeypatch):
    mirror.publish()
    monkeypatch.setattr(runs, "look_up", lambda _: runs.RunReport([]))
    monkeypatch.setattr(Warehouse, "project_states", lambda _, published=True: [Mock(uncertain_count=3 - published)])
    done = CliRunner(env={"WME_DATA": str(mirror.data), "WME_PROJECTS": "enwiki"}).invoke(cli.wme, ["lookups"])
    assert done.stdout.rstrip().endswith("Uncertain in `articles`: 3 pages.")


def test_backups(mirror, answers):
    mirror.load_all(range(2))
    mirror.publish()
    (mirror.data / "dagster").mkdir()
    for name in ("dagster/dagster.yaml", "state/lookups.json", "state/service.json"):
        (mirror.data / name).write_text('{"service": "of"}' + " " * 200_000)
    answers("backup")
    next(mirror.data.parent.glob("to/*/dagster/dagster.yaml")).unlink()
    answers("restore of a backup that lacks a file")
    cut = mirror.files[1, "enwiki"].path
    cut.write_bytes(cut.read_bytes()[:-1])
    answers("backup of a lake file that was cut")


def test_status_and_dictionary(mirror, answers, monkeypatch):
    collect = status.collect
    monkeypatch.setattr(status, "collect", lambda settings, hours: collect(settings, hours, mirror.lake.hour(4)))
    mirror.load(0)
    mirror.load(1, "frwiki")
    changes = [mirror.lake.change(2, "B", 190)] * 2
    mirror.warehouse.load_hour(mirror.lake.hour(3), [mirror.lake.file(3, changes, rejects=[b"x"])])
    claim(mirror.data, "https://elsewhere")
    mirror.publish()
    pages = mirror.data / "pages"
    pages.mkdir()
    (pages / "old.md").touch()
    answers("status")
    assert {path.name for path in pages.iterdir()} == dictionary.pages().keys()
    assert CliRunner().invoke(cli.wme, ["dictionary"]).stdout == dictionary.render()
    columns_of = {table.name: {column.name for column in table} for table in datasets.tables()}
    columns = "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'main' GROUP BY ALL"
    published = {table: set(names) for table, names in mirror.warehouse.sql(columns).rows}
    for section in dictionary.render().split("\n## ")[1:]:
        name, lines = section.split("\n", 1)
        rows = dict(re.findall(r"(?m)^\| `(\w+)` \| (.*?) \|", lines))
        assert {one for one in rows if not rows[one].endswith("only in the lake")} == rows.keys() & published[name]
        told, view = (*re.findall(r"(?m)^Only in the lake: (.*)\. In DuckDB, see \[`(.*)`\]", lines), ("", name))[0]
        named = set(re.findall(r"\w+", told))
        assert (columns_of[name] - named, named - published[view]) == (published[name], set())


def test_each_card_of_the_report(mirror, answers, monkeypatch):
    lake, warehouse, opened = mirror.lake, mirror.warehouse, []
    for name, most in (("content.PLACES", 1), ("content._PROJECTS", 1), ("content._ROWS", 2), ("content._TITLES", 3)):
        monkeypatch.setattr(f"pipelines.report.page.{name}", most)
    monkeypatch.setattr("pipelines.report.page._SHOWN", 5)
    collect = status.collect
    monkeypatch.setattr(status, "collect", lambda settings, **_: collect(settings, now=lake.hour(121)))
    monkeypatch.setattr(click, "launch", opened.append)

    def load(number, minutes, project, *changes, rejects=()):
        warehouse._clock.now = lake.hour(number + 1) + timedelta(minutes=minutes)
        warehouse.load_hour(lake.hour(number), [lake.file(number, changes, project, 14, rejects)])

    def cards(out):
        """Also the texts of each card of the page: its sentence, its legend, and its tables."""
        page = re.sub("(?s)<(svg|summary)\\b.*?</\\1>", "", (mirror.data / "report.html").read_text())
        found = [re.findall(r">([^<>]*[^<>\s][^<>]*)<", one) for one in page.split('<section class="card" ')[1:]]
        return "\n".join([out.strip(), *(unescape(" | ".join(texts)) for texts in found)])

    load(0, 20, "enwiki", lake.change(1, "P", 0))
    load(0, 30, "frwiki", lake.change(1, "A", 1))
    load(119, 30, "enwiki", *(lake.change(page, f"P {page}", 7140 + page) for page in range(40)))
    moved = [lake.change(7, "Old_name", 7203, "delete", event_id="m"), lake.change(7, "New name", 7203, event_id="m")]
    moved += [lake.change(8, "P", 7202, "delete", event_id="n"), lake.change(8, "Q", 7202, event_id="n")]
    gone = lake.change(9, "Gone", 7204, "delete", event_id=None)
    last = lake.change(1, "P_1", 7201, editor_name="b", url="https://x", event_id=None)
    load(120, 30, "enwiki", last, *moved, gone, rejects=[b"z"])
    warehouse.record_statuses([HourStatus(lake.hour(1), "frwiki", 14, HourState.MISSING, "Lost.")])
    warehouse.record_statuses([HourStatus(lake.hour(-1), "wikidatawiki", 0, HourState.EMPTY, "")], ENTITY_CHANGES)
    load(120, 90, "frwiki", lake.change(1, "A", 7201), rejects=[b"x", b"y"])
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 60)], [lake.change(2, "B", 60)]], "frwiki", 14))
    warehouse.load_lookups([lake.lookups(7300, ("A", None), namespace=14)])
    mirror.publish()
    answers("report", cards)
    answers("rejects")
    assert opened == [str(mirror.data / "report.html")]


def test_a_stream_is_kept_as_the_options_say(mirror, answers, monkeypatch):
    given, steps, tidied = {}, [SimpleNamespace(row_count=count) for count in (2, 1_000)], []
    monkeypatch.setattr(stream, "format_step", lambda step, lag: f"{step.row_count} of {lag}")

    def keep(*own, say, **more):
        given.update(more, own=own, was=given.get("since"))
        for step in steps:
            say(step, 1.5)

    monkeypatch.setattr(stream, "keep", keep)
    monkeypatch.setattr(interrupts, "tidied", lambda tidy: tidied.append(tidy) or nullcontext())
    answers("stream", partial(re.sub, "(?m)^[0-9:]{8} ", ""))
    ages = datetime.now(UTC) - given["was"], datetime.now(UTC) - given["since"] - timedelta(hours=2)
    assert all(timedelta(0) <= age < timedelta(minutes=5) for age in ages)
    options = StreamOptions(connections=4, record_bytes=50 << 20)
    assert (given["step_seconds"], given["options"], given["ended"]()) == (3.0, options, False)
    assert (given["own"][2], given["warn"]) == (mirror.data / "state", terminal.warn)
    (warehouse, scope) = given["loaded"].args
    assert (warehouse._connector.lock_timeout, scope) == (2.0, (("enwiki", 0),))
    assert (given["own"][1]._scope, given["own"][1]._reader.bodies) == ([("enwiki", 0)], {"html"})
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.cli.serve.time", SimpleNamespace(monotonic=lambda: float("inf")))
        assert given["ended"]()
    monkeypatch.setattr("pipelines.cli.serve.threading", Mock())
    tidied[-1]()
    assert given["ended"](), "interrupted before its time"


def test_the_sandbox_needs_no_settings_but_its_folder_and_tells_how_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("resources.sandbox.__main__.main", served := Mock(return_value=3))
    environ = {"WME_DATA": str(tmp_path), "WME_SANDBOX": "perhaps"}
    assert CliRunner(env=environ).invoke(cli.wme, ["sandbox", "--port", "1"]).exit_code == 3
    served.assert_called_once_with(("--port", "1"), called="wme sandbox", state=tmp_path / "sandbox")


def test_a_ui_starts_on_a_port_that_is_free_unless_another_serves_the_folder(tmp_path, monkeypatch):
    asked, lock = MagicMock(), ui_lock(tmp_path)
    lock.parent.mkdir()
    lock.touch()
    for name in ("cli.serve.socket", "process.supervisor.hold", "process.processes.serve"):
        monkeypatch.setattr(f"pipelines.{name}", getattr(asked, name.rpartition(".")[2]))
    assert CliRunner(env={"WME_DATA": str(tmp_path)}).invoke(cli.wme, ["ui", "--port", "7"]).exit_code == 0
    called = {name.rpartition("__enter__().")[2]: given for name, given, _ in asked.mock_calls if given or "re" in name}
    ways = {"setsockopt": (asked.socket.SOL_SOCKET, asked.socket.SO_REUSEADDR, 1), "bind": (("127.0.0.1", 7),)}
    steps = {"hold": (lock,), "hold().release": (), **ways, "socket.socket().__exit__": (None,) * 3}
    assert [*called.items()] == [*steps.items(), ("serve", (tmp_path, 7))]


#: Options of a run; minutes to wait, hours counted, lists, earlier hours, and datasets and age of its snapshots.
RUNS = [
    ("", (0, 3, None, True, (SNAPSHOT_ARTICLES,), False)),
    ("--no-snapshots --hours 5 --wait", (60, 5, None, False)),
    ("--snapshots newer --wait=7 --reference", (7, 3, True, True, (), True)),
    ("--snapshots --no-reference --dataset structured_articles", (0, 3, False, True, (STRUCTURED_ARTICLES,), False)),
    ("--from 2026-11-01T00 --to 2026-11-01T01", (0, None, None, False, (SNAPSHOT_ARTICLES,), False)),
]


@pytest.fixture
def scripted(monkeypatch):
    """What `wme` runs is only noted, and the service has what the test says."""
    noted, client = [], Mock()
    monkeypatch.setattr(connection, "client", lambda *_, **__: nullcontext(client))
    monkeypatch.setattr(connection, "check_names", lambda *_, **__: None)
    monkeypatch.setattr(connection, "found_sandbox", lambda _: object())
    monkeypatch.setattr(runs, "newest_hours", lambda _client, count, *_: noted.append(count) or [START] * count)
    return noted


@pytest.mark.parametrize(("words", "wanted"), RUNS)
def test_a_run_is_what_the_options_say(tmp_path, scripted, monkeypatch, words, wanted):
    def outlast(attempt, answers, *given):
        scripted.extend((answers.func, *given))
        return attempt()

    def run(_settings, hours, *, engine, **given):
        scripted.append({"hours": len(hours)} | given)
        return runs.RunReport()

    monkeypatch.setattr(runs, "outlast", outlast)
    monkeypatch.setattr(runs, "run", run)
    monkeypatch.setattr(discovery, "snapshots_to_fetch", lambda *given, newer: {"of": (given[2], newer)})
    done = CliRunner(env={"WME_DATA": str(tmp_path)}).invoke(cli.wme, ["run", *words.split()])
    assert done.exit_code == 0, done.output
    minutes, count, lists, with_lacking, *snapshots = wanted
    given = {"hours": count or 2, "snapshots": {"of": tuple(snapshots)} if snapshots else {}, "say": terminal.warn}
    given |= {"refresh_reference": lists, "with_lacking": with_lacking}
    assert scripted == [runs.is_reachable, minutes, terminal.warn, *[count] * bool(count), given]


def test_a_dry_run_counts_files_units_and_disk_space_of_hours_and_snapshots(answers, scripted, monkeypatch):
    files = [SimpleNamespace(project_id="enwiki", namespace_id=n, approximate_bytes=10**9) for n in range(2)]

    def plan_hour(hour, _client, _layout, _scope, dataset):
        return SimpleNamespace(dataset=dataset, hour=hour, wanted=files, missing=files[:1], missing_bytes=10**9)

    sizes = {"size_bytes": 5 * 10**9, "missing_bytes": 5 * 10**9, "disk_bytes": 12 * 10**9, "unit_count": 7}
    plan = SimpleNamespace(dataset=SNAPSHOT_ARTICLES, snapshot=files[0], missing=files, **sizes)
    monkeypatch.setattr("assets.steps.hour.plan_hour", plan_hour)
    monkeypatch.setattr("assets.steps.snapshot.plan_snapshot", lambda *_: plan)
    monkeypatch.setattr(discovery, "lacking_hours", lambda *_: [START - timedelta(hours=1)])
    monkeypatch.setattr(discovery, "snapshots_to_fetch", lambda *_, **__: {SNAPSHOT_ARTICLES: ["x"]})
    answers("dry run")


def test_a_download_of_snapshots_is_what_the_options_say(tmp_path, scripted, monkeypatch):
    nothing = snapshots.Report((), (), ())
    monkeypatch.setattr(snapshots, "plan", lambda _client, _settings, *asked: scripted.append(asked) or ["planned"])
    monkeypatch.setattr(snapshots, "download", lambda *of, workers, **_: scripted.append((of[1], workers)) or nothing)
    words = "download --json --workers 7 --most-units 3 --chunks --beyond-quota --dataset structured_articles x_0"
    environ = {"WME_DATA": str(tmp_path), "WME_MIN_FREE_GB": "2"}
    done = CliRunner(env=environ).invoke(cli.wme, ["snapshots", *words.split()])
    assert done.exit_code == 0, done.output
    sizes = {"keep_free_bytes": 2 * 10**9, "disk_factor": DISK_FACTOR}
    options = FetchOptions(chunks=True, beyond_quota=True, most_units=3, **sizes)
    assert scripted == [(("x_0",), options, STRUCTURED_ARTICLES), (["planned"], 7)]


def test_a_lookup_is_what_the_options_say():
    asked = []
    command = click.command("look")(records.queried(Kind.ARTICLES, lambda **given: asked.append(given)))
    texts = ("1", '"1"', "true", "null", "NaN", "1e999", "[1]", "a=b", "")
    words = ["--project=enwiki", "--language=fr", "--limit=7", "--fields=a,,b.*", "--fields=c"]
    done = CliRunner().invoke(command, [*words, *(f"--filter=f={text}" for text in texts)])
    assert done.exit_code == 0, done.output
    equal = [("is_part_of.identifier", "enwiki"), ("in_language.identifier", "fr")]
    equal += [("f", value) for value in (1, "1", True, None, "NaN", "1e999", "[1]", "a=b", "")]
    filters = tuple(Filter(*one) for one in equal)
    assert asked == [{"asked": Query(fields=("a", "b.*", "c"), filters=filters, limit=7)}]


def test_a_document_says_whether_what_was_loaded_is_published_and_how_long_each_hour_took(mirror):
    found, hour, key = [], mirror.lake.hour(0), "enwiki_namespace_0"
    report = runs.RunReport(hours=[hour], seconds={("article_changes", hour, key): 1.5}, unreachable=True)
    for do in (lambda: mirror.load(0), mirror.publish, lambda: mirror.load(1)):
        do()
        told = run._as_json(Settings(data=mirror.data), report)
        assert [(one["batch_hour"], one["seconds"]) for one in told["hours"]] == [(hour, 1.5)]
        found.append((told["published_file"], told["is_published"], told["is_unreachable"]))
    path = mirror.warehouse.published_path
    assert found == [(None, False, True), (path, True, True), (path, False, True)]


def test_a_run_names_lake_files_that_are_gone_and_fails_for_those_that_stay_damaged(mirror, monkeypatch):
    said, faulty = [], [FaultyFile("a", "is gone", is_gone=True), FaultyFile("b", "is short", is_gone=False)]
    monkeypatch.setattr(Warehouse, "faulty_lake_files", lambda _, **__: faulty)
    monkeypatch.setattr(terminal, "warn", said.append)
    report = runs.RunReport(["First."], repaired="Restored.")
    run.report_lake(Settings(data=mirror.data), report)
    assert said == ["Restored.", "Rows from missing lake files are not in the published file: a is gone."]
    told = (
        "1 damaged lake file could not be restored: b is short. All other data is published. If the archive does not "
        "contain the files' content, restore the files from a backup (docs/recover.md, Damaged lake files)."
    )
    assert report.failures == ["First.", told]


def test_a_rebuild_of_everything_alone_makes_the_build_file_complete_and_each_records_gaps(mirror, monkeypatch):
    mirror.load_all((0, 2))
    monkeypatch.setattr(rebuild, "load_archived", lambda *_: rebuild.Rebuilt())
    for only, is_complete in (({}, False), (None, True)):
        with mirror.warehouse._connector.build("lose data") as build:
            build.execute("UPDATE internal.meta SET is_complete = false; DELETE FROM hours WHERE state <> 'loaded'")
        close_all()
        rebuild.rebuild(Settings(data=mirror.data, projects=("enwiki",)), only)
        states = [row.state for row in mirror.warehouse.coverage(published=False)]
        assert (mirror.warehouse.is_complete(), states) == (is_complete, ["loaded", "past_retention", "loaded"])


def test_a_worker_works_as_the_options_say_and_leaves_when_it_is_interrupted(mirror, answers, monkeypatch):
    tidied, calls, said = [], [], []

    async def serve(*given, started, **more):
        calls.append((*given, more))
        started("tcp://10.0.0.7:40", lambda: calls.append("left"))
        tidied[-1]()

    def context(*given, **more):
        calls.append((*given, more))
        return nullcontext(SimpleNamespace(workers=2, readers=3, memory_bytes=300 << 20))

    monkeypatch.setattr("resources.engine.dask.serve", serve)
    monkeypatch.setattr(remote, "worker_context", context)
    monkeypatch.setattr(interrupts, "tidied", lambda tidy: tidied.append(tidy) or nullcontext())
    monkeypatch.setattr(terminal, "warn", said.append)
    answers("worker")
    place = "dask://127.0.0.1:1"
    for name, memory, most in (("w", 500 << 20, 20 << 20), (f"{socket.gethostname()}-{os.getpid()}", None, 64 << 20)):
        served = (place, remote.versions(most), mirror.data / "lake", {"threads": 3, "name": name})
        of_context = (mirror.data, {"memory_bytes": memory, "record_bytes_max": most})
        assert [calls.pop(0) for _ in range(3)] == [of_context, served, "left"]
        about = f"Worker {name} at tcp://10.0.0.7:40, for {place}: 2 threads, 300 MiB, data folder {mirror.data}."
        assert said.pop(0) == f"{about} Press Ctrl-C to stop the worker."
