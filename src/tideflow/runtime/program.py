"""A group of bound nodes as a straight run of calls over slots.

The first runs walk a list of instructions.  A program that keeps running is turned into one Python
function, in which slots are local variables that are dropped after their last use.
"""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tideflow.blocking import KERNELS, Pool, StopFlag, Stopped
from tideflow.graph.node import Node
from tideflow.graph.shapes import format_dims
from tideflow.platform import clock
from tideflow.runtime.input_types import find_wrong_input
from tideflow.wire import errors

# Generating code costs about ten runs of the list; short-lived programs never pay for it.
_RUNS_BEFORE_CODE = 3
# Python compiles long functions slowly, so long programs become several.
_MOST_LINES = 2000
# A step is looked at, whether it was stopped, before each instruction of a program whose ones take
# longer than this, and in others now and then: a look takes a hundredth of it.
_SLOW_INSTRUCTION_S = 5e-6
_LOOK_EVERY = 16
# Calls that are quicker as they are written in Python.
_SIGNS: dict[Any, str] = {operator.add: "+", operator.sub: "-", operator.mul: "*"}
_NESTED_LIST = re.compile(r"\[\[(?!\{\{node )")


class Observer(Protocol):
    """Takes note of each node that runs, for step statistics."""

    def ran(self, node: Node, started_ns: int, ended_ns: int, outputs: Sequence[Any]) -> None:
        """Note one run of a node."""


@dataclass(slots=True)
class Instruction:
    """One call: results of `call` on the slots `inputs` go to the slots `outputs`."""

    call: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    node: Node
    frees: tuple[int, ...] = ()


@dataclass(slots=True)
class _Piece:
    """A generated function.

    Attributes:
      which: the instruction that each line belongs to.
      inputs: by instruction, the variables that its line takes.
    """

    run: Callable[[list[Any]], None]
    which: list[int]
    inputs: dict[int, list[str]]


class Program:
    """Instructions that run one after the other.

    A run ends early, with Stopped, when its step is stopped.

    Args:
      instructions: in order.
      kept: slots whose values are wanted after the run (by other programs, or as results).

    Attributes:
      pool: the threads for runs that are not short.
      is_untried: whether the next run may take longer than those before tell.
      is_held: whether it is not to be compiled, since what it is a part of may be.
    """

    pool: Pool = KERNELS
    is_untried = False
    is_held = False

    def __init__(self, instructions: list[Instruction], kept: set[int]) -> None:
        self.instructions = instructions
        self.kept = kept
        self.runs = 0
        self._look_every = _LOOK_EVERY
        self._pieces: list[_Piece] | None = None
        _mark_last_uses(instructions, kept)

    def run(self, slots: list[Any]) -> None:
        """Run all instructions.

        Raises: OpError that names the failing node.
        """
        with np.errstate(all="ignore"):
            if self._pieces is not None:
                self._run_pieces(self._pieces, slots)
                return
            started = clock.monotonic_s()
            self._walk(slots)
        self.runs += 1
        if self.runs >= _RUNS_BEFORE_CODE:
            if clock.monotonic_s() - started > len(self.instructions) * _SLOW_INSTRUCTION_S:
                self._look_every = 1
            self.make_code()

    def make_code(self, same: Program | None = None) -> None:
        """Turn the list into functions now; those of a program of the same instructions serve."""
        if same is not None:
            same.make_code()
            self._pieces = same._pieces
        elif self._pieces is None:
            self._pieces = _generate(self.instructions, self.kept, self._look_every)

    def _run_pieces(self, pieces: list[_Piece], slots: list[Any]) -> None:
        for piece in pieces:
            try:
                piece.run(slots)
            except Stopped:
                raise
            except Exception as error:
                at, values = _failed(error, piece)
                raise explain(error, self.instructions[at].node, values) from error

    def _walk(self, slots: list[Any]) -> None:
        at = 0
        step: StopFlag = slots[0]
        try:
            for at, one in enumerate(self.instructions):  # noqa: B007 - used in the handler
                if step.is_stopped:
                    step.check()
                result = one.call(*[slots[i] for i in one.inputs])
                outputs = one.outputs
                if len(outputs) == 1:
                    slots[outputs[0]] = result
                elif outputs:
                    for slot, value in zip(outputs, result):
                        slots[slot] = value
                for slot in one.frees:
                    slots[slot] = None
        except Stopped:
            raise
        except Exception as error:
            raise self._explain(error, at, slots) from error

    def run_observed(self, slots: list[Any], observer: Observer) -> None:
        """Run all instructions and report each node to the observer."""
        with np.errstate(all="ignore"):
            self._walk_observed(slots, observer)

    def _walk_observed(self, slots: list[Any], observer: Observer) -> None:
        at = 0
        step: StopFlag = slots[0]
        try:
            for at, one in enumerate(self.instructions):  # noqa: B007 - used in the handler
                step.check()
                started = clock.wall_ns()
                result = one.call(*[slots[i] for i in one.inputs])
                ended = clock.wall_ns()
                found = [result] if len(one.outputs) == 1 else list(result or ())
                for slot, value in zip(one.outputs, found):
                    slots[slot] = value
                observer.ran(one.node, started, ended, found)
        except Stopped:
            raise
        except Exception as error:
            raise self._explain(error, at, slots) from error

    def _explain(self, error: Exception, at: int, slots: list[Any]) -> Exception:
        one = self.instructions[at]
        return explain(error, one.node, [slots[i] for i in one.inputs])


_NOT_BROADCAST = re.compile(
    r"could not be broadcast together with shapes (\([\d,]*\)) (\([\d,]*\))"
)


def explain(error: BaseException, node: Node, inputs: Sequence[Any]) -> errors.OpError:
    """Return what a kernel raised as the error of its node: which op, where, on what.

    An error that names its node already passes unchanged.
    """
    where = f"{node.op} {node.name!r}" + (f" on {node.device}" if node.device else "")
    mark = f"\n\t [[{{{{node {node.name}}}}}]]"
    if isinstance(error, errors.OpError):
        if error.node is not None:
            return error
        text = _without_marks(error.message)
        return error.with_message(f"{where}: {text}{mark}", node=node.name)
    wrong = find_wrong_input(node, inputs)
    if wrong is not None:
        return errors.InvalidArgumentError(f"{where}: {wrong}{mark}", node=node.name)
    given = ", ".join(_describe(value) for value in inputs if value is not None)
    reason = _without_marks(_in_tensorflows_words(str(error)))
    text = f"{where}: {reason} (inputs: {given or 'not recorded'}){mark}"
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError(text, node=node.name)
    if isinstance(error, (ValueError, TypeError, IndexError, ZeroDivisionError)):
        return errors.InvalidArgumentError(text, node=node.name)
    text = f"{where}: {type(error).__name__}: {reason}{mark}"
    return errors.InternalError(text, node=node.name)


def _in_tensorflows_words(reason: str) -> str:
    """Return what NumPy says of shapes that do not broadcast as TensorFlow says it."""
    found = _NOT_BROADCAST.search(reason)
    if found is None:
        return reason
    shapes = [f"[{shape.strip('(),')}]" for shape in found.groups()]
    return f"Incompatible shapes: {shapes[0]} vs. {shapes[1]}"


def _without_marks(text: str) -> str:
    """Part the brackets of nested lists: TensorFlow's clients take `[[` for the mark of a node.

    Marks that are there, since the error came from another task, stay.
    """
    return _NESTED_LIST.sub("[ [", text)


def _describe(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype}{format_dims(value.shape)}"
    return type(value).__name__


def _mark_last_uses(instructions: list[Instruction], kept: set[int]) -> None:
    made: set[int] = set()
    for one in instructions:
        made.update(one.outputs)
    seen: set[int] = set()
    for one in reversed(instructions):
        touched = {*one.inputs, *one.outputs}
        one.frees = tuple(s for s in touched if s in made and s not in kept and s not in seen)
        seen.update(touched)


def _failed(error: BaseException, piece: _Piece) -> tuple[int, list[Any]]:
    """Return which instruction of a generated piece raised, and its inputs; None for one that the
    piece does not hold any more."""
    traceback = error.__traceback__
    wanted = piece.run.__code__
    while traceback is not None:
        if traceback.tb_frame.f_code is wanted:
            at = piece.which[traceback.tb_lineno - 1]
            values = traceback.tb_frame.f_locals
            return at, [values.get(name) for name in piece.inputs.get(at, ())]
        traceback = traceback.tb_next
    return 0, []


def _generate(instructions: list[Instruction], kept: set[int], look_every: int) -> list[_Piece]:
    """Return functions that together do what the instructions do.

    look_every: before how many instructions they look whether the step was stopped.
    """
    pieces = []
    for first in range(0, len(instructions), _MOST_LINES):
        part = instructions[first : first + _MOST_LINES]
        later = {s for one in instructions[first + _MOST_LINES :] for s in one.inputs}
        pieces.append(_generate_piece(part, first, kept | later, look_every))
    return pieces


def _generate_piece(part: list[Instruction], first: int, kept: set[int], look_every: int) -> _Piece:
    names: dict[str, Any] = {}
    lines = ["def piece(s):"]
    which = [first]
    taken: dict[int, list[str]] = {}
    variables = _Variables()

    def add(text: str, index: int) -> None:
        lines.append(text)
        which.append(first + index)

    if len(part) > 1:
        add(" step=s[0]", 0)
    for i, one in enumerate(part):
        if i and not i % look_every:
            add(" if step.is_stopped: step.check()", i)
        for slot in one.inputs:
            if slot not in variables.of:
                add(f" {variables.take(slot)}=s[{slot}]", i)
        inputs = [variables.of[slot] for slot in one.inputs]
        taken[first + i] = inputs
        # A result takes the place of a value that is not needed any more.
        variables.give_up(slot for slot in one.frees if slot not in one.outputs)
        targets = ",".join([variables.take(slot) for slot in one.outputs])
        # Only built-in functions are looked up: other calls may have no hash.
        is_known = len(inputs) == 2 and isinstance(one.call, types.BuiltinFunctionType)
        sign = _SIGNS.get(one.call) if is_known else None
        if sign is None:
            names[f"f{i}"] = one.call
            call = f"f{i}({','.join(inputs)})"
        else:
            call = sign.join(inputs)
        add(f" {targets}={call}" if targets else f" {call}", i)
        for slot in one.outputs:
            if slot in kept:
                add(f" s[{slot}]={variables.of[slot]}", i)
        variables.give_up(slot for slot in one.frees if slot in one.outputs)
        dropped = variables.drop()
        if dropped:
            add(f" {'='.join(dropped)}=None", i)
    if len(lines) == 1:
        add(" pass", 0)
    exec(compile("\n".join(lines), "<tideflow plan>", "exec"), names)
    return _Piece(names["piece"], which, taken)


class _Variables:
    """The local variables of generated code: few, each for many slots, one after the other.

    Attributes:
      of: the variable of each slot that has a value now.
    """

    def __init__(self) -> None:
        self.of: dict[int, str] = {}
        self._count = 0
        # Free ones that hold nothing, and those that still hold their last value.
        self._empty: list[str] = []
        self._full: list[str] = []

    def take(self, slot: int) -> str:
        """Return the variable of a slot, one that was given up if it has none."""
        found = self.of.get(slot)
        if found is None:
            if self._full or self._empty:
                found = (self._full or self._empty).pop()
            else:
                found = f"v{self._count}"
                self._count += 1
            self.of[slot] = found
        return found

    def give_up(self, slots: Iterable[int]) -> None:
        """Let others have the variables of slots."""
        for slot in slots:
            found = self.of.pop(slot, None)
            if found is not None:
                self._full.append(found)

    def drop(self) -> list[str]:
        """Return the variables whose values are to be dropped, since nobody took their place."""
        dropped, self._full = self._full, []
        self._empty += dropped
        return dropped
