"""The account and its tokens, in sentences, and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resources.formatting import counted, moment_text

if TYPE_CHECKING:
    from datetime import datetime

    from resources.enterprise import TokenStatus
    from resources.enterprise.models import User


def tokens_text(status: TokenStatus, now: datetime) -> str:
    """The state of the tokens in a sentence."""
    asked = " The service asks for a new password: run `wme auth new-password`." if status.new_password_required else ""
    if not status.logged_in:
        return f"Not logged in as {status.username or 'anybody'}; the first request logs in.{asked}"
    uses = status.refreshes_left + status.refreshes_used
    age = (
        ""
        if status.refresh_obtained_at is None
        else f", {counted((now - status.refresh_obtained_at).days, 'day')} old,"
    )
    return (
        f"Logged in as {status.username}. The access token lasts until {_until(status.access_expires_at)}, the refresh "
        f"token{age} until {_until(status.refresh_expires_at)}; {status.refreshes_left} of its {counted(uses, 'use')} "
        f"are left.{asked}"
    )


def account_text(user: User) -> str:
    """The rights and the remaining quota of the account, in a sentence."""
    groups = ", ".join(user.groups or ()) or "none"
    left = [
        f"{product} {'unlimited' if quota.left is None else f'{quota.left:,} of {quota.limit:,}'} ({quota.used:,} used)"
        for product, quota in sorted(user.quotas.items())
    ]
    return f"Groups: {groups}. Units left: {'; '.join(left) or 'none reported'}. Hourly files cost none."


def account_json(status: TokenStatus, user: User | None, now: datetime) -> dict[str, Any]:
    """The same for machines; null for what is not known or has no limit."""
    obtained = status.refresh_obtained_at
    refresh = {"obtained_at": obtained, "age_seconds": obtained and round((now - obtained).total_seconds())}
    uses = {"uses": status.refreshes_used, "uses_left": status.refreshes_left}
    quotas = {} if user is None else dict(sorted(user.quotas.items()))
    return {
        **{name: getattr(status, name) for name in ("auth_url", "username", "logged_in", "new_password_required")},
        "access_token": _expiry(status.access_expires_at, now),
        "refresh_token": refresh | _expiry(status.refresh_expires_at, now) | uses,
        "groups": user and (user.groups or ()),
        "quotas": user and {name: {"used": q.used, "limit": q.limit, "left": q.left} for name, q in quotas.items()},
    }


def _expiry(moment: datetime | None, now: datetime) -> dict[str, Any]:
    return {"expires_at": moment, "seconds_left": moment and round((moment - now).total_seconds())}


def _until(value: datetime | None) -> str:
    return "an unknown moment" if value is None else f"{moment_text(value)} UTC"
