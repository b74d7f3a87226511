"""The authentication operations under `/v1`: log in, refresh, revoke, the four password operations, and the account.

Source: the service's documentation of authentication. Its answers are terse on purpose: every body that does not bind
gets the same 422, every failed login the same 401.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from resources.sandbox.accounts.users import AccountError, Challenge, RefreshTokenSpentError
from resources.sandbox.api import answers
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.operations import Operation
from resources.sandbox.api.parameters import content_type, form_items

if TYPE_CHECKING:
    from resources.sandbox.accounts.users import Tokens
    from resources.sandbox.api.operations import Call
    from resources.sandbox.settings import QuotaKind

_NOT_SAID = "Internal error, please try again later."
_WRONG = "Incorrect username or password."

_ABSENT = "missing username or password"

_LOGIN = {"username": (1, 255), "password": (1, 255)}
_REFRESH = {"username": (1, 255), "refresh_token": (1, 1 << 20)}
_REVOKE = {"refresh_token": (1, 1 << 20)}
_FORGOT = {"username": (1, 255)}
_CONFIRM = {"username": (1, 255), "password": (1, 255), "confirmation_code": (1, 2048)}
_CHANGE = {"access_token": (1, 1 << 20), "previous_password": (6, 256), "proposed_password": (6, 256)}
_NEW = {"username": (1, 255), "session": (1, 1 << 20), "new_password": (6, 255)}


async def _login(call: Call) -> Response:
    body = await _bind(call, _LOGIN, absent=_ABSENT)
    try:
        outcome = call.service.accounts.login(body["username"], body["password"])
    except AccountError:
        raise Refusal(401, _WRONG) from None
    if isinstance(outcome, Challenge):
        return answers.document({"challenge_name": outcome.name, "session": outcome.session})
    return answers.document(_tokens(outcome))


async def _refresh(call: Call) -> Response:
    body = await _bind(call, _REFRESH)
    try:
        tokens = call.service.accounts.refresh(body["username"], body["refresh_token"])
    except RefreshTokenSpentError as spent:
        raise Refusal(429, str(spent)) from None
    except AccountError:
        raise Refusal(401, "Unauthorized.") from None
    return answers.document(_tokens(tokens))


async def _revoke(call: Call) -> Response:
    body = await _bind(call, _REVOKE)
    try:
        call.service.accounts.revoke(body["refresh_token"])
    except AccountError:
        raise Refusal(401) from None
    return answers.no_content()


async def _forgot_password(call: Call) -> Response:
    body = await _bind(call, _FORGOT)
    try:
        call.service.accounts.forgot_password(body["username"])
    except LookupError as unknown:
        raise Refusal(401, str(unknown.args[0])) from None
    except AccountError:
        raise Refusal(401, _NOT_SAID) from None
    return answers.no_content()


async def _confirm_password(call: Call) -> Response:
    body = await _bind(call, _CONFIRM)
    try:
        call.service.accounts.confirm_password(body["username"], body["confirmation_code"], body["password"])
    except AccountError as refusal:
        raise Refusal(401, str(refusal)) from None
    return answers.no_content()


async def _change_password(call: Call) -> Response:
    body = await _bind(call, _CHANGE)
    try:
        call.service.accounts.change_password(
            body["access_token"], body["previous_password"], body["proposed_password"]
        )
    except AccountError as refusal:
        raise Refusal(401, _WRONG, reason=str(refusal)) from None
    return answers.no_content()


async def _new_password_required(call: Call) -> Response:
    body = await _bind(call, _NEW)
    try:
        tokens = call.service.accounts.answer_challenge(body["username"], body["session"], body["new_password"])
    except AccountError as refusal:
        raise Refusal(401, "Unauthorized.", reason=str(refusal)) from None
    return answers.document({**_tokens(tokens), "session": body["session"]})


async def _get_user(call: Call) -> Response:
    user = call.user
    if user is None or not user.email:
        # A user admitted by address has no account to describe.
        raise Refusal(401)
    kinds: tuple[QuotaKind, ...] = ("ondemand", "snapshot", "chunk", "batch")
    quotas = {kind: call.service.accounts.quotas.of(user, kind) for kind in kinds}
    if quotas["batch"].limit is None:
        # The service counts no batches; they are reported only where the account has a limit of its own for them.
        del quotas["batch"]
    counters = {
        key: value
        for kind, quota in quotas.items()
        for key, value in ((f"{kind}_requests_count", quota.used), (f"{kind}_limit", quota.limit))
    }
    allowed = [
        {"path": operation.path, "method": method}
        for operation in call.service.operations
        if operation.path.startswith("/v2/") and operation.groups and user.group in operation.groups
        for method in operation.methods
    ]
    return answers.document({"groups": user.groups, **counters, "username": user.username, "apis": allowed})


async def _status(_call: Call) -> Response:
    return Response(status_code=200)


async def _health(_call: Call) -> Response:
    return answers.document({"status": "OK"})


async def _key_set(call: Call) -> Response:
    return answers.document(call.service.mint.key_set)


async def _bind(call: Call, limits: dict[str, tuple[int, int]], absent: str | None = None) -> dict[str, str]:
    """The body's text fields, from JSON or a form; anything wrong with them is the same 422, but for `absent` ones (400)."""
    body = await call.request.body()
    content: Any
    try:
        if content_type(call.request) == "application/json":
            content = json.loads(body)
        else:
            content = dict(form_items(call.request, body))
    except (ValueError, RecursionError):
        content = None
    bound = content if isinstance(content, dict) else {}
    is_absent = not body.strip() or (
        isinstance(content, dict) and any(bound.get(name) in {None, ""} for name in limits)
    )
    if absent is not None and is_absent:
        raise Refusal(400, absent)
    for name, (least, most) in limits.items():
        value = bound.get(name)
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise Refusal(422, _NOT_SAID)
    # half a pair of surrogates is valid JSON, and nothing that can be compared or stored
    return {name: bound[name].encode(errors="replace").decode() for name in limits}


def _tokens(tokens: Tokens) -> dict[str, Any]:
    answer: dict[str, Any] = {"id_token": tokens.id_token, "access_token": tokens.access_token}
    if tokens.refresh_token is not None:
        answer["refresh_token"] = tokens.refresh_token
    return {**answer, "expires_in": tokens.expires_in}


def _operation(name: str, handler: Any) -> Operation:
    return Operation(("POST",), f"/v1/{name}", handler, groups=None)


OPERATIONS = (
    _operation("login", _login),
    _operation("token-refresh", _refresh),
    _operation("token-revoke", _revoke),
    _operation("forgot-password", _forgot_password),
    _operation("forgot-password-confirm", _confirm_password),
    _operation("change-password", _change_password),
    _operation("new-password-required", _new_password_required),
    Operation(("POST",), "/v1/get-user", _get_user, groups=(), is_token_in_body=True),
    Operation(("GET",), "/v1/status", _status, groups=None),
    Operation(("GET",), "/v2/status", _status, groups=None),
    Operation(("GET",), "/healthz", _health, groups=None),
    Operation(("GET",), "/pool/.well-known/jwks.json", _key_set, groups=None),
)
