"""What a sandbox starts with: the accounts of the command line and of the environment, and the hour of its snapshots."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from resources.sandbox.api import administration
from resources.sandbox.files import read_state, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from resources.sandbox.accounts.accounts import Accounts
    from resources.sandbox.options import Options


#: Before the first start: exports have ended by then, and the three newest hours follow them.
_SNAPSHOTS_BEFORE = timedelta(hours=3)


def snapshot_hour(state: Path, now: datetime) -> int:
    """Return the hour of the day (UTC) in which a folder's snapshots are exported, which is chosen at its first start."""
    state.mkdir(parents=True, exist_ok=True)
    kept = state / "snapshot-hour.json"
    hour = read_state(kept).get("hour") if kept.exists() else None
    if not isinstance(hour, int):
        hour = (now - _SNAPSHOTS_BEFORE).astimezone(UTC).hour
        write_private(kept, json.dumps({"hour": hour}).encode())
    return hour % 24


def provide(accounts: Accounts, options: Options, environ: Mapping[str, str]) -> list[str]:
    """Make the accounts of the command line and of the environment; returns a line about each.

    `WME_USERNAME` and `WME_PASSWORD`, where both are set, are the name and the password of an account that may do
    everything: a client that reads them works unchanged. The password is kept as a digest and shown nowhere.
    """
    lines = []
    username, password = environ.get("WME_USERNAME", "").strip(), environ.get("WME_PASSWORD", "").strip()
    if username and password:
        # some clients send the name in lower case, as the service's user pool keeps it
        for name in {username, username.lower()}:
            administration.change(
                accounts, {"username": name, "password": password, "groups": administration.EVERYTHING}
            )
        lines.append(f"Account: {username}, with the password of WME_PASSWORD.")
    folder = options.settings.state / "accounts"
    for account in options.accounts:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{account.name}.json"
        # the password of the start before, where there was one
        kept = read_state(path, "password")["password"] if path.exists() else None
        wanted = {"username": account.name, "groups": [account.group], "temporary": account.temporary}
        made = administration.change(accounts, {**wanted, "password": kept})
        write_private(path, json.dumps({"username": account.name, "password": made["password"]}).encode())
        kind = "temporary password" if account.temporary else "password"
        lines.append(f"Account: {account.name} ({account.group}), {kind} in {path}.")
    for quota in options.quotas:
        administration.change(accounts, {"username": quota.name, "quotas": {quota.kind: quota.limit}})
    for network, group in options.admitted:
        accounts.admissions.admit(network, [group])
        lines.append(f"Admitted without a token: {network} ({group}).")
    return lines
