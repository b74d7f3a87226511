"""An hour of another world, loaded in place of the true one: it has to be redone."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from resources import datasets
from resources.lake import Archive, Layout, convert
from resources.sandbox import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.warehouse import Warehouse


def spoil(store: Warehouse, hour: datetime, projects: Sequence[str], namespaces: Sequence[int], folder: Path) -> None:
    """Load `hour` with the changes of another world, which is kept in `folder`."""
    world = ArchivedWorld(Settings(state=folder, seed=99, projects=(*projects,), changes_per_hour=60, body_bytes=500))
    strange = []
    for batch in world.batches(hour):
        project, namespace = batch.record["is_part_of"]["identifier"], batch.record["namespace"]["identifier"]
        if namespace in namespaces:
            archive = Archive(batch.path, batch.record["identifier"], batch.version, hour, project, namespace)
            strange.append(convert(archive, Layout(store.data)))
    assert store.load_hour(hour, strange, dataset=datasets.ARTICLE_CHANGES).changed
