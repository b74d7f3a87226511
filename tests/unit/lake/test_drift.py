"""Unknown fields are counted with an example that stays short."""

import json


def test_an_example_is_cut_and_the_field_is_not(lake, rows):
    long = "long " * 1000
    made = lake.convert(lake.record(1, novel=long), lake.record(2, novel="short"), lake.record(3))
    [drift] = made.drift
    assert (drift.path, drift.count) == ("novel", 2)
    assert drift.example == f'"{long}'[:200] + "…"
    assert json.loads(rows(made.path)[0]["extra"]) == {"novel": long}


def test_counts_add_up_over_blocks_and_every_list_element_counts(lake, small_blocks):
    records = [lake.record(n, categories=[{"name": "A", "rank": 1}, {"name": "B", "rank": 2}]) for n in range(30)]
    made = lake.convert(*records, lake.record(30, version={"identifier": 1, "editor": {"mood": None}}))
    assert [(drift.path, drift.count, drift.example) for drift in made.drift] == [
        ("categories[].rank", 60, "1"),
        ("version.editor.mood", 1, "null"),
    ]
