"""Scales of losses, which keep gradients of half precision from becoming 0, and who applies them.

Source: tensorflow/python/training/experimental/loss_scale.py and loss_scale_optimizer.py for names
and rules.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import cond, group
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, nest, no_op
from tideflow.ops.state.api import Variable
from tideflow.train.optimizers.optimizer import Optimizer
from tideflow.wire import dtypes


@export(
    "mixed_precision.LossScale",
    "mixed_precision.experimental.LossScale",
    "train.experimental.LossScale",
)
class LossScale(abc.ABC):
    """Base of scales: what a loss is multiplied by, and how that changes.

    Example:
      >>> isinstance(tf.mixed_precision.FixedLossScale(8), tf.mixed_precision.LossScale)
      True
    """

    @abc.abstractmethod
    def __call__(self) -> Tensor:
        """Return the scale, a float32 scalar."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Return an operation that changes the scale, and whether to apply the gradients."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same scale."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """Return the scale of a config."""
        return cls(**config)


@export(
    "mixed_precision.FixedLossScale",
    "mixed_precision.experimental.FixedLossScale",
    "train.experimental.FixedLossScale",
)
class FixedLossScale(LossScale):
    """A scale that stays.

    Args:
      loss_scale_value: a number, at least 1.
    Raises: ValueError for what is no number, or below 1.
    Example:
      >>> scale = tf.mixed_precision.FixedLossScale(8)
      >>> with tf.Session() as session:
      ...     print(session.run(scale()))
      8.0
    """

    def __init__(self, loss_scale_value: float) -> None:
        if not isinstance(loss_scale_value, (int, float)):
            raise ValueError("loss_scale_value must be a Python int or float.")
        if loss_scale_value < 1:
            raise ValueError("loss_scale_value must be at least 1.")
        self._value = float(loss_scale_value)

    def __call__(self) -> Tensor:
        """Return the scale."""
        return convert_to_tensor(self._value)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Return an operation that does nothing, and True."""
        return no_op(), True

    def __repr__(self) -> str:
        return f"FixedLossScale({self._value})"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same scale."""
        return {"loss_scale_value": self._value}


@export(
    "mixed_precision.DynamicLossScale",
    "mixed_precision.experimental.DynamicLossScale",
    "train.experimental.DynamicLossScale",
)
class DynamicLossScale(LossScale):
    """A scale that grows while gradients are finite, and shrinks when they are not.

    Args:
      initial_loss_scale: the first scale.
      increment_period: after so many steps with finite gradients it grows.
      multiplier: by so much it grows and shrinks.
    Example:
      >>> scale = tf.mixed_precision.DynamicLossScale(8.0, increment_period=1)
      >>> update, should_apply = scale.update([tf.constant(float("inf"))])
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     _ = session.run(update)
      ...     print(session.run(scale()))
      4.0
    """

    def __init__(
        self,
        initial_loss_scale: float = 2**15,
        increment_period: int = 2000,
        multiplier: float = 2.0,
    ) -> None:
        self._initial_loss_scale = float(initial_loss_scale)
        self._increment_period = int(increment_period)
        self._multiplier = float(multiplier)
        self._scale: Any = Variable(
            self._initial_loss_scale, name="current_loss_scale", dtype=dtypes.float32,
            trainable=False, use_resource=True,
        )  # fmt: skip
        self._good_steps: Any = Variable(
            0, name="good_steps", dtype=dtypes.int64, trainable=False, use_resource=True
        )

    initial_loss_scale = property(lambda self: self._initial_loss_scale, doc="The first scale.")
    increment_period = property(lambda self: self._increment_period, doc="When it grows.")
    multiplier = property(lambda self: self._multiplier, doc="By how much.")

    def __call__(self) -> Tensor:
        """Return the scale as it is."""
        return convert_to_tensor(self._scale)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Return an operation that changes the scale, and whether all gradients are finite."""
        is_finite = _all_finite(nest.flatten(grads))

        def grown() -> Any:
            larger = apply_op("Mul", self(), self._multiplier)
            fits = apply_op("IsFinite", larger)
            scale = self._scale.assign(apply_op("SelectV2", fits, larger, self()))
            return group(scale, self._good_steps.assign(_int64(0)))

        def counted() -> Any:
            steps = apply_op("AddV2", self._good_steps, _int64(1))
            is_time = apply_op("GreaterEqual", steps, _int64(self._increment_period))
            return cond(is_time, grown, lambda: group(self._good_steps.assign_add(_int64(1))))

        def shrunk() -> Any:
            smaller = apply_op("Maximum", apply_op("RealDiv", self(), self._multiplier), 1.0)
            return group(self._scale.assign(smaller), self._good_steps.assign(_int64(0)))

        return cond(is_finite, counted, shrunk), is_finite

    def __repr__(self) -> str:
        return (
            f"DynamicLossScale(initial_loss_scale={self._initial_loss_scale}, "
            f"increment_period={self._increment_period}, multiplier={self._multiplier})"
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same scale."""
        return {
            "initial_loss_scale": self._initial_loss_scale,
            "increment_period": self._increment_period,
            "multiplier": self._multiplier,
        }


def _int64(number: int) -> Tensor:
    return convert_to_tensor(number, dtypes.int64)


def _all_finite(grads: Iterable[Any]) -> Tensor:
    found = convert_to_tensor(True)
    for grad in grads:
        if grad is None:
            continue
        values = grad.values if isinstance(grad, IndexedSlices) else grad
        axes = apply_op("Range", 0, apply_op("Rank", values), 1)
        found = apply_op("LogicalAnd", found, apply_op("All", apply_op("IsFinite", values), axes))
    return found


def _scale_of(given: Any) -> LossScale:
    """Return a scale for what a program says: a scale, a number, or "dynamic"."""
    if isinstance(given, LossScale):
        return given
    return DynamicLossScale() if given == "dynamic" else FixedLossScale(given)


@export(
    "mixed_precision.MixedPrecisionLossScaleOptimizer",
    "train.experimental.MixedPrecisionLossScaleOptimizer",
)
class MixedPrecisionLossScaleOptimizer(Optimizer):
    """An optimizer of scaled losses: gradients are scaled back, and left out if not finite.

    Args:
      opt: the optimizer that applies them.
      loss_scale: a LossScale, a number, or "dynamic".
    Raises: ValueError for what is no optimizer.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> inner = tf.train.GradientDescentOptimizer(0.5)
      >>> optimizer = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(inner, 128.0)
      >>> train = optimizer.minimize(tf.reduce_sum(w))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w))
      [0.5 1.5]
    """

    def __init__(self, opt: Optimizer, loss_scale: Any) -> None:
        if not isinstance(opt, Optimizer):
            raise ValueError(f'"opt" must be an instance of Optimizer, but got: {type(opt)}')
        super().__init__(False, type(opt).__name__)
        self._optimizer = opt
        self._loss_scale = _scale_of(loss_scale)

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return pairs (gradient or None, variable), computed from the scaled loss."""
        scaled: Any
        if callable(loss):

            def scaled() -> Any:
                return self._scaled(loss())

        else:
            scaled = self._scaled(loss)
        found = self._optimizer.compute_gradients(scaled, *args, **kwargs)
        back = apply_op("Reciprocal", self._loss_scale())
        return [(_times(grad, back), variable) for grad, variable in found]

    def _scaled(self, loss: TensorLike) -> Any:
        value = convert_to_tensor(loss)
        return value * apply_op("Cast", self._loss_scale(), DstT=value.dtype)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Return an operation that applies the gradients if they are finite, and sets the scale."""
        pairs = list(grads_and_vars)
        update, should_apply = self._loss_scale.update([grad for grad, _ in pairs])

        def applied() -> Any:
            return group(self._optimizer.apply_gradients(pairs, global_step, name))

        if should_apply is True:
            return group(applied(), update)
        return group(cond(should_apply, applied, no_op), update)

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a slot of the optimizer inside."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer inside."""
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Any]:
        """Return the variables of the optimizer inside."""
        return self._optimizer.variables()


def _times(grad: Any, factor: Tensor) -> Any:
    """Return a gradient multiplied by a scalar."""
    if grad is None:
        return None
    if isinstance(grad, IndexedSlices):
        values = grad.values * apply_op("Cast", factor, DstT=grad.values.dtype)
        return IndexedSlices(values, grad.indices, grad.dense_shape)
    return grad * apply_op("Cast", factor, DstT=grad.dtype)


@export(
    "mixed_precision.enable_mixed_precision_graph_rewrite",
    "train.experimental.enable_mixed_precision_graph_rewrite",
)
def enable_mixed_precision_graph_rewrite(opt: Optimizer, loss_scale: Any = "dynamic") -> Any:
    """Return the optimizer with scaled losses; the graph is computed in the types that it states.

    Args:
      opt: an optimizer.
      loss_scale: a LossScale, a number, or "dynamic".
    Raises: ValueError for what is no optimizer, and for one that scales losses already.
    Example:
      >>> inner = tf.train.GradientDescentOptimizer(0.5)
      >>> optimizer = tf.mixed_precision.enable_mixed_precision_graph_rewrite(inner, 128.0)
      >>> type(optimizer).__name__
      'MixedPrecisionLossScaleOptimizer'
    """
    if isinstance(opt, MixedPrecisionLossScaleOptimizer):
        raise ValueError(f'"opt" must not already be an instance of a {type(opt).__name__}.')
    return MixedPrecisionLossScaleOptimizer(opt, loss_scale)


@export(
    "mixed_precision.disable_mixed_precision_graph_rewrite",
    "train.experimental.disable_mixed_precision_graph_rewrite",
)
def disable_mixed_precision_graph_rewrite() -> None:
    """Leave graphs in the types that they state, as they are anyway.

    Example:
      >>> tf.mixed_precision.disable_mixed_precision_graph_rewrite()
    """
