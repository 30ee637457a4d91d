"""How many insertions, deletions and replacements lie between sequences, and fingerprints of rows.

Source: Levenshtein (1966); tensorflow/core/kernels/edit_distance_op.cc, fingerprint_op.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.formats import fingerprint64, fingerprint128
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.sparse.tensor import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.errors import InternalError, InvalidArgumentError


def _check(indices: Any, values: Any, shape: Any, what: str) -> None:
    if np.ndim(indices) != 2 or np.ndim(values) != 1 or np.ndim(shape) != 1:
        raise InvalidArgumentError(f"the parts of {what} must have ranks 2, 1 and 1")
    if len(shape) < 2 or indices.shape != (len(values), len(shape)):
        raise InvalidArgumentError(
            f"{what} has indices {list(indices.shape)} for {len(values)} values of rank "
            f"{len(shape)}; two sizes at least are wanted"
        )
    if min(shape) < 0:
        raise InvalidArgumentError(f"{what} has shape {shape.tolist()}; no size is negative")


def _sequences(indices: Any, values: Any) -> dict[tuple[int, ...], list[Any]]:
    made: dict[tuple[int, ...], list[Any]] = {}
    for at, value in zip(indices[:, :-1].tolist(), values.tolist()):
        made.setdefault(tuple(at), []).append(value)
    return made


def _distance(first: list[Any], second: list[Any]) -> int:
    row = list(range(len(second) + 1))
    for i, x in enumerate(first, 1):
        before, row = row, [i]
        for j, y in enumerate(second):
            row.append(min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1))
    return row[-1]


def _distances_shape(c: ShapeContext) -> list[Dims]:
    shapes = [c.value(2), c.value(5)]
    if any(shape is None or np.ndim(shape) != 1 for shape in shapes):
        return [None]
    first, second = (shape.tolist() for shape in shapes if shape is not None)
    if len(first) != len(second):
        raise ValueError(f"hypothesis and truth have different ranks: {first} and {second}")
    return [tuple(map(max, first[:-1], second[:-1]))]


@op(
    """
    EditDistance(hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, \
truth_indices: int64, truth_values: T, truth_shape: int64) -> output: float
    normalize: bool = true
    T: type
    """,
    shape=_distances_shape,
)
def edit_distance_kernel(
    ctx: KernelContext,
    hypothesis_indices: Array,
    hypothesis_values: Array,
    hypothesis_shape: Array,
    truth_indices: Array,
    truth_values: Array,
    truth_shape: Array,
    *,
    normalize: bool,
) -> Any:
    """Return the distance of the sequences along the last axis, [...].

    normalize: whether to divide by the length of the truth; infinite where that is nothing.
    Raises: InvalidArgumentError for parts that are no sparse tensors of one rank; InternalError for
    indices outside of them.
    """
    _check(hypothesis_indices, hypothesis_values, hypothesis_shape, "hypothesis")
    _check(truth_indices, truth_values, truth_shape, "truth")
    if len(hypothesis_shape) != len(truth_shape):
        raise InvalidArgumentError(
            f"Expected hypothesis.shape and truth.shape of one rank; found "
            f"{hypothesis_shape.tolist()} and {truth_shape.tolist()}"
        )
    made = np.zeros(np.maximum(hypothesis_shape[:-1], truth_shape[:-1]).tolist(), np.float32)
    found = _sequences(hypothesis_indices, hypothesis_values)
    expected = _sequences(truth_indices, truth_values)
    for at in found.keys() | expected.keys():
        if any(not 0 <= i < size for i, size in zip(at, made.shape)):
            # TensorFlow finds this where it writes, and so calls it an error of its own.
            raise InternalError(f"index {list(at)} lies outside of {list(made.shape)}")
        truth = expected.get(at, [])
        steps: float = _distance(found.get(at, []), truth)
        if normalize:
            steps = steps / len(truth) if truth else math.inf
        made[at] = steps
    return made


def _fingerprint_shape(c: ShapeContext) -> list[Dims]:
    data, method = c.inputs
    if data is not None and not data:
        raise ValueError("Fingerprint takes data of rank 1 at least; found a scalar")
    if method is not None and method:
        raise ValueError(f"`method` must be a scalar; its shape is {method}")
    return [(None if data is None else data[0], 8)]


@op(
    """
    Fingerprint(data: T, method: string) -> fingerprint: uint8
    T: type
    """,
    shape=_fingerprint_shape,
)
def fingerprint_kernel(ctx: KernelContext, data: Array, method: Array | bytes) -> Any:
    """Return a fingerprint of each row, [rows, 8]; of several strings that of their fingerprints.

    Raises: InvalidArgumentError for another method than farmhash64, or a scalar.
    """
    if np.ndim(method) or np.asarray(method, object).item() != b"farmhash64":
        raise InvalidArgumentError(f"Unsupported fingerprint algorithm: {method!r}")
    if not np.ndim(data):
        raise InvalidArgumentError("`data` must have rank 1 at least; found a scalar")
    if data.dtype == object:
        prints = [_print(item) for item in data.reshape(-1).tolist()]
        size = math.prod(data.shape[1:])
        rows = [b"".join(prints[i * size : (i + 1) * size]) for i in range(data.shape[0])]
        made = rows if size == 1 else [_print(row) for row in rows]
    else:
        made = [_print(row.tobytes()) for row in np.ascontiguousarray(data)]
    return np.frombuffer(b"".join(made), np.uint8).reshape(len(made), 8)


def _print(item: bytes) -> bytes:
    found: int = fingerprint64()(item)
    return found.to_bytes(8, "little")


not_differentiable("EditDistance", "Fingerprint")


@export("edit_distance")
def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance"
) -> Tensor:
    """Return how many edits lie between sequences along the last axis of sparse tensors.

    normalize: divide by the length of the truth.
    Raises: TypeError for something else than sparse tensors.
    """
    for given, what in ((hypothesis, "Hypothesis"), (truth, "Truth")):
        if not isinstance(given, SparseTensor):
            raise TypeError(f"{what} must be a SparseTensor; found {type(given).__name__}")
    made: Tensor = apply_op(
        "EditDistance", *hypothesis.parts, *truth.parts, normalize=normalize, name=name
    )
    return made


@export("fingerprint")
def fingerprint(data: TensorLike, method: object = "farmhash64", name: str | None = None) -> Tensor:
    """Return a fingerprint of each row as bytes, [rows, 8]."""
    method = convert_to_tensor(method, dtypes.string)
    made: Tensor = apply_op("Fingerprint", convert_to_tensor(data), method, name=name)
    return made


@op(
    "SdcaFprint(input: string) -> output: int64",
    shape=lambda c: [(with_rank(c.inputs[0], 1, "input")[0], 2)],
)
def sdca_fprint_kernel(ctx: KernelContext, input: Array) -> Any:
    """Return the fingerprints of strings [n], as two numbers each [n, 2].

    Raises: InvalidArgumentError for another rank.
    """
    if np.ndim(input) != 1:
        raise InvalidArgumentError(f"Input must be a vector, got shape {list(np.shape(input))}")
    prints = [fingerprint128()(text) for text in input.tolist()]
    return np.array(prints, np.uint64).reshape(-1, 2).view(np.int64)


not_differentiable("SdcaFprint")


@export("train.sdca_fprint")
def sdca_fprint(input: TensorLike, name: str | None = None) -> Tensor:
    """Return 128 bits of a fingerprint for each string of a vector.  Returns: int64 [n, 2]."""
    made: Tensor = apply_op("SdcaFprint", input, name=name)
    return made
