"""Assertions and printing.

Source: tensorflow/core/kernels/logging_ops.cc.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.formats import open_file
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs, same_as, scalar
from tideflow.graph.tracing import Trace, is_known, refuse
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.framework.text_format import summarize_value
from tideflow.platform import clock
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError

_log = logging.getLogger(__name__)


def _check_condition(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have compiled code check a condition; straight code tells of the data."""
    condition = inputs[0]
    if np.ndim(condition):
        raise refuse("a condition that is no scalar")
    trace.check(condition)
    return ()


@op(
    """
    Assert(condition: bool, data: *T)
    T: list(type) >= 1
    summarize: int = 3
    """,
    shape=no_outputs,
    stateful=True,
    any_device=True,
    traced=_check_condition,
    changes_elements=False,
)
def assert_kernel(ctx: KernelContext, condition: Array, data: list[Any], *, summarize: int) -> None:
    """Do nothing.  Raises: InvalidArgumentError with the data when the condition is false."""
    if np.ndim(condition):
        raise InvalidArgumentError(
            f"the condition must be a scalar; its shape is {list(np.shape(condition))}"
        )
    if not condition:
        said = " ".join(f"[{summarize_value(value, summarize)}]" for value in data)
        raise InvalidArgumentError(f"assertion failed: {said}")


not_differentiable("Assert")


@export("Assert", "debugging.Assert")
def Assert(
    condition: TensorLike,
    data: Iterable[Any],
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """Return an operation that fails with the data when the condition is false.

    Where operations are called at once it fails at once, and else returns None.
    """
    graph, most = get_default_graph(), 3 if summarize is None else summarize
    if graph.is_eager:
        # Another task would fail later, at an operation that has nothing to do with it.
        with graph.device(None):
            apply_op("Assert", condition, list(data), summarize=most)
        return None
    return apply_op("Assert", condition, list(data), summarize=most, name=name)


@op(
    """
    Print(input: T, data: *U) -> output: T
    T: type
    U: list(type) >= 0
    message: string = ''
    first_n: int = -1
    summarize: int = 3
    """,
    shape=lambda c: [c.inputs[0]],
    stateful=True,
    blocks="files",
)
def print_kernel(
    ctx: KernelContext, x: Array, data: list[Any], *, message: str, first_n: int, summarize: int
) -> Any:
    """Write the data to standard error, the first first_n times that it runs; return x."""
    counter = ctx.memo(itertools.count)
    if first_n < 0 or next(counter) < first_n:
        parts = "".join(f"[{summarize_value(value, summarize)}]" for value in data)
        sys.stderr.write(f"{message}{parts}\n")
    return x


@gradient("Print")
def print_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on."""
    return [grad] + [None] * (len(op.edges) - 1)


@export("Print")
def Print(
    input_: TensorLike,
    data: Iterable[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return input_; whenever it is evaluated, write the data to standard error."""
    made: Tensor = apply_op(
        "Print",
        input_,
        list(data),
        message=message,
        first_n=first_n,
        summarize=summarize,
        name=name,
    )
    return made


_LOG_LEVELS = {
    "log(info)": logging.INFO,
    "log(warning)": logging.WARNING,
    "log(error)": logging.ERROR,
}


@op(
    """
    PrintV2(input: string)
    output_stream: string = 'stderr'
    end: string = '\\n'
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
    changes_elements=False,
)
def print_v2_kernel(
    ctx: KernelContext, step: StepContext, text: Array | bytes, *, output_stream: str, end: str
) -> None:
    """Write a string to standard error or output, to the log, or at the end of a file.

    Raises: InvalidArgumentError for an unknown stream or a value that is no scalar.
    """
    if np.ndim(text):
        raise InvalidArgumentError(f"PrintV2 wants a scalar; found {list(np.shape(text))}")
    said: bytes = np.asarray(text, object).item()
    line = said.decode("utf-8", "replace") + end
    if output_stream in ("stdout", "stderr"):
        stream = sys.stdout if output_stream == "stdout" else sys.stderr
        stream.write(line)
        stream.flush()
    elif output_stream in _LOG_LEVELS:
        _log.log(_LOG_LEVELS[output_stream], "%s", line.rstrip("\n"))
    elif output_stream.startswith("file://"):
        with open_file(output_stream.removeprefix("file://"), "ab") as file:
            step.check()  # to open a pipe is to wait for who reads it
            file.write(said + end.encode())
    else:
        raise InvalidArgumentError(
            f"output stream {output_stream!r} is none of stdout, stderr, {', '.join(_LOG_LEVELS)} "
            "and file://PATH"
        )


not_differentiable("PrintV2")


@export("print")
def print_v2(
    *inputs: Any,
    output_stream: object | None = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = os.linesep,
    name: str | None = None,
) -> Any:
    """Return an operation that writes tensors and other values out.

    Where operations are called at once it has written, and returns None.

    Args:
      output_stream: sys.stdout, sys.stderr (default), or a name that PrintV2 takes.
      summarize: how many elements to show at each end of a dimension; -1 for all.
    """
    tensors: list[Tensor] = []
    template = sep.join(_template(value, tensors) for value in inputs)
    stream = output_stream or "stderr"
    if stream is sys.stdout:
        stream = "stdout"
    elif stream is sys.stderr:
        stream = "stderr"
    if len(inputs) == 1 and len(tensors) == 1 and _is_scalar_string(tensors[0]):
        text = tensors[0]  # written as it is, without quotes
    else:
        text = apply_op(
            "StringFormat",
            tensors,
            template=template,
            placeholder=_PLACEHOLDER,
            summarize=summarize,
        )
    made = apply_op("PrintV2", text, output_stream=stream, end=end, name=name)
    return None if get_default_graph().is_eager else made


_PLACEHOLDER = "\N{OBJECT REPLACEMENT CHARACTER}"


def _template(value: object, tensors: list[Tensor]) -> str:
    """Return how a value is printed, with a placeholder for each tensor in it."""
    if _is_symbolic(value):
        tensors.append(convert_to_tensor(value))
        return _PLACEHOLDER
    if isinstance(value, (list, tuple, dict)) and any(map(_is_symbolic, nest.flatten(value))):
        if isinstance(value, dict):
            items = (f"{key!r}: {_template(item, tensors)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        inside = ", ".join(_template(item, tensors) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return str(value)


def _is_scalar_string(tensor: Tensor) -> bool:
    return tensor.dtype.base_dtype is dtypes.string and tensor.dims == ()


def _is_symbolic(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


# ---- numbers that are no numbers


def _check_numerics(x: Array, message: str, signed: bool) -> Any:
    wide = np.asarray(x).astype(np.float64)
    found = []
    if signed and np.isneginf(wide).any():
        found.append("-Inf")
    if np.isposinf(wide).any() if signed else np.isinf(wide).any():
        found.append("+Inf" if signed else "Inf")
    if np.isnan(wide).any():
        found.append("NaN")
    if found:
        raise InvalidArgumentError(f"{message} : Tensor had {' and '.join(found)} values")
    return x


def _check_finite(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have compiled code check that numbers are finite."""
    tensor = inputs[0]
    xp = np if is_known(tensor) else trace.jnp
    trace.check(xp.isfinite(tensor).all())
    return tensor


@op(
    """
    CheckNumerics(tensor: T) -> output: T
    T: type in floats
    message: string
    """,
    shape=same_as(0),
    stateful=True,
    any_device=True,
    traced=_check_finite,
    checked_outputs=0,
    only_checks=True,
)
def check_numerics_kernel(ctx: KernelContext, x: Array, *, message: str) -> Any:
    """Return x.  Raises: InvalidArgumentError when it holds a NaN or an infinity."""
    return _check_numerics(x, message, signed=False)


@op(
    """
    CheckNumericsV2(tensor: T) -> output: T
    T: type in floats
    message: string
    """,
    shape=same_as(0),
    stateful=True,
    any_device=True,
    traced=_check_finite,
    is_stated=True,
    checked_outputs=0,
)
def check_numerics_v2_kernel(ctx: KernelContext, x: Array, *, message: str) -> Any:
    """Return x.  Raises: InvalidArgumentError when it holds a NaN or an infinity."""
    return _check_numerics(x, message, signed=True)


@gradient("CheckNumerics", "CheckNumericsV2")
def check_numerics_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on, checked too."""
    text = f"Not a number (NaN) or infinity (Inf) in the gradient of {op.name}"
    return [apply_op(op.type, grad, message=text)]


@export("check_numerics", "debugging.check_numerics")
def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return a tensor; running it fails with the message if it holds a NaN or an infinity."""
    made: Tensor = apply_op("CheckNumerics", tensor, message=message, name=name)
    return made


@op("Timestamp() -> ts: double", shape=scalar, stateful=True, changes_elements=False)
def timestamp_kernel(ctx: KernelContext) -> Any:
    """Return the seconds since 1970."""
    return np.float64(clock.wall_s())


not_differentiable("Timestamp")


@export("timestamp")
def timestamp(name: str | None = None) -> Tensor:
    """Return the seconds since 1970, when it runs."""
    made: Tensor = apply_op("Timestamp", name=name)
    return made
