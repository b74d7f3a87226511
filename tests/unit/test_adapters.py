"""Settings in, library objects out: units, defaults, the folder that is bound to one service, limits of the machine."""

import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest

from resources import connection, machine, sandbox
from resources.adapters import ConfiguredEngine, ConfiguredLake, ConfiguredWarehouse
from resources.connection import sandbox_settings
from resources.data_folder import OriginError, facts_of, origin_of, ui_lock
from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES, WIKIDATA
from resources.enterprise import Limits, RetryPolicy, Service
from resources.lake import ConversionError, Converter
from resources.remote import RemoteWorkers
from resources.settings import Settings, SettingsError

URL = "http://127.0.0.1:1"


def service(data, url=URL, **more):
    settings = Settings(data=data, projects=("enwiki",), username="u", password="p", sandbox=False, **more)
    settings = settings.model_copy(update={"base_url": url})
    settings.check()
    return connection.service(settings)


def test_the_scope_is_every_namespace_of_every_project_in_the_order_configured():
    settings = Settings(projects=("frwiki", "enwiki"), namespaces=(14, 0))
    assert settings.scope == (("frwiki", 14), ("frwiki", 0), ("enwiki", 14), ("enwiki", 0))
    assert Settings(projects=("enwiki",)).scope == (("enwiki", 0),)
    assert (settings.scope_of(ARTICLE_CHANGES), settings.scope_of(ENTITY_CHANGES)) == (settings.scope, ())
    assert settings.model_copy(update={"wikidata": True}).scope_of(ENTITY_CHANGES) == WIKIDATA


def test_a_data_folder_is_bound_to_the_first_service_it_is_used_with(tmp_path):
    with pytest.raises(SettingsError, match="base_url is not valid"):
        service(tmp_path, "ftp://nowhere")
    connection.service(Settings(data=tmp_path, username="u", password="p", sandbox=False), writes=False)
    assert (origin_of(tmp_path), facts_of(tmp_path)) == (None, {"service": "unknown"})
    made = service(tmp_path, contact="ops@example.org", anonymous=True)
    assert (made.base_url, made.username, made.password) == (URL, "u", "p")
    assert (made.contact, made.anonymous, origin_of(tmp_path)) == ("ops@example.org", True, URL)
    service(tmp_path)
    told = rf"contains data from.*Set WME_DATA to another folder.*If {URL} was a mistake, remove .*service\.json"
    with pytest.raises(OriginError, match=told):
        service(tmp_path, "http://127.0.0.1:2")
    assert origin_of(tmp_path) == URL
    for proof in (tmp_path / "state" / "tokens.json", tmp_path / "archive"):
        proof.mkdir()
        with pytest.raises(OriginError, match=r"restore the previous settings\.$"):
            service(tmp_path, "http://127.0.0.1:2")
        proof.rmdir()


def test_settings_have_the_units_that_their_names_say():
    assert sandbox_settings(Path("d")).state == Path("d/sandbox")
    settings = Settings(data=Path("d"), grace_hours=1.5, workers=3, storage_version="v1.5.0")
    assert ConfiguredLake(settings).grace == timedelta(hours=1, minutes=30)
    assert ConfiguredLake(settings).layout.lake == Path("d/lake")
    warehouse, glance = (getattr(ConfiguredWarehouse(settings), name) for name in ("warehouse", "glance"))
    assert warehouse.published_path == glance.published_path == Path("d/warehouse.duckdb")
    kept = [(one._connector.storage_version, one._connector.lock_timeout) for one in (warehouse, glance)]
    assert kept == [("v1.5.0", 600.0), ("v1.5.0", 5.0)]
    said = []
    engine = ConfiguredEngine(settings).engine(said.append)
    assert (engine.workers, ConfiguredEngine(settings, reporter := Mock()).engine(print).reporter) == (3, reporter)
    with engine.task("x", 1, "B"):
        assert said == ["x: 1 B"]
    with ConfiguredEngine(Settings(threads=2)).converter(ConfiguredLake(Settings())) as converter:
        assert converter.workers == 2
    with ConfiguredEngine(Settings()).converter(ConfiguredLake(Settings(max_record_mb=17))) as converter:
        assert converter.record_bytes_max == 17 << 20
    remote, lake = ConfiguredEngine(Settings(engine="dask://127.0.0.1:1")), ConfiguredLake(Settings(max_record_mb=17))
    for made in (remote.converter(lake), remote.compactor(lake)):
        assert (type(made), made.record_bytes_max) == (RemoteWorkers, 17 << 20)
    html = ConfiguredLake(Settings(bodies=("html",)))
    assert html.bodies_of(ARTICLE_CHANGES) == {"html"}
    assert html.bodies_of(ENTITY_CHANGES) == ENTITY_CHANGES.table.bodies  # WME_BODIES does not name these
    with remote.converter(lake, is_local=True) as converter, ConfiguredEngine(Settings()).compactor(lake) as compactor:
        assert (type(converter), compactor) == (Converter, None)
    with pytest.raises(ConversionError, match=r"^300 MB of memory is too little for 8 workers"):
        ConfiguredEngine(Settings(threads=8, memory_mb=300)).converter(ConfiguredLake(Settings()))


def test_a_service_in_the_sandbox_has_the_contact_and_ends_with_the_pages_and_one_that_does_not_start_is_named(
    tmp_path, monkeypatch
):
    settings, urls = Settings(data=tmp_path, sandbox=True, contact="ops@example.org"), (URL, "http://127.0.0.1:2")
    attach = Mock(return_value=SimpleNamespace(url=URL, realtime_url=urls[1], username="u", password="p"))
    monkeypatch.setattr(sandbox, "attach", attach)
    made = Service(urls[0], *urls, "u", "p", "ops@example.org")
    assert (connection.service(settings, writes=False), origin_of(tmp_path)) == (made, None)
    assert (connection.service(settings), origin_of(tmp_path)) == (
        made,
        f"sandbox {sandbox_settings(tmp_path).identity}",
    )
    assert attach.call_args == call(sandbox_settings(tmp_path), owner=tmp_path / "dagster" / "ui.lock")
    assert ui_lock(Path("d")).is_absolute()
    for kind in (sandbox.SandboxConflictError, sandbox.SandboxStartError, ValueError):
        attach.side_effect = kind("Taken.")
        with pytest.raises(connection.SandboxError, match="Taken"):
            connection.service(settings)


def test_who_cannot_wait_has_a_client_that_does_not(tmp_path):
    settings = Settings(data=tmp_path, username="u", password="p", sandbox=False, min_free_gb=2, requests_per_second=7)
    for seconds, times in ((None, (RetryPolicy().retries, 10.0, 60.0)), (4.0, (0, 2.0, 4.0))):
        with connection.client(settings, seconds) as client:
            retry, limits = client._transport.retry, client._transport.limits
        assert (retry.retries, retry.connect_timeout, retry.read_timeout, retry.requests_per_second) == (*times, 7)
        assert (limits.answer_seconds, limits.keep_free_bytes) == (seconds or Limits().answer_seconds, 2_000_000_000)


def test_memory_follows_the_machine_unless_it_is_set(monkeypatch):
    gib = 1 << 30
    for usable, expected in ((64 * gib, 16 * gib), (2 * gib, gib // 2), (gib // 2, gib // 4)):
        monkeypatch.setattr(machine, "memory_bytes", lambda usable=usable: usable)
        monkeypatch.setattr(machine, "cores", lambda: 200)
        with ConfiguredEngine(Settings()).converter(ConfiguredLake(Settings())) as converter:
            assert converter.memory_bytes == expected
            # as many as fit into it: 96 MiB, and 160 MiB for each
            assert converter.workers == (expected - (96 << 20)) // (160 << 20)
            assert converter.readers > converter.workers
    with ConfiguredEngine(Settings(memory_mb=420)).converter(ConfiguredLake(Settings())) as converter:
        assert (converter.memory_bytes, converter.workers) == (420 << 20, 2)
    monkeypatch.setattr(machine, "cores", lambda: 3)
    with ConfiguredEngine(Settings(memory_mb=9000)).converter(ConfiguredLake(Settings())) as converter:
        assert converter.workers == 3
    monkeypatch.setattr(machine, "memory_bytes", lambda: 300 << 20)
    with pytest.raises(ConversionError, match=r"^150 MB of memory is too little for 1 worker.*Allow at least 256 MB"):
        ConfiguredEngine(Settings()).converter(ConfiguredLake(Settings()))


# --- cores and memory of the machine, less where control groups of either version say so -----------------------------

ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_without_control_groups_the_machine_is_the_limit(tmp_path, monkeypatch):
    assert (machine.cores(tmp_path), machine.memory_bytes(tmp_path)) == (ALL, PHYSICAL)
    assert 1 <= machine.cores() <= ALL
    assert 0 < machine.memory_bytes() <= PHYSICAL
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {ALL}, raising=False)
    assert machine.cores(tmp_path) == 1


#: Control groups of a process, their files, and the cores and memory that they allow.
LIMITS = {
    "version 2 without limits": ("0::/a/b\n", {"a/b/cpu.max": "max 9\n", "a/b/memory.max": "max\n"}, (ALL, PHYSICAL)),
    "the least of a group and those above it": (
        "0::/a/b\n", {"a/cpu.max": "5 10\n", "a/b/memory.max": "6000000\n", "a/memory.max": "5000000\n"}, (1, 5_000_000)
    ),
    "throttled from memory.high on": ("0::/a:b\n", {"a:b/memory.high": "400000000\n"}, (ALL, 400_000_000)),
    "a part of a core is a core": ("0::/\n", {"cpu.max": "150001 100000\n"}, (min(2, ALL), PHYSICAL)),
    "version 1": (
        "4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n0::/\n",
        {"memory/jobs/7/memory.limit_in_bytes": "700000000\n", "memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}
        | {f"cpu,cpuacct/jobs/7/cpu.cfs_{name}_us": "100000\n" for name in ("quota", "period")}, (1, 700_000_000),
    ),
    "in a container, under a path of the host": (
        "4:memory:/docker/0f0f\n3:cpu,cpuacct:/docker/0f0f\n",
        {"memory/memory.limit_in_bytes": "800000000\n", "cpu/cpu.cfs_quota_us": "9\n", "cpu/cpu.cfs_period_us": "9\n"},
        (1, 800_000_000),
    ),
    "both versions": (
        "1:cpu:/x\n0::/y\n", {"unified/y/memory.max": "900000000\n", "cpu/x/cpu.cfs_quota_us": "-1\n"}
        | {"cpu/x/cpu.cfs_period_us": "9\n"}, (ALL, 900_000_000),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "files", "allowed"), LIMITS.values(), ids=LIMITS)
def test_control_groups_limit_what_a_process_may_use(tmp_path, groups, files, allowed):
    files = {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (machine.cores(tmp_path), machine.memory_bytes(tmp_path)) == allowed
