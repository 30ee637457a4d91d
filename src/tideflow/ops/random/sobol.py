"""Points of the Sobol sequence, which fill a cube evenly.

Source: tensorflow/core/kernels/sobol_op.cc; S. Joe and F. Y. Kuo, Constructing Sobol sequences with
better two-dimensional projections, 2008, for the direction numbers, which SciPy holds.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar, scoped
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

_MOST_DIMENSIONS = 21200
_BITS = 32
_MOST = (1 << 31) - 1


def _shape(c: ShapeContext) -> list[Dims]:
    dim, count = c.value("dim"), c.value("num_results")
    return [(None if count is None else int(count), None if dim is None else int(dim))]


@op(
    """
    SobolSample(dim: int32, num_results: int32, skip: int32) -> samples: dtype
    dtype: type in {float, double} = float
    """,
    shape=_shape,
)
def sobol_sample_kernel(
    ctx: KernelContext, dim: Array, num_results: Array, skip: Array, *, dtype: DType
) -> Any:
    """Return [num_results, dim] points of the sequence, without the first `skip` ones.

    Raises: InvalidArgumentError for numbers that are no scalars, or out of range.
    """
    for value, name in ((dim, "dim"), (num_results, "num_results"), (skip, "skip")):
        check_scalar(value, name)
    size, count, first = int(dim), int(num_results), int(skip)
    if size < 1:
        raise InvalidArgumentError("dim must be at least one")
    if size > _MOST_DIMENSIONS:
        raise InvalidArgumentError(f"dim must be at most {_MOST_DIMENSIONS}")
    if count < 1:
        raise InvalidArgumentError("num_results must be at least one")
    if first < 0:
        raise InvalidArgumentError("skip must be non-negative")
    if count + first >= _MOST:
        raise InvalidArgumentError(f"num_results+skip must be less than {_MOST}")
    # Only who draws pays for importing SciPy's statistics.
    sobol = importlib.import_module("scipy.stats.qmc").Sobol
    sequence = sobol(size, scramble=False, bits=_BITS)
    sequence.fast_forward(first + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of counts that are no powers of two
        found = sequence.random(count)
    return np.asarray(found, dtype.as_numpy_dtype)


not_differentiable("SobolSample")


@export("math.sobol_sample")
@scoped("sobol")
def sobol_sample(
    dim: TensorLike,
    num_results: TensorLike,
    skip: TensorLike = 0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Return points of the Sobol sequence, in the cube of sides 1.

    Args:
      dim: of the cube, from 1 to 21200.
      num_results: how many points.
      skip: how many points at the head of the sequence are left out.
      dtype: float32 or float64.
    Returns: [num_results, dim].
    Raises: InvalidArgumentError, when run, for numbers out of range.
    Example:
      >>> print(tf.math.sobol_sample(2, 3).numpy())
      [[0.5  0.5 ]
       [0.75 0.25]
       [0.25 0.75]]
    """
    kind = as_dtype(dtype)
    return apply_op("SobolSample", dim, num_results, skip, dtype=kind, name=name)
