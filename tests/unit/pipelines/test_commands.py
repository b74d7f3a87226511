"""Whole answers of commands about mirrors made by hand, as `answers.txt` has them; what varies has a name there."""

import re
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from assets.steps import stream
from pipelines import cli
from pipelines.cli import maintenance, terminal
from pipelines.operations.drop_project import drop_project
from pipelines.operations.rebuild import verify
from pipelines.process import interrupts
from pipelines.report import dictionary, status
from pipelines.report.page import content
from resources import remote
from resources.data_folder import claim
from resources.engine import line_reporter
from resources.enterprise import StreamOptions
from resources.formatting import size_text
from resources.settings import Settings
from resources.tables import HourState
from resources.warehouse import HourStatus, Warehouse, named_in
from tests.builds import close_all
from tests.unit.warehouse.conftest import START

#: The sections of the file by title.
ANSWERS = dict(
    one.split("\n", 1) for one in Path(__file__).with_name("answers.txt").read_text().rstrip().split("\n\n# ")[1:]
)
SIZES, VARYING = (
    [line.split(between) for line in ANSWERS[title].splitlines()]
    for title, between in (("sizes", " "), ("varying", " = "))
)


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
            done = CliRunner(env=given | more).invoke(cli.wme, words.split())
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


def test_compactions_and_what_they_leave_of_a_dropped_project(mirror, answers):
    mirror.load_all(range(4), "enwiki", "frwiki")
    mirror.publish()
    answers("compact")
    of = "4; 0 hours in the DuckDB files, 4 before 2026-11-01 04:00 UTC in the lake"
    assert dict(mirror.status(4).facts)["changes"] == of
    assert verify(mirror.warehouse, line_reporter(print)) == "Verified 3 lake files. No files are damaged."
    mirror.warehouse.copy_to(mirror.data / "copy")
    named = [mirror.data / "lake" / path for paths, _ in named_in(mirror.data / "copy") for path in paths]
    assert [path.is_file() for path in named] == [True] * 3, "of the snapshot, and two of the compaction"


def test_a_removal_that_was_killed_before_its_publication_publishes_when_it_is_repeated(mirror):
    mirror.load_all(range(1), "enwiki", "frwiki")
    mirror.publish()
    mirror.warehouse.drop_project("frwiki")
    close_all()
    assert drop_project(Settings(data=mirror.data, projects=("enwiki",)), "frwiki").lake
    assert mirror.warehouse.sql("SELECT DISTINCT project_id FROM articles").rows == [("enwiki",)]


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
    answers("backup of a lake file that was cut", lambda out: out.partition("\n")[2])


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


def test_each_card_of_the_report(mirror, answers, monkeypatch):
    lake, warehouse, opened = mirror.lake, mirror.warehouse, []
    for name, most in (("PLACES", 1), ("_PROJECTS", 1), ("_ROWS", 2), ("_TITLES", 2)):
        monkeypatch.setattr(content, name, most)
    collect = status.collect
    monkeypatch.setattr(status, "collect", lambda settings, **_: collect(settings, now=lake.hour(121)))
    monkeypatch.setattr(click, "launch", opened.append)

    def load(number, minutes, project, *changes, rejects=()):
        warehouse._clock.now = lake.hour(number + 1) + timedelta(minutes=minutes)
        warehouse.load_hour(lake.hour(number), [lake.file(number, changes, project, 14, rejects)])

    def cards(out):
        """Also the texts of each card of the page: its sentence, and its tables."""
        page = re.sub("(?s)<(figure|summary)>.*?</\\1>", "", (mirror.data / "report.html").read_text())
        found = [re.findall(r">([^<>]*[^<>\s][^<>]*)<", one) for one in page.split('<section class="card" ')[1:]]
        return "\n".join([out.strip(), *(unescape(" | ".join(texts)) for texts in found)])

    load(0, 20, "enwiki", lake.change(1, "P", 0))
    load(0, 30, "frwiki", lake.change(1, "A", 1))
    load(119, 30, "enwiki", *(lake.change(page, f"P {page}", 7140 + page) for page in range(40)))
    moved = [lake.change(7, "Old_name", 7203, "delete", event_id="m"), lake.change(7, "New name", 7203, event_id="m")]
    moved += [lake.change(8, "P", 7202, "delete", event_id="n"), lake.change(8, "Q", 7202, event_id="n")]
    gone, last = lake.change(9, "Gone", 7204, "delete"), lake.change(1, "P_1", 7201, editor_name="b", url="https://x")
    load(120, 30, "enwiki", last, *moved, gone, rejects=[b"z"])
    warehouse.record_statuses([HourStatus(lake.hour(1), "frwiki", 14, HourState.MISSING, "Lost.")])
    load(120, 90, "frwiki", lake.change(1, "A", 7201), rejects=[b"x", b"y"])
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 60)], [lake.change(2, "B", 60)]], "frwiki", 14))
    warehouse.load_lookups([lake.lookups(7300, ("A", None), namespace=14)])
    mirror.publish()
    answers("report", cards)
    answers("rejects")
    assert opened == [str(mirror.data / "report.html")]


def test_a_stream_is_kept_as_the_options_say(mirror, answers, monkeypatch):
    given, steps = {}, [SimpleNamespace(row_count=count) for count in (2, 1_000)]
    monkeypatch.setattr(stream, "format_step", lambda step, lag: f"{step.row_count} of {lag}")
    monkeypatch.setattr(
        stream, "keep", lambda *own, say, **more: given.update(more, own=own) or [say(one, 1.5) for one in steps]
    )
    answers("stream", partial(re.sub, "(?m)^[0-9:]{8} ", ""))
    assert timedelta(hours=2) <= datetime.now(UTC) - given["since"] < timedelta(hours=2, minutes=5)
    options = StreamOptions(connections=4, record_bytes=50 << 20)
    assert (given["step_seconds"], given["options"], given["ended"]()) == (3.0, options, False)
    assert (given["own"][2], given["warn"]) == (mirror.data / "state", terminal.warn)
    assert given["loaded"].args[1] == (("enwiki", 0),)
    monkeypatch.setattr("pipelines.cli.serve.time", SimpleNamespace(monotonic=lambda: float("inf")))
    assert given["ended"]()


def test_a_worker_works_as_the_options_say_and_leaves_when_it_is_interrupted(mirror, answers, monkeypatch):
    tidied, calls, said = [], [], []

    async def serve(*given, started, **more):
        calls.append((*given, more))
        started("tcp://10.0.0.7:40", lambda: calls.append("left"))
        tidied[0]()

    def context(*given, **more):
        calls.append((*given, more))
        return nullcontext(SimpleNamespace(workers=2, readers=3, memory_bytes=300 << 20))

    monkeypatch.setattr("resources.engine.dask.serve", serve)
    monkeypatch.setattr(remote, "worker_context", context)
    monkeypatch.setattr(interrupts, "tidied", lambda tidy: tidied.append(tidy) or nullcontext())
    monkeypatch.setattr(terminal, "warn", said.append)
    answers("worker")
    place, most, more = "dask://127.0.0.1:1", 20 << 20, {"memory_bytes": 500 << 20, "record_bytes_max": 20 << 20}
    served = (place, remote.versions(most), mirror.data / "lake", {"threads": 3, "name": "w"})
    assert calls == [(mirror.data, more), served, "left"]
    about = f"Worker w at tcp://10.0.0.7:40, for {place}: 2 threads, 300 MiB, data folder {mirror.data}."
    assert said == [f"{about} Press Ctrl-C to stop the worker."]
