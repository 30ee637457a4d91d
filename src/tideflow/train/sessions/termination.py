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
# For so long a save holds the main thread, which may have a lock that the save needs.
_HOLDING_S = 1.0


class Terminated(SystemExit):
    """SIGTERM asked the process to end; its exit status is that of a process ended by it."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


class TerminationHandler:
    """Raises Terminated in the main thread when SIGTERM comes, until `restore`.

    Args:
      last_save: made first; the main thread goes on where that takes long.
    Attributes:
      is_terminated: whether SIGTERM came.
    """

    def __init__(self, last_save: LastSave | None = None) -> None:
        self.is_terminated = False
        self._has_raised = False
        self._last_save = last_save
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
        if self._has_raised:
            return  # the end has started, and is bounded
        self.is_terminated = True
        if self._last_save is not None and not self._last_save.is_made():
            return  # the signal comes again when it is
        self._has_raised = True
        raise Terminated

    def finish(self) -> None:
        """Wait for the last save, if SIGTERM has come; call it before the session is closed."""
        if self.is_terminated and self._last_save is not None:
            self._last_save.wait()

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
    """Saves in a thread of its own when SIGTERM has come to the main thread.

    The main thread may be anywhere, with any lock.  It is held while the save takes a moment, so
    that what it has said is saved; then it goes on, for it may have a lock that the save needs,
    and SIGTERM is sent to it again when the save has ended, or its time is over.
    """

    def __init__(self, save: Callable[[], object]) -> None:
        self._save = save
        self._saved = threading.Event()
        self._over = threading.Event()
        self._has_begun = False
        self._main = 0
        self._main_goes_on = False
        # Whoever takes it ends the main thread: the signal that has come, or one more.
        self._ending = [None]

    def is_made(self) -> bool:
        """Begin to save, if that has not begun; return whether the main thread may end now.

        If not, SIGTERM comes once more (in a signal handler).
        """
        if not self._has_begun:
            self._has_begun = True
            self._main = threading.get_ident()
            threads.start_in_signal_handler(self._run)
            threads.start_in_signal_handler(self._watch)
        if self._over.wait(_HOLDING_S):
            return True
        self._main_goes_on = True
        return self._over.is_set() and self._may_end()

    def wait(self) -> None:
        """Wait until the save has ended, or its time is over."""
        self._over.wait(_LAST_SAVE_S)

    def _may_end(self) -> bool:
        try:
            self._ending.pop()
        except IndexError:
            return False
        return True

    def _run(self) -> None:
        try:
            self._save()
        except Exception as error:
            logging.error("SIGTERM: no last checkpoint could be written. %s", error)
        finally:
            self._saved.set()

    def _watch(self) -> None:
        self._saved.wait(_LAST_SAVE_S)
        self._over.set()
        if self._main_goes_on and self._may_end():
            signal.pthread_kill(self._main, signal.SIGTERM)
