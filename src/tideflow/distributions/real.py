"""Distributions over the real numbers: normal, of Laplace, of Student, uniform.

Source: tensorflow/python/ops/distributions/normal.py, laplace.py, student_t.py, uniform.py; the
formulas are those of textbooks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.distributions.base import FULLY_REPARAMETERIZED, Distribution, given
from tideflow.distributions.divergence import RegisterKL
from tideflow.distributions.formulas import (
    absolute,
    betainc,
    checked,
    digamma,
    exp,
    joined,
    lbeta,
    lgamma,
    log,
    log1p,
    log_ndtr,
    named,
    ndtr,
    ndtri,
    ones_like,
    rsqrt,
    salted,
    sign,
    square,
    where,
    zeros_like,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.array import broadcast_dynamic_shape, shape
from tideflow.ops.export import export
from tideflow.ops.framework import identity
from tideflow.ops.random import random_gamma, random_normal, random_uniform


def positive(value: TensorLike | None, asked: bool) -> Any:
    """Return a parameter that must be positive."""
    found = convert_to_tensor(value)
    return checked(found, ("assert_positive", found, None), asked=asked)


class LocationScale(Distribution):
    """Base of distributions that are moved by `loc` and stretched by `scale`."""

    _scalar_parameters: tuple[str, ...] = ("loc", "scale")
    _loc: Any
    _scale: Any

    @property
    def loc(self) -> Any:
        """Where the distribution is."""
        return self._loc

    @property
    def scale(self) -> Any:
        """How wide it is."""
        return self._scale

    def _set(self, loc: TensorLike, scale: TensorLike, validate: bool) -> None:
        self._loc = named(loc, "loc")
        self._scale = named(positive(scale, validate), "scale")

    def _drawn_shape(self, n: Any) -> Any:
        return joined(apply_op("Reshape", n, [1]), self.batch_shape_tensor())

    def _z(self, x: TensorLike) -> Any:
        return (x - self._loc) / self._scale

    def _mean(self) -> Any:
        return self._loc + zeros_like(self._scale)

    def _mode(self) -> Any:
        return self._mean()


@export("distributions.Normal")
class Normal(LocationScale):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    The other arguments are those of Distribution.
    """

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._set(loc, scale, validate_args)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        drawn = random_normal(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        return drawn * self._scale + self._loc

    def _log_prob(self, value: TensorLike) -> Any:
        return -0.5 * square(self._z(value)) - 0.5 * math.log(2 * math.pi) - log(self._scale)

    def _cdf(self, value: TensorLike) -> Any:
        return ndtr(self._z(value))

    def _log_cdf(self, value: TensorLike) -> Any:
        return log_ndtr(self._z(value))

    def _survival_function(self, value: TensorLike) -> Any:
        return ndtr(-self._z(value))

    def _log_survival_function(self, value: TensorLike) -> Any:
        return log_ndtr(-self._z(value))

    def _quantile(self, value: TensorLike) -> Any:
        return ndtri(value) * self._scale + self._loc

    def _entropy(self) -> Any:
        return 0.5 * math.log(2 * math.pi * math.e) + log(self._stddev())

    def _stddev(self) -> Any:
        return self._scale * ones_like(self._loc)


@RegisterKL(Normal, Normal)
def _kl_normal(a: Normal, b: Normal, name: str | None = None) -> Any:
    with get_default_graph().name_scope(name or "kl_normal_normal"):
        ratio = square(a.scale) / square(b.scale)
        return square(a.loc - b.loc) / (2 * square(b.scale)) + 0.5 * (ratio - 1 - log(ratio))


@export("distributions.Laplace")
class Laplace(LocationScale):
    """The distribution of Laplace, with the density exp(-|x - loc| / scale) / (2 scale).

    The other arguments are those of Distribution.
    """

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._set(loc, scale, validate_args)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        kind = self.dtype.as_numpy_dtype
        # Without -1, whose logarithm would be infinite.
        least = np.nextafter(kind(-1), kind(0))
        drawn = random_uniform(self._drawn_shape(n), least, 1.0, self.dtype, seed)
        return self._loc - self._scale * sign(drawn) * log1p(-absolute(drawn))

    def _log_prob(self, value: TensorLike) -> Any:
        return -absolute(self._z(value)) - math.log(2) - log(self._scale)

    def _cdf(self, value: TensorLike) -> Any:
        z = self._z(value)
        return 0.5 + 0.5 * sign(z) * (1 - exp(-absolute(z)))

    def _log_cdf(self, value: TensorLike) -> Any:
        return _log_cdf_laplace(self._z(value))

    def _log_survival_function(self, value: TensorLike) -> Any:
        return _log_cdf_laplace(-self._z(value))

    def _entropy(self) -> Any:
        return math.log(2) + 1 + log(self._scale + zeros_like(self._loc))

    def _stddev(self) -> Any:
        return math.sqrt(2) * self._scale + zeros_like(self._loc)


def _log_cdf_laplace(z: Any) -> Any:
    below = z - math.log(2)
    above = log1p(-0.5 * exp(-absolute(z)))
    return where(apply_op("Less", z, zeros_like(z)), below, above)


@export("distributions.StudentT")
class StudentT(LocationScale):
    """Student's distribution with `df` degrees of freedom, moved and stretched.

    The other arguments are those of Distribution.
    """

    _scalar_parameters = ("df", "loc", "scale")

    def __init__(
        self,
        df: TensorLike,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._df = named(positive(df, validate_args), "df")
            self._set(loc, scale, False)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self._df

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        normal = random_normal(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        df = self._df * self._filled(1)
        count = apply_op("Reshape", n, [1])
        seeds = salted(seed, "student_t")
        spread = random_gamma(count, 0.5 * df, beta=0.5, dtype=self.dtype, seed=seeds)
        return normal * rsqrt(spread / df) * self._scale + self._loc

    def _log_prob(self, value: TensorLike) -> Any:
        y = self._z(value)
        return -0.5 * (self._df + 1) * log1p(square(y) / self._df) - (
            log(absolute(self._scale))
            + 0.5 * log(self._df)
            + 0.5 * math.log(math.pi)
            + lgamma(0.5 * self._df)
            - lgamma(0.5 * (self._df + 1))
        )

    def _cdf(self, value: TensorLike) -> Any:
        y = (value - self._loc) / absolute(self._scale)
        share = self._df / (square(y) + self._df)
        half = np.array(0.5, self.dtype.as_numpy_dtype)
        sizes = broadcast_dynamic_shape(shape(share), self.batch_shape_tensor())
        parts = (0.5 * self._df, half, share)
        lower = 0.5 * betainc(*(apply_op("BroadcastTo", part, sizes) for part in parts))
        return where(apply_op("Less", y, zeros_like(y)), lower, 1 - lower)

    def _entropy(self) -> Any:
        df = self._df * self._filled(1)
        both = apply_op("Pack", [df, ones_like(df)], axis=-1) / 2
        return (
            log(absolute(self._scale))
            + 0.5 * log(df)
            + lbeta(both)
            + 0.5 * (df + 1) * (digamma(0.5 * (df + 1)) - digamma(0.5 * df))
        )

    def _defined(self, value: TensorLike, what: str) -> Any:
        """Return a statistic where there are more than one degrees of freedom."""
        one = np.array(1, self.dtype.as_numpy_dtype)
        if self.allow_nan_stats:
            return where(apply_op("Greater", self._df, one), value, self._filled(math.nan))
        message = f"{what} not defined for components of df <= 1"
        return checked(value, ("assert_less", one, self._df, message), asked=True)

    def _mean(self) -> Any:
        return self._defined(self._loc * self._filled(1), "mean")

    def _variance(self) -> Any:
        is_finite = apply_op("Greater", self._df, 2 * ones_like(self._df))
        rest = where(is_finite, self._df - 2, ones_like(self._df))
        found = self._filled(1) * square(self._scale) * self._df / rest
        return self._defined(where(is_finite, found, self._filled(math.inf)), "variance")

    def _mode(self) -> Any:
        return identity(self._loc)


@export("distributions.Uniform")
class Uniform(Distribution):
    """The uniform distribution over [low, high).

    The other arguments are those of Distribution.
    """

    _scalar_parameters = ("low", "high")

    def __init__(
        self,
        low: TensorLike = 0.0,
        high: TensorLike = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            ends = convert_to_tensor(low), convert_to_tensor(high)
            message = "uniform not defined when low >= high."
            check = ("assert_less", *ends, message)
            self._low = named(checked(ends[0], check, asked=validate_args), "low")
            self._high = named(ends[1], "high")

    @property
    def low(self) -> Any:
        """The lower end, which belongs to it."""
        return self._low

    @property
    def high(self) -> Any:
        """The upper end, which does not."""
        return self._high

    def range(self, name: str = "range") -> Any:
        """Return how long the interval is."""
        with self._name_scope(name):
            return self._high - self._low

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        sizes = joined(apply_op("Reshape", n, [1]), self.batch_shape_tensor())
        return self._low + self.range() * random_uniform(sizes, dtype=self.dtype, seed=seed)

    def _prob(self, value: TensorLike) -> Any:
        x = value * self._filled(1)
        is_outside = apply_op(
            "LogicalOr", apply_op("Less", x, self._low), apply_op("GreaterEqual", x, self._high)
        )
        found = where(is_outside, zeros_like(x), ones_like(x) / self.range())
        return where(apply_op("IsNan", x), x, found)

    def _cdf(self, value: TensorLike) -> Any:
        x = value * self._filled(1)
        share = (x - self._low) / self.range()
        found = where(apply_op("Less", x, self._low), zeros_like(x), share)
        return where(apply_op("GreaterEqual", x, self._high), ones_like(x), found)

    def _entropy(self) -> Any:
        return log(self.range())

    def _mean(self) -> Any:
        return (self._low + self._high) / 2

    def _variance(self) -> Any:
        return square(self.range()) / 12

    def _stddev(self) -> Any:
        return self.range() / math.sqrt(12)
