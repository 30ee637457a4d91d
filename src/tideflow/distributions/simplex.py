"""Distributions over shares that sum to one, and over counts drawn with such shares.

Source: tensorflow/python/ops/distributions/dirichlet.py, dirichlet_multinomial.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    given,
)
from tideflow.distributions.classes import Counts, counted
from tideflow.distributions.divergence import RegisterKL
from tideflow.distributions.formulas import (
    absolute,
    cast,
    checked,
    digamma,
    joined,
    lbeta,
    log,
    log_combinations,
    of_classes,
    rsqrt,
    salted,
    sqrt,
    total,
    where,
    whole,
    xlogy,
)
from tideflow.distributions.real import positive
from tideflow.graph.building import apply_op
from tideflow.graph.graph import get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.array import matrix_set_diag, shape
from tideflow.ops.export import export
from tideflow.ops.linalg import matmul
from tideflow.ops.random import multinomial, random_gamma
from tideflow.wire import dtypes


class Concentrated(Distribution):
    """Base of distributions with a concentration [..., K]."""

    _concentration: Any
    _total: Any

    def _concentrate(self, concentration: TensorLike, validate: bool) -> None:
        self._concentration = positive(concentration, validate)
        self._total = total(self._concentration)

    def _tensors(self) -> list[Any]:
        return [self._concentration]

    @property
    def concentration(self) -> Any:
        """How strongly each class draws [..., K]."""
        return self._concentration

    @property
    def total_concentration(self) -> Any:
        """The sum over all classes."""
        return self._total

    def _batch_shape(self) -> TensorShape:
        found: TensorShape = self._total.shape
        return found

    def _batch_shape_tensor(self) -> Any:
        return shape(self._total)

    def _event_shape(self) -> TensorShape:
        found: TensorShape = self._concentration.shape[-1:]
        return found

    def _event_shape_tensor(self) -> Any:
        return shape(self._concentration)[-1:]

    def _shares(self) -> Any:
        return self._concentration / self._total[..., None]

    def _scale(self) -> Any:
        """Return by what means are multiplied in variances and covariances."""
        raise NotImplementedError

    def _covariance(self) -> Any:
        x = self._scale() * self._mean()
        return matrix_set_diag(-matmul(x[..., None], x[..., None, :]), self._variance())


@export("distributions.Dirichlet")
class Dirichlet(Concentrated):
    """The distribution of Dirichlet, over K shares, with a concentration [..., K].

    The other arguments are those of Distribution.
    """

    def __init__(
        self,
        concentration: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        with self._beginning(given(locals()), FULLY_REPARAMETERIZED):
            self._concentrate(concentration, validate_args)
            message = "Concentration parameter must have event_size >= 2."
            check = ("assert_less", 1, shape(self._concentration)[-1], message)
            self._total = checked(self._total, check, asked=validate_args)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        count = apply_op("Reshape", n, [1])
        drawn = random_gamma(count, self._concentration, dtype=self.dtype, seed=seed)
        return drawn / total(drawn, keepdims=True)

    def _log_prob(self, value: TensorLike) -> Any:
        near = np.array(1e-5, self.dtype.as_numpy_dtype)
        message = "sample last-dimension must sum to `1`"
        x = checked(
            value,
            ("assert_positive", value, "samples must be positive"),
            ("assert_less", absolute(total(value) - 1), near, message),
            asked=self.validate_args,
        )
        return total(xlogy(self._concentration - 1, x)) - lbeta(self._concentration)

    def _entropy(self) -> Any:
        classes = cast(self.event_shape_tensor()[0], self.dtype)
        form = self._concentration
        return (
            lbeta(form)
            + (self._total - classes) * digamma(self._total)
            - total((form - 1) * digamma(form))
        )

    def _mean(self) -> Any:
        return self._shares()

    def _scale(self) -> Any:
        return rsqrt(1 + self._total[..., None])

    def _variance(self) -> Any:
        scale = self._scale()
        x = scale * self._mean()
        return x * (scale - x)

    def _mode(self) -> Any:
        classes = cast(self.event_shape_tensor()[0], self.dtype)
        found = (self._concentration - 1) / (self._total[..., None] - classes)
        one = np.array(1, self.dtype.as_numpy_dtype)
        if not self.allow_nan_stats:
            message = "Mode undefined when any concentration <= 1"
            return checked(found, ("assert_less", one, self._concentration, message), asked=True)
        is_above = apply_op("Greater", self._concentration, one)
        are_all = apply_op("All", is_above, [-1], keep_dims=True)
        return where(are_all, found, np.array(math.nan, self.dtype.as_numpy_dtype))


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlet(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Any:
    with get_default_graph().name_scope(name or "kl_dirichlet_dirichlet"):
        logs = digamma(a.concentration) - digamma(total(a.concentration, keepdims=True))
        difference = total((a.concentration - b.concentration) * logs)
        return difference - lbeta(a.concentration) + lbeta(b.concentration)


@export("distributions.DirichletMultinomial")
class DirichletMultinomial(Counts, Concentrated):
    """The distribution of counts in total_count draws, with shares of a Dirichlet distribution.

    The other arguments are those of Dirichlet.
    """

    def __init__(
        self,
        total_count: TensorLike,
        concentration: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        with self._beginning(given(locals()), NOT_REPARAMETERIZED):
            self._total_count = whole(total_count, validate_args)
            self._concentrate(concentration, validate_args)
            if validate_args:
                of_classes(self._concentration)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        count, classes = apply_op("Reshape", n, [1]), self.event_shape_tensor()
        shares = random_gamma(count, self._concentration, dtype=self.dtype, seed=seed)
        rows = apply_op("Reshape", log(shares), joined([-1], classes))
        draws = cast(self._total_count, dtypes.int32)
        drawn = multinomial(rows, draws, seed=salted(seed, "dirichlet_multinomial"))
        sizes = joined(count, self.batch_shape_tensor(), classes)
        return apply_op("Reshape", counted(drawn, classes[0], self.dtype), sizes)

    def _log_prob(self, value: TensorLike) -> Any:
        counts = self._checked(value)
        ordered = lbeta(self._concentration + counts) - lbeta(self._concentration)
        return ordered + log_combinations(self._total_count, counts)

    def _mean(self) -> Any:
        return self._total_count * self._shares()

    def _scale(self) -> Any:
        whole_size = self._total[..., None]
        return sqrt((1 + whole_size / self._total_count) / (1 + whole_size))

    def _variance(self) -> Any:
        scale = self._scale()
        x = scale * self._mean()
        return x * (self._total_count * scale - x)
