"""Functions of tensors that densities are made of, and checks of what they are given."""

from __future__ import annotations

import functools
import hashlib
import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.array import shape
from tideflow.ops.checks import CHECKS
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.framework import identity
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

absolute = functools.partial(apply_op, "Abs")
betainc = functools.partial(apply_op, "Betainc")
digamma = functools.partial(apply_op, "Digamma")
exp = functools.partial(apply_op, "Exp")
igamma = functools.partial(apply_op, "Igamma")
lgamma = functools.partial(apply_op, "Lgamma")
log = functools.partial(apply_op, "Log")
log1p = functools.partial(apply_op, "Log1p")
log_softmax = functools.partial(apply_op, "LogSoftmax")
ndtri = functools.partial(apply_op, "Ndtri")
rsqrt = functools.partial(apply_op, "Rsqrt")
sigmoid = functools.partial(apply_op, "Sigmoid")
sign = functools.partial(apply_op, "Sign")
softplus = functools.partial(apply_op, "Softplus")
sqrt = functools.partial(apply_op, "Sqrt")
square = functools.partial(apply_op, "Square")
where = functools.partial(apply_op, "SelectV2")
xlogy = functools.partial(apply_op, "Xlogy")

# The order of the series of log_ndtr, and below which numbers it holds.
_SERIES_TERMS = 3
_SERIES_BELOW = {dtypes.float32: -10.0, dtypes.float64: -20.0}
_ONE_ABOVE = {dtypes.float32: 5.0, dtypes.float64: 8.0}


def total(x: Any, keepdims: bool = False) -> Any:
    """Return sums over the last dimension."""
    return apply_op("Sum", x, [-1], keep_dims=keepdims)


def cast(x: Any, dtype: DType) -> Any:
    """Return a tensor with elements of another type."""
    return x if x.dtype.base_dtype == dtype else apply_op("Cast", x, DstT=dtype)


def filled(sizes: Any, value: float, dtype: DType) -> Any:
    """Return a tensor of one value, repeated."""
    return apply_op("Fill", sizes, np.array(value, dtype.as_numpy_dtype))


def ones_like(x: Any) -> Any:
    """Return ones in the shape of a tensor."""
    return apply_op("OnesLike", x)


def zeros_like(x: Any) -> Any:
    """Return zeros in the shape of a tensor."""
    return apply_op("ZerosLike", x)


def joined(*parts: Any) -> Any:
    """Return one vector of sizes made of several."""
    return apply_op("ConcatV2", [convert_to_tensor(part, dtypes.int32) for part in parts], 0)


def lbeta(x: Any) -> Any:
    """Return the logarithm of the beta function of vectors [..., K]."""
    return total(lgamma(x)) - lgamma(total(x))


def ndtr(x: Any) -> Any:
    """Return the distribution function of a standard normal variable."""
    return 0.5 * apply_op("Erfc", -math.sqrt(0.5) * x)


def log_ndtr(x: Any) -> Any:
    """Return its logarithm, exact to rounding where the function itself is 0 or 1."""
    low = np.array(_SERIES_BELOW[x.dtype.base_dtype], x.dtype.as_numpy_dtype)
    high = np.array(_ONE_ABOVE[x.dtype.base_dtype], x.dtype.as_numpy_dtype)
    # What is not chosen must be finite, too, or its gradient is none.
    within = apply_op("Minimum", apply_op("Maximum", x, low), high)
    below = apply_op("Minimum", x, low)
    middle = where(apply_op("Greater", x, high), -ndtr(-x), log(ndtr(within)))
    return where(apply_op("Greater", x, low), middle, _log_ndtr_series(below))


def _log_ndtr_series(x: Any) -> Any:
    """Return log_ndtr of numbers far below zero, by its asymptotic series."""
    squared = square(x)
    terms: Any = 1.0
    term: Any = 1.0
    for order in range(1, _SERIES_TERMS + 1):
        term = -term * (2 * order - 1) / squared
        terms = terms + term
    return -0.5 * squared - log(-x) - 0.5 * math.log(2 * math.pi) + log(terms)


def log_combinations(n: Any, counts: Any) -> Any:
    """Return the logarithm of the number of ways to draw counts [..., K] in n draws."""
    return lgamma(n + 1) - total(lgamma(counts + 1))


def salted(seed: int | None, salt: str) -> int | None:
    """Return another seed; None for none."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


# ---- parameters and their checks


def named(value: TensorLike, name: str) -> Any:
    """Return a parameter as a tensor with a name in the scope of its distribution."""
    return identity(value, name=name)


def checked(value: Any, *checks: tuple[Any, ...], asked: bool) -> Any:
    """Return a tensor that is available after checks of it, if they are asked for.

    checks: for each the name in tf.debugging, its values, and a message.
    """
    if not asked:
        return value
    made = [CHECKS[name](*values, message=said) for name, *values, said in checks]
    if get_default_graph().is_eager:
        return value
    return with_dependencies(made, value)


def whole(x: Any, asked: bool) -> Any:
    """Return numbers that must be whole and not negative."""
    given = convert_to_tensor(x)
    checks: list[tuple[Any, ...]] = [
        ("assert_non_negative", given, "values must be non-negative."),
    ]
    if given.dtype.is_floating and asked:
        floor = apply_op("Floor", given)
        checks.append(("assert_equal", given, floor, "cannot contain fractional components."))
    return checked(given, *checks, asked=asked)


def parameters_of_classes(
    logits: TensorLike | None, probs: TensorLike | None, many: bool, validate: bool
) -> tuple[Any, Any]:
    """Return logits and probabilities, of which one is given.

    many: whether the last dimension has one for each of several classes.
    Raises: ValueError unless one is given, or for fewer than two classes; TypeError for no floats.
    """
    if (probs is None) == (logits is None):
        raise ValueError("Must pass probs or logits, but not both.")
    what = "logits" if probs is None else "probs"
    given = convert_to_tensor(logits if probs is None else probs, name=what)
    if not given.dtype.is_floating:
        raise TypeError(f"{what} must having floating type.")
    if many and validate:
        given = of_classes(given)
    if probs is None:
        return given, apply_op("Softmax", given) if many else sigmoid(given)
    one = np.array(1, given.dtype.as_numpy_dtype)
    above: tuple[Any, ...] = (
        "assert_less_equal", given, one, "probs has components greater than 1."
    )  # fmt: skip
    if many and validate:
        off = absolute(total(given) - 1)
        near = np.array(1e-5, given.dtype.as_numpy_dtype)
        above = ("assert_less_equal", off, near, "probs does not sum to 1.")
    least = ("assert_non_negative", given, "probs must be non-negative.")
    given = checked(given, least, above, asked=validate)
    return (log(given) if many else log(given) - log1p(-given)), given


def of_classes(x: Any) -> Any:
    """Return parameters [..., K] of several classes.  Raises: ValueError for fewer than two."""
    if x.shape.rank == 0:
        raise ValueError("A categorical-distribution parameter must have at least 1 dimension.")
    message = "A categorical-distribution parameter must have at least 2 events."
    count = (x.shape.sizes or (None,))[-1]
    if count is not None:
        if count < 2:
            raise ValueError(message)
        return x
    return checked(x, ("assert_greater_equal", shape(x)[-1], 2, message), asked=True)
