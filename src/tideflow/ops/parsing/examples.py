"""Records of training data (tf.train.Example) made into tensors.

Source: tensorflow/core/util/example_proto_fast_parsing.cc, core/ops/parsing_ops.cc;
python/ops/parsing_config.py for names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2, export_value
from tideflow.ops.ragged import RaggedTensor, from_row_splits
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

_KINDS = {"bytes_list": dtypes.string, "float_list": dtypes.float32, "int64_list": dtypes.int64}

for _name in (
    *("BytesList", "FloatList", "Int64List", "Feature", "Features", "FeatureList"),
    *("FeatureLists", "Example", "SequenceExample"),
):
    export_value(f"train.{_name}", getattr(pb, _name))


# ---- reading


def _examples(serialized: object) -> list[Any]:
    made = []
    for text in np.asarray(serialized, object).reshape(-1).tolist():
        try:
            made.append(pb.Example.FromString(text).features.feature)
        except DecodeError:
            raise InvalidArgumentError(
                f"Could not parse example input, value: {text[:60]!r}"
            ) from None
    return made


def _values(features: Any, key: str, dtype: DType) -> Any:
    """Return a feature's values, or None where it is missing.  Raises: InvalidArgumentError."""
    if key not in features:
        return None
    feature = features[key]
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    if _KINDS[kind] is not dtype:
        raise InvalidArgumentError(
            f"Key: {key}.  Data types don't match. Expected type: {dtype.name}; found {kind}"
        )
    found = getattr(feature, kind).value
    if dtype is dtypes.string:
        return _object_array(found)
    return np.array(found, dtype.as_numpy_dtype)


def _object_array(items: Sequence[bytes]) -> Any:
    made = np.empty(len(items), object)
    made[:] = list(items)
    return made


def _joined(parts: list[Any], dtype: DType) -> Any:
    return np.concatenate([np.empty(0, dtype.as_numpy_dtype), *parts])


def _keys(value: object) -> list[str]:
    return [key.decode() for key in np.asarray(value, object).reshape(-1).tolist()]


def _rows(examples: list[Any], key: str, dtype: DType) -> list[Any]:
    found = [_values(features, key, dtype) for features in examples]
    return [np.empty(0, dtype.as_numpy_dtype) if row is None else row for row in found]


def _sparse(rows: list[Any], dtype: DType, is_one: bool) -> tuple[Any, Any, Any]:
    """Return indices, values and shape of rows of different lengths."""
    counts = [len(row) for row in rows]
    values = _joined(rows, dtype)
    columns = np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)]).astype(np.int64)
    longest = max(counts, default=0)
    if is_one:
        return columns[:, None], values, np.array([longest], np.int64)
    batch = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    return np.stack([batch, columns], 1), values, np.array([len(rows), longest], np.int64)


def _dense(examples: list[Any], key: str, default: Array, shape: TensorShape) -> Any:
    """Return a feature of one shape, [examples, ...]; its first size may be open, to be filled."""
    dtype = dtypes.dtype_of(default)
    sizes = list(shape.sizes or ())
    found = [_values(features, key, dtype) for features in examples]
    if sizes and sizes[0] is None:
        return _padded(found, key, default, [int(size or 0) for size in sizes[1:]])
    count = math.prod(int(size or 0) for size in sizes)
    rows = []
    for at, row in enumerate(found):
        if row is None:
            if np.size(default) != count:
                raise InvalidArgumentError(
                    f"Name: <unknown>, Feature: {key} (data type: {dtype.name}) is required but "
                    f"could not be found in example {at}."
                )
            row = np.reshape(default, -1)
        if len(row) != count:
            raise InvalidArgumentError(
                f"Key: {key}, Index: {at}.  Number of {dtype.name} values != expected.  "
                f"Values size: {len(row)} but output shape: {shape}"
            )
        rows.append(row)
    return _joined(rows, dtype).reshape([len(examples), *[int(size or 0) for size in sizes]])


def _check_default(key: str, default: Array, shape: TensorShape) -> None:
    """Raise InvalidArgumentError for a default that is neither nothing nor fits the feature."""
    sizes = shape.as_list()
    if sizes and sizes[0] is None:
        fits = np.size(default) <= 1  # what rows are made longer with
    else:
        fits = not np.size(default) or list(np.shape(default)) == sizes
    if not fits:
        raise InvalidArgumentError(
            f"the default of {key!r} has shape {list(np.shape(default))}; the feature has {sizes}"
        )


def _padded(found: list[Any], key: str, default: Any, inner: list[int]) -> Any:
    stride = math.prod(inner)
    dtype = dtypes.dtype_of(default)
    rows = [np.empty(0, dtype.as_numpy_dtype) if row is None else row for row in found]
    for at, row in enumerate(rows):
        if stride == 0 or len(row) % stride:
            raise InvalidArgumentError(
                f"Key: {key}, Index: {at}.  Number of {dtype.name} values is not a multiple of "
                f"stride length. Saw {len(row)} values but output shape is: {inner}"
            )
    longest = max((len(row) for row in rows), default=0)
    nothing: Any = b"" if dtype is dtypes.string else 0
    filling = np.reshape(default, -1)[0] if np.size(default) else nothing
    made = np.full((len(rows), longest), filling, dtype.as_numpy_dtype)
    for target, row in zip(made, rows):
        target[: len(row)] = row
    return made.reshape([len(rows), longest // stride, *inner])


# ---- the op


def _parsed_shapes(c: ShapeContext) -> list[Dims]:
    attrs = c.attrs
    batch = c.inputs[0]
    rank = None if batch is None else len(batch) + 1
    sparse = attrs["num_sparse"]
    shapes: list[Dims] = [(None, rank)] * sparse + [(None,)] * len(attrs["sparse_types"])
    shapes += [(rank,)] * sparse
    for shape in attrs["dense_shapes"]:
        known = None if batch is None or shape.sizes is None else (*batch, *shape.sizes)
        shapes.append(known)
    shapes += [(None,)] * len(attrs["ragged_value_types"])
    rows = None if not batch or batch[0] is None else batch[0] + 1
    return [*shapes, *[(rows,)] * len(attrs["ragged_split_types"])]


@op(
    """
    ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, \
ragged_keys: string, dense_defaults: *Tdense) -> sparse_indices: num_sparse * int64, \
sparse_values: *sparse_types, sparse_shapes: num_sparse * int64, dense_values: *Tdense, \
ragged_values: *ragged_value_types, ragged_row_splits: *ragged_split_types
    Tdense: list(type) in {float, int64, string} >= 0
    num_sparse: int >= 0
    sparse_types: list(type) in {float, int64, string} >= 0
    ragged_value_types: list(type) in {float, int64, string} >= 0
    ragged_split_types: list(type) in {int32, int64} >= 0
    dense_shapes: list(shape) >= 0
    """,
    shape=_parsed_shapes,
)
def parse_example_v2_kernel(
    ctx: KernelContext,
    serialized: Array | bytes,
    names: Array | bytes,
    sparse_keys: Array | bytes,
    dense_keys: Array | bytes,
    ragged_keys: Array | bytes,
    dense_defaults: list[Any],
    *,
    num_sparse: int,
    sparse_types: list[DType],
    ragged_value_types: list[DType],
    ragged_split_types: list[DType],
    dense_shapes: list[TensorShape],
) -> Any:
    """Return the features of records: a vector of them, or one.

    Raises: InvalidArgumentError for what is no record, a feature of another type or number of
    values, or one that is missing and has no default.
    """
    if np.ndim(serialized) > 1:
        raise InvalidArgumentError(
            f"Expected serialized to be a scalar or vector, got {list(np.shape(serialized))}"
        )
    keys = [_keys(given) for given in (sparse_keys, dense_keys, ragged_keys)]
    expected = (num_sparse, len(dense_defaults), len(ragged_value_types))
    if tuple(map(len, keys)) != expected:
        raise InvalidArgumentError(
            f"there are {tuple(map(len, keys))} sparse, dense and ragged keys for {expected} "
            "features"
        )
    if np.size(names) not in (0, np.size(serialized)):
        raise InvalidArgumentError("names must be empty or have one name for each record")
    for key, default, shape in zip(keys[1], dense_defaults, dense_shapes):
        _check_default(key, default, shape)
    is_one = np.ndim(serialized) == 0
    examples = _examples(serialized)
    sparse = [
        _sparse(_rows(examples, key, dtype), dtype, is_one)
        for key, dtype in zip(keys[0], sparse_types)
    ]
    dense = [
        _dense(examples, key, default, shape)
        for key, default, shape in zip(keys[1], dense_defaults, dense_shapes)
    ]
    ragged, splits = [], []
    for key, dtype, split_dtype in zip(keys[2], ragged_value_types, ragged_split_types):
        rows = _rows(examples, key, dtype)
        ragged.append(_joined(rows, dtype))
        ends = np.cumsum([0, *map(len, rows)]).astype(split_dtype.as_numpy_dtype)
        splits.append(ends)
    columns = [list(column) for column in zip(*sparse)] if sparse else [[], [], []]
    return (*columns, [value[0] for value in dense] if is_one else dense, ragged, splits)


not_differentiable("ParseExampleV2")

# ---- public functions


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


def _default(key: str, feature: Any, shape: TensorShape) -> Any:
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


class _Wanted:
    """Features by their kinds, each sorted by its key."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        if not features:
            raise ValueError("Missing: features was None or empty")
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


def _parse(
    serialized: TensorLike, features: Mapping[str, Any], names: object, name: str | None
) -> dict[str, Any]:
    wanted = _Wanted(features)
    ragged = list(wanted.ragged.values())
    shapes = [wanted.shape(key) for key in wanted.dense]
    value_keys = [feature.value_key or key for key, feature in wanted.ragged.items()]
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
        [_default(key, wanted.dense[key], shape) for key, shape in zip(wanted.dense, shapes)],
        num_sparse=len(wanted.sparse),
        sparse_types=[as_dtype(feature.dtype) for feature in wanted.sparse.values()],
        ragged_value_types=[as_dtype(feature.dtype) for feature in ragged],
        ragged_split_types=[as_dtype(feature.row_splits_dtype) for feature in ragged],
        dense_shapes=shapes,
        name=name or "ParseExample",
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
