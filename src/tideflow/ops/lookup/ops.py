"""Lookup tables: from keys to values, fixed once filled (HashTable) or changing.

Source: tensorflow/core/ops/lookup_ops.cc, core/kernels/lookup_table_op.cc,
core/kernels/initializable_lookup_table.cc.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.node_resources import Recipe, add_anonymous, open_resource
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle


class LookupTable:
    """A table of scalars by scalars, or of other values in a subclass.  Any thread may use it.

    Attributes:
      is_fixed: filled once, and the same ever after.
      is_filled: whether a fixed table has its entries.
      key_dims, value_dims: the shapes of one key and of its value.
    """

    type_name = "tensorflow::lookup::LookupInterface"

    key_dims: tuple[int, ...] = ()
    value_dims: tuple[int, ...] = ()

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, is_fixed: bool = False
    ) -> None:
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

    def check_entries(self, keys: Array, values: Array, key_dims: tuple[int, ...]) -> None:
        """Raise InvalidArgumentError for values that are not of the shape that goes with the keys.

        key_dims: what the shape of the keys ends with for each key.
        """
        outer = self.check_keys(keys, key_dims)
        if np.shape(values) != (*outer, *self.value_dims):
            raise errors.InvalidArgumentError(
                f"Expected shape {shapes.format_dims((*outer, *self.value_dims))} for value, got "
                f"{shapes.format_dims(np.shape(values))}"
            )

    def check_keys(self, keys: Any, key_dims: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of keys without that of each of them, as what they must end with."""
        found: tuple[int, ...] = np.shape(keys)
        at = len(found) - len(key_dims)
        if at < 0 or found[at:] != key_dims:
            raise errors.InvalidArgumentError(
                f"Input key shape {shapes.format_dims(found)} must end with the table's key shape "
                f"{shapes.format_dims(key_dims)}"
            )
        return found[:at]

    def check_insert(self, keys: Array, values: Array) -> None:
        """Refuse keys and values that cannot be entered."""
        self.check_entries(keys, values, self.key_dims)

    def check_import(self, keys: Array, values: Array) -> None:
        """Refuse keys and values that cannot be all that there is."""
        self.check_entries(keys, values, self.key_dims)

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
        for i, key in enumerate(items_of(keys)):
            flat[i] = entries.get(key, others[i])
        return found

    def insert(self, keys: TensorLike, values: TensorLike) -> None:
        """Enter values; the last one of a key counts."""
        if self.is_fixed:
            raise errors.UnimplementedError(f"table {self.name!r} takes no further entries")
        with self._lock:
            self._entries = {**self._entries, **dict(zip(items_of(keys), items_of(values)))}

    def remove(self, keys: object) -> None:
        """Drop entries, if they are there."""
        if self.is_fixed:
            raise errors.UnimplementedError(f"table {self.name!r} keeps its entries")
        with self._lock:
            gone = set(items_of(keys))
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
        for key, value in zip(items_of(keys), items_of(values)):
            if self.is_fixed and key in made and made[key] != value:
                raise errors.FailedPreconditionError(
                    f"HashTable has different value for same key. Key {key!r} has {made[key]!r} "
                    f"and trying to add value {value!r}"
                )
            made[key] = value
        return made

    def recipe(self) -> Recipe | None:
        """Return how to make a table of these entries elsewhere; None for tables of other kinds.

        Raises: AbortedError for a fixed table without its entries.
        """
        if type(self) is not LookupTable:
            return None
        types = self.key_dtype, self.value_dtype
        return Recipe(
            "HashTableV2" if self.is_fixed else "MutableHashTableV2",
            dict(zip(("key_dtype", "value_dtype"), types)),
            "LookupTableImportV2",
            dict(zip(("Tin", "Tout"), types)),
            list(zip(self.export(), types)),
        )

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


def items_of(value: object) -> list[Any]:
    """Return all elements as Python's values."""
    if isinstance(value, bytes):
        return [value]
    found: list[Any] = np.asarray(value).reshape(-1).tolist()
    return found


def make_table(
    ctx: KernelContext,
    make: Callable[[str], LookupTable],
    types: tuple[DType, DType],
    value_dims: tuple[int, ...] | None,
    *,
    container: str,
    shared_name: str,
    use_node_name_sharing: bool,
) -> Any:
    """Return the handle of a node's table, which `make` makes, given its name.

    value_dims: the shape of a value, where keys are scalars.
    """
    name = shared_name or (ctx.node.name if use_node_name_sharing else "")

    def check(found: LookupTable) -> None:
        if (found.key_dtype, found.value_dtype) != types:
            raise errors.InvalidArgumentError(
                f"table {name!r} is there already, from {found.key_dtype.name} to "
                f"{found.value_dtype.name}; {types[0].name} to {types[1].name} is wanted"
            )

    def opened() -> ResourceHandle:
        named = functools.partial(make, name or ctx.node.name)
        held = () if value_dims is None else ((types[1], value_dims),)
        return open_resource(
            ctx, LookupTable, named, container, name, check, dtypes_and_shapes=held
        )

    # A name is found again; nodes of several functions may be called alike.
    return opened() if name else ctx.memo(opened)


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
    return make_table(
        ctx,
        lambda name: LookupTable(name, *types, is_fixed=True),
        types,
        (),
        container=container,
        shared_name=shared_name,
        use_node_name_sharing=use_node_name_sharing,
    )


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
    return make_table(
        ctx,
        lambda name: LookupTable(name, *types),
        types,
        (),
        container=container,
        shared_name=shared_name,
        use_node_name_sharing=use_node_name_sharing,
    )


def _anonymous(name: str, is_fixed: bool) -> None:
    """Define the op of a table that goes when its handle does."""

    @op(
        f"{name}() -> table_handle: resource\nkey_dtype: type\nvalue_dtype: type",
        shape=scalar,
        stateful=True,
    )
    def make(ctx: KernelContext, *, key_dtype: DType, value_dtype: DType) -> Any:
        table = LookupTable(ctx.node.name, key_dtype, value_dtype, is_fixed)
        held = ((value_dtype, ()),)
        return add_anonymous(ctx, LookupTable, table, dtypes_and_shapes=held)


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


def _found_shape(c: ShapeContext) -> list[Dims]:
    """Return the shape of found values: one for each key, which is a scalar."""
    keys, held = c.shape(1), c.handle_data(0)
    if keys is None or held is None or held[1] is None:
        return [None]
    return [(*keys, *held[1])]


@op(
    """
    LookupTableFindV2(table_handle: resource, keys: Tin, default_value: Tout) -> values: Tout
    Tin: type
    Tout: type
    """,
    shape=_found_shape,
    stateful=True,
    changes_elements=False,
)
def lookup_table_find(
    ctx: KernelContext, handle: object, keys: Array, default: Array, *, Tin: DType, Tout: DType
) -> Any:
    """Return the values of keys."""
    table = table_of(ctx, handle, Tin, Tout)
    table.check_keys(keys, table.key_dims)
    return table.find(keys, default)


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
    table.check_insert(keys, values)
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
    table = table_of(ctx, handle, Tin)
    table.check_keys(keys, table.key_dims)
    table.remove(keys)


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
    table.check_import(keys, values)
    table.fill(keys, values)


@op("LookupTableSizeV2(table_handle: resource) -> size: int64", shape=scalar, stateful=True)
def lookup_table_size(ctx: KernelContext, handle: object) -> Any:
    """Return how many entries there are."""
    return np.int64(len(table_of(ctx, handle)))


def _export_shape(c: ShapeContext) -> list[Dims]:
    held = c.handle_data(0)
    return [None, None] if held is None or held[1] is None else [(None,), (None, *held[1])]


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
