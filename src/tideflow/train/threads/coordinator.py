"""Threads that stop together: the first error of any of them ends all, and is raised at the end.

Source: tensorflow/python/training/coordinator.py for names, arguments and the order of events.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from tideflow import logging
from tideflow.ops.export import export
from tideflow.platform import clock, waits
from tideflow.platform.threads import OwnedThread
from tideflow.wire import errors

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_LONGEST_POLL_S = 0.1


@export("train.Coordinator")
class Coordinator:
    """Tells threads when to stop, and waits for them.

    Example:
      coord = tf.train.Coordinator()
      threads = [Thread(target=work, args=(coord,)), ...]   # each looks at coord.should_stop()
      ...
      coord.request_stop()
      coord.join(threads)

    Any thread may call any method.

    Args:
      clean_stop_exception_types: errors that mean "done": they stop the threads, and join does
        not raise them.  OutOfRangeError, the end of the input, if left out.
    """

    def __init__(
        self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None
    ) -> None:
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (errors.OutOfRangeError,)
        self._clean_stop_exception_types = tuple(clean_stop_exception_types)
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()

    def request_stop(self, ex: BaseException | ExcInfo | None = None) -> None:
        """Ask all threads to stop; later calls change nothing.

        Args:
          ex: why, an exception or what sys.exc_info() returned; join raises the first one.
        Raises: ex itself, if the threads were joined already: nobody else would hear of it.
        """
        error = _error_of(ex)
        if isinstance(error, self._clean_stop_exception_types):
            error = None
        with self._lock:
            if self._joined:
                if error is not None:
                    raise error
            elif not self._stop_event.is_set():
                if error is not None:
                    logging.info("Error reported to Coordinator: %s, %s", type(error), error)
                    self._error = error
                self._stop_event.set()

    def clear_stop(self) -> None:
        """Forget the request to stop, its error, and that threads were joined."""
        with self._lock:
            self._joined = False
            self._error = None
            self._stop_event.clear()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turn an exception raised inside `with` into a request to stop."""
        try:
            yield
        except BaseException:
            self.request_stop(sys.exc_info())  # type: ignore[arg-type]

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested, at most timeout seconds; return whether it was."""
        return waits.until(self._stop_event.wait, timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Add a thread to those that join waits for."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until the threads end, and raise the error that was given to request_stop.

        Args:
          threads: waited for together with the registered ones.
          stop_grace_period_secs: how long threads may go on after the request to stop.
          ignore_live_threads: only log which threads still run after that.
        Raises: the first error; RuntimeError naming threads that are still running.
        """
        with self._lock:
            waited = list(self._registered_threads.union(threads or ()))
        while _any_alive(waited) and not self.wait_for_stop(_LONGEST_POLL_S):
            pass
        self.wait_for_threads(stop_grace_period_secs, waited)
        stragglers = [thread.name for thread in waited if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            if self._error is not None:
                raise self._error
        if stragglers:
            told = "Coordinator stopped with threads still running: " + " ".join(stragglers)
            if not ignore_live_threads:
                raise RuntimeError(told)
            logging.info(told)

    def live_threads(self) -> list[threading.Thread]:
        """Return the registered threads that run."""
        with self._lock:
            return [thread for thread in self._registered_threads if thread.is_alive()]

    def wait_for_threads(
        self, timeout_s: float, threads: Sequence[threading.Thread] | None = None
    ) -> bool:
        """Wait until threads (the registered ones if left out) end; return whether all did."""
        if threads is None:
            with self._lock:
                threads = list(self._registered_threads)
        deadline_s = clock.monotonic_s() + timeout_s
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline_s - clock.monotonic_s()))
        return not _any_alive(threads)

    @property
    def joined(self) -> bool:
        """Whether join ended since the last clear_stop."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raise the error that was given to request_stop, if there is one."""
        with self._lock:
            if self._error is not None:
                raise self._error


def _any_alive(threads: Iterable[threading.Thread]) -> bool:
    return any(thread.is_alive() for thread in threads)


def _error_of(ex: Any) -> BaseException | None:
    if ex is None or isinstance(ex, BaseException):
        return ex
    if isinstance(ex, tuple) and len(ex) == 3 and isinstance(ex[1], BaseException):
        return ex[1]
    return ValueError(f"ex must be an exception or what sys.exc_info() returned, not {ex!r}")


@export("train.LooperThread")
class LooperThread(OwnedThread):
    """A thread that calls something again and again until its coordinator says stop.

    Args:
      timer_interval_secs: between the beginnings of two calls, the first of which comes at once;
        None for no pause at all.
      target, args, kwargs: what to call.  A subclass may override run_loop instead, and start_loop
        and stop_loop, which are called once before and after.
    Raises: ValueError for something else than a Coordinator, or arguments without a target.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        super().__init__(daemon=True)
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._call = target
        self._call_args = args or ()
        self._call_kwargs = kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Start a thread that calls target regularly, and return it."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Call until the coordinator says stop; an error stops the coordinator."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                self._run_regularly(self._timer_interval_secs)
            self.stop_loop()

    def _run_regularly(self, interval_s: float) -> None:
        next_s = clock.monotonic_s()
        while not self._coord.wait_for_stop(max(0.0, next_s - clock.monotonic_s())):
            next_s += interval_s
            self.run_loop()

    def start_loop(self) -> None:
        """Called in the thread before the first call."""

    def stop_loop(self) -> None:
        """Called in the thread after the last call."""

    def run_loop(self) -> None:
        """Called at each turn; calls the target."""
        if self._call is not None:
            self._call(*self._call_args, **self._call_kwargs)
