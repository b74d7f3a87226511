"""Authentication operations under `/v1` for logins, tokens, passwords and the current user.

Source: the service's authentication documentation. Errors intentionally reveal little. Every invalid body gets the same
422 response, and every failed login gets the same 401 response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from starlette.responses import Response

from resources.sandbox.accounts.accounts import Accounts
from resources.sandbox.accounts.users import AccountError, Challenge, RefreshTokenSpentError, Tokens, UnknownEmailError
from resources.sandbox.api import answers
from resources.sandbox.api.answers import Refusal
from resources.sandbox.api.operations import Call, Operation
from resources.sandbox.api.parameters import body_fields
from resources.sandbox.settings import QuotaKind

_NOT_SAID = "Internal error, please try again later."
_WRONG = "Incorrect username or password."
_ABSENT = "missing username or password"
_NAME, _TOKEN = (1, 255), (1, 1 << 20)


def _operation(
    name: str,
    limits: dict[str, tuple[int, int]],
    act: Callable[[Accounts, dict[str, str]], Tokens | Challenge | dict[str, Any] | None],
    refuse: Callable[[AccountError], Refusal],
) -> Operation:
    """Declare an account operation. `limits` contains the minimum and maximum length of each field."""

    async def handle(call: Call) -> Response:
        body = await _bind(call, limits, absent=_ABSENT if name == "login" else None)
        try:
            outcome = act(call.service.accounts, body)
        except AccountError as error:
            raise refuse(error) from None
        if isinstance(outcome, Challenge):
            outcome = {"challenge_name": outcome.name, "session": outcome.session}
        if isinstance(outcome, Tokens):
            outcome = _tokens(outcome)
        return answers.no_content() if outcome is None else answers.document(outcome)

    return Operation(("POST",), f"/v1/{name}", handle, groups=None)


def _new_password(accounts: Accounts, body: dict[str, str]) -> dict[str, Any]:
    tokens = accounts.answer_challenge(body["username"], body["session"], body["new_password"])
    return {**_tokens(tokens), "session": body["session"]}


def _tokens(tokens: Tokens) -> dict[str, Any]:
    answer: dict[str, Any] = {"id_token": tokens.id_token, "access_token": tokens.access_token}
    if tokens.refresh_token is not None:
        answer["refresh_token"] = tokens.refresh_token
    return {**answer, "expires_in": tokens.expires_in}


async def _get_user(call: Call) -> Response:
    user = call.user
    if user is None or not user.email:
        # a user who was admitted by IP address has no account
        raise Refusal(401)
    quotas = {kind: call.service.accounts.quotas.of(user, kind) for kind in get_args(QuotaKind)}
    if quotas["batch"].limit is None:
        # the service does not count batches, so report batches only for accounts with a batch limit
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
    """Return the string fields of a JSON or form body.

    If `absent` is given, missing fields get a 400 response with this message. All other errors get a 422 response.
    """
    bound = await body_fields(call.request)
    if absent is not None:
        is_empty = not (await call.request.body()).strip()
        if is_empty or (bound is not None and any(bound.get(name) in (None, "") for name in limits)):
            raise Refusal(400, absent)
    bound = bound or {}
    for name, (least, most) in limits.items():
        value = bound.get(name)
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise Refusal(422, _NOT_SAID)
    # an unpaired surrogate is valid JSON but cannot be compared or stored
    return {name: bound[name].encode(errors="replace").decode() for name in limits}


OPERATIONS = (
    _operation(
        "login",
        {"username": _NAME, "password": _NAME},
        lambda accounts, body: accounts.login(body["username"], body["password"]),
        lambda _: Refusal(401, _WRONG),
    ),
    _operation(
        "token-refresh",
        {"username": _NAME, "refresh_token": _TOKEN},
        lambda accounts, body: accounts.refresh(body["username"], body["refresh_token"]),
        lambda error: (
            Refusal(429, str(error)) if isinstance(error, RefreshTokenSpentError) else Refusal(401, "Unauthorized.")
        ),
    ),
    _operation(
        "token-revoke",
        {"refresh_token": _TOKEN},
        lambda accounts, body: accounts.revoke(body["refresh_token"]),
        lambda _: Refusal(401),
    ),
    _operation(
        "forgot-password",
        {"username": _NAME},
        lambda accounts, body: accounts.forgot_password(body["username"]),
        lambda error: Refusal(401, str(error) if isinstance(error, UnknownEmailError) else _NOT_SAID),
    ),
    _operation(
        "forgot-password-confirm",
        {"username": _NAME, "password": _NAME, "confirmation_code": (1, 2048)},
        lambda accounts, body: accounts.confirm_password(body["username"], body["confirmation_code"], body["password"]),
        lambda error: Refusal(401, str(error)),
    ),
    _operation(
        "change-password",
        {"access_token": _TOKEN, "previous_password": (6, 256), "proposed_password": (6, 256)},
        lambda accounts, body: accounts.change_password(
            body["access_token"], body["previous_password"], body["proposed_password"]
        ),
        lambda error: Refusal(401, _WRONG, reason=str(error)),
    ),
    _operation(
        "new-password-required",
        {"username": _NAME, "session": _TOKEN, "new_password": (6, 255)},
        _new_password,
        lambda error: Refusal(401, "Unauthorized.", reason=str(error)),
    ),
    Operation(("POST",), "/v1/get-user", _get_user, groups=(), is_token_in_body=True),
    Operation(("GET",), "/v1/status", _status, groups=None),
    Operation(("GET",), "/v2/status", _status, groups=None),
    Operation(("GET",), "/healthz", _health, groups=None),
    Operation(("GET",), "/pool/.well-known/jwks.json", _key_set, groups=None),
)
