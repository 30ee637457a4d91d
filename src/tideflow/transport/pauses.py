"""Pauses between tries of what may succeed later."""

from __future__ import annotations

import random
from collections.abc import Iterator


def growing_pauses_s(
    first_s: float, most_s: float, *, growth: float = 2.0, least: float = 0.5
) -> Iterator[float]:
    """Yield pauses in seconds without end: each may be `growth` times as long as the last.

    Each is cut to a random share, so that those who lost the same peer do not all come back to it
    at once.

    Args:
      first_s, most_s: the first pause and the longest, before they are cut.
      least: the least share of a pause that is left.
    """
    pause_s = first_s
    while True:
        yield pause_s * random.uniform(least, 1.0)
        pause_s = min(growth * pause_s, most_s)
