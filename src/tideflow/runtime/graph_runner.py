"""Run a graph whose nodes are assigned to the devices of this task.

The graph is split by device; each part gets an executor of its own, and the parts pass tensors
through the step's rendezvous.  A graph on one device that never waits runs on the caller's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.compile.partition import partition
from tideflow.compile.plan import has_control_flow
from tideflow.compile.read_after_update import read_after_updates
from tideflow.compile.structured_flow import structure_control_flow
from tideflow.graph import roles
from tideflow.graph.graph_def import nodes_to_graph_def
from tideflow.graph.kernel import Resources
from tideflow.graph.node import FunctionRef, Node
from tideflow.runtime.binding import Binder
from tideflow.runtime.context import FindFunction, Function, KernelState, Step
from tideflow.runtime.device import Device, DeviceManager
from tideflow.runtime.executor import Executor
from tideflow.runtime.frames import FrameExecutor
from tideflow.runtime.jit_mode import JitMode, jit_mode
from tideflow.runtime.rendezvous import Rendezvous
from tideflow.runtime.straight_calls import FunctionCode, straighten
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.status import is_derived

# For how long a step may be held up in all.
_MOST_WAIT_S = 3.0


class GraphRunner:
    """A graph made ready to run on this task's devices.

    Args:
      nodes: with device names of this task; "" means the client device.
      devices: the task's devices.
      state: the session's kernel state.
      resources: gives a device's named state as the session sees it.
      functions: finds functions of the session's library, for a device.
      jit: when regions of pure nodes are compiled; None for what the environment asks for.

    Attributes:
      has_loops: whether it runs loops of functions, which may take any time.
      levels: how many functions call each other within its straight code, one inside the other.
    Raises: InvalidArgumentError for a device that is not here, or a cycle.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        devices: DeviceManager,
        state: KernelState,
        resources: Callable[[Device], Resources],
        functions: FindFunction | None = None,
        jit: JitMode | None = None,
    ) -> None:
        mode = jit_mode() if jit is None else jit
        nodes = read_after_updates(nodes)
        for node in nodes:
            node.device = (
                devices.get(node.device).name if node.device else (devices.client_device.name)
            )
        self.has_loops = False
        self.levels = 0
        parts = partition(
            nodes,
            location=lambda node: node.device,
            incarnation=lambda name: devices.get(name).incarnation,
            suffix="G",
        )
        self.partitions = parts
        self.executors: list[Executor | FrameExecutor] = []
        self._results: list[tuple[int, int]] = []
        for name, part in parts.items():
            device = devices.get(name)
            found = _on_device(functions, device)
            binder = Binder(name, resources(device), state, found, mode, device.accelerator)
            left = part
            if found is not None:  # who finds functions finds those of branches and loops
                left = structure_control_flow(part)
                if device.accelerator is None:
                    binder.straight = straighten(left, found)
                    calls = binder.straight.values()
                    self.has_loops |= any(call.has_loops for call in calls)
                    self.levels = max([self.levels, *(call.levels for call in calls)])
            if has_control_flow(left):
                self.executors.append(FrameExecutor(left, binder))
            else:
                self.executors.append(Executor(left, binder))
        self._route_results(list(parts.values()))
        only = self.executors[0] if len(self.executors) == 1 else None
        self.is_synchronous = only is not None and only.is_synchronous
        # Whether a caller's thread may run it, where it can wait for the loop (`run_around_wait`).
        self.waits_once = isinstance(only, Executor) and only.waits_once
        # Whether an op may take any time, so that `run` must not be called on the event loop.
        self.blocks = any(node.op_def.blocks for node in nodes)

    @property
    def compiled_regions(self) -> int:
        """How many regions may run compiled at present, outside of v1 loops."""
        plain = [one for one in self.executors if isinstance(one, Executor)]
        return sum(one.compiled_regions for one in plain)

    def _route_results(self, parts: list[list[Node]]) -> None:
        """Note for each result which executor gives it, and as which of its results."""
        where: dict[int, tuple[int, int]] = {}
        for at, part in enumerate(parts):
            indices = sorted(n.attrs["index"] for n in part if n.op_def.role is roles.RESULT)
            for rank, index in enumerate(indices):
                where[index] = (at, rank)
        self._results = [where[index] for index in sorted(where)]
        self._trivial = self._results == [(0, i) for i in range(len(self._results))]

    def run(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run a graph whose `is_synchronous` holds, on the calling thread."""
        executor = self.executors[0]
        return executor.run(step, args)

    def run_around_wait(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run a graph whose `waits_once` holds, on the calling thread but for what waits."""
        executor = self.executors[0]
        assert isinstance(executor, Executor)
        try:
            return executor.run_around_wait(step, args)
        except errors.OpError as error:
            step.rendezvous.abort(error)
            raise

    def run_at_once(self, step: Step, args: Sequence[Any]) -> list[Any] | None:
        """Run the graph on the loop's thread, within the caller's turn; None when it would wait, or
        is not known to be short."""
        executor = self.executors[0]
        if len(self.executors) > 1 or not isinstance(executor, Executor):
            return None
        return executor.run_at_once(step, args)

    async def run_async(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run the graph on the loop.

        The first failure aborts the step's rendezvous and cancels the other parts; it is raised
        once all have ended.
        """
        if not self.executors:  # all that the step wants was known before it
            return []
        if len(self.executors) == 1:
            try:
                return await self.executors[0].run_async(step, args)
            except errors.OpError as error:
                step.rendezvous.abort(error)
                raise
        tasks = [asyncio.ensure_future(e.run_async(step, args)) for e in self.executors]
        try:
            await _all_or_first_error(tasks, step)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        found = [task.result() for task in tasks]
        if self._trivial:
            return found[0]
        return [found[at][rank] for at, rank in self._results]

    def code(self) -> FunctionCode | None:
        """Return the graph's instructions, where all of it is one run of them."""
        executor = self.executors[0] if len(self.executors) == 1 else None
        return executor.code() if isinstance(executor, Executor) else None

    def partition_graphs(self) -> list[pb.GraphDef]:
        """Return the graph of each device as a message."""
        return [nodes_to_graph_def(part) for part in self.partitions.values()]

    @property
    def arg_indices(self) -> list[int]:
        """Which arguments the graph takes; for callers that may leave out the others."""
        return sorted(
            n.attrs["index"]
            for part in self.partitions.values()
            for n in part
            if n.op_def.role is roles.ARGUMENT
        )


async def _all_or_first_error(tasks: list[asyncio.Task[list[Any]]], step: Step) -> None:
    """Wait for all tasks; at the first error abort the step's rendezvous and raise it."""
    pending: set[asyncio.Task[list[Any]]] = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        failed = [t.exception() for t in done if not t.cancelled() and t.exception() is not None]
        if failed:
            error = _root(failed)
            if isinstance(error, errors.OpError):
                step.rendezvous.abort(error)
            raise error


def _root(failed: Sequence[BaseException | None]) -> BaseException:
    """Return the first error that is a cause, else the first one."""
    found = [error for error in failed if error is not None]
    for error in found:
        if not (isinstance(error, errors.OpError) and is_derived(error)):
            return error
    return found[0]


def _on_device(
    functions: FindFunction | None, device: Device
) -> Callable[[FunctionRef, str], Function] | None:
    if functions is None:
        return None
    return lambda ref, target: functions(ref, device, target)


def local_step(step_id: int, *, may_wait: bool = False) -> Step:
    """Return a step that stays within this process.

    may_wait: whether it may be held up while its graph is compiled.  Nobody may wait for it by a
      deadline then, and it must have the thread that it runs on for itself.
    """
    step = Step(step_id, Rendezvous())
    if may_wait:
        step.may_wait_s = _MOST_WAIT_S
    return step
