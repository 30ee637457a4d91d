"""Lookup tables as objects: tf.lookup.

Source: tensorflow/python/ops/lookup_ops.py.
"""

from __future__ import annotations

import secrets
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export_v2
from tideflow.wire.dtypes import as_dtype


@export_v2("lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer:
    """Fills a table with keys and values: two vectors."""

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        self.keys = convert_to_tensor(keys, None if key_dtype is None else as_dtype(key_dtype))
        self.values = convert_to_tensor(
            values, None if value_dtype is None else as_dtype(value_dtype)
        )


class LookupInterface:
    """A table from keys to values, behind a handle.

    Attributes: key_dtype, value_dtype; resource_handle.
    """

    def __init__(self, op_name: str, key_dtype: Any, value_dtype: Any, default_value: Any) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self.default_value = convert_to_tensor(default_value, self.value_dtype)
        self.resource_handle: Tensor = apply_op(
            op_name,
            shared_name=f"table_{secrets.token_hex(8)}",
            key_dtype=self.key_dtype,
            value_dtype=self.value_dtype,
        )

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Return the values of keys; the default for keys that are not there."""
        wanted = convert_to_tensor(keys, self.key_dtype)
        found: Tensor = apply_op(
            "LookupTableFindV2", self.resource_handle, wanted, self.default_value, name=name
        )
        return found

    def __getitem__(self, keys: Any) -> Tensor:
        return self.lookup(keys)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys."""
        found: Tensor = apply_op("LookupTableSizeV2", self.resource_handle, name=name)
        return found

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys and their values."""
        keys, values = apply_op(
            "LookupTableExportV2",
            self.resource_handle,
            Tkeys=self.key_dtype,
            Tvalues=self.value_dtype,
            name=name,
        )
        return keys, values


@export_v2("lookup.StaticHashTable")
class StaticHashTable(LookupInterface):
    """A table that is filled when it is made, and never changes."""

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        keys, values = initializer.keys, initializer.values
        super().__init__("HashTableV2", keys.dtype, values.dtype, default_value)
        apply_op("LookupTableImportV2", self.resource_handle, keys, values)


@export_v2("lookup.experimental.MutableHashTable")
class MutableHashTable(LookupInterface):
    """A table that starts empty."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__("MutableHashTableV2", key_dtype, value_dtype, default_value)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Any:
        """Give keys values, in place of those they had."""
        pairs = convert_to_tensor(keys, self.key_dtype), convert_to_tensor(values, self.value_dtype)
        return apply_op("LookupTableInsertV2", self.resource_handle, *pairs, name=name)

    def remove(self, keys: Any, name: str | None = None) -> Any:
        """Take keys away; those that are not there are no error."""
        given = convert_to_tensor(keys, self.key_dtype)
        return apply_op("LookupTableRemoveV2", self.resource_handle, given, name=name)
