"""Lines of the log that a peer can cause as often as it likes."""

from __future__ import annotations

import logging
from collections.abc import Callable

# Lines at once, and how soon another one may follow.
_MOST_LINES = 20
_EACH_S = 3.0


class LimitedLog:
    """Writes at most twenty lines a minute, and then how many were left out.

    Args:
      logger: where to.
      now_s: the time, in seconds.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float]) -> None:
        self._logger = logger
        self._now_s = now_s
        self._left = float(_MOST_LINES)
        self._at_s = now_s()
        self._omitted = 0

    def warning(self, text: str, *values: object) -> None:
        """Write a line, or count it."""
        now_s = self._now_s()
        self._left = min(_MOST_LINES, self._left + (now_s - self._at_s) / _EACH_S)
        self._at_s = now_s
        if self._left < 1:
            self._omitted += 1
            return
        self._left -= 1
        if self._omitted:
            text += " (and %d more that the log leaves out)"
            values, self._omitted = (*values, self._omitted), 0
        self._logger.warning(text, *values)
