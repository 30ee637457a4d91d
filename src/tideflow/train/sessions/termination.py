"""SIGTERM as an exception, so that a chief can save before it ends.

Rule 1: the handler is there only while a session that saves checkpoints is open, and only if that
        was made in the main thread, where Python runs handlers; then the one before comes back.
Rule 2: a program that ignores SIGTERM goes on ignoring it.  A handler of the program's own is
        called once the session is closed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tideflow import logging
from tideflow.platform import threads

# A checkpoint of many gigabytes takes its time; systems that send SIGTERM often kill after 30 s.
_LAST_SAVE_S = 25.0


class Terminated(SystemExit):
    """SIGTERM asked the process to end; its exit status is that of a process ended by it."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


class TerminationHandler:
    """Raises Terminated in the main thread when SIGTERM comes, until `restore`.

    Args:
      begin: called first, in the main thread, between any two of its instructions.
    Attributes:
      is_terminated: whether SIGTERM came.
    """

    def __init__(self, begin: Callable[[], object] | None = None) -> None:
        self.is_terminated = False
        self._begin = begin
        self._previous: Any = None
        self._is_installed = False
        if threading.current_thread() is not threading.main_thread():
            return
        previous = signal.getsignal(signal.SIGTERM)
        # None: a handler that was not installed from Python, and could not be restored.
        if previous in (signal.SIG_IGN, None):
            return
        self._previous = previous
        self._is_installed = True
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_terminated:
            return  # the end has started, and is bounded
        self.is_terminated = True
        if self._begin is not None:
            self._begin()
        raise Terminated

    def restore(self) -> None:
        """Bring back the handler that was there before; call it if SIGTERM has come since."""
        if not self._is_installed:
            return
        self._is_installed = False
        # Another thread may not change handlers, nor may one that came later be lost.
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, self._previous)
        if self.is_terminated and callable(self._previous):
            owner = getattr(self._previous, "__self__", None)
            if isinstance(owner, TerminationHandler):
                owner.is_terminated = True  # the exception is on its way to it
            else:
                self._previous(signal.SIGTERM, None)


class LastSave:
    """Saves in a thread of its own while a signal handler holds the main thread.

    The main thread may be anywhere, with any lock; if it has one that the save needs, the save
    ends in time without it, and is left behind.
    """

    def __init__(self, save: Callable[[], object]) -> None:
        self._save = save
        self._over = threading.Event()

    def begin(self) -> None:
        """Save; return when that has ended, or the time is over (in a signal handler)."""
        threads.start_in_signal_handler(self._run)
        self._over.wait(_LAST_SAVE_S)

    def _run(self) -> None:
        try:
            self._save()
        except Exception as error:
            logging.error("SIGTERM: no last checkpoint could be written. %s", error)
        finally:
            self._over.set()
