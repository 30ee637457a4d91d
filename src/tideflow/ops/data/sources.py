"""Datasets that read no other dataset.

Source: tensorflow/core/ops/dataset_ops.cc; core/kernels/data/{range,tensor,tensor_slice,generator}
_dataset_op.cc.
"""

from __future__ import annotations

from collections.abc import Iterator as PyIterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes as static_shapes
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.functions import Function, Turns
from tideflow.ops.data.values import Dataset, Element, dims_of, fail, owned, rows, scalar
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


class Listed:
    """Gives the elements of a Python iterator."""

    __slots__ = ("_elements", "_turns")

    def __init__(self, elements: PyIterator[Element]) -> None:
        self._elements = elements
        self._turns = Turns()

    async def next(self) -> Element | None:
        await self._turns.pause()
        return next(self._elements, None)


@op(
    """
    RangeDataset(start: int64, stop: int64, step: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    replicate_on_split: bool = false
    """,
    shape=scalar_shape,
    stateful=True,
)
def range_dataset(
    ctx: Any,
    start: Any,
    stop: Any,
    step: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the dataset of the integers from start up to stop."""
    by = int(scalar(step, "step"))
    if not by:
        raise fail("step must be a non-zero integer.")
    numbers = range(int(scalar(start, "start")), int(scalar(stop, "stop")), by)
    kind = output_types[0].as_numpy_dtype
    return Dataset(
        "Range",
        output_types,
        dims_of(output_shapes),
        lambda: Listed((kind(i),) for i in numbers),
        len(numbers),
    )


@op(
    """
    TensorDataset(components: *Toutput_types) -> handle: variant
    Toutput_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def tensor_dataset(
    ctx: Any,
    components: list[Any],
    *,
    Toutput_types: list[DType],
) -> Any:
    """Return the dataset whose one element is the components."""
    element = tuple(owned(value) for value in components)
    shapes = [np.shape(value) for value in element]
    return Dataset("Tensor", Toutput_types, shapes, lambda: Listed(iter([element])), 1)


@op(
    """
    TensorSliceDataset(components: *Toutput_types) -> handle: variant
    Toutput_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    is_files: bool = false
    metadata: string = ''
    replicate_on_split: bool = false
    """,
    shape=scalar_shape,
    stateful=True,
)
def tensor_slice_dataset(
    ctx: Any,
    components: list[Any],
    *,
    Toutput_types: list[DType],
) -> Any:
    """Return the dataset of the rows of the components."""
    columns = [owned(np.asarray(value)) for value in components]
    counts = {static_shapes.format_dims(column.shape[:1]): len(column) for column in columns}
    if len(counts) != 1:
        raise fail(
            "All components must have the same size in the 0th dimension; they have "
            + " and ".join(counts)
        )
    return Dataset(
        "TensorSlice",
        Toutput_types,
        [column.shape[1:] for column in columns],
        lambda: Listed(zip(*map(rows, columns))),
        len(columns[0]),
    )


class _Generated:
    """Gives what a function makes of a state, which another one made."""

    __slots__ = ("_ended", "_finalize", "_init", "_next", "_state")

    def __init__(self, init: Function, make: Function, finalize: Function) -> None:
        self._init = init
        self._next = make
        self._finalize = finalize
        self._state: Sequence[Any] | None = None
        self._ended = False

    async def next(self) -> Element | None:
        if self._ended:
            return None
        if self._state is None:
            self._state = await self._init()
        try:
            return tuple(await self._next(*self._state))
        except errors.OutOfRangeError:
            self._ended = True
        await self._finalize(*self._state)
        return None


@op(
    """
    GeneratorDataset(
        init_func_other_args: *Tinit_func_args, next_func_other_args: *Tnext_func_args,
        finalize_func_other_args: *Tfinalize_func_args
    ) -> handle: variant
    init_func: func
    next_func: func
    finalize_func: func
    Tinit_func_args: list(type) >= 0
    Tnext_func_args: list(type) >= 0
    Tfinalize_func_args: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def generator_dataset(
    ctx: Any,
    init_func_other_args: list[Any],
    next_func_other_args: list[Any],
    finalize_func_other_args: list[Any],
    *,
    init_func: FunctionRef,
    next_func: FunctionRef,
    finalize_func: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the dataset of what next_func gives until it says that there is no more."""
    return Dataset(
        "Generator",
        output_types,
        dims_of(output_shapes),
        lambda: _Generated(
            Function(ctx, init_func, init_func_other_args),
            Function(ctx, next_func, next_func_other_args),
            Function(ctx, finalize_func, finalize_func_other_args),
        ),
    )
