"""What is typed into the launchpad reaches the step, or fails it with a sentence.

A partition that failed shows its own. One that is not named, or named wrongly, leaves no red partition.
"""

from datetime import timedelta

import click
import dagster as dg
import pyarrow.parquet as pq
import pytest

from assets import layers
from assets.describe import sentence
from assets.layers import SNAPSHOT_KEYS
from pipelines.cli.snapshots import plan_snapshots
from pipelines.definitions import build_defs
from resources import datasets
from resources.adapters import ConfiguredEngine
from resources.datasets import STRUCTURED_ARTICLES, Family
from resources.enterprise import SnapshotOptions
from resources.lake.journal import Asked, Journals
from resources.settings import Settings
from resources.tables import Purpose

NAME = "enwiki_namespace_0"


def typed(**values):
    return {"ops": {"snapshots_files": {"config": values}}}


def test_a_snapshot_is_fetched_in_the_form_and_within_the_units_that_were_typed(mirror):
    mirror.typed = typed(chunks=True, most_units=0)
    made = mirror.take_snapshot(NAME)
    assert made.sentence.startswith(f"Fetching {NAME} in 1 chunk costs 1 quota unit, but the limit is 0.")
    assert not list(mirror.layout.archive.rglob("*.tar.gz"))
    for form in ("chunks", "whole"):
        mirror.typed = typed(**{form: True}, most_units=1)
        made = mirror.take_snapshot(NAME)
        assert made.sentence == ""
        metadata = made.metadata["archive/snapshots", None]
        told = [metadata[name] for name in ("form", "quota_units", "because")]
        assert told == [form, 1, "this form was requested"]
    (path,) = mirror.layout.archive.rglob(f"{NAME}.*.tar.gz")
    assert (metadata["files"], metadata["bytes"]) == (1, path.stat().st_size)
    told = made.metadata["warehouse/snapshot_articles", None]
    names = ("dagster/partition_row_count", "duplicates", "boundary_at", "is_base", "dropped_versions")
    columns = "row_count - duplicate_count, duplicate_count, epoch(boundary_at), true, 0, epoch(exported_at)"
    (row,) = mirror.rows(f"SELECT {columns} FROM snapshots WHERE snapshot_version = ?", [told["version"]])
    assert [*(told[name] for name in names), metadata["exported_at"]] == pytest.approx([*row], abs=1e-3)
    # a run that finds all of it done shows the work of the one before
    again = mirror.take_snapshot(NAME)
    for key, first in made.metadata.items():
        assert again.metadata[key].pop("unchanged_since") > 0
        assert again.metadata[key] | {name: True for name in first if name == "changed"} == first
    mirror.typed = {}
    # structured contents cost no quota, and what is fetched again is work again
    for _ in range(2):
        made_of = mirror.take_snapshot(NAME, STRUCTURED_ARTICLES, ["archive/structured_contents"]).metadata
        metadata = made_of["archive/structured_contents", None]
        assert (metadata["quota_units"], "unchanged_since" in metadata) == (0, False)
        next((mirror.layout.archive / "structured_contents").rglob("*.tar.gz")).unlink()
    mirror.configure(min_free_gb=1e6)
    assert "1,000,000.0 GB" in mirror.take_snapshot(NAME, STRUCTURED_ARTICLES).sentence


def test_what_cannot_be_meant_fails_the_step_with_a_sentence_before_anything_is_asked(mirror):
    for values, told in (
        ({"chunks": True, "whole": True}, "whole and chunks are mutually exclusive. Nothing was done."),
        ({"most_units": -1}, "most_units is -1; it must be greater than or equal to 0. Nothing was done."),
    ):
        mirror.typed = typed(**values)
        made = mirror.take_snapshot(NAME)
        assert (made.sentence, made.allow_retries, list(mirror.sandbox.requests)) == (told, False, [])


def test_the_command_line_offers_the_same_under_the_same_names():
    offered = {one.name: one for one in plan_snapshots.params if isinstance(one, click.Option)}
    for name, field in SnapshotOptions.model_fields.items():
        assert (offered[name].opts, offered[name].help) == ([f"--{name.replace('_', '-')}"], field.description)


def observed(mirror, made):
    """The sentences that a run put beside partitions, by asset and partition."""
    records = mirror.instance.get_records_for_run(made.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION).records
    found = [one.event_log_entry.dagster_event.asset_observation_data.asset_observation for one in records]
    return {(one.asset_key.to_user_string(), one.partition): one.description for one in found}


def test_a_snapshot_that_failed_shows_why_beside_its_partition_with_the_whole_path(mirror):
    mirror.take_snapshot(NAME, selection=["archive/snapshots"])
    (archive,) = mirror.layout.archive.rglob(f"{NAME}*.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-2000] + bytes(2000))
    made = mirror.take_snapshot(NAME, selection=["archive/snapshots", "lake/snapshot_articles"])
    assert made.sentence.startswith(f"{archive}: ")
    assert observed(mirror, made) == {("lake/snapshot_articles", NAME): made.sentence}
    made = mirror.take_snapshot(NAME, selection=["warehouse/snapshot_articles"])
    assert "1 archives of" in made.sentence
    assert observed(mirror, made) == {("warehouse/snapshot_articles", NAME): made.sentence}


def test_what_the_system_refuses_names_both_paths_however_long(tmp_path):
    source, target = tmp_path / "a" / ("b" * 200), tmp_path / ("c" * 200) / ("d" * 200)
    with pytest.raises(OSError, match="No such file") as caught:
        source.replace(target)
    told = f"No such file or directory: {source} -> {target}. Committed data is kept."
    assert sentence(caught.value).startswith(told)


def test_a_run_spends_no_more_lookups_than_it_may(mirror, tmp_path):
    path = tmp_path / "watchlist"
    path.write_text("enwiki No such page\nenwiki Nor this one\nenwiki Nor that one\n")
    mirror.configure(watchlist=path, check_pages=0)
    mirror.sandbox.faults.add(path="/v2/articles/*", kind="status", status=503, count=None)
    now = mirror.sandbox.clock.now()  # a killed run left an answer that is not loaded
    Journals(mirror.layout, now).add(Asked("enwiki", 0, "Left", Purpose.WATCH), now, None)
    mirror.typed = {"ops": {"look_up": {"config": {"most_lookups": 2}}}}
    made = mirror.run("lookups")
    told = {"wanted": 2, "found": 0, "not_found": 0, "failed": 2, "budget_left": 98, "rows": 1}
    assert made.metadata["archive/lookups", None] == told
    kept = "Received responses are kept. The next run requests the remaining pages. Could not look up 'No such page': "
    assert made.sentence.startswith(f"Some pages could not be looked up. {kept}")
    mirror.sandbox.faults.clear()
    for number, (most, units, left, rows) in enumerate([(2, 1, 97, 2), (0, 9, 97, 1), (None, 9, 95, 3)], 1):
        mirror.sandbox.accounts.set_quota(mirror.settings.username, "ondemand", limit=units, used=0)
        moment = now + timedelta(minutes=number)
        Journals(mirror.layout, moment).add(Asked("enwiki", 0, f"Left {number}", Purpose.WATCH), moment, None)
        mirror.typed = {"ops": {"look_up": {"config": {} if most is None else {"most_lookups": most}}}}
        told = mirror.run("lookups").metadata["archive/lookups", None]
        assert (told["budget_left"], told["rows"]) == (left, rows)
    odd = next(mirror.layout.archive.glob("lookups/*/*/*.gz")).with_name("x.ndjson")
    odd.touch()
    Journals(mirror.layout, moment).add(Asked("enwiki", 14, "Left", Purpose.WATCH), moment, None)
    made = mirror.run("lookups")
    assert made.metadata["archive/lookups", None]["rows"] == 1
    assert made.sentence.startswith(
        f"Some stored responses could not be loaded. All other responses are loaded. {odd} "
    )


def again(mirror, hour, *selection):
    mirror.typed = {"ops": {"hourly_batches": {"config": {"convert_again": True}}}}
    local = ConfiguredEngine(Settings(engine="dask://127.0.0.1:1"))  # no worker is asked
    made = mirror.materialize([hour], selection or None, engine=local)
    mirror.typed = {}
    return made


def counts(made, hour):
    lake, warehouse = (made.metadata[f"{layer}/article_changes", hour] for layer in ("lake", "warehouse"))
    return lake["files_converted"], warehouse["changed"]


def test_a_damaged_file_is_replaced_and_its_hour_loaded_again_and_what_is_right_stays_the_same_file(mirror):
    mirror.configure(projects=("enwiki",))
    (hour,) = mirror.newest(1)
    assert mirror.materialize([hour]).success
    (lake_file,) = mirror.lake_files()
    before, made = lake_file.stat(), again(mirror, hour)
    assert (made.sentence, counts(made, hour)) == ("", (0, False))
    after = lake_file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    made = again(mirror, hour, "lake/article_changes")
    assert made.sentence.endswith("Nothing was done. Select this asset too.")

    right = lake_file.read_bytes()
    # amid the pages, whose checksums show it, and in the length of the footer
    for at in (len(right) // 3, len(right) - 6):
        wrong = right[:at] + bytes([right[at] ^ 0xFF]) + right[at + 1 :]
        lake_file.write_bytes(wrong)
        with lake_file.open("rb") as reader:
            made = again(mirror, hour)
            assert reader.read() == wrong  # who has it open keeps what was there
        assert (made.sentence, counts(made, hour)) == ("", (1, True))
        assert (lake_file.read_bytes(), all(made.checks.values())) == (right, True)
    assert counts(again(mirror, hour), hour) == (0, False)

    # whole, and a row short
    table = pq.read_table(lake_file)
    pq.write_table(table.slice(1).replace_schema_metadata(pq.read_metadata(lake_file).metadata), lake_file)
    assert (counts(again(mirror, hour), hour), lake_file.read_bytes()) == ((1, True), right)


def sentences(mirror, job, key=None):
    """The sentences of a job's run of a partition, or of none, as the launchpad would start it."""
    tags = {} if key is None else {"dagster/partition": key}
    if key is not None:
        mirror.instance.add_dynamic_partitions("snapshots", [key])
    return mirror.run(job, tags).sentences


def test_a_key_that_the_service_does_not_know_is_explained_and_leaves_no_partition(mirror):
    hint = "Did you mean enwiki_namespace_0, enwiki_namespace_10, enwiki_namespace_14? "
    advice = "Nothing was fetched, and the partition was removed. Add the correct partition and materialize it."
    for key, near in (("enwiki", hint), ("enwikii_namespace_0", hint), ("en", ""), ("?", "")):
        assert sentences(mirror, "snapshots", key) == [f"There is no snapshot {key!r}. {near}{advice} {SNAPSHOT_KEYS}"]
        assert mirror.instance.get_dynamic_partitions("snapshots") == []


def test_a_snapshot_that_is_archived_keeps_its_partition_when_the_service_drops_it(mirror):
    assert sentences(mirror, "snapshots", "enwiki_namespace_0") == []
    mirror.sandbox.faults.add(path="*/snapshots/enwiki_namespace_0", kind="status", status=404, count=None)
    (sentence,) = sentences(mirror, "snapshots", "enwiki_namespace_0")
    assert "There is no snapshot" not in sentence
    assert mirror.instance.get_dynamic_partitions("snapshots") == ["enwiki_namespace_0"]


@pytest.mark.parametrize("layer", ["lake/snapshot_articles", "warehouse/snapshot_articles"])
def test_a_slip_in_a_later_layer_leaves_no_partition_and_a_snapshot_that_is_not_archived_does(mirror, layer):
    mirror.instance.add_dynamic_partitions("snapshots", ["enwiki_namespace_0x", "enwiki_namespace_0"])
    for key, beginning in (
        ("enwiki_namespace_0x", "There is no snapshot 'enwiki_namespace_0x'. "),
        ("enwiki_namespace_0", "The archive does not contain all files of enwiki_namespace_0. "),
    ):
        (told,) = mirror.run("snapshots", {"dagster/partition": key}, [layer]).sentences
        assert told.startswith(beginning)
    assert mirror.instance.get_dynamic_partitions("snapshots") == ["enwiki_namespace_0"]


def test_a_run_without_a_partition_says_what_to_do_instead(mirror):
    for job in ("snapshots", "hours"):
        told = sentences(mirror, job)
        assert told
        assert all(one.startswith("The run has no partition. Nothing was done. ") for one in told)


def test_the_keys_are_explained_at_each_asset_that_asks_for_one():
    specs = build_defs(Settings()).resolve_all_asset_specs()
    wanted = {key for dataset in datasets.datasets(Family.SNAPSHOT) for key in layers.keys(dataset)}
    assert {spec.key for spec in specs if SNAPSHOT_KEYS in spec.description} == wanted
