"""Learning rates that follow the number of steps: `tf.optimizers.schedules`.

Source: keras/src/optimizers/schedules/learning_rate_schedule.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export_v2
from tideflow.wire import dtypes


def _float(value: TensorLike) -> Any:
    tensor = convert_to_tensor(value)
    if tensor.dtype.base_dtype is dtypes.float32:
        return tensor
    return apply_op("Cast", tensor, DstT=dtypes.float32)


@export_v2("optimizers.schedules.LearningRateSchedule")
class LearningRateSchedule:
    """A rate as a function of the number of steps made; override `__call__`.

    Example:
      >>> class Halves(tf.optimizers.schedules.LearningRateSchedule):
      ...     def __call__(self, step):
      ...         return 0.5 ** tf.cast(step, tf.float32)
      >>> float(Halves()(2))
      0.25
    """

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        raise TypeError(f"{type(self).__name__} has no rule; override __call__")


@export_v2("optimizers.schedules.ExponentialDecay")
class ExponentialDecay(LearningRateSchedule):
    """A learning rate that decays exponentially.

    rate = initial_learning_rate * decay_rate ^ (step / decay_steps)

    Args:
      initial_learning_rate: the rate at step 0.
      decay_steps: the number of steps after which one whole decay is done.
      decay_rate: a number.
      staircase: whether the quotient of steps is rounded down.
    Example:
      >>> rate = tf.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
      >>> round(float(rate(10)), 4)
      0.05
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str = "ExponentialDecay",
    ) -> None:
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps, self.decay_rate = decay_steps, decay_rate
        self.staircase, self.name = staircase, name

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        power = _share(step, self.decay_steps, self.staircase)
        return _float(self.initial_learning_rate) * (_float(self.decay_rate) ** power)


@export_v2("optimizers.schedules.InverseTimeDecay")
class InverseTimeDecay(ExponentialDecay):
    """A learning rate that decays with the inverse of time.

    rate = initial_learning_rate / (1 + decay_rate * step / decay_steps)

    Args:
      initial_learning_rate: the rate at step 0.
      decay_steps: the number of steps after which one whole decay is done.
      decay_rate: a number.
      staircase: whether the quotient of steps is rounded down.
    Example:
      >>> rate = tf.optimizers.schedules.InverseTimeDecay(0.1, 10, 1.0)
      >>> round(float(rate(10)), 4)
      0.05
    """

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        share = _share(step, self.decay_steps, self.staircase)
        return _float(self.initial_learning_rate) / (1.0 + _float(self.decay_rate) * share)


def _share(step: TensorLike, steps: int, staircase: bool) -> Any:
    share = _float(step) / _float(steps)
    return apply_op("Floor", share) if staircase else share


@export_v2("optimizers.schedules.PiecewiseConstantDecay")
class PiecewiseConstantDecay(LearningRateSchedule):
    """A learning rate that changes at certain steps.

    values[0] up to and including step boundaries[0], then values[i] up to boundaries[i], then
    values[-1].

    Args:
      boundaries: numbers of steps in increasing order.
      values: one rate more than boundaries.
    Raises: ValueError unless there is one value more than there are boundaries.
    Example:
      >>> rate = tf.optimizers.schedules.PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.1])
      >>> round(float(rate(15)), 4)
      0.5
    """

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        name: str = "PiecewiseConstant",
    ) -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                f"{len(boundaries)} boundaries need one value more; found {len(values)}"
            )
        self.boundaries, self.values, self.name = list(boundaries), list(values), name

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        passed = apply_op("Greater", _float(step), _float(self.boundaries))
        number = apply_op("Sum", apply_op("Cast", passed, DstT=dtypes.int32), [0])
        return apply_op("GatherV2", _float(self.values), number, 0)


@export_v2("optimizers.schedules.PolynomialDecay")
class PolynomialDecay(LearningRateSchedule):
    """A learning rate that falls to another one by a polynomial.

    rate = (initial_learning_rate - end) * (1 - step / decay_steps) ^ power + end, and end from then
    on.

    Args:
      initial_learning_rate: the rate at step 0.
      decay_steps: the number of steps in which the rate falls.
      end_learning_rate: the last rate.
      power: of the polynomial; 1 for a straight line.
      cycle: whether decay_steps grows to its next multiple each time that it has passed.
    Example:
      >>> rate = tf.optimizers.schedules.PolynomialDecay(0.1, 10, 0.0)
      >>> round(float(rate(5)), 4)
      0.05
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str = "PolynomialDecay",
    ) -> None:
        self.initial_learning_rate, self.end_learning_rate = (
            initial_learning_rate,
            end_learning_rate,
        )
        self.decay_steps, self.power, self.cycle, self.name = decay_steps, power, cycle, name

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        done, steps = _float(step), _float(self.decay_steps)
        if self.cycle:
            steps = steps * apply_op("Maximum", _float(1.0), apply_op("Ceil", done / steps))
        else:
            done = apply_op("Minimum", done, steps)
        left = (1.0 - done / steps) ** _float(self.power)
        end = _float(self.end_learning_rate)
        return (_float(self.initial_learning_rate) - end) * left + end


@export_v2("optimizers.schedules.CosineDecay")
class CosineDecay(LearningRateSchedule):
    """A learning rate that falls along half a cosine, after a rise if asked for.

    In warmup_steps the rate rises from initial_learning_rate to warmup_target on a straight line;
    then
    rate = first * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha), where first is
    the
    rate reached and step counts from there.

    Args:
      initial_learning_rate: the rate at step 0.
      decay_steps: the number of steps in which the rate falls.
      alpha: the last rate, as a share of the first one.
      warmup_target: the rate to which it rises; None for no rise.
      warmup_steps: the number of steps in which it rises.
    Source: I. Loshchilov and F. Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016.
    Example:
      >>> rate = tf.optimizers.schedules.CosineDecay(0.1, 10)
      >>> round(float(rate(5)), 4)
      0.05
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        alpha: float = 0.0,
        name: str = "CosineDecay",
        warmup_target: float | None = None,
        warmup_steps: int = 0,
    ) -> None:
        self.initial_learning_rate, self.decay_steps, self.alpha = (
            initial_learning_rate,
            decay_steps,
            alpha,
        )
        self.name, self.warmup_target, self.warmup_steps = name, warmup_target, warmup_steps

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        done = _float(step)
        if self.warmup_target is None:
            return self._fallen(done, self.initial_learning_rate)
        warm = _float(self.warmup_steps)
        rise = _float(self.warmup_target - self.initial_learning_rate)
        risen = rise * (done / warm) + self.initial_learning_rate
        fallen = self._fallen(done - warm, self.warmup_target)
        return apply_op("SelectV2", apply_op("Less", done, warm), risen, fallen)

    def _fallen(self, done: Any, top: float) -> Any:
        share = apply_op("Minimum", done / _float(self.decay_steps), _float(1.0))
        wave = 0.5 * (1.0 + apply_op("Cos", share * math.pi))
        return top * ((1.0 - self.alpha) * wave + self.alpha)


@export_v2("optimizers.schedules.CosineDecayRestarts")
class CosineDecayRestarts(LearningRateSchedule):
    """A learning rate that falls along half a cosine, again and again.

    Each period is t_mul times as long as the one before, and begins m_mul times as high.

    Args:
      initial_learning_rate: the rate at step 0.
      first_decay_steps: the number of steps in the first period.
      t_mul: how much longer each period is.
      m_mul: how much higher each period begins.
      alpha: the last rate of a period, as a share of the first rate.
    Source: I. Loshchilov and F. Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016.
    Example:
      >>> rate = tf.optimizers.schedules.CosineDecayRestarts(0.1, 10)
      >>> round(float(rate(10)), 4)
      0.1
    """

    def __init__(
        self,
        initial_learning_rate: float,
        first_decay_steps: int,
        t_mul: float = 2.0,
        m_mul: float = 1.0,
        alpha: float = 0.0,
        name: str = "SGDRDecay",
    ) -> None:
        self.initial_learning_rate, self.first_decay_steps = (
            initial_learning_rate,
            first_decay_steps,
        )
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def __call__(self, step: TensorLike) -> Any:
        """Return the rate after so many steps."""
        share = _float(step) / _float(self.first_decay_steps)
        if self.t_mul == 1.0:
            restarts = apply_op("Floor", share)
            share = share - restarts
        else:
            # After n of them, (t_mul^n - 1) / (t_mul - 1) first lengths are over.
            grown = apply_op("Log", 1.0 - share * (1.0 - self.t_mul))
            restarts = apply_op("Floor", grown / _float(math.log(self.t_mul)))
            length = _float(self.t_mul) ** restarts
            share = (share - (1.0 - length) / _float(1.0 - self.t_mul)) / length
        height = _float(self.m_mul) ** restarts
        wave = 0.5 * height * (1.0 + apply_op("Cos", share * math.pi))
        return self.initial_learning_rate * ((1.0 - self.alpha) * wave + self.alpha)
