"""Pauses between tries of what may succeed later."""

from __future__ import annotations

import random
from collections.abc import Iterator


def growing_pauses_s(first_s: float, most_s: float) -> Iterator[float]:
    """Yield pauses in seconds without end: each may be twice as long as the last, up to most_s.

    Each is cut by a random share of up to a half, so that those who lost the same peer do not all
    come back to it at once.
    """
    pause_s = first_s
    while True:
        yield pause_s * random.uniform(0.5, 1.0)
        pause_s = min(2 * pause_s, most_s)
