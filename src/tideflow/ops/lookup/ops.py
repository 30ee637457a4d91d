"""Lookup tables: from keys to values, fixed once filled (HashTable) or changing.

Source: tensorflow/core/ops/lookup_ops.cc, core/kernels/lookup_table_op.cc,
core/kernels/initializable_lookup_table.cc.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, same_as, scalar
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.node_resources import add_anonymous, open_resource
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


class LookupTable:
    """A table of scalars by scalars.  Any thread may use it.

    Attributes:
      is_fixed: filled once, and the same ever after.
      is_filled: whether a fixed table has its entries.
    """

    type_name = "tensorflow::lookup::LookupInterface"

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType, is_fixed: bool) -> None:
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.is_fixed = is_fixed
        self.is_filled = not is_fixed
        self._entries: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def describe(self) -> tuple[str, str, int]:
        """Return element types, number of entries and bytes, for status reports."""
        size = self.key_dtype.size + self.value_dtype.size
        kinds = f"{self.key_dtype.name} to {self.value_dtype.name}"
        return kinds, f"[{len(self)}]", len(self) * size

    def find(self, keys: Any, default: Array) -> Any:
        """Return the values of keys; the default, one or one for each, where there is none.

        Raises: InvalidArgumentError for a default of another shape.
        """
        if not self.is_filled:
            raise errors.FailedPreconditionError(f"Table not initialized: {self.name!r}")
        shape = np.shape(keys)
        if np.shape(default) not in ((), shape):
            raise errors.InvalidArgumentError(
                f"the default of table {self.name!r} must be a scalar or have the keys' shape "
                f"{shapes.format_dims(shape)}; its shape is {shapes.format_dims(np.shape(default))}"
            )
        if self.is_fixed:  # as in TensorFlow, where only the first element counts
            default = np.asarray(default).reshape(-1)[:1]
        found = np.empty(shape, self.value_dtype.as_numpy_dtype)
        flat = found.reshape(-1)
        others = np.broadcast_to(np.asarray(default, found.dtype).reshape(-1), flat.shape)
        entries = self._entries
        for i, key in enumerate(_items(keys)):
            flat[i] = entries.get(key, others[i])
        return found

    def insert(self, keys: TensorLike, values: TensorLike) -> None:
        """Enter values; the last one of a key counts."""
        if self.is_fixed:
            raise errors.UnimplementedError(f"table {self.name!r} takes no further entries")
        with self._lock:
            self._entries = {**self._entries, **dict(zip(_items(keys), _items(values)))}

    def remove(self, keys: object) -> None:
        """Drop entries, if they are there."""
        if self.is_fixed:
            raise errors.UnimplementedError(f"table {self.name!r} keeps its entries")
        with self._lock:
            gone = set(_items(keys))
            self._entries = {k: v for k, v in self._entries.items() if k not in gone}

    def fill(self, keys: Array, values: Array) -> None:
        """Replace all entries; a fixed table takes them once.

        Raises: FailedPreconditionError for two values of a key of a fixed table, or another number
        of entries than it has (as in TensorFlow, which then takes them for the same and goes on).
        """
        with self._lock:
            if self.is_fixed and self.is_filled:
                if np.size(keys) != len(self._entries):
                    raise errors.FailedPreconditionError(
                        f"Table was already initialized with different data: {self.name!r}"
                    )
                return
            self._entries = self._collected(keys, values)
            self.is_filled = True

    def _collected(self, keys: TensorLike, values: TensorLike) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in zip(_items(keys), _items(values)):
            if self.is_fixed and key in made and made[key] != value:
                raise errors.FailedPreconditionError(
                    f"HashTable has different value for same key. Key {key!r} has {made[key]!r} "
                    f"and trying to add value {value!r}"
                )
            made[key] = value
        return made

    def export(self) -> tuple[Any, Any]:
        """Return keys and values."""
        if not self.is_filled:
            raise errors.AbortedError(f"HashTable is not initialized: {self.name!r}")
        entries = self._entries
        keys = np.empty(len(entries), self.key_dtype.as_numpy_dtype)
        values = np.empty(len(entries), self.value_dtype.as_numpy_dtype)
        keys[:] = list(entries)
        values[:] = list(entries.values())
        return keys, values


def _items(value: object) -> list[Any]:
    if isinstance(value, bytes):
        return [value]
    found: list[Any] = np.asarray(value).reshape(-1).tolist()
    return found


def _make(
    ctx: Any, container: str, shared_name: str, by_node: bool, types: Any, is_fixed: bool
) -> Any:
    name = shared_name or (ctx.node.name if by_node else "")

    def make() -> LookupTable:
        return LookupTable(name or ctx.node.name, types[0], types[1], is_fixed)

    def check(found: LookupTable) -> None:
        if (found.key_dtype, found.value_dtype) != tuple(types):
            raise errors.InvalidArgumentError(
                f"table {name!r} is there already, from {found.key_dtype.name} to "
                f"{found.value_dtype.name}; {types[0].name} to {types[1].name} is wanted"
            )

    return ctx.memo(lambda: open_resource(ctx, LookupTable, make, container, name, check))


_TABLE_ATTRS = """() -> table_handle: resource
    container: string = ''
    shared_name: string = ''
    use_node_name_sharing: bool = false
    key_dtype: type
    value_dtype: type
"""


@op("HashTableV2" + _TABLE_ATTRS, shape=scalar, stateful=True)
def hash_table(
    ctx: KernelContext,
    *,
    container: str,
    shared_name: str,
    use_node_name_sharing: bool,
    key_dtype: DType,
    value_dtype: DType,
) -> Any:
    """Return the handle of a table that is filled once."""
    types = (key_dtype, value_dtype)
    return _make(ctx, container, shared_name, use_node_name_sharing, types, True)


@op("MutableHashTableV2" + _TABLE_ATTRS, shape=scalar, stateful=True, holds_parameters=True)
def mutable_hash_table(
    ctx: KernelContext,
    *,
    container: str,
    shared_name: str,
    use_node_name_sharing: bool,
    key_dtype: DType,
    value_dtype: DType,
) -> Any:
    """Return the handle of a table that may change."""
    types = (key_dtype, value_dtype)
    return _make(ctx, container, shared_name, use_node_name_sharing, types, False)


def _anonymous(name: str, is_fixed: bool) -> None:
    """Define the op of a table that goes when its handle does."""

    @op(
        f"{name}() -> table_handle: resource\nkey_dtype: type\nvalue_dtype: type",
        shape=scalar,
        stateful=True,
    )
    def make(ctx: KernelContext, *, key_dtype: DType, value_dtype: DType) -> Any:
        table = LookupTable(ctx.node.name, key_dtype, value_dtype, is_fixed)
        return add_anonymous(ctx, LookupTable, table)


_anonymous("AnonymousHashTable", is_fixed=True)
_anonymous("AnonymousMutableHashTable", is_fixed=False)


def table_of(
    ctx: KernelContext, handle: object, keys: DType | None = None, values: DType | None = None
) -> Any:
    """Return the table of a handle, which must have the element types that the op declares."""
    found = ctx.resources.lookup(handle, LookupTable)
    if keys not in (None, found.key_dtype) or values not in (None, found.value_dtype):
        raise errors.InvalidArgumentError(
            f"table {found.name!r} is from {found.key_dtype.name} to {found.value_dtype.name}; the "
            f"op is for {keys.name if keys else 'any'} to {values.name if values else 'any'}"
        )
    return found


def check_alike(keys: Array, values: Array) -> None:
    if np.shape(keys) != np.shape(values):
        raise errors.InvalidArgumentError(
            f"Expected shape {shapes.format_dims(np.shape(keys))} for value, got "
            f"{shapes.format_dims(np.shape(values))}"
        )


@op(
    """
    LookupTableFindV2(table_handle: resource, keys: Tin, default_value: Tout) -> values: Tout
    Tin: type
    Tout: type
    """,
    shape=same_as(1),
    stateful=True,
)
def lookup_table_find(
    ctx: KernelContext, handle: object, keys: Array, default: Array, *, Tin: DType, Tout: DType
) -> Any:
    """Return the values of keys."""
    return table_of(ctx, handle, Tin, Tout).find(keys, default)


@op(
    """
    LookupTableInsertV2(table_handle: resource, keys: Tin, values: Tout)
    Tin: type
    Tout: type
    """,
    shape=no_outputs,
    stateful=True,
)
def lookup_table_insert(
    ctx: KernelContext, handle: object, keys: Array, values: Array, *, Tin: DType, Tout: DType
) -> None:
    """Enter values."""
    table = table_of(ctx, handle, Tin, Tout)
    check_alike(keys, values)
    table.insert(keys, values)


@op(
    """
    LookupTableRemoveV2(table_handle: resource, keys: Tin)
    Tin: type
    """,
    shape=no_outputs,
    stateful=True,
)
def lookup_table_remove(ctx: KernelContext, handle: object, keys: Array, *, Tin: DType) -> None:
    """Drop entries."""
    table_of(ctx, handle, Tin).remove(keys)


@op(
    """
    LookupTableImportV2(table_handle: resource, keys: Tin, values: Tout)
    Tin: type
    Tout: type
    """,
    shape=no_outputs,
    stateful=True,
)
def lookup_table_import(
    ctx: KernelContext, handle: object, keys: Array, values: Array, *, Tin: DType, Tout: DType
) -> None:
    """Replace all entries."""
    table = table_of(ctx, handle, Tin, Tout)
    check_alike(keys, values)
    table.fill(keys, values)


@op("LookupTableSizeV2(table_handle: resource) -> size: int64", shape=scalar, stateful=True)
def lookup_table_size(ctx: KernelContext, handle: object) -> Any:
    """Return how many entries there are."""
    return np.int64(len(table_of(ctx, handle)))


def _export_shape(c: ShapeContext) -> list[Dims]:
    return [(None,), (None,)]


@op(
    """
    LookupTableExportV2(table_handle: resource) -> keys: Tkeys, values: Tvalues
    Tkeys: type
    Tvalues: type
    """,
    shape=_export_shape,
    stateful=True,
)
def lookup_table_export(ctx: KernelContext, handle: object, *, Tkeys: DType, Tvalues: DType) -> Any:
    """Return all entries."""
    return table_of(ctx, handle, Tkeys, Tvalues).export()


not_differentiable(
    "AnonymousHashTable",
    "AnonymousMutableHashTable",
    "HashTableV2",
    "MutableHashTableV2",
    "LookupTableFindV2",
    "LookupTableInsertV2",
    "LookupTableRemoveV2",
    "LookupTableImportV2",
    "LookupTableSizeV2",
    "LookupTableExportV2",
)
