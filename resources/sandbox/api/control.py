"""Control requests under `/sandbox/`, which let other processes change a running sandbox.

`docs/sandbox.md` lists the requests and their bodies. Control requests need no token, because the sandbox listens only
on loopback addresses. Requests from browser pages are refused, because any website could send such requests. The start
options for accounts use the same functions.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyNetwork, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from resources.sandbox.accounts.accounts import Accounts
from resources.sandbox.api import answers
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.middleware import Journal
from resources.sandbox.api.operations import LOOPBACK_NAMES, Service
from resources.sandbox.api.parameters import decode_json
from resources.sandbox.settings import FREE_GROUP, TOP_GROUP, Moment, QuotaKind, check_year
from resources.sandbox.store.exports import newest_hour
from resources.sandbox.store.object_index import oldest_hour

_Model = TypeVar("_Model", bound=BaseModel)
_Groups = Annotated[
    list[Literal["group_1", "group_2", "group_3"]], BeforeValidator(lambda one: [one] if isinstance(one, str) else one)
]
_Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 53)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Quota(_Request):
    """Quota limit and number of counted requests. If `limit` is None, the group limit applies."""

    limit: _Count | None = None
    used: _Count = 0


_QuotaOrLimit = Annotated[_Quota, BeforeValidator(lambda one: one if isinstance(one, dict) else {"limit": one})]


class _Account(_Request):
    username: str = Field(min_length=1)
    groups: _Groups | None = None
    password: str | None = None
    temporary: Annotated[bool, Field(strict=True)] | None = None
    email: str | None = None
    quotas: dict[QuotaKind, _QuotaOrLimit] = {}


class _Admission(_Request):
    network: IPvAnyNetwork
    groups: _Groups | None = None


class _Spoiling(_Request):
    username: str
    revoke: Literal["access", "all"] | None = None
    exhaust: Annotated[bool, Field(strict=True)] | None = None


def change(accounts: Accounts, content: Mapping[str, Any]) -> dict[str, Any]:
    """Create or change an account and return the account. The result includes the password if the password was set."""
    asked = _read(_Account, content)
    username, temporary = asked.username, bool(asked.temporary)
    answer: dict[str, Any] = {}
    password = asked.password or f"Sandbox-{secrets.token_hex(8)}-1"
    if accounts.user(username) is None:
        answer["password"] = password
        groups = asked.groups or (FREE_GROUP,)
        accounts.create(username, password, groups=groups, email=asked.email, temporary=temporary)
    else:
        if asked.email:
            accounts.set_email(username, asked.email)
        if asked.groups is not None:
            accounts.set_groups(username, asked.groups)
        if "password" in asked.model_fields_set or temporary:
            answer["password"] = password
            accounts.set_password(username, password, temporary=temporary)
    for kind, quota in asked.quotas.items():
        accounts.set_quota(username, kind, limit=quota.limit, used=quota.used)
    return {**_described(accounts, username), **answer}


def spoil_tokens(accounts: Accounts, content: Mapping[str, Any]) -> dict[str, int]:
    """Revoke or exhaust the account's tokens and return the number of affected tokens by kind."""
    asked = _read(_Spoiling, content)
    _described(accounts, asked.username)
    match asked.revoke, asked.exhaust:
        case "access", None:
            return {"access_tokens": accounts.revoke_access(asked.username)}
        case "all", None:
            return {"refresh_tokens": accounts.revoke_all(asked.username)}
        case None, True:
            return {"refresh_tokens": accounts.exhaust(asked.username)}
    raise ValueError('send "revoke": "access", "revoke": "all" or "exhaust": true.')


def _read(model: type[_Model], content: Any) -> _Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # the message omits the values, because a value might be a password
        found = [f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors()]
        raise ValueError("; ".join(found)) from None


def _described(accounts: Accounts, username: str) -> dict[str, Any]:
    user = accounts.user(username)
    if user is None:
        raise ValueError(f"there is no account {username!r}; the accounts are {', '.join(accounts.usernames())}.")
    quotas = {kind: accounts.quotas.of(user, kind) for kind in get_args(QuotaKind)}
    return {
        "username": user.username,
        "groups": list(user.groups),
        "temporary": user.is_temporary,
        "quotas": {kind: {"used": quota.used, "limit": quota.limit} for kind, quota in quotas.items()},
    }


_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)


@dataclass
class Control:
    service: Service
    journal: Journal

    async def answer(self, request: Request) -> Response:
        """Handle a request under `/sandbox/`. An invalid request raises a 403, 404 or 422 error."""
        if "origin" in request.headers or request.url.hostname not in LOOPBACK_NAMES:
            raise Refusal(403, "Control requests are accepted only from local programs, not from web pages.")
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
                    accounts = self.service.accounts
                    if method == "POST":
                        return answers.document(change(accounts, content))
                    return answers.document([_described(accounts, name) for name in accounts.usernames()])
                case "POST", "tokens":
                    return answers.document(spoil_tokens(self.service.accounts, content))
                case method, "admissions" if method in ("GET", "POST", "DELETE"):
                    return self._set_admissions(method, content)
                case "GET", "outbox":
                    return self._outbox()
                case "POST", "stop":
                    self.service.ending.set()
                    self.service.stopped.set()
                    return answers.no_content()
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise Refusal(422, f"Invalid control request: {error}") from None
        raise Refusal(404)

    def _identity(self) -> Response:
        if self.service.ending.is_set():  # a stopping sandbox does not accept new processes
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
            self.service.faults.add_all(content if isinstance(content, list) else [content])
        return answers.document([fault.as_dict() for fault in self.service.faults.active()])

    def _set_snapshots(self, method: str, content: dict[str, Any]) -> Response:
        everything = {name: area.exports for name, area in self.service.areas.items()}
        if method == "DELETE":
            for exports in everything.values():
                exports.clear()
        elif method == "POST":
            identifier, downloads = content["identifier"], int(content.get("after_downloads", 0))
            # the same identifier can appear in several areas; the default is the first area, which is articles
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

    def _set_admissions(self, method: str, content: dict[str, Any]) -> Response:
        accounts = self.service.accounts
        if method == "DELETE":
            accounts.admissions.withdraw()
        elif method == "POST":
            asked = _read(_Admission, content)
            accounts.admissions.admit(str(asked.network), asked.groups or (TOP_GROUP,))
        return answers.document([{"network": n, "groups": groups} for n, groups in accounts.admissions.all().items()])

    def _outbox(self) -> Response:
        sent = self.service.accounts.outbox()
        keys = ("to", "username", "purpose", "secret")
        return answers.document(
            [{**{key: getattr(mail, key) for key in keys}, "sent_at": mail.sent_at.isoformat()} for mail in sent]
        )

    def _set_clock(self, content: dict[str, Any]) -> Response:
        clock = self.service.clock
        moment = _MOMENT.validate_python(content["set"]) if "set" in content else None
        by = timedelta(seconds=float(content.get("advance_seconds", 0)))
        check_year((moment or clock.now()) + by)
        if moment:
            clock.set(moment)
        clock.advance(by)
        if content.get("release"):
            clock.release()
        return answers.document({"now": clock.now().isoformat(), "frozen": clock.frozen})
