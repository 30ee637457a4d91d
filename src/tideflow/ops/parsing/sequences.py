"""Records of sequences (tf.train.SequenceExample) made into tensors.

A record has features of its whole (its context), and lists of features, one for each of its steps.

Source: tensorflow/core/util/example_proto_fast_parsing.cc, core/kernels/example_parsing_ops.cc,
core/ops/parsing_ops.cc.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.parsing.records import (
    check_count,
    joined,
    keys_of,
    nothing_of,
    sparse_rows,
    values_of,
)
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError


@dataclass
class _Dense:
    """A feature of one shape; of the context with a default, of the steps not."""

    key: str
    dtype: DType
    shape: TensorShape
    default: Any = None
    may_miss: bool = True

    @property
    def sizes(self) -> list[int]:
        """The shape.  Raises: InvalidArgumentError where it is not known."""
        if not self.shape.is_fully_defined():
            raise InvalidArgumentError(f"Shape {self.shape} of {self.key} is not fully defined")
        return [int(size or 0) for size in self.shape.as_list()]


_Typed = Sequence[tuple[str, DType]]


def _records(serialized: Array | bytes) -> list[Any]:
    made = []
    for text in np.asarray(serialized, object).reshape(-1).tolist():
        try:
            made.append(pb.SequenceExample.FromString(text))
        except DecodeError:
            raise InvalidArgumentError(
                f"Could not parse sequence example input, value: {text[:60]!r}"
            ) from None
    return made


# ---- the context


def _context_rows(records: list[Any], key: str, dtype: DType) -> list[Any]:
    found = [values_of(record.context.feature, key, dtype) for record in records]
    return [np.empty(0, dtype.as_numpy_dtype) if row is None else row for row in found]


def _context_dense(records: list[Any], wanted: _Dense) -> Any:
    sizes, rows = wanted.sizes, []
    if np.size(wanted.default) and list(np.shape(wanted.default)) != sizes:
        raise InvalidArgumentError(
            f"the default of {wanted.key!r} has shape {list(np.shape(wanted.default))}; the "
            f"feature has {sizes}"
        )
    for record in records:
        features = record.context.feature
        row = values_of(features, wanted.key, wanted.dtype)
        if wanted.key not in features:
            row = np.reshape(wanted.default, -1)
        count = 0 if row is None else len(row)
        if count != math.prod(sizes):
            raise InvalidArgumentError(
                f"Context feature {wanted.key!r} has {count} values, and not those of {sizes}"
            )
        rows.append(row)
    return joined(rows, wanted.dtype).reshape([len(records), *sizes])


# ---- the steps


def _steps(record: Any, key: str, dtype: DType) -> list[Any]:
    """Return the values of each step; none where the record has no such list."""
    if key not in record.feature_lists.feature_list:
        return []
    found = [
        values_of({key: feature}, key, dtype)
        for feature in record.feature_lists.feature_list[key].feature
    ]
    return [np.empty(0, dtype.as_numpy_dtype) if row is None else row for row in found]


def _sparse_steps(records: list[Any], key: str, dtype: DType, is_one: bool) -> tuple[Any, ...]:
    lists = [_steps(record, key, dtype) for record in records]
    at = [(i, j) for i, rows in enumerate(lists) for j in range(len(rows))]
    rows = [row for one in lists for row in one]
    counts = [len(row) for row in rows]
    owners = np.repeat(np.array(at, np.int64).reshape(-1, 2), counts, axis=0)
    columns = joined([np.arange(count) for count in counts], dtypes.int64)
    indices = np.concatenate([owners, columns[:, None]], axis=1)
    longest = max(map(len, lists), default=0), max(counts, default=0)
    shape = np.array([len(records), *longest], np.int64)
    values = joined(rows, dtype)
    return (indices[:, 1:], values, shape[1:]) if is_one else (indices, values, shape)


def _dense_steps(records: list[Any], wanted: _Dense) -> tuple[Any, Any]:
    """Return the steps of all records, filled up to the most, and how many each has."""
    key, sizes, dtype = wanted.key, wanted.sizes, wanted.dtype
    lists = []
    for record in records:
        if key not in record.feature_lists.feature_list and not wanted.may_miss:
            raise InvalidArgumentError(f"Feature list {key!r} is required but could not be found")
        lists.append(_steps(record, key, dtype))
        for index, row in enumerate(lists[-1]):
            if len(row) != math.prod(sizes):
                raise InvalidArgumentError(
                    f"Key: {key}, Index: {index}.  Number of values != expected.  values size: "
                    f"{len(row)} but output shape: {sizes}"
                )
    lengths = np.array([len(rows) for rows in lists], np.int64)
    most = int(lengths.max(initial=0))
    made = np.full([len(records), most, math.prod(sizes)], nothing_of(dtype), dtype.as_numpy_dtype)
    for target, rows in zip(made, lists):
        for step, row in zip(target, rows):
            step[:] = row
    return made.reshape([len(records), most, *sizes]), lengths


@dataclass
class _Wanted:
    """Features by their kinds."""

    context_sparse: _Typed
    context_dense: Sequence[_Dense]
    sparse: _Typed
    dense: Sequence[_Dense]
    context_ragged: _Typed = ()
    context_splits: Sequence[DType] = ()
    ragged: _Typed = ()
    splits: Sequence[DType] = ()


def _parsed(serialized: Array | bytes, names: Array | bytes, wanted: _Wanted) -> dict[str, Any]:
    """Return the outputs of ParseSequenceExampleV2, by their names."""
    if np.ndim(serialized) > 1:
        raise InvalidArgumentError(
            f"Expected serialized to be a scalar or vector, got {list(np.shape(serialized))}"
        )
    if np.size(names) not in (0, np.size(serialized)):
        raise InvalidArgumentError("names must be empty or have one name for each record")
    is_one = np.ndim(serialized) == 0
    records = _records(serialized)
    found: dict[str, Any] = {}
    in_context = [
        sparse_rows(_context_rows(records, key, dtype), dtype, is_one)
        for key, dtype in wanted.context_sparse
    ]
    dense = [_context_dense(records, one) for one in wanted.context_dense]
    sparse = [_sparse_steps(records, key, dtype, is_one) for key, dtype in wanted.sparse]
    steps = [_dense_steps(records, one) for one in wanted.dense]
    for name, columns in (("context_sparse", in_context), ("feature_list_sparse", sparse)):
        for at, part in enumerate(("indices", "values", "shapes")):
            found[f"{name}_{part}"] = [column[at] for column in columns]
    found["context_dense_values"] = [x[0] for x in dense] if is_one else dense
    found["feature_list_dense_values"] = [x[0] if is_one else x for x, _ in steps]
    found["feature_list_dense_lengths"] = [n[0] if is_one else n for _, n in steps]
    return found | _ragged(records, wanted, is_one)


def _ragged(records: list[Any], wanted: _Wanted, is_one: bool) -> dict[str, Any]:
    """Return the ragged outputs.  What lies around the rows of one record has no meaning."""
    found: dict[str, Any] = {}
    whole = [_context_rows(records, key, dtype) for key, dtype in wanted.context_ragged]
    lists = [[_steps(record, key, dtype) for record in records] for key, dtype in wanted.ragged]
    found["context_ragged_values"] = [
        joined(rows, dtype) for rows, (_, dtype) in zip(whole, wanted.context_ragged)
    ]
    found["context_ragged_row_splits"] = [
        _ends(rows, kind, is_one) for rows, kind in zip(whole, wanted.context_splits)
    ]
    inner = [[row for rows in one for row in rows] for one in lists]
    found["feature_list_ragged_values"] = [
        joined(rows, dtype) for rows, (_, dtype) in zip(inner, wanted.ragged)
    ]
    found["feature_list_ragged_outer_splits"] = [
        _ends(rows, kind, is_one) for rows, kind in zip(lists, wanted.splits)
    ]
    found["feature_list_ragged_inner_splits"] = [
        _ends(rows, kind, False) for rows, kind in zip(inner, wanted.splits)
    ]
    return found


def _ends(rows: Sequence[Any], dtype: DType, is_one: bool) -> Any:
    if is_one:
        return np.zeros((), dtype.as_numpy_dtype)
    return np.cumsum([0, *map(len, rows)]).astype(dtype.as_numpy_dtype)


def _typed(keys: Sequence[str], types: Sequence[DType], what: str) -> _Typed:
    if len(keys) != len(types):
        raise InvalidArgumentError(f"there are {len(keys)} {what} keys for {len(types)} features")
    return list(zip(keys, types))


def _dense_of(
    keys: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    defaults: Sequence[Any] | None,
    may_miss: Sequence[bool],
    what: str,
) -> list[_Dense]:
    given = [None] * len(keys) if defaults is None else defaults
    if not len(keys) == len(types) == len(shapes) == len(given) == len(may_miss):
        raise InvalidArgumentError(
            f"{what}: there are {len(keys)} keys, {len(types)} types, {len(shapes)} shapes, "
            f"{len(given)} defaults, and {len(may_miss)} features are said to be there or not"
        )
    return [_Dense(*one) for one in zip(keys, types, shapes, given, may_miss)]


# ---- shapes


def _sparse_shapes(count: int, rank: int) -> list[Dims]:
    return [*[(None, rank)] * count, *[(None,)] * count, *[(rank,)] * count]


def _dense_shapes(lead: Dims, given: Sequence[TensorShape]) -> list[Dims]:
    return [
        None if lead is None or shape.sizes is None else (*lead, *shape.sizes) for shape in given
    ]


def _shapes(c: ShapeContext) -> list[Dims]:
    a, batch = c.attrs, c.inputs[0]
    if batch is None:
        return [None] * len(c.node.output_types)
    if len(batch) > 1:
        raise ValueError("serialized must be a vector of records, or one")
    rank = len(batch) + 1
    ends: Dims = (None if not batch or batch[0] is None else batch[0] + 1,) if batch else ()
    shapes = _sparse_shapes(len(a["context_sparse_types"]), rank)
    shapes += _dense_shapes(batch, a["context_dense_shapes"])
    kinds = a.get("context_ragged_split_types", [])
    shapes += [(None,)] * len(kinds) + [ends] * len(kinds)
    shapes += _sparse_shapes(len(a["feature_list_sparse_types"]), rank + 1)
    shapes += _dense_shapes((*batch, None), a["feature_list_dense_shapes"])
    if c.node.op_def.inputs[-1].name != "debug_name":
        shapes += [batch] * len(a["feature_list_dense_types"])
    kinds = a.get("feature_list_ragged_split_types", [])
    return [*shapes, *[(None,)] * len(kinds), *[ends] * len(kinds), *[(None,)] * len(kinds)]


@op(
    """
    ParseSequenceExampleV2(serialized: string, debug_name: string, context_sparse_keys: string, \
context_dense_keys: string, context_ragged_keys: string, feature_list_sparse_keys: string, \
feature_list_dense_keys: string, feature_list_ragged_keys: string, \
feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: *Tcontext_dense) -> \
context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: *context_sparse_types, \
context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: *Tcontext_dense, \
context_ragged_values: *context_ragged_value_types, context_ragged_row_splits: \
*context_ragged_split_types, feature_list_sparse_indices: Nfeature_list_sparse * int64, \
feature_list_sparse_values: *feature_list_sparse_types, feature_list_sparse_shapes: \
Nfeature_list_sparse * int64, feature_list_dense_values: *feature_list_dense_types, \
feature_list_dense_lengths: Nfeature_list_dense * int64, feature_list_ragged_values: \
*feature_list_ragged_value_types, feature_list_ragged_outer_splits: \
*feature_list_ragged_split_types, feature_list_ragged_inner_splits: \
*feature_list_ragged_split_types
    Ncontext_sparse: int >= 0 = 0
    Tcontext_dense: list(type) in {float, int64, string} >= 0 = []
    context_sparse_types: list(type) in {float, int64, string} >= 0 = []
    context_ragged_value_types: list(type) in {float, int64, string} >= 0 = []
    context_ragged_split_types: list(type) in {int32, int64} >= 0 = []
    context_dense_shapes: list(shape) >= 0 = []
    Nfeature_list_sparse: int >= 0 = 0
    Nfeature_list_dense: int >= 0 = 0
    feature_list_dense_types: list(type) in {float, int64, string} >= 0 = []
    feature_list_sparse_types: list(type) in {float, int64, string} >= 0 = []
    feature_list_ragged_value_types: list(type) in {float, int64, string} >= 0 = []
    feature_list_ragged_split_types: list(type) in {int32, int64} >= 0 = []
    feature_list_dense_shapes: list(shape) >= 0 = []
    """,
    shape=_shapes,
)
def parse_sequence_example_v2_kernel(
    ctx: KernelContext,
    serialized: Array | bytes,
    debug_name: Array | bytes,
    context_sparse_keys: Array,
    context_dense_keys: Array,
    context_ragged_keys: Array,
    feature_list_sparse_keys: Array,
    feature_list_dense_keys: Array,
    feature_list_ragged_keys: Array,
    feature_list_dense_missing_assumed_empty: Array,
    context_dense_defaults: list[Any],
    *,
    Ncontext_sparse: int,
    Nfeature_list_sparse: int,
    Nfeature_list_dense: int,
    Tcontext_dense: list[DType],
    context_sparse_types: list[DType],
    context_ragged_value_types: list[DType],
    context_ragged_split_types: list[DType],
    context_dense_shapes: list[TensorShape],
    feature_list_dense_types: list[DType],
    feature_list_sparse_types: list[DType],
    feature_list_ragged_value_types: list[DType],
    feature_list_ragged_split_types: list[DType],
    feature_list_dense_shapes: list[TensorShape],
) -> Any:
    """Return the features of records of sequences: a vector of them, or one.

    Raises: InvalidArgumentError for what is no record, a feature of another type or number of
    values, or one that is missing and may not be.
    """
    check_count("sparse context", keys_of(context_sparse_keys), Ncontext_sparse)
    check_count("sparse", keys_of(feature_list_sparse_keys), Nfeature_list_sparse)
    check_count("dense", keys_of(feature_list_dense_keys), Nfeature_list_dense)
    may_miss = np.reshape(feature_list_dense_missing_assumed_empty, -1).tolist()
    wanted = _Wanted(
        _typed(keys_of(context_sparse_keys), context_sparse_types, "sparse context"),
        _dense_of(
            keys_of(context_dense_keys),
            Tcontext_dense,
            context_dense_shapes,
            context_dense_defaults,
            [True] * len(Tcontext_dense),
            "context",
        ),
        _typed(keys_of(feature_list_sparse_keys), feature_list_sparse_types, "sparse"),
        _dense_of(
            keys_of(feature_list_dense_keys),
            feature_list_dense_types,
            feature_list_dense_shapes,
            None,
            may_miss,
            "feature lists",
        ),
        _typed(keys_of(context_ragged_keys), context_ragged_value_types, "ragged context"),
        context_ragged_split_types,
        _typed(keys_of(feature_list_ragged_keys), feature_list_ragged_value_types, "ragged"),
        feature_list_ragged_split_types,
    )
    found = _parsed(serialized, debug_name, wanted)
    return tuple(found[name] for name in _OUTPUTS)


_OUTPUTS = [
    *("context_sparse_indices", "context_sparse_values", "context_sparse_shapes"),
    *("context_dense_values", "context_ragged_values", "context_ragged_row_splits"),
    *("feature_list_sparse_indices", "feature_list_sparse_values", "feature_list_sparse_shapes"),
    *("feature_list_dense_values", "feature_list_dense_lengths", "feature_list_ragged_values"),
    *("feature_list_ragged_outer_splits", "feature_list_ragged_inner_splits"),
]
_PLAIN = [name for name in _OUTPUTS if "ragged" not in name]


@op(
    """
    ParseSequenceExample(serialized: string, debug_name: string, context_dense_defaults: \
*Tcontext_dense) -> context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: \
*context_sparse_types, context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: \
*Tcontext_dense, feature_list_sparse_indices: Nfeature_list_sparse * int64, \
feature_list_sparse_values: *feature_list_sparse_types, feature_list_sparse_shapes: \
Nfeature_list_sparse * int64, feature_list_dense_values: *feature_list_dense_types, \
feature_list_dense_lengths: Nfeature_list_dense * int64
    feature_list_dense_missing_assumed_empty: list(string) >= 0
    context_sparse_keys: list(string) >= 0
    context_dense_keys: list(string) >= 0
    feature_list_sparse_keys: list(string) >= 0
    feature_list_dense_keys: list(string) >= 0
    Ncontext_sparse: int >= 0 = 0
    Ncontext_dense: int >= 0 = 0
    Nfeature_list_sparse: int >= 0 = 0
    Nfeature_list_dense: int >= 0 = 0
    context_sparse_types: list(type) in {float, int64, string} >= 0 = []
    Tcontext_dense: list(type) in {float, int64, string} >= 0 = []
    feature_list_dense_types: list(type) in {float, int64, string} >= 0 = []
    context_dense_shapes: list(shape) >= 0 = []
    feature_list_sparse_types: list(type) in {float, int64, string} >= 0 = []
    feature_list_dense_shapes: list(shape) >= 0 = []
    """,
    shape=_shapes,
)
def parse_sequence_example_kernel(
    ctx: KernelContext,
    serialized: Array | bytes,
    debug_name: Array | bytes,
    context_dense_defaults: list[Any],
    *,
    Ncontext_sparse: int,
    Ncontext_dense: int,
    Nfeature_list_sparse: int,
    Nfeature_list_dense: int,
    feature_list_dense_missing_assumed_empty: list[str],
    context_sparse_keys: list[str],
    context_dense_keys: list[str],
    feature_list_sparse_keys: list[str],
    feature_list_dense_keys: list[str],
    context_sparse_types: list[DType],
    Tcontext_dense: list[DType],
    feature_list_dense_types: list[DType],
    context_dense_shapes: list[TensorShape],
    feature_list_sparse_types: list[DType],
    feature_list_dense_shapes: list[TensorShape],
) -> Any:
    """Return the features of a vector of records of sequences (see ParseSequenceExampleV2)."""
    check_count("sparse context", context_sparse_keys, Ncontext_sparse)
    check_count("dense context", context_dense_keys, Ncontext_dense)
    check_count("sparse", feature_list_sparse_keys, Nfeature_list_sparse)
    check_count("dense", feature_list_dense_keys, Nfeature_list_dense)
    wanted = _plain(
        feature_list_dense_missing_assumed_empty,
        *(
            (context_sparse_keys, context_sparse_types),
            (feature_list_sparse_keys, feature_list_sparse_types),
        ),
        *(
            (context_dense_keys, Tcontext_dense, context_dense_shapes, context_dense_defaults),
            (feature_list_dense_keys, feature_list_dense_types, feature_list_dense_shapes),
        ),
    )
    found = _parsed(serialized, debug_name, wanted)
    return tuple(found[name] for name in _PLAIN)


@op(
    """
    ParseSingleSequenceExample(serialized: string, feature_list_dense_missing_assumed_empty: \
string, context_sparse_keys: Ncontext_sparse * string, context_dense_keys: Ncontext_dense * \
string, feature_list_sparse_keys: Nfeature_list_sparse * string, feature_list_dense_keys: \
Nfeature_list_dense * string, context_dense_defaults: *Tcontext_dense, debug_name: string) -> \
context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: *context_sparse_types, \
context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: *Tcontext_dense, \
feature_list_sparse_indices: Nfeature_list_sparse * int64, feature_list_sparse_values: \
*feature_list_sparse_types, feature_list_sparse_shapes: Nfeature_list_sparse * int64, \
feature_list_dense_values: *feature_list_dense_types
    Ncontext_sparse: int >= 0 = 0
    Ncontext_dense: int >= 0 = 0
    Nfeature_list_sparse: int >= 0 = 0
    Nfeature_list_dense: int >= 0 = 0
    context_sparse_types: list(type) in {float, int64, string} >= 0 = []
    Tcontext_dense: list(type) in {float, int64, string} >= 0 = []
    feature_list_dense_types: list(type) in {float, int64, string} >= 0 = []
    context_dense_shapes: list(shape) >= 0 = []
    feature_list_sparse_types: list(type) in {float, int64, string} >= 0 = []
    feature_list_dense_shapes: list(shape) >= 0 = []
    """,
    shape=_shapes,
)
def parse_single_sequence_example_kernel(
    ctx: KernelContext,
    serialized: Array | bytes,
    feature_list_dense_missing_assumed_empty: Array,
    context_sparse_keys: list[Any],
    context_dense_keys: list[Any],
    feature_list_sparse_keys: list[Any],
    feature_list_dense_keys: list[Any],
    context_dense_defaults: list[Any],
    debug_name: Array | bytes,
    *,
    context_sparse_types: list[DType],
    Tcontext_dense: list[DType],
    feature_list_dense_types: list[DType],
    context_dense_shapes: list[TensorShape],
    feature_list_sparse_types: list[DType],
    feature_list_dense_shapes: list[TensorShape],
) -> Any:
    """Return the features of one record of sequences (see ParseSequenceExampleV2)."""
    keys = [context_sparse_keys, context_dense_keys]
    keys += [feature_list_sparse_keys, feature_list_dense_keys]
    if any(map(np.ndim, [serialized, debug_name, *itertools.chain(*keys)])):
        raise InvalidArgumentError("a record, its name and each key must be a scalar")
    if np.ndim(feature_list_dense_missing_assumed_empty) != 1:
        raise InvalidArgumentError("feature_list_dense_missing_assumed_empty must be a vector")
    wanted = _plain(
        feature_list_dense_missing_assumed_empty,
        *(
            (context_sparse_keys, context_sparse_types),
            (feature_list_sparse_keys, feature_list_sparse_types),
        ),
        *(
            (context_dense_keys, Tcontext_dense, context_dense_shapes, context_dense_defaults),
            (feature_list_dense_keys, feature_list_dense_types, feature_list_dense_shapes),
        ),
    )
    found = _parsed(serialized, debug_name, wanted)
    return tuple(found[name] for name in _PLAIN if name != "feature_list_dense_lengths")


def _plain(
    missing: Any,
    context_sparse: tuple[Any, Any],
    sparse: tuple[Any, Any],
    context_dense: tuple[Any, Any, Any, Any],
    dense: tuple[Any, Any, Any],
) -> _Wanted:
    """Return what is wanted where nothing is ragged; `missing` are keys of lists that may miss."""
    keys, types, shapes = keys_of(dense[0]), dense[1], dense[2]
    context_keys = keys_of(context_dense[0])
    known = set(keys_of(missing))
    may_miss = [key in known for key in keys]
    always = [True] * len(context_keys)
    return _Wanted(
        _typed(keys_of(context_sparse[0]), context_sparse[1], "sparse context"),
        _dense_of(context_keys, *context_dense[1:], always, "context"),
        _typed(keys_of(sparse[0]), sparse[1], "sparse"),
        _dense_of(keys, types, shapes, None, may_miss, "feature lists"),
    )
