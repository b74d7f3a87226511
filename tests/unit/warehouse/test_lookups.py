"""Answers about single pages: which titles they say are gone, and which pages of rejected lines are asked for."""

import json
from dataclasses import replace
from datetime import timedelta

from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES
from resources.tables import HourState
from resources.warehouse import HourStatus
from resources.warehouse.database.connect import answer
from tests.builds import ask, shown
from tests.unit.warehouse.conftest import START

NOT_FOUND = [(100, (("A B", None), ("C", None))), (111, (("A_B", None), ("C", None)))]


def names(warehouse, projects):
    query = "SELECT name FROM articles WHERE project_id = ? ORDER BY ALL"
    return {project: [name for (name,) in ask(warehouse, query, [project])] for project in projects}


def test_a_title_that_was_not_found_twice_is_gone_until_it_is_found_again_or_something_happens(lake, warehouse):
    """Whatever the order in which the answers come: each is a project of one mirror. To the last nothing more comes."""
    orders = {"dewiki": (0, 1, 2), "enwiki": (0, 2, 1), "frwiki": (2, 1, 0), "ruwiki": (0, 1)}
    pages = [lake.change(1, "A B", 1), lake.change(2, "C", 2)]
    warehouse.load_hour(lake.hour(0), [lake.file(0, pages, project) for project in orders])
    answers = (*NOT_FOUND, (122, (("A B", pages[0]),)))
    for turn in range(3):
        told = {project: answers[order[turn]] for project, order in orders.items() if turn < len(order)}
        files = [lake.lookups(minute, *one, project=project) for project, (minute, one) in told.items()]
        warehouse.load_lookups(files)
        warehouse.apply_changes()
    wanted = {project: ["A B"] if 2 in order else [] for project, order in orders.items()}
    assert names(warehouse, orders) == wanted
    warehouse.rebuild_articles()
    assert names(warehouse, orders) == wanted
    files = [lake.lookups(minute, ("A B", None)) for minute in (200, 211)]
    assert [warehouse.load_lookups(files[:1]), warehouse.load_lookups(files)] == [1, 1]
    # two answers within ten minutes are as good as one
    warehouse.load_lookups([lake.lookups(minute, ("A B", None), project="dewiki") for minute in (200, 209.5)])
    warehouse.load_lookups([lake.lookups(220, ("A B", None), project="dewiki", purpose="watch")])
    changes = [lake.change(1, "A B", 91), lake.change(2, "C", 90)]
    warehouse.load_hour(lake.hour(1), [lake.file(1, changes, "ruwiki")])
    warehouse.apply_changes()
    # the deletion is ten minutes older than the first answer, at 90 minutes and a little
    assert names(warehouse, orders) == wanted | {"enwiki": [], "ruwiki": ["A B"]}

    def then(minute):
        query = "SELECT name FROM articles_at($1, project := 'ruwiki', inexact := true) ORDER BY 1"
        with shown(warehouse) as connection:
            return [name for (name,) in answer(connection, query, [START + timedelta(minutes=minute)])]

    assert [then(90), then(92)] == [["A B", "C"], ["A B"]]
    # before the boundary of a snapshot, minute 290, no answer counts
    warehouse.load_snapshot(lake.snapshot([[pages[1], lake.change(3, "D", 300)]], "ruwiki"))
    found = [(name, lake.change(minute, name, minute)) for name, minute in (("E", 289), ("F", 290))]
    warehouse.load_lookups([lake.lookups(310, *found, project="ruwiki")])
    warehouse.apply_changes()
    assert then(301) == names(warehouse, orders)["ruwiki"] == ["C", "D", "F"]


def test_pages_of_rejected_lines_are_looked_up_until_something_is_known_of_them(lake, warehouse, clock):
    """A line of hour 0 is known when it is of minute 120 or later, as a file ends minutes after its hour."""

    def wanted():
        return [name for _, _, name in warehouse.uncertain_pages(["enwiki"], [0], 10, clock())]

    names = ["Asked", "Both_spellings", "Changed", "Gone", 'Watched "by all"']
    rejects = [f'{{"name":{json.dumps(name)},"event": spoiled'.encode() for name in names]
    rejects += [b"no record", b'{"name":""}', b'{"name":"\xff"}', b'{"identifier":1,"name":"Late"}']
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(9, "Whole", 1)], rejects=rejects)])
    assert wanted() == names
    # what happened within the time that the line may be of says nothing
    early = [lake.change(number, name.replace("_", " "), 119) for number, name in enumerate(names)]
    warehouse.load_hour(lake.hour(1), [lake.file(1, early)])
    warehouse.apply_changes()
    warehouse.load_lookups([lake.lookups(119, *((name, early[0] | {"name": name}) for name in names))])
    assert wanted() == names
    # nor does what is read of the watch list
    found = lake.change(3, "Asked", 1)
    warehouse.load_hour(lake.hour(2), [lake.file(2, [lake.change(2, "Changed", 130)])])
    watched = [(names[-1], lake.change(4, names[-1], 1)), ("Gone", None)]
    warehouse.load_lookups([lake.lookups(130, *watched, purpose="watch"), lake.lookups(118, ("Gone", None))])
    warehouse.load_lookups([lake.lookups(131, ("Asked", found), ("Both spellings", found))])
    warehouse.apply_changes()
    assert wanted() == ["Gone", names[-1]]
    warehouse.load_lookups([lake.lookups(142, ("Gone", None))])
    assert wanted() == names[-1:]


def test_a_page_of_a_rejected_line_is_asked_for_again_after_ten_minutes(lake, warehouse, clock, monkeypatch):
    rejects = [b'{"name":"A","event": spoiled']
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(9, "Whole", 1)], rejects=rejects)])
    warehouse.load_lookups([lake.lookups(1790, ("A", None))])
    start, counts = clock.now, []
    for minutes in (-1, 1):
        clock.now = start + timedelta(minutes=minutes)
        counts.append(len(warehouse.uncertain_pages(["enwiki"], [0], 10, clock())))
    assert counts == [0, 1]
    for asked in ((["frwiki"], [0], 10), (["enwiki"], [14], 10), (["enwiki"], [0], 0)):
        assert warehouse.uncertain_pages(*asked, clock()) == []
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 1)]], "frwiki", rejects=[b'{"name":"S"']))
    assert warehouse.uncertain_pages(["frwiki"], [0], 10, clock()) == [("frwiki", 0, "S")]
    # of many lines, the newest ones
    monkeypatch.setattr("resources.warehouse.load.lookups._MOST_LINES", 1)
    warehouse.load_hour(lake.hour(1), [lake.file(1, [], rejects=[b'{"name":"B","event": spoiled'])])
    assert warehouse.uncertain_pages(["enwiki"], [0], 10, clock()) == [("enwiki", 0, "B")]


def test_watched_titles_are_due_when_new_or_changed_and_those_not_found_once_a_day(lake, warehouse, clock):
    pages = [("A B", 50), ("Same", 3), ("Behind", 5), ("Seen twice", 20)]
    rows = [lake.change(number, name, minute, version_id=minute) for number, (name, minute) in enumerate(pages)]
    warehouse.load_hour(lake.hour(0), [lake.file(0, rows), lake.file(0, [lake.change(9, "New one", 1)], namespace=14)])
    warehouse.apply_changes()
    # the service was behind the mirror or ahead of it
    known = [("A_B", rows[0] | {"event_at": lake.hour(0), "version_id": 1}), ("Same", rows[1] | {"event_at": START})]
    known.append(("Behind", rows[2] | {"event_at": lake.hour(1), "version_id": 60}))
    known.append(("Seen twice", rows[3] | {"event_at": START, "version_id": 1}))
    # a day and a minute ago, and a minute less than a day
    answers = {60: known, 61: [("Seen twice", rows[3])], 359: [("Gone long", None)], 361: [("Gone lately", None)]}
    own = {61: {"purpose": "check"}, 359: {"purpose": "watch", "namespace": 14}}
    files = [lake.lookups(n, *one, **own.get(n, {"purpose": "watch"})) for n, one in answers.items()]
    warehouse.load_lookups(files)
    wanted = ["Unknown", "A_B", "Same", "Behind", "Seen twice", "New_one", "Gone long", "Gone lately"]
    due = [("enwiki", 0, "Unknown"), ("enwiki", 0, "A_B"), ("enwiki", 14, "New_one"), ("enwiki", 14, "Gone long")]
    assert warehouse.lookups_due([("enwiki", name) for name in wanted], clock()) == due
    for dataset, state in ((ENTITY_CHANGES, HourState.EMPTY), (ARTICLE_CHANGES, HourState.NOT_YET)):
        warehouse.record_statuses([HourStatus(lake.hour(9), "enwiki", 0, state)], dataset)
    sample = warehouse.sampled_pages(["enwiki"], [0], 9)
    assert {(one.name, one.known_until) for one in sample} == {(name, lake.hour(1)) for name, _ in pages}
    assert len(warehouse.sampled_pages(["enwiki"], [0], 2)) == 2
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 300)]], "frwiki"))
    warehouse.record_statuses([HourStatus(lake.hour(4), "frwiki", 0, HourState.EMPTY)])
    warehouse.apply_changes()
    [found] = warehouse.sampled_pages(["frwiki"], [0], 9)
    assert found.known_until == lake.hour(5) + timedelta(microseconds=1)
    check = START + timedelta(minutes=61, microseconds=7)
    assert [warehouse.last_lookup_at(purpose) for purpose in ("check", "repair")] == [check, None]
    for purpose, names_ in (("check", ["Seen twice"]), (None, ["Gone lately", "Gone long", "Seen twice"])):
        assert sorted(one.asked_name for one in warehouse.lookups_since(check, purpose)) == names_


def test_pages_are_looked_up_until_they_are_read_after_the_end_of_a_lost_hour(lake, warehouse, clock):
    pages = [lake.change(number, name, number) for number, name in enumerate(["Early", "In time", "Never"], 1)]
    others = [lake.change(4, "Sought lately", 4), lake.change(5, "Changed since", 120), lake.change(7, "Two words", 7)]
    rejects = [b'{"name":"Never","event": spoiled']  # asked for once, for whatever reasons
    files = [lake.file(0, [*pages, *others], rejects=rejects), lake.file(0, [lake.change(6, "Talk", 6)], namespace=14)]
    warehouse.load_hour(lake.hour(0), [*files, lake.file(0, pages, "frwiki")])
    lost = HourStatus(lake.hour(1), "enwiki", 0, HourState.PAST_RETENTION)
    warehouse.record_statuses([lost, replace(lost, namespace_id=14), replace(lost, project_id="frwiki")])
    # a newer snapshot has what the lost hour had
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "Early", 20), lake.change(9, "A", 200)]], "frwiki"))
    warehouse.apply_changes()
    warehouse.load_lookups([lake.lookups(1795, ("Sought lately", None))])
    at_its_end = 120 - 7 / 60e6  # minutes, to which `lookups` adds 7 microseconds
    warehouse.load_lookups([lake.lookups(119, ("Early", pages[0])), lake.lookups(at_its_end, ("In_time", pages[1]))])
    # neither a page of the watch list is certain, nor one that was not found once
    watched = lake.lookups(130, ("Never", pages[2]), purpose="watch")
    warehouse.load_lookups([watched, lake.lookups(131, ("Early", None), purpose="check")])
    warehouse.load_lookups([lake.lookups(140, ("In time", pages[1]), ("Two_words", others[2]))])
    found = warehouse.uncertain_pages(["enwiki", "frwiki"], [0, 14], 10, clock())
    assert found == [("enwiki", 0, "Never"), ("enwiki", 14, "Talk"), ("enwiki", 0, "Early")]
    assert warehouse.sampled_pages(["enwiki"], [0], 9) == []
    states = warehouse.project_states(published=False)
    counts = {(row.project_id, row.namespace_id): (row.uncertain_count, row.repaired_count) for row in states}
    assert counts == {("enwiki", 0): (3, 3), ("enwiki", 14): (1, 0), ("frwiki", 0): (0, 0)}
