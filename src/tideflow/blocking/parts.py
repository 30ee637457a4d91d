"""Parts of one piece of blocking work, done at the same time."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

from tideflow.blocking.pools import Pool
from tideflow.blocking.stop_flag import StopFlag

T = TypeVar("T")

# How often work that waits for a part looks whether it should stop.
_LOOK_S = 0.1


class Parts:
    """Has parts of blocking work done in a pool of their own.

    Use it as a context manager, in the thread of the work: no part goes on when it is left, but for
    those that hang when the work was stopped, which are given up.

    Args:
      pool: must be another one than that of the work, which would wait for itself.
      flag: that of the work.
    """

    def __init__(self, pool: Pool, flag: StopFlag) -> None:
        self._pool = pool
        self._flag = flag
        self._jobs: list[concurrent.futures.Future[Any]] = []

    def start(self, part: Callable[[], T]) -> Callable[[], T]:
        """Begin a part; return what waits for it and gives its result.

        That raises what the part raises, and Stopped.
        """
        job: concurrent.futures.Future[T] = self._pool.start(part)
        self._jobs.append(job)

        def finish() -> T:
            self._wait(job)
            return job.result()

        return finish

    def _wait(self, job: concurrent.futures.Future[Any]) -> None:
        while not concurrent.futures.wait([job], timeout=_LOOK_S).done:
            self._flag.check()

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        started = [job for job in self._jobs if not job.cancel()]
        for job in started:
            while not concurrent.futures.wait([job], timeout=_LOOK_S).done:
                if self._flag.is_stopped and self._pool.grace_s is not None:
                    self._pool.give_up(job)
                    break
