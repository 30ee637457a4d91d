"""Normal values between bounds of their own, by rejection.

A batch of values has one mean, deviation and pair of bounds.  How candidates are drawn depends on
where the bounds lie, so that enough of them are accepted: from the normal distribution itself,
evenly between the bounds, or from an exponential one that falls from the nearer bound.  Batches
follow each other in the sequence of random numbers, each from a group of its own on, as on one of
TensorFlow's threads; for large results TensorFlow's numbers depend on how many threads it has.

Source: Robert, "Simulation of truncated normal variables" (1995);
tensorflow/core/kernels/parameterized_truncated_normal_op.cc for the choice and the layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.random.algorithms import Source
from tideflow.ops.random.parameters import (
    samples_each,
    seeded_source,
    shape_from_first,
    shape_tensor,
    sizes_of,
    stateful_sequence,
)
from tideflow.ops.random.philox import bits_as_float, normal_group, random_words
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InternalError, InvalidArgumentError

_MOST_REFUSED = 1000
# With a bound so many deviations beyond the mean, enough normal values are accepted.
_DEVIATIONS_FOR_NORMAL = 1.3
# So many values make a batch where all have the same parameters.
_BATCH = 100
_PARAMETERS = ("means", "stdevs", "minvals", "maxvals")
# Candidates, and whether each is accepted, of a number of units of groups.
_Propose = Callable[[int], tuple[Any, Any]]


class _Groups:
    """The groups of random numbers of one type, one after the other."""

    def __init__(self, source: Source, dtype: DType) -> None:
        self._source = source
        self._dtype = dtype
        self.at = 0

    def _words(self, count: int) -> Any:
        offsets = np.arange(self.at, self.at + count, dtype=np.uint64)
        return random_words(np, self._source.key, self._source.counter, offsets)

    def normal(self, count: int) -> Any:
        """Return the next groups of normal values [count, size], without taking them."""
        return normal_group(self._words(count), self._dtype)

    def uniform(self, count: int) -> Any:
        """Return the next groups of values in [0, 1) [count, size], without taking them."""
        return bits_as_float(np, self._words(count), self._dtype)


def _accepted(
    groups: _Groups, count: int, groups_each: int, propose: _Propose, what: str
) -> list[Any]:
    """Return the first accepted candidates, and take the groups in which they are.

    groups_each: how many groups make one unit of candidates.
    """
    found: list[Any] = []
    left, refused = count, 0
    while left:
        units = left // 2 + 8
        values, is_accepted = propose(units)
        places = np.flatnonzero(is_accepted)[:left]
        left -= len(places)
        ends = places if not left else np.append(places, values.size)
        gaps = np.diff(ends, prepend=-1) - 1
        gaps[0] += refused
        if gaps.max() >= _MOST_REFUSED:
            raise InternalError(
                f"TruncatedNormal {what} rejection sampler failed to accept a sample."
            )
        refused = int(gaps[-1])
        found.append(values.reshape(-1)[places])
        used = units if left else int(places[-1]) // (values.size // units) + 1
        groups.at += used * groups_each
    return found


def _batch(groups: _Groups, count: int, mean: Any, stdev: Any, least: Any, most: Any) -> Any:
    """Return so many values of one batch; the parameters are scalars of the result's type."""
    if not (stdev > 0 and least < most and (np.isfinite(least) or np.isfinite(most))):
        raise InvalidArgumentError(
            f"Invalid parameters: stdev {stdev} must be positive, and {least} less than {most}, of "
            "which one must be finite"
        )
    kind = type(mean)
    if (np.isinf(least) and least < 0) or most < mean:
        # The same from the other side, so that the nearer bound is the lower one.
        least, most, stdev = most, least, -stdev
    low, high = (least - mean) / stdev, (most - mean) / stdev
    root = np.sqrt(low * low + kind(4))
    cutoff = kind(2) * np.exp(kind(0.5) + (low * (low - root)) / kind(4)) / (low + root)
    inside = kind(_DEVIATIONS_FOR_NORMAL)

    def normal(units: int) -> tuple[Any, Any]:
        z = groups.normal(units)
        return z, (z >= low) & (z <= high)

    def uniform(units: int) -> tuple[Any, Any]:
        drawn = groups.uniform(2 * units)
        z = drawn[0::2] * (high - low) + low
        height = kind(0) if low < 0 else low * low
        return z, drawn[1::2] <= np.exp((height - z * z) / kind(2))

    def exponential(units: int) -> tuple[Any, Any]:
        drawn = groups.uniform(units)
        alpha = (low + root) / kind(2)
        z = -np.log(drawn[:, 0::2]) / alpha + low
        x = alpha - z if low < alpha else low - alpha
        return z, (drawn[:, 1::2] <= np.exp(-x * x / kind(2))) & (z < high)

    if (low < -inside and high >= 0) or (high > inside and low <= 0):
        found = _accepted(groups, count, 1, normal, "randn")
    elif high - low < cutoff:
        found = _accepted(groups, count, 2, uniform, "uniform")
    else:
        found = _accepted(groups, count, 1, exponential, "exponential distribution")
    return np.concatenate(found) * stdev + mean if found else np.empty(0, kind)


def _batches(source: Source, sizes: list[int], parameters: list[Any], dtype: DType) -> Any:
    """Return values [batches, samples] for parameters that are vectors, or one for all batches.

    sizes: how many values each batch has.
    """
    groups = _Groups(source, dtype)
    made = []
    with np.errstate(all="ignore"):
        for i, size in enumerate(sizes):
            mine = [values[0 if values.size == 1 else i] for values in parameters]
            made.append(_batch(groups, size, *mine))
    return np.concatenate(made)


# ---- ops


def _of_vectors(c: ShapeContext) -> list[Dims]:
    for i, what in enumerate(_PARAMETERS, 1):
        dims = c.inputs[i]
        if dims is not None and len(dims) > 1:
            raise ValueError(f"Shape must be at most rank 1 but is rank {len(dims)}: {what}")
    return shape_from_first(c)


@op(
    """
    ParameterizedTruncatedNormal(
        shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype
    ) -> output: dtype
    seed: int = 0
    seed2: int = 0
    dtype: type in floats
    T: type in indices
    """,
    shape=_of_vectors,
    stateful=True,
    effects=Effects.UNSEEN,
)
def parameterized_truncated_normal_kernel(
    ctx: KernelContext,
    shape: Array,
    means: Array,
    stdevs: Array,
    minvals: Array,
    maxvals: Array,
    *,
    seed: int,
    seed2: int,
    dtype: DType,
) -> Any:
    """Return normal values between bounds; parameters are for all, or one for each row."""
    sizes = sizes_of(shape)
    if not sizes:
        raise InvalidArgumentError("Shape tensor must not be empty, got []")
    given = [means, stdevs, minvals, maxvals]
    for name, values in zip(_PARAMETERS, given):
        if np.ndim(values) > 1:
            raise InvalidArgumentError(
                f"Input {name} should be a scalar or vector, got shape: {list(np.shape(values))}"
            )
        if np.ndim(values) and np.shape(values)[0] not in (1, sizes[0]):
            raise InvalidArgumentError(
                f"Input {name} should have length 1 or shape[0], got shape: "
                f"{list(np.shape(values))}"
            )
    count = math.prod(sizes)
    if not count:
        return np.empty(sizes, dtype.as_numpy_dtype)
    samples = count // sizes[0]
    # As in TensorFlow, bounds of shape [1] count as one for each row, means and deviations do not.
    if np.size(means) == np.size(stdevs) == 1 and np.ndim(minvals) == np.ndim(maxvals) == 0:
        batches = [min(_BATCH, count - at) for at in range(0, count, _BATCH)]
        samples = _BATCH
    else:
        batches = [samples] * sizes[0]
    reserved = len(batches) * 2 * _MOST_REFUSED * (samples + 3) // 4
    source = Source(*stateful_sequence(ctx, seed, seed2).reserve(reserved))
    flat = [np.asarray(values).reshape(-1) for values in given]
    return _batches(source, batches, flat, dtype).reshape(sizes)


@op(
    """
    StatelessParameterizedTruncatedNormal(
        shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, maxvals: dtype
    ) -> output: dtype
    S: type in indices
    Tseed: type in indices = int64
    dtype: type in {half, float, double}
    """,
    shape=shape_from_first,
)
def stateless_parameterized_truncated_normal_kernel(
    ctx: KernelContext,
    shape: Array,
    seed: Array,
    means: Array,
    stddevs: Array,
    minvals: Array,
    maxvals: Array,
    *,
    dtype: DType,
) -> Any:
    """Return normal values between bounds; the shape ends in that of all parameters together."""
    source = seeded_source(seed)
    sizes = sizes_of(shape)
    try:
        parameters = np.broadcast_arrays(means, stddevs, minvals, maxvals)
    except ValueError:
        shapes = [list(np.shape(values)) for values in (means, stddevs, minvals, maxvals)]
        raise InvalidArgumentError(
            f"means, stddevs, minvals, maxvals must have compatible batch dimensions: {shapes}"
        ) from None
    samples = samples_each(sizes, parameters[0], "parameters")
    if not math.prod(sizes):
        return np.empty(sizes, dtype.as_numpy_dtype)
    flat = [np.asarray(values).reshape(-1) for values in parameters]
    made = _batches(source, [samples] * flat[0].size, flat, dtype)
    return made.reshape(-1, samples).T.reshape(sizes)


not_differentiable("ParameterizedTruncatedNormal", "StatelessParameterizedTruncatedNormal")


@export("random.stateless_parameterized_truncated_normal")
def stateless_parameterized_truncated_normal(
    shape: ShapeLike,
    seed: TensorLike,
    means: TensorLike = 0.0,
    stddevs: TensorLike = 1.0,
    minvals: TensorLike = -2.0,
    maxvals: TensorLike = 2.0,
    name: str | None = None,
) -> Tensor:
    """Return normal values between bounds, which follow from the seed alone.

    Args:
      shape: of the result; it ends in the shape of the parameters together.
      means, stddevs: of the distribution before it is cut off at minvals and maxvals.
    Raises: InvalidArgumentError for parameters that leave no values.
    """
    with get_default_graph().name_scope(
        name or "stateless_parameterized_truncated_normal"
    ) as scope:
        dims = shape_tensor(shape)
        given = {"means": means, "stddevs": stddevs, "minvals": minvals, "maxvals": maxvals}
        parameters = [convert_to_tensor(value, name=what) for what, value in given.items()]
        made: Tensor = apply_op(
            "StatelessParameterizedTruncatedNormal", dims, seed, *parameters, name=scope
        )
        return made
