"""What a process may use: cores and memory of the machine, less where control groups of either version say so."""

import os

import pytest

from resources import machine

ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_without_control_groups_the_machine_is_the_limit(tmp_path):
    assert machine.cores(tmp_path) == ALL
    assert machine.memory_bytes(tmp_path) == PHYSICAL


def test_limits_of_this_machine_are_within_it():
    assert 1 <= machine.cores() <= ALL
    assert 0 < machine.memory_bytes() <= PHYSICAL


#: Control groups of a process, their files, and the cores and memory that they allow.
LIMITS = {
    "version 2 without limits": (
        "0::/system.slice/mirror.service\n",
        {"system.slice/mirror.service/cpu.max": "max 100000\n", "system.slice/mirror.service/memory.max": "max\n"},
        (ALL, PHYSICAL),
    ),
    "the least of a group and those above it": (
        "0::/a/b\n",
        {"a/cpu.max": "50000 100000\n", "a/b/memory.max": "600000000\n", "a/memory.max": "500000000\n"},
        (1, 500_000_000),
    ),
    "throttled from memory.high on": ("0::/a\n", {"a/memory.high": "400000000\n"}, (ALL, 400_000_000)),
    "a part of a core is a core": ("0::/\n", {"cpu.max": "150001 100000\n"}, (min(2, ALL), PHYSICAL)),
    "version 1": (
        "4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n0::/\n",
        {"memory/jobs/7/memory.limit_in_bytes": "700000000\n"}
        | {"memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}
        | {f"cpu,cpuacct/jobs/7/cpu.cfs_{name}_us": "100000\n" for name in ("quota", "period")},
        (1, 700_000_000),
    ),
    "in a container, under a path of the host": (
        "4:memory:/docker/0f0f\n3:cpu:/docker/0f0f\n",
        {"memory/memory.limit_in_bytes": "800000000\n"}
        | {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
        (ALL, 800_000_000),
    ),
    "both versions": ("1:cpu:/x\n0::/y\n", {"unified/y/memory.max": "900000000\n"}, (ALL, 900_000_000)),
}


@pytest.mark.parametrize(("groups", "files", "allowed"), LIMITS.values(), ids=LIMITS)
def test_control_groups_limit_what_a_process_may_use(tmp_path, groups, files, allowed):
    files = {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (machine.cores(tmp_path), machine.memory_bytes(tmp_path)) == allowed
