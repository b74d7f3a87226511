"""The page about the mirror: what it says, that nothing in it is trusted or comes from elsewhere, and its size."""

import json
import re
import shutil
from collections import Counter
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import dagster as dg
import duckdb
import pytest

from assets import published
from pipelines.definitions import build_defs
from pipelines.report import status as statuses
from pipelines.report.page import _facts, attention, figures, headline, write
from pipelines.report.page.content import PLACES, _Axis
from pipelines.report.page.figures import STATES, areas, coverage
from pipelines.report.status import Status, collect
from resources import datasets
from resources.errors import MirrorError
from resources.formatting import size_text
from resources.settings import Settings
from resources.tables import NO_SNAPSHOT
from resources.warehouse.database.sql import statement
from resources.warehouse.read.coverage import Gap, Place
from tests.unit.pipelines.conftest import ONE, Mirror
from tests.unit.warehouse.conftest import START

HOSTILE = '</script><img src=x onerror=alert(1)> & "quoted" $x$ `wme clean`'


class Page(HTMLParser):
    """What a browser would make of it: headings, texts, attributes; an element that is not closed is an error."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.headings, self.text = [], Counter(), [], [], ""
        self.source = path.read_text("utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += [(tag, *one) for one in attributes]
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in {"meta", "link"} or self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
            if self.open[-1:] == ["h2"]:
                self.headings.append(data)


def made(mirror, newest, **more):
    settings = Settings(data=mirror.data, min_free_gb=0, **{"projects": ("enwiki",), **more})
    wrote = write(settings, now=mirror.lake.hour(newest) + ONE)
    return wrote, Page(wrote.path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Five hours in which pages are edited, moved, deleted and named with care, and lines are rejected."""
    mirror = Mirror(tmp_path_factory.mktemp("filled") / "data")
    lake, hours = mirror.lake, {}
    for number in range(5):
        minute, web = 60 * number + 1, {"url": "https://en.wikipedia.org/wiki/A"}
        changes = [lake.change(1, "A", minute, editor_name=f"editor {number}", **web)]
        if number == 2:
            changes.append(lake.change(2, HOSTILE, minute + 1, url='javascript:alert("x")'))
            changes += [lake.change(3, "Old name", minute + 2, "delete"), lake.change(4, "Gone", minute + 3, "delete")]
            changes.append(lake.change(3, "New name", minute + 2) | {"event_id": changes[-2]["event_id"]})
        rejects = ["not a record"] if number == 3 else []
        hours[number] = lake.file(number, changes, rejects=rejects)
    for number, file in hours.items():
        mirror.warehouse.load_hour(lake.hour(number), [file], dataset=datasets.ARTICLE_CHANGES)
    mirror.publish()
    return mirror


@pytest.fixture(scope="module")
def told(filled):
    """The page about it as of the end of the newest hour, and what was said of it."""
    return made(filled, 4)


def test_each_question_has_its_card_and_the_page_is_alone_and_runs_nothing(filled, told):
    wrote, page = told
    cards = ["Newest hours", "Lag and freshness", "Changes per hour", "Most edited pages", "Deletions and moves"]
    cards += ["Rejects", "Throughput", "Quota", "Storage"]
    assert page.headings == ["What needs attention", *cards, "Facts"]
    assert wrote.attention == [f"enwiki namespace 0: {NO_SNAPSHOT}."]
    assert NO_SNAPSHOT.replace("`", "") in page.text
    assert (wrote.path, wrote.size_bytes) == (filled.data / "report.html", len(page.source.encode()))
    # the quota has nothing to show, the loads were all in one hour, and all hours had ended before
    assert wrote.picture_count == page.tags["svg"] == 4
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert all(len(label) > 40 for label in labels)

    assert not {"script", "iframe", "object", "img", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    links = {value for tag, name, value in page.attributes if name in {"href", "src", "xlink:href"}}
    assert links == {"data:,", "https://en.wikipedia.org/wiki/A"}  # the address that is none of the web's is no link
    assert "url(" not in page.source
    assert "@import" not in page.source
    [policy] = [value for tag, name, value in page.attributes if (tag, name) == ("meta", "content") and "src" in value]
    assert policy.startswith("default-src 'none'; ")
    assert HOSTILE in page.text  # as it is, and no markup of it

    assert "1 project namespace: no hours are missing." in made(filled, 5)[1].text


def test_needs_of_attention_are_said_in_one_line_and_cut(whole, monkeypatch):
    wrote, page = made(whole, 4)
    assert (page.headings[0], wrote.attention_count) == ("Nothing needs attention", 0)
    wrote, _ = made(whole, 4, projects=tuple(f"p{number:02}wiki" for number in range(60)))
    shown = [line for line in wrote.attention if "no hours have been loaded" in line]
    names = ", ".join(f"p{number:02}wiki namespace 0" for number in range(5))
    assert shown == [f"{names} and 55 more: no hours have been loaded yet. `wme run` fetches the newest hours."]
    assert wrote.attention_count == len(wrote.attention)
    alike = Status(troubles=[f"{project} namespace 10: full." for project in ("enwiki", "frwiki")])
    assert attention(alike) == ["enwiki namespace 10, frwiki namespace 10: full."]
    different = [f"Trouble {number}." for number in range(60)]
    monkeypatch.setattr(statuses, "collect", lambda *_, **__: Status(troubles=different))
    wrote, page = made(whole, 4)
    assert (wrote.attention_count, wrote.attention) == (60, different[:30])
    assert all(text in page.text for text in different[:30])
    assert not list(whole.data.glob("*.tmp"))
    assert "30 more; wme status lists them all." in page.text


def test_a_mirror_in_which_nothing_is_or_can_be_read_says_what_to_do(mirror, tmp_path):
    mirror.warehouse.publish()
    _, page = made(mirror, 4)
    assert "No hours have been loaded yet. Run wme run to fetch the newest hours" in page.text
    with pytest.raises(MirrorError, match="no published file"):
        write(Settings(data=tmp_path / "none", min_free_gb=0))
    assert not (tmp_path / "none").exists()
    mirror.warehouse.published_path.write_bytes(b"no database")
    wrote, page = made(mirror, 4)
    assert (wrote.picture_count, wrote.attention_count) == (0, 1)
    assert page.headings == ["What needs attention", "Facts"]


def gap(project, first, last, reason="The archive is damaged."):
    return Gap(project, 0, START + first * ONE, START + last * ONE, "missing", reason, "article_changes")


def test_gaps_that_differ_only_in_the_project_are_one_line_and_the_account_is_not_named():
    found = [gap("enwiki", 1, 2), gap("enwiki", 5, 5), gap("frwiki", 1, 2), gap("fr1wiki", 1, 2)]
    found.append(gap("dewiki", 7, 7, "Lost."))
    troubles = ["First.", *(one.sentence for one in found), "`wme run` fetches them."]
    told = attention(Status(gaps=found, troubles=troubles))
    hours = "2026-11-01 01:00 to 2026-11-01 02:00 (2 hours)"
    assert told == [
        "First.",
        f"enwiki namespace 0, frwiki namespace 0, fr1wiki namespace 0 {hours}: missing. The archive is damaged.",
        "enwiki namespace 0 2026-11-01 05:00: missing. The archive is damaged.",
        "dewiki namespace 0 2026-11-01 07:00: missing. Lost.",
        "`wme run` fetches them.",
    ]
    workers = [("worker", f"w{number}") for number in range(7)]
    status = Status(facts=[("tokens", "Logged in as anna."), ("a", "3"), *workers, ("b", "y" * 301)])
    cut = f"{'y' * 300} ... (`wme status` shows all)"
    assert list(_facts(status)) == [("a", "3"), ("worker", "w0, w1, w2, w3, w4 and 2 more"), ("b", cut)]


def test_the_headline_comes_first_and_says_how_fresh_the_mirror_is(filled, told):
    _, page = told
    published = filled.warehouse.publication().published_at
    names = ("Newest hour", "Published", "Stream", "Disk free")
    assert all(page.text.index(name) < page.text.index("What needs attention") for name in names)
    head = dict(headline(collect(Settings(data=filled.data, projects=("enwiki",)), 48, filled.lake.hour(4) + ONE)))
    assert (tuple(head), head["Newest hour"]) == (names, "2026-11-01 04:00 UTC")
    assert (head["Published"], head["Stream"]) == (f"{published:%Y-%m-%d %H:%M} UTC", "not kept")
    projects = enumerate(("enwiki", "frwiki", "itwiki"))
    places = [Place(project, 0, (), "article_changes", START + number * ONE) for number, project in projects]
    newest = "2026-11-01 02:00 UTC (furthest behind: 2026-11-01 00:00)"
    assert dict(headline(Status(places=places)))["Newest hour"] == newest
    for is_running, is_read in ((True, "read"), (False, "not being read")):
        stream = {"is_running": is_running, "lag_seconds": 1234.4}
        assert dict(headline(Status(stream=stream)))["Stream"] == f"{is_read}, 1,234 s behind"


def test_the_lag_leaves_out_hours_of_a_backfill_and_hours_that_were_loaded_again(filled, tmp_path, monkeypatch):
    shutil.copytree(filled.data, tmp_path / "data")
    altered = Mirror(tmp_path / "data")
    loaded = ("01 02:30", "01 02:30", "01 03:20", "09 03:00", "09 03:00")
    with duckdb.connect(str(altered.warehouse.published_path)) as published:
        for number, at in enumerate(loaded):
            changed = "UPDATE loads SET loaded_at = ? WHERE table_name = 'article_changes' AND batch_hour = ?"
            published.execute(changed, [f"2026-11-{at}:00+00", altered.lake.hour(number)])
        published.execute("UPDATE loads SET reject_count = 0")  # as if a snapshot had the rejects
        published.execute("UPDATE hours SET load_count = 2 WHERE batch_hour >= ?", [altered.lake.hour(3)])
        rows = published.execute(statement("read/page/hours"), ["1 hours"]).fetchall()
    # two hours had ended before anything was loaded; the last were loaded again a week later
    assert [row[3] for row in rows] == [None, None, 20, None, None]
    drawn = {}
    monkeypatch.setattr(figures, "areas", lambda _edges, series, _unit, label: drawn.setdefault(label, series) and "")
    assert "0 records in hourly files could not be converted." in made(altered, 4)[1].text
    [lag] = [drawn[label] for label in drawn if label.startswith("Hours from the end of each hour until it was loaded")]
    assert lag == [[None, None, 20 / 60, None, None], [None, None, 0, None, None]]


def test_a_year_of_many_projects_fits_into_two_megabytes(mirror):
    """Each day of each project has an hour that is loaded or missing, in turns, so no cells are joined."""
    mirror.load(0)
    for number in (-144, -192):  # six and eight days before
        file = mirror.lake.file(number, [mirror.lake.change(9, "Gone", 60 * number, "delete")])
        mirror.warehouse.load_hour(mirror.lake.hour(number), [file], dataset=datasets.ARTICLE_CHANGES)
    mirror.publish()
    published = duckdb.connect(str(mirror.warehouse.published_path))
    own = {"project_id": "'wiki' || project || 'with_a_long_name'", "batch_hour": "hour", "source_at": "hour"}
    own |= {"loaded_at": "hour + INTERVAL 2 HOUR", "checked_at": "hour", "row_count": "project"}
    own |= {"identifier": "'wiki' || project", "state": "if((project + day) % 2 = 0, 'loaded', 'missing')"}
    for table in ("loads", "hours"):
        names = published.sql(f"SELECT column_name FROM (DESCRIBE {table})").fetchall()
        chosen = ", ".join(f"{own.get(name, name)} AS {name}" for (name,) in names)
        published.execute(
            f"INSERT INTO {table} SELECT {chosen} FROM (FROM {table} LIMIT 1), range(27) AS p(project), "
            "range(365) AS d(day), LATERAL (SELECT TIMESTAMPTZ '2025-11-01 00:00:00+00' + day * INTERVAL 1 DAY AS hour)"
        )
    published.close()
    wrote, page = made(mirror, 0, projects=tuple(f"wiki{number}with_a_long_name" for number in range(27)))
    assert "Coverage by day" in page.headings
    assert "in the seven days up to the newest hour. Total: 1 deletion, 0 moves." in page.text
    axes = [_Axis(START, START + timedelta(days=days)) for days in (4, 5, 400, 401)]
    assert [axis.name for axis in axes] == ["hour", "day", "day", "week"]
    assert axes[-1].edges[:2] == [START - timedelta(days=6), START + timedelta(days=1)]
    assert f"Only {PLACES} of 28 project namespaces are shown" in page.text
    assert 100_000 < wrote.size_bytes < 2_000_000


def test_a_picture_has_a_shape_for_each_series_and_each_run_of_a_state_in_utc_and_24_hours(filled):
    edges = [START + number * ONE for number in range(4)]
    drawn = ET.fromstring(areas(edges, [[1, 2, 3], [4, 5, 6]], "B", "a <label>"))
    assert (drawn.attrib.keys(), drawn.get("aria-label")) == ({"viewBox", "role", "aria-label"}, "a <label>")
    fills = [one.get("fill") for one in drawn.iter() if one.get("fill", "").startswith("var(--series")]
    assert fills == ["var(--series-0)", "var(--series-1)"]
    assert ET.fromstring(areas(edges, [[1, None, 3], [2, 2, 2]], "h", "lag")).get("aria-label") == "lag"
    states = list(STATES)
    edges = [START + number * ONE for number in range(len(states) + 1)]
    mapped = ET.fromstring(coverage(edges, {"c": states, "a<b": states}, "map"))
    cells = Counter(one.get("fill") for one in mapped.iter() if one.get("fill", "").startswith("var(--state"))
    assert cells == {f"var(--state-{number})": 2 for number in range(len(states))}
    assert [one.text for one in mapped.iter() if one.text in {"a<b", "c"}] == ["c", "a<b"], "in the order given"

    start = datetime.fromisoformat("2026-11-01T00:00:00+00:00")
    drawn = areas([start + number * timedelta(hours=6) for number in range(9)], [[1] * 8], "", "x")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert "12:00" in texts
    assert "Nov 2" in texts
    assert not [text for text in texts if "PM" in text]


def test_each_chart_has_this_specification(monkeypatch):
    """Of stacked areas in hours and in bytes, and of a map of one row."""
    drawn, edges = [], [START + number * ONE for number in range(3)]
    own = lambda chart, **how: drawn.append({**chart, **how}) or '<svg viewBox="0">x</svg>'  # noqa: E731
    monkeypatch.setattr(figures.vl_convert, "vegalite_to_svg", own)
    areas(edges, [[1, None], [2, 3]], "h", "Lag")
    areas(edges, [[1, 2]], "B", "Sizes")
    coverage(edges, {"enwiki": ["loaded", "missing"]}, "Hours")
    assert drawn == json.loads(Path(__file__).with_name("charts.json").read_text())


def test_a_check_in_dagster_is_what_status_check_is(whole, monkeypatch, instance):
    collected = collect(Settings(data=whole.data, projects=("enwiki", "frwiki")), 48, whole.lake.hour(4) + ONE)
    assert collected.troubles
    key = dg.AssetCheckKey(dg.AssetKey(["published", "warehouse"]), "nothing_needs_attention")
    job = dg.define_asset_job("ask", selection=dg.AssetSelection.checks(key))
    defs = dg.Definitions.merge(build_defs(Settings(data=whole.data)), dg.Definitions(jobs=[job]))
    asked, answers = defs.resolve_job_def("ask"), []
    for status in (Status(), collected):
        monkeypatch.setattr(statuses, "collect", lambda *_, status=status: status)
        answers += asked.execute_in_process(instance=instance).get_asset_check_evaluations()
    well, troubled = answers
    assert (well.passed, troubled.passed) == (True, False)
    assert [answer.metadata["attention_count"].value for answer in answers] == [0, len(attention(collected))]
    assert "frwiki namespace 0: no hours have been loaded yet." in troubled.description


def test_dagster_writes_it_and_leads_to_it(filled, instance, monkeypatch):
    troubles = [f"Trouble {number}." for number in range(60)]
    monkeypatch.setattr(statuses, "collect", lambda *_, **__: Status(troubles=troubles))
    settings = Settings(data=filled.data, projects=("enwiki",), min_free_gb=0)
    result = build_defs(settings).resolve_job_def("report").execute_in_process(instance=instance)
    [made_] = result.asset_materializations_for_node("published__report")
    assert made_.asset_key == published.REPORT_KEY
    metadata = {name: value.value for name, value in made_.metadata.items()}
    assert metadata.pop("seconds") > 0
    # what an operator looks for first; the page of the web server: browsers do not follow a link from there to a file
    names = ("attention", "attention_count", "page", "dagster/uri", "bytes", "pictures", "size")
    written, lines = (path := filled.data / "report.html").read_bytes(), "\n".join(f"- {one}" for one in troubles[:30])
    size, pictures = len(written), written.count(b"<svg")
    told = (lines, 60, "/report", str(path), size, pictures, size_text(size))
    assert [*metadata.items()] == [*zip(names, told, strict=True)]
