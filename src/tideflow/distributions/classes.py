"""Distributions over classes and their counts: Bernoulli, categorical, multinomial.

Source: tensorflow/python/ops/distributions/bernoulli.py, categorical.py, multinomial.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.distributions.base import NOT_REPARAMETERIZED, Distribution, given
from tideflow.distributions.divergence import RegisterKL
from tideflow.distributions.formulas import (
    cast,
    checked,
    joined,
    log_combinations,
    log_softmax,
    ones_like,
    parameters_of_classes,
    sigmoid,
    softplus,
    total,
    where,
    whole,
    zeros_like,
)
from tideflow.graph.building import apply_op
from tideflow.graph.graph import get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import matrix_set_diag, shape
from tideflow.ops.control_flow import map_fn
from tideflow.ops.export import export
from tideflow.ops.framework import identity
from tideflow.ops.linalg import matmul
from tideflow.ops.random import multinomial, random_uniform
from tideflow.wire import dtypes


class OfClasses(Distribution):
    """Base of distributions whose parameters are logits or probabilities."""

    _logits: Any
    _probs: Any

    @property
    def logits(self) -> Any:
        """Logarithms of odds, or of probabilities up to a constant."""
        return self._logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._probs


@export("distributions.Bernoulli")
class Bernoulli(OfClasses):
    """The distribution of 0 and 1, with `logits` or `probs` of 1.

    The other arguments are those of Distribution.
    Raises: ValueError unless one of both is given.
    """

    _scalar_parameters = ("logits",)

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        with self._beginning(given(locals()), NOT_REPARAMETERIZED, dtype):
            found = parameters_of_classes(logits, probs, False, validate_args)
            self._logits, self._probs = found

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        sizes = joined(apply_op("Reshape", n, [1]), self.batch_shape_tensor())
        drawn = random_uniform(sizes, seed=seed, dtype=self._probs.dtype)
        return cast(apply_op("Less", drawn, self._probs), self.dtype)

    def _log_prob(self, value: Any) -> Any:
        event = cast(whole(value, self.validate_args), self._logits.dtype)
        # log sigmoid(logits) for 1, log sigmoid(-logits) for 0.
        return event * self._logits - softplus(self._logits * ones_like(event))

    def _entropy(self) -> Any:
        return softplus(-self._logits) - self._logits * (self._probs - 1)

    def _mean(self) -> Any:
        return identity(self._probs)

    def _variance(self) -> Any:
        return self._probs * (1 - self._probs)

    def _mode(self) -> Any:
        half = np.array(0.5, self._probs.dtype.as_numpy_dtype)
        return cast(apply_op("Greater", self._probs, half), self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoulli(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Any:
    with get_default_graph().name_scope(name or "kl_bernoulli_bernoulli"):
        ones = softplus(-b.logits) - softplus(-a.logits)
        zeros = softplus(b.logits) - softplus(a.logits)
        return sigmoid(a.logits) * ones + sigmoid(-a.logits) * zeros


@export("distributions.Categorical")
class Categorical(OfClasses):
    """The distribution of the numbers 0 to K - 1 of classes, with `logits` or `probs` [..., K].

    The other arguments are those of Distribution.
    Raises: ValueError unless one of both is given.
    """

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DTypeLike = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        with self._beginning(given(locals()), NOT_REPARAMETERIZED, dtype):
            found = parameters_of_classes(logits, probs, True, validate_args)
            self._logits, self._probs = found
            self._logits.shape.with_rank_at_least(1)

    @property
    def event_size(self) -> Any:
        """The number of classes."""
        return shape(self._logits)[-1]

    def _batch_shape(self) -> TensorShape:
        found: TensorShape = self._logits.shape[:-1]
        return found

    def _batch_shape_tensor(self) -> Any:
        return shape(self._logits)[:-1]

    def _event_shape(self) -> TensorShape:
        return TensorShape([])

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        rows = apply_op("Reshape", self._logits, joined([-1], shape(self._logits)[-1:]))
        wide = dtypes.int64 if self.dtype.size > 4 else dtypes.int32
        drawn = multinomial(rows, n, seed=seed, output_dtype=wide)
        sizes = joined(apply_op("Reshape", n, [1]), self.batch_shape_tensor())
        turned = apply_op("Transpose", drawn, [1, 0])
        return cast(apply_op("Reshape", turned, sizes), self.dtype)

    def _chosen(self, value: Any) -> Any:
        """Return class numbers.  Raises: TypeError for what are no numbers."""
        if not (value.dtype.is_integer or value.dtype.is_floating):
            raise TypeError(
                f"`value` should have integer `dtype` or `self.dtype` ({self.dtype.name})"
            )
        found = whole(value, self.validate_args)
        return cast(found, dtypes.int32) if found.dtype.is_floating else found

    def _places(self, value: Any) -> tuple[Any, Any]:
        """Return class numbers [..., 1] and the numbers of all classes, in one type."""
        chosen = self._chosen(value)[..., None]
        count = apply_op("Range", 0, self.event_size, 1)
        return chosen, cast(count, chosen.dtype)

    def _log_prob(self, value: Any) -> Any:
        chosen, count = self._places(value)
        logs = log_softmax(self._logits)
        is_it = apply_op("Equal", count, chosen)
        return total(where(is_it, logs, zeros_like(logs)))

    def _cdf(self, value: Any) -> Any:
        chosen, count = self._places(value)
        is_below = apply_op("Less", count, chosen)
        return total(where(is_below, self._probs, zeros_like(self._probs)))

    def _entropy(self) -> Any:
        return -total(log_softmax(self._logits) * self._probs)

    def _mode(self) -> Any:
        return cast(apply_op("ArgMax", self._logits, -1, output_type=dtypes.int64), self.dtype)


@RegisterKL(Categorical, Categorical)
def _kl_categorical(a: Categorical, b: Categorical, name: str | None = None) -> Any:
    with get_default_graph().name_scope(name or "kl_categorical_categorical"):
        own = log_softmax(a.logits)
        return total(apply_op("Softmax", a.logits) * (own - log_softmax(b.logits)))


class Counts(Distribution):
    """Base of distributions of how often each of K classes is drawn, [..., K]."""

    _total_count: Any

    @property
    def total_count(self) -> Any:
        """How many draws there are."""
        return self._total_count

    def _checked(self, counts: Any) -> Any:
        found = whole(counts, self.validate_args)
        message = "counts must sum to `self.total_count`"
        check = ("assert_equal", self._total_count, total(found), message)
        return checked(found, check, asked=self.validate_args)


@export("distributions.Multinomial")
class Multinomial(Counts, OfClasses):
    """The distribution of counts [..., K] in total_count draws, with `logits` or `probs` [..., K].

    The other arguments are those of Distribution.
    Raises: ValueError unless one of both is given.
    """

    def __init__(
        self,
        total_count: TensorLike,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        with self._beginning(given(locals()), NOT_REPARAMETERIZED):
            found = parameters_of_classes(logits, probs, True, validate_args)
            self._logits, self._probs = found
            self._total_count = whole(total_count, validate_args)
            self._average = self._total_count[..., None] * self._probs

    def _tensors(self) -> list[Any]:
        return [self._probs]

    def _batch_shape(self) -> TensorShape:
        found: TensorShape = self._average.shape[:-1]
        return found

    def _batch_shape_tensor(self) -> Any:
        return shape(self._average)[:-1]

    def _event_shape(self) -> TensorShape:
        found: TensorShape = self._average.shape[-1:]
        return found

    def _event_shape_tensor(self) -> Any:
        return shape(self._average)[-1:]

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        classes = self.event_shape_tensor()
        sizes = joined(self.batch_shape_tensor(), classes)
        rows = apply_op("BroadcastTo", self._logits, sizes)
        draws = apply_op(
            "BroadcastTo", cast(self._total_count, dtypes.int32), self.batch_shape_tensor()
        )
        each = joined(apply_op("Reshape", n, [1]), [-1])

        def drawn(arguments: Any) -> Any:
            logits, count = arguments
            found = multinomial(logits[None, :], n * count, seed)
            return counted(apply_op("Reshape", found, each), classes[0], self.dtype)

        flat = [
            apply_op("Reshape", rows, joined([-1], classes)),
            apply_op("Reshape", draws, [-1]),
        ]
        found = map_fn(drawn, flat, dtype=self.dtype)
        turned = apply_op("Transpose", found, [1, 0, 2])
        return apply_op("Reshape", turned, joined(apply_op("Reshape", n, [1]), sizes))

    def _log_prob(self, value: Any) -> Any:
        counts = self._checked(value)
        likely = total(counts * log_softmax(self._logits))
        return likely + log_combinations(self._total_count, counts)

    def _mean(self) -> Any:
        return identity(self._average)

    def _shares(self) -> Any:
        return self._probs * ones_like(self._total_count)[..., None]

    def _variance(self) -> Any:
        return self._average - self._average * self._shares()

    def _covariance(self) -> Any:
        outer = matmul(self._average[..., None], self._shares()[..., None, :])
        return matrix_set_diag(-outer, self._variance())


def counted(drawn: Any, classes: Any, dtype: Any) -> Any:
    """Return how often each class is among numbers [..., draws], [..., classes]."""
    one, zero = (np.array(value, dtype.as_numpy_dtype) for value in (1, 0))
    return apply_op("Sum", apply_op("OneHot", drawn, classes, one, zero), [-2])
