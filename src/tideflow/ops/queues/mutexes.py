"""Mutexes, and sections of a program that one caller at a time runs: tf.CriticalSection.

A lock is a value: who holds the tensor has the mutex, until it is consumed or nobody holds it.

Source: tensorflow/core/kernels/mutex_ops.cc, python/ops/critical_section_ops.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs, scalar
from tideflow.ops.export import export
from tideflow.ops.framework import identity, nest
from tideflow.ops.node_resources import open_resource
from tideflow.ops.state import init_scope
from tideflow.wire import errors
from tideflow.wire.handles import Variant


class Mutex:
    """What one lock at a time holds.  Locks are given in the order in which they were asked for."""

    type_name = "tensorflow::Mutex"

    def __init__(self) -> None:
        # Locks are dropped anywhere, also by who holds the guard.
        self._guard = threading.RLock()
        self._is_held = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> Lock:
        """Wait until the mutex is free, and return a lock of it."""
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return Lock(self)
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._give_up(turn)
            raise
        return Lock(self)

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return
        self.release()  # it had come already

    def release(self) -> None:
        """Let the next lock be given; any thread may call."""
        with self._guard:
            if not self._waiting:
                self._is_held = False
                return
            turn = self._waiting.popleft()
        turn.get_loop().call_soon_threadsafe(_grant, turn)


def _grant(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


class Lock:
    """A lock of a mutex, until it is released or dropped."""

    __slots__ = ("_mutex",)

    def __init__(self, mutex: Mutex) -> None:
        self._mutex: Mutex | None = mutex

    def release(self) -> None:
        """Release the mutex, if that has not been done."""
        mutex, self._mutex = self._mutex, None
        if mutex is not None:
            mutex.release()

    def __del__(self) -> None:
        self.release()

    def to_variant(self) -> Variant:
        """Refuse to travel.  Raises: UnimplementedError."""
        raise errors.UnimplementedError("a lock of a mutex stays in its process")


@op(
    """
    MutexV2() -> resource: resource
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
def mutex(ctx: KernelContext, *, container: str, shared_name: str) -> Any:
    """Return the handle of a mutex."""
    return ctx.memo(lambda: open_resource(ctx, Mutex, Mutex, container, shared_name))


@op("MutexLock(mutex: resource) -> mutex_lock: variant", shape=scalar, stateful=True)
async def mutex_lock(ctx: KernelContext, mutex: object) -> Any:
    """Wait for the mutex and return a lock of it."""
    return await ctx.resources.lookup(mutex, Mutex).acquire()


@op("ConsumeMutexLock(mutex_lock: variant)", shape=no_outputs, stateful=True)
def consume_mutex_lock(ctx: KernelContext, mutex_lock: Any) -> None:
    """Release the mutex of a lock.  Raises: InvalidArgumentError for anything else."""
    found = mutex_lock.item() if isinstance(mutex_lock, np.ndarray) else mutex_lock
    if not isinstance(found, Lock):
        raise errors.InvalidArgumentError(
            f"a lock of a mutex is wanted, found {type(found).__name__}"
        )
    found.release()


not_differentiable("ConsumeMutexLock", "MutexLock", "MutexV2")


class _Running(threading.local):
    """The sections that this thread is in."""

    def __init__(self) -> None:
        self.sections: list[CriticalSection] = []


_running = _Running()


@export("CriticalSection")
class CriticalSection:
    """A section that one caller at a time runs: what a function does to resources is not mixed
    with what others do there in sections of the same name.

    Example:
      section = tf.CriticalSection()
      total = section.execute(lambda: variable.assign_add(1.0))

    Args:
      name: of its operations.
      shared_name: sections of one name are one; a section of its own, by default.
      critical_section_def, import_scope: only None.
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if critical_section_def is not None:
            raise ValueError("Argument `critical_section_def` is not supported.")
        with init_scope() as graph, graph.name_scope(name or "critical_section"):
            self._handle = apply_op("MutexV2", shared_name=shared_name or "", name="mutex")
        self._name = name or "critical_section"

    @property
    def name(self) -> str:
        """The name of the mutex's operation."""
        return f"{self._name}/mutex" if get_default_graph().is_eager else self._handle.op.name

    def execute(
        self,
        fn: Callable[[], Any],
        exclusive_resource_access: bool = True,
        name: str | None = None,
    ) -> Any:
        """Return what a function without arguments gives, run while nobody else is in the section.

        exclusive_resource_access: accepted; that no other section uses the function's resources is
          not checked.
        Raises: ValueError inside the same section, which would wait for itself.
        """
        if any(other is self for other in _running.sections):
            raise ValueError(
                "Attempting to lock a CriticalSection in which we are already running: "
                f"{self.name}. This is illegal and may cause deadlocks."
            )
        graph = get_default_graph()
        with graph.name_scope(name or "critical_section_execute"):
            lock = apply_op("MutexLock", self._handle)
            _running.sections.append(self)
            try:
                if graph.is_eager:
                    return fn()
                return self._built(graph, lock, fn)
            finally:
                _running.sections.pop()
                if graph.is_eager:
                    apply_op("ConsumeMutexLock", lock)

    def _built(self, graph: Any, lock: Any, fn: Callable[[], Any]) -> Any:
        before = len(graph.get_operations())
        with graph.control_dependencies([lock]):
            result = fn()
            kept = nest.map_structure(_kept, result)
        inside = graph.get_operations()[before:]
        with graph.control_dependencies(inside):
            consumed = apply_op("ConsumeMutexLock", lock)
        with graph.control_dependencies([consumed]):
            return nest.map_structure(_kept, kept)


def _kept(one: Any) -> Any:
    """Return a tensor of a value; None and operations as they are."""
    return one if one is None or not hasattr(one, "dtype") else identity(one)
