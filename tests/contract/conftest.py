"""The service under test, called as a curl user would, and the summary of the declared choices.

Without TEST_LIVE_USERNAME it is a sandbox of this process; `python -m tests.contract` sets it.
"""

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

import pytest
import requests

from resources.sandbox import Settings, running
from resources.sandbox.files import read_yaml

FREE, PASSWORD = "free", "Free-account-1"
NOW = datetime(2025, 3, 9, 7, 30, tzinfo=UTC)
#: The choices of the sandbox where the service's texts are silent or disagree; `docs/assumptions.md` lists them.
CHOICES: dict[str, dict[str, str]] = read_yaml("choices.yaml")
#: By the name of a choice: how it ended, in a word.
VERDICTS: dict[str, str] = {}
SECONDS = 60


@dataclass
class Service:
    """An account at a service and another of another group. `downloads`: the download quota may be spent."""

    auth_url: str
    base_url: str
    username: str
    password: str = field(repr=False)
    downloads: bool
    session: requests.Session = field(default_factory=requests.Session, repr=False)
    other: Any = None

    @cached_property
    def tokens(self):
        answer = self.auth("login", username=self.username, password=self.password)
        # no body: a token in a report would be one too many
        assert answer.status_code == 200, f"The login was answered with {answer.status_code}."
        return answer.json()

    @property
    def bearer(self):
        return {"Authorization": f"Bearer {self.tokens['access_token']}"}

    def auth(self, operation, /, **body):
        return self.session.post(f"{self.auth_url}/v1/{operation}", json=body, timeout=SECONDS)

    def user(self):
        answer = self.session.post(f"{self.auth_url}/v1/get-user", headers=self.bearer, timeout=SECONDS)
        assert answer.status_code == 200
        return answer.json()

    def of_group(self, group):
        """The account here whose highest group this is."""
        return next((one for one in (self, self.other) if one and max(one.user()["groups"]) == group), None)

    def call(self, path, method="GET", **options):
        headers = {**self.bearer, **options.pop("headers", {})}
        options.setdefault("allow_redirects", False)
        return self.session.request(method, self.base_url + path, headers=headers, timeout=SECONDS, **options)

    def records(self, path, **body):
        """A list by POST."""
        answer = self.call(path, "POST", json=body)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return answer.json()

    @cached_property
    def snapshots(self):
        return self.records("/v2/snapshots")

    def hour(self, back=3):
        """The start of a published hour, by the service's own clock."""
        now = parsedate_to_datetime(self.session.get(f"{self.base_url}/v2/status", timeout=SECONDS).headers["Date"])
        return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=back)


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    if "TEST_LIVE_USERNAME" in os.environ:
        names = ("auth_url", "base_url", "username", "password")
        given = {name: os.environ[f"TEST_LIVE_{name.upper()}"] for name in names}
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


def pytest_terminal_summary(terminalreporter):
    if not VERDICTS:
        return
    terminalreporter.section("declared choices")
    for name, choice in CHOICES.items():
        verdict, _, reason = VERDICTS.get(name, f"not tried ({choice.get('untried')})").partition(" (")
        terminalreporter.line(f"{verdict:<10} {name}: {choice['statement']}{reason and f' ({reason}'}")
    counted = [sum(verdict.startswith(word) for verdict in VERDICTS.values()) for word in ("confirmed", "refuted")]
    terminalreporter.line(f"{counted[0]} confirmed, {counted[1]} refuted, {len(CHOICES) - sum(counted)} not tried")
