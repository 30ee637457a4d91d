"""Gradients of the math ops against differences, with static shapes known and unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.ops  # noqa: F401 - defines the ops
from ops.evaluate import evaluate
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.ops.gradients import gradients
from tideflow.ops.linalg import einsum
from tideflow.ops.linalg import products as matmul
from tideflow.ops.math import (
    arithmetic,
    casts,
    comparison,
    division,
    elementwise,
    exponentials,
    pairwise,
    powers,
    scans,
    special,
)
from tideflow.ops.math import (
    clipping as clip,
)
from tideflow.ops.math import (
    reducing as reduce,
)
from tideflow.ops.math import (
    segments as segment,
)

_random = np.random.default_rng(3)


def _values(*shape: int) -> Any:
    """Return numbers that keep away from 0, where some functions have a corner."""
    x = _random.uniform(0.3, 1.5, shape)
    return x * _random.choice([-1.0, 1.0], shape)


def _positive(*shape: int) -> Any:
    return _random.uniform(0.3, 1.5, shape)


def _inside(*shape: int) -> Any:
    return _random.uniform(-0.8, 0.8, shape)


A, B = _values(2, 3), _values(2, 3)
ROW, COLUMN, SCALAR = _values(3), _values(2, 1), _values()
IDS = np.array([0, 0, 2, 2, 3])
Function = Callable[..., Any]

CASES: dict[str, tuple[Function, list[Any]]] = {
    "add": (arithmetic.add, [A, ROW]),
    "subtract": (arithmetic.subtract, [ROW, A]),
    "multiply": (arithmetic.multiply, [A, COLUMN]),
    "multiply-scalar": (arithmetic.multiply, [SCALAR, A]),
    "multiply-outer": (arithmetic.multiply, [ROW, COLUMN]),
    "multiply-missing-and-one": (arithmetic.multiply, [_values(2, 3, 2), _values(1, 2)]),
    "truediv": (division.truediv, [COLUMN, A]),
    "div_no_nan": (division.divide_no_nan, [A, ROW]),
    "floormod": (division.floormod, [np.array([5.3, -2.2]), np.array([2.0, 3.0])]),
    "pow": (powers.pow, [_positive(2, 3), ROW]),
    "maximum": (pairwise.maximum, [A, ROW]),
    "minimum": (pairwise.minimum, [A, B]),
    "squared_difference": (arithmetic.squared_difference, [A, COLUMN]),
    "xlogy": (powers.xlogy, [A, _positive(3)]),
    "xlog1py": (powers.xlog1py, [A, _positive(3)]),
    "xdivy": (powers.xdivy, [A, ROW]),
    "multiply_no_nan": (arithmetic.multiply_no_nan, [A, ROW]),
    "atan2": (pairwise.atan2, [A, COLUMN]),
    "add_n": (lambda x, y: arithmetic.add_n([x, y, x]), [A, B]),
    "select": (lambda x, y: apply_op("SelectV2", A > 0, x, y), [COLUMN, ROW]),
    "cast": (lambda x: casts.cast(casts.cast(x, "float64"), "float64"), [A]),
    "sum": (lambda x: reduce.reduce_sum(x, 1), [_values(2, 3, 2)]),
    "sum-all": (reduce.reduce_sum, [A]),
    "sum-two": (lambda x: reduce.reduce_sum(x, [0, -1]), [_values(2, 3, 2)]),
    "sum-keep": (lambda x: reduce.reduce_sum(x, [0], True), [A]),
    "mean": (lambda x: reduce.reduce_mean(x, 0), [A]),
    "mean-all": (reduce.reduce_mean, [A]),
    "prod": (lambda x: reduce.reduce_prod(x, 1), [A]),
    "prod-zero": (lambda x: reduce.reduce_prod(x, 0), [np.array([2.0, 0.0, 3.0])]),
    "max": (lambda x: reduce.reduce_max(x, 1), [A]),
    "min": (reduce.reduce_min, [A]),
    "norm": (lambda x: reduce.reduce_euclidean_norm(x, 0), [A]),
    "logsumexp": (lambda x: reduce.reduce_logsumexp(x, 1), [A]),
    "variance": (lambda x: reduce.reduce_variance(x, 1), [A]),
    "cumsum": (lambda x: scans.cumsum(x, 1, exclusive=True), [A]),
    "cumsum-reverse": (lambda x: scans.cumsum(x, 0, reverse=True), [A]),
    "cumprod": (lambda x: scans.cumprod(x, 1), [A]),
    "cumulative_logsumexp": (lambda x: scans.cumulative_logsumexp(x, 1), [A]),
    "matmul": (matmul.matmul, [A, _values(3, 4)]),
    "matmul-ta": (lambda x, y: matmul.matmul(x, y, transpose_a=True), [A, _values(2, 4)]),
    "matmul-tb": (lambda x, y: matmul.matmul(x, y, transpose_b=True), [A, B]),
    "matmul-tt": (lambda x, y: matmul.matmul(x, y, True, True), [A, _values(4, 2)]),
    "batch": (
        lambda x, y: apply_op("BatchMatMulV2", x, y),
        [_values(2, 1, 2, 3), _values(4, 3, 1)],
    ),
    "batch-adj": (
        lambda x, y: apply_op("BatchMatMulV2", x, y, adj_x=True, adj_y=True),
        [_values(2, 3, 2), _values(2, 1, 3)],
    ),
    "segment_sum": (lambda x: segment.segment_sum(x, IDS), [_values(5, 2)]),
    "segment_mean": (lambda x: segment.segment_mean(x, IDS), [_values(5, 2)]),
    "segment_max": (lambda x: segment.segment_max(x, IDS), [_values(5, 2)]),
    "unsorted_segment_sum": (
        lambda x: segment.unsorted_segment_sum(x, [2, -1, 0, 2, 1], 3),
        [_values(5, 2)],
    ),
    "unsorted_segment_mean": (
        lambda x: segment.unsorted_segment_mean(x, [2, 2, 0, 2, 1], 3),
        [_values(5, 2)],
    ),
    "unsorted_segment_max": (
        lambda x: segment.unsorted_segment_max(x, [2, -1, 0, 2, 1], 3),
        [_values(5)],
    ),
    "unsorted_segment_prod": (
        lambda x: segment.unsorted_segment_prod(x, [1, 1, 0, 1, 0], 2),
        [_values(5)],
    ),
    "clip_by_value": (lambda x: clip.clip_by_value(x, -0.7, 0.8), [A]),
    "ClipByValue": (
        lambda x, y, z: apply_op("ClipByValue", x, y, z),
        [A, np.array(-0.7), np.array(0.8)],
    ),
    "clip_by_norm": (lambda x: clip.clip_by_norm(x, 0.5), [A]),
    "clip_by_global_norm": (lambda x, y: clip.clip_by_global_norm([x, y], 1.0)[0], [A, ROW]),
    "polygamma": (lambda x: special.polygamma(np.array(1.0), x), [_positive(3)]),
    "igamma": (lambda x: special.igamma(np.array(2.0), x), [_positive(3)]),
    "igammac": (lambda x: special.igammac(np.array(2.0), x), [_positive(3)]),
    "betainc": (lambda x: special.betainc(np.array(2.0), np.array(1.5), x), [np.abs(_inside(3))]),
    "where-order": (lambda x, y: apply_op("Select", comparison.less(x, y), x, y), [A, B]),
}
_STATIC_RANK: dict[str, tuple[Function, list[Any]]] = {
    "tensordot": (lambda x, y: einsum.tensordot(x, y, 1), [A, _values(3, 4)]),
    "tensordot-axes": (lambda x, y: einsum.tensordot(x, y, [[0], [1]]), [A, _values(4, 2, 2)]),
    "einsum": (lambda x, y: einsum.einsum("ij,jk->ik", x, y), [A, _values(3, 4)]),
    "einsum-sum": (lambda x, y: einsum.einsum("ij,kj->k", x, y), [A, B]),
    "einsum-dots": (
        lambda x, y: einsum.einsum("...ij,jk->...ik", x, y),
        [_values(2, 2, 3), _values(3, 2)],
    ),
    "einsum-stretch": (lambda x, y: einsum.einsum("...i,...i->...", x, y), [A, _values(1, 3)]),
}
for _name, _make in {
    "negative": _values,
    "abs": _values,
    "square": _values,
    "sqrt": _positive,
    "rsqrt": _positive,
    "reciprocal": _values,
}.items():
    CASES[_name] = (getattr(elementwise, _name), [_make(2, 3)])
for _name, _make in {
    "exp": _values,
    "expm1": _values,
    "log": _positive,
    "log1p": _positive,
    "tanh": _values,
    "sigmoid": _values,
}.items():
    CASES[_name] = (getattr(exponentials, _name), [_make(2, 3)])
for _name, _make in {
    "sin": _values,
    "cos": _values,
    "tan": _inside,
    "asin": _inside,
    "acos": _inside,
    "atan": _values,
    "sinh": _values,
    "cosh": _values,
    "asinh": _values,
    "atanh": _inside,
    "erf": _values,
    "erfc": _values,
    "erfinv": _inside,
    "lgamma": _positive,
    "digamma": _positive,
    "bessel_i0": _values,
    "bessel_i1": _values,
    "bessel_i0e": _values,
    "bessel_i1e": _values,
}.items():
    CASES[_name] = (getattr(special, _name), [_make(2, 3)])
CASES["acosh"] = (special.acosh, [_positive(3) + 1])
CASES["ndtri"] = (special.ndtri, [np.abs(_inside(3)) + 0.1])


def _placeholders(values: list[Any], rank_known: bool, static: bool) -> list[Any]:
    made = []
    for value in values:
        shape: Any = value.shape if static else [None] * value.ndim if rank_known else None
        made.append(apply_op("Placeholder", dtype="float64", shape=shape))
    return made


def _weighted(function: Function, inputs: list[Any]) -> Any:
    """Return a scalar: the function's results times weights that tell elements apart."""
    results = function(*inputs)
    total: Any = None
    for result in results if isinstance(results, list) else [results]:
        flat = apply_op("Reshape", result, [-1])
        count = apply_op("Cast", apply_op("Size", flat), DstT="int32")
        steps = apply_op(
            "Cast", apply_op("Range", 1, apply_op("AddV2", count, 1), 1), DstT="float64"
        )
        weights = apply_op("Sin", steps)
        part = apply_op("Sum", apply_op("Mul", flat, weights), [0])
        total = part if total is None else apply_op("AddV2", total, part)
    return total


def _differences(fetch: Any, inputs: list[Any], values: list[Any], at: int) -> Any:
    found = np.zeros(values[at].shape)
    step = 1e-6
    for index in np.ndindex(*values[at].shape):
        ends = []
        for sign in (1, -1):
            moved = [np.array(value) for value in values]
            moved[at][index] += sign * step
            ends.append(float(evaluate([fetch], dict(zip(inputs, moved)))[0]))
        found[index] = (ends[0] - ends[1]) / (2 * step)
    return found


def _check(function: Function, values: list[Any], rank_known: bool, static: bool) -> None:
    with Graph().as_default(), np.errstate(all="ignore"):
        inputs = _placeholders(values, rank_known, static)
        total = _weighted(function, inputs)
        grads = gradients(total, inputs)
        found = evaluate(grads, dict(zip(inputs, values)))
        for i, value in enumerate(values):
            assert found[i].shape == value.shape
            assert grads[i].shape.is_compatible_with(list(value.shape))
            expected = _differences(total, inputs, values, i)
            np.testing.assert_allclose(found[i], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("name", sorted(CASES))
def test_gradient_is_the_slope(name: str, static: bool) -> None:
    _check(*CASES[name], rank_known=False, static=static)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("name", sorted(_STATIC_RANK))
def test_gradient_of_a_contraction_is_the_slope(name: str, static: bool) -> None:
    _check(*_STATIC_RANK[name], rank_known=True, static=static)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "sqrt", "rsqrt", "reciprocal", "square"])
def test_second_gradient_is_the_slope_of_the_first(name: str) -> None:
    function, _ = CASES[name]
    value = _positive(2, 3)

    def first(x: Any) -> Any:
        return gradients(function(x), x)[0]

    _check(first, [value], rank_known=False, static=True)


def test_a_row_added_to_rows_of_unknown_number_is_summed_without_asking_at_run_time() -> None:
    with Graph().as_default() as graph:
        rows = apply_op("Placeholder", dtype="float32", shape=[None, 3])
        row = apply_op("Placeholder", dtype="float32", shape=[3])
        gradients(arithmetic.add(rows, row), [rows, row])
        kinds = {op.type for op in graph.get_operations()}
    assert "Sum" in kinds
    assert "BroadcastGradientArgs" not in kinds


def test_integers_and_comparisons_pass_no_gradient() -> None:
    with Graph().as_default():
        x = apply_op("Placeholder", dtype="float32", shape=[3])
        whole = casts.cast(casts.cast(x, "int32"), "float32")
        assert gradients(whole, x) == [None]
        chosen = casts.cast(comparison.greater(x, 0), "float32")
        assert gradients(chosen, x) == [None]
