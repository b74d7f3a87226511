"""The declared datasets: each is itself in every process, and no two share a table or a folder."""

import pickle

import pyarrow as pa
import pytest

from resources import datasets
from resources.datasets import Family
from resources.tables import TIMESTAMP


@pytest.mark.parametrize("dataset", datasets.datasets(), ids=lambda dataset: dataset.name)
def test_dataset_is_itself_wherever_it_is_sent_and_every_column_has_one_source_that_fits_its_type(dataset):
    assert pickle.loads(pickle.dumps(dataset)) is datasets.named(dataset.name) is dataset
    table, types = dataset.table, {"batch_hour": TIMESTAMP, "source_at": TIMESTAMP, "namespace_id": pa.int64()}
    for name in dataset.given:
        assert table[name].type == types.get(name, pa.string()), name
    for column in table:
        sources = [table[name] for name in column.first_of]
        assert all(one.path and one.type == column.type and not one.json for one in sources), column.name
        assert not sources or (column.path, column.default) == (None, None), column.name
        if column.default is not None or column.values or column.json:
            assert column.type == pa.string(), column.name
        if column.json:
            assert (bool(column.path), column.required, column.values) == (True, False, ()), column.name
        if column.values:
            assert column.default in {None, *column.values}, column.name
        assert not column.required or column.path or sources or column.name in dataset.given, column.name


def test_no_two_datasets_share_a_table_or_a_folder():
    tables = [table.name for table in datasets.tables()]
    folders = [one.archive for one in datasets.datasets() if one.family is not Family.LIST]
    assert (len(set(tables)), len(set(folders))) == (len(tables), len(folders))
