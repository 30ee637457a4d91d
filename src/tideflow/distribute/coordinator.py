"""ClusterCoordinator: one program that gives workers functions to run, without waiting for them.

A thread for each worker takes closures and runs them on its device.  A closure whose worker is lost
goes to another one, and runs at least once; the thread waits until its worker is back, makes its
context and its datasets again, and goes on.

Source: tensorflow/python/distribute/coordinator/cluster_coordinator.py.
"""

from __future__ import annotations

import inspect
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tideflow import logging
from tideflow.distribute.closures import Closure, ClosureQueue, PerWorkerValues, RemoteValue
from tideflow.distribute.parameter_server import ParameterServerStrategy
from tideflow.distribute.replica_context import Entry, entered
from tideflow.eager.context import context
from tideflow.eager.functions import Function
from tideflow.graph.graph import get_default_graph
from tideflow.ops.data import Dataset
from tideflow.ops.export import export_v2
from tideflow.ops.framework import nest
from tideflow.platform import clock, threads
from tideflow.runtime.loop import get_loop, run_sync
from tideflow.transport import growing_pauses_s
from tideflow.wire import errors

# Devices say where an operation was; of tasks that are named, the first one is the one that failed
# and those after it passed the error on.
_TASK = re.compile(r"(/job:\w+)/replica:\d+/task:\d+(?![\d/])")
_LOST = (errors.UnavailableError, errors.AbortedError)
_RETRY_S = 0.2
_MOST_RETRY_S = 5.0
_MOST_WAIT_S = 3600.0
_HANDLES = ("resource", "variant")
# By strategy, which a coordinator holds.
_coordinators: weakref.WeakValueDictionary[int, ClusterCoordinator] = weakref.WeakValueDictionary()


@export_v2(
    "distribute.coordinator.ClusterCoordinator",
    "distribute.experimental.coordinator.ClusterCoordinator",
)
class ClusterCoordinator:
    """Schedules functions on the workers of a ParameterServerStrategy, which has one coordinator.

    Raises: ValueError for another strategy.
    """

    def __new__(cls, strategy: Any) -> ClusterCoordinator:
        """Return the strategy's coordinator, which is made once."""
        known = _coordinators.get(id(strategy))
        return super().__new__(cls) if known is None else known

    def __init__(self, strategy: Any) -> None:
        if _coordinators.get(id(strategy)) is self:
            return
        if not isinstance(strategy, ParameterServerStrategy):
            raise ValueError(
                "Only `tf.distribute.experimental.ParameterServerStrategy` is supported to work "
                "with `tf.distribute.experimental.coordinator.ClusterCoordinator`"
            )
        self._strategy = strategy
        self._queue = ClosureQueue()
        self._workers = [
            _Worker(self._queue, strategy, number, name)
            for number, name in enumerate(strategy.workers)
        ]
        weakref.finalize(self, _close_soon, self._queue)
        _coordinators[id(strategy)] = self

    @property
    def strategy(self) -> ParameterServerStrategy:
        """The strategy whose workers are used."""
        return self._strategy

    def schedule(self, fn: Any, args: Any = None, kwargs: Any = None) -> RemoteValue:
        """Have some worker call fn(*args, **kwargs); returns its result to come.

        Raises: the error of an earlier closure, after which the coordinator can be used again;
        TypeError for something that cannot be called with the arguments; ValueError for
        RemoteValues as arguments.
        """
        if not callable(fn):
            raise TypeError(f"schedule() takes a function, not {fn!r:.80}")
        if isinstance(fn, Function):
            inspect.signature(fn.python_function).bind(*(args or ()), **(kwargs or {}))
        closure = Closure(fn, tuple(args or ()), dict(kwargs or {}))
        self._queue.put(closure)
        return closure.result

    def join(self) -> None:
        """Wait until all scheduled functions have run.  Raises: the first error of one."""
        self._queue.join()

    def done(self) -> bool:
        """Whether all scheduled functions have run.  Raises: the first error of one."""
        return self._queue.is_done()

    def fetch(self, val: Any) -> Any:
        """Return the results in a structure as NumPy arrays, waiting for them."""
        return nest.map_structure(
            lambda leaf: leaf.fetch() if isinstance(leaf, RemoteValue) else leaf, val
        )

    def create_per_worker_dataset(self, dataset_fn: Any) -> PerWorkerDataset:
        """Return a dataset that each worker has of its own; `iter` gives per-worker iterators.

        dataset_fn: a function without arguments that makes it, or a dataset, of which every
          worker makes the same one.
        Raises: TypeError for anything else.
        """
        make = dataset_fn.remade if isinstance(dataset_fn, Dataset) else dataset_fn
        if not callable(make):
            raise TypeError(
                f"a dataset or a function that makes one is wanted, not {dataset_fn!r:.80}"
            )
        return PerWorkerDataset(make, self)

    def make_on_workers(self, make: Callable[[], Any]) -> PerWorkerValues:
        """Make something on every worker, and again on a worker that was lost."""
        return PerWorkerValues([worker.make(make) for worker in self._workers])


def _close_soon(queue: ClosureQueue) -> None:
    """Close a queue elsewhere: the thread that collects a coordinator may hold the queue's lock."""
    get_loop().call_soon_threadsafe(queue.close)


class PerWorkerDataset:
    """A dataset of which each worker has one."""

    def __init__(self, make: Callable[[], Any], coordinator: ClusterCoordinator) -> None:
        self._make = make
        self._coordinator = coordinator

    def __iter__(self) -> Any:
        return PerWorkerIterator(self._coordinator.make_on_workers(lambda: iter(self._make())))

    @property
    def element_spec(self) -> Any:
        """The specs of an element."""
        return self._make().element_spec


class PerWorkerIterator(PerWorkerValues):
    """An iterator of each worker."""

    def __init__(self, values: PerWorkerValues) -> None:
        super().__init__(list(values._values))

    def __iter__(self) -> PerWorkerIterator:
        return self

    def __next__(self) -> Any:
        return self.get_next()

    def get_next(self) -> Any:
        """Refuse: only a scheduled function, which runs on one worker, can ask for an element."""
        raise NotImplementedError(
            "pass the iterator to schedule(), and call next() in the function"
        )


class _Worker:
    """The thread of one worker; it ends with the queue, or with the client's cluster."""

    def __init__(
        self, queue: ClosureQueue, strategy: ParameterServerStrategy, number: int, name: str
    ) -> None:
        self._queue = queue
        self._strategy = strategy
        self._number = number
        self._name = name
        self._device = f"{name}/device:CPU:0"
        self._lock = threading.Lock()
        # What was made on the worker, and is made again when it is lost, as long as it is held.
        self._made: weakref.WeakKeyDictionary[RemoteValue, Callable[[], Any]] = (
            weakref.WeakKeyDictionary()
        )
        self._cluster = context().cluster
        self._thread = threads.start(self._serve, name=f"tideflow-coordinator of {name}")

    def make(self, make: Callable[[], Any]) -> RemoteValue:
        """Make something on the worker; returns it to come."""
        value = RemoteValue()
        with self._lock:
            self._made[value] = make
        threads.start(self._make, make, value, name=f"tideflow-make on {self._name}")
        return value

    def _make(self, make: Callable[[], Any], value: RemoteValue) -> None:
        try:
            with threads.with_signals():
                value.set_value(self._on_device(make))
        except Exception as error:  # it is raised where the value is used
            value.set_error(error)

    def _on_device(self, work: Callable[[], Any]) -> Any:
        with (
            entered(Entry(self._strategy, None)),
            get_default_graph().device(self._device),
        ):
            return work()

    def _serve(self) -> None:
        # One call for each closure, so that nothing holds the last one until the next one comes.
        while self._serve_one():
            pass

    def _serve_one(self) -> bool:
        """Wait for a closure and run it; return whether there was one."""
        taken = self._queue.take()
        if taken is None:
            return False
        closure, generation = taken
        try:
            found = self._on_device(lambda: closure.run(self._number))
            value = nest.map_structure(_brought_here, found)
        except Exception as error:
            if context().cluster is not self._cluster:
                self._queue.fail(closure, error, generation)
                self._queue.close()
            elif isinstance(error, errors.CancelledError):
                # Others were told of a worker that is back, which cut their steps short.
                self._queue.put_back(closure, generation)
            elif self._is_lost(error):
                logging.info(f"{self._name} is lost, its function goes to another: {error}")
                self._queue.put_back(closure, generation)
                self._recover()
            else:
                self._queue.fail(closure, error, generation)
        else:
            self._queue.end(closure, value, generation)
        return True

    def _is_lost(self, error: BaseException) -> bool:
        """Whether an error says that the worker, and no parameter server, is gone."""
        text = str(error)
        failed = _TASK.search(text)
        if failed[1] == "/job:ps" if failed else "/job:ps" in text:
            return False
        if isinstance(error, _LOST):
            return True
        if isinstance(error, errors.InvalidArgumentError):
            return any(
                phrase in text
                for phrase in (
                    "unknown device",
                    "Primary device is not remote",
                    "Unable to find the relevant tensor remote_handle",
                )
            )
        if isinstance(error, errors.NotFoundError):
            return "is neither a type of a primitive operation nor a name of a function" in text
        return False

    def _recover(self) -> None:
        """Wait until the worker is back, and make again what it had; give up with the cluster."""
        started, pauses_s = clock.monotonic_s(), growing_pauses_s(_RETRY_S, _MOST_RETRY_S)
        cluster = self._cluster
        while cluster is not None and clock.monotonic_s() - started < _MOST_WAIT_S:
            if context().cluster is not cluster:
                return
            try:
                run_sync(cluster.reconnect(self._name))
                break
            except errors.OpError as error:
                waited_s = clock.monotonic_s() - started
                logging.warning(
                    f"waiting for {self._name} to come back, for {waited_s:.0f} s "
                    f"(giving up after {_MOST_WAIT_S:.0f} s): {error.message}"
                )
                clock.sleep(next(pauses_s))
        with self._lock:
            made = list(self._made.items())
        for value, make in made:
            value.clear()
            self._make(make, value)


def _brought_here(leaf: Any) -> Any:
    """Bring a result to the coordinator, so that it outlives the worker."""
    if hasattr(leaf, "is_here") and not leaf.is_here and leaf.dtype.name not in _HANDLES:
        leaf.numpy()
    return leaf
