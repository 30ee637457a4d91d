"""tf.io.parse_sequence_example and its sibling for one record.

Source: tensorflow/python/ops/parsing_ops.py, for arguments and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.parsing.examples import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    Wanted,
    default_of,
)
from tideflow.ops.ragged import from_row_splits
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype

_Parsed = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def _check(context: Mapping[str, Any], steps: Mapping[str, Any]) -> None:
    if not (context or steps):
        raise ValueError(
            "Both `context_features` and `sequence_features` argument are None, but at least one "
            "should have values."
        )
    for features, kind in ((context, FixedLenSequenceFeature), (steps, FixedLenFeature)):
        for key, feature in features.items():
            if isinstance(feature, kind):
                raise ValueError(f"Unsupported {kind.__name__} {feature} for key '{key}'")
    for feature in steps.values():
        if isinstance(feature, FixedLenSequenceFeature) and feature.default_value is not None:
            raise ValueError("Value feature_list.dense_defaults[i] must be None")


def _keys(given: Any) -> Any:
    return convert_to_tensor(np.array([key.encode() for key in given], object), dtypes.string)


def _types(features: Mapping[str, Any]) -> list[Any]:
    return [as_dtype(feature.dtype) for feature in features.values()]


def _ragged_keys(wanted: Wanted) -> list[str]:
    return [feature.value_key or key for key, feature in wanted.ragged.items()]


def _split_types(wanted: Wanted) -> list[Any]:
    return [as_dtype(feature.row_splits_dtype) for feature in wanted.ragged.values()]


def _parse(
    serialized: TensorLike,
    context: Mapping[str, Any] | None,
    steps: Mapping[str, Any] | None,
    names: Any,
) -> tuple[Wanted, Wanted, list[Any]]:
    """Return what is wanted of the whole and of the steps, and the outputs of the op."""
    _check(context or {}, steps or {})
    whole, lists = Wanted(context or {}), Wanted(steps or {})
    shapes = [whole.shape(key) for key in whole.dense]
    may_miss = [feature.allow_missing for feature in lists.dense.values()]
    found = apply_op(
        "ParseSequenceExampleV2",
        convert_to_tensor(serialized, dtypes.string),
        convert_to_tensor(np.empty(0, object) if names is None else names, dtypes.string),
        *(_keys(whole.sparse), _keys(whole.dense), _keys(_ragged_keys(whole))),
        *(_keys(lists.sparse), _keys(lists.dense), _keys(_ragged_keys(lists))),
        np.array(may_miss, np.bool_),
        [default_of(key, whole.dense[key], shape) for key, shape in zip(whole.dense, shapes)],
        Ncontext_sparse=len(whole.sparse),
        Nfeature_list_sparse=len(lists.sparse),
        Nfeature_list_dense=len(lists.dense),
        context_sparse_types=_types(whole.sparse),
        context_ragged_value_types=_types(whole.ragged),
        context_ragged_split_types=_split_types(whole),
        context_dense_shapes=shapes,
        feature_list_dense_types=_types(lists.dense),
        feature_list_sparse_types=_types(lists.sparse),
        feature_list_ragged_value_types=_types(lists.ragged),
        feature_list_ragged_split_types=_split_types(lists),
        feature_list_dense_shapes=[lists.step_shape(key) for key in lists.dense],
        name="ParseSequenceExampleV2",
    )
    return whole, lists, list(found)


def _named(wanted: Wanted, sparse: list[Any], dense: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {key: SparseTensor(*p) for key, *p in zip(wanted.sparse, *sparse)}
    return made | dict(zip(wanted.dense, dense))


@export("io.parse_sequence_example")
def parse_sequence_example(
    serialized: TensorLike,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: TensorLike | None = None,
    name: str | None = None,
) -> _Parsed:
    """Return the features of records of sequences (tf.train.SequenceExample) as tensors.

    Args:
      serialized: strings [batch].
      context_features: by name a FixedLenFeature, VarLenFeature or RaggedFeature.
      sequence_features: by name a FixedLenSequenceFeature, VarLenFeature or RaggedFeature.
    Returns: the features of the whole, those of the steps, and how many steps each record has of a
      FixedLenSequenceFeature, all by their names.
    Raises: ValueError for features that say too little; InvalidArgumentError, when run, for records
    that are none or do not fit.
    """
    given = (serialized, context_features, sequence_features, example_names)
    with get_default_graph().name_scope(name or "ParseSequenceExample"):
        whole, lists, found = _parse(*given)
    context = _named(whole, found[:3], found[3])
    for key, values, splits in zip(whole.ragged, found[4], found[5]):
        context[key] = from_row_splits(values, splits, validate=False)
    steps = _named(lists, found[6:9], found[9])
    for key, values, outer, inner in zip(lists.ragged, *found[11:14]):
        rows = from_row_splits(values, inner, validate=False)
        steps[key] = from_row_splits(rows, outer, validate=False)
    return context, steps, dict(zip(lists.dense, found[10]))


@export("io.parse_single_sequence_example", "parse_single_sequence_example")
def parse_single_sequence_example(
    serialized: TensorLike,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: TensorLike | None = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the features of one record of a sequence, a scalar (see parse_sequence_example)."""
    given = (serialized, context_features, sequence_features, example_name)
    with get_default_graph().name_scope(name or "ParseSingleSequenceExample"):
        whole, lists, found = _parse(*given)
    context = _named(whole, found[:3], found[3]) | dict(zip(whole.ragged, found[4]))
    steps = _named(lists, found[6:9], found[9])
    for key, values, inner in zip(lists.ragged, found[11], found[13]):
        steps[key] = from_row_splits(values, inner, validate=False)
    return context, steps
