"""tf.debugging: checks of all numbers that operations give, and how tracebacks are shown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.eager.eager_graph import EagerGraph
from tideflow.eager.tensor import EagerTensor
from tideflow.graph.building import apply_op
from tideflow.graph.defaults import eager_graph, local
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import get_op_def
from tideflow.ops.export import export

_log = logging.getLogger("tensorflow")


@export("debugging.enable_check_numerics")
def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Have operations of this thread fail that give a NaN or an infinity, also in functions.

    Those of functions are checked that are traced from now on.
    Args:
      stack_height_limit, path_length_limit: accepted; a message names the line of the program.
    """
    home = eager_graph()
    if isinstance(home, EagerGraph):
        home.call_op = _Checked(home)  # type: ignore[method-assign]
    local.check = _check_made
    _log.info("numbers are checked in thread %s", threading.current_thread().name)


@export("debugging.disable_check_numerics")
def disable_check_numerics() -> None:
    """Undo enable_check_numerics; functions that are traced already keep their checks."""
    home = eager_graph()
    if home is not None:
        vars(home).pop("call_op", None)
    local.check = None


class _Checked:
    """Calls operations of an eager graph, and looks at what they give."""

    def __init__(self, home: EagerGraph) -> None:
        self._home = home

    def __call__(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], name: str | None
    ) -> Any:
        found = EagerGraph.call_op(self._home, op_name, args, attrs, name)
        count = get_op_def(op_name).checked_outputs
        if count != 0:
            outputs = [*_tensors(found)]
            for i, output in enumerate(outputs[:count]):
                if output.dtype.is_floating and not _is_finite(output):
                    self._refuse(op_name, i, outputs, args)
        return found

    def _refuse(self, op_name: str, at: int, outputs: list[Any], args: Sequence[Any]) -> None:
        text = _message(op_name, at, len(outputs), "eagerly-executing", outputs[at])
        inputs = "\n".join(f"         {i}: {tensor}" for i, tensor in enumerate(_tensors(args)))
        apply_op("CheckNumericsV2", outputs[at], message=f"{text}  Input tensors:\n{inputs}\n")


def _check_made(made: Operation) -> None:
    """Put checks behind an operation of a function."""
    for i, output in enumerate(made.outputs[: made.op_def.checked_outputs]):
        if output.dtype.is_floating:
            text = _message(made.type, i, len(made.outputs), "graph", output)
            file, line = made.made_at
            message = f"{text}  {made.name!r}, made at {file}:{line}\n"
            attrs = {"T": output.dtype, "message": message}
            get_default_graph().create_op("CheckNumericsV2", [output], attrs)


def _tensors(values: Any) -> Iterator[Any]:
    for value in values if isinstance(values, (list, tuple)) else [values]:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _is_finite(tensor: Tensor) -> bool:
    if not isinstance(tensor, EagerTensor) or not tensor.is_here:
        return True
    return bool(np.isfinite(tensor.held).all())


def _message(op_name: str, at: int, count: int, where: str, output: Tensor) -> str:
    return (
        f'\n\n!!! Detected Infinity or NaN in output {at} of {where} op "{op_name}" '
        f"(# of outputs: {count}) !!!\n  dtype: {output.dtype}\n  shape: {output.shape}\n"
    )


# ---- tracebacks


class _Tracebacks(threading.local):
    """Whether a thread's tracebacks leave out frames; it is only told."""

    is_filtered = True


_tracebacks = _Tracebacks()


@export("debugging.enable_traceback_filtering")
def enable_traceback_filtering() -> None:
    """Note that tracebacks may leave out the library's frames; here they are whole."""
    _tracebacks.is_filtered = True


@export("debugging.disable_traceback_filtering")
def disable_traceback_filtering() -> None:
    """Note that tracebacks are to be whole, as they are here."""
    _tracebacks.is_filtered = False


@export("debugging.is_traceback_filtering_enabled")
def is_traceback_filtering_enabled() -> bool:
    """Return what was noted; True at first."""
    return _tracebacks.is_filtered
