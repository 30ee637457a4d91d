"""Records of files as elements of datasets: read on threads, some way ahead of who wants them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Iterator as PyIterator
from typing import TypeAlias, TypeVar

from tideflow.blocking import FILES, StopFlag, run_blocking
from tideflow.ops.data.values import Element, text
from tideflow.wire import errors

T = TypeVar("T")

# How much of what is in a file a thread makes ready at once.
_MOST_READY_BYTES = 1 << 20
_MOST_READY = 256

# What is in a file: bytes, or a whole element, or an error in the place of one.
Record: TypeAlias = "bytes | Element | Exception"


class RecordStream:
    """Gives the records that a Python iterator reads, in the background of the loop."""

    __slots__ = ("_is_reading", "_ready", "_records")

    def __init__(self, records: PyIterator[Record]) -> None:
        self._records = records
        self._ready: deque[Record | None] = deque()
        self._is_reading = False

    async def next(self) -> Element | None:
        if not self._ready:
            # Who is cancelled here leaves what is read to whoever asks next.
            await run_blocking(FILES, self._read_some)
        item = self._ready[0]
        if item is None:
            return None
        self._ready.popleft()
        if isinstance(item, Exception):
            raise item
        return (text(item),) if isinstance(item, bytes) else item

    def _read_some(self, flag: StopFlag) -> None:
        """Make some records ready; None stands for the end, and an error comes before it."""
        if self._is_reading:
            raise errors.UnavailableError("the file does not answer: an earlier read still hangs")
        self._is_reading = True
        ready, size = self._ready, 0
        try:
            while len(ready) < _MOST_READY and size < _MOST_READY_BYTES and not flag.is_stopped:
                record = next(self._records, None)
                ready.append(record)
                if record is None:
                    return
                size += len(record) if isinstance(record, bytes) else 0
        except Exception as error:
            ready.append(error)
        finally:
            self._is_reading = False


async def in_file_thread(work: Callable[[], T]) -> T:
    """Return what work on a file gives; who is cancelled waits for its end, unless it hangs."""
    return await run_blocking(FILES, lambda _: work())
