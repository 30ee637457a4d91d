"""What the process takes that compiles for tideflow's programs; it comes and goes as needed."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.memory import peak_bytes

_LOOK_S = 0.05


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, in seconds, of threads that have ended, too."""
    # Linux numbers the clock of a process after it (clock_getcpuclockid); /proc counts in 10 ms.
    return time.clock_gettime(~pid << 3 | 2)


class CompilingProcess:
    """The process that serves a folder of compiled code; None for no folder.

    Attributes:
      memory: bytes that it has taken at most, as far as was seen.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._taken_s: dict[int, float] = {}
        self.memory = 0
        self._looked_s = time.perf_counter()
        self._look()
        # What it did for an earlier program does not count.
        self._before_s = sum(self._taken_s.values())

    def cpu_s(self) -> float:
        """Return the processor time that it has taken, in seconds."""
        now = time.perf_counter()
        if now - self._looked_s > _LOOK_S:
            self._looked_s = now
            self._look()
        return sum(self._taken_s.values()) - self._before_s

    def _look(self) -> None:
        for file in self._folder.glob("*.lock") if self._folder else ():
            try:
                pid = int(file.read_text())
                self._taken_s[pid] = cpu_s(pid)
                self.memory = max(self.memory, peak_bytes(pid, "VmHWM"))
            except (OSError, ValueError):  # it begins, or has ended
                continue
