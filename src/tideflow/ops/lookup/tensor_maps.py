"""Maps from tensors to tensors, as variants; a change gives another map.

Source: tensorflow/core/kernels/map_kernels.{h,cc}, tensor_map.{h,cc}, python/ops/map_ops.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar, unknown
from tideflow.graph.types import Array
from tideflow.ops.control_flow import cond
from tideflow.wire import errors
from tideflow.wire.dtypes import DType, dtype_of
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

_TYPE_NAME = "tensorflow::TensorMap"

# Element type, shape and bytes of a key: what makes two keys one.
_Key = tuple[str, tuple[int, ...], Any]


class TensorMap:
    """A map that does not change.

    Attributes: entries, key and value with the value's type, by what makes keys one.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[_Key, tuple[Any, Any, DType]] = {}) -> None:
        self.entries = dict(entries)

    def to_variant(self) -> Variant:
        """Return the form in which the map travels: keys and values by turns."""
        tensors = []
        for key, value, dtype in self.entries.values():
            tensors += [encode_tensor(key, dtype_of(np.asarray(key))), encode_tensor(value, dtype)]
        return Variant(_TYPE_NAME, b"", tuple(tensors))


def _read(variant: Variant) -> TensorMap:
    found = [decode_tensor(tensor_pb) for tensor_pb in variant.tensors]
    types = [dtype_of(np.asarray(value)) for value in found]
    pairs = zip(found[::2], found[1::2], types[1::2])
    return TensorMap({_identity(key): (key, value, dtype) for key, value, dtype in pairs})


register_variant(_TYPE_NAME, _read)


def _identity(key: Any) -> _Key:
    array = np.asarray(key, object) if isinstance(key, bytes) else np.asarray(key)
    content = tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()
    return str(array.dtype), array.shape, content


def _map_of(handle: Any) -> TensorMap:
    found = handle.item() if isinstance(handle, np.ndarray) and handle.size == 1 else handle
    if not isinstance(found, TensorMap):
        raise errors.InvalidArgumentError(
            f"Input handle is not a TensorMap; found {type(found).__name__}"
        )
    return found


def _missing(what: str, key: Any) -> errors.OpError:
    return errors.InvalidArgumentError(
        f'Trying to {what}. Could not find key "{np.asarray(key).tolist()}".'
    )


@op("EmptyTensorMap() -> handle: variant", shape=scalar)
def empty_tensor_map(ctx: KernelContext) -> Any:
    """Return a map without entries."""
    return TensorMap()


@op("TensorMapSize(input_handle: variant) -> size: int32", shape=scalar)
def tensor_map_size(ctx: KernelContext, input_handle: object) -> Any:
    """Return how many entries there are."""
    return np.int32(len(_map_of(input_handle).entries))


@op(
    """
    TensorMapLookup(input_handle: variant, key: key_dtype) -> value: value_dtype
    key_dtype: type
    value_dtype: type
    """,
    shape=unknown,
)
def tensor_map_lookup(
    ctx: KernelContext, input_handle: object, key: Array, *, value_dtype: DType
) -> Any:
    """Return the value of a key.  Raises: InvalidArgumentError without one, or of another type."""
    found = _map_of(input_handle).entries.get(_identity(key))
    if found is None:
        raise _missing("lookup non-existent key", key)
    if found[2] is not value_dtype:
        raise errors.InvalidArgumentError(
            f"Type mismatch: actual {found[2].name} vs. expect {value_dtype.name}"
        )
    return found[1]


@op(
    """
    TensorMapInsert(input_handle: variant, key: key_dtype, value: value_dtype)
    -> output_handle: variant
    key_dtype: type
    value_dtype: type
    """,
    shape=scalar,
)
def tensor_map_insert(
    ctx: KernelContext, input_handle: object, key: Array, value: Array, *, value_dtype: DType
) -> Any:
    """Return the map with a value for a key, in place of the one it had."""
    entries = _map_of(input_handle).entries
    return TensorMap({**entries, _identity(key): (key, value, value_dtype)})


@op(
    """
    TensorMapErase(input_handle: variant, key: key_dtype) -> output_handle: variant
    key_dtype: type
    value_dtype: type
    """,
    shape=scalar,
)
def tensor_map_erase(ctx: KernelContext, input_handle: object, key: Array, **types: DType) -> Any:
    """Return the map without a key.  Raises: InvalidArgumentError where it is not there."""
    entries = dict(_map_of(input_handle).entries)
    if entries.pop(_identity(key), None) is None:
        raise _missing("erase non-existent item", key)
    return TensorMap(entries)


@op(
    """
    TensorMapHasKey(input_handle: variant, key: key_dtype) -> has_key: bool
    key_dtype: type
    """,
    shape=scalar,
)
def tensor_map_has_key(ctx: KernelContext, input_handle: object, key: Array) -> Any:
    """Return whether there is a key, of the same type and shape."""
    return np.bool_(_identity(key) in _map_of(input_handle).entries)


@op(
    """
    TensorMapStackKeys(input_handle: variant) -> keys: key_dtype
    key_dtype: type
    """,
    shape=unknown,
)
def tensor_map_stack_keys(ctx: KernelContext, input_handle: object, *, key_dtype: DType) -> Any:
    """Return all keys, stacked along a new first axis.

    Raises: InvalidArgumentError for no keys, or those of other types or shapes.
    """
    keys = [np.asarray(key) for key, _, _ in _map_of(input_handle).entries.values()]
    if not keys:
        raise errors.InvalidArgumentError("TensorMapStackKeys cannot be called on empty map.")
    if any(dtype_of(key) is not key_dtype for key in keys):
        raise errors.InvalidArgumentError("Key does not match requested dtype.")
    if any(key.shape != keys[0].shape for key in keys):
        raise errors.InvalidArgumentError("Keys must all have the same shape.")
    return np.stack(keys)


@gradient("TensorMapLookup")
def tensor_map_lookup_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Return a map with the gradient of the value that was looked up."""
    return [apply_op("TensorMapInsert", apply_op("EmptyTensorMap"), op.inputs[1], grad), None]


@gradient("TensorMapInsert")
def tensor_map_insert_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Take the gradient of the value out of that of the map."""
    _, key, value = op.inputs
    has_key = apply_op("TensorMapHasKey", grad, key)
    dtype = value.dtype
    of_map = cond(
        has_key,
        lambda: apply_op("TensorMapErase", grad, key, value_dtype=dtype),
        lambda: apply_op("Identity", grad),
    )
    of_value = cond(
        has_key,
        lambda: apply_op("TensorMapLookup", grad, key, value_dtype=dtype),
        lambda: apply_op("ZerosLike", value),
    )
    return [of_map, None, of_value]


@gradient("TensorMapErase")
def tensor_map_erase_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient of the map on."""
    return [grad, None]


not_differentiable("EmptyTensorMap", "TensorMapHasKey", "TensorMapSize", "TensorMapStackKeys")
