"""Distributions over positive numbers and shares: gamma, exponential and beta.

Source: tensorflow/python/ops/distributions/gamma.py, exponential.py, beta.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.distributions.base import FULLY_REPARAMETERIZED, Distribution, given
from tideflow.distributions.divergence import RegisterKL
from tideflow.distributions.formulas import (
    betainc,
    checked,
    digamma,
    igamma,
    joined,
    lgamma,
    log,
    log1p,
    named,
    ones_like,
    salted,
    sqrt,
    square,
    where,
    xlogy,
)
from tideflow.distributions.real import positive
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.array import shape
from tideflow.ops.checks import assert_same_float_dtype
from tideflow.ops.export import export
from tideflow.ops.random import random_gamma, random_uniform


def defined_above_one(self: Any, value: TensorLike, *parameters: Any) -> Any:
    """Return a mode where parameters are above one; elsewhere NaN, or an error."""
    one = np.array(1, self.dtype.as_numpy_dtype)
    if not self.allow_nan_stats:
        message = "Mode undefined for concentration <= 1."
        checks = [("assert_less", one, parameter, message) for parameter in parameters]
        return checked(value, *checks, asked=True)
    for parameter in parameters:
        nothing = np.array(math.nan, self.dtype.as_numpy_dtype)
        value = where(apply_op("Greater", parameter, one), value, nothing)
    return value


@export("distributions.Gamma")
class Gamma(Distribution):
    """The gamma distribution: of the density x^(concentration - 1) exp(-rate x).

    The other arguments are those of Distribution.
    """

    _scalar_parameters = ("concentration", "rate")

    def __init__(
        self,
        concentration: TensorLike,
        rate: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._concentration = named(positive(concentration, validate_args), "concentration")
            self._rate = named(positive(rate, validate_args), "rate")

    @property
    def concentration(self) -> Any:
        """The form: 1 for the exponential distribution."""
        return self._concentration

    @property
    def rate(self) -> Any:
        """How fast the density falls."""
        return self._rate

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        count = apply_op("Reshape", n, [1])
        form = self._concentration
        return random_gamma(count, form, beta=self._rate, dtype=self.dtype, seed=seed)

    def _checked(self, x: TensorLike) -> Any:
        assert_same_float_dtype([x], self.dtype)
        return checked(x, ("assert_positive", x, None), asked=self.validate_args)

    def _log_prob(self, value: TensorLike) -> Any:
        x, form = self._checked(value), self._concentration
        return xlogy(form - 1, x) - self._rate * x - lgamma(form) + form * log(self._rate)

    def _cdf(self, value: TensorLike) -> Any:
        scaled = self._rate * self._checked(value)
        return igamma(self._concentration * ones_like(scaled), scaled)

    def _entropy(self) -> Any:
        form = self._concentration
        return form - log(self._rate) + lgamma(form) + (1 - form) * digamma(form)

    def _mean(self) -> Any:
        return self._concentration / self._rate

    def _variance(self) -> Any:
        return self._concentration / square(self._rate)

    def _stddev(self) -> Any:
        return sqrt(self._concentration) / self._rate

    def _mode(self) -> Any:
        form = self._concentration
        return defined_above_one(self, (form - 1) / self._rate, form)


@RegisterKL(Gamma, Gamma)
def _kl_gamma(a: Gamma, b: Gamma, name: str | None = None) -> Any:
    with get_default_graph().name_scope(name or "kl_gamma_gamma"):
        return (
            (a.concentration - b.concentration) * digamma(a.concentration)
            + lgamma(b.concentration)
            - lgamma(a.concentration)
            + b.concentration * (log(a.rate) - log(b.rate))
            + a.concentration * (b.rate / a.rate - 1)
        )


@export("distributions.Exponential")
class Exponential(Gamma):
    """The exponential distribution, of the density rate exp(-rate x).

    The other arguments are those of Distribution.
    """

    def __init__(
        self,
        rate: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._rate = named(positive(rate, validate_args), "rate")
            self._concentration = convert_to_tensor(np.ones([], self._rate.dtype.as_numpy_dtype))

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Any]:
        return {"rate": super()._param_shapes(sample_shape)["rate"]}

    def _log_survival_function(self, value: TensorLike) -> Any:
        return self._log_prob(value) - log(self._rate)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        sizes = joined(apply_op("Reshape", n, [1]), shape(self._rate))
        # Without 0, whose logarithm would be infinite.
        least = np.finfo(self.dtype.as_numpy_dtype).tiny
        return -log(random_uniform(sizes, least, 1.0, self.dtype, seed)) / self._rate


@export("distributions.Beta")
class Beta(Distribution):
    """The beta distribution, of the density x^(concentration1 - 1) (1 - x)^(concentration0 - 1).

    The other arguments are those of Distribution.
    """

    _scalar_parameters = ("concentration1", "concentration0")

    def __init__(
        self,
        concentration1: TensorLike | None = None,
        concentration0: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._concentration1 = positive(concentration1, validate_args)
            self._concentration0 = positive(concentration0, validate_args)
            self._total = self._concentration1 + self._concentration0

    @property
    def concentration1(self) -> Any:
        """How strongly samples are drawn to 1."""
        return self._concentration1

    @property
    def concentration0(self) -> Any:
        """How strongly samples are drawn to 0."""
        return self._concentration0

    @property
    def total_concentration(self) -> Any:
        """The sum of both."""
        return self._total

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        count = apply_op("Reshape", n, [1])
        ones = ones_like(self._total)
        seeds = (seed, salted(seed, "beta"))
        forms = (self._concentration1, self._concentration0)
        drawn: list[Any] = [
            random_gamma(count, ones * form, dtype=self.dtype, seed=own)
            for form, own in zip(forms, seeds)
        ]
        return drawn[0] / (drawn[0] + drawn[1])

    def _log_normalization(self) -> Any:
        parts = lgamma(self._concentration1) + lgamma(self._concentration0)
        return parts - lgamma(self._total)

    def _log_prob(self, value: TensorLike) -> Any:
        one = np.array(1, self.dtype.as_numpy_dtype)
        x = checked(
            value,
            ("assert_positive", value, "sample must be positive"),
            ("assert_less", value, one, "sample must be less than `1`."),
            asked=self.validate_args,
        )
        likely = xlogy(self._concentration1 - 1, x) + (self._concentration0 - 1) * log1p(-x)
        return likely - self._log_normalization()

    def _cdf(self, value: TensorLike) -> Any:
        ones = ones_like(self._total + value)
        return betainc(ones * self._concentration1, ones * self._concentration0, ones * value)

    def _entropy(self) -> Any:
        return (
            self._log_normalization()
            - (self._concentration1 - 1) * digamma(self._concentration1)
            - (self._concentration0 - 1) * digamma(self._concentration0)
            + (self._total - 2) * digamma(self._total)
        )

    def _mean(self) -> Any:
        return self._concentration1 / self._total

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1 - mean) / (1 + self._total)

    def _mode(self) -> Any:
        forms = self._concentration1, self._concentration0
        return defined_above_one(self, (forms[0] - 1) / (self._total - 2), *forms)


@RegisterKL(Beta, Beta)
def _kl_beta(a: Beta, b: Beta, name: str | None = None) -> Any:
    with get_default_graph().name_scope(name or "kl_beta_beta"):
        return (
            b._log_normalization()
            - a._log_normalization()
            - digamma(a.concentration1) * (b.concentration1 - a.concentration1)
            - digamma(a.concentration0) * (b.concentration0 - a.concentration0)
            + digamma(a.total_concentration) * (b.total_concentration - a.total_concentration)
        )
