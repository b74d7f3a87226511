"""Administration of the accounts of a running sandbox: make them, change them, set quotas, admit addresses.

Options at the start and control requests later use the same functions.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, get_args

from resources.sandbox.accounts.quotas import QuotaKind
from resources.sandbox.api.operations import EVERY_GROUP, FREE_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resources.sandbox.accounts.accounts import Accounts


_KNOWN = ("username", "groups", "password", "temporary", "email", "quotas")
#: Those of an address that is admitted, and of the account of the environment.
EVERYTHING = (EVERY_GROUP[-1],)


class UnreadableError(ValueError):
    """The request cannot be read; the message says why. Nothing was changed."""


def listed(accounts: Accounts) -> list[dict[str, Any]]:
    """All accounts, without their passwords."""
    return [_described(accounts, username) for username in accounts.usernames()]


def change(accounts: Accounts, content: Mapping[str, Any]) -> dict[str, Any]:
    """Make an account, or change one; returns it, with the password if one was set.

    Args:
        accounts: All of them.
        content: `username`; `groups`, `password` (None: a new one is made up), `temporary`, `email`,
            `quotas`: by kind the limit, or an object of `limit` (None: the group's own) and `used`.

    Raises:
        UnreadableError: It cannot be read; the message says what. Nothing was changed.
    """
    username, groups, quotas = _read(content)
    password: str | None = content.get("password")
    temporary = content.get("temporary")
    email: str | None = content.get("email")
    known = accounts.user(username) is not None
    answer: dict[str, Any] = {}
    made_up = f"Sandbox-{secrets.token_hex(8)}-1"
    if not known:
        answer["password"] = password = password or made_up
        accounts.create(username, password, groups=groups or (FREE_GROUP,), email=email, temporary=bool(temporary))
    else:
        if email:
            accounts.set_email(username, email)
        if groups is not None:
            accounts.set_groups(username, groups)
        if "password" in content or temporary:
            answer["password"] = password = password or made_up
            accounts.set_password(username, password, temporary=bool(temporary))
    for kind, (limit, used) in quotas.items():
        accounts.set_quota(username, kind, limit=limit, used=used)
    return {**_described(accounts, username), **answer}


def admit(accounts: Accounts, content: Mapping[str, Any]) -> None:
    """Admit a range of addresses without a token.

    Args:
        accounts: Where it is kept.
        content: `network`, for example `127.0.0.0/8`; `groups` (default: those that may do everything).

    Raises:
        UnreadableError: It cannot be read.
    """
    if "network" not in content:
        raise UnreadableError("`network` is missing; write, for example, 127.0.0.0/8.")
    accounts.admissions.admit(content["network"], _groups(content.get("groups")) or EVERYTHING)


def spoil_tokens(accounts: Accounts, content: Mapping[str, Any]) -> dict[str, int]:
    """End tokens of an account before their time; returns how many.

    Args:
        accounts: All of them.
        content: `username`, and `revoke`: `access` or `all`, or `exhaust`: true to use up its refresh tokens.

    Raises:
        UnreadableError: It cannot be read, or there is no such account.
    """
    username = content.get("username")
    if not isinstance(username, str) or accounts.user(username) is None:
        raise UnreadableError(f"there is no account {username!r}; there are {', '.join(accounts.usernames())}.")
    match content.get("revoke"), content.get("exhaust"):
        case "access", None:
            return {"access_tokens": accounts.revoke_access(username)}
        case "all", None:
            return {"refresh_tokens": accounts.revoke_all(username)}
        case None, True:
            return {"refresh_tokens": accounts.exhaust(username)}
    raise UnreadableError('give "revoke": "access", "revoke": "all" or "exhaust": true.')


def _read(content: Mapping[str, Any]) -> tuple[str, list[str] | None, dict[QuotaKind, tuple[int | None, int]]]:
    if not isinstance(content, dict):
        raise UnreadableError("the body must be an object with `username`.")
    if unknown := sorted(set(content) - set(_KNOWN)):
        raise UnreadableError(f"an account has no {', '.join(unknown)}; it has {', '.join(_KNOWN)}.")
    username = content.get("username")
    if not isinstance(username, str) or not username:
        raise UnreadableError("`username` must be a string of at least one character.")
    for key in ("password", "email"):
        if not isinstance(content.get(key), str | None):
            raise UnreadableError(f"`{key}` must be a string.")
    if not isinstance(content.get("temporary"), bool | None):
        raise UnreadableError("`temporary` must be true or false.")
    groups = _groups(content.get("groups"))
    quotas = content.get("quotas", {})
    if not isinstance(quotas, dict):
        raise UnreadableError("`quotas` must be an object: a limit by kind.")
    return username, groups, dict(_quotas(quotas))


def _groups(given: Any) -> list[str] | None:
    if given is None:
        return None
    groups = list(given) if isinstance(given, list | tuple) else [given]
    if unknown := [group for group in groups if group not in EVERY_GROUP]:
        raise UnreadableError(f"there is no group {unknown[0]!r}; there are {', '.join(EVERY_GROUP)}.")
    return groups


def _quotas(quotas: Mapping[str, Any]) -> Iterable[tuple[QuotaKind, tuple[int | None, int]]]:
    for kind in get_args(QuotaKind):
        if kind not in quotas:
            continue
        given = quotas[kind] if isinstance(quotas[kind], dict) else {"limit": quotas[kind]}
        limit, used = given.get("limit"), given.get("used", 0)
        if not _is_count(used) or not (limit is None or _is_count(limit)) or set(given) - {"limit", "used"}:
            raise UnreadableError(f"the quota of {kind} must be a number, or an object of `limit` and `used`.")
        yield kind, (limit, used)
    if unknown := sorted(set(quotas) - set(get_args(QuotaKind))):
        raise UnreadableError(f"there is no quota of {unknown[0]!r}; there are {', '.join(get_args(QuotaKind))}.")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


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
