"""Addresses that are admitted without a token, as those of the community's servers are."""

from __future__ import annotations

import ipaddress
import json
import uuid
from typing import TYPE_CHECKING

from resources.sandbox.accounts.users import User

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.sandbox.accounts.database import Database


class Admissions:
    """The admitted address ranges. Safe for threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(self, network: str, groups: Sequence[str] = ("group_3",)) -> None:
        """Let requests without a token in from an address range (`127.0.0.0/8`), as a user of these groups."""
        text = str(ipaddress.ip_network(network))
        self._database.change("REPLACE INTO admissions VALUES (?, ?)", text, json.dumps(list(groups)))

    def all(self) -> dict[str, list[str]]:
        """The address ranges that are admitted, and the groups of each."""
        rows = self._database.rows("SELECT * FROM admissions ORDER BY network")
        return {row["network"]: json.loads(row["groups"]) for row in rows}

    def withdraw(self) -> None:
        """Ask everybody for a token again."""
        self._database.change("DELETE FROM admissions")

    def user(self, address: str) -> User | None:
        """The user that an address is let in as without a token, or None."""
        for row in self._database.rows("SELECT * FROM admissions ORDER BY network"):
            if ipaddress.ip_address(address) in ipaddress.ip_network(row["network"]):
                name = f"anonymous-{row['network']}"
                subject = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
                return User(name, subject, "", tuple(json.loads(row["groups"])))
        return None
