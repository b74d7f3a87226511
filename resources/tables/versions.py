"""The version of a table's declaration, which identifies lake files together with their archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resources.tables.declaration import Table

#: Fingerprints of the tables at declaration number 1, when declarations were numbered, and of later ones whose files
#: are loaded alike. So files of that time are found again.
_FIRST = frozenset({
    "3c20494b584653cb0f541f06564d4994f173f70ad38dfde791c56ec60971527b",  # article_changes
    "5db9eb0e47139e6efc556deb3213cf1cfc48efa7d045c1251f73ceb977f93d64",  # snapshot_articles
    "f6245de24ce81e1691958d92cb4d5d4a8985c4a175756bcd75792239d6d1a544",  # rejects
    # rejects, whose hour may be null: loads take it from the ledger
    "9ceb2cc019c147037d0765271938bd6e50ff4866f45c3dd31cb0e17e1520b91b",
    "e43b89c1820e4c5d305fcb1ca1220dbc460620283f4e3ca56803836dc3a06eda",  # codes
    "1acc9690859a1feed86f4bd425379e9f23385a92475f603e7850cde1108d010d",  # languages
    "7dafed225671158848e285ac73c669e5195fd8d180e9837eaceb5f50bfa16b46",  # projects
    "64b9f2b377e14e3f10dc3f6d7c6e224ad4b97b6737b91e53ae15e6060eec3822",  # namespaces
})  # fmt: skip


def version_of(*tables: Table) -> int | str:
    """Return a version of these tables. It changes with their declarations, but not with descriptions."""
    found = [table.fingerprint for table in tables]
    return 1 if _FIRST.issuperset(found) else ".".join(found)
