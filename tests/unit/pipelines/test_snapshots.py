"""Several snapshots at once: what they take together, whether they are begun, what is told of them."""

from pathlib import Path

import pytest

from pipelines.operations.snapshots import Report, check, fetched_json, plan_json
from resources.datasets import SNAPSHOT_ARTICLES
from resources.enterprise import Download, FetchOptions, errors, models, plan_snapshot
from resources.enterprise.snapshot.planner import planned_file
from tests.unit.assets.conftest import listed

GB = 10**9


def planned(project="enwiki", *, left=None, free=100 * GB, size=GB, form="whole"):
    """A plan for a snapshot of two chunks or of one file; `left`: units that the account has."""
    name = f"{project}_namespace_0"

    def record(kind, identifier, size, **more):
        told = {"identifier": identifier, "version": "f" * 32, "size": {"value": size / 1e6, "unit_text": "MB"}}
        return kind.model_validate(listed(project, **told, **more))

    chunks = [record(models.Chunk, f"{name}_chunk_{n}", size // 2) for n in range(2)]
    whole = record(models.Snapshot, name, size, chunks=[chunk.identifier for chunk in chunks])
    quota = {} if left is None else {kind: models.Quota(0, left) for kind in ("snapshot", "chunk")}
    options = FetchOptions(**{form: True}, disk_factor=2.0)
    more = {"free_bytes": free, "options": options, "dataset": SNAPSHOT_ARTICLES}
    one, *parts = (planned_file(Path("/x") / name, record) for record in (whole, *chunks))
    return plan_snapshot(whole, one, parts, quotas=quota, **more)


def test_units_are_counted_by_their_counter_and_bytes_together():
    assert "has 0 left" in plan_json((planned(left=0),))["obstacle"]
    told = plan_json((planned(), planned("frwiki", form="chunks"), planned("dewiki", free=50 * GB)))
    assert len(told.pop("snapshots")) == 3
    assert told == {
        "unit_counts": {"snapshot": 2, "chunk": 2},
        "missing_bytes": 3 * GB,
        "disk_bytes": 6 * GB,
        "free_bytes": 50 * GB,
        "obstacle": None,
    }


@pytest.mark.parametrize(("limits", "kind"), [({"left": 1}, errors.QuotaExceeded), ({"free": 3 * GB}, errors.DiskFull)])
def test_what_fits_alone_may_not_fit_together(limits, kind):
    plans = (planned(**limits), planned("frwiki", **limits))
    for one in plans:
        check((one,))
    with pytest.raises(kind) as caught:
        check(plans)
    assert plan_json(plans)["obstacle"] == caught.value.message


def download(size, resumed=0, *, new=True):
    return Download(Path("/x"), "enwiki_namespace_0", "f" * 32, size, resumed, fetched=new, unit_count=int(new))


def test_bytes_that_were_there_are_not_told_as_fetched():
    made = fetched_json(planned(), (download(100), download(50, 20), download(1000, new=False)))
    figures = {"fetched_file_count": 2, "fetched_bytes": 130, "size_bytes": 1150, "used_unit_count": 2}
    assert figures.items() <= made.items()


def test_a_report_names_what_failed_and_what_was_not_begun():
    error = errors.QuotaExceeded("None is left.")
    assert Report(((planned(), (download(1),)),), (), ()).sentence() == ""
    assert Report((), (("enwiki_namespace_0", error),), ()).sentence() == "None is left."
    told = Report(((planned(), (download(1),)),), (("frwiki_namespace_0", error),), ("dewiki_namespace_0",)).sentence()
    assert told == (
        "1 of 3 snapshots failed.\n- frwiki_namespace_0: None is left.\nDownloads that were not started: "
        "dewiki_namespace_0."
    )
