"""The ops that make tensors of records (tf.train.Example).

Source: tensorflow/core/kernels/example_parsing_ops.cc, core/ops/parsing_ops.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.parsing.records import (
    check_count,
    check_default,
    dense_rows,
    examples_of,
    joined,
    keys_of,
    rows_of,
    sparse_rows,
)
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError


@dataclass(frozen=True)
class FeatureKinds:
    """Features by their kinds: keys, and of each its type or its shape."""

    sparse_keys: Sequence[str]
    sparse_types: Sequence[DType]
    dense_keys: Sequence[str]
    dense_shapes: Sequence[TensorShape]
    ragged_keys: Sequence[str] = ()
    ragged_types: Sequence[DType] = ()


def parsed_examples(
    serialized: Array | bytes, names: Array | bytes, wanted: FeatureKinds, defaults: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the sparse features (indices, values, shape), the dense ones, rows of ragged ones.

    Raises: InvalidArgumentError for what is no record, or does not have the features.
    """
    if np.ndim(serialized) > 1:
        raise InvalidArgumentError(
            f"Expected serialized to be a scalar or vector, got {list(np.shape(serialized))}"
        )
    keys = (wanted.sparse_keys, wanted.dense_keys, wanted.ragged_keys)
    expected = (len(wanted.sparse_types), len(defaults), len(wanted.ragged_types))
    if tuple(map(len, keys)) != expected or len(wanted.dense_shapes) != len(defaults):
        raise InvalidArgumentError(
            f"there are {tuple(map(len, keys))} sparse, dense and ragged keys for {expected} "
            "features"
        )
    if np.size(names) not in (0, np.size(serialized)):
        raise InvalidArgumentError("names must be empty or have one name for each record")
    for key, default, shape in zip(wanted.dense_keys, defaults, wanted.dense_shapes):
        check_default(key, default, shape)
    is_one = np.ndim(serialized) == 0
    examples = examples_of(serialized)
    sparse = [
        sparse_rows(rows_of(examples, key, dtype), dtype, is_one)
        for key, dtype in zip(wanted.sparse_keys, wanted.sparse_types)
    ]
    dense = [
        dense_rows(examples, key, default, shape)
        for key, default, shape in zip(wanted.dense_keys, defaults, wanted.dense_shapes)
    ]
    ragged = [
        rows_of(examples, key, dtype) for key, dtype in zip(wanted.ragged_keys, wanted.ragged_types)
    ]
    return sparse, [value[0] for value in dense] if is_one else dense, ragged


def _columns(sparse: list[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*sparse)] if sparse else [[], [], []]


def _parsed_shapes(c: ShapeContext) -> list[Dims]:
    attrs = c.attrs
    batch = c.inputs[0]
    rank = None if batch is None else len(batch) + 1
    sparse = len(attrs["sparse_types"])
    shapes: list[Dims] = [(None, rank)] * sparse + [(None,)] * len(attrs["sparse_types"])
    shapes += [(rank,)] * sparse
    for shape in attrs["dense_shapes"]:
        known = None if batch is None or shape.sizes is None else (*batch, *shape.sizes)
        shapes.append(known)
    shapes += [(None,)] * len(attrs.get("ragged_value_types", ()))
    rows = None if not batch or batch[0] is None else batch[0] + 1
    return [*shapes, *[(rows,)] * len(attrs.get("ragged_split_types", ()))]


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
    keys = [keys_of(given) for given in (sparse_keys, dense_keys, ragged_keys)]
    wanted = FeatureKinds(keys[0], sparse_types, keys[1], dense_shapes, keys[2], ragged_value_types)
    check_count("sparse", keys[0], num_sparse)
    sparse, dense, ragged = parsed_examples(serialized, names, wanted, dense_defaults)
    ends = [
        np.cumsum([0, *map(len, rows)]).astype(kind.as_numpy_dtype)
        for rows, kind in zip(ragged, ragged_split_types)
    ]
    flat = [joined(rows, dtype) for rows, dtype in zip(ragged, ragged_value_types)]
    return (*_columns(sparse), dense, flat, ends)


def _shapes_of_a_batch(c: ShapeContext) -> list[Dims]:
    if c.inputs[0] is not None and len(c.inputs[0]) != 1:
        raise ValueError("serialized must be a vector of records")
    return _parsed_shapes(c)


@op(
    """
    ParseExample(serialized: string, names: string, sparse_keys: Nsparse * string, \
dense_keys: Ndense * string, dense_defaults: *Tdense) -> sparse_indices: Nsparse * int64, \
sparse_values: *sparse_types, sparse_shapes: Nsparse * int64, dense_values: *Tdense
    Nsparse: int >= 0
    Ndense: int >= 0
    sparse_types: list(type) in {float, int64, string} >= 0
    Tdense: list(type) in {float, int64, string} >= 0
    dense_shapes: list(shape) >= 0
    """,
    shape=_shapes_of_a_batch,
)
def parse_example_kernel(
    ctx: KernelContext,
    serialized: Array,
    names: Array,
    sparse_keys: list[Any],
    dense_keys: list[Any],
    dense_defaults: list[Any],
    *,
    sparse_types: list[DType],
    dense_shapes: list[TensorShape],
) -> Any:
    """Return the features of a vector of records (see ParseExampleV2)."""
    if np.ndim(serialized) != 1:
        raise InvalidArgumentError(
            f"Expected serialized to be a vector, got shape {list(np.shape(serialized))}"
        )
    wanted = FeatureKinds(keys_of(sparse_keys), sparse_types, keys_of(dense_keys), dense_shapes)
    sparse, dense, _ = parsed_examples(serialized, names, wanted, dense_defaults)
    return (*_columns(sparse), dense)


def _shapes_of_one(c: ShapeContext) -> list[Dims]:
    if c.inputs[0] is not None and len(c.inputs[0]):
        raise ValueError("serialized must be one record, a scalar")
    return _parsed_shapes(c)


@op(
    """
    ParseSingleExample(serialized: string, dense_defaults: *Tdense) -> \
sparse_indices: num_sparse * int64, sparse_values: *sparse_types, \
sparse_shapes: num_sparse * int64, dense_values: *Tdense
    num_sparse: int >= 0
    sparse_keys: list(string) >= 0
    dense_keys: list(string) >= 0
    sparse_types: list(type) in {float, int64, string} >= 0
    Tdense: list(type) in {float, int64, string} >= 0
    dense_shapes: list(shape) >= 0
    """,
    shape=_shapes_of_one,
)
def parse_single_example_kernel(
    ctx: KernelContext,
    serialized: Array | bytes,
    dense_defaults: list[Any],
    *,
    num_sparse: int,
    sparse_keys: list[str | bytes],
    dense_keys: list[str | bytes],
    sparse_types: list[DType],
    dense_shapes: list[TensorShape],
) -> Any:
    """Return the features of one record (see ParseExampleV2)."""
    if np.ndim(serialized):
        raise InvalidArgumentError(
            f"Expected serialized to be a scalar, got shape {list(np.shape(serialized))}"
        )
    check_count("sparse", sparse_keys, num_sparse)
    wanted = FeatureKinds(keys_of(sparse_keys), sparse_types, keys_of(dense_keys), dense_shapes)
    sparse, dense, _ = parsed_examples(serialized, np.empty(0, object), wanted, dense_defaults)
    return (*_columns(sparse), dense)


not_differentiable("ParseExampleV2")
