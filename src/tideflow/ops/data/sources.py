"""Datasets that read no other dataset.

Source: tensorflow/core/ops/dataset_ops.cc; core/kernels/data/{range,tensor,tensor_slice,generator}
_dataset_op.cc.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator as PyIterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.blocking import Turns
from tideflow.graph import shapes as static_shapes
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, Function
from tideflow.ops.data.values import Element, Splits, fail, owned, row, rows
from tideflow.wire import dtypes, errors
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


@dataset_op(
    """
    RangeDataset(start: int64, stop: int64, step: int64)
    replicate_on_split: bool = false
    """,
    stateful=True,
    direct=True,
)
def range_dataset(start: int, stop: int, step: int, output_types: list[DType]) -> Elements:
    """Return the dataset of the integers from start up to stop."""
    if not step:
        raise fail("step must be a non-zero integer.")
    if not output_types[0].is_integer and not output_types[0].is_floating:
        raise fail(f"a range has numbers; {output_types[0].name} was asked for")
    numbers = range(start, stop, step)
    kind = output_types[0].as_numpy_dtype
    splits = Splits(numbers, lambda i: (kind(i),))
    return Elements(lambda: Listed((kind(i),) for i in numbers), len(numbers), splits=splits)


@dataset_op("TensorDataset(components: *Toutput_types)", stateful=True, direct=True)
def tensor_dataset(components: list[Any]) -> Elements:
    """Return the dataset whose one element is the components."""
    element = tuple(owned(value) for value in components)
    return Elements(
        lambda: Listed(iter([element])),
        1,
        shapes=[np.shape(value) for value in element],
        splits=Splits(range(1), lambda i: element),
    )


@dataset_op(
    """
    TensorSliceDataset(components: *Toutput_types)
    is_files: bool = false
    replicate_on_split: bool = false
    """,
    stateful=True,
    direct=True,
)
def tensor_slice_dataset(components: list[Any]) -> Elements:
    """Return the dataset of the rows of the components."""
    columns = [owned(np.asarray(value)) for value in components]
    counts = {static_shapes.format_dims(column.shape[:1]): len(column) for column in columns}
    if len(counts) != 1:
        raise fail(
            "All components must have the same size in the 0th dimension; they have "
            + " and ".join(counts)
        )
    return Elements(
        lambda: Listed(zip(*map(rows, columns))),
        len(columns[0]),
        shapes=[column.shape[1:] for column in columns],
        splits=Splits(
            range(len(columns[0])), lambda i: tuple(row(column, i) for column in columns)
        ),
    )


def _groups(values: Sequence[Any], types: Sequence[DType], what: str) -> list[Element]:
    """Return values that follow each other as elements.

    Raises: InvalidArgumentError where there are no whole elements.
    """
    size = len(types)
    if len(values) % size:
        raise fail(f"{what} must be a multiple of {size} values; there are {len(values)}")
    kept = [owned(value) for value in values]
    return [tuple(kept[at : at + size]) for at in range(0, len(kept), size)]


@dataset_op(
    """
    ListDataset(tensors: *Tinput_types)
    Tinput_types: list(type) >= 1
    """,
    stateful=True,
)
def list_dataset(tensors: list[Any], output_types: list[DType]) -> Elements:
    """Return the dataset of elements that are given one after the other."""
    elements = _groups(tensors, output_types, "tensors")
    splits = Splits(range(len(elements)), lambda i: elements[i])
    return Elements(lambda: Listed(iter(elements)), len(elements), splits=splits)


@dataset_op(
    """
    WindowOp(inputs: *Tinputs)
    Tinputs: list(type) >= 1
    """,
    metadata=False,
)
def window_op(inputs: list[Any], output_types: list[DType]) -> Elements:
    """Return the dataset of the elements of a window, given one after the other."""
    elements = _groups(inputs, output_types, "inputs")
    return Elements(lambda: Listed(iter(elements)), len(elements))


def _sparse_rows(indices: Any, values: Any, rows: int) -> PyIterator[Element]:
    starts = np.searchsorted(indices[:, 0], np.arange(rows + 1))
    for start, end in itertools.pairwise(starts):
        yield indices[start:end, 1:], values[start:end]


@dataset_op(
    """
    SparseTensorSliceDataset(indices: int64, values: Tvalues, dense_shape: int64)
    Tvalues: type
    """,
    structure=False,
    metadata=False,
    stateful=True,
)
def sparse_tensor_slice_dataset(
    indices: Any, values: Any, dense_shape: Any, Tvalues: DType
) -> Elements:
    """Return the dataset of the rows of a sparse tensor: indices, values and dense shape."""
    for value, rank, what in ((indices, 2, "indices"), (values, 1, "values")):
        if np.ndim(value) != rank:
            raise fail(f"Input {what} must be of rank {rank}; its rank is {np.ndim(value)}")
    if np.ndim(dense_shape) != 1 or not len(dense_shape):
        raise fail("Input shape must be a vector that is not empty")
    if min(dense_shape) < 0:
        raise fail(f"Input shape must not be negative; it is {list(dense_shape)}")
    if len(indices) != len(values) or indices.shape[1] != len(dense_shape):
        raise fail(
            f"Number of values and of sizes must match the indices {indices.shape}; there are "
            f"{len(values)} and {len(dense_shape)}"
        )
    if (np.diff(indices[:, 0]) < 0).any():
        raise errors.UnimplementedError(
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered "
            "input is not currently supported."
        )
    where, given, rows = owned(indices), owned(values), int(dense_shape[0])
    shape = np.array(dense_shape[1:], np.int64)
    rank = len(shape)
    return Elements(
        lambda: Listed((*row, shape) for row in _sparse_rows(where, given, rows)),
        rows,
        types=[dtypes.int64, Tvalues, dtypes.int64],
        shapes=[(None, rank), (None,), (rank,)],
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


@dataset_op(
    """
    GeneratorDataset(
        init_func_other_args: *Tinit_func_args, next_func_other_args: *Tnext_func_args,
        finalize_func_other_args: *Tfinalize_func_args
    )
    init_func: func
    next_func: func
    finalize_func: func
    """,
    stateful=True,
)
def generator_dataset(
    init_func: CapturedFunction, next_func: CapturedFunction, finalize_func: CapturedFunction
) -> Elements:
    """Return the dataset of what next_func gives until it says that there is no more."""
    return Elements(
        lambda: _Generated(
            init_func.instantiate(), next_func.instantiate(), finalize_func.instantiate()
        )
    )
