"""Dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_seed
from tideflow.ops.random import stateless_random_uniform
from tideflow.wire.dtypes import DType


@export("nn.dropout")
def dropout(
    x: TensorLike,
    keep_prob: Any = None,
    noise_shape: TensorLike | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Set a random share of the elements to 0, and scale the others so that the mean stays.

    Args:
      x: floating numbers of any shape.
      keep_prob: the old way to say 1 - rate.
      noise_shape: the shape of the random decisions, which broadcasts to that of x; x's by default.
      seed: an integer, for the same decisions in each run of the program.
      rate: the share, a number or scalar tensor in [0, 1); the others are multiplied by 1 / (1 -
        rate).
    Returns: a tensor of the shape and type of x.
    Raises: ValueError for a rate outside [0, 1), for both rate and keep_prob, or neither.
    Source: N. Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting,
      2014.
    Example:
      >>> dropped = tf.nn.dropout(tf.ones([1000]), rate=0.5)
      >>> sorted({float(one) for one in dropped.numpy()})
      [0.0, 2.0]
    """
    if (rate is None) == (keep_prob is None):
        raise ValueError("give exactly one of 'rate' and 'keep_prob'")
    if rate is None:
        rate = apply_op("Sub", 1.0, keep_prob) if _is_symbolic(keep_prob) else 1 - keep_prob
    first, second = (part or 0 for part in get_seed(seed)) if _drops(rate) else (0, 0)

    def noise(sizes: TensorLike, dtype: DType) -> Tensor:
        made: Tensor = apply_op("RandomUniform", sizes, dtype=dtype, seed=first, seed2=second)
        return made

    return _dropped(x, rate, noise, noise_shape, name or "dropout")


@export("nn.experimental.general_dropout")
def general_dropout(
    x: TensorLike,
    rate: TensorLike,
    uniform_sampler: Callable[..., Any],
    noise_shape: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Do what dropout does, by random numbers that the caller makes.

    Args:
      x: floating numbers of any shape.
      rate: the share of elements that become 0, a number or scalar tensor in [0, 1).
      uniform_sampler: called with shape= and dtype=; gives numbers that are uniform in [0, 1).
      noise_shape: the shape of the random decisions, which broadcasts to that of x; x's by default.
    Returns: a tensor of the shape and type of x.
    Example:
      >>> halves = lambda shape, dtype: tf.constant([0.2, 0.7], dtype)
      >>> print(tf.nn.experimental.general_dropout([1.0, 1.0], 0.5, halves).numpy())
      [0. 2.]
    """

    def noise(sizes: TensorLike, dtype: DType) -> Any:
        return uniform_sampler(shape=sizes, dtype=dtype)

    return _dropped(x, rate, noise, noise_shape, name or "dropout")


@export("nn.experimental.stateless_dropout")
def stateless_dropout(
    x: TensorLike,
    rate: TensorLike,
    seed: int,
    rng_alg: str | None = None,
    noise_shape: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Do what dropout does, by decisions that follow from a seed.

    Args:
      x: floating numbers of any shape.
      rate: the share of elements that become 0, a number or scalar tensor in [0, 1).
      seed: two integers; the same seed gives the same decisions.
      rng_alg: the algorithm of the random numbers; see tf.random.stateless_uniform.
      noise_shape: the shape of the random decisions, which broadcasts to that of x; x's by default.
    Returns: a tensor of the shape and type of x.
    Example:
      >>> once, again = (
      ...     tf.nn.experimental.stateless_dropout(tf.ones([9]), 0.5, seed=[1, 2]) for _ in range(2)
      ... )
      >>> bool(tf.reduce_all(once == again))
      True
    """
    alg = rng_alg or "auto_select"

    def noise(sizes: TensorLike, dtype: DType) -> Tensor:
        return stateless_random_uniform(sizes, seed, dtype=dtype, alg=alg)

    return _dropped(x, rate, noise, noise_shape, name or "stateless_dropout")


def _drops(rate: object) -> bool:
    return _is_symbolic(rate) or rate != 0


def _dropped(
    x: TensorLike, rate: Any, noise: Callable[[Any, DType], Any], noise_shape: object, name: str
) -> Tensor:
    with get_default_graph().name_scope(name):
        given = convert_to_tensor(x)
        dtype = given.dtype.base_dtype
        if not dtype.is_floating:
            raise ValueError(f"dropout scales floats; x has type {dtype.name}")
        if _is_symbolic(rate):
            rate = convert_to_tensor(rate)
            if rate.dtype.base_dtype is not dtype:
                rate = apply_op("Cast", rate, DstT=dtype)
            scale = apply_op("Reciprocal", apply_op("Sub", 1, rate))
        else:
            if not 0 <= rate < 1:
                raise ValueError(f"rate must lie in [0, 1); found {rate}")
            if rate == 0:
                return given
            scale = 1 / (1 - rate)
        kept = apply_op("GreaterEqual", noise(_noise_sizes(given, noise_shape), dtype), rate)
        scaled = apply_op("Mul", given, scale)
        made: Tensor = apply_op("SelectV2", kept, scaled, apply_op("ZerosLike", scaled))
        made.set_shape(given.shape)
        return made


def _is_symbolic(value: object) -> bool:
    return not isinstance(value, (int, float)) and not hasattr(value, "item")


def _noise_sizes(x: Tensor, noise_shape: object) -> Any:
    """Return the shape of the decisions; sizes that are None come from the static shape of x."""
    if noise_shape is None:
        return apply_op("Shape", x)
    if not isinstance(noise_shape, (list, tuple)) or None not in noise_shape:
        return noise_shape
    own = x.dims or (None,) * len(noise_shape)
    found = [mine if size is None else size for size, mine in zip(noise_shape, own)]
    if None in found:
        raise ValueError(f"noise_shape {noise_shape} leaves sizes open that x does not know")
    return found
