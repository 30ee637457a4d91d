"""Tables that datasets fill: tf.data.experimental.DatasetInitializer, table_from_dataset.

Source: tensorflow/python/data/experimental/ops/lookup_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.data import Dataset, assert_cardinality, to_variant
from tideflow.ops.export import export, export_v2
from tideflow.ops.lookup.classes import StaticHashTable, StaticVocabularyTable, TableInitializer
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


@export("data.experimental.DatasetInitializer")
@export_v2("data.experimental.DatasetInitializer")
class DatasetInitializer(TableInitializer):
    """Fills a table from a dataset, whose elements are pairs of scalars: a key and its value.

    Raises: ValueError for other elements.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        key, value = _pair_of(dataset)
        self.key_dtype, self.value_dtype = key.dtype, value.dtype

    def initialize(self, table: Any) -> Any:
        """Return the operation that fills a table, or fill it at once."""
        return apply_op(
            "InitializeTableFromDataset", table.resource_handle, to_variant(self.dataset)
        )


def _pair_of(dataset: Dataset) -> tuple[Any, Any]:
    spec = dataset.element_spec
    if len(spec) != 2:
        raise ValueError(
            f"a dataset that fills a table gives pairs (key, value); this one gives {spec}"
        )
    for what, one in zip(("key", "value"), spec):
        if one.shape.rank not in (None, 0):
            raise ValueError(
                "a dataset that fills a table gives keys and values that are scalars; this one "
                f"gives non-scalar {what} Tensors of rank {one.shape.rank}"
            )
    return tuple(spec)


@export("data.experimental.table_from_dataset")
@export_v2("data.experimental.table_from_dataset")
def table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: TensorLike | None = None,
    hasher_spec: Any = None,
    key_dtype: DTypeLike = dtypes.string,
    name: str | None = None,
) -> Any:
    """Return a table that a dataset of pairs fills.

    Args:
      num_oov_buckets: how many numbers other keys get, by their hash, from the number of keys on.
      vocab_size: how many elements count; the dataset must have that many.
      default_value: of other keys, without such numbers.
      hasher_spec: only the default hash is there: None.
      key_dtype: of the keys that are looked up.
    Raises: ValueError for what fits no table; TypeError for keys that are no strings or integers.
    """
    if num_oov_buckets < 0:
        raise ValueError(
            f"`num_oov_buckets` must be greater than or equal to 0, got {num_oov_buckets}."
        )
    if vocab_size is not None:
        if vocab_size < 1:
            raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")
        dataset = dataset.take(vocab_size).apply(assert_cardinality(vocab_size))
    dtype = as_dtype(key_dtype)
    if not (dtype.is_integer or dtype is dtypes.string):
        raise TypeError(
            f"`key_dtype` must be either an integer or string type, but got {dtype.name}"
        )
    if hasher_spec is not None:
        raise ValueError("only the default hasher_spec is there: None")
    initializer = DatasetInitializer(dataset)
    if num_oov_buckets:
        return StaticVocabularyTable(initializer, num_oov_buckets, dtype, name)
    return StaticHashTable(initializer, -1 if default_value is None else default_value, name)


@export("data.experimental.index_table_from_dataset")
@export_v2("data.experimental.index_table_from_dataset")
def index_table_from_dataset(
    dataset: Dataset | None = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: TensorLike = -1,
    hasher_spec: Any = None,
    key_dtype: DTypeLike = dtypes.string,
    name: str | None = None,
) -> Any:
    """Return a table from the elements of a dataset to their numbers, from 0 on.

    The arguments are those of table_from_dataset.
    """
    if dataset is None:
        raise ValueError("`dataset` must be specified.")
    return table_from_dataset(
        dataset.enumerate().map(lambda number, key: (key, number)),
        num_oov_buckets,
        vocab_size,
        default_value,
        hasher_spec,
        key_dtype,
        name,
    )
