"""A sandbox, and clients and mirrors of it, that tests of several parts start from."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.automation import discovery, sensors
from resources import adapters
from resources.enterprise import EnterpriseClient, Limits, RetryPolicy, Service
from resources.sandbox import Sandbox, Settings, running
from tests.builds import OpenWarehouse, close_all, lay
from tests.integration.daemon import PASSWORD, QUICK, Daemon, instance_in_memory, new_account, settings_of
from tests.integration.mirror import PROJECTS, Mirror

#: The sandbox's clock stands still here. After the first partition of the hourly assets, and past for every machine.
NOW = datetime(2026, 1, 5, 7, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def _shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    few = {"projects": PROJECTS, "changes_per_hour": 60, "body_bytes": 2000}
    with running(Settings(state=tmp_path_factory.mktemp("sandbox"), now=NOW, **few)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(_shared_sandbox: Sandbox) -> Iterator[Sandbox]:
    """The session's sandbox with a small world whose clock is at NOW; what a test sets is taken back after it."""
    _shared_sandbox.clock.set(NOW)
    _shared_sandbox.requests.clear()
    yield _shared_sandbox
    _shared_sandbox.faults.clear()
    _shared_sandbox.rate.set(None)
    _shared_sandbox.exports.clear()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture
def account(sandbox: Sandbox) -> str:
    """A user of its own for each test, so that nothing it does to its account reaches another."""
    return new_account(sandbox)


@pytest.fixture
def make_client(sandbox: Sandbox, account: str, tmp_path: Path) -> Iterator[Callable[..., EnterpriseClient]]:
    """Clients that share one state folder; keywords change the limits, the retries or the service."""
    with ExitStack() as opened:

        def make(*, limits: Limits | None = None, retry: RetryPolicy = QUICK, **changes: Any) -> EnterpriseClient:
            url = sandbox.url
            fields = {"auth_url": url, "base_url": url, "realtime_url": url, "username": account, "password": PASSWORD}
            own = {"clock": sandbox.clock.now, "retry": retry, "limits": limits}
            return opened.enter_context(EnterpriseClient(Service(**fields | changes), tmp_path / "state", **own))

        yield make


@pytest.fixture
def client(make_client: Callable[..., EnterpriseClient]) -> EnterpriseClient:
    return make_client()


@pytest.fixture
def mirror(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A mirror of the shared sandbox with an empty data folder and an account of its own that may do everything."""
    # the environment has another password: everything comes from the settings
    monkeypatch.setenv("WME_PASSWORD", "not the account's")
    with closing(Mirror(sandbox, tmp_path / "data")) as made:
        yield made


@pytest.fixture(scope="session")
def _present(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    options = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 4, "body_bytes": 200, "stream_rate": 0}
    with running(Settings(state=tmp_path_factory.mktemp("present"), **options)) as sandbox:
        yield sandbox


@pytest.fixture
def service(_present: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox on the real clock, which is that of schedules and sensors; what a test sets is taken back."""
    # a busy machine may need longer than the daemon lets an evaluation last
    monkeypatch.setattr(sensors, "_ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(discovery, "ASKING_SECONDS", 120.0)
    yield _present
    _present.faults.clear()
    _present.exports.clear()


@pytest.fixture
def daemon(service: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """The daemon of an empty data folder, with an account of its own at the service."""
    monkeypatch.setattr(adapters, "Warehouse", OpenWarehouse)
    with instance_in_memory() as instance:
        yield Daemon(service, settings_of(service, lay(tmp_path / "data")), instance)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Lets time pass for the sensors: `later(by)`, from the real time."""

    def go(by: timedelta) -> None:
        class Moved(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                return datetime.now(tz) + by

        monkeypatch.setattr(sensors, "datetime", Moved)

    return go
