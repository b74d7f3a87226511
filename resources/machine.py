"""Cores and memory available to this process, within the limits of the system and the control groups.

Each call reads files in `/proc` and `/sys`. Results are not cached.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
#: Mount point of cgroup v1 controllers and of the unified cgroup v2 hierarchy. If version 1 is in use, the unified
#: hierarchy is in the `unified` subfolder.
_MOUNTS = Path("sys/fs/cgroup")
#: Cgroup v1 represents "no limit" as the largest number of memory pages.
_NO_LIMIT = 1 << 60


def cores(root: Path = _ROOT) -> int:
    """Return the number of usable cores, according to the process's affinity and control group quotas (rounded up)."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _folders(root, "cpu"):
        # a quota in microseconds per period, and the period, which are separate files in version 1
        names = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        limit = [number for name in names for number in _numbers(folder / name)]
        if len(limit) == 2 and min(limit) > 0:
            allowed = min(allowed, math.ceil(limit[0] / limit[1]))
    return max(1, allowed)


def memory_bytes(root: Path = _ROOT) -> int:
    """Return the bytes of memory that the machine and the control groups allow this process and its siblings to use."""
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
    """Yield this process's control groups and their visible ancestors.

    In a container, the paths may be the host's paths, which are not mounted. The mount point then contains the limits.
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


def _numbers(path: Path) -> list[int]:
    """Return the numbers in a file, with 0 for words such as `max`. The result is empty if the file is missing."""
    try:
        words = path.read_text().split()
    except OSError:
        return []
    return [int(word) if word.lstrip("-").isdecimal() else 0 for word in words]
