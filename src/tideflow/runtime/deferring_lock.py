"""A lock for what finalisers change as well.

The collector runs a finaliser wherever a thread happens to be, also where that thread holds the
very lock: waiting for it would never end, and going on without would change what is being changed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType


class DeferringLock:
    """A re-entrant lock, `with lock:`, that takes work for the time when it is free."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._deferred: deque[Callable[[], None]] = deque()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._depth -= 1
        self._lock.release()
        if self._deferred:
            self._run_deferred()

    def run_when_free(self, work: Callable[[], None]) -> None:
        """Run `work` with the lock held: at once if it is free, else when its holder lets go.

        Never waits, so that finalisers may call it.
        """
        self._deferred.append(work)
        self._run_deferred()

    def _run_deferred(self) -> None:
        # Who finds the lock taken leaves the work to its holder, who looks here after letting go.
        while self._deferred and self._lock.acquire(blocking=False):
            try:
                if self._depth:
                    return  # this thread holds it, further out
                self._depth += 1
                try:
                    while self._deferred:
                        self._deferred.popleft()()
                finally:
                    self._depth -= 1
            finally:
                self._lock.release()
