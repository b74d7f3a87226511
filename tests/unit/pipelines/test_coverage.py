"""Coverage of the newest hours, read from a real DuckDB file: cells, gaps as sentences, and the map."""

import itertools
import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import duckdb
import pytest
from rich.console import Console

from pipelines.report import heatmap
from pipelines.report.status import as_json, collect
from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, LATE
from resources.settings import read
from resources.tables import NO_SNAPSHOT, HourState
from resources.warehouse import Warehouse
from resources.warehouse.read import coverage
from tests.builds import lay

NOW, NEWEST = datetime(2026, 3, 4, 15, 20, tzinfo=UTC), datetime(2026, 3, 4, 14, tzinfo=UTC)
SINCE = NEWEST - timedelta(hours=47)
LOST = "The service no longer has it."
UNKNOWN = "Nothing is recorded about this hour. A run fetches the hour while the service keeps its file."
STATES = dict(zip("leamnp", HourState, strict=True)) | {"u": "unknown", "o": "outside"}


@pytest.fixture(scope="module")
def blank(tmp_path_factory):
    """A published file in which nothing is."""
    warehouse = Warehouse(lay(tmp_path_factory.mktemp("blank")))
    warehouse.publish()
    return warehouse.published_path


@pytest.fixture
def publish(blank, tmp_path):
    """Publishes states, a letter per hour up to the newest: l(oaded) r(edone) e(mpty) a m p n, ' ' for no row."""

    def publish(**places):
        warehouse = Warehouse(lay(tmp_path))
        shutil.copy(blank, warehouse.published_path)
        rows = []
        for project, letters in places.items():
            for back, letter in enumerate(reversed(letters)):
                if letter == " ":
                    continue
                state = STATES["l" if letter == "r" else letter]
                count, reason = 100 if state == HourState.LOADED else None, LOST if letter in "mp" else None
                loads = {"l": 1, "r": 2}.get(letter)
                rows.append([NEWEST - timedelta(hours=back), project, 0, state.value, count, None, loads, NOW, reason])
        if rows:
            # one statement: DuckDB plans each anew
            values = ", ".join(["('article_changes', ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
            with duckdb.connect(warehouse.published_path) as connection:
                connection.execute(f"INSERT INTO hours VALUES {values}", [*itertools.chain(*rows)])
        return warehouse

    return publish


@pytest.fixture
def survey(publish):
    def survey(hours=48, scope=(("enwiki", 0),), **places):
        return coverage.health(publish(**places), {ARTICLE_CHANGES: scope}, NOW, hours).places

    return survey


def told(places, now=NOW):
    return [gap.sentence for gap in coverage.gaps(places, now)]


def drawn(places, width, **more):
    """The lines of the map as a terminal of that width, or a pipe, gets them."""
    console = Console(width=width, highlight=False, record=True, file=None, **more)
    with console.capture() as capture:
        for line in heatmap.lines(places, width):
            console.print(line, soft_wrap=True)
    return capture.get()


def test_each_hour_has_a_cell_and_what_has_no_row_is_unknown_or_outside(survey):
    (place,) = survey(hours=10, enwiki="lrea lm  ")
    assert [cell.state for cell in place.cells] == [STATES[letter] for letter in "olleaulmuu"]
    assert [cell.batch_hour for cell in place.cells] == [NEWEST - timedelta(hours=back) for back in range(9, -1, -1)]
    assert [cell.redone for cell in place.cells].count(True) == 1
    assert place.cells[2].redone
    assert place.newest_hour == NEWEST - timedelta(hours=3)
    assert place.counts() == {"loaded": 3, "empty": 1, "absent": 1, "missing": 1, "not_yet": 0, "past_retention": 0}


def test_a_project_that_is_mirrored_no_longer_is_named_and_one_that_never_came_needs_attention(publish):
    found = coverage.health(publish(dewiki="lm  "), {ARTICLE_CHANGES: (("zzwiki", 0),), ENTITY_CHANGES: ()}, NOW, 4)
    (never,) = found.places
    assert {cell.state for cell in never.cells} == {"outside"}
    assert (never.newest_hour, found.gaps, found.unmirrored) == (None, [], ["dewiki namespace 0"])
    assert found.uncovered == ["zzwiki namespace 0: no hours have been loaded yet. `wme run` fetches the newest hours."]
    assert found.without_snapshot == [f"zzwiki namespace 0: {NO_SNAPSHOT}."]


def test_projects_without_a_snapshot_are_one_sentence(survey, publish):
    scope = tuple((f"p{number}wiki", 0) for number in range(30))
    warehouse = publish(p0wiki="l" * 48)
    warehouse.build_path.unlink()
    found = coverage.health(warehouse, {ARTICLE_CHANGES: scope}, NOW)
    assert not warehouse.build_path.exists(), "a published file is enough"
    (sentence,) = found.without_snapshot
    assert sentence.startswith("p0wiki namespace 0, p10wiki namespace 0, ")
    assert sentence.endswith(f" and 10 more: {NO_SNAPSHOT}.")
    assert sentence in found.troubles


def test_older_gaps_are_counted_from_the_first_loaded_hour_on(survey):
    (place,) = survey(hours=4, enwiki="p a mlmplll ll")
    assert (place.older_gap_count, place.older_gap_at) == (2, NEWEST - timedelta(hours=7))


#: Hours that are looked at, states in the ledger, states of the cells (u: unknown, o: outside), and gaps with theirs.
GAPS = [
    # before the mirror began there is no gap, unless a run could still bring the hour in
    (6, "ppmlll", "oomlll", {"11:00": "m"}),
    # nor between an hour that was only asked for and the first loaded
    (8, "a  mlll", "oaoomlll", {"11:00": "m"}),
    # a mirror without a file has begun with the first hour that was asked for
    (3, "  m", "oom", {"14:00": "m"}),
    # what is behind the last known hour is told by its age
    (4, "lll     ", "uuuu", {}),
    # hours in a row are one sentence
    (9, "lemlmmmpl", "lemlmmmpl", {"08:00": "m", "10:00 to 2026-03-04 12:00 (3 hours)": "m", "13:00": "p"}),
    # at the end, and without a row
    (5, "l lmm", "lulmm", {"11:00": "u", "13:00 to 2026-03-04 14:00 (2 hours)": "m"}),
]


@pytest.mark.parametrize(("hours", "letters", "states", "found"), GAPS, ids=lambda value: str(value)[:20])
def test_gaps_are_told_hours_in_a_row_in_one_sentence(survey, hours, letters, states, found):
    (place,) = survey(hours=hours, enwiki=letters)
    assert [cell.state for cell in place.cells] == [STATES[letter] for letter in states]
    whys = {when: f"{STATES[state]}. {UNKNOWN if state == 'u' else LOST}" for when, state in found.items()}
    assert told([place]) == [f"enwiki namespace 0 2026-03-04 {when}: {why}" for when, why in whys.items()]


def test_hours_that_failed_alike_with_files_of_their_own_are_one_sentence(survey):
    (place,) = survey(enwiki="llmmml")
    files = {9: "hour=10/a_1f.gz: it ends at byte 9.", 10: "hour=11/a_2b.gz: it ends at byte 7."}
    reasons = {hour: f"lake/date=2026-03-04/{file}" for hour, file in files.items()}
    cells = [replace(cell, reason=reasons.get(cell.batch_hour.hour - 2, cell.reason)) for cell in place.cells]
    others = f"{reasons[9]} The other hours failed in the same way; the `hours` table gives each reason."
    both = f"enwiki namespace 0 2026-03-04 11:00 to 2026-03-04 12:00 (2 hours): missing. {others}"
    assert told([replace(place, cells=tuple(cells))]) == [both, f"enwiki namespace 0 2026-03-04 13:00: missing. {LOST}"]


def test_an_hour_that_is_not_there_yet_is_a_gap_when_it_is_late(survey):
    places = survey(enwiki="llln")
    assert told(places) == []
    assert told(places, NOW + timedelta(hours=4)) == ["enwiki namespace 0 2026-03-04 14:00: not_yet."]
    assert (told(places, NEWEST + LATE - timedelta(seconds=1)), len(told(places, NEWEST + LATE))) == ([], 1)


def test_every_gap_of_every_place_is_told_whatever_their_number(survey):
    of_entities = coverage.Gap("wikidatawiki", 0, NEWEST, NEWEST, "missing", LOST, ENTITY_CHANGES.name)
    assert of_entities.sentence == f"entity_changes wikidatawiki namespace 0 2026-03-04 14:00: missing. {LOST}"
    places = survey(enwiki="lm" * 24, frwiki="ml" * 24, scope=(("enwiki", 0), ("frwiki", 0)))
    found = coverage.gaps(places, NOW)
    assert len(found) == 48
    cells = [(place.project_id, cell) for place in places for cell in place.cells if cell.state == "missing"]
    assert {(gap.project_id, gap.first) for gap in found} == {(name, cell.batch_hour) for name, cell in cells}


def test_one_command_brings_in_all_that_is_still_kept(survey):
    places = survey(enwiki="lllmm  l", frwiki="lpmlllll", scope=(("enwiki", 0), ("frwiki", 0)))
    told = coverage.remedy(coverage.gaps(places, NOW))
    assert told.startswith("`wme run --from 2026-03-04T09 --to 2026-03-04T13` fetches")
    assert coverage.remedy(coverage.gaps(survey(enwiki="lppl"), NOW)) is None


def test_map_says_everything_without_colours(survey):
    scope = (("enwiki", 0), ("simplewiki", 0))
    places = survey(enwiki=" " * 3 + "l" * 40 + "eampn", simplewiki="r" * 47 + " ", scope=scope)
    days, ticks, first, second, legend = drawn(places, 100_000).splitlines()
    assert (first, second) == ("enwiki 0      ---" + "L" * 40 + "EaMP.", "simplewiki 0  " + "R" * 47 + "?")
    for hour in range(48):
        moment = SINCE + timedelta(hours=hour)
        if moment.hour % 6 == 0:
            assert ticks[14 + hour : 16 + hour] == f"{moment:%H}"
    assert days[14:].split() == ["2026-03-03", "2026-03-04"]
    assert days.index("2026-03-04") == 14 + next(n for n, c in enumerate(places[0].cells) if c.batch_hour.day == 4)
    marks = "L loaded, R reloaded, E empty, a absent, M missing, P past retention, . not, ? nothing, - outside"
    assert all(mark in legend for mark in marks.split(", "))
    assert "\x1b" not in drawn(places, 100_000)


@pytest.mark.parametrize("width", [40, 64, 80, 200])
def test_map_fits_its_terminal_and_holds_every_hour_once(survey, width):
    letters = "".join(itertools.islice(itertools.cycle("lmearp"), 72))
    shown = drawn(survey(hours=72, enwiki=letters), width).splitlines()
    assert all(len(line) <= width for line in shown)
    cells = "".join(line.removeprefix("enwiki 0").strip() for line in shown if line.startswith("enwiki 0"))
    assert cells == letters.upper().replace("A", "a")
    legend = [line for line in shown if re.match(r"[LREaMP] ", line)]
    assert [entry[0] for line in legend for entry in line.split("  ")] == list("LREaMP")


def test_map_is_coloured_on_a_terminal_and_brighter_where_more_happened():
    rows = enumerate([("loaded", 5), ("loaded", 60), ("loaded", 100), ("missing", None)])
    cells = [coverage.Cell(SINCE + timedelta(hours=number), *row) for number, row in rows]
    place = coverage.Place("enwiki", 0, tuple(cells), "article_changes")
    # another line has hours with more: shades compare the hours of a line
    busy = replace(place, project_id="zzwiki", cells=(replace(cells[0], row_count=10_000), *cells[1:]))
    shown = drawn([place, busy], 80, force_terminal=True, color_system="truecolor", no_color=False)
    row = next(line for line in shown.splitlines() if line.startswith("enwiki 0"))
    styles = re.findall(r"\x1b\[([\d;]+)m([LM])\x1b\[0m", row)
    assert ([letter for _, letter in styles], len({style for style, _ in styles})) == (list("LLLM"), 4)
    assert styles[2] in re.findall(r"\x1b\[([\d;]+)m([LM])\x1b\[0m", shown.splitlines()[-1])  # the legend's


def test_status_as_json_holds_every_hour_and_gap(publish, tmp_path):
    publish(enwiki="l" + "p" * 3 + "l" * 44 + "mml")
    report = collect(read({"WME_DATA": str(tmp_path), "WME_PROJECTS": "enwiki"}), 48, NOW)
    document = json.loads(json.dumps(as_json(report)))
    (place,) = document["coverage"]
    assert [hour["state"] for hour in place["hours"]] == [STATES[letter] for letter in "p" + "l" * 44 + "mml"]
    assert place["states"]["loaded"] == 45
    assert [(gap["state"], gap["hour_count"]) for gap in document["gaps"]] == [("past_retention", 1), ("missing", 2)]
    assert document["gaps"][1]["first_hour"] == "2026-03-04T12:00:00Z"
    assert document["facts"]["older gaps"] == ["enwiki namespace 0: 2 hours, from 2026-03-02 13:00"]
    assert all(gap.sentence in document["troubles"] for gap in report.gaps)
    command = "`wme run --from 2026-03-04T12 --to 2026-03-04T13` fetches the hours that the service still retains."
    assert command in document["troubles"]
