"""Partitions that are not named, or named wrongly: the run says what to do instead, and no red partition stays."""

import pytest

from assets.layers import SNAPSHOT_KEYS
from pipelines.definitions import build_defs
from resources import datasets
from resources.datasets import Family
from resources.settings import Settings
from tests.integration.mirror import Mirror


def run(mirror: Mirror, job: str, key: str | None = None) -> list[str]:
    """The sentences of a job's run of a partition, or of none, as the launchpad would start it."""
    tags = {} if key is None else {"dagster/partition": key}
    if key is not None:
        mirror.instance.add_dynamic_partitions("snapshots", [key])
    return mirror._run(job, tags, None, {}).sentences


def test_a_key_that_the_service_does_not_know_is_explained_and_leaves_no_partition(mirror: Mirror) -> None:
    for key, hint in (
        ("enwiki", "Did you mean enwiki_namespace_0"),
        ("enwikii_namespace_0", "Did you mean enwiki_namespace_0"),
        ("?", "was removed"),
    ):
        (sentence,) = run(mirror, "snapshots", key)
        assert sentence.startswith(f"There is no snapshot {key!r}. ")
        assert hint in sentence
        assert sentence.endswith(SNAPSHOT_KEYS)
        assert mirror.instance.get_dynamic_partitions("snapshots") == []


def test_a_snapshot_that_is_archived_keeps_its_partition_when_the_service_drops_it(mirror: Mirror) -> None:
    assert run(mirror, "snapshots", "enwiki_namespace_0") == []
    mirror.sandbox.faults.add(path="*/snapshots/enwiki_namespace_0", kind="status", status=404, count=None)
    (sentence,) = run(mirror, "snapshots", "enwiki_namespace_0")
    assert "There is no snapshot" not in sentence
    assert mirror.instance.get_dynamic_partitions("snapshots") == ["enwiki_namespace_0"]


@pytest.mark.parametrize("layer", ["lake/snapshot_articles", "warehouse/snapshot_articles"])
def test_a_slip_in_a_later_layer_leaves_no_partition_and_a_snapshot_that_is_not_archived_does(
    mirror: Mirror, layer: str
) -> None:
    mirror.instance.add_dynamic_partitions("snapshots", ["enwiki", "enwiki_namespace_0"])
    for key, sentence in (
        ("enwiki", "There is no snapshot 'enwiki'. "),
        ("enwiki_namespace_0", "The archive does not contain all files of enwiki_namespace_0. "),
    ):
        (told,) = mirror._run("snapshots", {"dagster/partition": key}, [layer], {}).sentences
        assert told.startswith(sentence)
    assert mirror.instance.get_dynamic_partitions("snapshots") == ["enwiki_namespace_0"]


def test_a_run_without_a_partition_says_what_to_do_instead(mirror: Mirror) -> None:
    for job in ("snapshots", "hours"):
        told = run(mirror, job)
        assert told
        assert all(one.startswith("The run has no partition. Nothing was done. ") for one in told)


def test_the_keys_are_explained_at_each_asset_that_asks_for_one() -> None:
    explained = {
        spec.key.to_user_string()
        for spec in build_defs(Settings()).resolve_all_asset_specs()
        if SNAPSHOT_KEYS in spec.description
    }
    assert explained == {
        f"{layer}/{name}"
        for dataset in datasets.datasets(Family.SNAPSHOT)
        for layer, name in (("archive", dataset.archive), ("lake", dataset.name), ("warehouse", dataset.name))
    }
