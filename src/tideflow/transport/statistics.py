"""Counts and times of calls, kept per method by servers and channels."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from tideflow.platform import clock


@dataclass(slots=True)
class MethodStatistics:
    """What one method has done so far, seen from one side.

    Attributes:
      calls: started; errors: of those, ended in an error or cancelled; in_flight: not ended yet.
      received_bytes, sent_bytes: serialised messages; 0 where nothing is serialised.
      total_s: time in calls that have ended.
    """

    calls: int = 0
    errors: int = 0
    in_flight: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    total_s: float = 0.0


class CountedCall:
    """Counts one call: `with CountedCall(statistics): ...`."""

    __slots__ = ("_started_s", "_statistics")

    def __init__(self, statistics: MethodStatistics) -> None:
        self._statistics = statistics

    def __enter__(self) -> None:
        self._statistics.calls += 1
        self._statistics.in_flight += 1
        self._started_s = clock.monotonic_s()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        statistics = self._statistics
        statistics.in_flight -= 1
        statistics.total_s += clock.monotonic_s() - self._started_s
        # A stream that its consumer closes early raises GeneratorExit; that is no error.
        if kind is not None and kind is not GeneratorExit:
            statistics.errors += 1
