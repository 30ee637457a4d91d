"""How much memory the process of a server may hold (Settings.memory)."""

from __future__ import annotations

import resource
from pathlib import Path

from tideflow.runtime.accelerator import may_have_gpu
from tideflow.transport.h2.shared_memory_limit import usable_bytes

# Of what large tensors are made of, what nobody asked about first.
_SLACK = 1.25


def most_held_bytes(setting: bool | int) -> int:
    """Return how much the process may hold by a setting; 0 for no limit."""
    if not setting:
        return 0
    return usable_bytes() // 2 if setting is True else setting << 20


def end_of_memory(setting: bool | int) -> None:
    """Have the kernel give this process no memory beyond its limit, and a quarter of that.

    What asks for more gets a MemoryError, which ops answer with RESOURCE_EXHAUSTED.  For processes
    that do nothing but serve: it counts what is reserved, used or not, and holds for good.
    """
    most = most_held_bytes(setting)
    if not most or may_have_gpu():  # whose drivers reserve as much as they like
        return
    reserved = _reserved_bytes()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = reserved + int(most * _SLACK)
    if reserved and (hard == resource.RLIM_INFINITY or soft < hard):
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _reserved_bytes() -> int:
    """Return how much private memory the process has reserved; 0 where the kernel does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines())
    return next((int(words[1]) << 10 for words in lines if words[:1] == ["VmData:"]), 0)
