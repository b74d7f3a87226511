"""One hour after another through the layers: what each is given, what it tells, what is remembered of a failure."""

import itertools
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest

from assets import layers
from assets.steps import hour as batches
from assets.steps.converting import NotArchivedError
from assets.steps.hour import PartialHourError
from resources import connection, datasets
from resources.datasets import ARTICLE_CHANGES
from resources.enterprise.errors import NotPublishedYet, RetentionPassed, ServiceUnavailable, UnreachableError
from resources.formatting import size_text
from resources.tables import HourState
from resources.warehouse import LakeFileError, Warehouse
from tests.builds import loaded_digests
from tests.unit.assets.conftest import NEXT, record
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.loopback import error_reply

ARCHIVE, LAKE, WAREHOUSE = ALL = list(layers.keys(datasets.ARTICLE_CHANGES))
LONG_AGO, AFTER = HOUR - timedelta(days=3), NEXT + timedelta(hours=1)


def test_hours_that_cannot_be_planned_fail_alone_and_stand_in_the_coverage(bench):
    bench.serve("enwiki", 1)
    run = bench.run("enwiki", "frwiki")
    run.plan([LONG_AGO, HOUR, NEXT], bench.client)
    assert list(run.plans) == [HOUR]
    assert {hour: type(error) for hour, error in run.failed.items()} == {NEXT: NotPublishedYet}
    # nobody can bring it in any more: what that means is for whoever asked for it to say
    assert {hour: type(error) for hour, error in run.gone.items()} == {LONG_AGO: RetentionPassed}
    assert run.left_out == {LONG_AGO, NEXT}
    states = {LONG_AGO: HourState.PAST_RETENTION, NEXT: HourState.NOT_YET}
    assert bench.states() == {(hour, one, 0): states[hour] for one in ("enwiki", "frwiki") for hour in states}
    assert (bench.said[0], len(bench.said)) == ("list: 3 hours", 2)


def test_changes_of_visibility_are_kept_with_each_hour_and_if_that_fails_the_hour_is_loaded_all_the_same(
    bench, monkeypatch, caplog
):
    keep = Mock(side_effect=LakeFileError("The stream cannot be read."))
    monkeypatch.setattr(Warehouse, "keep_visibility_changes", keep)
    # nor does an hour fail because the names of projects cannot be checked
    monkeypatch.setattr(connection, "check_names", Mock(side_effect=ServiceUnavailable("Away.")))
    bench.serve("enwiki", 1)
    run = bench.run()
    run.plan([HOUR], bench.client)
    assert ([layer.key for layer in run.ingest(HOUR, ALL, bench.client)], keep.call_count) == (ALL, 1)
    assert "The stream cannot be read." in caplog.text
    assert bench.states() == {(HOUR, "enwiki", 0): HourState.LOADED}


def test_an_hour_past_the_retention_that_is_archived_comes_from_the_archive(bench):
    bench.serve("enwiki", 1, 2)
    bench.fetch(("enwiki", 0))
    bench.clock.advance(days=3)
    bench.fake.script("/v2/batches/2026-11-01/05", error_reply(404, "Not Found"))
    asked, run = bench.downloads(), bench.run()
    run.plan([HOUR], bench.client)
    assert (run.plans, run.failed, run.gone) == ({}, {}, {})
    layers = {layer.key: layer for layer in run.ingest(HOUR, ALL, bench.client)}
    assert (list(layers), layers[ARCHIVE].metadata["requests"]) == (ALL, 0)
    # numbers for the plots, and the same to be read
    [made], [archive] = run.conversions[HOUR], run.archived[HOUR].archives
    sizes = {(LAKE, "lake_bytes"): made.lake_bytes, (LAKE, "ndjson_bytes"): made.ndjson_bytes}
    sizes[ARCHIVE, "bytes"] = archive.path.stat().st_size
    for (layer, name), size in sizes.items():
        found = layers[layer].metadata
        assert found[name] == size > 0
        assert found[name.replace("bytes", "size")] == size_text(found[name])
    assert (layers[WAREHOUSE].metadata["dagster/partition_row_count"], bench.downloads()) == (2, asked)


def test_once_fetching_has_ended_an_hour_is_read_from_the_archive_only_if_it_is_complete(bench):
    for project in ("enwiki", "frwiki"):
        bench.serve(project, 1)
    bench.fetch(("enwiki", 0))
    run = bench.run("enwiki", "frwiki")
    run.stopped = UnreachableError("The service is lost.")
    with pytest.raises(UnreachableError, match="is lost"):
        list(run.ingest(HOUR, ALL, bench.client))
    assert bench.states() == {}
    run.stopped = None
    with pytest.raises(PartialHourError, match="frwiki"):
        list(run.ingest(HOUR, ALL, None))
    assert bench.states()[HOUR, "enwiki", 0] == HourState.LOADED
    damaged = {("enwiki", number): LakeFileError(f"No. {number}.") for number in range(4)}
    assert PartialHourError.of({}, damaged | {("frwiki", 0): UnreachableError("Lost.")}).retryable, "one can heal"
    told = "enwiki namespace 0: No. 0. enwiki namespace 1: No. 1. enwiki namespace 2: No. 2. And 1 more."
    assert str(error := PartialHourError.of({}, damaged)).endswith(f"other projects are loaded. {told}")
    mixed = PartialHourError.of({("frwiki", 0): "odd"}, damaged)
    assert str(mixed).startswith("Nothing was loaded for frwiki namespace 0, enwiki namespace 0, ")
    assert (error.retryable, mixed.retryable) == (False, True)


@pytest.mark.parametrize("selected", [[ARCHIVE], [LAKE], [WAREHOUSE], [ARCHIVE, LAKE], ALL])
def test_the_selected_layers_are_made_and_each_is_told_when_it_is_committed_and_not_before(bench, selected):
    def committed():
        is_listed = bench.layout.batch_list(ARTICLE_CHANGES, HOUR).exists()
        return (is_listed, any((bench.data / "lake").glob("**/*.parquet")), (HOUR, "enwiki", 0) in bench.states())

    bench.serve("enwiki", 1)
    run = bench.run()
    if ARCHIVE in selected:
        run.plan([HOUR], bench.client)
        assert committed() == (False, False, False)
    else:
        bench.fetch(("enwiki", 0))
    told = [(layer.key, committed()) for layer in run.ingest(HOUR, selected, bench.client if run.plans else None)]
    steps = {ARCHIVE: (True, False, False), LAKE: (True, True, False), WAREHOUSE: (True, True, True)}
    assert told == [(key, steps[key]) for key in selected]
    assert (committed(), list(run.archived)) == (steps[selected[-1]], [HOUR])
    assert (HOUR in run.conversions, run.loaded) == (selected != [ARCHIVE], [HOUR] if WAREHOUSE in selected else [])


def layers_of(bench, *projects):
    run = bench.run(*projects)
    run.plan([HOUR], bench.client)
    return {layer.key: layer for layer in run.ingest(HOUR, ALL, bench.client)}


def test_what_each_layer_tells(bench, monkeypatch, caplog):
    archive, lake, warehouse = (layer.metadata for layer in layers_of(bench, "enwiki").values())
    assert "no changes" in warehouse["empty"]
    assert (warehouse["dagster/partition_row_count"], "dagster/uri" in archive, "preview" in lake) == (0, False, False)

    convert, moments = bench.converter.convert, itertools.count()
    more = {"remarks": ("Odd.", "Long."), "seconds": 0.5}
    monkeypatch.setattr(bench.converter, "convert", lambda *given, **how: replace(convert(*given, **how), **more))
    monkeypatch.setattr(batches, "time", SimpleNamespace(perf_counter=lambda: float(next(moments))))
    first = record(1, news={"headline": "unknown"}, event=record(1)["event"] | {"type": "delete"})
    bench.serve("enwiki", first, 2, 2, b"no record", b"nor this")
    bench.serve("frwiki", 1)
    bench.serve("dewiki", 1, version="7")
    bench.know("projects", *(places := ("enwiki", "frwiki", "itwiki", "eswiki")))
    told = layers_of(bench, *places)
    archive, lake, warehouse = (told[key].metadata for key in ALL)
    assert archive["absent"] == "itwiki namespace 0, eswiki namespace 0"
    assert [archive[name] for name in ("files", "files_fetched", "requests")] == [2, 2, 3]
    assert archive["bytes"] == archive["bytes_fetched"] > 0
    [path] = bench.layout.archive.rglob("frwiki*.tar.gz")
    assert "| enwiki | 0 | " in archive["archives"].value
    assert archive["archives"].value.endswith(f" | {size_text(path.stat().st_size)} |")
    assert archive["dagster/uri"] == str(bench.layout.archive_hour(ARTICLE_CHANGES, HOUR))
    odd = "1 record in the list /v2/batches/2026-11-01/05 is not used (dewiki_namespace_0: version: "
    assert archive["odd_records"].startswith(odd)
    assert (lake["dagster/partition_row_count"], lake["rejects"]) == (4, 2)
    assert (lake["files"], lake["files_converted"], lake["seconds"]) == (2, 2, 1.0)
    files = (bench.layout.lake / "article_changes").rglob("*.parquet")
    assert lake["lake_bytes"] == sum(path.stat().st_size for path in files)
    names = ["enwiki_namespace_0", "frwiki_namespace_0"]
    assert lake["remarks"].splitlines() == [f"{name}: {text}" for name in names for text in more["remarks"]]
    assert [f"{name} of 2026-11-01 05:00: Odd." in caplog.text for name in names] == [True, True]
    # with the second or more that each download took
    assert {name: s % 1 == 0.5 < s for name, s in lake["seconds_by_archive"].items()} == dict.fromkeys(names, True)
    assert lake["dagster/uri"] == str(next((bench.layout.lake / "article_changes").rglob("*.parquet")).parent)
    assert "| news | 1 | " in lake["unknown_fields"].value
    assert (warehouse["dagster/partition_row_count"], warehouse["duplicates"], warehouse["changed"]) == (3, 1, True)
    assert "| enwiki | 0 | 3 | 2 | 1 | 2 |" in warehouse["projects"].value
    assert "empty" not in warehouse

    bench.fake.records = dict(reversed(bench.fake.records.items()))  # no version depends on the list's order
    again = layers_of(bench, *places)
    archive, lake, warehouse = (again[key].metadata for key in ALL)
    assert (archive["files"], archive["files_fetched"], archive["bytes_fetched"], archive["requests"]) == (2, 0, 0, 1)
    assert (lake["dagster/partition_row_count"], lake["files_converted"], lake["seconds"]) == (4, 0, 0)
    assert (warehouse["dagster/partition_row_count"], warehouse["duplicates"], warehouse["changed"]) == (3, 1, False)
    assert [again[key].data_version for key in ALL] == [told[key].data_version for key in ALL]

    bench.serve("frwiki", 1, 2)
    other = layers_of(bench, "enwiki", "frwiki")
    assert all(other[key].data_version != told[key].data_version for key in ALL)
    assert [[of[key].is_new for key in ALL] for of in (told, again, other)] == [[True] * 3, [False] * 3, [True] * 3]


def test_what_earlier_runs_made_is_found_again_and_nothing_is_done(bench):
    for project in (projects := ("enwiki", "frwiki")):
        bench.serve(project, 1)
    layers_of(bench, *projects)
    before = len(bench.fake.api.requests), loaded_digests(bench.warehouse, HOUR)
    run = bench.run(*projects)
    run.recall([LONG_AGO, HOUR, NEXT])
    assert list(run.archived) == list(run.conversions) == run.loaded == [HOUR]
    assert [one.converted for one in run.conversions[HOUR]] == [False, False]
    assert (len(bench.fake.api.requests), loaded_digests(bench.warehouse, HOUR)) == before


def test_the_first_error_is_told_though_the_coverage_cannot_be_noted_either(bench):
    bench.warehouse.build_path.unlink()
    bench.warehouse.build_path.mkdir()
    run, error = bench.run(), NotArchivedError("Not there.")
    run.fail(HOUR, error)
    assert (run.failed, run.is_warehouse_unavailable) == ({HOUR: error}, True)
    [note] = error.__notes__
    assert note.startswith("The coverage could not be updated either. ")
    run.fail(NEXT, other := NotArchivedError("Not there either."))
    assert not hasattr(other, "__notes__"), "it is not tried again"
    # where nothing can be loaded, archived hours fail as well, and those that are lost are no failures
    run.plans, run.gone = {NEXT: run.plans, AFTER: Mock(missing=())}, {LONG_AGO: RetentionPassed("Gone.")}
    run.stop(error, [LONG_AGO, NEXT, AFTER])
    assert run.failed == {HOUR: error, NEXT: other, AFTER: error}
    run = bench.run()
    run.plans, run.fail = {NEXT: Mock(missing=[1]), AFTER: Mock(missing=())}, Mock()
    run.stop(error, [HOUR, NEXT, AFTER])
    assert run.fail.call_args_list == [call(HOUR, error), call(NEXT, error)], "without a plan, nothing is known"
