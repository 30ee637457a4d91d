"""Run a plan: programs of straight code between the nodes that wait.

`Executor.run` serves plans that never wait, on the caller's thread, and `Executor.run_around_wait`
those that wait for one thing, such as the next element of a dataset.  `Executor.run_async` serves
all, on the loop; programs that are not known to be short go to a worker thread meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import BLOCKING_POOLS, KERNELS, LOOP_BUDGET_S, StopFlag, run_blocking
from tideflow.compile.plan import Plan, make_plan
from tideflow.graph import roles
from tideflow.graph.node import Node
from tideflow.platform import clock
from tideflow.runtime.binding import Binder, InstructionMaker, is_receive, send_prefix
from tideflow.runtime.blas_threads import give_back, take_one
from tideflow.runtime.context import Step
from tideflow.runtime.device_program import DeviceProgram
from tideflow.runtime.eager_start import Resumed, cancel_rest, end_all
from tideflow.runtime.group_code import GroupCode, Launch, Straight, instructions_of, parts_of
from tideflow.runtime.jit_mode import JitMode
from tideflow.runtime.jit_program import JitProgram
from tideflow.runtime.loop import run_sync
from tideflow.runtime.program import Instruction, Observer, Program, explain
from tideflow.runtime.rendezvous import Received
from tideflow.runtime.straight_calls import FunctionCode
from tideflow.wire import errors

# Runs that bring each other values leave the loop to others after this time.
_MOST_TURN_S = 0.002


class Executor:
    """A plan bound to a device.

    Args:
      nodes: the nodes of one device, without v1 control flow.
      binder: makes them runnable.
    """

    def __init__(self, nodes: Sequence[Node], binder: Binder) -> None:
        self.plan: Plan = make_plan(nodes)
        maker = InstructionMaker(self.plan, binder)
        self._binder = binder
        groups = [parts_of(group.nodes, maker) for group in self.plan.groups]
        self._groups = self._make_programs(groups, maker.initial)
        self._template: list[Any] = [None] * maker.slot_count
        for slot, value in maker.initial.items():
            self._template[slot] = value
        self._constants = maker.initial
        self._results = [slot for slot, _ in sorted(self.plan.retvals, key=lambda r: r[1])]

    @property
    def is_synchronous(self) -> bool:
        """Whether `run` will do."""
        return self.plan.is_synchronous

    @property
    def waits_once(self) -> bool:
        """Whether `run_around_wait` will do: a single node waits, for nothing of other devices."""
        parts = [part for group in self._groups for part in group.parts]
        launches = [part for part in parts if isinstance(part, Launch)]
        return len(launches) == 1 and not launches[0].key

    @property
    def compiled_regions(self) -> int:
        """How many regions may run compiled at present."""
        return sum(one.compiled_regions for one in self.programs if isinstance(one, JitProgram))

    @property
    def programs(self) -> list[Program]:
        """The straight code of the plan, in order."""
        parts = [part for group in self._groups for part in group.parts]
        return [part for part in parts if isinstance(part, Program)]

    def code(self) -> FunctionCode | None:
        """Return the plan's instructions, where nothing in it waits or may take any time."""
        programs = self.programs
        if not self.is_synchronous or any(one.pool is not KERNELS for one in programs):
            return None
        instructions = [one for program in programs for one in program.instructions]
        return FunctionCode(
            instructions, self._constants, dict(self.plan.args), self._results, programs
        )

    def received(self, value: Any) -> Any:
        """Return a value that came through the rendezvous for use here."""
        return self._binder.received(value)

    def _make_programs(
        self, groups: list[list[Straight | Launch]], constants: dict[int, Any]
    ) -> list[GroupCode]:
        """Make programs that know which of their values are wanted outside them."""
        users: dict[int, set[int]] = {}
        for index, part in enumerate(part for group in groups for part in group):
            for one in instructions_of(part):
                for slot in one.inputs:
                    users.setdefault(slot, set()).add(index)
        results = {slot for slot, _ in self.plan.retvals}
        index = -1
        made_groups = []
        for group in groups:
            parts: list[Program | Launch] = []
            for part in group:
                index += 1
                if isinstance(part, Launch):
                    parts.append(part)
                    continue
                made = {s for one in part.instructions for s in one.outputs}
                kept = {s for s in made if s in results or users.get(s, set()) - {index}}
                parts.append(self._make_program(part, kept, constants))
            made_groups.append(GroupCode(parts, constants.keys()))
        return made_groups

    def _make_program(
        self, straight: Straight, kept: set[int], constants: dict[int, Any]
    ) -> Program:
        binder = self._binder
        if straight.blocks:
            program = Program(straight.instructions, kept)
            program.pool = BLOCKING_POOLS[straight.blocks]
            return program
        if binder.accelerator is not None:
            return DeviceProgram(
                straight.instructions, kept, straight.nodes, constants, binder.accelerator,
                binder.resources,
            )  # fmt: skip
        if binder.jit is JitMode.NEVER:
            return Program(straight.instructions, kept)
        return JitProgram(
            straight.instructions, kept, straight.nodes, constants, binder.resources, binder.jit
        )

    def _start(self, step: Step, args: Sequence[Any]) -> list[Any]:
        slots = self._template.copy()
        slots[0] = step
        for slot, index in self.plan.args:
            slots[slot] = args[index]
        if step.observer is not None:
            self._report_known(step.observer, slots)
        return slots

    def _report_known(self, observer: Observer, slots: list[Any]) -> None:
        """Report what needs no instruction, such as constants, so that a step that has nothing else
        tells where it ran, as TensorFlow's do."""
        parts = [part for group in self._groups for part in group.parts]
        run = {id(one.node) for part in parts for one in instructions_of(part)}
        now = clock.wall_ns()
        for node in self.plan.order:
            if id(node) not in run and node.op_def.role not in (roles.ARGUMENT, roles.RESULT):
                ports = range(len(node.output_types))
                observer.ran(node, now, now, [slots[self.plan.slots[id(node), i]] for i in ports])

    def run(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run a plan that never waits; return its results.  May be called from any thread."""
        slots = self._start(step, args)
        for group in self._groups:
            for part in group.parts:
                assert isinstance(part, Program)
                _run(part, slots, step.observer)
        return [slots[slot] for slot in self._results]

    def run_around_wait(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run a plan whose `waits_once` holds; return its results.

        Only the node that waits runs on the loop, so the calling thread must not be the loop's.
        """
        slots = self._start(step, args)
        pairs = sorted(zip(self.plan.groups, self._groups), key=lambda pair: pair[0].waits_for)
        for _, code in pairs:
            for part in code.parts:
                if isinstance(part, Program):
                    _run(part, slots, step.observer)
            # The rest of its group needs nothing of it, and happens whatever it ends with.
            for part in code.parts:
                if isinstance(part, Launch):
                    _wait(part, slots, step.observer)
        return self.results(slots)

    def run_at_once(self, step: Step, args: Sequence[Any]) -> list[Any] | None:
        """Run the plan on the loop's thread, within the caller's turn, and return its results; None
        when it would wait, or is not known to be short."""
        groups = self._groups
        if not self.is_synchronous or sum(code.seconds for code in groups) > LOOP_BUDGET_S:
            return None
        slots = self._start(step, args)
        # A plan that never waits is one group.
        weights = [code.weight(slots) for code in groups]
        if not all(code.is_short(weight) for code, weight in zip(groups, weights)):
            return None
        count = take_one()
        try:
            for code, weight in zip(groups, weights):
                started = clock.monotonic_s()
                for part in code.parts:
                    assert isinstance(part, Program)
                    _run(part, slots, step.observer)
                code.took(clock.monotonic_s() - started, weight)
        finally:
            give_back(count)
        return [slots[slot] for slot in self._results]

    async def run_async(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run the plan on the loop; return its results.

        When a node fails or the call is cancelled, what was started is cancelled and awaited
        before the error goes on.
        """
        slots = self._start(step, args)
        return await _PlanRun(self, step, slots).finish()

    def results(self, slots: list[Any]) -> list[Any]:
        """Return the results out of the slots of a finished run."""
        return [slots[slot] for slot in self._results]


def _run(program: Program, slots: list[Any], observer: Observer | None) -> None:
    if observer is None:
        program.run(slots)
    else:
        program.run_observed(slots, observer)


def _wait(launch: Launch, slots: list[Any], observer: Observer | None) -> None:
    """Run a waiting node on the loop, and wait for it in the calling thread."""
    one = launch.instruction
    started = clock.wall_ns()
    try:
        for read in launch.reads:
            slots[read.outputs[0]] = read.call(slots[read.inputs[0]])
        result = run_sync(one.call(*[slots[i] for i in one.inputs]))
    except Exception as error:
        raise explain(error, one.node, [slots[i] for i in one.inputs]) from error
    found = [result] if len(one.outputs) == 1 else list(result or ())
    for slot, value in zip(one.outputs, found):
        slots[slot] = value
    if observer is not None:
        observer.ran(one.node, started, clock.wall_ns(), found)


class _Turn(threading.local):
    """What runs on this thread's loop now."""

    def __init__(self) -> None:
        self.is_taken = False
        # Runs that got a value from the groups that run; they follow, one after the other.
        self.waiting: deque[_PlanRun] = deque()


_turn = _Turn()


class _Receipt:
    """A receive of a run: goes on with the run as soon as its value comes."""

    __slots__ = ("_is_over", "launch", "run", "started")

    def __init__(self, run: _PlanRun, launch: Launch, started: int) -> None:
        self.run = run
        self.launch = launch
        self.started = started
        self._is_over = False

    def done(self) -> bool:
        return self._is_over

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.run.loop

    def set_result(self, received: Received, /) -> None:
        self.end()
        self.run.go_on(self.launch.instruction, received, self.started)

    def set_exception(self, error: errors.OpError, /) -> None:
        self.end()
        self.run.fail(explain(error, self.launch.instruction.node, []))

    def ask(self) -> None:
        self.end()
        self.run.ask_for(self.launch, self.started)

    def end(self) -> None:
        """Wait no more."""
        self._is_over = True
        self.run.receipts.discard(self)


class _PlanRun:
    """One run of a plan on the loop.

    Rule 1: whoever brings the last value that a short group waits for runs it at once, in its own
            turn of the loop: what it sends leaves without waiting for another turn.
    Rule 2: one group runs at a time.  Long ones are left to `finish`, which gives them to a thread.
    """

    __slots__ = (
        "busy", "changed", "dead", "error", "executor", "long", "loop", "pending", "ready",
        "receipts", "slots", "step", "tasks",
    )  # fmt: skip

    def __init__(self, executor: Executor, step: Step, slots: list[Any]) -> None:
        self.executor = executor
        self.step = step
        self.slots = slots
        self.pending = [group.waits_for for group in executor.plan.groups]
        self.ready = deque(i for i, count in enumerate(self.pending) if not count)
        self.long: deque[int] = deque()
        # Whether a group runs, here or in a thread.
        self.busy = False
        # Groups that depend on a tensor which another device's control flow left uncomputed.
        self.dead: set[int] = set()
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.receipts: set[_Receipt] = set()
        self.changed: asyncio.Future[None] | None = None
        self.error: BaseException | None = None

    async def finish(self) -> list[Any]:
        """Run everything and return the results."""
        is_done = False
        try:
            while True:
                self._advance()
                if self.error is not None:
                    raise self.error
                if self.long:
                    await self._run_long(self.long.popleft())
                elif self.tasks or self.receipts or self.ready:
                    # What is ready though waits for its turn: another run goes on around this one.
                    self.changed = self.loop.create_future()
                    await self.changed
                else:
                    is_done = True
                    return self.executor.results(self.slots)
        finally:
            await self._stop()
            if not is_done:
                # The traceback keeps this run; what its values hold, such as locks, goes now.
                self.slots.clear()

    async def _stop(self) -> None:
        """Leave nothing behind: cancel what still waits and see it end."""
        self.busy = True
        for receipt in list(self.receipts):
            receipt.end()
        await end_all(self.tasks)

    def _advance(self) -> None:
        """Run the short groups that are ready, unless one runs, which is followed by them.

        What goes wrong becomes the run's error.
        """
        if self.busy:
            return
        if _turn.is_taken:
            _turn.waiting.append(self)
            return
        _turn.is_taken = True
        ends = clock.monotonic_s() + _MOST_TURN_S
        try:
            self._run_ready()
            while _turn.waiting:
                run = _turn.waiting.popleft()
                if clock.monotonic_s() < ends:
                    run._go_on_later()
                else:
                    run.loop.call_soon(run._next_turn)
        finally:
            _turn.is_taken = False

    def _go_on_later(self) -> None:
        if not self.busy:
            self._run_ready()
            self._settle()

    def _next_turn(self) -> None:
        self._advance()
        self._settle()

    def _run_ready(self) -> None:
        self.busy = True
        ready = self.ready
        try:
            while ready and self.error is None:
                index = ready.popleft()
                code = self.executor._groups[index]
                if index in self.dead:
                    self._skip_group(index)
                    continue
                weight = code.weight(self.slots)
                if not code.is_short(weight):
                    self.long.append(index)
                else:
                    started = clock.monotonic_s()
                    self._run_here(code.parts)
                    self._ran(index, clock.monotonic_s() - started, weight)
        except Exception as error:
            self.error = self.error or error
        finally:
            self.busy = False

    def _settle(self) -> None:
        """Wake `finish` when there is something for it to do."""
        if (self.tasks or self.receipts) and self.error is None and not self.long:
            return
        if self.changed is not None and not self.changed.done():
            self.changed.set_result(None)

    def go_on(self, one: Instruction, received: Received, started: int) -> None:
        """Take a received value, and run what waited for it (call on the loop)."""
        self._finish_received(one, received, started)
        self._advance()
        self._settle()

    def fail(self, error: BaseException) -> None:
        """End the run with an error, unless it has one (call on the loop)."""
        self.error = self.error or error
        self._settle()

    async def _run_long(self, index: int) -> None:
        """Run a group's programs in a thread."""
        code = self.executor._groups[index]
        weight = code.weight(self.slots)
        took = 0.0
        self.busy = True
        for part in code.parts:
            if isinstance(part, Program):
                run = functools.partial(self._run_timed, part)
                took += await run_blocking(part.pool, run, self.step)
            else:
                self._launch(part)
        self.busy = False
        self._ran(index, took, weight)

    def _run_timed(self, program: Program, flag: StopFlag) -> float:
        """Run a program in a thread; return how long it took, without the way there."""
        started = clock.monotonic_s()
        self._run_program(program)
        return clock.monotonic_s() - started

    def _ran(self, index: int, took: float, weight: int) -> None:
        self.executor._groups[index].took(took, weight)
        self._done(self.executor.plan.groups[index].then)

    def _run_here(self, parts: Sequence[Program | Launch]) -> None:
        count = take_one()
        try:
            for part in parts:
                if isinstance(part, Program):
                    self._run_program(part)
                else:
                    self._launch(part)
        finally:
            give_back(count)

    def _skip_group(self, index: int) -> None:
        """Let a dead group pass its deadness on, in place of running it; receives still happen.

        Raises: InternalError when it holds a result.
        """
        group = self.executor.plan.groups[index]
        launches = {
            id(part.instruction.node): part
            for part in self.executor._groups[index].parts
            if isinstance(part, Launch)
        }
        for node in group.nodes:
            if node.op_def.role is roles.SEND:
                self.step.rendezvous.put(send_prefix(node) + "0:0", None, is_dead=True)
            elif node.op_def.role is roles.RESULT:
                name = node.edges[0][0].name
                raise errors.InternalError(
                    f"the fetched tensor of {name!r} is dead: the branch that makes it was not "
                    "taken",
                    node=name,
                )
            elif id(node) in launches:
                if is_receive(node):
                    self._launch(launches[id(node)])
                else:
                    self._kill(self.executor.plan.waiters[id(node)])
        self._kill(group.then)

    def _kill(self, waiting: Sequence[int]) -> None:
        self.dead.update(waiting)
        self._done(waiting)

    def _run_program(self, program: Program) -> None:
        _run(program, self.slots, self.step.observer)

    def _done(self, waiting: Sequence[int]) -> None:
        for index in waiting:
            self.pending[index] -= 1
            if not self.pending[index]:
                self.ready.append(index)

    def _launch(self, launch: Launch) -> None:
        """Start a waiting node; finish it at once if it need not wait."""
        one = launch.instruction
        slots = self.slots
        started = clock.wall_ns()
        try:
            for read in launch.reads:
                slots[read.outputs[0]] = read.call(slots[read.inputs[0]])
            if launch.key:
                self._launch_receive(launch, started)
                return
            coro = one.call(*[slots[i] for i in one.inputs])
            first = coro.send(None)
        except StopIteration as stop:
            self._finish(one, stop.value, started)
            return
        except Exception as error:
            raise explain(error, one.node, [slots[i] for i in one.inputs]) from error
        self._wait_for(one, coro, first, started)

    def _launch_receive(self, launch: Launch, started: int) -> None:
        rendezvous = self.step.rendezvous
        received = rendezvous.take_nowait(launch.key)
        if received is not None:
            self._finish_received(launch.instruction, received, started)
            return
        receipt = _Receipt(self, launch, started)
        self.receipts.add(receipt)
        if not rendezvous.expect(launch.key, launch.send_device, receipt):
            receipt.ask()

    def ask_for(self, launch: Launch, started: int) -> None:
        """Ask for a value that may not come by itself (call on the loop)."""
        one = launch.instruction
        coro = self.step.rendezvous.take(launch.key, launch.send_device)
        try:
            first = coro.send(None)
        except StopIteration as stop:
            self.go_on(one, stop.value, started)
        except Exception as error:
            self.fail(explain(error, one.node, []))
        else:
            self._wait_for(one, coro, first, started)

    def _wait_for(
        self, one: Instruction, coro: Coroutine[Any, Any, Any], first: Any, started: int
    ) -> None:
        """Let a task wait for what a started coroutine gives."""
        task = self.loop.create_task(self._wait(one, coro, first, started))
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        task.add_done_callback(lambda _: cancel_rest(coro, first))

    async def _wait(
        self, one: Instruction, coro: Coroutine[Any, Any, Any], first: Any, started: int
    ) -> None:
        try:
            result = await Resumed(coro, first)
        except Exception as error:
            raise explain(error, one.node, [self.slots[i] for i in one.inputs]) from error
        if is_receive(one.node):
            self._finish_received(one, result, started)
        else:
            self._finish(one, result, started)
        self._advance()

    def _finish_received(self, one: Instruction, received: Received, started: int) -> None:
        if received.is_dead:
            self._kill(self.executor.plan.waiters[id(one.node)])
            return
        value = received.value
        if type(value) is np.ndarray and not value.ndim and value.dtype != object:
            # Arithmetic on NumPy's scalars is several times faster.
            value = value if value.dtype.names else value[()]
        self._finish(one, self.executor.received(value), started)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        # Asked of every task: one whose error nobody asks for complains when it is dropped.
        error = None if task.cancelled() else task.exception()
        self.error = self.error or error
        self._settle()

    def _finish(self, one: Instruction, result: Any, started: int) -> None:
        outputs = one.outputs
        found = [result] if len(outputs) == 1 else list(result or ())
        for slot, value in zip(outputs, found):
            self.slots[slot] = value
        if self.step.observer is not None:
            self.step.observer.ran(one.node, started, clock.wall_ns(), found)
        self._done(self.executor.plan.waiters[id(one.node)])
