"""Cores and memory available to this process, within the limits of the system and its control groups.

Each call reads files of `/proc` and `/sys`; results are not cached.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
#: Mount point of the controllers of version 1 and of the unified hierarchy of version 2; if version 1 is in use, the
#: latter is `unified`.
_MOUNTS = Path("sys/fs/cgroup")
#: Version 1 represents "no limit" by the largest number of pages.
_NO_LIMIT = 1 << 60


def cores(root: Path = _ROOT) -> int:
    """Return the cores that this process may use: its affinity, and the quota of its control groups, rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [
        quota / period
        for folder in _folders(root, "cpu")
        for quota, period in (_quota(folder),)
        if quota > 0 and period > 0
    ]
    return max(1, min([allowed, *map(math.ceil, quotas)]))


def memory_bytes(root: Path = _ROOT) -> int:
    """Return the bytes of memory that this process and its siblings may use, by the machine or the control groups."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        limit
        for folder in _folders(root, "memory")
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        for limit in _numbers(folder / name)[:1]
        if 0 < limit < _NO_LIMIT
    ]
    return min([physical, *limits])


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the control groups of this process and their visible ancestors.

    In a container, the paths may be those of the host, which are not mounted; the limits are then in the mount itself.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _number, names, path = line.split(":", 2)
        if not names:
            mounts = (root / _MOUNTS, root / _MOUNTS / "unified")
        elif controller in names.split(","):
            mounts = (root / _MOUNTS / controller, root / _MOUNTS / names)
        else:
            continue
        for mount in dict.fromkeys(mounts):
            inner = mount / path.lstrip("/")
            yield from (one for one in (inner, *inner.parents) if one == mount or mount in one.parents)


def _quota(folder: Path) -> tuple[int, int]:
    """Return microseconds of processor time per period, and the length of the period; 0 without a quota."""
    if found := _numbers(folder / "cpu.max"):
        return (found[0], found[1]) if len(found) > 1 else (0, 0)
    quota, period = _numbers(folder / "cpu.cfs_quota_us"), _numbers(folder / "cpu.cfs_period_us")
    return (quota[0], period[0]) if quota and period else (0, 0)


def _numbers(path: Path) -> list[int]:
    """Return the numbers of a file, 0 for a word such as `max`; empty if the file is missing."""
    try:
        words = path.read_text().split()
    except OSError:
        return []
    return [int(word) if word.lstrip("-").isdecimal() else 0 for word in words]
