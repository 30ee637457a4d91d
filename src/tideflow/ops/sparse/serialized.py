"""Sparse tensors in one dense one: three strings (or variants) for each, and maps of a device.

Source: tensorflow/core/ops/sparse_ops.cc, core/kernels/serialize_sparse_op.cc,
deserialize_sparse_string_op.cc, deserialize_sparse_variant_op.cc, sparse_tensors_map_ops.cc.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, scalar, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.node_resources import check_names
from tideflow.ops.sparse.ops import check_ascend, check_within
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor, tensor_dtype

_TENSOR = "tensorflow::Tensor"


class Parts(NamedTuple):
    """A sparse tensor: indices [n, rank], values [n], shape [rank]."""

    indices: Any
    values: Any
    shape: Any


class TensorElement:
    """A tensor as the element of a variant tensor."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: DType) -> None:
        self.value = value
        self.dtype = dtype

    def to_variant(self) -> Variant:
        """Return the form in which it travels."""
        return Variant(_TENSOR, b"", (encode_tensor(self.value, self.dtype),))

    @classmethod
    def from_variant(cls, variant: Variant) -> TensorElement:
        """Return the tensor that arrived.  Raises: InvalidArgumentError for none, or several."""
        if len(variant.tensors) != 1:
            raise errors.InvalidArgumentError(
                f"a variant of type {_TENSOR} holds one tensor; found {len(variant.tensors)}"
            )
        return cls(decode_tensor(variant.tensors[0]), tensor_dtype(variant.tensors[0]))


register_variant(_TENSOR, TensorElement.from_variant)


def _of_ranks(indices: Array, values: Array, shape: Array) -> Parts:
    """Return a sparse tensor.  Raises: InvalidArgumentError where a part has another rank."""
    for value, rank, what in ((indices, 2, "indices"), (values, 1, "values"), (shape, 1, "shape")):
        if np.ndim(value) != rank:
            raise errors.InvalidArgumentError(
                f"the sparse {what} must have rank {rank}; their shape is {list(np.shape(value))}"
            )
    return Parts(indices, values, shape)


def _checked(indices: Array, values: Array, shape: Array) -> Parts:
    """Return a sparse tensor.  Raises: InvalidArgumentError where its parts do not fit."""
    _of_ranks(indices, values, shape)
    if indices.shape != (len(values), len(shape)):
        raise errors.InvalidArgumentError(
            f"indices have shape {list(indices.shape)}; {len(values)} values of {len(shape)} "
            "dimensions were given"
        )
    return Parts(indices, values, shape)


def _rows(given: Parts) -> Iterator[Parts]:
    """Yield the sparse tensor of each row.

    Raises: InvalidArgumentError below rank 2, for rows out of order or out of range.
    """
    indices, values, shape = given
    if len(shape) <= 1:
        raise errors.InvalidArgumentError(
            f"Rank of input SparseTensor should be > 1, but saw rank: {len(shape)}"
        )
    if shape[0] < 0 or (shape[1:] < 0).any():
        raise errors.InvalidArgumentError(f"the shape {shape.tolist()} has negative sizes")
    rows = indices[:, 0]
    check_within(indices, shape)
    check_ascend(indices)
    ends = np.searchsorted(rows, np.arange(int(shape[0]) + 1))
    for start, end in itertools.pairwise(ends):
        yield Parts(indices[start:end, 1:], values[start:end], shape[1:])


def _joined(parts: list[Parts]) -> Parts:
    """Return sparse tensors as rows of one, as large as the largest.

    Raises: InvalidArgumentError where their ranks differ.
    """
    ranks = {len(part.shape) for part in parts}
    if len(ranks) > 1:
        raise errors.InvalidArgumentError(
            f"Inconsistent shape across SparseTensors: their ranks are {sorted(ranks)}"
        )
    numbered = [np.insert(part.indices, 0, i, axis=1) for i, part in enumerate(parts)]
    largest = np.max([part.shape for part in parts], axis=0)
    return Parts(
        np.concatenate(numbered).astype(np.int64),
        np.concatenate([part.values for part in parts]),
        np.array([len(parts), *largest], np.int64),
    )


# ---- three strings or variants for each


def _as_strings(parts: Parts, dtype: DType) -> list[Any]:
    kinds = (dtypes.int64, dtype, dtypes.int64)
    return [
        encode_tensor(value, kind).SerializeToString()
        for value, kind in zip(parts, kinds, strict=True)
    ]


def _as_variants(parts: Parts, dtype: DType) -> list[Any]:
    kinds = (dtypes.int64, dtype, dtypes.int64)
    return [TensorElement(value, kind) for value, kind in zip(parts, kinds, strict=True)]


_WRITERS = {dtypes.string: _as_strings, dtypes.variant: _as_variants}


def _one_shape(c: ShapeContext) -> list[Dims]:
    _with_sparse_ranks(c)
    return [(3,)]


def _many_shape(c: ShapeContext) -> list[Dims]:
    _with_sparse_ranks(c)
    return [(None, 3)]


def _with_sparse_ranks(c: ShapeContext) -> None:
    for dims, rank, what in zip(c.inputs, (2, 1, 1), ("indices", "values", "shape")):
        with_rank(dims, rank, what)


_SERIALIZE = """(sparse_indices: int64, sparse_values: T, sparse_shape: int64)
    -> serialized_sparse: out_type
    T: type
    out_type: type in {string, variant} = string
"""


@op("SerializeSparse" + _SERIALIZE, shape=_one_shape)
def serialize_sparse_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, *, T: DType, out_type: DType
) -> Any:
    """Return indices, values and shape, each as a string or a variant."""
    made = np.empty(3, object)
    made[:] = _WRITERS[out_type](_of_ranks(indices, values, shape), T)
    return made


@op("SerializeManySparse" + _SERIALIZE, shape=_many_shape)
def serialize_many_sparse_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, *, T: DType, out_type: DType
) -> Any:
    """Return the sparse tensor of each row, as three strings or variants."""
    rows = list(_rows(_checked(indices, values, shape)))
    made = np.empty((len(rows), 3), object)
    for at, row in enumerate(rows):
        made[at] = _WRITERS[out_type](row, T)
    return made


def _read_string(given: bytes, dtype: DType, what: str) -> Any:
    try:
        tensor_pb = pb.TensorProto.FromString(given)
        found_dtype = tensor_dtype(tensor_pb)
        if found_dtype is dtype:
            return decode_tensor(tensor_pb)
    except (DecodeError, errors.OpError, ValueError) as error:
        raise errors.InvalidArgumentError(
            f"Could not parse serialized sparse {what}: {error}"
        ) from None
    raise errors.InvalidArgumentError(
        f"the serialized sparse {what} are of {found_dtype.name}; {dtype.name} is wanted"
    )


def _read_variant(given: object, dtype: DType, what: str) -> Any:
    if not isinstance(given, TensorElement) or given.dtype is not dtype:
        found = given.dtype.name if isinstance(given, TensorElement) else "no tensor"
        raise errors.InvalidArgumentError(
            f"the serialized sparse {what} are {found}; {dtype.name} is wanted"
        )
    return given.value


def _read(three: Any, dtype: DType, read: Callable[..., Any]) -> Parts:
    kinds = ((dtypes.int64, "indices"), (dtype, "values"), (dtypes.int64, "shape"))
    found = [read(item, kind, what) for item, (kind, what) in zip(three, kinds, strict=True)]
    return _checked(*found)


def _deserialized(serialized: Any, dtype: DType, read: Callable[..., Any]) -> Parts:
    given = np.asarray(serialized, object)
    if not given.ndim or given.shape[-1] != 3:
        raise errors.InvalidArgumentError(
            f"Serialized sparse should have 3 as the last dimension; found {list(given.shape)}"
        )
    if not given.size:
        raise errors.InvalidArgumentError(
            "Serialized sparse should have at least 1 serialized sparse tensor, but has a zero "
            "dimension"
        )
    parts = [_read(three, dtype, read) for three in given.reshape(-1, 3)]
    if given.ndim == 1:
        return parts[0]
    joined = _joined(parts)
    outer = given.shape[:-1]
    places = np.stack(np.unravel_index(joined.indices[:, 0], outer), axis=1)
    return Parts(
        np.concatenate([places, joined.indices[:, 1:]], axis=1).astype(np.int64),
        joined.values,
        np.array([*outer, *joined.shape[1:]], np.int64),
    )


def _sparse_shape(c: ShapeContext) -> list[Dims]:
    return [(None, None), (None,), (None,)]


_DESERIALIZED = "-> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64\ndtype: type"


@op(
    f"""
    DeserializeSparse(serialized_sparse: Tserialized) {_DESERIALIZED}
    Tserialized: type in {{string, variant}} = string
    """,
    shape=_sparse_shape,
)
def deserialize_sparse_kernel(
    ctx: KernelContext, serialized: Any, *, dtype: DType, Tserialized: DType
) -> Any:
    """Return the sparse tensor of one [3], or of a batch [..., 3] one of more dimensions."""
    read = _read_variant if Tserialized is dtypes.variant else _read_string
    return tuple(_deserialized(serialized, dtype, read))


@op(f"DeserializeManySparse(serialized_sparse: string) {_DESERIALIZED}", shape=_sparse_shape)
def deserialize_many_sparse_kernel(ctx: KernelContext, serialized: Any, *, dtype: DType) -> Any:
    """Return sparse tensors [n, 3] as rows of one."""
    return tuple(_deserialized(serialized, dtype, _read_string))


# ---- maps of a device


class SparseTensorsMap:
    """Sparse tensors by number, each of which is taken once.  Any thread may use it."""

    type_name = "tensorflow::SparseTensorsMap"

    def __init__(self, name: str) -> None:
        self.name = name
        self._held: dict[int, tuple[Parts, DType]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def add(self, parts: Parts, dtype: DType) -> int:
        """Keep a sparse tensor; return its number."""
        with self._lock:
            number = next(self._numbers)
            self._held[number] = parts, dtype
            return number

    def take(self, numbers: list[int], dtype: DType) -> list[Parts]:
        """Return sparse tensors, which are kept no longer.

        Raises: InvalidArgumentError for a number that is not there, or another element type.
        """
        found = []
        for number in numbers:
            with self._lock:
                parts, held = self._held.pop(number, (None, dtype))
            if parts is None:
                raise errors.InvalidArgumentError(
                    f"Unable to find SparseTensor: {number} in map: {self.name}"
                )
            if held is not dtype:
                raise errors.InvalidArgumentError(
                    f"Requested SparseTensor of type {dtype.name} but SparseTensor {number} has "
                    f"{held.name}"
                )
            found.append(parts)
        return found


def _map_of(ctx: KernelContext, container: str, shared_name: str) -> SparseTensorsMap:
    check_names(container, shared_name)
    name = shared_name or ctx.node.name
    make = functools.partial(SparseTensorsMap, name)
    return ctx.resources.lookup_or_create(container, name, SparseTensorsMap, make)


_NAMED = """
    container: string = ''
    shared_name: string = ''
"""
_ADD = f"""
    T: type{_NAMED}
"""


@op(
    "AddSparseToTensorsMap(sparse_indices: int64, sparse_values: T, sparse_shape: int64) "
    "-> sparse_handle: int64" + _ADD,
    shape=scalar,
    stateful=True,
)
def add_sparse_to_tensors_map(
    ctx: KernelContext,
    indices: Array,
    values: Array,
    shape: Array,
    *,
    T: DType,
    container: str,
    shared_name: str,
) -> Any:
    """Keep a sparse tensor; return its number."""
    parts = _checked(indices, values, shape)
    if (shape < 0).any():
        raise errors.InvalidArgumentError(f"the shape {shape.tolist()} has negative sizes")
    return np.int64(_map_of(ctx, container, shared_name).add(parts, T))


@op(
    "AddManySparseToTensorsMap(sparse_indices: int64, sparse_values: T, sparse_shape: int64) "
    "-> sparse_handles: int64" + _ADD,
    shape=lambda c: [(None,)],
    stateful=True,
)
def add_many_sparse_to_tensors_map(
    ctx: KernelContext,
    indices: Array,
    values: Array,
    shape: Array,
    *,
    T: DType,
    container: str,
    shared_name: str,
) -> Any:
    """Keep the sparse tensor of each row; return their numbers."""
    rows = list(_rows(_checked(indices, values, shape)))
    held = _map_of(ctx, container, shared_name)
    numbers = np.empty(len(rows), np.int64)
    # Rows with values have their numbers before those without.
    for at in sorted(range(len(rows)), key=lambda i: not len(rows[i].values)):
        numbers[at] = held.add(rows[at], T)
    return numbers


@op(
    "TakeManySparseFromTensorsMap(sparse_handles: int64) "
    "-> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64\n    dtype: type" + _NAMED,
    shape=_sparse_shape,
    stateful=True,
)
def take_many_sparse_from_tensors_map(
    ctx: KernelContext, handles: Array, *, dtype: DType, container: str, shared_name: str
) -> Any:
    """Return kept sparse tensors as rows of one; they are kept no longer."""
    if np.ndim(handles) != 1:
        raise errors.InvalidArgumentError(
            f"sparse_handles should be a vector but received shape {list(np.shape(handles))}"
        )
    if not len(handles):
        raise errors.InvalidArgumentError("Must have at least 1 sparse handle")
    held = _map_of(ctx, container, shared_name)
    return tuple(_joined(held.take(handles.tolist(), dtype)))


not_differentiable(
    "SerializeSparse",
    "SerializeManySparse",
    "DeserializeSparse",
    "DeserializeManySparse",
    "AddSparseToTensorsMap",
    "AddManySparseToTensorsMap",
    "TakeManySparseFromTensorsMap",
)
