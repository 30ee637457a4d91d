"""Optimizers of the TF2 shape: `tf.optimizers.Adam` and so on.

They work on values at once, in functions, in the replicas of a strategy, and on variables of other
tasks: an update is a few operations, which run where the variable is.

Source: keras/src/optimizers of Keras 3 for rules and defaults.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.types import Hyperparameter, TensorLike
from tideflow.ops.export import export_v2
from tideflow.ops.framework import IndexedSlices
from tideflow.train.v2.optimizer import OptimizerV2, number_for, number_of
from tideflow.train.v2.optimizer_arguments import with_common_arguments


@export_v2("optimizers.SGD")
@with_common_arguments
class SGD(OptimizerV2):
    """Gradient descent, with momentum if asked for.

    v = momentum * v - learning_rate * g; w += v, where g is the gradient.  With Nesterov
    w += momentum * v - learning_rate * g.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      momentum: the share of the last change that is made again, from 0 to 1.
      nesterov: whether to look ahead by one step.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Raises: ValueError for a momentum outside of [0, 1].
    Source: I. Sutskever et al., On the importance of initialization and momentum in deep learning,
      2013.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.SGD(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.8 1.6]
    """

    takes_slices = True

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **kwargs: Any,
    ) -> None:
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum must be between 0 and 1; found {momentum}")
        super().__init__(learning_rate, **kwargs)
        self.momentum, self.nesterov = momentum, nesterov
        self.slot_names = ("momentum",) if momentum else ()

    def _plural(self, slot: str) -> str:
        return f"{slot}s"

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        del step
        if not self.momentum:
            if isinstance(grad, IndexedSlices):
                scaled = IndexedSlices(apply_op("Mul", rate, grad.values), grad.indices)
                variable.scatter_sub(scaled)
            else:
                apply_op("ResourceApplyGradientDescent", variable.handle, rate, grad)
            return
        apply_op(
            "ResourceApplyKerasMomentum",
            variable.handle,
            self.slot("momentum", whole).handle,
            rate,
            convert_to_tensor(grad),
            number_for(self.momentum, variable),
            use_nesterov=self.nesterov,
        )


class OfMoments(OptimizerV2):
    """Base of optimizers whose steps follow averages of gradients and of their sizes.

    Args:
      beta_1, beta_2: the shares of the averages that stay.
      epsilon: keeps the divisor above 0.
    """

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon


@export_v2("optimizers.Adam")
@with_common_arguments
class Adam(OfMoments):
    """Adam: momentum, and steps divided by the root of averaged squared gradients.

    m = beta_1 * m + (1 - beta_1) * g; v = beta_2 * v + (1 - beta_2) * g^2;
    w -= learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon),
    where g is the gradient and t the number of the step, from 1.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      beta_1, beta_2: the shares of m and v that stay.
      epsilon: keeps the divisor above 0.
      amsgrad: not supported.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Raises: ValueError for amsgrad.
    Source: D. P. Kingma and J. Ba, Adam: A Method for Stochastic Optimization, 2014.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Adam(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.9 1.9]
    """

    slot_names = ("momentum", "velocity")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **kwargs: Any,
    ) -> None:
        if amsgrad:
            raise ValueError("amsgrad is not supported; leave it out")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **kwargs)

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        count = number_of(step, variable)
        betas = [number_for(beta, variable) for beta in (self.beta_1, self.beta_2)]
        apply_op(
            "ResourceApplyAdam",
            variable.handle,
            self.slot("momentum", whole).handle,
            self.slot("velocity", whole).handle,
            *[apply_op("Pow", beta, count) for beta in betas],
            rate,
            *betas,
            number_for(self.epsilon, variable),
            grad,
        )


@export_v2("optimizers.AdamW")
@with_common_arguments
class AdamW(Adam):
    """Adam with weight decay that the gradients do not see.

    As tf.optimizers.Adam, and w -= learning_rate * weight_decay * w before it.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      weight_decay: the share of each variable that is taken away in each step, times the rate.
      beta_1, beta_2: the shares of the averages that stay.
      epsilon: keeps the divisor above 0.
      amsgrad: not supported.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Raises: ValueError for amsgrad.
    Source: I. Loshchilov and F. Hutter, Decoupled Weight Decay Regularization, 2019.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.AdamW(0.1, weight_decay=0.5)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.85 1.8 ]
    """

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **kwargs: Any,
    ) -> None:
        rule = (beta_1, beta_2, epsilon, amsgrad)
        super().__init__(learning_rate, *rule, weight_decay=weight_decay, **kwargs)


@export_v2("optimizers.Adagrad")
@with_common_arguments
class Adagrad(OptimizerV2):
    """Adagrad: smaller steps where gradients have been large.

    a += g^2; w -= learning_rate * g / sqrt(a + epsilon), where g is the gradient.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      initial_accumulator_value: the first a.
      epsilon: keeps the root above 0.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Source: J. Duchi, E. Hazan and Y. Singer, Adaptive Subgradient Methods, 2011.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Adagrad(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.9012 1.9003]
    """

    slot_names = ("accumulator",)

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon

    def initial_slot(self, slot: str, variable: Any) -> Any:
        """Return the first sum of squares."""
        first = number_for(self.initial_accumulator_value, variable)
        return apply_op("Fill", [int(n or 0) for n in variable.shape.as_list()], first)

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        del step
        sums = self.slot("accumulator", whole)
        sums.assign_add(apply_op("Square", grad))
        scale = apply_op(
            "Rsqrt", apply_op("AddV2", sums.value(), number_for(self.epsilon, variable))
        )
        variable.assign_sub(apply_op("Mul", apply_op("Mul", rate, grad), scale))


@export_v2("optimizers.RMSprop")
@with_common_arguments
class RMSprop(OptimizerV2):
    """RMSprop: steps divided by the root of a moving average of squared gradients.

    a = rho * a + (1 - rho) * g^2; m = momentum * m + learning_rate * g / sqrt(a + epsilon); w -= m,
    where g is the gradient and a starts at 0.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      rho: the share of the average that stays.
      momentum: the share of the step before that is made again.
      epsilon: keeps the root above 0.
      centered: whether steps are divided by the estimated deviation of gradients (Graves, 2013).
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Source: T. Tieleman and G. Hinton, Lecture 6.5: RMSProp, 2012.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.RMSprop(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.6838 1.6838]
    """

    slot_names: tuple[str, ...] = ("velocity", "momentum")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        if centered:
            self.slot_names = ("velocity", "momentum", "average_gradient")

    _slots_listed_apart = True

    def _saved_slots(self) -> tuple[str, ...]:
        # Without momentum its state has no effect, and Keras has none.
        return tuple(name for name in self.slot_names if name != "momentum" or self.momentum)

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        del step
        numbers = [number_for(n, variable) for n in (self.rho, self.momentum, self.epsilon)]
        states = [self.slot(name, whole).handle for name in ("velocity", "momentum")]
        if self.centered:
            states.insert(0, self.slot("average_gradient", whole).handle)
        op_name = "ResourceApplyCenteredRMSProp" if self.centered else "ResourceApplyRMSProp"
        apply_op(op_name, variable.handle, *states, rate, *numbers, grad)


@export_v2("optimizers.Ftrl")
@with_common_arguments
class Ftrl(OptimizerV2):
    """Follow the regularized leader, for sparse models.

    n = a + g^2; z += g - (n^-p - a^-p) / learning_rate * w; a = n;
    w = (sign(z) * l1 - z) / ((beta + n^-p) / learning_rate + 2 * l2) where abs(z) > l1, else 0,
    where g is the gradient, p learning_rate_power, l1 and l2 the strengths.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      learning_rate_power: p, at most 0; 0 for a constant rate.
      initial_accumulator_value: the first a, at least 0.
      l1_regularization_strength, l2_regularization_strength: numbers, at least 0.
      l2_shrinkage_regularization_strength: a penalty on magnitude that acts on the gradient.
      beta: a number, at least 0.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Source: H. B. McMahan et al., Ad Click Prediction: a View from the Trenches, 2013.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Ftrl(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.7... 1.7...]
    """

    slot_names = ("accumulator", "linear")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.initial_accumulator_value = initial_accumulator_value
        self._strengths = (
            l1_regularization_strength,
            l2_regularization_strength,
            l2_shrinkage_regularization_strength,
            learning_rate_power,
        )
        self.beta = beta

    def initial_slot(self, slot: str, variable: Any) -> Any:
        """Return the first sum of squares, and zeros."""
        if slot != "accumulator":
            return super().initial_slot(slot, variable)
        first = number_for(self.initial_accumulator_value, variable)
        return apply_op("Fill", [int(n or 0) for n in variable.shape.as_list()], first)

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        del step
        l1, l2, shrinkage, power = self._strengths
        half = apply_op(
            "RealDiv",
            number_for(self.beta, variable),
            apply_op("Mul", number_for(2.0, variable), rate),
        )
        apply_op(
            "ResourceApplyFtrlV2",
            variable.handle,
            self.slot("accumulator", whole).handle,
            self.slot("linear", whole).handle,
            grad,
            rate,
            number_for(l1, variable),
            apply_op("AddV2", number_for(l2, variable), half),
            number_for(shrinkage, variable),
            number_for(power, variable),
        )
