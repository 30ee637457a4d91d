"""One function run once for each replica, with stops at which the replicas meet.

Each replica has a thread, and strictly one of them runs at a time: to its end, or to its next
merge call.  When all have stopped at one, its function runs once in the caller, with the arguments
of all replicas joined, and each goes on with its part of the result.  So what the replicas put into
a graph has the same order in every run.

Source: tensorflow/python/distribute/mirrored_run.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tideflow.distribute.replica_context import Entry, ReplicaContext, entered
from tideflow.distribute.values import regroup, select_replica_tree
from tideflow.graph.defaults import local
from tideflow.graph.graph import Graph, get_default_graph
from tideflow.ops.variables_base import creators_in_force, with_creators

if TYPE_CHECKING:
    from tideflow.distribute.strategy import Strategy


def call_for_each_replica(
    strategy: Strategy, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Return the results of fn in all replicas, joined leaf by leaf.

    Raises: what fn raises in the first replica that fails; RuntimeError when the replicas make
    different numbers of merge calls.
    """
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


def _merge(strategy: Strategy, replicas: Sequence[_Replica]) -> None:
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
    """Ends the thread of a replica whose result nobody wants."""


class _Replica:
    """One replica: its thread, and where that has stopped."""

    def __init__(
        self,
        strategy: Strategy,
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
        self._scopes = graph.copied_scopes()
        self._creators = creators_in_force()
        self._context = ReplicaContext(strategy, number)
        self._context.pause = self._pause
        self._may_run = threading.Semaphore(0)
        self._has_stopped = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    # ---- in the caller's thread

    def go_on(self) -> None:
        """Let the replica run until it stops or ends."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"replica {self._number}", daemon=True
            )
            self._thread.start()
        before = self.graph.scopes()
        self.graph.restore_scopes(self._scopes)
        self._may_run.release()
        self._has_stopped.acquire()
        self._scopes = self.graph.scopes()
        self.graph.restore_scopes(before)

    def give_up(self) -> None:
        """End the thread, if it still waits."""
        if self._thread is not None and not self.has_ended:
            self._is_wanted = False
            self._may_run.release()
            self._thread.join()

    # ---- in the replica's thread

    def _run(self) -> None:
        self._may_run.acquire()
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
        if not graph.is_eager:
            local.graphs.append(graph)
        args, kwargs = self._arguments
        with (
            entered(Entry(self._strategy, self._context)),
            with_creators(self._creators),
            get_default_graph().device(self._strategy.extended.worker_devices[number]),
            _scope_of(number),
        ):
            return self._fn(*args, **kwargs)

    def _pause(self, merge_fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Stop until all replicas are here and the function has run."""
        if get_default_graph() is not self.graph and not self.graph.is_eager:
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
