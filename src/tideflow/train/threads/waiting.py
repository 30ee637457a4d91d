"""Waiting for other tasks: pauses that grow, differ, are told of, and end.

The user reads on stderr what is waited for, and when that is given up.
"""

from __future__ import annotations

import sys

from tideflow.platform import clock
from tideflow.transport import growing_pauses_s

_FIRST_PAUSE_S = 0.1
_REPORT_EVERY_S = 10.0


class RetryPauses:
    """One wait for something that others do.

    Args:
      what: is waited for, as the user knows it: a task's name and address.
      limit_s: after which `pause` says that it is over; may be infinite.
      longest_pause_s: between two looks.
      report_after_s: the wait is told of once it has lasted that long.
    """

    def __init__(
        self,
        what: str,
        limit_s: float,
        longest_pause_s: float = 2.0,
        report_after_s: float = 1.0,
    ) -> None:
        self._what = what
        self._limit_s = limit_s
        self._began_s = clock.monotonic_s()
        self._report_at_s = self._began_s + report_after_s
        self._pauses_s = growing_pauses_s(min(_FIRST_PAUSE_S, longest_pause_s), longest_pause_s)

    def pause(self, why: str) -> bool:
        """Wait a moment; False, at once, when the time is over.

        why: what was found instead of what is waited for.
        """
        now_s = clock.monotonic_s()
        left_s = self._began_s + self._limit_s - now_s
        if left_s <= 0:
            return False
        pause_s = next(self._pauses_s)
        if now_s + pause_s >= self._report_at_s:
            self._report_at_s = now_s + _REPORT_EVERY_S
            self._report(why, left_s)
        clock.sleep(min(pause_s, left_s))
        return True

    def _report(self, why: str, left_s: float) -> None:
        end = "never gives up" if left_s == float("inf") else f"gives up in {left_s:.0f} s"
        print(f"waiting for {self._what}: {why}; {end}", file=sys.stderr, flush=True)
