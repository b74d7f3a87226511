"""The controls of a running sandbox under `/sandbox/`, for tests and people in other processes and other languages.

The requests and their bodies are listed in `docs/sandbox.md`. They need no token: the sandbox listens on loopback only.
A page in a browser is refused: it could be anybody's.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from resources.sandbox.api import administration, answers
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.operations import LOOPBACK_NAMES
from resources.sandbox.api.parameters import decode_json
from resources.sandbox.settings import Moment, check_year
from resources.sandbox.store.exports import newest_hour
from resources.sandbox.store.object_index import oldest_hour

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.requests import Request
    from starlette.responses import Response

    from resources.sandbox.api.middleware import Journal
    from resources.sandbox.api.operations import Service

_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)


@dataclass
class Control:
    """The controls of one sandbox."""

    service: Service
    journal: Journal

    async def answer(self, request: Request) -> Response:
        """Answer a request below `/sandbox/`.

        Raises:
            Refusal: 404 for what there is not, 422 for what cannot be read, 503 when the sandbox is ending.
        """
        if "origin" in request.headers or request.url.hostname not in LOOPBACK_NAMES:
            raise Refusal(403, "Controls are for programs on this machine, not for pages in a browser.")
        content = decode_json(await request.body()) if request.method == "POST" and await request.body() else {}
        try:
            match request.method, request.url.path.removeprefix("/sandbox/"):
                case "GET", "identity":
                    return self._identity()
                case "GET", "hours":
                    return self._hours()
                case method, "faults" if method in ("GET", "POST", "DELETE"):
                    return self._set_faults(method, content)
                case method, "clock" if method in ("GET", "POST"):
                    return self._set_clock(content)
                case method, "snapshots" if method in ("GET", "POST", "DELETE"):
                    return await asyncio.to_thread(self._set_snapshots, method, content)
                case "GET", "requests":
                    return answers.document([list(seen) for seen in self.journal.requests])
                case "DELETE", "requests":
                    self.journal.requests.clear()
                    return answers.no_content()
                case "POST", "limits":
                    per_second = content["per_second"]
                    per_second = None if per_second is None else float(per_second)
                    self.service.rate.set(per_second, int(content.get("burst", 1)))
                    return answers.no_content()
                case method, "accounts" if method in ("GET", "POST"):
                    return self._set_accounts(method, content)
                case "POST", "tokens":
                    return answers.document(administration.spoil_tokens(self.service.accounts, content))
                case method, "admissions" if method in ("GET", "POST", "DELETE"):
                    return self._set_admissions(method, content)
                case "GET", "outbox":
                    return self._outbox()
                case "POST", "stop":
                    self.service.ending.set()
                    self.service.stopped.set()
                    return answers.no_content()
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise Refusal(422, f"The sandbox cannot read this: {error}") from None
        raise Refusal(404)

    def _identity(self) -> Response:
        if self.service.ending.is_set():  # so that no process joins it any more
            raise Refusal(503)
        return answers.document(
            {
                "identity": self.service.settings.identity,
                "pid": os.getpid(),
                "url": self.service.url,
                "object_url": self.service.object_url,
                "realtime_url": self.service.realtime_url,
                "now": self.service.clock.now().isoformat(),
            }
        )

    def _hours(self) -> Response:
        now = self.service.clock.now()
        newest = newest_hour(self.service.world, now)
        oldest = oldest_hour(now)
        return answers.document({"oldest": f"{oldest:%Y-%m-%d/%H}", "newest": f"{newest:%Y-%m-%d/%H}"})

    def _set_faults(self, method: str, content: Any) -> Response:
        if method == "DELETE":
            self.service.faults.clear()
        elif method == "POST":
            for description in content if isinstance(content, list) else [content]:
                self.service.faults.add_from(description)
        return answers.document([fault.as_dict() for fault in self.service.faults.active()])

    def _set_snapshots(self, method: str, content: dict[str, Any]) -> Response:
        everything = {name: area.exports for name, area in self.service.areas.items()}
        if method == "DELETE":
            for exports in everything.values():
                exports.clear()
        elif method == "POST":
            identifier, downloads = content["identifier"], int(content.get("after_downloads", 0))
            # areas share identifiers: without one, the first that has such a snapshot, which is that of articles
            having = [name for name, exports in everything.items() if identifier in exports.identifiers()]
            exports = everything[content.get("area", next(iter(having), ""))]
            exports.export(identifier, after_downloads=downloads, free=bool(content.get("free")))
        answer = []
        for name, exports in everything.items():
            for identifier in exports.identifiers():
                for free in (False, True):
                    if (turn := exports.turn(identifier, free=free)) is not None:
                        started, ended = turn.started.isoformat(), turn.ended.isoformat()
                        told = {"identifier": identifier, "free": free, "started": started, "ended": ended}
                        answer.append(told | ({"area": name} if name else {}))
        return answers.document(answer)

    def _set_accounts(self, method: str, content: dict[str, Any]) -> Response:
        if method == "POST":
            return answers.document(administration.change(self.service.accounts, content))
        return answers.document(administration.listed(self.service.accounts))

    def _set_admissions(self, method: str, content: dict[str, Any]) -> Response:
        accounts = self.service.accounts
        if method == "DELETE":
            accounts.admissions.withdraw()
        elif method == "POST":
            administration.admit(accounts, content)
        return answers.document([{"network": n, "groups": groups} for n, groups in accounts.admissions.all().items()])

    def _outbox(self) -> Response:
        sent = self.service.accounts.outbox()
        keys = ("to", "username", "purpose", "secret")
        return answers.document(
            [{**{key: getattr(mail, key) for key in keys}, "sent_at": mail.sent_at.isoformat()} for mail in sent]
        )

    def _set_clock(self, content: dict[str, Any]) -> Response:
        clock = self.service.clock
        if "set" in content:
            clock.set(_MOMENT.validate_python(content["set"]))
        if "advance_seconds" in content:
            by = timedelta(seconds=float(content["advance_seconds"]))
            check_year(clock.now() + by)
            clock.advance(by)
        if content.get("release"):
            clock.release()
        return answers.document({"now": clock.now().isoformat(), "frozen": clock.frozen})
