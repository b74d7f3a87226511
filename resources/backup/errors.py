"""What can go wrong with a backup, each as a sentence: what happened, what was kept, what to do."""

from __future__ import annotations

from resources.errors import DiskFullError, MirrorError


class BackupError(MirrorError):
    """A backup could not be taken, found, or restored."""


class BackupDiskFullError(BackupError, DiskFullError):
    """There is no room where files are copied to."""
