"""A service under test, called as a curl user would: the sandbox, or the real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

import requests

SECONDS = 60


@dataclass
class Service:
    """One account at one service.

    `downloads`: whether units of the download quota may be spent. `other`: a further account there, of another group.
    """

    auth_url: str
    base_url: str
    username: str
    password: str = field(repr=False)
    downloads: bool
    session: requests.Session = field(default_factory=requests.Session, repr=False)
    other: Service | None = None

    @cached_property
    def tokens(self) -> dict[str, Any]:
        answer = self.auth("login", username=self.username, password=self.password)
        # no body: a token in a report would be one too many
        assert answer.status_code == 200, f"The login was answered with {answer.status_code}."
        return answer.json()

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens['access_token']}"}

    def auth(self, operation: str, /, **body: Any) -> requests.Response:
        return self.session.post(f"{self.auth_url}/v1/{operation}", json=body, timeout=SECONDS)

    def user(self) -> dict[str, Any]:
        answer = self.session.post(f"{self.auth_url}/v1/get-user", headers=self.bearer, timeout=SECONDS)
        assert answer.status_code == 200
        return answer.json()

    def of_group(self, group: str) -> Service | None:
        """The account here whose highest group this is."""
        return next((one for one in (self, self.other) if one and max(one.user()["groups"]) == group), None)

    def call(self, path: str, method: str = "GET", **options: Any) -> requests.Response:
        headers = {**self.bearer, **options.pop("headers", {})}
        options.setdefault("allow_redirects", False)
        return self.session.request(method, self.base_url + path, headers=headers, timeout=SECONDS, **options)

    def records(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """A list by POST."""
        answer = self.call(path, "POST", json=body)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return answer.json()

    @cached_property
    def snapshots(self) -> list[dict[str, Any]]:
        return self.records("/v2/snapshots")

    def hour(self, back: int = 3) -> datetime:
        """The start of a published hour, by the service's own clock."""
        now = parsedate_to_datetime(self.session.get(f"{self.base_url}/v2/status", timeout=SECONDS).headers["Date"])
        return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=back)
