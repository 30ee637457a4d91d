"""Running sums and products along an axis.

`exclusive` leaves an element out of its own result; `reverse` runs from the far end.
Source: scan_ops.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.wire.errors import InvalidArgumentError


def _scan_shape(c: ShapeContext) -> list[Dims]:
    dims = c.inputs[0]
    axis = c.value(1)
    if dims is not None and axis is not None and not -len(dims) <= int(axis) < len(dims):
        raise ValueError(f"axis {int(axis)} lies outside an input of rank {len(dims)}")
    return [dims]


def _scan(
    xp: Any, run: Any, unit: object, x: Any, axis: Array, exclusive: bool, reverse: bool
) -> Any:
    """Run along the axis; `unit` is what an empty run gives."""
    at = int(axis)
    if not -x.ndim <= at < x.ndim:
        raise InvalidArgumentError(
            f"ScanOp: Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {at}"
        )
    if reverse:
        x = xp.flip(x, at)
    if exclusive and x.shape[at]:
        first = xp.full_like(xp.take(x, xp.arange(1), axis=at), unit)
        rest = xp.take(x, xp.arange(x.shape[at] - 1), axis=at)
        x = xp.concatenate([first, rest], axis=at)
    found = run(x, at)
    return xp.flip(found, at) if reverse else found


@op(
    """
Cumsum(x: T, axis: Tidx) -> out: T
exclusive: bool = false
reverse: bool = false
T: type in numbers
Tidx: type in indices = int32
""",
    shape=_scan_shape,
    static=("axis",),
    compiles=Compiles.ALWAYS,
)
def _cumsum(xp: ArrayNamespace, x: Array, axis: Array, *, exclusive: bool, reverse: bool) -> Any:
    def run(values: Array, at: int) -> Any:
        return xp.cumsum(values, at, values.dtype)

    return _scan(xp, run, 0, x, axis, exclusive, reverse)


@op(
    """
Cumprod(x: T, axis: Tidx) -> out: T
exclusive: bool = false
reverse: bool = false
T: type in numbers
Tidx: type in indices = int32
""",
    shape=_scan_shape,
    static=("axis",),
    compiles=Compiles.ALWAYS,
)
def _cumprod(xp: ArrayNamespace, x: Array, axis: Array, *, exclusive: bool, reverse: bool) -> Any:
    def run(values: Array, at: int) -> Any:
        return xp.cumprod(values, at, values.dtype)

    return _scan(xp, run, 1, x, axis, exclusive, reverse)


@op(
    """
CumulativeLogsumexp(x: T, axis: Tidx) -> out: T
exclusive: bool = false
reverse: bool = false
T: type in floats
Tidx: type in indices = int32
""",
    shape=_scan_shape,
    static=("axis",),
)
def _cumulative_logsumexp(
    xp: ArrayNamespace, x: Array, axis: Array, *, exclusive: bool, reverse: bool
) -> Any:
    lowest = np.asarray(-np.inf, x.dtype)

    def run(values: Array, at: int) -> Any:
        if xp is np:
            return np.logaddexp.accumulate(values, at).astype(values.dtype)
        top = xp.max(values, axis=at, keepdims=True, initial=lowest)
        shift = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        return xp.log(xp.cumsum(xp.exp(values - shift), at, values.dtype)) + shift

    return _scan(xp, run, lowest, x, axis, exclusive, reverse)


def _scan_attrs(op: Operation) -> dict[str, Any]:
    return {"exclusive": op.attrs["exclusive"], "reverse": op.attrs["reverse"]}


@gradient("Cumsum")
def _cumsum_grad(op: Operation, grad: Tensor) -> list[Any]:
    attrs = _scan_attrs(op)
    attrs["reverse"] = not attrs["reverse"]
    return [apply_op("Cumsum", grad, op.inputs[1], **attrs), None]


@gradient("Cumprod")
def _cumprod_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, axis = op.inputs
    attrs = _scan_attrs(op)
    weighted = apply_op("Mul", conj(op.outputs[0]), grad)
    attrs["reverse"] = not attrs["reverse"]
    total = apply_op("Cumsum", weighted, axis, **attrs)
    return [apply_op("RealDiv", total, conj(x)), None]


@gradient("CumulativeLogsumexp")
def _cumulative_logsumexp_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, axis = op.inputs
    attrs = _scan_attrs(op)
    back = {**attrs, "reverse": not attrs["reverse"]}
    lowest = np.array(op.attrs["T"].min, op.attrs["T"].as_numpy_dtype)
    zero = np.zeros((), op.attrs["T"].as_numpy_dtype)

    def part(sign: str) -> Any:
        # Logarithms of the positive and of the negative gradients, summed backwards.
        marked = apply_op(sign, grad, zero)
        size = apply_op("Log", apply_op("Abs", grad))
        logs = apply_op("SelectV2", marked, size, lowest)
        run = apply_op("CumulativeLogsumexp", apply_op("Sub", logs, op.outputs[0]), axis, **back)
        return apply_op("Exp", apply_op("AddV2", run, x))

    return [apply_op("Sub", part("Greater"), part("Less")), None]


@export("math.cumsum", "cumsum")
def cumsum(
    x: TensorLike,
    axis: TensorLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the running sum along an axis.  Shape and type stay.

    Raises: ValueError or InvalidArgumentError for an axis that x does not have.
    """
    return apply_op("Cumsum", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@export("math.cumprod", "cumprod")
def cumprod(
    x: TensorLike,
    axis: TensorLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the running product along an axis.  Shape and type stay."""
    return apply_op("Cumprod", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@export("math.cumulative_logsumexp")
def cumulative_logsumexp(
    x: TensorLike,
    axis: TensorLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return log(cumsum(exp(x))) along an axis, without overflow."""
    return apply_op("CumulativeLogsumexp", x, axis, exclusive=exclusive, reverse=reverse, name=name)
