"""What a helper process says of a hang: the stacks of its threads."""

from __future__ import annotations

import faulthandler
import signal


def tell_when_ended() -> None:
    """Write the stacks of all threads to standard error when SIGUSR1 or a fault ends us."""
    faulthandler.enable()
    # The handler before this one, which comes next, ends the process.
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=True)
