"""Dense lookup tables: open addressing in two arrays of buckets, one for keys and one for values.

What a table exports, and what a checkpoint of it holds, is its buckets as they are, those that are
empty too: so where a key goes has to be as in TensorFlow.  Probing is quadratic; a removed key
leaves a mark, and the bucket is used again by the next key that meets it.

Source: tensorflow/core/kernels/lookup_table_op.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.lookup.of_tensors import defaults
from tideflow.ops.lookup.ops import LookupTable, make_table
from tideflow.ops.node_resources import add_anonymous
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType
from tideflow.wire.frame_id import combine, murmur64a

# A key, whatever the shape of keys: its elements.
_Key = tuple[Any, ...]


class DenseTable(LookupTable):
    """A table in buckets; keys and values are scalars or vectors.  Any thread may use it.

    Args:
      empty_key, deleted_key: what stands in buckets without a key; no keys of the table.
      max_load_factor: what part of the buckets is used before there are twice as many.
    Raises: InvalidArgumentError for what cannot be such a table.
    """

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        *,
        empty_key: Array,
        deleted_key: Array,
        value_shape: TensorShape,
        initial_num_buckets: int,
        max_load_factor: float,
    ) -> None:
        super().__init__(name, key_dtype, value_dtype)
        self.key_dims = np.shape(empty_key)
        self.value_dims = _known(value_shape)
        _check_dims("key", self.key_dims)
        if np.shape(deleted_key) != self.key_dims:
            raise errors.InvalidArgumentError(
                "Empty and deleted keys must have same shape, got shapes: "
                f"{shapes.format_dims(self.key_dims)} and "
                f"{shapes.format_dims(np.shape(deleted_key))}"
            )
        self._empty, self._deleted = _keys_in(empty_key, ())[0], _keys_in(deleted_key, ())[0]
        if self._empty == self._deleted:
            raise errors.InvalidArgumentError("Empty and deleted keys cannot be equal")
        _check_dims("value", self.value_dims)
        if not 0 < max_load_factor < 1:
            raise errors.InvalidArgumentError(
                f"max_load_factor must be between 0 and 1, got: {max_load_factor:g}"
            )
        self._max_load = np.float32(max_load_factor)
        self._count = 0
        self._allot(initial_num_buckets)

    def _allot(self, buckets: int) -> None:
        """Begin with empty buckets."""
        if buckets < 4 or buckets & (buckets - 1):
            raise errors.InvalidArgumentError(
                f"Number of buckets must be at least 4 and a power of 2, got: {buckets}"
            )
        self._keys = [self._empty] * buckets
        self._values = _blank((buckets, *(self.value_dims or (1,))), self.value_dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def check_import(self, keys: Array, values: Array) -> None:
        """Refuse what are no buckets: rows of keys and of values."""
        width = self.value_dims or (1,)
        outer = self.check_keys(keys, self.key_dims or (1,))
        if len(outer) != 1 or np.shape(values) != (*outer, *width):
            raise errors.InvalidArgumentError(
                f"Expected shape {shapes.format_dims((*outer, *width))} for value, got "
                f"{shapes.format_dims(np.shape(values))}"
            )

    def find(self, keys: Any, default: Array) -> Any:
        """Return the values of keys, and the default for others: its first row, if it has several.

        Raises: InvalidArgumentError for keys that no table has, and shapes that do not fit.
        """
        outer = self.check_keys(keys, self.key_dims)
        other = defaults(default, outer, self.value_dims)[:1]
        with self._lock:
            wanted = self._wanted(keys)
            at = [self._bucket_of(key) for key in wanted]
            made = _blank((len(at), *self._values.shape[1:]), self.value_dtype)
            for i, bucket in enumerate(at):
                made[i] = other[0] if bucket is None else self._values[bucket]
        return made.reshape((*outer, *self.value_dims))

    def insert(self, keys: Any, values: Any) -> None:
        """Enter values; the last one of a key counts."""
        rows = np.reshape(values, (-1, *self._values.shape[1:]))
        with self._lock:
            given = self._in_batch(keys)
            pending, buckets = self._count + len(given), len(self._keys)
            if pending > np.float32(buckets) * self._max_load:
                while pending > np.float32(buckets) * self._max_load:
                    buckets *= 2
                self._move(buckets)
            for key, row in zip(given, rows):
                self._refuse_marks(key)
                self._enter(key, row)

    def remove(self, keys: Any) -> None:
        """Drop entries, if they are there.  Raises: InvalidArgumentError for a single key too."""
        if np.ndim(keys) == 0:
            raise errors.InvalidArgumentError(
                "keys to remove are a vector at least; found a scalar"
            )
        with self._lock:
            for key in self._in_batch(keys):
                self._refuse_marks(key)
                bucket = self._bucket_of(key)
                if bucket is not None:
                    self._keys[bucket] = self._deleted
                    self._count -= 1

    def fill(self, keys: Array, values: Array) -> None:
        """Take buckets, as another table exported them."""
        with self._lock:
            self._keys = _keys_in(keys, np.shape(keys)[:1])
            self._values = np.array(values)
            self._count = sum(key not in (self._empty, self._deleted) for key in self._keys)

    def export(self) -> tuple[Any, Any]:
        """Return all buckets: their keys, a row each, and values."""
        with self._lock:
            keys = _blank((len(self._keys), *(self.key_dims or (1,))), self.key_dtype)
            for i, key in enumerate(self._keys):
                keys[i] = key
            return keys, self._values.copy()

    # ---- under the lock

    def _move(self, buckets: int) -> None:
        """Enter everything anew in more buckets."""
        keys, values = self._keys, self._values
        self._allot(buckets)
        for key, row in zip(keys, values):
            if key not in (self._empty, self._deleted):
                self._enter(key, row)

    def _probed(self, key: _Key) -> Any:
        """Give the buckets in which a key may be, one after the other."""
        buckets = len(self._keys)
        at = _hash(key) & (buckets - 1)
        for step in range(1, buckets + 1):
            yield at
            at = (at + step) & (buckets - 1)
        raise errors.InternalError(f"table {self.name!r} has no bucket left for a key")

    def _bucket_of(self, key: _Key) -> int | None:
        for at in self._probed(key):
            found = self._keys[at]
            if found == key:
                return int(at)
            if found == self._empty:
                break
        return None

    def _enter(self, key: _Key, row: Any) -> None:
        for at in self._probed(key):
            found = self._keys[at]
            if found in (key, self._empty, self._deleted):
                self._count += found != key
                self._keys[at] = key
                self._values[at] = row
                break

    def _wanted(self, keys: Any) -> list[_Key]:
        found = self._in_batch(keys)
        for key in found:
            self._refuse_marks(key)
        return found

    def _in_batch(self, keys: Any) -> list[_Key]:
        """Return keys, of which there is one for each element of the first dimension."""
        dims = np.shape(keys)
        found = _keys_in(keys, self.check_keys(keys, self.key_dims))
        count = dims[0] if dims else 1
        if len(found) != count:
            wanted = (count, *self.key_dims)
            raise errors.InvalidArgumentError(
                f"Expected key shape {shapes.format_dims(wanted)} got {shapes.format_dims(dims)}"
            )
        return found

    def _refuse_marks(self, key: _Key) -> None:
        if key in (self._empty, self._deleted):
            mark = "empty_key" if key == self._empty else "deleted_key"
            raise errors.InvalidArgumentError(f"Using the {mark} as a table key is not allowed")


def _known(shape: TensorShape) -> tuple[int, ...]:
    """Return the sizes of a shape; an unknown one counts as that of a scalar."""
    return tuple(-1 if size is None else size for size in shape.sizes or ())


def _check_dims(what: str, dims: tuple[int, ...]) -> None:
    if len(dims) > 1 or -1 in dims:
        raise errors.InvalidArgumentError(
            f"Empty {what} must be a scalar or a vector, got shape {shapes.format_dims(dims)}"
        )


def _keys_in(keys: Any, outer: tuple[int, ...]) -> list[_Key]:
    """Return keys as tuples of Python's values."""
    flat = [keys] if isinstance(keys, bytes) else np.reshape(keys, -1).tolist()
    count = int(np.prod(outer))
    width = len(flat) // count if count else 0
    return [tuple(flat[i * width : (i + 1) * width]) for i in range(count)]


def _blank(dims: tuple[int, ...], dtype: DType) -> Any:
    if dtype is not dtypes.string:
        return np.zeros(dims, dtype.as_numpy_dtype)
    return np.full(dims, b"", object)


def _hash(key: _Key) -> int:
    hashes = [murmur64a(one) if isinstance(one, bytes) else one & (2**64 - 1) for one in key]
    if len(hashes) == 1:
        return hashes[0]
    found = 0
    for one in hashes:
        found = combine(found, one)
    return found


def _table_shape(c: ShapeContext) -> list[Dims]:
    for dims in c.inputs:
        if dims is not None and len(dims) > 1:
            raise ValueError(f"a key is a scalar or a vector; found {shapes.format_dims(dims)}")
    return [()]


_TABLE_OF = """-> table_handle: resource
    container: string = ''
    shared_name: string = ''
    use_node_name_sharing: bool = false
    key_dtype: type
    value_dtype: type
    value_shape: shape = []
    initial_num_buckets: int = 131072
    max_load_factor: float = 0.8
"""


@op(
    f"MutableDenseHashTableV2(empty_key: key_dtype, deleted_key: key_dtype) {_TABLE_OF}",
    shape=_table_shape,
    stateful=True,
    holds_parameters=True,
)
def mutable_dense_hash_table(
    ctx: KernelContext,
    empty_key: Array,
    deleted_key: Array,
    *,
    container: str,
    shared_name: str,
    use_node_name_sharing: bool,
    key_dtype: DType,
    value_dtype: DType,
    value_shape: TensorShape,
    initial_num_buckets: int,
    max_load_factor: float,
) -> Any:
    """Return the handle of a dense table."""

    def make(name: str) -> DenseTable:
        return DenseTable(
            name,
            key_dtype,
            value_dtype,
            empty_key=empty_key,
            deleted_key=deleted_key,
            value_shape=value_shape,
            initial_num_buckets=initial_num_buckets,
            max_load_factor=max_load_factor,
        )

    return make_table(
        ctx,
        make,
        (key_dtype, value_dtype),
        None,
        container=container,
        shared_name=shared_name,
        use_node_name_sharing=use_node_name_sharing,
    )


@op(
    f"MutableDenseHashTable(empty_key: key_dtype) {_TABLE_OF.replace('resource', 'Ref string', 1)}",
    shape=lambda c: [(2,)],
    stateful=True,
    holds_parameters=True,
)
def mutable_dense_hash_table_by_reference(
    ctx: KernelContext, empty_key: Array, **attrs: object
) -> Any:
    """Refuse to make a table, as in TensorFlow: the older op has no key for what was removed."""
    raise errors.InvalidArgumentError(
        "MutableDenseHashTable has no input deleted_key; use MutableDenseHashTableV2"
    )


@op(
    """
    AnonymousMutableDenseHashTable(
        empty_key: key_dtype, deleted_key: key_dtype
    ) -> table_handle: resource
    key_dtype: type
    value_dtype: type
    value_shape: shape = []
    initial_num_buckets: int = 131072
    max_load_factor: float = 0.8
    """,
    shape=_table_shape,
    stateful=True,
)
def anonymous_mutable_dense_hash_table(
    ctx: KernelContext,
    empty_key: Array,
    deleted_key: Array,
    *,
    key_dtype: DType,
    value_dtype: DType,
    value_shape: TensorShape,
    initial_num_buckets: int,
    max_load_factor: float,
) -> Any:
    """Return the handle of a dense table that goes when its handle does."""
    table = DenseTable(
        ctx.node.name,
        key_dtype,
        value_dtype,
        empty_key=empty_key,
        deleted_key=deleted_key,
        value_shape=value_shape,
        initial_num_buckets=initial_num_buckets,
        max_load_factor=max_load_factor,
    )
    return add_anonymous(ctx, LookupTable, table)


not_differentiable(
    "AnonymousMutableDenseHashTable", "MutableDenseHashTable", "MutableDenseHashTableV2"
)
