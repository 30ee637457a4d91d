"""Functions that datasets call, with what they captured.

Rule 1: each call has a step of its own, so calls that run at once cannot meet.
Rule 2: a function that turned out to take long leaves the event loop for a thread; short ones run
        where they are, since a change of thread costs more than they do.
Rule 3: whoever produces many elements lets others have the loop now and then (`Turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from tideflow.blocking import (
    DATA,
    GRAPHS,
    LOOP_BUDGET_S,
    Durations,
    StopFlag,
    has_loop,
    run_blocking,
    weight_of,
)
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import find_op_def
from tideflow.ops.control_flow import truth
from tideflow.ops.data.values import Dataset, Element, Iterator, fail, owned
from tideflow.platform import clock
from tideflow.wire import dtypes, errors

T = TypeVar("T")

# Functions of one iterator have state of their own, such as that of random numbers; it is kept by
# the iterator that somebody asked, and found by all below it, in tasks that they start, too.
_scope: ContextVar[dict[Any, Any] | None] = ContextVar("tideflow_dataset_scope", default=None)


def enter_scope(scope: dict[Any, Any]) -> None:
    """Let functions that are called first from here on have their state in a scope."""
    _scope.set(scope)


def current_scope() -> dict[Any, Any] | None:
    """Return the scope that is in force, if any is."""
    return _scope.get()


class OnLoop:
    """A call that needs the event loop, asked of whoever drives a coroutine without one."""

    __slots__ = ("call",)

    def __init__(self, call: Coroutine[Any, Any, Any]) -> None:
        self.call = call

    def __await__(self) -> Generator[OnLoop, Any, Any]:
        return (yield self)


def drive(coro: Coroutine[Any, Any, Any], run: Callable[[Coroutine[Any, Any, Any]], Any]) -> Any:
    """Run a coroutine in the calling thread, which saves the way to the loop and back.

    It may await functions of datasets, and give others a turn; nothing else that needs a loop.
    run: runs a call on the loop and waits for it.
    """
    step: Callable[[Any], Any] = coro.send
    given: Any = None
    while True:
        try:
            asked = step(given)
        except StopIteration as done:
            return done.value
        step, given = coro.send, None
        if asked is not None:
            try:
                given = run(asked.call)
            except BaseException as error:
                step, given = coro.throw, error


class _ReachedOnLoop:
    """An iterator that needs the event loop, for those below it that may be without one."""

    __slots__ = ("_iterator",)

    def __init__(self, iterator: Iterator) -> None:
        self._iterator = iterator

    async def next(self) -> Element | None:
        call = self._iterator.next()
        found: Element | None = await (call if has_loop() else OnLoop(call))
        return found


def iterator_of(dataset: Dataset) -> Iterator:
    """Return an iterator over a dataset that was made while another is walked over.

    Whoever walks over the other may be without an event loop.
    """
    iterator = dataset.iterator()
    return iterator if dataset.is_direct else _ReachedOnLoop(iterator)


class Function:
    """A function of a dataset, with its captured inputs.

    Args:
      ctx: the context of the node that names it.
      ref: the function.
      captured: what follows the element in its arguments.
    """

    __slots__ = ("_captured", "_ctx", "_durations", "_function", "_has_run", "_ref")

    def __init__(self, ctx: KernelContext, ref: FunctionRef, captured: Sequence[Any] = ()) -> None:
        self._ctx = ctx
        self._ref = ref
        self._captured = tuple(owned(value) for value in captured)
        self._function: Any = None
        self._durations = Durations()
        # The first call may compile, so it does not count.
        self._has_run = False

    @property
    def is_quick(self) -> bool:
        """Whether a call is over at once, on the loop, as far as past calls tell."""
        if self._function is None:
            return False
        is_simple = self._function.is_synchronous and not self._function.blocks
        return bool(is_simple) and self._durations.seconds <= LOOP_BUDGET_S

    async def _ready(self, is_on_loop: bool) -> Any:
        if self._function is None:
            scope = _scope.get()

            def make(flag: StopFlag | None = None) -> Any:
                found = self._ctx.function(self._ref)
                return found if scope is None else found.anew(scope)

            self._function = await run_blocking(GRAPHS, make) if is_on_loop else make()
        return self._function

    async def __call__(self, *args: Any) -> list[Any]:
        """Return the results.  Raises: the function's own errors."""
        is_on_loop = has_loop()
        function = await self._ready(is_on_loop)
        # A step is a flag, too, by which whoever is cancelled stops a function in a thread.
        step: Any = self._ctx.detached_step()
        args += self._captured
        found: list[Any]
        if not function.is_synchronous or (is_on_loop and function.blocks):
            call = function(step, *args)
            found = await (call if is_on_loop else OnLoop(call))
            return found
        weight = weight_of(args)
        started = clock.monotonic_s()
        if not is_on_loop or self._durations.is_short(weight):
            found = function.run(step, args)
        else:
            found = await run_blocking(DATA, lambda _: function.run(step, args), step)
        if self._has_run:
            self._durations.took(clock.monotonic_s() - started, weight)
        self._has_run = True
        return found

    async def element(self, *args: Any, preserves_cardinality: bool = False) -> Element | None:
        """Return the results as an element; None where the function says that input has ended.

        Raises: InvalidArgumentError where it says so although it must not.
        """
        try:
            return tuple(await self(*args))
        except errors.OutOfRangeError as error:
            if preserves_cardinality:
                raise error_like(
                    error,
                    "Function invocation produced OutOfRangeError: " + error.message,
                ) from error
            return None

    async def truth(self, *args: Any, what: str) -> bool:
        """Return the result of a predicate.

        Raises: InvalidArgumentError for one that gives anything but a scalar bool.
        """
        found = await self(*args)
        if len(found) != 1 or getattr(found[0], "shape", None) != () or found[0].dtype != bool:
            raise fail(f"{what} must return a scalar bool.")
        return truth(found[0])


class CapturedFunction:
    """A function of a dataset with its captured inputs, from which each iterator makes its own.

    Args: as of Function.
    """

    __slots__ = ("_captured", "_ctx", "_ref")

    def __init__(self, ctx: KernelContext, ref: FunctionRef, captured: Sequence[Any] = ()) -> None:
        self._ctx = ctx
        self._ref = ref
        self._captured = tuple(owned(value) for value in captured)

    def stateful_ops(self) -> list[str]:
        """Return the ops with state that the function calls itself."""
        definition = self._ref.definition
        nodes = () if definition is None else definition.outline.node_def
        return [node.op for node in nodes if has_state(node.op)]

    def instantiate(self) -> Function:
        """Return the function for one iterator."""
        return Function(self._ctx, self._ref, self._captured)


def has_state(op: str) -> bool:
    """Whether an op has state that elements depend on."""
    known = find_op_def(op)
    if known is None or not known.is_stateful or not known.changes_elements:
        return False
    # Datasets count as ops with state, so that none is made twice.
    return not known.outputs or any(arg.dtype is not dtypes.variant for arg in known.outputs)


def error_like(error: errors.OpError, text: str) -> errors.OpError:
    """Return an InvalidArgumentError that names the node of another error."""
    return errors.InvalidArgumentError(text, node=error.node)
