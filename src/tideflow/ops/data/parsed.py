"""Datasets of the features of records that another dataset gives in batches.

Source: tensorflow/core/kernels/data/experimental/parse_example_dataset_op.cc,
python/data/experimental/ops/parsing_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import DATA, run_blocking
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions_api import Dataset as StructuredDataset
from tideflow.ops.data.map import parallelism
from tideflow.ops.data.structure import int64
from tideflow.ops.data.values import Dataset, Element, Iterator, fail, owned
from tideflow.ops.export import export, export_v2
from tideflow.ops.parsing import (
    FeatureKinds,
    Wanted,
    composed_features,
    default_of,
    joined,
    keys_of,
    parsed_examples,
    plain_features,
)
from tideflow.ops.ragged import RaggedTensorSpec, RaggedValue
from tideflow.ops.sparse import SparseTensorSpec, TensorElement
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


class _Parsed:
    """Gives the features of each batch of records."""

    __slots__ = ("_parse", "_source")

    def __init__(self, source: Iterator, parse: Callable[[Any], Element]) -> None:
        self._source = source
        self._parse = parse

    async def next(self) -> Element | None:
        element = await self._source.next()
        if element is None:
            return None
        records = element[0]
        return await run_blocking(DATA, lambda _: self._parse(records))


def _as_variants(parts: Sequence[Any], dtype: DType) -> Any:
    """Return indices, values and shape of a sparse tensor as an element has them."""
    made = np.empty(3, object)
    kinds = (dtypes.int64, dtype, dtypes.int64)
    made[:] = [TensorElement(part, kind) for part, kind in zip(parts, kinds)]
    return made


_FEATURES = """
    dense_shapes: list(shape) >= 0
    sparse_keys: list(string) >= 0
    dense_keys: list(string) >= 0
    sparse_types: list(type) in {float, int64, string} >= 0
    Tdense: list(type) in {float, int64, string} >= 0
"""
_RAGGED = """
    ragged_keys: list(string) >= 0 = []
    ragged_value_types: list(type) in {float, int64, string} >= 0 = []
    ragged_split_types: list(type) in {int32, int64} >= 0 = []
"""
_INPUTS = "(input_dataset: variant, num_parallel_calls: int64, dense_defaults: *Tdense)"


@dataset_op(
    f"ParseExampleDataset{_INPUTS}\n    sloppy: bool = false{_FEATURES}{_RAGGED}",
    f"ParseExampleDatasetV2{_INPUTS}\n    deterministic: string = 'default'{_FEATURES}{_RAGGED}",
    f"ExperimentalParseExampleDataset{_INPUTS}\n    sloppy: bool = false{_FEATURES}",
    metadata=False,
)
def parse_example_dataset_op(
    input_dataset: Dataset,
    num_parallel_calls: int,
    dense_defaults: list[Any],
    sparse_keys: list[bytes],
    dense_keys: list[bytes],
    sparse_types: list[DType],
    dense_shapes: list[TensorShape],
    ragged_keys: Sequence[bytes] = (),
    ragged_value_types: Sequence[DType] = (),
    ragged_split_types: Sequence[DType] = (),
) -> Elements:
    """Return the features of each vector of records, sorted by their keys.

    Raises: InvalidArgumentError for a dataset of anything but vectors of strings, and for features
      that do not fit each other; when walked over, as ParseExampleV2.
    """
    parallelism(num_parallel_calls)
    [kind, *others] = input_dataset.types
    dims = input_dataset.shapes[0]
    if others or kind is not dtypes.string or (dims is not None and len(dims) != 1):
        raise fail("Input dataset should be a dataset of vectors of strings.")
    if len(ragged_split_types) != len(ragged_keys):
        raise fail(
            f"there are {len(ragged_split_types)} types of splits for {len(ragged_keys)} keys"
        )
    wanted = FeatureKinds(
        keys_of(sparse_keys), sparse_types, keys_of(dense_keys), dense_shapes,
        keys_of(ragged_keys), ragged_value_types,
    )  # fmt: skip
    defaults = [owned(value) for value in dense_defaults]

    def parse(records: Any) -> Element:
        if np.ndim(records) != 1:
            raise fail(f"serialized must be a vector of records; its rank is {np.ndim(records)}")
        sparse, dense, ragged = parsed_examples(records, np.empty(0, object), wanted, defaults)
        found = dict(zip(wanted.dense_keys, dense))
        for key, parts, dtype in zip(wanted.sparse_keys, sparse, sparse_types):
            found[key] = _as_variants(parts, dtype)
        kinds = zip(wanted.ragged_keys, ragged, ragged_value_types, ragged_split_types)
        for key, rows, dtype, splits_type in kinds:
            ends = np.cumsum([0, *map(len, rows)]).astype(splits_type.as_numpy_dtype)
            found[key] = RaggedValue([ends], joined(rows, dtype), dtype)
        return tuple(found[key] for key in sorted(found))

    # What does not fit is told before the first record is there.
    parse(np.empty(0, object))
    return Elements(lambda: _Parsed(input_dataset.iterator(), parse), input_dataset.cardinality)


def _element(wanted: Wanted, lead: TensorShape) -> dict[str, Any]:
    """Return the specs of the features of batches; lead: the shape of a batch of records."""
    rows = [*lead.as_list(), None]
    element: dict[str, Any] = {
        key: SparseTensorSpec(rows, feature.dtype) for key, feature in wanted.sparse.items()
    }
    for key, feature in wanted.dense.items():
        sizes = wanted.shape(key).as_list()
        element[key] = TensorSpec([*lead.as_list(), *sizes], feature.dtype)
    for key, feature in wanted.ragged.items():
        element[key] = RaggedTensorSpec(rows, feature.dtype, 1, feature.row_splits_dtype)
    return element


def _by_value_keys(features: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the keys by which records have what has another name, and features by these keys.

    Raises: ValueError for a key that stands for two features.
    """
    renamed: dict[str, str] = {}
    found: dict[str, Any] = {}
    for name, feature in features.items():
        key = getattr(feature, "value_key", None) or name
        if key in found:
            raise ValueError(f"the key {key!r} of records stands for two features; one is possible")
        if key != name:
            renamed[name] = key
        found[key] = feature
    return renamed, found


@export("data.experimental.parse_example_dataset")
@export_v2("data.experimental.parse_example_dataset")
def parse_example_dataset(
    features: Mapping[str, Any],
    num_parallel_calls: TensorLike = 1,
    deterministic: bool | None = None,
) -> Callable[[Any], Any]:
    """Return the transformation of vectors of records into dicts of their features.

    Args:
      features: by name a FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, SparseFeature or
        RaggedFeature.
      num_parallel_calls, deterministic: how many batches are read at once, and whether their order
        is kept; it is.
    Returns: a function for `Dataset.apply`.
    Raises: ValueError without features, and for ones that say too little; TypeError for a dataset
      of anything but vectors of strings; InvalidArgumentError, when walked over, for records that
      are none or do not fit.
    Example:
      >>> one = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
      >>> record = tf.train.Example(features=tf.train.Features(feature={"n": one}))
      >>> records = tf.data.Dataset.from_tensors([record.SerializeToString()])
      >>> parse = tf.data.experimental.parse_example_dataset(
      ...     {"n": tf.io.FixedLenFeature([], tf.int64)})
      >>> [row["n"].numpy().tolist() for row in records.apply(parse)]
      [[7]]
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")
    renamed, parts = _by_value_keys(plain_features(features))
    wanted = Wanted(parts)

    def transform(dataset: StructuredDataset) -> Any:
        found = dataset.element_spec
        if not TensorSpec([None], dtypes.string).is_compatible_with(found):
            raise TypeError(
                f"Input dataset should be a dataset of vectors of strings. Instead it is `{found}`."
            )
        shapes = [wanted.shape(key) for key in wanted.dense]
        defaults = [
            default_of(key, feature, shape)
            for (key, feature), shape in zip(wanted.dense.items(), shapes)
        ]
        element: Any = _element(wanted, found.shape)
        made = dataset._make(
            "ParseExampleDatasetV2",
            [dataset, int64(num_parallel_calls), defaults],
            element,
            sparse_keys=list(wanted.sparse),
            sparse_types=[as_dtype(one.dtype) for one in wanted.sparse.values()],
            dense_keys=list(wanted.dense),
            dense_shapes=shapes,
            ragged_keys=list(wanted.ragged),
            ragged_value_types=[as_dtype(one.dtype) for one in wanted.ragged.values()],
            ragged_split_types=[as_dtype(one.row_splits_dtype) for one in wanted.ragged.values()],
            deterministic="default" if deterministic is None else str(deterministic).lower(),
        )
        if parts == dict(features):
            return made

        def compose(parsed: dict[str, Any]) -> dict[str, Any]:
            named = {name: parsed[key] for name, key in renamed.items()}
            return composed_features(features, {**parsed, **named})

        return made.map(compose)

    return transform
