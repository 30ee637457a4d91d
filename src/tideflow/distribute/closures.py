"""What a coordinator has workers do: closures, their queue, and their results to come.

Source: tensorflow/python/distribute/coordinator/cluster_coordinator.py; runtime facts on
ClusterCoordinator.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tideflow.ops.export import export_v2
from tideflow.ops.framework import nest
from tideflow.platform import waits
from tideflow.wire import errors

# As many closures may wait; then schedule() does.
MOST_WAITING = 262144


@export_v2("distribute.coordinator.RemoteValue", "distribute.experimental.coordinator.RemoteValue")
class RemoteValue:
    """The result of a closure, which may not have run yet."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def set_value(self, value: Any) -> None:
        """Give the result."""
        self._value, self._error = value, None
        self._ready.set()

    def set_error(self, error: BaseException) -> None:
        """Say that there will be none."""
        self._error = error
        self._ready.set()

    def clear(self) -> None:
        """Say that the result is lost, and is made anew."""
        self._ready.clear()

    def get(self) -> Any:
        """Return the result as tensors, waiting for it.  Raises: the closure's error."""
        waits.until(self._ready.wait)
        if self._error is not None:
            raise self._error
        return self._value

    def fetch(self) -> Any:
        """Return the result as NumPy arrays, waiting for it.  Raises: the closure's error."""
        return nest.map_structure(_numpy, self.get())


def _numpy(leaf: Any) -> Any:
    numpy = getattr(leaf, "numpy", None)
    return numpy() if callable(numpy) else leaf


@export_v2(
    "distribute.coordinator.PerWorkerValue", "distribute.experimental.coordinator.PerWorkerValues"
)
class PerWorkerValues:
    """One remote value for each worker; a closure gets its own worker's."""

    def __init__(self, values: list[RemoteValue]) -> None:
        self._values = tuple(values)

    def of(self, worker: int) -> RemoteValue:
        """Return a worker's value."""
        return self._values[worker]


class Closure:
    """One call for any worker to make.

    Args:
      function: called with args and kwargs, on the worker's device.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        for leaf in nest.flatten([list(args), kwargs]):
            if isinstance(leaf, RemoteValue):
                raise ValueError(
                    "the args and kwargs of a closure cannot be RemoteValues: fetch() them, or let "
                    "the function make them"
                )
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.result = RemoteValue()

    def run(self, worker: int) -> Any:
        """Make the call, with the worker's own part of per-worker values."""
        args, kwargs = nest.map_structure(
            lambda leaf: leaf.of(worker).get() if isinstance(leaf, PerWorkerValues) else leaf,
            [list(self.args), self.kwargs],
        )
        return self.function(*args, **kwargs)

    def cancel(self) -> None:
        """Say that it will not run."""
        self.result.set_error(
            errors.CancelledError(
                "The corresponding function is cancelled. Please reschedule the function."
            )
        )


class ClosureQueue:
    """Closures that wait for a worker, and those that run.

    The first error of a closure cancels all others; it is raised once, by whoever asks next, and
    the queue can then be used again.  A closed queue cancels what waits in it or is given to it;
    what runs may end.
    """

    def __init__(self) -> None:
        # What each waits for has a condition of its own: to wake a thread costs more than most
        # closures take to hand over.
        self._lock = threading.Lock()
        self._has_work = threading.Condition(self._lock)
        self._has_room = threading.Condition(self._lock)
        self._is_idle = threading.Condition(self._lock)
        self._waiting: deque[Closure] = deque()
        self._running = 0
        self._error: BaseException | None = None
        self._is_closed = False
        # Counts cancellations: results of closures started before one are not wanted.
        self._generation = 0

    def put(self, closure: Closure) -> None:
        """Add a closure.  Raises: the error of an earlier one."""
        with self._lock:
            self._raise()
            waits.for_condition(
                self._has_room, lambda: len(self._waiting) < MOST_WAITING or self._is_closed
            )
            if self._is_closed:
                closure.cancel()
                return
            self._waiting.append(closure)
            self._has_work.notify()

    def take(self) -> tuple[Closure, int] | None:
        """Wait for a closure to run; None once the queue is closed."""
        with self._lock:
            self._has_work.wait_for(lambda: self._waiting or self._is_closed)
            if self._is_closed:
                return None
            self._running += 1
            if len(self._waiting) == MOST_WAITING:
                self._has_room.notify_all()
            return self._waiting.popleft(), self._generation

    def put_back(self, closure: Closure, generation: int) -> None:
        """Let another worker run a closure whose worker was lost."""
        with self._lock:
            if generation == self._generation and not self._is_closed:
                self._waiting.appendleft(closure)
                self._has_work.notify()
            else:
                closure.cancel()
            self._note_end()

    def end(self, closure: Closure, value: Any, generation: int) -> None:
        """Note a closure's result."""
        with self._lock:
            if generation == self._generation:
                closure.result.set_value(value)
            else:
                closure.cancel()
            self._note_end()

    def fail(self, closure: Closure, error: BaseException, generation: int) -> None:
        """Note a closure's error; the first one cancels what waits or runs."""
        with self._lock:
            closure.result.set_error(error)
            if generation == self._generation and self._error is None:
                self._error = error
                self._generation += 1
                self._cancel_waiting()
            self._note_end()

    def _cancel_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft().cancel()
        self._has_room.notify_all()

    def _note_end(self) -> None:
        self._running -= 1
        if not self._running and (not self._waiting or self._error is not None):
            self._is_idle.notify_all()

    def join(self) -> None:
        """Wait until nothing waits or runs.  Raises: the first error since the last one raised."""
        with self._lock:
            waits.for_condition(self._is_idle, lambda: not self._waiting and not self._running)
            self._raise()

    def is_done(self) -> bool:
        """Whether nothing waits or runs.  Raises: as join does."""
        with self._lock:
            self._raise()
            return not self._waiting and not self._running

    def _raise(self) -> None:
        if self._error is not None:
            waits.for_condition(self._is_idle, lambda: not self._running)
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """Let the workers end, and cancel what waits."""
        with self._lock:
            self._is_closed = True
            self._cancel_waiting()
            self._has_work.notify_all()
            if not self._running:
                self._is_idle.notify_all()
