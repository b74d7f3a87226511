"""What a run decides before it begins: which hours and snapshots, what they take, whether the lists are due."""

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import dagster as dg
import pytest
from filelock import FileLock

from pipelines.automation import discovery
from pipelines.operations import run as runs
from pipelines.operations.snapshots import Report, check, fetched_json, plan_json, report_json
from pipelines.process.processes import CommandRuns
from resources import adapters
from resources.adapters import ConfiguredWarehouse
from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES, named
from resources.enterprise import Download, FetchOptions, errors, models, plan_snapshot
from resources.enterprise.snapshot.planner import planned_file
from resources.lake import Layout
from resources.settings import Settings
from resources.tables import HourState
from resources.tables.reference import REFERENCE_TABLES
from resources.warehouse import HourStatus, Warehouse, WarehouseBusyError
from tests.builds import lay
from tests.e2e.forkserver import without_history
from tests.unit.assets.conftest import listed, write_set
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.loopback import json_reply
from tests.unit.warehouse.conftest import Clock as Late
from tests.unit.warehouse.conftest import Lake

ONE, NOW = timedelta(hours=1), datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("lag", range(6))
def test_hours_are_counted_from_the_newest_that_is_published(client, clock, lag):
    """The service has the list of HOUR and of no other."""
    clock.now = HOUR + (1 + lag) * ONE + timedelta(minutes=59)
    assert runs.newest_hours(client, 3, clock(), ARTICLE_CHANGES) == [HOUR - 2 * ONE, HOUR - ONE, HOUR]
    assert runs.newest_hours(client, 48, clock(), ARTICLE_CHANGES)[0] == HOUR - (46 - lag) * ONE
    several = [HOUR, HOUR + ONE, HOUR + 2 * ONE]
    assert [runs.hours_between(HOUR, last) for last in (HOUR, several[-1])] == [[HOUR], several]


def test_a_service_that_lags_by_more_is_not_searched_for_ever(client, clock, fake):
    clock.now = HOUR + 7 * ONE
    with pytest.raises(errors.NotPublishedYet):
        runs.newest_hours(client, 3, clock(), ARTICLE_CHANGES)
    assert len(fake.api.seen("/v2/batches/*")) == 6


@pytest.mark.parametrize("table", [table.name for table in REFERENCE_TABLES])
def test_reference_lists_are_due_when_one_is_absent_or_a_day_old_or_not_loaded(tmp_path, table):
    layout, lake, warehouse = Layout(tmp_path), Lake(tmp_path), Warehouse(tmp_path, lock_timeout=5.0)
    is_due = partial(discovery.reference_due, layout, warehouse, NOW)
    assert is_due()

    def put(name, age):
        path, moment = layout.list_archive(named(name)), (NOW - age).timestamp()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"[]")
        os.utime(path, (moment, moment))

    for one in REFERENCE_TABLES:
        put(one.name, ONE)
    assert (is_due(), warehouse.build_path.exists()) == (True, False)
    for one in sorted(REFERENCE_TABLES, key=lambda one: one.name == table):
        assert is_due()
        row = {one.key[0]: 0 if one.name == "namespaces" else "x"}
        warehouse.load_list(named(one.name), lake.reference(one.name, [row]))
    assert not is_due()
    put(table, discovery.REFERENCE_AGE)
    assert not is_due()
    put(table, discovery.REFERENCE_AGE + timedelta(seconds=1))
    assert is_due()
    assert timedelta(hours=12) < discovery.REFERENCE_AGE < timedelta(days=8)
    layout.list_archive(named(table)).unlink()
    assert is_due()


def serve(fake, *places, wrong=None):
    """List these snapshots; `wrong` changes the record of the last."""
    records = [listed(*place, version="0" * 32) for place in places]
    records[-1] |= wrong or {}
    fake.script("/v2/snapshots", json_reply(records))


def test_snapshots_are_missing_where_a_mirrored_project_has_none_underneath(client, fake, tmp_path):
    warehouse = Warehouse(tmp_path, lock_timeout=5.0, clock=Late())
    settings = Settings(data=tmp_path, projects=("frwiki", "enwiki", "itwiki"), namespaces=(14, 0))
    served = [("dewiki", 0), ("enwiki", 0), ("enwiki", 14), ("frwiki", 0)]
    serve(fake, *served)
    wanted = ["frwiki_namespace_0", "enwiki_namespace_14", "enwiki_namespace_0"]  # in the order configured
    assert discovery.snapshots_to_fetch(client, settings, [SNAPSHOT_ARTICLES]) == {SNAPSHOT_ARTICLES: wanted}
    # a dataset that is asked for needs no setting
    fake.script("/v2/snapshots/wikidata", json_reply([listed("wikidatawiki", 0, version="0" * 32)]))
    items = {SNAPSHOT_ENTITIES: ["wikidatawiki_namespace_0"]}
    assert discovery.snapshots_to_fetch(client, settings, [SNAPSHOT_ENTITIES]) == items
    assert not warehouse.build_path.exists()  # nothing is made only to look
    lay(tmp_path)

    lake = Lake(tmp_path)
    # hours alone are nothing underneath
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)], "frwiki")], dataset=ARTICLE_CHANGES)
    warehouse.load_snapshot(lake.snapshot([[lake.change(5, "E", 20)]]))
    serve(fake, *served)
    assert discovery.snapshots_to_fetch(client, settings, [SNAPSHOT_ARTICLES]) == {SNAPSHOT_ARTICLES: wanted[:2]}
    serve(fake, *served)
    # versions have no order: one that is not archived is a newer one
    found = discovery.snapshots_to_fetch(client, settings, [SNAPSHOT_ARTICLES], newer=True)
    assert found == {SNAPSHOT_ARTICLES: wanted}
    # one whose record is odd is asked for by itself, whose run says what is wrong; of another project it is none
    serve(fake, *served, wrong={"date_modified": "9999-12-31T00:00:00Z"})
    odd_last = {SNAPSHOT_ARTICLES: ["enwiki_namespace_14", "frwiki_namespace_0"]}
    assert discovery.snapshots_to_fetch(client, settings, [SNAPSHOT_ARTICLES]) == odd_last
    serve(fake, *served[::-1], wrong={"version": "7"})
    assert discovery.snapshots_to_fetch(client, settings, [SNAPSHOT_ARTICLES]) == {SNAPSHOT_ARTICLES: wanted[:2]}


def test_hours_that_the_mirror_lacks_are_those_since_it_began_that_the_service_keeps(tmp_path):
    lake, warehouse = Lake(tmp_path), Warehouse(tmp_path, lock_timeout=5.0, clock=Late())
    settings = Settings(data=tmp_path, projects=("enwiki",))

    def lacking(newest=5, now=6):
        found = discovery.lacking_hours(settings, lake.hour(newest), lake.hour(now))
        return [int((hour - lake.hour(0)) / ONE) for hour in found]

    assert lacking() == []
    assert not warehouse.build_path.exists()
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)], "frwiki")], dataset=ARTICLE_CHANGES)
    assert lacking() == [], "frwiki is not mirrored"
    # a snapshot whose boundary lies in hour 1
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 90)]]))
    assert lacking() == [1, 2, 3, 4, 5]
    for hour in (1, 2, 4):
        file = lake.file(hour, [lake.change(hour, "A", hour * 60)])
        warehouse.load_hour(lake.hour(hour), [file], dataset=ARTICLE_CHANGES)
    for state, wanted in ((HourState.MISSING, [3, 5]), (HourState.ABSENT, [5])):
        one = HourStatus(lake.hour(3), "enwiki", 0, state, "Its run failed.")
        warehouse.record_statuses([one], dataset=ARTICLE_CHANGES)
        assert lacking() == wanted
    assert lacking(newest=4) == []
    # an hour whose listing lacked a project is due again
    listing = Layout(tmp_path).batch_list(ARTICLE_CHANGES, lake.hour(3))
    listing.parent.mkdir(parents=True)
    listing.write_bytes(b"[]")
    listed_at = lake.hour(4).timestamp()
    os.utime(listing, (listed_at, listed_at))
    assert (lacking(), lacking(now=7)) == ([3, 5], [3, 5])
    os.utime(listing)
    assert lacking() == [5]
    for hour in (0, 3):  # the first is before the mirror began
        listing = Layout(tmp_path).batch_list(ARTICLE_CHANGES, lake.hour(hour))
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.write_bytes(b"no list")
    assert lacking() == [3, 5]
    assert lacking(newest=60, now=61)[:2] == [14, 15], "the service keeps two days"


def test_archived_snapshots_are_loaded_if_they_are_newer_than_all_loaded_versions(tmp_path, monkeypatch):
    settings, layout = Settings(data=tmp_path, projects=("frwiki", "itwiki", "enwiki")), Layout(tmp_path)
    folders = [layout.snapshot_archive(SNAPSHOT_ARTICLES, f"{one}_namespace_0") for one in settings.projects]
    for folder in folders:  # that of itwiki has no complete download
        folder.mkdir(parents=True)
    write_set(folders[2], "a" * 32, {}, NOW)
    (folders[0] / "frwiki_namespace_0.aaaaaaaa.set.json").write_text("no set")
    build = Warehouse(tmp_path).build_path
    build.parent.mkdir()
    build.touch()
    for others, wanted in (((ONE, 2 * ONE), True), ((ONE, -ONE), False), ((), True)):
        versions = {f"{number}" * 32: NOW - age for number, age in enumerate(others)}
        monkeypatch.setattr(Warehouse, "snapshot_versions", lambda *_, v=versions: {"enwiki_namespace_0": v})
        found, [failure] = discovery.archived_snapshots(SNAPSHOT_ARTICLES, settings)
        assert (found, "frwiki_namespace_0.aaaaaaaa.set.json" in failure) == (["enwiki_namespace_0"] * wanted, True)


def test_archived_hours_are_loaded_if_nothing_of_them_is_missing_or_odd(bench, settings, monkeypatch):
    odd = {"identifier": "frwiki_namespace_0", "version": "7"}
    for hour, records in ((HOUR, []), (HOUR + ONE, [listed("frwiki") | odd]), (HOUR + 2 * ONE, None)):
        path = bench.layout.batch_list(ARTICLE_CHANGES, hour)
        path.parent.mkdir(parents=True)
        path.write_text("no list" if records is None else json.dumps(records))
    bench.warehouse.create()
    monkeypatch.setattr(Warehouse, "lacking_hours", lambda *_: [HOUR + n * ONE for n in range(4)])
    chosen = settings.model_copy(update={"projects": ("enwiki", "frwiki")})
    assert discovery.archived_hours(ARTICLE_CHANGES, chosen) == [HOUR]


@pytest.fixture
def settings(bench, monkeypatch):
    monkeypatch.setattr(runs.processes, "opened", without_history)
    return Settings(data=bench.data, projects=("enwiki",), sandbox=False, first_hour=HOUR)


def test_a_run_has_its_jobs_in_this_order(bench, settings, monkeypatch):
    told = []

    def execute(_here, line, job, tags=None, *, archived=None, partition_key=None):
        rest = (partition_key, archived and archived.name)
        told.append(" | ".join(filter(None, (line, job, *(tags or {}).values(), *rest))))

    monkeypatch.setattr(runs._Here, "execute", execute)
    found = {"archived_hours": [HOUR, HOUR - 30 * ONE], "lacking_hours": [HOUR - ONE, HOUR + 3 * ONE]}
    for name, value in (found | {"archived_snapshots": (["a_0"], ["Unreadable."])}).items():
        monkeypatch.setattr(discovery, name, lambda *_, value=value: value)
    wanted = {SNAPSHOT_ARTICLES: ["dewiki_namespace_0"]}
    report = runs.run(settings, [HOUR, HOUR + ONE], snapshots=wanted, with_lacking=True)
    assert (report.hours, report.failures) == ([HOUR, HOUR + ONE, HOUR + 3 * ONE], ["Unreadable."] * 2)
    runs.publish(settings)
    runs.look_up(settings)
    # each job of a run, of a publication and of lookups: its line, its name, and what else it gets
    assert told == Path(__file__).with_name("jobs.txt").read_text().splitlines()
    monkeypatch.setattr(discovery, "archived_hours", lambda *_: (_ for _ in ()).throw(WarehouseBusyError("Busy.")))
    report = runs.run(settings, [HOUR], refresh_reference=False)
    assert (report.hours, report.failures[2:], report.unavailable) == ([HOUR], ["Busy."], {"warehouse"})


def test_a_password_that_was_refused_is_not_tried_again_and_what_is_there_is_published(bench, settings, monkeypatch):
    bench.serve("enwiki", 1)
    bench.fake.password = "another"
    monkeypatch.setattr(discovery, "archived_hours", lambda *_: [HOUR - ONE])
    said: list[str] = []
    report = runs.run(settings, [HOUR], refresh_reference=True, say=said.append, **bench.resources())
    archived = "Hours 2026-11-01 04:00 to 2026-11-01 04:00 UTC (article_changes), from the archive"
    assert said == ["Reference lists", archived, "Current articles and the published file"]
    assert (report.unavailable, report.unreachable, len(report.failures)) == ({"service"}, False, 2)
    assert len(bench.fake.api.seen("/v1/login")) == 1
    assert bench.warehouse.published_path.exists()


def test_a_warehouse_that_another_process_holds_is_waited_for_once_for_all_hours(bench, settings, caplog):
    hours = [HOUR, HOUR + ONE]
    bench.serve("enwiki", 1)
    bench.serve_next(2)

    class Impatient(ConfiguredWarehouse):
        @property
        def warehouse(self) -> Warehouse:
            return Warehouse(bench.data, lock_timeout=0.1, clock=bench.clock)

    resources = bench.resources() | {"warehouse": Impatient(Settings(data=bench.data))}
    (bench.data / "state").mkdir(exist_ok=True)
    lock = FileLock(bench.data / "state" / "warehouse.lock", thread_local=False)
    with caplog.at_level(logging.INFO, "resources.warehouse"), ThreadPoolExecutor(1) as other:
        other.submit(lock.acquire).result()
        report = runs.run(settings, hours, refresh_reference=False, **resources)
        lock.release()
    assert sum("waiting up to" in record.message for record in caplog.records) == 1
    assert (report.unavailable, report.unreachable) == ({"warehouse"}, False)
    [told] = report.failures
    span = "2026-11-01 05:00 to 2026-11-01 06:00"
    failed = f"2 of 2 hours failed. Data loaded earlier is kept.\n- {span}: Another process has been using"
    assert told.startswith(failed)
    assert runs.run(settings, hours[1:], refresh_reference=False, **bench.resources()).failures == []


def test_a_job_that_fails_before_its_first_step_is_a_failure(bench, settings, monkeypatch):
    monkeypatch.setattr(adapters, "replace", Mock(side_effect=RuntimeError("Not today.")))
    report = runs.publish(settings, **bench.resources())
    assert report.failures == ["The job publish failed before its first step. Dagster's run history contains the run."]


TEXTS = {"No.": True, "entity_changes: No.": False, "entity_changes: Nor this.": False}
FAILED = [dg.Failure(text, metadata={"unavailable": "service", "retryable": may}) for text, may in TEXTS.items()]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (FAILED[:2], ["No."]),
        ((None, FAILED[1]), ["entity_changes: No."]),
        (FAILED[::2], ["article_changes: No.", "entity_changes: Nor this."]),
        ((RuntimeError("Odd."), None), ["article_changes: hourly_batches: RuntimeError: Odd."]),
    ],
)
def test_a_failure_names_its_dataset_unless_all_have_it_and_is_told_once(instance, raised, told):
    def step(dataset, error):
        @dg.op(name=f"hourly_{dataset.archive}")
        def take(context) -> None:
            assert context.run_id == here._runs._run, "another run than the one that an interrupt would cancel"
            if error is not None:
                raise error

        return take

    steps = [step(*both) for both in zip((ARTICLE_CHANGES, ENTITY_CHANGES), raised, strict=True)]

    @dg.job
    def hours():
        for one in steps:
            one()

    here = runs._Here(dg.Definitions(jobs=[hours]), instance, CommandRuns(instance, {"by": "x"}), lambda _: None)
    for _ in range(2):
        here.execute("Hours", "hours")
        here.report.unavailable.clear()
    assert (here.report.failures, here.report.unreachable) == (told, FAILED[0] in raised)
    assert {run.tags["by"] for run in instance.get_runs()} == {"x"}


def test_an_hour_that_was_done_before_took_no_time(bench, settings, instance, monkeypatch):
    monkeypatch.setattr(runs.processes, "opened", lambda _: nullcontext(instance))
    bench.serve("enwiki", 1)
    bench.serve_next(2)
    hours = [HOUR, HOUR + ONE]  # the second has no file
    found = [runs.run(settings, hours, refresh_reference=False, **bench.resources()).seconds for _ in range(2)]
    assert [[*one] for one in found] == [[("article_changes", HOUR, "enwiki_namespace_0")], []]


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
    first, *others = told.pop("snapshots")
    assert (len(others), first.pop("reason") in first.pop("sentence")) == (2, True)
    assert " ".join(f"{name}={value}" for name, value in first.items()) == (
        "identifier=enwiki_namespace_0 form=whole product=snapshot unit_count=1 units_left=None size_bytes=1000000000 "
        "missing_bytes=1000000000 disk_bytes=2000000000 free_bytes=100000000000 fits_quota=True fits_disk=True "
        f"folder=/x/enwiki_namespace_0 version={'f' * 32} file_count=1 missing_file_count=1"
    )
    assert told == {
        "unit_counts": {"snapshot": 2, "chunk": 2}, "missing_bytes": 3 * GB, "disk_bytes": 6 * GB,
        "free_bytes": 50 * GB, "obstacle": None,
    }  # fmt: skip


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
    assert (figures | {"version": "f" * 32}).items() <= made.items()


def test_a_report_names_what_failed_and_what_was_not_begun():
    error = errors.QuotaExceeded("None is left.")
    assert Report(((planned(), (download(1),)),), (), ()).sentence() == ""
    assert Report((), (("enwiki_namespace_0", error),), ()).sentence() == "None is left."
    alone = Report((), (("enwiki_namespace_0", error),), ("dewiki_namespace_0",))
    assert alone.sentence().startswith("1 of 2 snapshots failed.\n- enwiki_namespace_0: None is left.\n")
    failure = {"identifier": "enwiki_namespace_0", "error": "QuotaExceeded", "message": "None is left."}
    assert report_json(alone) == {"snapshots": [], "failures": [failure], "not_begun": ("dewiki_namespace_0",)}
    told = Report(((planned(), (download(1),)),), (("frwiki_namespace_0", error),), ("dewiki_namespace_0",)).sentence()
    failed = "1 of 3 snapshots failed.\n- frwiki_namespace_0: None is left.\n"
    assert told == f"{failed}Downloads that were not started: dewiki_namespace_0."
