"""Datasets that are declared only in a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from resources import datasets
from resources.datasets import Dataset


@contextmanager
def also(*more: Dataset) -> Iterator[None]:
    """Declare additional datasets for all definitions built within the context."""
    before = list(datasets._declared)
    datasets._declared.extend(more)
    try:
        yield
    finally:
        datasets._declared[:] = before
