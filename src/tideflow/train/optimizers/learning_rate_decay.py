"""Learning rates that fall as the global step grows.

Each function returns a scalar tensor.  Source: tensorflow/python/training/learning_rate_decay.py
for names and argument orders; the formulas stand in the docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, Hyperparameter, TensorLike
from tideflow.ops.export import export
from tideflow.ops.math import cast
from tideflow.ops.random import random_normal
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


def _mul(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    return apply_op("Mul", x, y, name=name)


def _add(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    return apply_op("AddV2", x, y, name=name)


def _sub(x: TensorLike, y: TensorLike) -> Any:
    return apply_op("Sub", x, y)


def _div(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    return apply_op("RealDiv", x, y, name=name)


def _scope(name: str) -> Any:
    return get_default_graph().name_scope(name)


def _require_step(global_step: TensorLike, what: str) -> None:
    if global_step is None:
        raise ValueError(f"{what} needs a global_step; tf.train.get_or_create_global_step() is one")


def _progress(
    rate: TensorLike, global_step: TensorLike, decay_steps: TensorLike, staircase: bool
) -> tuple[Any, Any]:
    """Return the rate as a tensor, and steps in units of decay_steps, floored for a staircase."""
    rate = convert_to_tensor(rate, name="learning_rate")
    dtype = rate.dtype.base_dtype
    steps = cast(convert_to_tensor(global_step), dtype)
    done = _div(steps, cast(convert_to_tensor(decay_steps), dtype))
    return rate, apply_op("Floor", done) if staircase else done


@export("train.exponential_decay")
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that decays exponentially.

    rate = learning_rate * decay_rate ^ (global_step / decay_steps)

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps after which one whole decay is done.
      decay_rate: a number.
      staircase: whether the quotient of steps is rounded down.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Example:
      >>> rate = tf.train.exponential_decay(0.1, tf.constant(10), 10, 0.5)
      >>> round(float(tf.Session().run(rate)), 4)
      0.05
    """
    _require_step(global_step, "exponential_decay")
    with _scope(name or "ExponentialDecay") as scope:
        rate, done = _progress(learning_rate, global_step, decay_steps, staircase)
        base = cast(convert_to_tensor(decay_rate), rate.dtype.base_dtype)
        found: Tensor = _mul(rate, apply_op("Pow", base, done), name=scope)
        return found


@export("train.natural_exp_decay")
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that decays exponentially, by powers of e.

    rate = learning_rate * exp(-decay_rate * global_step / decay_steps)

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps after which one whole decay is done.
      decay_rate: a number.
      staircase: whether the quotient of steps is rounded down.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Example:
      >>> rate = tf.train.natural_exp_decay(0.1, tf.constant(10), 10, 1.0)
      >>> round(float(tf.Session().run(rate)), 4)
      0.0368
    """
    _require_step(global_step, "natural_exp_decay")
    with _scope(name or "ExponentialDecay") as scope:
        rate, done = _progress(learning_rate, global_step, decay_steps, staircase)
        base = cast(convert_to_tensor(decay_rate), rate.dtype.base_dtype)
        exponent = apply_op("Neg", _mul(base, done))
        found: Tensor = _mul(rate, apply_op("Exp", exponent), name=scope)
        return found


@export("train.inverse_time_decay")
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that decays with the inverse of time.

    rate = learning_rate / (1 + decay_rate * global_step / decay_steps)

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps after which one whole decay is done.
      decay_rate: a number.
      staircase: whether the quotient of steps is rounded down.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Example:
      >>> rate = tf.train.inverse_time_decay(0.1, tf.constant(10), 10, 1.0)
      >>> round(float(tf.Session().run(rate)), 4)
      0.05
    """
    _require_step(global_step, "inverse_time_decay")
    with _scope(name or "InverseTimeDecay") as scope:
        rate, done = _progress(learning_rate, global_step, decay_steps, staircase)
        base = cast(convert_to_tensor(decay_rate), rate.dtype.base_dtype)
        found: Tensor = _div(rate, _add(1.0, _mul(base, done)), name=scope)
        return found


@export("train.polynomial_decay")
def polynomial_decay(
    learning_rate: Hyperparameter,
    global_step: TensorLike,
    decay_steps: TensorLike,
    end_learning_rate: TensorLike = 0.0001,
    power: TensorLike = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that falls to another one by a polynomial.

    rate = (learning_rate - end) * (1 - step / decay_steps) ^ power + end, and end from then on.

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps in which the rate falls.
      end_learning_rate: the last rate.
      power: of the polynomial; 1 for a straight line.
      cycle: whether decay_steps grows to its next multiple each time that it has passed, so that
        the
        rate rises and falls again.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Example:
      >>> rate = tf.train.polynomial_decay(0.1, tf.constant(5), 10, 0.0)
      >>> round(float(tf.Session().run(rate)), 4)
      0.05
    """
    _require_step(global_step, "polynomial_decay")
    with _scope(name or "PolynomialDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        dtype = rate.dtype.base_dtype
        end = cast(convert_to_tensor(end_learning_rate), dtype)
        steps = cast(convert_to_tensor(global_step), dtype)
        span = cast(convert_to_tensor(decay_steps), dtype)
        if cycle:
            turns = apply_op("Maximum", 1.0, apply_op("Ceil", _div(steps, span)))
            span = _mul(span, turns)
        else:
            steps = apply_op("Minimum", steps, span)
        left = _sub(1.0, _div(steps, span))
        shape = apply_op("Pow", left, cast(convert_to_tensor(power), dtype))
        found: Tensor = _add(_mul(_sub(rate, end), shape), end, name=scope)
        return found


@export("train.piecewise_constant", "train.piecewise_constant_decay")
def piecewise_constant(
    x: TensorLike, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Tensor:
    """Return one of several values by the interval in which x lies.

    values[0] up to and including boundaries[0], then values[i] up to boundaries[i], then
    values[-1].

    Args:
      x: a scalar, such as the global step.
      boundaries: numbers in increasing order.
      values: one number more than boundaries, all of one type.
    Returns: a scalar of the values' type.
    Raises: ValueError unless there is one value more than boundaries, or for mixed types.
    Example:
      >>> rate = tf.train.piecewise_constant(tf.constant(15), [10, 20], [1.0, 0.5, 0.1])
      >>> float(tf.Session().run(rate))
      0.5
    """
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            f"{len(boundaries)} boundaries need {len(boundaries) + 1} values; found {len(values)}"
        )
    limits = [convert_to_tensor(boundary) for boundary in boundaries]
    rates = [convert_to_tensor(value) for value in values]
    step = convert_to_tensor(x)
    bounds = [_bound(limit, step.dtype.base_dtype) for limit in limits]
    with _scope(name or "PiecewiseConstant"):
        if len({rate.dtype.base_dtype for rate in rates}) > 1:
            raise ValueError(f"the values must be of one type: {rates}")
        found: Any = rates[-1]
        for bound, rate in reversed(list(zip(bounds, rates))):
            found = apply_op("SelectV2", apply_op("LessEqual", step, bound), rate, found)
        result: Tensor = apply_op("Identity", found)
        return result


def _bound(bound: Tensor, dtype: DType) -> Any:
    """Return a boundary to compare steps with.  Raises: ValueError for another type."""
    is_narrow = bound.dtype.base_dtype is dtypes.int32 and dtype is dtypes.int64
    if bound.dtype.base_dtype is not dtype and not is_narrow:
        raise ValueError(
            f"the boundary {bound.name} of {bound.dtype.name} must be of the step's type, "
            f"{dtype.name}"
        )
    return cast(bound, dtype)


def _fraction(global_step: TensorLike, decay_steps: TensorLike, dtype: DTypeLike) -> Any:
    """Return how much of decay_steps is done, at most 1."""
    span = cast(convert_to_tensor(decay_steps), dtype)
    steps = cast(convert_to_tensor(global_step), dtype)
    return _div(apply_op("Minimum", steps, span), span)


def _cosine(fraction: Any) -> Any:
    """Return the half wave that falls from 1 to 0."""
    return _mul(0.5, _add(1.0, apply_op("Cos", _mul(math.pi, fraction))))


@export("train.cosine_decay")
def cosine_decay(
    learning_rate: Hyperparameter,
    global_step: TensorLike,
    decay_steps: TensorLike,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that falls along half a cosine.

    rate = learning_rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha), where
    step is at most decay_steps.

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps in which the rate falls.
      alpha: the last rate, as a share of the first one.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Source: I. Loshchilov and F. Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016.
    Example:
      >>> rate = tf.train.cosine_decay(0.1, tf.constant(5), 10)
      >>> round(float(tf.Session().run(rate)), 4)
      0.05
    """
    _require_step(global_step, "cosine_decay")
    with _scope(name or "CosineDecay"):
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        fraction = _fraction(global_step, decay_steps, rate.dtype.base_dtype)
        found: Tensor = _mul(rate, _add(_mul(1.0 - alpha, _cosine(fraction)), alpha))
        return found


@export("train.cosine_decay_restarts")
def cosine_decay_restarts(
    learning_rate: Hyperparameter,
    global_step: TensorLike,
    first_decay_steps: TensorLike,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that falls along half a cosine, again and again.

    Each period is t_mul times as long as the one before, and begins m_mul times as high.

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      first_decay_steps: the number of steps in the first period.
      t_mul: how much longer each period is.
      m_mul: how much higher each period begins.
      alpha: the last rate of a period, as a share of the first rate.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Source: I. Loshchilov and F. Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016.
    Example:
      >>> rate = tf.train.cosine_decay_restarts(0.1, tf.constant(10), 10)
      >>> round(float(tf.Session().run(rate)), 4)
      0.1
    """
    _require_step(global_step, "cosine_decay_restarts")
    with _scope(name or "SGDRDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = rate.dtype.base_dtype
        first = cast(convert_to_tensor(first_decay_steps), dtype)
        done = _div(cast(convert_to_tensor(global_step), dtype), first)
        if t_mul == 1.0:
            period = apply_op("Floor", done)
            within = _sub(done, period)
        else:
            grown = _sub(1.0, _mul(done, 1.0 - t_mul))
            period = apply_op("Floor", _div(apply_op("Log", grown), math.log(t_mul)))
            length = apply_op("Pow", convert_to_tensor(t_mul, dtype), period)
            started = _div(_sub(1.0, length), 1.0 - t_mul)
            within = _div(_sub(done, started), length)
        height = apply_op("Pow", convert_to_tensor(m_mul, dtype), period)
        decayed = _add(_mul(1.0 - alpha, _mul(height, _cosine(within))), alpha)
        found: Tensor = _mul(rate, decayed, name=scope)
        return found


@export("train.linear_cosine_decay")
def linear_cosine_decay(
    learning_rate: Hyperparameter,
    global_step: TensorLike,
    decay_steps: TensorLike,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that falls along a straight line and a cosine at once.

    rate = learning_rate * ((alpha + 1 - step / decay_steps) * (1 + cos(pi * 2 * num_periods * step
    / decay_steps)) / 2 + beta), where step is at most decay_steps.

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps in which the rate falls.
      num_periods: the number of waves of the cosine.
      alpha: added to the straight line.
      beta: added to the product.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Source: I. Bello et al., Neural Optimizer Search with Reinforcement Learning, 2017.
    Example:
      >>> rate = tf.train.linear_cosine_decay(0.1, tf.constant(0), 10)
      >>> round(float(tf.Session().run(rate)), 4)
      0.1001
    """
    _require_step(global_step, "linear_cosine_decay")
    with _scope(name or "LinearCosineDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        fraction = _fraction(global_step, decay_steps, rate.dtype.base_dtype)
        wave = _cosine(_mul(2.0 * num_periods, fraction))
        shape = _add(_mul(_add(alpha, _sub(1.0, fraction)), wave), beta)
        found: Tensor = _mul(rate, shape, name=scope)
        return found


@export("train.noisy_linear_cosine_decay")
def noisy_linear_cosine_decay(
    learning_rate: Hyperparameter,
    global_step: TensorLike,
    decay_steps: TensorLike,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return a learning rate that falls along a noisy line and a cosine at once.

    The straight line of linear_cosine_decay gets noise of variance initial_variance / (1 + step) ^
    variance_decay.

    Args:
      learning_rate: the rate at step 0, a number or a scalar tensor.
      global_step: the number of steps made, an integer scalar.
      decay_steps: the number of steps in which the rate falls.
      initial_variance: of the noise.
      variance_decay: how fast the variance falls.
      num_periods: the number of waves of the cosine.
      alpha: added to the straight line.
      beta: added to the product.
    Returns: a scalar of the rate's type, which follows the global step in each run.
    Raises: ValueError without a global step.
    Source: I. Bello et al., Neural Optimizer Search with Reinforcement Learning, 2017.
    Example:
      >>> rate = tf.train.noisy_linear_cosine_decay(0.1, tf.constant(10), 10, initial_variance=0.0)
      >>> round(float(tf.Session().run(rate)), 4)
      0.0001
    """
    _require_step(global_step, "noisy_linear_cosine_decay")
    with _scope(name or "NoisyLinearCosineDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        dtype = rate.dtype.base_dtype
        fraction = _fraction(global_step, decay_steps, dtype)
        steps = cast(convert_to_tensor(global_step), dtype)
        steps = apply_op("Minimum", steps, cast(convert_to_tensor(decay_steps), dtype))
        variance = _div(initial_variance, apply_op("Pow", _add(1.0, steps), variance_decay))
        drawn = random_normal([], dtype=dtype)
        linear = _add(_sub(1.0, fraction), _mul(apply_op("Sqrt", variance), drawn))
        wave = _cosine(_mul(2.0 * num_periods, fraction))
        found: Tensor = _mul(rate, _add(_mul(_add(alpha, linear), wave), beta), name=scope)
        return found
