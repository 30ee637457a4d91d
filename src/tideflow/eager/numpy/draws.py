"""Random numbers, drawn as tf.random draws them, from the seed of the program."""

from __future__ import annotations

from typing import Any

from tideflow.eager.numpy.arranging import isscalar
from tideflow.eager.numpy.arrays import asarray
from tideflow.eager.numpy.promotion import result_type
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array.broadcasting import broadcast_static_shape
from tideflow.ops.export import export_v2
from tideflow.ops.framework import seeds
from tideflow.ops.random import draws, poisson_binomial
from tideflow.wire import dtypes


@export_v2("experimental.numpy.random.seed")
def seed(s: Any) -> None:
    """Set the seed of the program (see tf.random.set_seed).  Raises: ValueError for no integer."""
    try:
        number = int(s)
    except TypeError:
        raise ValueError(f"the seed must be an integer; found {s!r}") from None
    seeds.set_random_seed(number)


def _shape(size: Any) -> Any:
    return () if size is None else (size,) if isscalar(size) else size


@export_v2("experimental.numpy.random.standard_normal")
def standard_normal(size: Any = None) -> Any:
    """Return numbers of the standard normal distribution, in a shape; one for None."""
    return draws.random_normal(_shape(size), dtype=result_type(float))


@export_v2("experimental.numpy.random.randn")
def randn(*args: int) -> Any:
    """Return numbers of the standard normal distribution, in a shape whose sizes are given."""
    return standard_normal(size=args)


@export_v2("experimental.numpy.random.uniform")
def uniform(low: TensorLike = 0.0, high: TensorLike = 1.0, size: Any = None) -> Any:
    """Return numbers spread evenly over [low, high), in a shape; that of the bounds for None."""
    kind = result_type(float)
    least, most = asarray(low, kind), asarray(high, kind)
    shape = broadcast_static_shape(least.shape, most.shape) if size is None else size
    return draws.random_uniform(shape, least, most, kind)


@export_v2("experimental.numpy.random.random")
def random(size: Any = None) -> Any:
    """Return numbers spread evenly over [0, 1), in a shape; one for None."""
    return uniform(0.0, 1.0, size)


@export_v2("experimental.numpy.random.rand")
def rand(*size: int) -> Any:
    """Return numbers spread evenly over [0, 1), in a shape whose sizes are given."""
    return uniform(0.0, 1.0, size)


@export_v2("experimental.numpy.random.poisson")
def poisson(lam: TensorLike = 1.0, size: Any = None) -> Any:
    """Return int64 numbers of Poisson distributions, in a shape; one each for None."""
    return poisson_binomial.random_poisson_v2(_shape(size), lam, dtypes.int64)


@export_v2("experimental.numpy.random.randint")
def randint(low: Any, high: Any = None, size: Any = None, dtype: DTypeLike = dtypes.int64) -> Any:
    """Return integers of [low, high), or of [0, low), in a shape; one for None.

    Raises: ValueError for a type other than int32 and int64.
    """
    least, most = (0, int(low)) if high is None else (int(low), high)
    kind = result_type(dtype)
    if kind not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"the type must be int32 or int64; found {dtype!r}")
    shape = () if size is None else (size,) if isinstance(size, int) else size
    return draws.random_uniform(shape, least, most, kind)
