"""Whether this process shares memory with others, and how much of it at most."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

_MOST_BYTES = 4 << 30
_CGROUPS = Path("/sys/fs/cgroup")


def is_possible() -> bool:
    """Whether this process can share memory with others: on Linux."""
    return hasattr(os, "memfd_create") and sys.platform == "linux"


@functools.lru_cache(typed=True)
def most_shared_bytes(setting: bool | int) -> int:
    """Return how much this process may share by a setting (Settings.shared_memory); 0 for nothing.

    By default that is a quarter of the memory that the process may use, but at most 4 GiB.
    """
    if not setting or not is_possible():
        return 0
    return min(usable_bytes() // 4, _MOST_BYTES) if setting is True else setting << 20


def usable_bytes(memberships: str | None = None, mounted: Path = _CGROUPS) -> int:
    """Return the memory that this process may use: the machine's, or what its control groups allow.

    memberships is what /proc/self/cgroup says; mounted is where the groups are in the file system.
    Source: cgroups(7)
    """
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memberships is None:
        try:
            memberships = Path("/proc/self/cgroup").read_text()
        except OSError:
            return most
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / path.strip("/")
        # A container may see its own group as the root, under a path that only its host knows.
        for one in (group, *group.parents):
            if one == top or top in one.parents:
                most = min(most, _limit_in(one / name) or most)
    return most


def _limit_in(file: Path) -> int | None:
    """Return the limit that a file of a control group says; None where it says none."""
    try:
        word = file.read_text().strip()
    except OSError:
        return None
    return int(word) if word.isdecimal() else None
