"""Run graphs with v1 control flow: frames, iterations and dead tensors.

Rule 1: a node runs when all its inputs and controls arrived in one iteration of one frame.
Rule 2: any dead arrival makes it dead: it is not run, and all it gives is dead.  Merge lives on
        its first live input; ControlTrigger never dies; sends and receives pass deadness on.
Rule 3: Enter leads into a child frame, Exit out of it, NextIteration to the next iteration.  A
        dead NextIteration ends its loop variable; dead Exits pass on once, when the frame ends.
Rule 4: an iteration ends when nothing in it is outstanding, its child frames have ended, the one
        before has ended and, for the first, all Enters were seen.
Source: runtime facts on the executor; tensorflow/core/common_runtime/executor.cc
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import (
    BLOCKING_POOLS,
    KERNELS,
    LOOP_BUDGET_S,
    Durations,
    StopFlag,
    held_place,
    run_blocking,
    weight_of,
)
from tideflow.compile.plan import is_waiting
from tideflow.graph import roles
from tideflow.graph.node import Node, topological_order
from tideflow.platform import clock
from tideflow.runtime.binding import Binder, send_prefix
from tideflow.runtime.context import Step
from tideflow.runtime.eager_start import Resumed, cancel_rest, end_all
from tideflow.runtime.frame_choices import merge, switch, switch_n
from tideflow.runtime.frame_state import DEAD, Arrivals, Frame, Item, Iteration
from tideflow.runtime.program import explain
from tideflow.runtime.references import read_reference, reads_reference
from tideflow.runtime.straight_calls import StraightCall
from tideflow.wire import errors
from tideflow.wire.frame_id import child_frame_id

_PASS = frozenset({roles.ENTER, roles.EXIT, roles.NEXT_ITERATION, roles.LOOP_COND})
# They have no kernel: each is a case of `_compute`.
_CARRIED_OUT_HERE = roles.CONTROL_FLOW | {
    roles.NO_OP,
    roles.CONTROL_TRIGGER,
    roles.ARGUMENT,
    roles.RESULT,
}
# What is dead runs all the same: it may live, or it says that it is dead.
_RUN_WHERE_DEAD = frozenset({roles.MERGE, roles.CONTROL_TRIGGER, roles.RECEIVE})


class DeadFetchError(errors.InvalidArgumentError):
    """A fetched tensor is dead: no branch or loop of the step gave it a value."""


class FrameExecutor:
    """The nodes of one device, some of them v1 control flow, bound and ready.

    Args: as those of tideflow.runtime.executor.Executor.
    """

    def __init__(self, nodes: Sequence[Node], binder: Binder) -> None:
        order = topological_order(nodes)
        self.received = binder.received
        # There, to know which branch is taken is to wait for what is computed.
        self.waits_for_device = binder.accelerator is not None
        self.items = [
            Item(node, i, len(node.edges), len(node.controls)) for i, node in enumerate(order)
        ]
        by_node = {id(item.node): item for item in self.items}
        self.enters: dict[str, int] = {}
        for item in self.items:
            self._connect(item, by_node)
            _bind(item, binder)
            if item.frame_name:
                self.enters[item.frame_name] = self.enters.get(item.frame_name, 0) + 1
        self.roots = [i for i in self.items if not i.input_count and not i.control_count]
        indices = sorted(
            i.node.attrs["index"] for i in self.items if i.node.op_def.role is roles.RESULT
        )
        self.result_rank = {index: rank for rank, index in enumerate(indices)}
        # A loop may never end, so it runs where a timeout or a closing session can stop it.
        self.is_synchronous = not any(
            is_waiting(item.node) or item.node.op_def.role is roles.NEXT_ITERATION
            for item in self.items
        )

    def _connect(self, item: Item, by_node: dict[int, Item]) -> None:
        node = item.node
        item.consumers = item.consumers or [[] for _ in node.output_types]
        for at, (source, port) in enumerate(node.edges):
            producer = by_node[id(source)]
            if not producer.consumers:
                producer.consumers = [[] for _ in source.output_types]
            producer.consumers[port].append((item, at))
        for source in node.controls:
            by_node[id(source)].control_consumers.append(item)
        if node.op_def.role is roles.MERGE:
            from_next = sum(source.op_def.role is roles.NEXT_ITERATION for source, _ in node.edges)
            item.merge_inputs = len(node.edges) - from_next
        if node.op_def.role is roles.ENTER:
            item.frame_name = node.attrs["frame_name"]

    def run(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run a graph that never waits, on the calling thread."""
        run = _FrameRun(self, step, args)
        run.begin()
        run.drain_here()
        return run.results()

    async def run_async(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run the graph on the loop and return its results.

        Raises: what the first failing node raises; DeadFetchError for a dead one.
        """
        run = _FrameRun(self, step, args)
        run.begin()
        return await run.finish()


def _bind(item: Item, binder: Binder) -> None:
    node = item.node
    item.reads = [i for i, reads in enumerate(reads_reference(node)) if reads]
    if node.op_def.role is roles.SEND or node.op_def.role is roles.RECEIVE:
        item.key = send_prefix(node)
        item.call = binder.bind_send(node)
    elif node.op_def.role is roles.CONST:
        value = binder.constant(node)
        item.call = lambda: value
    elif node.op_def.role not in _CARRIED_OUT_HERE:
        item.call = binder.bind(node)
        item.durations = None if node.op_def.is_async else Durations()
        item.has_loops = isinstance(item.call, StraightCall) and item.call.has_loops


class _FrameRun:
    """One run: the frames, what is ready, what waits."""

    def __init__(self, executor: FrameExecutor, step: Step, args: Sequence[Any]) -> None:
        self.executor = executor
        self.step = step
        self.args = args
        self.found: list[Any] = [None] * len(executor.result_rank)
        self.ready: deque[tuple[Item, Iteration, list[Any], bool]] = deque()
        self.launches: list[tuple[Item, Iteration, list[Any]]] = []
        self.finished: deque[tuple[Item, Iteration, Any, int]] = deque()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.changed: asyncio.Future[None] | None = None
        self.error: BaseException | None = None
        root = Frame("", 0, None, 0, 1)
        self.root = Iteration(root, 0)
        root.iterations[0] = self.root
        root.live_iterations = 1
        self.children: dict[tuple[int, str], Frame] = {}

    # ---- driving

    def begin(self) -> None:
        """Make ready what needs nothing."""
        self.root.outstanding += len(self.executor.roots)
        self.ready.extend((item, self.root, [], False) for item in self.executor.roots)

    def results(self) -> list[Any]:
        """Return the fetched values.  Raises: DeadFetchError for a dead one."""
        for index, rank in self.executor.result_rank.items():
            if self.found[rank] is DEAD:
                names = [
                    i.node.edges[0][0].name
                    for i in self.executor.items
                    if i.node.op_def.role is roles.RESULT and i.node.attrs["index"] == index
                ]
                raise DeadFetchError(
                    f"Retval[{index}] does not have value: the fetched tensor of {names[0]!r} is "
                    "dead, since the branch or loop that makes it was not taken in this step",
                    node=names[0],
                )
        return self.found

    def drain_here(self) -> None:
        """Run ready nodes on the thread of a caller, who may be kept for any time."""
        with np.errstate(all="ignore"):
            while self.ready:
                self._process(*self.ready.popleft())

    def _drain_on_loop(self) -> None:
        """Run ready nodes that are known to be short, until the loop's time for them is up."""
        ready = self.ready
        deadline = clock.monotonic_s() + LOOP_BUDGET_S
        with np.errstate(all="ignore"):
            while ready and clock.monotonic_s() < deadline:
                item, iteration, values, dead = ready[0]
                if not dead and not item.is_short(values):
                    return
                ready.popleft()
                self._process(item, iteration, values, dead)

    def _drain_in_thread(self, flag: StopFlag) -> None:
        """Run ready nodes that end by themselves, until none is left or others are to have the
        thread: what waits is launched in between, and a loop may go on for any time."""
        ready = self.ready
        place = held_place()
        with np.errstate(all="ignore"):
            while ready and (ready[0][3] or not ready[0][0].node.op_def.blocks):
                flag.check()
                self._process(*ready.popleft())
                if place is not None and place.is_over():
                    return

    def _run_blocking_node(self, flag: StopFlag) -> None:
        """Run the first ready node, which may take any time."""
        flag.check()
        self._process(*self.ready.popleft())

    async def finish(self) -> list[Any]:
        """Run to the end on the loop."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self.ready:
                    if not self.executor.waits_for_device:
                        self._drain_on_loop()
                    self._launch_all()
                    if self.ready:
                        await self._go_on_in_thread()
                self._launch_all()
                self._take_finished()
                if self.error is not None:
                    raise self.error
                if self.ready:
                    continue
                if not self.tasks:
                    return self.results()
                self.changed = loop.create_future()
                await self.changed
        finally:
            await end_all(self.tasks)

    async def _go_on_in_thread(self) -> None:
        blocks = self.ready[0][0].node.op_def.blocks
        if blocks and not self.ready[0][3]:
            await run_blocking(BLOCKING_POOLS[blocks], self._run_blocking_node, self.step)
        else:
            await run_blocking(KERNELS, self._drain_in_thread, self.step)

    # ---- running one node

    def _process(self, item: Item, iteration: Iteration, values: list[Any], dead: bool) -> None:
        role = item.node.op_def.role
        if role is roles.SEND:
            self._send(item, iteration, values, dead)
        elif dead and role not in _RUN_WHERE_DEAD:
            if role is roles.RESULT:
                self._keep(item, DEAD)
            self._propagate(item, iteration, [DEAD] * len(item.consumers), dead=True)
        elif role is roles.RECEIVE or item.node.op_def.is_async:
            self.launches.append((item, iteration, values))
            return
        else:
            outputs = self._compute_timed(item, values)
            # A Merge of dead inputs alone is dead; everything else that got here lives.
            self._propagate(item, iteration, outputs, dead=dead and role is roles.MERGE)
        self._settle(iteration)

    def _compute_timed(self, item: Item, values: list[Any]) -> list[Any]:
        if item.durations is None:
            return self._compute_observed(item, values)
        started = clock.monotonic_s()
        outputs = self._compute_observed(item, values)
        took = clock.monotonic_s() - started
        # A short run of what is known to be short tells nothing new.
        if took > LOOP_BUDGET_S or item.durations.seconds > LOOP_BUDGET_S:
            item.durations.took(took, weight_of(values))
        return outputs

    def _compute_observed(self, item: Item, values: list[Any]) -> list[Any]:
        if self.step.observer is None:
            return self._compute(item, values)
        started = clock.wall_ns()
        outputs = self._compute(item, values)
        self.step.observer.ran(item.node, started, clock.wall_ns(), outputs)
        return outputs

    def _compute(self, item: Item, values: list[Any]) -> list[Any]:
        """Return the outputs of a live node that does not wait."""
        node = item.node
        role = node.op_def.role
        try:
            if role is roles.MERGE:
                return merge(values, item.reads)
            for i in item.reads:
                values[i] = read_reference(values[i])
            if item.call is not None:
                if node.op_def.takes_step:
                    result = item.call(self.step, *values)
                else:
                    result = item.call(*values)
                return [result] if len(item.consumers) == 1 else list(result or ())
            if role is roles.SWITCH:
                return switch(values[0], values[1])
            if role is roles.SWITCH_N:
                return switch_n(values[0], values[1], len(item.consumers))
        except Exception as error:
            raise explain(error, node, values) from error
        if role in _PASS:
            return [values[0]]
        if role is roles.ARGUMENT:
            return [self.args[node.attrs["index"]]]
        if role is roles.RESULT:
            self._keep(item, values[0])
        return []

    def _keep(self, item: Item, value: Any) -> None:
        self.found[self.executor.result_rank[item.node.attrs["index"]]] = value

    def _send(self, item: Item, iteration: Iteration, values: list[Any], dead: bool) -> None:
        key = f"{item.key}{iteration.frame.frame_id}:{iteration.number}"
        if not dead:
            for i in item.reads:
                values[i] = read_reference(values[i])
        if dead:
            self.step.rendezvous.put(key, None, is_dead=True)
        else:
            item.call(self.step, key, values[0])
        self._propagate(item, iteration, [], dead=dead)

    # ---- nodes that wait

    def _launch_all(self) -> None:
        launches, self.launches = self.launches, []
        for item, iteration, values in launches:
            self._launch(item, iteration, values)

    def _launch(self, item: Item, iteration: Iteration, values: list[Any]) -> None:
        started = clock.wall_ns()
        node = item.node
        try:
            for i in item.reads:
                values[i] = read_reference(values[i])
            if item.key:
                coro = self._receive(item, iteration)
            elif node.op_def.takes_step:
                coro = item.call(self.step, *values)
            else:
                coro = item.call(*values)
            first = coro.send(None)
        except StopIteration as stop:
            self.finished.append((item, iteration, stop.value, started))
            return
        except Exception as error:
            raise explain(error, node, values) from error
        waiting = self._wait(item, iteration, coro, first, started)
        task = asyncio.get_running_loop().create_task(waiting)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        task.add_done_callback(lambda _: cancel_rest(coro, first))

    async def _receive(self, item: Item, iteration: Iteration) -> Any:
        key = f"{item.key}{iteration.frame.frame_id}:{iteration.number}"
        received = await self.step.rendezvous.take(key, item.node.attrs["send_device"])
        return DEAD if received.is_dead else self.executor.received(received.value)

    async def _wait(
        self,
        item: Item,
        iteration: Iteration,
        coro: Coroutine[Any, Any, Any],
        first: Any,
        started: int,
    ) -> None:
        try:
            result = await Resumed(coro, first)
        except Exception as error:
            raise explain(error, item.node, []) from error
        self.finished.append((item, iteration, result, started))

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        # Asked of every task: one whose error nobody asks for complains when it is dropped.
        error = None if task.cancelled() else task.exception()
        self.error = self.error or error
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)

    def _take_finished(self) -> None:
        while self.finished:
            item, iteration, result, started = self.finished.popleft()
            dead = result is DEAD
            single = len(item.consumers) == 1
            outputs = [result] if single or dead else list(result or ())
            if self.step.observer is not None:
                self.step.observer.ran(item.node, started, clock.wall_ns(), outputs)
            self._propagate(item, iteration, outputs, dead)
            self._settle(iteration)

    # ---- passing values on

    def _propagate(
        self, item: Item, iteration: Iteration, outputs: Sequence[Any], dead: bool
    ) -> None:
        role = item.node.op_def.role
        if role is roles.ENTER:
            self._enter(item, iteration, outputs[0])
        elif role is roles.EXIT:
            self._exit(item, iteration, outputs[0])
        elif role is roles.NEXT_ITERATION:
            if outputs[0] is not DEAD:
                self._next(item, iteration, outputs[0])
        else:
            self._deliver(item, iteration, outputs, dead)

    def _deliver(
        self, item: Item, iteration: Iteration, outputs: Sequence[Any], dead: bool
    ) -> None:
        for value, consumers in zip(outputs, item.consumers):
            for consumer, at in consumers:
                self._arrive(consumer, iteration, at, value)
        for consumer in item.control_consumers:
            self._arrive_control(consumer, iteration, dead)

    def _enter(self, item: Item, iteration: Iteration, value: Any) -> None:
        attrs = item.node.attrs
        frame = self._child(iteration, item.frame_name, attrs["parallel_iterations"])
        frame.missing_enters -= 1
        if attrs["is_constant"]:
            frame.invariants.append((item, value))
            for inner in list(frame.iterations.values()):
                self._deliver(item, inner, [value], value is DEAD)
        else:
            self._deliver(item, frame.iterations[0], [value], value is DEAD)
        self._maybe_end(frame.iterations.get(0))

    def _child(self, iteration: Iteration, name: str, parallel: int) -> Frame:
        key = (id(iteration), name)
        frame = self.children.get(key)
        if frame is None:
            frame_id = child_frame_id(iteration.frame.frame_id, iteration.number, name)
            enters = self.executor.enters[name]
            frame = Frame(name, frame_id, iteration, enters, parallel)
            self.children[key] = frame
            iteration.children += 1
            self._start_iteration(frame, 0)
        return frame

    def _start_iteration(self, frame: Frame, number: int) -> Iteration:
        iteration = Iteration(frame, number)
        frame.iterations[number] = iteration
        frame.live_iterations += 1
        for item, value in frame.invariants:
            self._deliver(item, iteration, [value], value is DEAD)
        return iteration

    def _exit(self, item: Item, iteration: Iteration, value: Any) -> None:
        frame = iteration.frame
        if value is DEAD:
            frame.dead_exits[item.index] = item
            return
        frame.dead_exits.pop(item.index, None)
        assert frame.parent is not None
        # A live Exit leaves once; marking it keeps a later dead one from leaving, too.
        frame.dead_exits[-1 - item.index] = item
        self._deliver(item, frame.parent, [value], False)

    def _next(self, item: Item, iteration: Iteration, value: Any) -> None:
        frame = iteration.frame
        number = iteration.number + 1
        following = frame.iterations.get(number)
        if following is None:
            if frame.live_iterations >= frame.parallel:
                frame.deferred.append((item, value))
                return
            following = self._start_iteration(frame, number)
        self._deliver(item, following, [value], False)

    # ---- arrivals

    def _arrive(self, item: Item, iteration: Iteration, at: int, value: Any) -> None:
        arrivals = self._arrivals(item, iteration)
        if item.node.op_def.role is roles.MERGE:
            self._arrive_at_merge(item, iteration, arrivals, at, value)
            return
        if value is DEAD:
            arrivals.dead = True
        arrivals.values[at] = value
        arrivals.missing -= 1
        if not arrivals.missing:
            self._make_ready(item, iteration, arrivals)

    def _arrive_control(self, item: Item, iteration: Iteration, dead: bool) -> None:
        arrivals = self._arrivals(item, iteration)
        arrivals.missing -= 1
        if item.node.op_def.role is roles.MERGE:
            arrivals.controls -= 1
            self._fire_merge(item, iteration, arrivals)
            return
        arrivals.dead = arrivals.dead or dead
        if not arrivals.missing:
            self._make_ready(item, iteration, arrivals)

    def _arrivals(self, item: Item, iteration: Iteration) -> Arrivals:
        found = iteration.arrivals.get(item.index)
        if found is None:
            found = iteration.arrivals[item.index] = Arrivals(item)
            if item.node.op_def.role is roles.MERGE:
                found.values = []
        return found

    def _arrive_at_merge(
        self, item: Item, iteration: Iteration, arrivals: Arrivals, at: int, value: Any
    ) -> None:
        if value is DEAD:
            arrivals.dead_inputs += 1
        elif not arrivals.values:
            arrivals.values = [(value, at)]
        self._fire_merge(item, iteration, arrivals)

    def _fire_merge(self, item: Item, iteration: Iteration, arrivals: Arrivals) -> None:
        if arrivals.fired or arrivals.controls:
            return
        if arrivals.values or arrivals.dead_inputs >= item.merge_inputs:
            arrivals.fired = True
            arrivals.dead = not arrivals.values
            iteration.outstanding += 1
            self.ready.append((item, iteration, arrivals.values, arrivals.dead))

    def _make_ready(self, item: Item, iteration: Iteration, arrivals: Arrivals) -> None:
        iteration.outstanding += 1
        del iteration.arrivals[item.index]
        self.ready.append((item, iteration, arrivals.values, arrivals.dead))

    # ---- ends

    def _settle(self, iteration: Iteration) -> None:
        """Note that a node of an iteration is done."""
        iteration.outstanding -= 1
        if not iteration.outstanding:
            self._maybe_end(iteration)

    def _maybe_end(self, iteration: Iteration | None) -> None:
        """End iterations, and then frames, that have nothing left to do."""
        while iteration is not None and iteration.frame.parent is not None:
            frame = iteration.frame
            if (
                iteration.outstanding
                or iteration.children
                or frame.missing_enters
                or iteration.number - 1 in frame.iterations
                or iteration.number not in frame.iterations
            ):
                return
            del frame.iterations[iteration.number]
            frame.live_iterations -= 1
            if frame.deferred:
                self._run_deferred(frame, iteration.number)
            following = frame.iterations.get(iteration.number + 1)
            if following is not None:
                iteration = following
                continue
            if frame.iterations:
                return
            iteration = self._end_frame(frame)

    def _run_deferred(self, frame: Frame, ended: int) -> None:
        number = max([ended, *frame.iterations]) + 1
        deferred, frame.deferred = frame.deferred, []
        following = self._start_iteration(frame, number)
        for item, value in deferred:
            self._deliver(item, following, [value], False)

    def _end_frame(self, frame: Frame) -> Iteration:
        parent = frame.parent
        assert parent is not None
        self.children.pop((id(parent), frame.name), None)
        for key, item in frame.dead_exits.items():
            if key >= 0 and -1 - key not in frame.dead_exits:
                self._deliver(item, parent, [DEAD], True)
        parent.children -= 1
        return parent
