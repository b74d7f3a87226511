"""Administration of the accounts of a running sandbox: make them, change them, set quotas, admit addresses.

Options at the start and control requests later use the same functions.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyNetwork, ValidationError

from resources.sandbox.settings import FREE_GROUP, TOP_GROUP, QuotaKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resources.sandbox.accounts.accounts import Accounts

_Model = TypeVar("_Model", bound=BaseModel)
_Groups = Annotated[
    list[Literal["group_1", "group_2", "group_3"]], BeforeValidator(lambda one: [one] if isinstance(one, str) else one)
]
_Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 53)]


class UnreadableError(ValueError):
    """The request cannot be read; the message says why. Nothing was changed."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Quota(_Request):
    """The limit of a kind (None: the group's own) and the requests counted."""

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


def listed(accounts: Accounts) -> list[dict[str, Any]]:
    """Return all accounts, without their passwords."""
    return [_described(accounts, username) for username in accounts.usernames()]


def change(accounts: Accounts, content: Mapping[str, Any]) -> dict[str, Any]:
    """Make an account, or change one; return it, with the password if one was set.

    Args:
        accounts: All of them.
        content: `username`; `groups`, `password` (None: a new one is made up), `temporary`, `email`,
            `quotas`: by kind the limit, or an object of `limit` (None: the group's own) and `used`.

    Raises:
        UnreadableError: It cannot be read; the message says what. Nothing was changed.
    """
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


def admit(accounts: Accounts, content: Mapping[str, Any]) -> None:
    """Admit a range of addresses without a token.

    Args:
        accounts: All of them.
        content: `network`, for example `127.0.0.0/8`; `groups` (default: those that may do everything).

    Raises:
        UnreadableError: It cannot be read.
    """
    asked = _read(_Admission, content)
    accounts.admissions.admit(str(asked.network), asked.groups or (TOP_GROUP,))


def spoil_tokens(accounts: Accounts, content: Mapping[str, Any]) -> dict[str, int]:
    """End tokens of an account before their time; return how many.

    Args:
        accounts: All of them.
        content: `username`, and `revoke`: `access` or `all`, or `exhaust`: true to use up its refresh tokens.

    Raises:
        UnreadableError: It cannot be read, or there is no such account.
    """
    asked = _read(_Spoiling, content)
    _described(accounts, asked.username)
    match asked.revoke, asked.exhaust:
        case "access", None:
            return {"access_tokens": accounts.revoke_access(asked.username)}
        case "all", None:
            return {"refresh_tokens": accounts.revoke_all(asked.username)}
        case None, True:
            return {"refresh_tokens": accounts.exhaust(asked.username)}
    raise UnreadableError('give "revoke": "access", "revoke": "all" or "exhaust": true.')


def _read(model: type[_Model], content: Any) -> _Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # the values stay out of the message: a password may be among them
        found = [f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors()]
        raise UnreadableError("; ".join(found)) from None


def _described(accounts: Accounts, username: str) -> dict[str, Any]:
    user = accounts.user(username)
    if user is None:
        raise UnreadableError(f"there is no account {username!r}; there are {', '.join(accounts.usernames())}.")
    quotas = {kind: accounts.quotas.of(user, kind) for kind in get_args(QuotaKind)}
    return {
        "username": user.username,
        "groups": list(user.groups),
        "temporary": accounts.is_temporary(username),
        "quotas": {kind: {"used": quota.used, "limit": quota.limit} for kind, quota in quotas.items()},
    }
