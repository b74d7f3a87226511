"""The account and its tokens, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.formatting import counted, moment_text

if TYPE_CHECKING:
    from datetime import datetime

    from resources.enterprise import TokenStatus
    from resources.enterprise.models import User


def tokens_text(status: TokenStatus) -> str:
    """The state of the tokens in a sentence."""
    if not status.logged_in:
        return f"Not logged in as {status.username or 'anybody'}; the first request logs in."
    uses = status.refreshes_left + status.refreshes_used
    return (
        f"Logged in as {status.username}. The access token lasts until {_until(status.access_expires_at)}, the refresh "
        f"token until {_until(status.refresh_expires_at)}; {status.refreshes_left} of its {counted(uses, 'use')} are left."
    )


def account_text(user: User) -> str:
    """What the account may do, and what it has used of it, in a sentence."""
    groups = ", ".join(user.groups or ()) or "none"
    used = [
        f"{product} {quota.used:,} of {'unlimited' if quota.limit is None else f'{quota.limit:,}'}"
        for product, quota in sorted(user.quotas.items())
    ]
    return f"Groups: {groups}. Units used: {'; '.join(used) or 'none reported'}. Hourly files cost none."


def _until(value: datetime | None) -> str:
    return "an unknown moment" if value is None else f"{moment_text(value)} UTC"
