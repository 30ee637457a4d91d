"""Optimizers that are one op for each variable, and differ in its name, slots and arguments.

Source: the papers named below; tensorflow/python/training/*.py for names, slots and defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import Hyperparameter, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.math import cast
from tideflow.ops.state import ResourceVariable
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers.rule_optimizer import RuleOptimizer
from tideflow.train.optimizers.slots import filled_like


@export("train.GradientDescentOptimizer")
class GradientDescentOptimizer(RuleOptimizer):
    """Gradient descent.

    w -= learning_rate * g, where g is the gradient.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Source: H. Robbins and S. Monro, A Stochastic Approximation Method, 1951.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.GradientDescentOptimizer(0.1)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.8 1.6]
    """

    rule = "GradientDescent"
    arguments = ("learning_rate", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        use_locking: bool = False,
        name: str = "GradientDescent",
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate)

    # Repeated indices do no harm here: each slice is subtracted in turn.

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Any:
        step = apply_op("Mul", grad.values, self._hyper_value("learning_rate", var))
        return apply_op("ScatterSub", var, grad.indices, step, use_locking=self._use_locking)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        step = apply_op("Mul", apply_op("Neg", grad), self._hyper_value("learning_rate", handle))
        return apply_op("ResourceScatterAdd", handle.handle, indices, step)


@export("train.MomentumOptimizer")
class MomentumOptimizer(RuleOptimizer):
    """Gradient descent with momentum.

    a = momentum * a + g; w -= learning_rate * a; with Nesterov w -= learning_rate * (g + momentum *
    a).
    g is the gradient; a starts at 0.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      momentum: the share of the sum that stays, usually from 0.5 to 0.99.
      use_nesterov: whether to look ahead by one step.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Source: I. Sutskever et al., On the importance of initialization and momentum in deep learning,
      2013.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.8 1.6]
    """

    rule = "Momentum"
    slots = ("momentum",)
    arguments = ("learning_rate", "grad", "momentum")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        momentum: Hyperparameter,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate, momentum=momentum)
        self._attrs = {"use_nesterov": use_nesterov}


def _require_positive(name: str, value: float) -> None:
    if value <= 0.0:
        raise ValueError(f"{name} must be positive; found {value}")


@export("train.AdagradOptimizer")
class AdagradOptimizer(RuleOptimizer):
    """Adagrad: smaller steps where gradients have been large.

    a += g^2; w -= learning_rate * g / sqrt(a), where g is the gradient.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      initial_accumulator_value: the first a, above 0.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Raises: ValueError for an initial value that is not positive.
    Source: J. Duchi, E. Hazan and Y. Singer, Adaptive Subgradient Methods, 2011.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.AdagradOptimizer(0.1)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.9012 1.9003]
    """

    rule = "Adagrad"
    slots = ("accumulator",)
    arguments = ("learning_rate", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        _require_positive("initial_accumulator_value", initial_accumulator_value)
        super().__init__(use_locking, name, learning_rate=learning_rate)
        self._initial_accumulator_value = initial_accumulator_value

    def _initial(self, slot: str, var: Variable) -> Any:
        return filled_like(var, self._initial_accumulator_value)


@export("train.AdagradDAOptimizer")
class AdagradDAOptimizer(RuleOptimizer):
    """Adagrad with dual averaging, for sparse linear models.

    s += g; a += g^2; w = -sign(s) * learning_rate * max(abs(s) - l1 * t, 0) / (l2 * t *
    learning_rate + sqrt(a)),
    where g is the gradient, t the global step plus 1, l1 and l2 the strengths.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      global_step: counts the steps; whoever trains increments it.
      initial_gradient_squared_accumulator_value: the first a, above 0.
      l1_regularization_strength, l2_regularization_strength: numbers, at least 0.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Raises: ValueError for an initial value that is not positive.
    Source: J. Duchi, E. Hazan and Y. Singer, Adaptive Subgradient Methods, 2011.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.AdagradDAOptimizer(0.1, tf.constant(0, tf.int64))
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [-0.0988 -0.0997]
    """

    rule = "AdagradDA"
    slots = ("gradient_accumulator", "gradient_squared_accumulator")
    arguments = ("grad", "learning_rate", "l1", "l2", "global_step")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        global_step: TensorLike,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        _require_positive(
            "initial_gradient_squared_accumulator_value",
            initial_gradient_squared_accumulator_value,
        )
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1=l1_regularization_strength,
            l2=l2_regularization_strength,
        )
        self._global_step = global_step
        self._initial_squared = initial_gradient_squared_accumulator_value

    def _initial(self, slot: str, var: Variable) -> Any:
        return filled_like(var, 0 if slot == "gradient_accumulator" else self._initial_squared)

    def _hyper_value(self, name: str, var: Variable) -> Any:
        if name == "global_step":
            # The rule divides by the number of the step, from 1; the counter starts at 0.
            return apply_op("AddV2", cast(convert_to_tensor(self._global_step), "int64"), 1)
        return super()._hyper_value(name, var)


@export("train.AdadeltaOptimizer")
class AdadeltaOptimizer(RuleOptimizer):
    """Adadelta: steps scaled by the ratio of past updates to past gradients.

    a = rho * a + (1 - rho) * g^2; d = sqrt(u + epsilon) / sqrt(a + epsilon) * g;
    u = rho * u + (1 - rho) * d^2; w -= learning_rate * d, where g is the gradient.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      rho: the share of the averages that stays.
      epsilon: keeps the roots above 0, and makes the first steps.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Source: M. D. Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.AdadeltaOptimizer(1.0, epsilon=1e-2)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.5636 1.5556]
    """

    rule = "Adadelta"
    slots = ("accum", "accum_update")
    arguments = ("lr", "rho", "epsilon", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        rho: Hyperparameter = 0.95,
        epsilon: Hyperparameter = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name, lr=learning_rate, rho=rho, epsilon=epsilon)


@export("train.RMSPropOptimizer")
class RMSPropOptimizer(RuleOptimizer):
    """RMSProp: steps divided by the root of a moving average of squared gradients.

    a = decay * a + (1 - decay) * g^2; m = momentum * m + learning_rate * g / sqrt(a + epsilon); w
    -= m,
    where g is the gradient and a starts at 1.  With centered, the square of the average gradient is
    taken from a under the root.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      decay: the share of the average that stays.
      momentum: the share of the step before that is made again.
      epsilon: keeps the root above 0.
      centered: whether steps are divided by the estimated deviation of gradients (Graves, 2013).
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Source: T. Tieleman and G. Hinton, Lecture 6.5: RMSProp, 2012.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.RMSPropOptimizer(0.1)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.8246 1.747 ]
    """

    rule = "RMSProp"
    slots: tuple[str, ...] = ("rms", "momentum")
    arguments = ("learning_rate", "decay", "momentum", "epsilon", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        decay: Hyperparameter = 0.9,
        momentum: Hyperparameter = 0.0,
        epsilon: Hyperparameter = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            decay=decay,
            momentum=momentum,
            epsilon=epsilon,
        )
        if centered:
            self.rule = "CenteredRMSProp"
            self.slots = ("mg", "rms", "momentum")

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        # In this order, because the slots' names count up as they are made.
        for var in var_list:
            for slot in ("rms", "mg", "momentum"):
                if slot in self.slots:
                    self._make_slot(var, slot)

    def _initial(self, slot: str, var: Variable) -> Any:
        return filled_like(var, 1 if slot == "rms" else 0)


@export("train.FtrlOptimizer")
class FtrlOptimizer(RuleOptimizer):
    """Follow the regularized leader, for sparse models.

    n = a + g^2; z += g - (n^-p - a^-p) / learning_rate * w; a = n;
    w = (sign(z) * l1 - z) / (n^-p / learning_rate + 2 * l2) where abs(z) > l1, else 0,
    where g is the gradient, p learning_rate_power, l1 and l2 the strengths.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      learning_rate_power: p, at most 0; 0 for a constant rate.
      initial_accumulator_value: the first a, at least 0.
      l1_regularization_strength, l2_regularization_strength: numbers, at least 0.
      accum_name, linear_name: names of the slots a and z.
      l2_shrinkage_regularization_strength: a penalty on magnitude that acts on the gradient.
      beta: added to the root of a, as in the paper.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Raises: ValueError for strengths or an initial value below 0, or a power above 0.
    Source: H. B. McMahan et al., Ad Click Prediction: a View from the Trenches, 2013.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.FtrlOptimizer(0.1)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.7... 1.7...]
    """

    rule = "Ftrl"
    slots = ("accum", "linear")
    arguments: tuple[str, ...] = ("grad", "learning_rate", "l1", "l2", "lr_power")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        for label, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
            ("minus learning_rate_power", -learning_rate_power),
        ):
            if value < 0:
                raise ValueError(f"{label} must be at least 0; found {value}")
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1=l1_regularization_strength,
            l2=l2_regularization_strength,
            lr_power=learning_rate_power,
        )
        self._initial_accumulator_value = initial_accumulator_value
        self._op_names = {"accum": accum_name or name, "linear": linear_name or name}
        self._beta = beta or 0.0
        if l2_shrinkage_regularization_strength > 0:
            self._hyper["l2_shrinkage"] = l2_shrinkage_regularization_strength
            self.rule = "FtrlV2"
            self.arguments = (
                "grad",
                "learning_rate",
                "l1",
                "l2",
                "l2_shrinkage",
                "lr_power",
            )

    def _slot_op_name(self, slot: str) -> str:
        return self._op_names[slot]

    def _initial(self, slot: str, var: Variable) -> Any:
        return filled_like(var, self._initial_accumulator_value if slot == "accum" else 0)

    def _hyper_value(self, name: str, var: Variable) -> Any:
        found = super()._hyper_value(name, var)
        if name == "l2" and self._beta:
            rate = super()._hyper_value("learning_rate", var)
            return apply_op("AddV2", found, apply_op("RealDiv", self._beta / 2.0, rate))
        return found


@export("train.ProximalGradientDescentOptimizer")
class ProximalGradientDescentOptimizer(RuleOptimizer):
    """Gradient descent, after which l1 and l2 shrink the variable.

    p = w - learning_rate * g; w = sign(p) * max(abs(p) - learning_rate * l1, 0) / (1 + l2 *
    learning_rate),
    where g is the gradient, l1 and l2 the strengths.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      l1_regularization_strength, l2_regularization_strength: numbers, at least 0.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Source: J. Duchi and Y. Singer, Efficient Online and Batch Learning Using Forward Backward
      Splitting, 2009.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.ProximalGradientDescentOptimizer(0.1, 1.0)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.7 1.5]
    """

    rule = "ProximalGradientDescent"
    arguments = ("learning_rate", "l1", "l2", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1=l1_regularization_strength,
            l2=l2_regularization_strength,
        )


@export("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(RuleOptimizer):
    """Adagrad, after which l1 and l2 shrink the variable.

    a += g^2; r = learning_rate / sqrt(a); p = w - r * g; w = sign(p) * max(abs(p) - r * l1, 0) / (1
    + l2 * r),
    where g is the gradient, l1 and l2 the strengths.

    Args:
      learning_rate: a positive number, a scalar tensor, or a function without arguments that gives
        one.
      initial_accumulator_value: the first a, above 0.
      l1_regularization_strength, l2_regularization_strength: numbers, at least 0.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Raises: ValueError for an initial value that is not positive.
    Source: J. Duchi and Y. Singer, Efficient Online and Batch Learning Using Forward Backward
      Splitting, 2009.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> optimizer = tf.train.ProximalAdagradOptimizer(0.1)
      >>> train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.9012 1.9003]
    """

    rule = "ProximalAdagrad"
    slots = ("accumulator",)
    arguments = ("learning_rate", "l1", "l2", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        _require_positive("initial_accumulator_value", initial_accumulator_value)
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1=l1_regularization_strength,
            l2=l2_regularization_strength,
        )
        self._initial_accumulator_value = initial_accumulator_value

    def _initial(self, slot: str, var: Variable) -> Any:
        return filled_like(var, self._initial_accumulator_value)
