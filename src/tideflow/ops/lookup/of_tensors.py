"""Lookup tables whose values are vectors: MutableHashTableOfTensors.

Source: tensorflow/core/kernels/lookup_table_op.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.lookup.ops import LookupTable, items_of, make_table
from tideflow.ops.node_resources import add_anonymous
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


class VectorTable(LookupTable):
    """A table of vectors by scalars.  Any thread may use it."""

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, value_dims: tuple[int, ...]
    ) -> None:
        super().__init__(name, key_dtype, value_dtype)
        self.value_dims = value_dims

    def find(self, keys: Any, default: Array) -> Any:
        """Return the values of keys; the default, one or one for each, where there is none.

        Raises: InvalidArgumentError for a default of another shape.
        """
        outer = np.shape(keys)
        others = defaults(default, outer, self.value_dims)
        found = np.empty((*outer, *self.value_dims), self.value_dtype.as_numpy_dtype)
        rows = found.reshape(-1, *self.value_dims)
        entries = self._entries
        for i, key in enumerate(items_of(keys)):
            rows[i] = entries.get(key, others[i % len(others)])
        return found

    def insert(self, keys: TensorLike, values: TensorLike) -> None:
        """Enter values; the last one of a key counts."""
        rows = np.array(values).reshape(-1, *self.value_dims)
        with self._lock:
            self._entries = {**self._entries, **dict(zip(items_of(keys), rows))}

    def fill(self, keys: Array, values: Array) -> None:
        """Replace all entries."""
        rows = np.array(values).reshape(-1, *self.value_dims)
        with self._lock:
            self._entries = dict(zip(items_of(keys), rows))

    def export(self) -> tuple[Any, Any]:
        """Return keys and values."""
        entries = self._entries
        keys = np.empty(len(entries), self.key_dtype.as_numpy_dtype)
        keys[:] = list(entries)
        values = np.empty((len(entries), *self.value_dims), self.value_dtype.as_numpy_dtype)
        for i, row in enumerate(entries.values()):
            values[i] = row
        return keys, values


def defaults(default: Array, outer: tuple[int, ...], value_dims: tuple[int, ...]) -> Any:
    """Return the rows of a default for keys of a shape: one for all of them, or one for each.

    Raises: InvalidArgumentError for a default of another shape.
    """
    if np.shape(default) not in (value_dims, (*outer, *value_dims)):
        raise errors.InvalidArgumentError(
            f"Expected shape {shapes.format_dims(value_dims)} or "
            f"{shapes.format_dims((*outer, *value_dims))} for default value, got "
            f"{shapes.format_dims(np.shape(default))}"
        )
    return np.reshape(default, (-1, *value_dims))


def _value_dims(value_shape: TensorShape) -> tuple[int, ...]:
    """Return the shape of a value.  Raises: InvalidArgumentError unless it is of a vector."""
    sizes = value_shape.sizes
    if sizes is None or len(sizes) != 1 or sizes[0] is None:
        raise errors.InvalidArgumentError(
            f"Default value must be a vector, got shape {shapes.format_dims(sizes or ())}"
        )
    return (sizes[0],)


@op(
    """
    MutableHashTableOfTensorsV2() -> table_handle: resource
    container: string = ''
    shared_name: string = ''
    use_node_name_sharing: bool = false
    key_dtype: type
    value_dtype: type
    value_shape: shape = []
    """,
    shape=scalar,
    stateful=True,
    holds_parameters=True,
)
def mutable_hash_table_of_tensors(
    ctx: KernelContext,
    *,
    container: str,
    shared_name: str,
    use_node_name_sharing: bool,
    key_dtype: DType,
    value_dtype: DType,
    value_shape: TensorShape,
) -> Any:
    """Return the handle of a table of vectors."""
    dims = _value_dims(value_shape)
    types = (key_dtype, value_dtype)
    return make_table(
        ctx,
        lambda name: VectorTable(name, *types, dims),
        types,
        dims,
        container=container,
        shared_name=shared_name,
        use_node_name_sharing=use_node_name_sharing,
    )


@op(
    """
    AnonymousMutableHashTableOfTensors() -> table_handle: resource
    key_dtype: type
    value_dtype: type
    value_shape: shape = []
    """,
    shape=scalar,
    stateful=True,
)
def anonymous_mutable_hash_table_of_tensors(
    ctx: KernelContext, *, key_dtype: DType, value_dtype: DType, value_shape: TensorShape
) -> Any:
    """Return the handle of a table of vectors that goes when its handle does."""
    dims = _value_dims(value_shape)
    table = VectorTable(ctx.node.name, key_dtype, value_dtype, dims)
    held = ((value_dtype, dims),)
    return add_anonymous(ctx, LookupTable, table, dtypes_and_shapes=held)


not_differentiable("AnonymousMutableHashTableOfTensors", "MutableHashTableOfTensorsV2")
