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
    """Set a random share `rate` of the elements to 0 and scale the others by 1 / (1 - rate).

    Args:
      x: floats.
      keep_prob: old way to say 1 - rate; a number or scalar tensor.
      noise_shape: shape of the random decisions, which broadcasts to that of x.
    Raises: ValueError for a rate outside [0, 1), both rate and keep_prob, or neither.
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
    """Do what dropout does, by numbers that uniform_sampler(shape=, dtype=) spreads over [0, 1)."""

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
    """Do what dropout does, by decisions that follow from the seed (two integers)."""
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
