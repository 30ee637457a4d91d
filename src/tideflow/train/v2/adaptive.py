"""Optimizers of the TF2 shape whose steps follow norms, signs and products of averages.

Source: keras/src/optimizers of Keras 3 for rules and defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.types import Hyperparameter, TensorLike
from tideflow.ops.export import export_v2
from tideflow.ops.state import VariableAggregation, init_scope
from tideflow.ops.state.base import Variable
from tideflow.train.v2.optimizer import OptimizerV2, as_type_of, number_for, number_of
from tideflow.train.v2.optimizer_arguments import with_common_arguments
from tideflow.train.v2.optimizers import OfMoments

# By how much of the momentum Nadam's later steps use more: a half of this to the power of a step.
_NADAM_DECAY = 0.96


@export_v2("optimizers.Adadelta")
@with_common_arguments
class Adadelta(OptimizerV2):
    """Adadelta: steps as large as earlier ones were, relative to the gradients.

    a = rho * a + (1 - rho) * g^2; c = sqrt(d + epsilon) / sqrt(a + epsilon) * g;
    d = rho * d + (1 - rho) * c^2; w -= learning_rate * c, where g is the gradient.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      rho: the share of the averages that stays.
      epsilon: keeps the roots above 0.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Source: M. D. Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Adadelta(1.0)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.9986 1.9986]
    """

    slot_names = ("accumulated_grad", "accumulated_delta_var")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    _slots_listed_apart = True

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        del step
        states = [self.slot(name, whole).handle for name in self.slot_names]
        numbers = [number_for(n, variable) for n in (self.rho, self.epsilon)]
        apply_op("ResourceApplyAdadelta", variable.handle, *states, rate, *numbers, grad)


@export_v2("optimizers.Adamax")
@with_common_arguments
class Adamax(OfMoments):
    """Adam by the largest gradients instead of their squares.

    m = beta_1 * m + (1 - beta_1) * g; u = max(beta_2 * u, abs(g));
    w -= learning_rate / (1 - beta_1^t) * m / (u + epsilon),
    where g is the gradient and t the number of the step, from 1.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      beta_1, beta_2: the shares of m and u that stay.
      epsilon: keeps the divisor above 0.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Source: D. P. Kingma and J. Ba, Adam: A Method for Stochastic Optimization, 2014, section 7.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Adamax(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.9 1.9]
    """

    slot_names = ("momentum", "norm")

    _slots_listed_apart = True

    def _plural(self, slot: str) -> str:
        return {"momentum": "_m", "norm": "_u"}[slot]

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        count = number_of(step, variable)
        betas = [number_for(beta, variable) for beta in (self.beta_1, self.beta_2)]
        apply_op(
            "ResourceApplyAdaMax",
            variable.handle,
            self.slot("momentum", whole).handle,
            self.slot("norm", whole).handle,
            apply_op("Pow", betas[0], count),
            rate,
            *betas,
            number_for(self.epsilon, variable),
            grad,
        )


@export_v2("optimizers.Lion")
@with_common_arguments
class Lion(OptimizerV2):
    """Steps of one size, in the direction of the sign of a moving average.

    w -= learning_rate * sign(beta_1 * m + (1 - beta_1) * g); m = beta_2 * m + (1 - beta_2) * g,
    where g is the gradient.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      beta_1: the share of m in the direction, above 0 and at most 1.
      beta_2: the share of m that stays.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Raises: ValueError for a beta_1 outside of (0, 1].
    Source: X. Chen et al., Symbolic Discovery of Optimization Algorithms, 2023.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Lion(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, -4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.9 2.1]
    """

    slot_names = ("momentum",)

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        if beta_1 <= 0 or beta_1 > 1:
            raise ValueError(f"beta_1 must be above 0 and at most 1; found {beta_1}")
        self.beta_1, self.beta_2 = beta_1, beta_2

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        del step
        momentum = self.slot("momentum", whole)
        before = momentum.value()
        direction = apply_op("Sign", _average(before, grad, self.beta_1, variable))
        variable.assign_sub(apply_op("Mul", rate, direction))
        momentum.assign(_average(before, grad, self.beta_2, variable))


@export_v2("optimizers.Nadam")
@with_common_arguments
class Nadam(OfMoments):
    """Adam with Nesterov's momentum.

    u(t) = beta_1 * (1 - 0.96^t / 2); p is the product of all u up to t;
    m = beta_1 * m + (1 - beta_1) * g; v = beta_2 * v + (1 - beta_2) * g^2;
    n = u(t + 1) * m / (1 - p * u(t + 1)) + (1 - u(t)) * g / (1 - p);
    w -= learning_rate * n / (sqrt(v / (1 - beta_2^t)) + epsilon),
    where g is the gradient and t the number of the step, from 1.

    Args:
      learning_rate: a number, or a function of the number of steps made (a schedule).
      beta_1, beta_2: the shares of m and v that stay.
      epsilon: keeps the divisor above 0.
      **kwargs: see tf.optimizers.Optimizer (name, weight_decay, clipnorm, clipvalue,
        global_clipnorm, loss_scale_factor; use_ema, ema_momentum, ema_overwrite_frequency,
        gradient_accumulation_steps).
    Source: T. Dozat, Incorporating Nesterov Momentum into Adam, 2015.
    Example:
      >>> w = tf.Variable([1.0, 2.0])
      >>> optimizer = tf.optimizers.Nadam(0.1)
      >>> _ = optimizer.apply_gradients([(tf.constant([2.0, 4.0]), w)])
      >>> print(w.numpy().round(4))
      [0.8937 1.8937]
    """

    slot_names = ("momentum", "velocity")

    def build(self, var_list: Sequence[Any]) -> None:
        """Make the state of variables, and the product of all u."""
        if self._product is None and var_list:
            with init_scope():
                self._product = Variable(
                    number_for(1.0, var_list[0]),
                    trainable=False,
                    name=f"{self.name}/u_product",
                    aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
                )
        super().build(var_list)

    _product: Any = None

    def _checkpoint_children(self) -> dict[str, Any]:
        product = {} if self._product is None else {"_u_product": self._product}
        return {**super()._checkpoint_children(), **product}

    def prepare_step(self, step: TensorLike) -> None:
        """Multiply by the u of this step."""
        self._product.assign(
            apply_op("Mul", self._product.value(), self._u(self._product, step, 1))
        )

    def _u(self, like: Any, step: TensorLike, ahead: int) -> Any:
        """Return the u of a step that follows so many steps later than `step`."""
        power = apply_op("Pow", number_for(_NADAM_DECAY, like), number_of(step, like, ahead))
        less = apply_op("Mul", number_for(0.5, like), power)
        left = apply_op("Sub", number_for(1.0, like), less)
        return apply_op("Mul", number_for(self.beta_1, like), left)

    def update_step(
        self, grad: TensorLike, variable: Any, whole: Any, rate: TensorLike, step: TensorLike
    ) -> None:
        """Change one variable."""
        one = number_for(1.0, variable)
        now, following = self._u(variable, step, 1), self._u(variable, step, 2)
        product = as_type_of(self._product.value(), variable)
        momentum, velocity = self.slot("momentum", whole), self.slot("velocity", whole)
        momentum.assign(_average(momentum.value(), grad, self.beta_1, variable))
        squared = apply_op("Square", grad)
        velocity.assign(_average(velocity.value(), squared, self.beta_2, variable))

        def share(weight: Any, value: TensorLike, of: Any) -> Any:
            return apply_op("RealDiv", apply_op("Mul", weight, value), apply_op("Sub", one, of))

        ahead = share(following, momentum.value(), apply_op("Mul", product, following))
        mean = apply_op("AddV2", ahead, share(apply_op("Sub", one, now), grad, product))
        count = number_of(step, variable)
        decayed = apply_op("Pow", number_for(self.beta_2, variable), count)
        root = apply_op("Sqrt", share(one, velocity.value(), decayed))
        divisor = apply_op("AddV2", root, number_for(self.epsilon, variable))
        variable.assign_sub(apply_op("RealDiv", apply_op("Mul", mean, rate), divisor))


def _average(before: Any, value: TensorLike, share: float, variable: Any) -> Any:
    """Return share * before + (1 - share) * value."""
    kept = apply_op("Mul", before, number_for(share, variable))
    return apply_op("AddV2", kept, apply_op("Mul", value, number_for(1 - share, variable)))
