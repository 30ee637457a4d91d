"""Rows changed in copies of a tensor, tensors without a value, and copies.

TensorFlow's kernels of InplaceUpdate and its like change their input, where nobody else may see it;
here the input stays as it is.

Source: tensorflow/core/kernels/inplace_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _in_place(name: str, change: str) -> None:
    """Define an op that changes rows, one after the other."""

    @op(
        f"{name}(x: T, i: int32, v: T) -> y: T\nT: type",
        shape=same_as(0),
        compiles=Compiles.NEVER,
    )
    def changed(xp: ArrayNamespace, x: Array, i: Array, v: Array) -> Any:
        _check_rows(np.shape(x), np.shape(i), np.shape(v))
        made = np.array(x)
        if not len(made):
            return made
        for row, value in zip(np.asarray(i).tolist(), v):
            at = row % len(made)
            if change == "add":
                made[at] += value
            elif change == "subtract":
                made[at] -= value
            else:
                made[at] = value
        return made

    changed.__name__ = name


def _check_rows(x: tuple[int, ...], i: tuple[int, ...], v: tuple[int, ...]) -> None:
    """Refuse what are no rows of x, with their places in i."""
    if not v:
        raise errors.InvalidArgumentError("v must be at least 1-dimensional; it is a scalar")
    if len(i) != 1 or i[0] != v[0]:
        raise errors.InvalidArgumentError(
            f"i must be a vector of a place for each row of v, {v[0]}; its shape is "
            f"{shapes.format_dims(i)}"
        )
    if len(x) != len(v) or x[1:] != v[1:]:
        raise errors.InvalidArgumentError(
            f"x and v must have rows of one shape; found {shapes.format_dims(x)} and "
            f"{shapes.format_dims(v)}"
        )


_in_place("InplaceUpdate", "set")
_in_place("InplaceAdd", "add")
_in_place("InplaceSub", "subtract")


@op(
    """
    Empty(shape: int32) -> output: dtype
    dtype: type
    init: bool = false
    """,
    shape=lambda c: [c.value_as_shape(0)],
    stateful=True,
)
def empty(ctx: KernelContext, shape: Array, *, dtype: DType, init: bool) -> Any:
    """Return a tensor of zeros, or empty strings, whether they are asked for (init) or not."""
    if np.ndim(shape) != 1:
        raise errors.InvalidArgumentError(
            f"shape must be a vector of int32, got shape {shapes.format_dims(np.shape(shape))}"
        )
    sizes = np.asarray(shape).tolist()
    if any(size < 0 for size in sizes):
        raise errors.InvalidArgumentError(f"a shape has no negative sizes; found {sizes}")
    if dtype is dtypes.string:
        return np.full(sizes, b"", object)
    return np.zeros(sizes, dtype.as_numpy_dtype)


def _parallel_shape(c: ShapeContext) -> list[Dims]:
    wanted: TensorShape = c.attrs["shape"]
    if not wanted.is_fully_defined():
        raise ValueError("shape attr must be fully defined.")
    inner = wanted.sizes or ()
    for dims in c.inputs:
        if dims is None or None in dims:
            raise ValueError("All input shapes must be fully defined.")
        if not dims or dims[0] != 1:
            raise ValueError("Size of first dimension must be 1.")
        if dims[1:] != inner[1:]:
            raise ValueError(f"an input has shape {list(dims)}; rows of {list(inner)} are wanted")
    return [inner]


@op(
    """
    ParallelConcat(values: N * T) -> output: T
    N: int >= 1
    T: type
    shape: shape
    """,
    shape=_parallel_shape,
    compiles=Compiles.NEVER,
)
def parallel_concat(xp: ArrayNamespace, values: list[Any], *, shape: TensorShape) -> Any:
    """Return rows [1, ...] joined along their first axis."""
    made = np.concatenate([np.asarray(value) for value in values], 0)
    if made.shape != shape.sizes:
        raise errors.InvalidArgumentError(
            f"the rows make {shapes.format_dims(made.shape)}; {shape} is declared"
        )
    return made


for _name, _attrs in (
    ("Copy", "\ntensor_name: string = ''\ndebug_ops_spec: list(string) = []"),
    ("CopyHost", "\ntensor_name: string = ''\ndebug_ops_spec: list(string) = []"),
):

    @op(
        f"{_name}(input: T) -> output: T\nT: type{_attrs}",
        shape=same_as(0),
        allows_uninitialized_input=True,
    )
    def _copy(ctx: KernelContext, x: Array, **attrs: object) -> Any:
        """Pass a tensor on: nothing here changes one in place."""
        return x


@op("DeepCopy(x: T) -> y: T\nT: type", shape=same_as(0), stateful=True)
def deep_copy(ctx: KernelContext, x: Array) -> Any:
    """Pass a tensor on: nothing here changes one in place."""
    return x


not_differentiable(
    "Copy", "CopyHost", "DeepCopy", "Empty", "InplaceAdd", "InplaceSub", "InplaceUpdate"
)
