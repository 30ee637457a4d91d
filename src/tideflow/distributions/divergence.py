"""Divergences between two distributions, by the classes of both.

Source: tensorflow/python/ops/distributions/kullback_leibler.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.graph import get_default_graph
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.export import export
from tideflow.ops.framework import Assert
from tideflow.ops.math import reduce_any

_divergences: dict[tuple[type, type], Callable[..., Any]] = {}


@export("distributions.RegisterKL")
class RegisterKL:
    """Say how the divergence of two classes is computed: a decorator of function(a, b, name=None).

    Raises: TypeError for what is no function; ValueError where there is one already.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _divergences:
            names = " || ".join(kind.__name__ for kind in self._key)
            found = _divergences[self._key]
            raise ValueError(f"KL({names}) has already been registered to: {found}")
        _divergences[self._key] = kl_fn
        return kl_fn


def _registered(a: type, b: type) -> Callable[..., Any] | None:
    """Return the function of the nearest bases of two classes."""
    found = [
        (i + j, _divergences[one, other])
        for i, one in enumerate(a.__mro__)
        for j, other in enumerate(b.__mro__)
        if (one, other) in _divergences
    ]
    return min(found, key=lambda entry: entry[0])[1] if found else None


@export("distributions.kl_divergence")
def kl_divergence(
    distribution_a: Any,
    distribution_b: Any,
    allow_nan_stats: bool = True,
    name: str | None = None,
) -> Any:
    """Return the Kullback-Leibler divergence of the first distribution from the second.

    Raises: NotImplementedError for classes without a function (see RegisterKL);
    InvalidArgumentError for NaN, unless allow_nan_stats.
    """
    function = _registered(type(distribution_a), type(distribution_b))
    if function is None:
        raise NotImplementedError(
            "No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{type(distribution_a).__name__} and distribution_b type "
            f"{type(distribution_b).__name__}"
        )
    with get_default_graph().name_scope("KullbackLeibler"):
        found = function(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return found
        is_number = apply_op("LogicalNot", reduce_any(apply_op("IsNan", found)))
        said = (
            f"KL calculation between {distribution_a.name} and {distribution_b.name} returned NaN "
            "values (and was called with allow_nan_stats=False). Values:"
        )
        check = Assert(is_number, [said, found])
        return found if check is None else with_dependencies([check], found)


def cross_entropy(a: Any, b: Any, allow_nan_stats: bool = True) -> Any:
    """Return the entropy of the first distribution plus its divergence from the second."""
    return a.entropy() + kl_divergence(a, b, allow_nan_stats)
