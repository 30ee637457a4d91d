"""How far the work on a large file is, shown to whoever watches once it takes a while."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

from tideflow import logging
from tideflow.platform import clock

# Nothing is shown of what is over sooner, and no two lines come within so many seconds.
_SHOWN_AFTER_S = 1.0
_EACH_S = 5.0
_MIB = 1 << 20


class FileProgress:
    """Counts bytes; after a second it shows a bar on a terminal, or writes lines to the log.

    Use as a context manager.  Any thread may count.

    Args:
      doing: what is done, "saving" say.
      path: to what.
      total_bytes: how much there is to do; may be set later.
    """

    def __init__(
        self,
        doing: str,
        path: str,
        total_bytes: int = 0,
    ) -> None:
        self._what = f"{doing} {path}"
        self.total_bytes = total_bytes
        self._started = clock.monotonic_s()
        self._next = self._started + _SHOWN_AFTER_S
        self._done = 0
        self._lock = threading.Lock()
        self._bar: Any = None

    def __enter__(self) -> FileProgress:
        return self

    def advance(self, count: int) -> None:
        """Count bytes that are done."""
        with self._lock:
            self._done += count
            if clock.monotonic_s() >= self._next:
                self._show()

    def _show(self) -> None:
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = _start_bar(self._what, self.total_bytes)
            self._bar.update(self._bar.task_ids[0], completed=self._done)
            return
        self._next = clock.monotonic_s() + _EACH_S
        share = 100 * self._done // max(1, self.total_bytes)
        logging.info(
            "%s: %d of %d MiB (%d %%), %.0f MiB/s",
            self._what,
            self._done // _MIB,
            self.total_bytes // _MIB,
            share,
            self._done / _MIB / max(1e-9, clock.monotonic_s() - self._started),
        )

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
        took = clock.monotonic_s() - self._started
        if kind is None and took >= _SHOWN_AFTER_S:
            logging.info("%s: %d MiB took %.1f s", self._what, self._done // _MIB, took)


def _start_bar(what: str, total: int) -> Any:
    # Loaded here: only who waits at a terminal needs it, and it takes 50 ms.
    progress = importlib.import_module("rich.progress")
    console = importlib.import_module("rich.console").Console(stderr=True)
    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(binary_units=True),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    bar.add_task(what, total=total)
    bar.start()
    return bar
