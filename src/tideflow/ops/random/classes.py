"""Random class numbers that follow from a seed: draws by the logits of each class.

Source: tensorflow/core/kernels/multinomial_op.cc (its sequence for one thread: with many rows
TensorFlow deals them out to threads, and what each draws depends on how many there are).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.ops.random import philox as random_philox
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError


def draw_classes(logits: Array, uniform: Array, dtype: DType) -> Any:
    """Return class numbers [rows, samples] for uniform values [rows, samples] in [0, 1).

    A class whose logit is not finite is never drawn.
    """
    wide = logits.astype(np.float64)
    finite = np.isfinite(wide)
    least = np.finfo(np.float64).min
    top = np.where(finite, wide, least).max(axis=1, keepdims=True, initial=least)
    weights = np.where(finite, np.exp(np.where(finite, wide - top, 0.0)), 0.0)
    edges = np.cumsum(weights, axis=1)
    drawn = np.empty(uniform.shape, dtype.as_numpy_dtype)
    for row, edge, value in zip(drawn, edges, uniform):
        row[:] = np.searchsorted(edge, value * edge[-1], side="right")
    return drawn


def checked_count(logits: Array, num_samples: Array) -> int:
    """Return how many samples of each row are wanted.  Raises: InvalidArgumentError."""
    if np.ndim(logits) != 2:
        raise InvalidArgumentError(f"logits should be a matrix, got shape {list(np.shape(logits))}")
    if np.ndim(num_samples) or int(num_samples) < 0:
        raise InvalidArgumentError(
            f"num_samples should be a nonnegative scalar, got {np.asarray(num_samples).tolist()}"
        )
    if int(num_samples) and logits.shape[0] and not logits.shape[1]:
        raise InvalidArgumentError(
            f"num_classes should be positive, got logits of shape {list(logits.shape)}"
        )
    return int(num_samples)


def classes_shape(c: ShapeContext) -> list[Dims]:
    """Return [rows, samples]."""
    rows = with_rank(c.inputs[0], 2, "logits")[0]
    samples = c.value(1)
    return [(rows, None if samples is None or samples.ndim else int(samples))]


@op(
    """
    StatelessMultinomial(logits: T, num_samples: int32, seed: Tseed) -> output: output_dtype
    T: type in reals
    Tseed: type in indices = int64
    output_dtype: type in indices = int64
    """,
    shape=classes_shape,
)
def stateless_multinomial_kernel(
    ctx: KernelContext, logits: Array, num_samples: Array, seed: Array, *, output_dtype: DType
) -> Any:
    """Return for each row of logits num_samples class numbers, drawn by their probabilities."""
    if np.shape(seed) != (2,):
        raise InvalidArgumentError(f"seed must have shape [2]; found {list(np.shape(seed))}")
    count = checked_count(logits, num_samples)
    rows = logits.shape[0]
    key, counter = random_philox.scramble_seed(np, seed)
    uniform = random_philox.uniform(np, key, counter, rows * count, dtypes.float64)
    return draw_classes(logits, uniform.reshape(rows, count), output_dtype)


not_differentiable("StatelessMultinomial")


@export("random.stateless_multinomial", "random.stateless_categorical")
@scoped("stateless_categorical")
def stateless_categorical(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: int,
    dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Return class numbers [batch, num_samples] that follow from a seed (two integers).

    Args:
      logits: [batch, classes], unnormalised logarithms of probabilities.
    """
    made: Tensor = apply_op(
        "StatelessMultinomial",
        convert_to_tensor(logits),
        num_samples,
        seed,
        output_dtype=dtype,
        name=name,
    )
    return made
