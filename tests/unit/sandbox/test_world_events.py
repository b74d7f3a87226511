"""Events of the world: kinds of change, their order, their numbers, and their form on the wire."""

import hashlib
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import islice
from uuid import UUID

import pytest

from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import _nanoseconds
from resources.sandbox.world import scripts
from resources.sandbox.world.pages import Kind
from resources.sandbox.world.schedule import HOUR as HOUR_MICROS
from resources.sandbox.world.schedule import Timetable
from resources.sandbox.world.structured import structured
from resources.sandbox.world.text.words import Lexicon, Titles, lexicon_of
from resources.sandbox.world.wire import encode, instant
from resources.sandbox.world.world import World

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 22, tzinfo=UTC)
#: Digests of generated lines and times, which only a deliberate change of the world may change.
DIGESTS = {
    "frwiki": "07436c0c", "enwiki": "0f7a71d9", "wikidatawiki": "677afdd4", "arwiki": "89a29058",
    "structured": "10a48b26", "snapshots": "c26ad0aa", "snapshot lines": "b5515126", "times": "8a06ecb9",
    "lists": "693b830c",
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    state, projects = tmp_path_factory.mktemp("world"), ("frwiki", "enwiki")
    return World(Settings(state=state, projects=projects, changes_per_hour=100, body_bytes=3000))


@pytest.mark.parametrize(("rate", "project"), [(20, "enwiki"), (20, "frwiki"), (20, "simplewiki"), (2200, "enwiki")])
def test_every_kind_of_change_at_least_five_times_in_any_three_hours(tmp_path, rate, project):
    world = World(Settings(state=tmp_path, changes_per_hour=rate, seed=rate))
    starts = [START + n * HOUR for n in range(4)]
    hours = [Counter(e.kind for e in world.events(project, at, at + HOUR) if not e.title.namespace) for at in starts]
    for window in range(len(hours) - 2):
        counts = sum(hours[window : window + 3], Counter())
        assert {kind for kind in Kind if counts[kind] < 5} == set()
    if rate == 2200:
        assert all(2000 <= sum(hour.values()) <= 2600 for hour in hours)


def test_scripts_end_as_they_begin_and_touch_every_page():
    timetable = Timetable(1, "frwiki", (0, 10, 14), 2200, Titles(lexicon_of("fr")))
    for script in (*scripts.SPECIAL, *scripts.ORDINARY):
        cast = next(cast for cast in timetable.casts if cast.script is script)
        assert max(act.hour for act in script.acts) < script.period
        assert max(len(act.operations) for act in script.acts) <= 4
        begin, found = 500_000 // script.period * script.period, []
        for cycle in range(3):
            family, _ = timetable.play(cast, 0, (begin + cycle * script.period) * HOUR_MICROS)
            pages = family.pages
            found.append({n: (p.title, p.present, p.redirect, p.redirects[-1:]) for n, p in pages.items()})
            before = (begin + (cycle - 1) * script.period) * HOUR_MICROS - 10_000_000
            assert not cycle or all(page.revision.moment >= before for page in pages.values())
        if script.pages:
            assert found[0] == found[1] == found[2]
            assert len(found[0]) == script.pages
        else:
            assert not any(present for page in found for _, present, _, _ in page.values())


def test_events_and_their_numbers_come_in_order_and_a_part_of_an_hour_is_a_part_of_it(world):
    events = list(world.events("enwiki", START, START + 2 * HOUR))
    assert [e.published for e in events] == sorted(e.published for e in events)
    assert all(START.timestamp() * 1e6 <= e.published < (START + 2 * HOUR).timestamp() * 1e6 for e in events)
    cut = START + timedelta(minutes=41, microseconds=17)
    halves = [*world.events("enwiki", START, cut), *world.events("enwiki", cut, START + 2 * HOUR)]
    assert halves == events
    assert list(world.events("enwiki", START, START)) == []
    made = {Kind.EDIT, Kind.CREATION, Kind.RECREATION, Kind.MOVE, Kind.SWAP}
    revisions = [event.state.revision.identifier for event in events if event.kind in made and event.type == "update"]
    assert revisions == sorted(set(revisions))
    assert max(revisions) < 2**31


def test_an_event_and_its_page_do_not_depend_on_which_namespaces_are_served(tmp_path):
    def told(namespaces):
        world = World(Settings(state=tmp_path, changes_per_hour=60, namespaces=namespaces))
        return [e._replace(type="") for e in world.events("enwiki", START, START + 4 * HOUR) if e.title.namespace == 14]

    assert told((14,)) == told((0, 6, 10, 14)) != []


def test_a_move_is_two_halves_that_share_their_event_and_leaves_a_redirect(world):
    halves, left = defaultdict(list), 0
    for event in world.events("frwiki", START, START + 3 * HOUR):
        if event.kind is Kind.MOVE:
            record = world.record(event)
            halves[event.ordinal].append(record)
            if event.type == "update" and event.state.redirects:
                left += event.state.home.text in {redirect["name"] for redirect in record["redirects"]}
    assert left
    assert len(halves) >= 5
    for pair in halves.values():
        update, delete = sorted(pair, key=lambda record: record["event"]["type"], reverse=True)
        assert (update["event"]["type"], delete["event"]["type"]) == ("update", "delete")
        assert update["event"]["date_published"] < delete["event"]["date_published"]
        assert delete["name"].replace("_", " ") != update["name"]
        for same in ("identifier", "url"):
            assert update[same] == delete[same]
        assert update["version"]["identifier"] == delete["version"]["identifier"]
        for same in ("identifier", "date_created"):
            assert update["event"][same] == delete["event"][same]


def test_a_namespace_move_tells_a_delete_here_and_an_update_there_unless_there_is_not_served(world):
    found, outward = Counter(), defaultdict(list)
    for event in world.events("frwiki", START, START + 3 * HOUR):
        if event.kind is Kind.NAMESPACE_OUT:
            outward[event.ordinal].append(event)
    for told in outward.values():
        shapes = tuple(sorted((e.type, e.title.namespace) for e in told))
        found[shapes] += 1
        if len(told) == 2:
            assert told[0].published == told[1].published
            record = world.record(next(e for e in told if e.type == "update"))
            assert record["name"].startswith("Modèle:")
            assert "abstract" not in record
    assert set(found) == {(("delete", 0), ("update", 10)), (("delete", 0),)}
    assert min(found.values()) >= 5


def test_restores_redirects_and_recreations_carry_the_revisions_and_numbers_they_should(world):
    last, gone, seen, hidden = {}, {}, Counter(), set()
    for event in world.events("enwiki", START, START + 12 * HOUR):
        page, revision = event.state.identifier, event.state.revision.identifier
        if event.type == "visibility-change":
            visibility = world.record(event)["visibility"]
            assert list(visibility) == ["text", "editor", "comment"]
            assert list(visibility.values()).count(False) == 1
            hidden.add(min(visibility, key=visibility.get))
        elif event.kind is Kind.DELETION:
            gone[event.title] = page
        elif event.kind is Kind.RECREATION and event.title in gone:
            assert page > gone[event.title]
            assert event.state.revision.parent is None
            seen[event.kind] += 1
        if page in last:
            if event.kind is Kind.RESTORE and event.type == "update":
                assert revision == last[page]
            elif event.kind is Kind.PARTIAL_RESTORE:
                assert revision < last[page]
            elif event.kind in {Kind.INTO_REDIRECT, Kind.OUT_OF_REDIRECT}:
                assert revision > last[page]
                assert event.type == ("delete" if event.kind is Kind.INTO_REDIRECT else "update")
            seen[event.kind] += 1
        last[page] = revision
    wanted = (Kind.RESTORE, Kind.PARTIAL_RESTORE, Kind.INTO_REDIRECT, Kind.OUT_OF_REDIRECT, Kind.RECREATION)
    assert min(seen[kind] for kind in wanted) >= 5
    assert hidden == {"text", "editor", "comment"}


def test_records_are_in_the_wire_form(world):
    def walk(value, path=""):
        assert value not in (None, "", False, []), path
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}") if key not in {"visibility", "edit_count"} else None
        elif isinstance(value, list):
            for inner in value:
                walk(inner, path)

    types = Counter()
    for event in world.events("frwiki", START, START + HOUR):
        record = world.record(event)
        types[event.type] += 1
        walk({**record, "namespace": 1})
        assert list(record["event"]) == ["identifier", "type", "date_created", "date_published"]
        assert record["event"]["identifier"] == str(UUID(record["event"]["identifier"], version=4))
        for key in ("date_created", "date_published"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?Z", record["event"][key])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["date_modified"])
        assert record["event"]["date_created"] < record["event"]["date_published"]
        assert record["in_language"] == {"identifier": record["is_part_of"]["identifier"].removesuffix("wiki")}
        assert ("_" in record["name"]) == (event.type != "update")
        assert " " not in record["url"]
        if event.type == "update":
            version, body = record["version"], record["article_body"]
            assert version["number_of_characters"] == len(body["wikitext"])
            assert version["size"] == {"value": len(body["wikitext"].encode()), "unit_text": "B"}
            assert ("scores" in version) == (event.state.revision.parent is not None and event.title.namespace == 0)
            assert ("abstract" in record) == (event.title.namespace == 0)
            lacking = body["wikitext"].count("{{Citation needed")
            assert version["maintenance_tags"].get("citation_needed_count", 0) == lacking
            assert f"revision/{version['identifier']}" in body["html"]
            assert all(f"[[{category['name']}]]" in body["wikitext"] for category in record["categories"])
        else:
            assert not {"article_body", "license", "abstract"} & set(record)
            assert set(record["version"]) == {"identifier", "comment", "editor", "size"}
            assert ("visibility" in record) == (event.type == "visibility-change")
    assert set(types) == {"update", "delete", "visibility-change"}
    page = next(event for event in world.pages_at("frwiki", 0, START) if "&" in event.state.home.text)
    name, html = escape(page.state.home.text), world.record(page)["article_body"]["html"]
    assert f"<title>{name}" in html
    assert f'<b id="mwAw">{name}</b>' in html


def test_every_revision_has_a_text_of_its_own_and_tells_of_the_one_before_and_pages_differ_in_size(world):
    told, texts, sizes, editors, checked = {}, {}, [], [], 0
    for event in world.events("enwiki", START, START + 3 * HOUR):
        record = world.record(event)
        version = record["version"]
        editors.append(version["editor"])
        if event.type != "update":
            continue
        body = record["article_body"]
        before = told.get((record["identifier"], record.get("previous_version", {}).get("identifier")))
        if before is not None:
            assert record["previous_version"]["number_of_characters"] == before["number_of_characters"]
            checked += 1
        told[record["identifier"], version["identifier"]] = version
        texts[record["identifier"], version["identifier"]] = body["wikitext"]
        sizes.append(len(body["html"]) + len(body["wikitext"]))
    assert checked > 10
    assert len(set(texts.values())) == len(texts)
    assert 1_800 < sum(sizes) / len(sizes) < 4_500
    assert max(sizes) > 3 * min(sizes)
    assert {("identifier" in one, *one["groups"]) for one in editors if one.get("is_anonymous")} == {(False, "*")}
    assert any(editor.get("is_bot") and "bot" in editor["groups"] for editor in editors)
    assert any(editor.get("is_admin") and "sysop" in editor["groups"] for editor in editors)
    names = {(one["identifier"], one["name"], one["date_started"]) for one in editors if "identifier" in one}
    assert len(names) == len({identifier for identifier, *_ in names})


def test_a_world_is_the_same_in_every_version(world, tmp_path):
    """Data folders are filled for months from sandboxes of one identity, and another world would contradict them."""

    def digest(lines):
        return hashlib.md5(b"\n".join(lines)).hexdigest()[:8]

    arabic = World(Settings(state=tmp_path, projects=("arwiki",), changes_per_hour=20, body_bytes=3000, entities=0))
    found, updates, names = {}, [], world.snapshot_identifiers() + world.entity_identifiers()
    for one in (world, arabic):
        for project in one.wikis:
            events = list(one.events(project, START, START + HOUR))[::3]
            found[project] = digest(map(one.line, events))
            updates += [one.record(event) for event in events if event.type == "update" and one is arabic]
    found["structured"] = digest(encode(structured(record)) for record in updates)
    entries = [entry for name in names for entry in world.snapshot_entries(name, START)]
    found["snapshots"] = digest(repr((entry.standing, entry.event.title)).encode() for entry in entries)
    found["snapshot lines"] = digest(world.line(entry.event) for entry in islice(entries, 0, None, 99))
    times = [(world.snapshot_times(name, START), world.export_ended_at(name, START)) for name in names]
    found["times"] = digest([repr((times, world.hour_ready_at(START))).encode()])
    found["lists"] = digest(map(encode, (world.codes(), world.languages(), world.projects(), world.namespaces())))
    assert found == DIGESTS


def test_lines_escape_what_gos_encoder_escapes_and_instants_drop_trailing_zeros():
    line = encode({"a": "<b> & \u2028\u2029 é “"})
    assert line == '{"a":"\\u003cb\\u003e \\u0026 \\u2028\\u2029 é “"}'.encode()
    assert instant(1_700_000_000_000_000) == "2023-11-14T22:13:20Z"
    assert instant(1_700_000_000_084_000) == "2023-11-14T22:13:20.084Z"
    assert instant(1_700_000_000_084_001) == "2023-11-14T22:13:20.084001Z"
    told = [_nanoseconds(1_700_000_000 * 10**9 + more) for more in (0, 10, 10**8)]
    assert told == [f"2023-11-14T22:13:20{fraction}Z" for fraction in ("", ".00000001", ".1")]


def test_titles_never_repeat_and_those_of_pages_that_a_small_world_does_not_make_belong_to_nobody(tmp_path):
    titles = Titles(lexicon_of("fr"))
    settled = {titles.settled(number) for number in range(60_000)}
    fresh = {titles.fresh(number) for number in range(140_000_000, 140_060_000)}
    assert len(settled) == len(fresh) == 60_000
    assert not settled & fresh
    # beyond the pairs of words numbers make the difference
    assert titles.settled(1) != titles.settled(1 + 1500**2)
    world = World(Settings(state=tmp_path, changes_per_hour=20))
    timetable, count = world._wiki("enwiki").timetable, world._articles_of("enwiki")
    assert ["enwiki" in world._sitelinks(page) for page in (count - 1, count)] == [True, False]
    every = [(cast, family) for cast in timetable.casts for family in range(cast.families)]
    idle = [cast.first_page + family * cast.script.pages for cast, family in every if not timetable.plays(cast, family)]
    absent = [timetable._titles.settled(page) for page in idle]
    assert absent
    assert not [title for title in absent if [*timetable.with_title(title)]]
    new = [timetable._titles.fresh(number) for number in range(timetable.places)]
    assert 0 < len([title for title in new if [*timetable.with_title(title)]]) < len(new)
    for rate, fewest, most in ((2200, 30_000, 60_000), (11_000, 200_000, 1_000_000)):
        casts = Timetable(1, "enwiki", (0,), rate, Titles(lexicon_of("en"))).casts
        assert fewest < sum(cast.families for cast in casts) < most


@pytest.mark.parametrize("language", ["en", "fr", "ru", "ar", "ja", "hi", "ko", "vi"])
def test_every_script_has_words(language):
    lexicon = Lexicon(language)
    assert len(set(lexicon.words)) == len(lexicon.words) == 7_000
    sentence = lexicon.sentence(lexicon.some(5))
    assert (sentence[-1], " " in sentence) == (".", language != "ja")
    assert Lexicon(language).words == lexicon.words
