"""The stream beside the files of an hour that was loaded: whether both tell of the same events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from resources.datasets import ARTICLE_CHANGES
from resources.errors import MirrorError

if TYPE_CHECKING:
    from datetime import datetime

    from resources.datasets import Dataset
    from resources.warehouse import Comparison, Warehouse

_log = logging.getLogger(__name__)


def compared_with_stream(warehouse: Warehouse, dataset: Dataset, hour: datetime) -> list[Comparison]:
    """The comparisons of an hour; none where no stream is kept."""
    if dataset is not ARTICLE_CHANGES:
        return []
    return [one for one in compare_stream(warehouse) if one.batch_hour == hour]


def compare_stream(warehouse: Warehouse) -> list[Comparison]:
    """Compare the stream with the files of all hours that are due. Differences are in the log.

    Whatever keeps them from being compared costs no hour: the next load of one compares both.
    """
    try:
        compared = warehouse.compare_stream()
    except MirrorError as error:
        _log.warning("%s", error)
        return []
    for one in compared:
        if one.difference_count and one.is_news:
            _log.warning("%s", one)
    return compared
