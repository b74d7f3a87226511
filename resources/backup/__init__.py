"""Backups of a data folder: each a folder of plain files, with hard links to the backup before it for what did not change.

Belongs here: copying, linking and verifying files, and what makes a backup complete. Does not belong here: what a mirror consists of.
"""

from resources.backup.copying import Source, walk
from resources.backup.errors import BackupDiskFullError, BackupError
from resources.backup.restoring import Restored, check, restore, restoring
from resources.backup.store import Backup, completed, find
from resources.backup.taking import Plan, Taken, plan, remove_older, take

__all__ = [
    "Backup",
    "BackupDiskFullError",
    "BackupError",
    "Plan",
    "Restored",
    "Source",
    "Taken",
    "check",
    "completed",
    "find",
    "plan",
    "remove_older",
    "restore",
    "restoring",
    "take",
    "walk",
]
