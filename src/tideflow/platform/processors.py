"""How many processors this process may use: by its affinity, and by the quota of its cgroups."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def usable_processors() -> int:
    """Return how many processors this process may keep busy, at least 1.

    That is how many it may be scheduled on, or fewer where a cgroup grants it less of their time.
    """
    return max(1, math.ceil(min(schedulable_processors(), quota(Path("/")))))


def schedulable_processors() -> int:
    """Return on how many processors this process may be scheduled."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota(root: Path) -> float:
    """Return how many processors' time the cgroups of this process grant; infinity for any.

    Args:
      root: the folder that holds `proc` and `sys`.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and
    Documentation/scheduler/sched-bwc.rst (cpu.cfs_quota_us).
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return math.inf
    found = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folders = _and_above(root / "sys/fs/cgroup", path)
            grants = (_grant(folder / "cpu.max") for folder in folders)
        elif "cpu" in controllers.split(","):
            folders = _and_above(root / "sys/fs/cgroup/cpu", path)
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            grants = (_grant(*(folder / name for name in names)) for folder in folders)
        else:
            continue
        found = min(found, *grants)
    return found


def _and_above(top: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a cgroup and those above it, which bound it, too."""
    # A container sees its own cgroup as the root, whatever its path is outside.
    folder = top / path.lstrip("/")
    yield folder
    while folder != top:
        folder = folder.parent
        yield folder


def _grant(*files: Path) -> float:
    """Return quota / period, which one file says, or two; infinity where there is no quota."""
    try:
        quota_us, period_us = " ".join(file.read_text() for file in files).split()
        granted = float(quota_us) / float(period_us)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
    return granted if granted > 0 else math.inf
