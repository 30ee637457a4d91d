"""A function of the rows of tensors, called for each of them.

Source: tensorflow/core/kernels/data/map_defun_op.cc.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from tideflow.graph import shapes as static_shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.data.functions import Function
from tideflow.ops.data.values import dims_of, fail, row, stack
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

# Calls that are made at once.
_AT_ONCE = 64


def _rows_shape(c: ShapeContext) -> list[Dims]:
    """Give each output one row for each of the inputs'."""
    counts = {dims[0] for dims in c.inputs[: len(c.attrs["Targuments"])] if dims}
    count = counts.pop() if len(counts) == 1 else None
    given = dims_of(c.attrs["output_shapes"])
    return [None if dims is None else (count, *dims) for dims in given]


def _count_rows(arguments: list[Any]) -> int:
    for i, value in enumerate(arguments):
        if not np.ndim(value):
            raise fail(f"All inputs must have rank at least 1. Input {i} has a rank of 0.")
        if len(value) != len(arguments[0]):
            raise fail(
                f"All inputs must have the same dimension 0. Input {i} has leading dimension "
                f"{len(value)}, while all previous inputs have leading dimension "
                f"{len(arguments[0])}"
            )
    return len(arguments[0])


def _check_row(found: list[Any], types: list[DType], shapes: tuple[Dims, ...]) -> None:
    if len(found) != len(types):
        raise fail("Mismatch in number of function outputs.")
    for i, (value, dtype, dims) in enumerate(zip(found, types, shapes)):
        kind = np.asarray(value).dtype
        if kind != np.dtype(dtype.as_numpy_dtype):
            raise fail(f"Mismatch in function return type and expected output type for output: {i}")
        if not static_shapes.compatible(np.shape(value), dims):
            raise fail(
                f"Mismatch in function retval shape, {list(np.shape(value))}, and expected output "
                f"shape, {static_shapes.format_dims(dims)}."
            )


@op(
    """
    MapDefun(arguments: *Targuments, captured_inputs: *Tcaptured) -> output: *output_types
    Targuments: list(type) >= 1
    Tcaptured: list(type) >= 0 = []
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    f: func
    max_intra_op_parallelism: int = 1
    """,
    shape=_rows_shape,
)
async def map_defun(
    ctx: KernelContext,
    arguments: list[Any],
    captured_inputs: list[Any],
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    f: FunctionRef,
) -> list[Any]:
    """Return what a function gives for each row of the arguments, one below the other.

    Raises: InvalidArgumentError for arguments of different numbers of rows, and for results of
      other types or shapes than are declared, or of different ones.
    """
    count = _count_rows(arguments)
    shapes = dims_of(output_shapes)
    if not count:
        return [
            np.zeros((0, *(size for size in dims or () if size is not None)), dtype.as_numpy_dtype)
            for dtype, dims in zip(output_types, shapes)
        ]
    function = Function(ctx, f, captured_inputs)

    async def called(index: int) -> list[Any]:
        found = await function(*(row(value, index) for value in arguments))
        _check_row(found, output_types, shapes)
        return found

    results = [await called(0)]
    for start in range(1, count, _AT_ONCE):
        indices = range(start, min(start + _AT_ONCE, count))
        try:
            async with asyncio.TaskGroup() as calls:
                tasks = [calls.create_task(called(i)) for i in indices]
        except* errors.OpError as failed:
            raise failed.exceptions[0] from None
        results += [task.result() for task in tasks]
    return [
        stack(column, dtype, i)
        for i, (column, dtype) in enumerate(zip(zip(*results), output_types))
    ]
