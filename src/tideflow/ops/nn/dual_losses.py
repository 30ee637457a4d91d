"""Losses of linear models, as dual coordinate ascent needs them.

Each has a primal form, of the prediction w.x; a dual form, of the example's dual variable a; and
the value of a that is best while those of all other examples stay.  Labels of two classes are -1
and 1 here, and 0 and 1 as they are given.
Source: Shalev-Shwartz and Zhang (2013); Ma, Smith, Jaggi et al. (2015), for several partitions;
tensorflow/core/kernels/loss.h and its losses.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod

import numpy as np

from tideflow.wire import errors

# How often Newton's method goes on; its error is squared each time.
_STEPS = 10
_IMPOSSIBLE = sys.float_info.max


def _quotient(a: float, b: float) -> float:
    """Return a / b as floats of processors have it, for b = 0 too."""
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def _exp(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(x))


class DualLoss(ABC):
    """One loss.

    In what follows `curvature` is the weighted squared norm of an example, times its weight and the
    number of partitions that change the weights at once.
    """

    # The derivative of the loss changes by the inverse of this at most.
    smoothness = 1.0

    @abstractmethod
    def label(self, given: float) -> float:
        """Return the label to go by.  Raises: InvalidArgumentError for one that cannot be."""

    @abstractmethod
    def best_dual(self, label: float, dual: float, wx: float, curvature: float) -> float:
        """Return the dual variable that is best for one example."""

    @abstractmethod
    def primal(self, wx: float, label: float) -> float:
        """Return the loss of a prediction."""

    @abstractmethod
    def dual(self, dual: float, label: float) -> float:
        """Return the conjugate of the loss."""

    @abstractmethod
    def slope(self, wx: float, label: float) -> float:
        """Return the derivative of the loss by the prediction."""


class _OfTwoClasses(DualLoss):
    def label(self, given: float) -> float:
        if given not in (0, 1):
            raise errors.InvalidArgumentError(
                "Only labels of 0.0 or 1.0 are supported right now. Found example with label: "
                f"{given:g}"
            )
        return 1.0 if given else -1.0


class _Logistic(_OfTwoClasses):
    smoothness = 4.0

    def best_dual(self, label: float, dual: float, wx: float, curvature: float) -> float:
        x = 0.0
        for _ in range(_STEPS):
            at = math.tanh(x)
            above = -2 * label * x - wx - curvature * (0.5 * (1 + at) / label - dual)
            x -= _quotient(above, -2 * label - curvature * (1 - at * at) * 0.5 / label)
        return 0.5 * (1 + math.tanh(x)) / label

    def primal(self, wx: float, label: float) -> float:
        margin = label * wx
        return math.log1p(_exp(-margin)) if margin > 0 else math.log1p(_exp(margin)) - margin

    def dual(self, dual: float, label: float) -> float:
        part = dual * label
        rest = 1 - part
        return part * (math.log(part) if part > 0 else 0) + rest * (
            math.log(rest) if rest > 0 else 0
        )

    def slope(self, wx: float, label: float) -> float:
        margin = label * wx
        chance = _exp(-margin) / (1 + _exp(-margin)) if margin > 0 else 1 / (1 + _exp(margin))
        return -chance * label


class _SmoothHinge(_OfTwoClasses):
    """A hinge whose corner is round over a length of `gamma`."""

    gamma = 1.0
    smoothness = 1.0

    def best_dual(self, label: float, dual: float, wx: float, curvature: float) -> float:
        found = dual + _quotient(label - wx - self.gamma * dual, curvature + self.gamma)
        if label * found < 0:
            return 0.0
        return label if label * found > 1 else found

    def primal(self, wx: float, label: float) -> float:
        margin = label * wx
        if margin >= 1:
            return 0.0
        if margin <= 1 - self.gamma:
            return 1 - margin - self.gamma / 2
        return (1 - margin) * (1 - margin) * 0.5 / self.gamma

    def dual(self, dual: float, label: float) -> float:
        part = dual * label
        if not 0 <= part <= 1:
            return _IMPOSSIBLE
        return -part + 0.5 * self.gamma * dual * dual

    def slope(self, wx: float, label: float) -> float:
        if label * wx >= 1:
            return 0.0
        return -label if label * wx <= 1 - self.gamma else (wx - label) / self.gamma


class _Hinge(_SmoothHinge):
    gamma = 0.0
    smoothness = 0.0


class _Squared(DualLoss):
    def label(self, given: float) -> float:
        return given

    def best_dual(self, label: float, dual: float, wx: float, curvature: float) -> float:
        return dual + _quotient(label - dual - wx, 1 + curvature)

    def primal(self, wx: float, label: float) -> float:
        return (wx - label) * (wx - label) * 0.5

    def dual(self, dual: float, label: float) -> float:
        return dual * (0.5 * dual - label)

    def slope(self, wx: float, label: float) -> float:
        return wx - label


class _Poisson(DualLoss):
    def label(self, given: float) -> float:
        if given < 0:
            raise errors.InvalidArgumentError(
                "Only non-negative labels can be used with the Poisson log loss. Found example "
                f"with label: {given:g}"
            )
        return given

    def best_dual(self, label: float, dual: float, wx: float, curvature: float) -> float:
        x = math.log(label - dual) if label > dual else 0.0
        for _ in range(_STEPS):
            at = _exp(x)
            x -= _quotient(x - wx - curvature * (label - dual - at), 1 + curvature * at)
        return label - _exp(x)

    def primal(self, wx: float, label: float) -> float:
        return _exp(wx) - wx * label

    def dual(self, dual: float, label: float) -> float:
        rest = label - dual
        if rest == 0:
            return 0.0
        return _IMPOSSIBLE if rest < 0 else rest * (math.log(rest) - 1)

    def slope(self, wx: float, label: float) -> float:
        return _exp(wx) - label


LOSSES: dict[str, DualLoss] = {
    "logistic_loss": _Logistic(),
    "squared_loss": _Squared(),
    "hinge_loss": _Hinge(),
    "smooth_hinge_loss": _SmoothHinge(),
    "poisson_loss": _Poisson(),
}
