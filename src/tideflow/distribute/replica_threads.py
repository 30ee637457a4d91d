"""One function run once for each replica, with stops at which the replicas meet.

Each replica has a thread, and strictly one of them runs at a time: to its end, or to its next
merge call.  When all have stopped at one, its function runs once in the caller, with the arguments
of all replicas joined, and each goes on with its part of the result.  So what the replicas put into
a graph has the same order in every run.

Source: tensorflow/python/distribute/mirrored_run.py.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.distribute.protocols import StrategyLike
from tideflow.distribute.replica_context import Entry, ReplicaContext, entered
from tideflow.distribute.values import PerReplica, regroup, select_replica_tree
from tideflow.eager.functions import Function
from tideflow.graph.defaults import eager_graph, local
from tideflow.graph.graph import Graph, get_default_graph
from tideflow.ops.framework import nest
from tideflow.ops.state import creators_in_force, with_creators
from tideflow.platform import threads, waits

# For each strategy and each function that it ran, the function around all replicas.
_wrapped: weakref.WeakKeyDictionary[StrategyLike, weakref.WeakKeyDictionary[Function, Function]] = (
    weakref.WeakKeyDictionary()
)


def call_for_each_replica(
    strategy: StrategyLike,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Return the results of fn in all replicas, joined leaf by leaf.

    A `tf.function` is traced once, around all replicas, so that they can meet inside it.
    Raises: what fn raises in the first replica that fails; RuntimeError when the replicas make
    different numbers of merge calls.
    """
    if isinstance(fn, Function):
        return _around_replicas(strategy, fn)(*args, **kwargs)
    count = len(strategy.extended.worker_devices)
    graph = get_default_graph()
    replicas = [
        _Replica(strategy, i, graph, fn, select_replica_tree(i, (args, kwargs)))
        for i in range(count)
    ]
    try:
        while True:
            for replica in replicas:
                replica.go_on()
            failed = next((r.error for r in replicas if r.error is not None), None)
            if failed is not None:
                raise failed
            ended = [replica.has_ended for replica in replicas]
            if all(ended):
                return regroup([replica.result for replica in replicas])
            if any(ended):
                raise RuntimeError(
                    "Some replicas made a different number of replica_context().merge_call() "
                    f"calls. Replica {ended.index(True)} ended while replica "
                    f"{ended.index(False)} waits in one: let all replicas take the same way"
                )
            _merge(strategy, replicas)
    finally:
        for replica in replicas:
            replica.give_up()


def _around_replicas(strategy: StrategyLike, fn: Function) -> Function:
    """Return a function that calls the Python function of another in each replica."""
    known = _wrapped.setdefault(strategy, weakref.WeakKeyDictionary())
    found = known.get(fn)
    if found is None:
        # What is kept by fn must not hold it.
        python_function = fn.python_function

        def in_replicas(*args: Any, **kwargs: Any) -> Any:
            result = call_for_each_replica(strategy, python_function, args, kwargs)
            return nest.map_structure(_values_of_copies, result)

        found = known[fn] = fn.around(in_replicas)
    return found


def _values_of_copies(leaf: Any) -> Any:
    """Return a distributed variable as a function returns it: the value of each copy."""
    if not hasattr(leaf, "is_distributed") or len(leaf.values) == 1:
        return leaf
    return PerReplica([copy.read_value() for copy in leaf.values])


def _merge(strategy: StrategyLike, replicas: Sequence[_Replica]) -> None:
    """Run the function at which all replicas have stopped."""
    first = replicas[0]
    args = regroup([replica.merge_args for replica in replicas])
    kwargs = regroup([replica.merge_kwargs for replica in replicas])
    merge_fn = first.merge_fn
    assert merge_fn is not None
    with entered(Entry(strategy, None)), first.graph.name_scope(first.scope_of_merge):
        result = merge_fn(strategy, *args, **kwargs)
    for number, replica in enumerate(replicas):
        replica.merge_result = select_replica_tree(number, result)


def _scope_of(number: int) -> Any:
    """Return the name scope of a replica; the first one has none."""
    if number == 0:
        return contextlib.nullcontext()
    return get_default_graph().name_scope(f"replica_{number}")


class _GaveUpError(BaseException):
    """Ends the function of a replica whose result nobody wants."""


class _ReplicaThread:
    """A thread that runs one replica after another."""

    def __init__(self) -> None:
        self._has_work = threading.Lock()
        self._has_work.acquire()
        self._work: Callable[[], None] | None = None
        threads.start(self._serve, name="tideflow-replica")

    def run(self, work: Callable[[], None]) -> None:
        """Begin to run something; the thread is nobody else's until that has ended."""
        self._work = work
        self._has_work.release()

    def _serve(self) -> None:
        while True:
            self._has_work.acquire()
            work, self._work = self._work, None
            assert work is not None
            with threads.with_signals():
                work()
            del work  # it holds what a replica was given


# Threads without work: starting one takes longer than most of what replicas do eagerly.
_idle: list[_ReplicaThread] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


class _Replica:
    """One replica: its thread, and where that has stopped."""

    def __init__(
        self,
        strategy: StrategyLike,
        number: int,
        graph: Graph,
        fn: Callable[..., Any],
        arguments: tuple[Sequence[Any], dict[str, Any]],
    ) -> None:
        self.graph = graph
        self.error: BaseException | None = None
        self.result: Any = None
        self.has_ended = False
        self.merge_fn: Callable[..., Any] | None = None
        self.merge_args: Any = ()
        self.merge_kwargs: Any = {}
        self.merge_result: Any = None
        self.scope_of_merge = ""
        self._strategy = strategy
        self._number = number
        self._fn = fn
        self._arguments = arguments
        self._is_wanted = True
        self._scopes = graph.in_force.copy()
        self._creators = creators_in_force()
        self._eager_graph = eager_graph()
        self._control_flow = graph.in_force.control_flow
        self._context = ReplicaContext(strategy, number)
        self._context.pause = self._pause
        # Both are held, but for the moment in which one side lets the other go on.
        self._may_run = threading.Lock()
        self._has_stopped = threading.Lock()
        self._may_run.acquire()
        self._has_stopped.acquire()
        self._thread: _ReplicaThread | None = None

    # ---- in the caller's thread

    def go_on(self) -> None:
        """Let the replica run until it stops or ends."""
        before, self.graph.in_force = self.graph.in_force, self._scopes
        if self._thread is None:
            try:
                self._thread = _idle.pop()
            except IndexError:
                self._thread = _ReplicaThread()
            self._thread.run(self._run)
        else:
            self._may_run.release()
        self._wait_for_stop()
        self.graph.in_force = before

    def _wait_for_stop(self) -> None:
        assert self._thread is not None
        waits.until(lambda slice_s: self._has_stopped.acquire(timeout=slice_s))
        if self.has_ended:
            _idle.append(self._thread)

    def give_up(self) -> None:
        """End the function, if it still waits."""
        if self._thread is not None and not self.has_ended:
            self._is_wanted = False
            self._may_run.release()
            self._wait_for_stop()

    # ---- in the replica's thread

    def _run(self) -> None:
        try:
            self.result = self._call()
        except _GaveUpError:
            pass
        except BaseException as error:  # it is raised in the caller's thread
            self.error = error
        finally:
            self.has_ended = True
            self._has_stopped.release()

    def _call(self) -> Any:
        graph, number = self.graph, self._number
        # One replica at a time runs, so they can share the caller's eager graph, and what it knows.
        local.eager_graph = self._eager_graph
        before = list(local.graphs)
        if graph is not self._eager_graph:
            local.graphs.append(graph)
        args, kwargs = self._arguments
        try:
            with (
                entered(Entry(self._strategy, self._context)),
                with_creators(self._creators),
                get_default_graph().device(self._strategy.extended.worker_devices[number]),
                _scope_of(number),
            ):
                return self._fn(*args, **kwargs)
        finally:
            local.graphs[:] = before

    def _pause(self, merge_fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Stop until all replicas are here and the function has run."""
        is_inside = get_default_graph() is not self.graph
        if is_inside or self.graph.in_force.control_flow is not self._control_flow:
            raise RuntimeError(
                "`merge_call` called while defining a new graph or a tf.function: inside a nested "
                "tf.function, or a branch or loop on tensors, of the function given to run(). All "
                "replicas must meet outside of these: move what aggregates (apply_gradients, "
                "all_reduce) out, or put the tf.function around strategy.run()"
            )
        self.merge_fn, self.merge_args, self.merge_kwargs = merge_fn, args, kwargs
        scope = self.graph.get_name_scope()
        self.scope_of_merge = f"{scope}/" if scope else ""
        self._has_stopped.release()
        self._may_run.acquire()
        if not self._is_wanted:
            raise _GaveUpError
        result, self.merge_result = self.merge_result, None
        return result
