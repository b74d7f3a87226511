"""The service under test, and the summary of the declared choices.

Without TEST_LIVE_USERNAME it is a sandbox of this process; `python -m tests.contract` sets it.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import requests

from resources.sandbox import Settings, running
from resources.sandbox.files import read_yaml
from tests.contract.service import Service

FREE, PASSWORD = "free", "Free-account-1"
NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
#: The choices of the sandbox where the service's texts are silent or disagree; `docs/assumptions.md` lists them.
CHOICES: dict[str, dict[str, str]] = read_yaml("choices.yaml")
#: By the name of a choice: how it ended, in a word.
VERDICTS: dict[str, str] = {}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    if "TEST_LIVE_USERNAME" in os.environ:
        given = {
            name: os.environ[f"TEST_LIVE_{name.upper()}"] for name in ("auth_url", "base_url", "username", "password")
        }
        service = Service(**given, downloads=os.environ["TEST_LIVE_DOWNLOADS"] == "1")
        with service.session:
            yield service
        return
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 5, "body_bytes": 300, "entities": 10}
    state = tmp_path_factory.mktemp("contract")
    with running(Settings(state=state, now=NOW, chunk_bytes=400_000, **small)) as sandbox:
        # its own account is of the group that may do everything
        sandbox.accounts.create(FREE, PASSWORD, groups=("group_1",))
        with requests.Session() as session:
            # loopback needs no proxy, and a machine may have one configured
            session.trust_env = False
            at = {"auth_url": sandbox.url, "base_url": sandbox.url, "downloads": True, "session": session}
            free = Service(username=FREE, password=PASSWORD, **at)
            yield Service(username=sandbox.username, password=sandbox.password, other=free, **at)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not VERDICTS:
        return
    terminalreporter.section("declared choices")
    for name, choice in CHOICES.items():
        verdict, _, reason = VERDICTS.get(name, f"not tried ({choice.get('untried')})").partition(" (")
        terminalreporter.line(f"{verdict:<10} {name}: {choice['statement']}{reason and f' ({reason}'}")
    counted = [sum(verdict.startswith(word) for verdict in VERDICTS.values()) for word in ("confirmed", "refuted")]
    terminalreporter.line(f"{counted[0]} confirmed, {counted[1]} refuted, {len(CHOICES) - sum(counted)} not tried")
