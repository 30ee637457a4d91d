"""Records of files as elements of datasets: read on threads, some way ahead of who wants them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator as PyIterator
from typing import TypeAlias

from tideflow.ops.data.functions import data_threads
from tideflow.ops.data.values import Element, text

# How much of what is in a file a thread makes ready at once.
_MOST_READY_BYTES = 1 << 20
_MOST_READY = 256

# What is in a file: bytes, or a whole element, or an error in the place of one.
Record: TypeAlias = "bytes | Element | Exception"


class RecordStream:
    """Gives the records that a Python iterator reads, in the background of the loop."""

    __slots__ = ("_pending", "_ready", "_records")

    def __init__(self, records: PyIterator[Record]) -> None:
        self._records = records
        self._ready: deque[Record | None] = deque()
        self._pending: asyncio.Future[None] | None = None

    async def next(self) -> Element | None:
        if not self._ready:
            if self._pending is None:
                loop = asyncio.get_running_loop()
                self._pending = loop.run_in_executor(
                    data_threads(), _read_some, self._records, self._ready
                )
            # Who is cancelled here leaves what is read to whoever asks next.
            await asyncio.wait([self._pending])
            self._pending.result()
            self._pending = None
        item = self._ready[0]
        if item is None:
            return None
        self._ready.popleft()
        if isinstance(item, Exception):
            raise item
        return (text(item),) if isinstance(item, bytes) else item


def _read_some(records: PyIterator[Record], ready: deque[Record | None]) -> None:
    """Make some records ready; None stands for the end, and an error comes before it."""
    size = 0
    try:
        while len(ready) < _MOST_READY and size < _MOST_READY_BYTES:
            record = next(records, None)
            ready.append(record)
            if record is None:
                return
            size += len(record) if isinstance(record, bytes) else 0
    except Exception as error:
        ready.append(error)
