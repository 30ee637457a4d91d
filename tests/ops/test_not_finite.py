"""Values that are not finite, in both tiers beside TensorFlow: they stay where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ops.harness import Case, check_against_tensorflow

pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]

F = np.float32
NOT_FINITE = (np.nan, np.inf, -np.inf)
LOOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
_random = np.random.default_rng(7)


def with_one(value: float, *shape: int, dtype: Any = F) -> Any:
    """Return random numbers with one that is not finite near the middle."""
    found = _random.normal(size=shape).astype(dtype)
    found.reshape(-1)[found.size // 2] = value
    return found


def numbers(*shape: int) -> Any:
    return _random.normal(size=shape).astype(F)


def sizes(*values: int) -> Any:
    return np.int32(values)


def resizing(value: float) -> list[Case]:
    images, large, small = (2, 6, 5, 2), (2, 9, 11, 2), (2, 3, 4, 2)
    found = []
    for other in (large, small):
        for op in ("ResizeArea", "ResizeBicubic"):
            found.append(Case(op, [with_one(value, *images), sizes(*other[1:3])], **LOOSE))
        for op in ("ResizeBicubicGrad", "ResizeBilinearGrad"):
            for half in (False, True):
                attrs = {"half_pixel_centers": half}
                found.append(Case(op, [with_one(value, *other), numbers(*images)], attrs, **LOOSE))
        found.append(
            Case("ResizeNearestNeighborGrad", [with_one(value, *other), sizes(*images[1:3])])
        )
        scale = F([other[1] / images[1], other[2] / images[2]])
        place = [scale, F([0.3, -0.2])]
        for kind in ("lanczos3", "triangle"):
            attrs = {"kernel_type": kind}
            given = [with_one(value, *images), sizes(*other[1:3]), *place]
            found.append(Case("ScaleAndTranslate", given, attrs, **LOOSE))
            given = [with_one(value, *other), numbers(*images), *place]
            found.append(Case("ScaleAndTranslateGrad", given, attrs, **LOOSE))
    return found


def others(value: float) -> list[Case]:
    norm = {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.75}
    shape = (1, 2, 2, 9)
    found = []
    for mode, most in (("REFLECT", 2), ("SYMMETRIC", 3)):
        paddings = sizes(1, 2, most, most).reshape(2, 2)
        found.append(
            Case("MirrorPadGrad", [with_one(value, 6, 3 + 2 * most), paddings], {"mode": mode})
        )
    for which in range(3):
        given = [numbers(*shape) for _ in range(3)]
        given[which] = with_one(value, *shape)
        found.append(Case("LRNGrad", given, norm))
    found.append(
        Case(
            "Conv3DBackpropFilterV2",
            [numbers(1, 3, 3, 3, 2), sizes(3, 2, 3, 2, 2), with_one(value, 1, 3, 3, 3, 2)],
            {"strides": [1, 1, 1, 1, 1], "padding": "SAME"},
            **LOOSE,
        )
    )
    return found


CASES = [case for value in NOT_FINITE for case in (*resizing(value), *others(value))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_finite_stays_where_it_belongs(case: Case) -> None:
    check_against_tensorflow(case)


_POINTS = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -2.0, -0.5, -1.5, -1e30, 1e30, 1e-30, 3.0]


@pytest.mark.parametrize(
    "op", ["BesselY0", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "Digamma", "Lgamma"]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_special_functions_at_poles_and_beyond_their_domain(op: str, dtype: Any) -> None:
    with np.errstate(over="ignore"):
        points = np.array(_POINTS).astype(dtype)
    check_against_tensorflow(Case(op, [points], rtol=1e-4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_exponential_integral_is_of_positive_numbers(dtype: Any) -> None:
    check_against_tensorflow(Case("Expint", [np.array([*_POINTS[:10], 3.0], dtype)], rtol=1e-4))


@pytest.mark.parametrize("op", ["Zeta", "Polygamma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_powers_at_poles_and_limits(op: str, dtype: Any) -> None:
    grid = np.meshgrid([*_POINTS[:9], 0.5, 1.0, 2.0, 3.0, 1e30], [*_POINTS, 0.5, 1.0, 2.0])
    given = [axis.reshape(-1).astype(dtype) for axis in grid]
    check_against_tensorflow(Case(op, given, rtol=1e-3))
