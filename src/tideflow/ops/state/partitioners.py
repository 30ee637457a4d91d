"""Variables that are split into several along one dimension, and rules for splitting them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tideflow.graph.building import register_tensor_conversion
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import ShapeLike
from tideflow.ops.array import concat
from tideflow.ops.control_flow import group
from tideflow.ops.export import export
from tideflow.ops.framework import identity
from tideflow.wire.dtypes import DType, as_dtype

Partitioner = Callable[..., Sequence[int]]


@dataclass(frozen=True)
class PartitionInfo:
    """Which part of a larger variable an initializer makes."""

    full_shape: list[int]
    var_offset: list[int]


class PartitionedVariable:
    """Several variables that are together one.

    Attributes: name, shape and dtype of the whole.
    """

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        dtype: DType,
        variable_list: Sequence[Any],
        partitions: Sequence[int],
    ) -> None:
        if len(partitions) != len(shape) or sum(1 for p in partitions if p > 1) > 1:
            raise ValueError(
                f"partitions {list(partitions)} do not split shape {list(shape)} along one axis"
            )
        self._name = name
        self._shape = TensorShape(shape)
        self._dtype = dtype
        self._variables = list(variable_list)
        self._partitions = list(partitions)

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape of the whole."""
        return self._shape

    def as_tensor(self) -> Tensor:
        """Return the whole value."""
        axes = [i for i, parts in enumerate(self._partitions) if parts > 1]
        graph = get_default_graph()
        with graph.name_scope(None), graph.name_scope(self._name + "/ConcatPartitions/"):
            values = [variable.value() for variable in self._variables]
            whole = values[0] if len(values) == 1 else concat(values, axes[0] if axes else 0)
        with graph.name_scope(None):
            return identity(whole, name=self._name)

    def _get_variable_list(self) -> list[Any]:
        return self._variables

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Give every part its share of value; returns an operation."""
        begin = [0] * len(self._partitions)
        assigned = []
        axis = next((i for i, parts in enumerate(self._partitions) if parts > 1), 0)
        for variable in self._variables:
            sizes = variable.shape.as_list()
            index = tuple(slice(b, b + s) for b, s in zip(begin, sizes))
            assigned.append(variable.assign(value[index], use_locking).op)
            begin[axis] += sizes[axis]
        return group(*assigned, name=name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, key: Any) -> Any:
        return self.as_tensor()[key]

    def __repr__(self) -> str:
        return (
            f"<tf.PartitionedVariable {self._name!r} shape={self._shape} dtype={self._dtype.name} "
            f"parts={len(self._variables)}>"
        )


def _to_tensor(value: Any, dtype: DType | None, name: str | None) -> Tensor:
    whole: Tensor = value.as_tensor()
    if dtype is not None and not dtype.is_compatible_with(whole.dtype):
        raise ValueError(f"{value!r} is wanted as {dtype.name}; tf.cast converts")
    return whole


register_tensor_conversion(PartitionedVariable, _to_tensor)


def split_sizes(size: int, parts: int) -> list[int]:
    """Return the sizes of parts that differ by at most one, larger ones first."""
    return [size // parts + (i < size % parts) for i in range(parts)]


@export("fixed_size_partitioner")
def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Return a partitioner that splits an axis into num_shards parts."""

    def partition(shape: ShapeLike, **_: Any) -> list[int]:
        parts = [1] * len(TensorShape(shape).as_list())
        parts[axis] = min(num_shards, TensorShape(shape).as_list()[axis] or 0)
        return parts

    return partition


@export("variable_axis_size_partitioner")
def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> Partitioner:
    """Return a partitioner that keeps each part below max_shard_bytes.

    Raises: ValueError for limits below 1.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("max_shard_bytes and bytes_per_string_element must be at least 1")
    if max_shards is not None and max_shards < 1:
        raise ValueError("max_shards must be at least 1")

    def partition(shape: ShapeLike, dtype: DType) -> list[int]:
        sizes = _full_sizes(shape)
        parts = [1] * len(sizes)
        slice_bytes = _bytes(sizes, dtype, bytes_per_string_element) // max(1, sizes[axis])
        each = max(1, max_shard_bytes // max(1, slice_bytes))
        count = math.ceil(sizes[axis] / each)
        parts[axis] = max(1, count if max_shards is None else min(count, max_shards))
        return parts

    return partition


@export("min_max_variable_partitioner")
def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Return a partitioner that splits into at most max_partitions parts, none below
    min_slice_size bytes."""

    def partition(shape: ShapeLike, dtype: DType) -> list[int]:
        sizes = _full_sizes(shape)
        parts = [1] * len(sizes)
        whole = _bytes(sizes, dtype, bytes_per_string_element)
        wanted = max(1, math.ceil(whole / min_slice_size))
        parts[axis] = max(1, min(sizes[axis], max_partitions, wanted))
        return parts

    return partition


def _full_sizes(shape: ShapeLike) -> list[int]:
    sizes = TensorShape(shape).as_list()
    full = [size for size in sizes if size is not None]
    if len(full) != len(sizes):
        raise ValueError(f"a partitioner needs a full shape, not {TensorShape(shape)}")
    return full


def _bytes(sizes: Sequence[int], dtype: DType, bytes_per_string_element: int) -> int:
    found = as_dtype(dtype)
    each = bytes_per_string_element if found.name == "string" else found.size
    return math.prod(sizes) * each
