"""A group of bound nodes as a straight run of calls over slots.

The first runs walk a list of instructions.  A program that keeps running is turned into one Python
function, in which slots are local variables that are dropped after their last use.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tideflow.graph.node import Node
from tideflow.graph.shapes import format_dims
from tideflow.wire import errors

# Generating code costs about ten runs of the list; short-lived programs never pay for it.
_RUNS_BEFORE_CODE = 3
# Python compiles long functions slowly, so long programs become several.
_MOST_LINES = 2000
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
    """A generated function, and which instruction each of its lines belongs to."""

    run: Callable[[list[Any]], None]
    which: list[int]


class Program:
    """Instructions that run one after the other.

    Args:
      instructions: in order.
      kept: slots whose values are wanted after the run (by other programs, or as results).
    """

    def __init__(self, instructions: list[Instruction], kept: set[int]) -> None:
        self.instructions = instructions
        self.kept = kept
        self.runs = 0
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
            self._walk(slots)
        self.runs += 1
        if self.runs >= _RUNS_BEFORE_CODE:
            self.make_code()

    def make_code(self, same: Program | None = None) -> None:
        """Turn the list into functions now; those of a program of the same instructions serve."""
        if same is not None:
            same.make_code()
            self._pieces = same._pieces
        elif self._pieces is None:
            self._pieces = _generate(self.instructions, self.kept)

    def _run_pieces(self, pieces: list[_Piece], slots: list[Any]) -> None:
        for piece in pieces:
            try:
                piece.run(slots)
            except Exception as error:
                raise self._explain(error, _line_of(error, piece), slots) from error

    def _walk(self, slots: list[Any]) -> None:
        at = 0
        try:
            for at, one in enumerate(self.instructions):  # noqa: B007 - used in the handler
                result = one.call(*[slots[i] for i in one.inputs])
                outputs = one.outputs
                if len(outputs) == 1:
                    slots[outputs[0]] = result
                elif outputs:
                    for slot, value in zip(outputs, result):
                        slots[slot] = value
                for slot in one.frees:
                    slots[slot] = None
        except Exception as error:
            raise self._explain(error, at, slots) from error

    def run_observed(self, slots: list[Any], observer: Observer) -> None:
        """Run all instructions and report each node to the observer."""
        with np.errstate(all="ignore"):
            self._walk_observed(slots, observer)

    def _walk_observed(self, slots: list[Any], observer: Observer) -> None:
        at = 0
        try:
            for at, one in enumerate(self.instructions):  # noqa: B007 - used in the handler
                started = time.time_ns()
                result = one.call(*[slots[i] for i in one.inputs])
                ended = time.time_ns()
                found = [result] if len(one.outputs) == 1 else list(result or ())
                for slot, value in zip(one.outputs, found):
                    slots[slot] = value
                observer.ran(one.node, started, ended, found)
        except Exception as error:
            raise self._explain(error, at, slots) from error

    def _explain(self, error: Exception, at: int, slots: list[Any]) -> Exception:
        one = self.instructions[at]
        # Generated code keeps values in local variables; the list has them only in part.
        values = [slots[i] for i in one.inputs]
        return explain(error, one.node, values)


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
    given = ", ".join(_describe(value) for value in inputs if value is not None)
    reason = _without_marks(str(error))
    text = f"{where}: {reason} (inputs: {given or 'not recorded'}){mark}"
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError(text, node=node.name)
    if isinstance(error, (ValueError, TypeError, IndexError, ZeroDivisionError)):
        return errors.InvalidArgumentError(text, node=node.name)
    text = f"{where}: {type(error).__name__}: {reason}{mark}"
    return errors.InternalError(text, node=node.name)


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


def _line_of(error: BaseException, piece: _Piece) -> int:
    """Return which instruction of a generated piece raised."""
    traceback = error.__traceback__
    wanted = piece.run.__code__
    while traceback is not None:
        if traceback.tb_frame.f_code is wanted:
            return piece.which[traceback.tb_lineno - 1]
        traceback = traceback.tb_next
    return 0


def _generate(instructions: list[Instruction], kept: set[int]) -> list[_Piece]:
    """Return functions that together do what the instructions do."""
    pieces = []
    for first in range(0, len(instructions), _MOST_LINES):
        part = instructions[first : first + _MOST_LINES]
        later = {s for one in instructions[first + _MOST_LINES :] for s in one.inputs}
        pieces.append(_generate_piece(part, first, kept | later))
    return pieces


def _generate_piece(part: list[Instruction], first: int, kept: set[int]) -> _Piece:
    names: dict[str, Any] = {}
    lines = ["def piece(s):"]
    which = [first]
    made: set[int] = set()

    def add(text: str, index: int) -> None:
        lines.append(text)
        which.append(first + index)

    for i, one in enumerate(part):
        names[f"f{i}"] = one.call
        for slot in one.inputs:
            if slot not in made:
                made.add(slot)
                add(f" v{slot}=s[{slot}]", i)
        call = f"f{i}({','.join(f'v{slot}' for slot in one.inputs)})"
        made.update(one.outputs)
        targets = ",".join(f"v{slot}" for slot in one.outputs)
        add(f" {targets}={call}" if targets else f" {call}", i)
        for slot in one.outputs:
            if slot in kept:
                add(f" s[{slot}]=v{slot}", i)
        dropped = [slot for slot in one.frees if slot in made]
        if dropped:
            add(f" {'='.join(f'v{slot}' for slot in dropped)}=None", i)
    if len(lines) == 1:
        add(" pass", 0)
    exec(compile("\n".join(lines), "<tideflow plan>", "exec"), names)
    return _Piece(names["piece"], which)
