"""What is typed into the launchpad reaches the step, or fails it with a sentence; a partition that failed shows its own."""

from __future__ import annotations

import click
import dagster as dg
import pytest

from assets.failures import sentence
from assets.families.snapshots import SnapshotConfig
from pipelines.cli.families.snapshots import plan_snapshots

NAME = "enwiki_namespace_0"
KEY = ("archive/snapshots", None)


def typed(**values):
    return {"ops": {"snapshots_files": {"config": values}}}


def test_a_snapshot_is_fetched_in_the_form_and_within_the_units_that_were_typed(mirror):
    mirror.typed = typed(chunks=True, most_units=0)
    made = mirror.take_snapshot(NAME)
    assert made.sentence.startswith(f"Fetching {NAME} in 1 chunk takes 1 unit of quota, and at most 0 may be spent.")
    assert not list(mirror.layout.archive.rglob("*.tar.gz"))
    for form in ("chunks", "whole"):
        mirror.typed = typed(**{form: True}, most_units=1)
        made = mirror.take_snapshot(NAME)
        assert made.sentence == ""
        metadata = made.metadata[KEY]
        assert (metadata["form"], metadata["quota_units"]) == (form, 1)
        assert metadata["because"] == "that is what was asked for"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"chunks": True, "whole": True}, "whole and chunks exclude each other. Nothing was done."),
        (
            {"most_units": -1},
            "most_units is -1; it must be greater than or equal to 0. Nothing was done.",
        ),
    ],
)
def test_what_cannot_be_meant_fails_the_step_with_a_sentence_before_anything_is_asked(mirror, values, sentence):
    mirror.typed = typed(**values)
    mirror.sandbox.requests.clear()
    made = mirror.take_snapshot(NAME)
    assert (made.sentence, made.allow_retries) == (sentence, False)
    assert not mirror.sandbox.requests


def test_the_command_line_offers_the_same_under_the_same_names():
    offered = {one.name: one for one in plan_snapshots.params if isinstance(one, click.Option)}
    for name, field in SnapshotConfig.model_fields.items():
        assert offered[name].opts == [f"--{name.replace('_', '-')}"]
        assert offered[name].help == field.description


def observed(mirror, made):
    """The sentences that a run put beside partitions, by asset and partition."""
    records = mirror.instance.get_records_for_run(made.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION).records
    found = [one.event_log_entry.dagster_event.asset_observation_data.asset_observation for one in records]
    return {(one.asset_key.to_user_string(), one.partition): one.description for one in found}


def test_a_snapshot_that_failed_shows_why_beside_its_partition_with_the_whole_path(mirror):
    mirror.take_snapshot(NAME, selection=["archive/snapshots"])
    (archive,) = mirror.layout.archive.rglob(f"{NAME}*.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-2000])
    made = mirror.take_snapshot(NAME, selection=["lake/snapshot_articles"])
    assert made.sentence.startswith(f"{archive}: ")
    assert observed(mirror, made) == {("lake/snapshot_articles", NAME): made.sentence}
    made = mirror.take_snapshot(NAME, selection=["warehouse/snapshot_articles"])
    assert "1 archives of" in made.sentence
    assert observed(mirror, made) == {("warehouse/snapshot_articles", NAME): made.sentence}


def test_what_the_system_refuses_names_both_paths_however_long(tmp_path):
    source, target = tmp_path / "a" / ("b" * 200), tmp_path / ("c" * 200) / ("d" * 200)
    with pytest.raises(OSError, match="No such file") as caught:
        source.replace(target)
    assert sentence(caught.value).startswith(
        f"No such file or directory: {source} -> {target}. What was committed stays."
    )
