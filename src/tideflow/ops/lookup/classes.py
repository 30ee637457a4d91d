"""Lookup tables as objects: tf.lookup.

Source: tensorflow/python/ops/lookup/ops.py.
"""

from __future__ import annotations

import secrets
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export_v2
from tideflow.ops.ragged import RaggedTensor
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


@export_v2("lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer:
    """Fills a table with keys and values: two vectors."""

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        key_dtype: DTypeLike | None = None,
        value_dtype: DTypeLike | None = None,
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

    def __init__(
        self, op_name: str, key_dtype: DTypeLike, value_dtype: DTypeLike, default_value: TensorLike
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self.default_value = convert_to_tensor(default_value, self.value_dtype)
        self.resource_handle: Tensor = apply_op(
            op_name,
            shared_name=f"table_{secrets.token_hex(8)}",
            key_dtype=self.key_dtype,
            value_dtype=self.value_dtype,
        )

    def lookup(self, keys: TensorLike, name: str | None = None) -> Tensor:
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
        default_value: TensorLike,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        keys, values = initializer.keys, initializer.values
        super().__init__("HashTableV2", keys.dtype, values.dtype, default_value)
        apply_op("LookupTableImportV2", self.resource_handle, keys, values)


@export_v2("lookup.StaticVocabularyTable")
class StaticVocabularyTable:
    """A table of words and numbers below their count; other words have numbers from there on.

    Args:
      initializer: int64 values of keys, from 0 on; None for no keys.
      num_oov_buckets: how many numbers there are for other words, by their hash.
      lookup_key_dtype: the type of keys: that of the initializer, by default.
    Raises: ValueError without buckets; TypeError for values that are no int64.
    """

    def __init__(
        self,
        initializer: KeyValueTensorInitializer | None,
        num_oov_buckets: int,
        lookup_key_dtype: DTypeLike | None = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError("num_oov_buckets must be positive; without it use StaticHashTable")
        self.key_dtype = as_dtype(lookup_key_dtype or "string")
        self.value_dtype = dtypes.int64
        self._buckets = num_oov_buckets
        self._table: StaticHashTable | None = None
        if initializer is not None:
            if initializer.values.dtype is not dtypes.int64:
                raise TypeError(f"values are int64; found {initializer.values.dtype.name}")
            if lookup_key_dtype is None:
                self.key_dtype = initializer.keys.dtype
            self._table = StaticHashTable(initializer, -1)
        if self.key_dtype not in (dtypes.string, dtypes.int32, dtypes.int64):
            raise TypeError(f"keys are strings or integers; found {self.key_dtype.name}")

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the table; None without an initializer."""
        return None if self._table is None else self._table.resource_handle

    def size(self, name: str | None = None) -> Tensor:
        """Return how many numbers there are, for words and other words."""
        words = convert_to_tensor(0, dtypes.int64) if self._table is None else self._table.size()
        made: Tensor = apply_op("AddV2", words, convert_to_tensor(self._buckets, dtypes.int64))
        return made

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        """Return the numbers of keys: a tensor, or a sparse or ragged one.

        Raises: TypeError for keys of another type.
        """
        if isinstance(keys, SparseTensor):
            return keys.with_values(self.lookup(keys.values))
        if isinstance(keys, RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.flat_values))
        given = convert_to_tensor(keys)
        if given.dtype != self.key_dtype:
            raise TypeError(f"keys are {self.key_dtype.name}; found {given.dtype.name}")
        is_text = given.dtype is dtypes.string
        text = given if is_text else apply_op("AsString", given)
        hashed = apply_op("StringToHashBucketFast", text, num_buckets=self._buckets)
        if self._table is None:
            return hashed
        wanted = self._table.key_dtype
        found = self._table.lookup(
            given if given.dtype == wanted else apply_op("Cast", given, DstT=wanted)
        )
        other = apply_op("AddV2", hashed, self._table.size())
        is_there = apply_op("NotEqual", found, self._table.default_value)
        return apply_op("SelectV2", is_there, found, other, name=name)

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)


@export_v2("lookup.experimental.MutableHashTable")
class MutableHashTable(LookupInterface):
    """A table that starts empty."""

    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: Tensor,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__("MutableHashTableV2", key_dtype, value_dtype, default_value)

    def lookup(  # type: ignore[override]
        self,
        keys: TensorLike,
        dynamic_default_values: TensorLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Return the values of keys; for keys that are not there the default, or one of their own.

        dynamic_default_values: of the shape of the values that are returned.
        """
        if dynamic_default_values is None:
            return super().lookup(keys, name)
        wanted = convert_to_tensor(keys, self.key_dtype)
        defaults = convert_to_tensor(dynamic_default_values, self.value_dtype)
        found: Tensor = apply_op(
            "LookupTableFindV2", self.resource_handle, wanted, defaults, name=name
        )
        return found

    def insert(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Any:
        """Give keys values, in place of those they had."""
        pairs = convert_to_tensor(keys, self.key_dtype), convert_to_tensor(values, self.value_dtype)
        return apply_op("LookupTableInsertV2", self.resource_handle, *pairs, name=name)

    def remove(self, keys: object, name: str | None = None) -> Any:
        """Take keys away; those that are not there are no error."""
        given = convert_to_tensor(keys, self.key_dtype)
        return apply_op("LookupTableRemoveV2", self.resource_handle, given, name=name)
