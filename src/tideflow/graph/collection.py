"""Keep Python's cyclic garbage collector away while a large graph is made.

A graph of 40,000 nodes is some hundred thousand objects, none of them garbage.  Left alone, the
collector walks over all of them again and again while they are made: half the time, in pauses of
200 ms in which no thread of the process runs, the event loop's neither.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# So many new objects are walked over in less than 0.1 ms.
_MANY = 2000
_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector; it goes on when the last of the overlapping pauses ends.

    Usable as a decorator, in any thread.
    """
    global _pauses, _was_enabled
    with _lock:
        _pauses += 1
        if _pauses == 1:
            _was_enabled = gc.isenabled()
            gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                _age()
                gc.enable()


def _age() -> None:
    """Put all objects into the oldest generation, unseen.

    Otherwise the next small collection would walk over all that the pause has made.
    """
    # To count what a program has frozen takes 8 ms and more for a million objects.
    if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
