"""What optimizers do to their variables, by the declaration of `apply_rule`.

Source: tensorflow/core/kernels/training_ops.cc
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.state.apply_rule import apply_rule
from tideflow.wire import errors

# Integers stand for constants in the rules: a Python float would turn bfloat16 into float32.


@apply_rule("GradientDescent", "var", "alpha delta")
def gradient_descent(xp: ArrayNamespace, var: Array, alpha: Array, delta: Array) -> Any:
    """var - alpha * delta."""
    return (var - alpha * delta,)


@apply_rule(
    "ProximalGradientDescent", "var", "alpha l1 l2 delta", sparse="alpha l1 l2 grad indices"
)
def proximal_gradient_descent(
    xp: ArrayNamespace, var: Array, alpha: Array, l1: Array, l2: Array, delta: Array
) -> Any:
    """Gradient descent, then shrinking toward 0 by l1 and l2."""
    return (_shrink(xp, var - alpha * delta, alpha, l1, l2),)


def _shrink(xp: ArrayNamespace, moved: Array, rate: Array, l1: Array, l2: Array) -> Any:
    """Take the proximal step of l1 |x| + l2/2 x^2 with the rate given."""
    less = xp.sign(moved) * xp.maximum(xp.abs(moved) - rate * l1, moved.dtype.type(0))
    # Without l1 there is no sign to keep apart; -0.0 and NaN stay what they are.
    return xp.where(l1 > 0, less, moved) / (1 + l2 * rate)


@apply_rule(
    "Momentum",
    "var accum",
    "lr grad momentum",
    "use_nesterov: bool = false",
    sparse="lr grad indices momentum",
)
def momentum_rule(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    lr: Array,
    grad: Array,
    momentum: Array,
    *,
    use_nesterov: bool,
) -> Any:
    """accum = momentum * accum + grad; var moves by -lr * accum (or looks ahead)."""
    accum = accum * momentum + grad
    if use_nesterov:
        return var - (grad * lr + accum * momentum * lr), accum
    return var - accum * lr, accum


@apply_rule(
    "KerasMomentum",
    "var accum",
    "lr grad momentum",
    "use_nesterov: bool = false",
    sparse="lr grad indices momentum",
    forms=("Resource",),
)
def keras_momentum_rule(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    lr: Array,
    grad: Array,
    momentum: Array,
    *,
    use_nesterov: bool,
) -> Any:
    """accum = momentum * accum - lr * grad; var moves by accum (or looks ahead)."""
    accum = accum * momentum - grad * lr
    if use_nesterov:
        return var + (accum * momentum - grad * lr), accum
    return var + accum, accum


@apply_rule(
    "Adagrad", "var accum", "lr grad", "update_slots: bool = true", sparse="lr grad indices"
)
def adagrad(
    xp: ArrayNamespace, var: Array, accum: Array, lr: Array, grad: Array, *, update_slots: bool
) -> Any:
    """accum += grad^2; var -= lr * grad / sqrt(accum)."""
    if update_slots:
        accum = accum + grad * grad
    return var - grad * lr / xp.sqrt(accum), accum


@apply_rule(
    "AdagradV2",
    "var accum",
    "lr epsilon grad",
    "update_slots: bool = true",
    sparse="lr epsilon grad indices",
)
def adagrad_v2(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    lr: Array,
    epsilon: Array,
    grad: Array,
    *,
    update_slots: bool,
) -> Any:
    """accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)."""
    if update_slots:
        accum = accum + grad * grad
    return var - grad * lr / (xp.sqrt(accum) + epsilon), accum


def _check_shrinking(lr: Array, l1: Array, l2: Array) -> None:
    # What is traced has no values yet.
    known = all(isinstance(x, np.ndarray | np.generic) for x in (lr, l1, l2))
    if known and not (np.all(lr > 0) and np.all(l1 >= 0) and np.all(l2 >= 0)):
        raise errors.InvalidArgumentError(
            f"lr must be positive, l1 and l2 not negative; found {lr}, {l1} and {l2}"
        )


@apply_rule("ProximalAdagrad", "var accum", "lr l1 l2 grad", sparse="lr l1 l2 grad indices")
def proximal_adagrad(
    xp: ArrayNamespace, var: Array, accum: Array, lr: Array, l1: Array, l2: Array, grad: Array
) -> Any:
    """Adagrad, then shrinking toward 0 by l1 and l2."""
    _check_shrinking(lr, l1, l2)
    accum = accum + grad * grad
    rate = lr / xp.sqrt(accum)
    return _shrink(xp, var - grad * rate, rate, l1, l2), accum


def _adagrad_da_rows(
    xp: ArrayNamespace,
    var: Any,
    total: object,
    squares: Array,
    grad: Array,
    lr: Array,
    l1: Any,
    l2: Array,
    step: Any,
) -> Any:
    steps = step.astype(var.dtype)
    total = total + grad
    squares = squares + grad * grad
    mean = total / steps
    less = xp.sign(total) * xp.maximum(xp.abs(total) / steps - l1, var.dtype.type(0))
    pull = xp.where(l1 > 0, less, mean)
    return -pull / (l2 + xp.sqrt(squares) / (steps * lr)), total, squares


@apply_rule(
    "AdagradDA",
    "var gradient_accumulator gradient_squared_accumulator",
    "grad lr l1 l2 global_step:int64",
    sparse="grad indices lr l1 l2 global_step:int64",
    rows=_adagrad_da_rows,
)
def adagrad_da(
    xp: ArrayNamespace,
    var: Any,
    total: Any,
    squares: Array,
    grad: Array,
    lr: Array,
    l1: Any,
    l2: Array,
    step: Any,
) -> Any:
    """Dual averaging: var follows from the sums of gradients and of their squares."""
    steps = step.astype(var.dtype)
    total = total + grad
    squares = squares + grad * grad
    less = xp.sign(total) * xp.maximum(xp.abs(total) - l1 * steps, var.dtype.type(0))
    pull = xp.where(l1 > 0, less, total)
    return -lr * pull / (l2 * steps * lr + xp.sqrt(squares)), total, squares


@apply_rule(
    "Adadelta",
    "var accum accum_update",
    "lr rho epsilon grad",
    sparse="lr rho epsilon grad indices",
)
def adadelta(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    accum_update: Array,
    lr: Array,
    rho: Array,
    epsilon: Array,
    grad: Array,
) -> Any:
    """Steps scaled by the ratio of past updates to past gradients (https://arxiv.org/1212.5701)."""
    accum = accum * rho + grad * grad * (1 - rho)
    update = xp.sqrt(accum_update + epsilon) / xp.sqrt(accum + epsilon) * grad
    return var - update * lr, accum, accum_update * rho + update * update * (1 - rho)


def _moved(mean: Any, value: Any, rho: Any) -> Any:
    """Return a running mean after a value, in the steps of TensorFlow's dense ops."""
    return mean + (value - mean) * (1 - rho)


def _mixed(mean: Any, value: Any, rho: Any) -> Any:
    """Return the same in the steps of its sparse ops."""
    return mean * rho + value * (1 - rho)


def _rms_prop(
    after: Callable[[Any, Any, Any], Any],
    xp: ArrayNamespace,
    var: Array,
    ms: Array,
    mom: Array,
    lr: Array,
    rho: Array,
    momentum: Array,
    epsilon: Array,
    grad: Array,
) -> Any:
    ms = after(ms, grad * grad, rho)
    mom = mom * momentum + grad * lr / xp.sqrt(ms + epsilon)
    return var - mom, ms, mom


@apply_rule(
    "RMSProp",
    "var ms mom",
    "lr rho momentum epsilon grad",
    sparse="lr rho momentum epsilon grad indices",
    rows=partial(_rms_prop, _mixed),
)
def rms_prop(xp: ArrayNamespace, *given: Any) -> Any:
    """Steps scaled by a running mean of squared gradients, with momentum."""
    return _rms_prop(_moved, xp, *given)


def _centered_rms_prop(
    after: Callable[[Any, Any, Any], Any],
    xp: ArrayNamespace,
    var: Array,
    mg: Array,
    ms: Array,
    mom: Array,
    lr: Array,
    rho: Array,
    momentum: Array,
    epsilon: Array,
    grad: Array,
) -> Any:
    ms = after(ms, grad * grad, rho)
    mg = after(mg, grad, rho)
    mom = mom * momentum + grad * lr / xp.sqrt(ms - mg * mg + epsilon)
    return var - mom, mg, ms, mom


@apply_rule(
    "CenteredRMSProp",
    "var mg ms mom",
    "lr rho momentum epsilon grad",
    sparse="lr rho momentum epsilon grad indices",
    rows=partial(_centered_rms_prop, _mixed),
)
def centered_rms_prop(xp: ArrayNamespace, *given: Any) -> Any:
    """RMSProp with the variance in place of the mean square."""
    return _centered_rms_prop(_moved, xp, *given)


@apply_rule(
    "Adam",
    "var m v",
    "beta1_power beta2_power lr beta1 beta2 epsilon grad",
    "use_nesterov: bool = false",
)
def adam(
    xp: ArrayNamespace,
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
    *,
    use_nesterov: bool,
) -> Any:
    """Adam, with epsilon outside the corrected root ("epsilon hat"; https://arxiv.org/1412.6980).

    beta1_power and beta2_power are beta^t for this step.
    """
    rate = lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    ahead = grad * (1 - beta1) + m * beta1 if use_nesterov else m
    return var - ahead * rate / (xp.sqrt(v) + epsilon), m, v


@apply_rule(
    "AdamWithAmsgrad",
    "var m v vhat",
    "beta1_power beta2_power lr beta1 beta2 epsilon grad",
    forms=("Resource",),
)
def adam_with_amsgrad(
    xp: ArrayNamespace,
    var: Array,
    m: Array,
    v: Array,
    vhat: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
) -> Any:
    """Adam that divides by the largest mean square so far."""
    rate = lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    vhat = xp.maximum(vhat, v)
    return var - m * rate / (xp.sqrt(vhat) + epsilon), m, v, vhat


@apply_rule("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad")
def ada_max(
    xp: ArrayNamespace,
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
) -> Any:
    """Adam with the infinity norm."""
    m = m + (grad - m) * (1 - beta1)
    v = xp.maximum(v * beta2, xp.abs(grad))
    return var - lr / (1 - beta1_power) * (m / (v + epsilon)), m, v


@apply_rule("AddSign", "var m", "lr alpha sign_decay beta grad")
def add_sign(
    xp: ArrayNamespace,
    var: Array,
    m: Array,
    lr: Array,
    alpha: Array,
    sign_decay: Array,
    beta: Array,
    grad: Array,
) -> Any:
    """Larger steps while gradient and running mean agree in sign."""
    m = m * beta + grad * (1 - beta)
    agrees = xp.sign(grad) * xp.sign(m)
    return var - (sign_decay * agrees + alpha) * grad * lr, m


@apply_rule("PowerSign", "var m", "lr logbase sign_decay beta grad")
def power_sign(
    xp: ArrayNamespace,
    var: Array,
    m: Array,
    lr: Array,
    logbase: Array,
    sign_decay: Array,
    beta: Array,
    grad: Array,
) -> Any:
    """Steps scaled by a power that depends on whether gradient and running mean agree in sign."""
    m = m * beta + grad * (1 - beta)
    agrees = xp.sign(grad) * xp.sign(m)
    return var - xp.exp(logbase * sign_decay * agrees) * grad * lr, m


def _ftrl_rows(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    *given: Any,
    multiply_linear_by_lr: bool,
) -> Any:
    """Take the step of rows for Ftrl, and with a fifth constant for FtrlV2."""
    lr, l1, l2, *shrinkage, lr_power = given
    _check_ftrl(lr, l1, l2, shrinkage, lr_power, multiply_linear_by_lr)
    pulled = grad + 2 * shrinkage[0] * var if shrinkage else grad
    constants = (lr, l1, l2, lr_power)
    more, linear, l1, curve = _ftrl_moved(
        xp, var, accum, linear, grad, pulled, constants, multiply_linear_by_lr
    )
    return (xp.maximum(xp.minimum(linear, l1), -l1) - linear) / curve, more, linear


def _check_ftrl(
    lr: Any, l1: object, l2: object, shrinkage: Any, lr_power: Any, may_stand_still: bool
) -> None:
    # What is traced has no values yet.
    if not all(isinstance(x, np.ndarray | np.generic) for x in (lr, l1, l2, lr_power, *shrinkage)):
        return
    if not (lr > 0 or (may_stand_still and lr == 0)):
        raise errors.InvalidArgumentError(f"lr must be positive; found {lr}")
    if not all(x >= 0 for x in (l1, l2, *shrinkage)):
        found = [x.item() for x in (l1, l2, *shrinkage)]
        raise errors.InvalidArgumentError(f"l1, l2 and l2_shrinkage must be >= 0; found {found}")
    if not lr_power <= 0:
        raise errors.InvalidArgumentError(f"lr_power must not be positive; found {lr_power}")


_FTRL_SPARSE = "grad indices lr l1 l2"
_FTRL_ATTR = "multiply_linear_by_lr: bool = false"


@apply_rule(
    "Ftrl",
    "var accum linear",
    "grad lr l1 l2 lr_power",
    _FTRL_ATTR,
    sparse=f"{_FTRL_SPARSE} lr_power",
    rows=_ftrl_rows,
)
def ftrl(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    lr: Array,
    l1: Array,
    l2: Array,
    lr_power: Array,
    *,
    multiply_linear_by_lr: bool,
) -> Any:
    """Follow the regularized leader (McMahan et al. 2013)."""
    constants = (lr, l1, l2, lr_power)
    return _ftrl(xp, var, accum, linear, grad, grad, constants, multiply_linear_by_lr)


@apply_rule(
    "FtrlV2",
    "var accum linear",
    "grad lr l1 l2 l2_shrinkage lr_power",
    _FTRL_ATTR,
    sparse=f"{_FTRL_SPARSE} l2_shrinkage lr_power",
    rows=_ftrl_rows,
)
def ftrl_v2(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    lr: Array,
    l1: Array,
    l2: Array,
    l2_shrinkage: Array,
    lr_power: Array,
    *,
    multiply_linear_by_lr: bool,
) -> Any:
    """Ftrl with a gradient that also pulls toward 0; accum sees the plain gradient."""
    pulled = grad + 2 * l2_shrinkage * var
    constants = (lr, l1, l2, lr_power)
    return _ftrl(xp, var, accum, linear, grad, pulled, constants, multiply_linear_by_lr)


def _ftrl(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    pulled: Array,
    constants: tuple[Any, Any, Any, Any],
    multiply_linear_by_lr: bool,
) -> Any:
    more, linear, l1, curve = _ftrl_moved(
        xp, var, accum, linear, grad, pulled, constants, multiply_linear_by_lr
    )
    pull = xp.sign(linear) * l1 - linear
    return xp.where(xp.abs(linear) > l1, pull / curve, var.dtype.type(0)), more, linear


def _ftrl_moved(
    xp: ArrayNamespace,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    pulled: Array,
    constants: tuple[Any, Any, Any, Any],
    multiply_linear_by_lr: bool,
) -> Any:
    """Return the new accum and linear, what l1 comes to, and by what the step is divided."""
    lr, l1, l2, lr_power = constants
    more = accum + grad * grad
    old_root = _ftrl_root(xp, accum, lr_power)
    new_root = _ftrl_root(xp, more, lr_power)
    if multiply_linear_by_lr:
        linear = linear + pulled * lr - (new_root - old_root) * var
        l1 = l1 * lr
        curve = new_root + 2 * l2 * lr
    else:
        linear = linear + pulled - (new_root - old_root) / lr * var
        curve = new_root / lr + 2 * l2
    return more, linear, l1, curve


def _ftrl_root(xp: ArrayNamespace, accum: Array, lr_power: Array) -> Any:
    half = accum.dtype.type(1) / 2
    if xp is np:
        return np.sqrt(accum) if lr_power == -half else accum ** (-lr_power)
    return xp.where(lr_power == -half, xp.sqrt(accum), accum ** (-lr_power))
