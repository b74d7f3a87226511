"""The declared datasets: each is itself in every process, and no two share a table or a folder."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from resources import datasets
from resources.tables import ARTICLE_CHANGES, Table


@pytest.mark.parametrize("dataset", datasets.datasets(), ids=lambda dataset: dataset.name)
def test_dataset_is_itself_wherever_it_is_sent(dataset):
    assert pickle.loads(pickle.dumps(dataset)) is dataset
    assert datasets.named(dataset.name) is dataset


def test_no_two_datasets_share_a_table_or_a_folder():
    before = datasets.datasets()
    other = Table("other_changes", ARTICLE_CHANGES.description, ARTICLE_CHANGES.columns, ARTICLE_CHANGES.key)
    for twice, name in (
        (replace(datasets.ARTICLE_CHANGES, archive="other"), "article_changes"),
        (replace(datasets.ARTICLE_CHANGES, table=other), "batches"),
    ):
        with pytest.raises(ValueError, match=f"Declared twice: {name}"), datasets.also(twice):
            pass
    with datasets.also(replace(datasets.ARTICLE_CHANGES, table=other, archive="other")):
        assert datasets.named("other_changes").table is other
    assert datasets.datasets() == before
