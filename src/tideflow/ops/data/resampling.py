"""Resampling by rejection: a dataset whose classes have the shares that are wanted.

An element is rejected by its class, and as few are as can be: with some probability the next
element is taken as it comes, and with the rest one that was not rejected.

Source: tensorflow/python/data/ops/dataset_ops.py (rejection_resample).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.static_value import static_value
from tideflow.ops.control_flow import cond
from tideflow.ops.framework import get_seed
from tideflow.wire import dtypes

# Shares are estimated anew after so many elements, from as many of each class at the beginning.
_ESTIMATED_AT_ONCE = 32
_SEEN_AT_FIRST = 10
_AHEAD = 3


def resampled(
    dataset: Any,
    class_func: Callable[..., Any],
    target_dist: Any,
    initial_dist: Any,
    seed: int | None,
) -> Any:
    """Return pairs of a class and an element; arguments as of `Dataset.rejection_resample`."""
    kind = dataset._kind
    target = _shares(target_dist, "target_dist")
    untouched = None
    if initial_dist is None:
        shares = _estimated(dataset.map(class_func), target)
        chances = shares.map(lambda found: _chances(found, target))
        accepted, mixed = chances.map(lambda a, _: a), chances.map(lambda _, m: m)
    else:
        known = _shares(initial_dist, "initial_dist")
        shares, accepted, mixed = (
            kind.from_tensors(one).repeat() for one in (known, *_chances(known, target))
        )
        untouched = _static_mixture(known, target)

    def with_class(*parts: Any) -> Any:
        return class_func(*parts), parts[0] if len(parts) == 1 else parts

    if untouched == 1:
        return dataset.map(with_class)
    filtered = _filtered(dataset, accepted, shares, class_func, seed).prefetch(_AHEAD)
    if untouched == 0:
        return filtered
    weights = mixed.map(lambda chance: apply_op("Pack", [chance, 1.0 - chance]))
    return kind.sample_from_datasets(
        [dataset.map(with_class), filtered], weights, seed, stop_on_empty_dataset=True
    )


def _shares(given: Any, name: str) -> Tensor:
    made: Tensor = apply_op("Cast", convert_to_tensor(given, name=name), DstT=dtypes.float32)
    return made


def _chances(initial: Any, target: Any) -> tuple[Any, Any]:
    """Return how likely each class is accepted, and how likely an element is taken as it comes."""
    # A class that there is not yet must not divide by zero.
    ratios = apply_op("RealDiv", target, initial + np.finfo(np.float32).tiny)
    most, least = (apply_op(op, ratios, [0]) for op in ("Max", "Min"))
    return apply_op("RealDiv", ratios - least, most - least), least


def _static_mixture(initial: Tensor, target: Tensor) -> Any:
    """Return how likely an element is taken as it comes; None where that is not known yet."""
    known, wanted = (static_value(*one.edge) for one in (initial, target))
    if known is None or wanted is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.min(wanted / known)


def _estimated(classes: Any, target: Tensor) -> Any:
    """Return the shares of classes as they are known at each element."""
    count = (target.dims or (None,))[0]
    if count is None:
        count = apply_op("Shape", target)[0]

    def update(seen: Any, found: Any) -> Any:
        ones = apply_op("OneHot", found, count, np.int64(1), np.int64(0))
        seen = apply_op("AddV2", seen, apply_op("Sum", ones, 0))
        numbers, whole = (
            apply_op("Cast", one, DstT=dtypes.float64) for one in (seen, apply_op("Sum", seen, [0]))
        )
        shares = apply_op("Cast", apply_op("RealDiv", numbers, whole), DstT=dtypes.float32)
        rows = apply_op("Tile", apply_op("ExpandDims", shares, 0), [_ESTIMATED_AT_ONCE, 1])
        return seen, rows

    first = apply_op("Fill", apply_op("Pack", [count]), np.int64(_SEEN_AT_FIRST))
    return classes.batch(_ESTIMATED_AT_ONCE).scan(first, update).unbatch()


def _filtered(
    dataset: Any, accepted: Any, shares: Any, class_func: Callable[..., Any], seed: int | None
) -> Any:
    """Return pairs of a class and an element, those that are not rejected."""
    kind = dataset._kind

    def with_chance(chances: Any, element: Any) -> Any:
        found = class_func(*element) if isinstance(element, tuple) else class_func(element)
        return found, apply_op("GatherV2", chances, found, 0), element

    def is_accepted(_: Any, chance: Any, __: Any) -> Any:
        first, second = (0 if one is None else one for one in get_seed(seed))
        no_sizes = np.zeros(0, np.int32)
        drawn = apply_op("RandomUniform", no_sizes, dtype=dtypes.float32, seed=first, seed2=second)
        return apply_op("Less", drawn, chance)

    chances = kind.zip((accepted, shares)).map(_told)
    pairs = kind.zip((chances, dataset)).map(with_chance).filter(is_accepted)
    return pairs.map(lambda found, _, element: (found, element))


def _told(accepted: Any, shares: Any) -> Any:
    """Return the chances; tell on standard error, some times, when most elements are rejected."""
    rejected = apply_op("Sum", (1.0 - accepted) * shares, [0])
    return cond(
        apply_op("Less", rejected, 0.5),
        lambda: apply_op("Identity", accepted),
        lambda: apply_op(
            "Print",
            accepted,
            [rejected, shares, accepted],
            message="Proportion of examples rejected by sampler is high: ",
            first_n=10,
            summarize=100,
        ),
    )
