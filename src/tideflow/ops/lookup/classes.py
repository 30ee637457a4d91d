"""Lookup tables as objects: tf.lookup.

Source: tensorflow/python/ops/lookup/ops.py.
"""

from __future__ import annotations

import abc
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import Asset, CapturableResource, SavedPart, Trackable, no_op
from tideflow.ops.ragged import RaggedTensor
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


class TableInitializer(Trackable, abc.ABC):
    """What fills a table.

    Attributes: key_dtype, value_dtype.
    """

    key_dtype: DType
    value_dtype: DType

    @abc.abstractmethod
    def initialize(self, table: Any) -> Any:
        """Return the operation that fills a table, or fill it at once."""


@export("lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer(TableInitializer):
    """Fills a table with keys and values: two vectors."""

    def __init__(
        self,
        keys: TensorLike,
        values: TensorLike,
        key_dtype: DTypeLike | None = None,
        value_dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        self.keys = _vector(keys, key_dtype, "keys")
        self.values = _vector(values, value_dtype, "values")
        with get_default_graph().name_scope(name or "key_value_init") as self._scope:
            pass
        self.key_dtype, self.value_dtype = self.keys.dtype, self.values.dtype

    def initialize(self, table: Any) -> Any:
        """Return the operation that fills a table, or fill it at once."""
        with get_default_graph().name_scope(self._scope):
            return apply_op("LookupTableImportV2", table.resource_handle, self.keys, self.values)


def _vector(values: TensorLike, dtype: DTypeLike | None, name: str) -> Tensor:
    return convert_to_tensor(values, None if dtype is None else as_dtype(dtype), name=name)


@export("lookup.TextFileIndex")
class TextFileIndex:
    """What of a line is a key or value, besides the number of a column."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


@export("lookup.TextFileInitializer")
class TextFileInitializer(TableInitializer):
    """Fills a table from a text file: an entry for each line.

    Args:
      key_index, value_index: TextFileIndex.WHOLE_LINE, LINE_NUMBER, or the number of a column.
      vocab_size: how many lines count; all by default.
      delimiter: between columns.
      value_index_offset: the first line's number.
    Raises: ValueError for types that an index does not give.
    """

    def __init__(
        self,
        filename: TensorLike,
        key_dtype: DTypeLike,
        key_index: int,
        value_dtype: DTypeLike,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        _check_index("key", key_index, self.key_dtype)
        _check_index("value", value_index, self.value_dtype)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"vocab_size must be positive; found {vocab_size}")
        self._asset = Asset(filename)
        self._track_trackable(self._asset, "_filename")
        graph = get_default_graph()
        if not graph.is_eager:
            graph.add_to_collection(GraphKeys.ASSET_FILEPATHS, self._asset.asset_path)
        self._attrs: dict[str, Any] = {
            "key_index": key_index,
            "value_index": value_index,
            "vocab_size": -1 if vocab_size is None else vocab_size,
            "delimiter": delimiter,
            "offset": value_index_offset,
        }

    def initialize(self, table: Any) -> Any:
        """Return the operation that fills a table, or fill it at once."""
        op = "InitializeTableFromTextFileV2"
        return apply_op(op, table.resource_handle, self._asset.asset_path, **self._attrs)


def _check_index(what: str, index: int, dtype: DType) -> None:
    if index < TextFileIndex.WHOLE_LINE:
        raise ValueError(f"Invalid {what} index {index}")
    if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes.int64:
        raise ValueError(f"a line number is a {what} of int64, not of {dtype.name}")
    if index == TextFileIndex.WHOLE_LINE and not (dtype is dtypes.string or dtype.is_integer):
        raise ValueError(f"a whole line is a {what} of string or an integer, not of {dtype.name}")


def scope_of_call(name: str | None, default: str) -> Any:
    """Return the scope of the operations of a call of a table."""
    graph = get_default_graph()
    return contextlib.nullcontext() if graph.is_eager else graph.name_scope(name or default)


class LookupInterface(CapturableResource):
    """A table from keys to values, behind a handle.

    Attributes: key_dtype, value_dtype; name; resource_handle.
    """

    def __init__(
        self,
        op_name: str,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        name: str,
        inputs: Sequence[Any] = (),
        **attrs: Any,
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self.default_value = convert_to_tensor(default_value, self.value_dtype)
        self.name = name
        if not op_name.startswith("Anonymous"):
            attrs["shared_name"] = f"table_{secrets.token_hex(8)}"
        self._op_name, self._inputs, self._attrs = op_name, tuple(inputs), attrs
        self._handle = self._create_resource()
        if not get_default_graph().is_eager:
            self.name = self._handle.op.name.rpartition("/")[2]

    @property
    def resource_handle(self) -> Tensor:
        """The handle of the table."""
        return self._handle

    def _create_resource(self) -> Tensor:
        made: Tensor = apply_op(
            self._op_name,
            *self._inputs,
            key_dtype=self.key_dtype,
            value_dtype=self.value_dtype,
            name=self.name,
            **self._attrs,
        )
        return made

    # How the scopes of calls are called.
    _words: ClassVar[Mapping[str, str]] = {"find": "Lookup", "export": "Export"}

    def _named(self, name: str | None, what: str) -> Any:
        """Return the scope of the operations of a call."""
        return scope_of_call(name, f"{self.name}_{what}")

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        """Return the values of keys: a tensor, or a sparse or ragged one; the default for keys
        that are not there.

        Raises: TypeError for keys of another type.
        """
        if isinstance(keys, SparseTensor):
            return keys.with_values(self.lookup(keys.values, name))
        if isinstance(keys, RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.flat_values, name))
        if isinstance(keys, Tensor) and keys.dtype.base_dtype != self.key_dtype:
            raise TypeError(f"keys are {self.key_dtype.name}; found {keys.dtype.name}")
        return self._find(keys, self.default_value, name)

    def _find(self, keys: TensorLike, default: Tensor, name: str | None) -> Tensor:
        with self._named(name, self._words["find"]):
            wanted = convert_to_tensor(keys, self.key_dtype, name="keys")
            found: Tensor = apply_op("LookupTableFindV2", self.resource_handle, wanted, default)
        return found

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys."""
        with self._named(name, "Size"):
            found: Tensor = apply_op("LookupTableSizeV2", self.resource_handle)
        return found

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys and their values."""
        types: dict[str, Any] = {"Tkeys": self.key_dtype, "Tvalues": self.value_dtype}
        with self._named(name, self._words["export"]):
            keys, values = apply_op("LookupTableExportV2", self.resource_handle, **types)
        return keys, values


@export("lookup.StaticHashTable")
class StaticHashTable(LookupInterface):
    """A table that is filled once: when it is made, or in a graph by its initializer."""

    def __init__(
        self,
        initializer: TableInitializer,
        default_value: TensorLike,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        key_dtype, value_dtype = initializer.key_dtype, initializer.value_dtype
        name = name or "hash_table"
        super().__init__("HashTableV2", key_dtype, value_dtype, default_value, name)
        self._initializer = self._track_trackable(initializer, "_initializer")
        self._init_op = initializer.initialize(self)
        graph = get_default_graph()
        if not graph.is_eager and graph.body_class is None:
            graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, self._init_op)

    def _initialize(self) -> Any:
        return self._initializer.initialize(self)

    @property
    def initializer(self) -> Any:
        """The operation that fills the table."""
        return self._init_op


@export("lookup.StaticVocabularyTable")
class StaticVocabularyTable(Trackable):
    """A table of words and numbers below their count; other words have numbers from there on.

    Args:
      initializer: int64 values of keys, from 0 on; None for no keys.
      num_oov_buckets: how many numbers there are for other words, by their hash.
      lookup_key_dtype: the type of keys: that of the initializer, by default.
    Raises: ValueError without buckets; TypeError for values that are no int64.
    """

    def __init__(
        self,
        initializer: TableInitializer | None,
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
            if initializer.value_dtype is not dtypes.int64:
                raise TypeError(f"values are int64; found {initializer.value_dtype.name}")
            if lookup_key_dtype is None:
                self.key_dtype = initializer.key_dtype
            self._table = StaticHashTable(initializer, -1)
            self._track_trackable(self._table, "_table")
        own = "hash_bucket" if self._table is None else self._table.name
        self.name = (name or own).rpartition("/")[2]
        if self.key_dtype not in (dtypes.string, dtypes.int32, dtypes.int64):
            raise TypeError(f"keys are strings or integers; found {self.key_dtype.name}")

    @property
    def initializer(self) -> Any:
        """The operation that fills the table."""
        if self._table is not None:
            return self._table.initializer
        with get_default_graph().name_scope("init"):
            return no_op()

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the table; None without an initializer."""
        return None if self._table is None else self._table.resource_handle

    def size(self, name: str | None = None) -> Tensor:
        """Return how many numbers there are, for words and other words."""
        with scope_of_call(name, f"{self.name}_Size"):
            table = self._table
            words = convert_to_tensor(0, dtypes.int64) if table is None else table.size()
            made: Tensor = apply_op("AddV2", words, self._buckets, name="add")
        return made

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        """Return the numbers of keys: a tensor, or a sparse or ragged one.

        Raises: TypeError for keys of another type.
        """
        if isinstance(keys, SparseTensor):
            return keys.with_values(self.lookup(keys.values, name))
        if isinstance(keys, RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.flat_values, name))
        given = convert_to_tensor(keys)
        if given.dtype != self.key_dtype:
            raise TypeError(f"keys are {self.key_dtype.name}; found {given.dtype.name}")
        table = self._table
        if table is not None and given.dtype != table.key_dtype:
            given = apply_op("Cast", given, DstT=table.key_dtype)
        with scope_of_call(name, f"{self.name}_Lookup"):
            text = given if given.dtype is dtypes.string else apply_op("AsString", given)
            hashed = apply_op(
                "StringToHashBucketFast", text, num_buckets=self._buckets, name="hash_bucket"
            )
            if table is None:
                return hashed
            found = table.lookup(given)
            other = apply_op("AddV2", hashed, table.size(), name="Add")
            is_there = apply_op("NotEqual", found, table.default_value)
            return apply_op("SelectV2", is_there, found, other)

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)


class _MutableTable(LookupInterface):
    """A table that changes, and that checkpoints hold unless it is made with checkpoint=False."""

    _words: ClassVar[Mapping[str, str]] = {
        "find": "lookup_table_find",
        "export": "lookup_table_export_values",
    }

    def _keep_in_checkpoints(self) -> None:
        """Let checkpoints hold all keys and values."""
        self._exported: tuple[Tensor, Tensor] | None = None
        self._just_exported: tuple[Tensor, Tensor] | None = None
        self.saved_parts: Sequence[SavedPart] = [
            SavedPart(self, "table-keys", "-keys", self.key_dtype, self._export_keys),
            SavedPart(self, "table-values", "-values", self.value_dtype, self._export_values),
        ]
        graph = get_default_graph()
        if not graph.is_eager and graph.body_class is None:
            # Graphs hold what a Saver reads from when the table is made, as in TensorFlow.
            self._exported = self.export()
            graph.add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)

    def _export_keys(self) -> Tensor:
        """Return the keys; the values with them, for the part that is read next."""
        self._just_exported = self._exported or self.export()
        return self._just_exported[0]

    def _export_values(self) -> Tensor:
        exported = self._just_exported or self._exported or self.export()
        self._just_exported = None
        return exported[1]

    def restore_parts(self, values: Sequence[Any]) -> Any:
        """Replace all entries by the keys and values of a checkpoint."""
        handle, graph = self.resource_handle, get_default_graph()
        # In a function the handle comes as an argument, where the table is.
        is_here = handle.graph is graph
        with graph.colocate_with(handle.op) if is_here else contextlib.nullcontext():
            return apply_op("LookupTableImportV2", handle, *values)

    def insert(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Any:
        """Give keys values, in place of those they had."""
        with self._named(name, "lookup_table_insert"):
            given = convert_to_tensor(keys, self.key_dtype, name="keys")
            found = convert_to_tensor(values, self.value_dtype, name="values")
            return apply_op("LookupTableInsertV2", self.resource_handle, given, found)

    def remove(self, keys: object, name: str | None = None) -> Any:
        """Take keys away; those that are not there are no error."""
        with self._named(name, "lookup_table_remove"):
            given = convert_to_tensor(keys, self.key_dtype)
            return apply_op("LookupTableRemoveV2", self.resource_handle, given)


@export("lookup.experimental.MutableHashTable")
@export_v2("lookup.experimental.MutableHashTable")
class MutableHashTable(_MutableTable):
    """A table that starts empty.  Values are scalars, or vectors where the default is one.

    Args:
      checkpoint: whether checkpoints hold its entries.
      experimental_is_anonymous: whether the table goes with the handle.
    """

    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        default = convert_to_tensor(default_value, value_dtype)
        kind = "MutableHashTable"
        attrs: dict[str, Any] = {}
        if default.shape.ndims != 0:
            kind, attrs = "MutableHashTableOfTensors", {"value_shape": default.shape}
        kind = f"Anonymous{kind}" if experimental_is_anonymous else f"{kind}V2"
        super().__init__(kind, key_dtype, value_dtype, default, name, **attrs)
        if checkpoint:
            self._keep_in_checkpoints()

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
            found: Tensor = super().lookup(keys, name)
            return found
        defaults = convert_to_tensor(dynamic_default_values, self.value_dtype)
        return self._find(keys, defaults, name)


@export("lookup.experimental.DenseHashTable")
@export_v2("lookup.experimental.DenseHashTable")
class DenseHashTable(_MutableTable):
    """A table that starts empty, in buckets: it takes more memory than MutableHashTable.

    Keys and values are scalars or vectors.  What it exports are all buckets, those without a key
    too; keys and values are rows there.

    Args:
      default_value: of keys that are not there; its shape is that of values.
      empty_key, deleted_key: what stands in buckets without a key: no keys of the table, and
        different from each other.
      initial_num_buckets: a power of two.
      checkpoint: whether checkpoints hold its buckets.
      experimental_is_anonymous: whether the table goes with the handle.
    """

    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        empty_key: TensorLike,
        deleted_key: TensorLike,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        default = convert_to_tensor(default_value, value_dtype, name="default_value")
        named = {"empty_key": empty_key, "deleted_key": deleted_key}
        marks = [convert_to_tensor(key, key_dtype, name=what) for what, key in named.items()]
        attrs: dict[str, Any] = {"value_shape": default.shape}
        if initial_num_buckets is not None:
            attrs["initial_num_buckets"] = initial_num_buckets
        is_anonymous = experimental_is_anonymous
        kind = "AnonymousMutableDenseHashTable" if is_anonymous else "MutableDenseHashTableV2"
        super().__init__(kind, key_dtype, value_dtype, default, name, marks, **attrs)
        if checkpoint:
            self._keep_in_checkpoints()

    def insert_or_assign(
        self, keys: TensorLike, values: TensorLike, name: str | None = None
    ) -> Any:
        """Give keys values, in place of those they had."""
        return self.insert(keys, values, name)

    def erase(self, keys: TensorLike, name: str | None = None) -> Any:
        """Take keys away; those that are not there are no error."""
        return self.remove(keys, name)
