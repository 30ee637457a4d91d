"""Records of training data (tf.train.Example) made into tensors.

Source: tensorflow/core/util/example_proto_fast_parsing.cc, core/ops/parsing_ops.cc;
python/ops/parsing_config.py for names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.array import concat
from tideflow.ops.export import export, export_v2, export_value
from tideflow.ops.math import cast
from tideflow.ops.ragged import RaggedTensor, from_row_splits
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import as_dtype

for _name in (
    *("BytesList", "FloatList", "Int64List", "Feature", "Features", "FeatureList"),
    *("FeatureLists", "Example", "SequenceExample"),
):
    export_value(f"train.{_name}", getattr(pb, _name))


@export("io.FixedLenFeature", "FixedLenFeature")
class FixedLenFeature(NamedTuple):
    """A feature of one shape in all records; default_value where a record has none."""

    shape: Any
    dtype: Any
    default_value: Any = None


@export("io.VarLenFeature", "VarLenFeature")
class VarLenFeature(NamedTuple):
    """A feature of any number of values, which becomes a sparse tensor."""

    dtype: Any


@export("io.FixedLenSequenceFeature", "FixedLenSequenceFeature")
class FixedLenSequenceFeature(NamedTuple):
    """A feature of rows of one shape, as many as there are; filled up to the most in a batch."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


@export("io.SparseFeature", "SparseFeature")
class SparseFeature(NamedTuple):
    """A sparse tensor of a record, whose indices and values are features of their own.

    Attributes: index_key, or a list of them, one for each dimension after the batch's; value_key;
    dtype, of the values; size, of each of these dimensions; already_sorted, whether the indices
    rise.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False

    @property
    def index_keys(self) -> list[str]:
        """The keys of the indices."""
        return [self.index_key] if isinstance(self.index_key, str) else list(self.index_key)

    def parts(self) -> dict[str, VarLenFeature]:
        """Return the features that it is made of."""
        indices = {key: VarLenFeature(dtypes.int64) for key in self.index_keys}
        return {**indices, self.value_key: VarLenFeature(self.dtype)}


@export("io.RaggedFeature")
class RaggedFeature(NamedTuple):
    """A feature of any number of values, which becomes a ragged tensor.

    partitions: not offered; they would divide the values of a record further.
    """

    dtype: Any
    value_key: str | None = None
    partitions: Any = ()
    row_splits_dtype: Any = dtypes.int32
    validate: bool = False


def default_of(key: str, feature: Any, shape: TensorShape) -> Any:
    """Return the default of a dense feature as a tensor; an empty one where it has none."""
    dtype = as_dtype(feature.dtype)
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(f"Unsupported: FixedLenSequenceFeature {key!r} needs allow_missing")
        nothing: Any = "" if dtype is dtypes.string else 0
        return convert_to_tensor(
            nothing if feature.default_value is None else feature.default_value, dtype
        )
    if feature.default_value is None:
        return convert_to_tensor(np.zeros(0, dtype.as_numpy_dtype), dtype)
    sizes = np.array(shape.as_list(), np.int32)
    return apply_op("Reshape", convert_to_tensor(feature.default_value, dtype), sizes)


class Wanted:
    """Features by their kinds, each sorted by its key."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.sparse: dict[str, Any] = {}
        self.dense: dict[str, Any] = {}
        self.ragged: dict[str, Any] = {}
        for key in sorted(features):
            feature = features[key]
            if isinstance(feature, VarLenFeature):
                self.sparse[key] = feature
            elif isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
                self.dense[key] = feature
            elif isinstance(feature, RaggedFeature):
                if feature.partitions:
                    raise ValueError(f"feature {key!r}: partitions are not supported")
                self.ragged[key] = feature
            else:
                raise ValueError(f"feature {key!r} is {feature!r}; no kind of feature")

    def shape(self, key: str) -> TensorShape:
        """Return the shape of a dense feature; its first size is open for rows."""
        feature = self.dense[key]
        sizes = TensorShape(feature.shape)
        if not sizes.is_fully_defined():
            raise ValueError(f"the shape of feature {key!r} must be known; found {sizes}")
        is_rows = isinstance(feature, FixedLenSequenceFeature)
        return TensorShape([None, *sizes.as_list()]) if is_rows else sizes

    def step_shape(self, key: str) -> TensorShape:
        """Return the shape of a dense feature at one step."""
        return TensorShape(self.dense[key].shape)


def _joined(feature: SparseFeature, parts: Mapping[str, Any]) -> SparseTensor:
    """Return the sparse tensor whose indices and values were parsed."""
    ids = [parts[key] for key in feature.index_keys]
    sizes = [feature.size] if isinstance(feature.size, int) else list(feature.size)
    if len(ids) != len(sizes):
        raise ValueError(f"{len(ids)} keys of indices need as many sizes; found {sizes}")
    columns = [apply_op("ExpandDims", cast(each.values, dtypes.int64), 1) for each in ids]
    made = SparseTensor(
        concat([ids[0].indices[:, :-1], *columns], 1),
        parts[feature.value_key].values,
        concat([ids[0].dense_shape[:-1], np.array(sizes, np.int64)], 0),
    )
    if feature.already_sorted:
        return made
    indices, values = apply_op("SparseReorder", made.indices, made.values, made.dense_shape)
    return SparseTensor(indices, values, made.dense_shape)


def plain_features(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return the features of records that make features, none of which is made of others."""
    found: dict[str, Any] = {}
    for feature in features.values():
        if isinstance(feature, SparseFeature):
            found |= feature.parts()
    plain = {k: f for k, f in features.items() if not isinstance(f, SparseFeature)}
    return {**found, **plain}


def composed_features(features: Mapping[str, Any], parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Return features, made of the plain ones."""
    return {
        key: _joined(feature, parsed) if isinstance(feature, SparseFeature) else parsed[key]
        for key, feature in features.items()
    }


def _parse(
    serialized: TensorLike, features: Mapping[str, Any], names: object, name: str | None
) -> dict[str, Any]:
    if not features:
        raise ValueError("Missing: features was None or empty")
    parts = plain_features(features)
    if parts != dict(features):
        return composed_features(features, _parse(serialized, parts, names, name))
    wanted = Wanted(features)
    ragged = list(wanted.ragged.values())
    shapes = [wanted.shape(key) for key in wanted.dense]
    value_keys = [feature.value_key or key for key, feature in wanted.ragged.items()]
    with get_default_graph().name_scope(name or "ParseExample"):
        keys = [
            convert_to_tensor(np.array([key.encode() for key in given], object), dtypes.string)
            for given in (list(wanted.sparse), list(wanted.dense), value_keys)
        ]
        labels = np.empty(0, object) if names is None else names
        found = apply_op(
            "ParseExampleV2",
            convert_to_tensor(serialized, dtypes.string),
            convert_to_tensor(labels, dtypes.string),
            *keys,
            [default_of(key, wanted.dense[key], shape) for key, shape in zip(wanted.dense, shapes)],
            num_sparse=len(wanted.sparse),
            sparse_types=[as_dtype(feature.dtype) for feature in wanted.sparse.values()],
            ragged_value_types=[as_dtype(feature.dtype) for feature in ragged],
            ragged_split_types=[as_dtype(feature.row_splits_dtype) for feature in ragged],
            dense_shapes=shapes,
        )
    indices, values, sizes, dense, ragged_values, splits = found
    made: dict[str, Any] = dict(zip(wanted.dense, dense))
    made |= {k: SparseTensor(*parts) for k, *parts in zip(wanted.sparse, indices, values, sizes)}
    for key, flat, split in zip(wanted.ragged, ragged_values, splits):
        made[key] = from_row_splits(flat, split)
    return made


@export("io.parse_example", "parse_example")
def parse_example(
    serialized: TensorLike,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: TensorLike | None = None,
) -> dict[str, Any]:
    """Return the features of records as tensors, by their names.

    Args:
      serialized: strings [batch], each a tf.train.Example.
      features: by name a FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or RaggedFeature.
    Raises: ValueError for features that say too little; InvalidArgumentError, when run, for records
    that are none or do not fit.
    """
    return _parse(serialized, features, example_names, name)


@export_v2("io.parse_example")
def parse_example_v2(
    serialized: TensorLike,
    features: Mapping[str, Any],
    example_names: TensorLike | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Return the features of records as tensors, by their names (see the TF1 shape)."""
    return _parse(serialized, features, example_names, name)


@export("io.parse_single_example", "parse_single_example")
def parse_single_example(
    serialized: TensorLike,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: TensorLike | None = None,
) -> dict[str, Any]:
    """Return the features of one record, a scalar string (see parse_example)."""
    return _parse_one(serialized, features, example_names, name)


@export_v2("io.parse_single_example")
def parse_single_example_v2(
    serialized: TensorLike,
    features: Mapping[str, Any],
    example_names: TensorLike | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Return the features of one record, a scalar string (see parse_example)."""
    return _parse_one(serialized, features, example_names, name)


def _parse_one(
    serialized: TensorLike, features: Mapping[str, Any], names: object, name: str | None
) -> dict[str, Any]:
    made = _parse(serialized, features, names, name or "ParseSingleExample")
    # One record has one row of each.
    return {k: v.values if isinstance(v, RaggedTensor) else v for k, v in made.items()}
