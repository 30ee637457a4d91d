"""The math ops by themselves: values in both tiers, errors, shapes, operators, public names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.ops  # noqa: F401 - defines the ops
from ops import math_cases
from ops.evaluate import evaluate
from ops.harness import Case, run
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph
from tideflow.ops.export import exports
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.linalg import einsum
from tideflow.ops.linalg import products as matmul
from tideflow.ops.math import (
    arithmetic,
    casts,
    comparison,
    counting,
    division,
    elementwise,
    ranges,
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
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError


def _value(build: Any) -> Any:
    """Return what a graph built by a function computes."""
    with Graph().as_default(), np.errstate(all="ignore"):
        return evaluate([convert_to_tensor(build())])[0]


def _placeholder(shape: Any, dtype: str = "float32") -> Any:
    return apply_op("Placeholder", dtype=dtype, shape=shape)


# ---- both tiers

SAMPLE = [
    *math_cases.matmul_cases()[::5],
    *math_cases.reduction_cases()[::12],
    *math_cases.segment_cases()[::4],
    *math_cases.counting_cases(),
    *math_cases.sequence_cases()[::6],
]


@pytest.mark.parametrize("case", [c for c in SAMPLE if c.jit], ids=str)
def test_both_tiers_agree(case: Case) -> None:
    for ours, traced in zip(run(case), run(case, "jax"), strict=True):
        assert ours.shape == traced.shape
        np.testing.assert_allclose(
            np.asarray(ours, np.complex128),
            np.asarray(traced, np.complex128),
            rtol=2e-2 if ours.dtype.itemsize < 4 else 1e-4,
            atol=1e-4,
        )


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("FloorDiv", [-7, 7], [2, -2], [-4, -4]),
        ("FloorMod", [-7, 7], [3, -3], [2, -2]),
        ("TruncateDiv", [-7, 7], [2, -2], [-3, -3]),
        ("TruncateMod", [-7, 7], [3, -3], [-1, 1]),
        ("Pow", [2, -3], [5, 3], [32, -27]),
        ("SquaredDifference", [1, 5], [3, 2], [4, 9]),
    ],
)
def test_integer_arithmetic(op: str, x: Any, y: Any, expected: Any) -> None:
    for tier in ("numpy", "jax"):
        found = run(Case(op, [np.int32(x), np.int32(y)]), tier)[0]
        assert found.tolist() == expected


def test_floor_division_of_floats_rounds_the_quotient_down() -> None:
    # NumPy's own floor_divide answers 9 here, from the exact remainder.
    assert run(Case("FloorDiv", [np.float32([1.0]), np.float32([0.1])]))[0].tolist() == [10.0]


def test_long_half_sums_do_not_stop_growing() -> None:
    ones = np.ones(5000, np.float16)
    assert float(run(Case("Sum", [ones, np.int32(0)]))[0]) == 5000
    data = [np.ones((5000, 1), np.float16), np.zeros(5000, np.int32), np.int32(1)]
    assert float(run(Case("UnsortedSegmentSum", data))[0][0, 0]) == 5000


# ---- errors


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("FloorDiv", [np.int32([1]), np.int32([0])]), "division by zero"),
        (Case("FloorMod", [np.int32([1]), np.int32([0])]), "division by zero"),
        (Case("TruncateDiv", [np.int32([1]), np.int32([0])]), "division by zero"),
        (Case("Pow", [np.int32([2]), np.int32([-1])]), "negative integer powers"),
        (Case("UnsortedSegmentSum", [np.ones(2), np.int32([0, 3]), np.int32(3)]), "num_segments"),
        (Case("SparseSegmentSum", [np.ones((2, 1)), np.int32([5]), np.int32([0])]), "out of range"),
        (Case("Bincount", [np.int32([-1]), np.int32(2), np.zeros(0)]), "non-negative"),
        (Case("ClipByValue", [np.ones(3), np.ones(2), np.ones(())]), "clip_value_min"),
        (Case("ArgMax", [np.ones((2, 0)), np.int32(1)]), "empty"),
        (Case("Sum", [np.ones((2, 2)), np.int32([0, 0])]), "duplicate"),
    ],
    ids=str,
)
def test_a_bad_value_is_an_invalid_argument(case: Case, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run(case)


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("AddV2", [(2, 3), (2, 4)], "broadcast"),
        ("MatMul", [(2, 3), (4, 5)], "inner sizes"),
        ("MatMul", [(2, 3, 1), (4, 5)], "rank 2"),
        ("BatchMatMulV2", [(2, 3), (2, 4, 5)], "inner sizes"),
        ("AddN", [[(2,), (3,)]], "compatible"),
    ],
)
def test_shapes_that_cannot_fit_are_refused_when_built(op: str, inputs: Any, message: str) -> None:
    with Graph().as_default():
        made = [
            [_placeholder(s) for s in i] if isinstance(i, list) else _placeholder(i) for i in inputs
        ]
        with pytest.raises(ValueError, match=message):
            apply_op(op, *made)


def test_ranges_that_lead_away_are_refused() -> None:
    with Graph().as_default():
        for bounds in ((0, 5, 0), (5, 0, 1), (0, 5, -1)):
            with pytest.raises(ValueError, match="delta"):
                ranges.range(*bounds)


def test_operands_of_different_types_are_refused() -> None:
    with Graph().as_default(), pytest.raises((TypeError, ValueError), match="float32"):
        arithmetic.add(np.float32(1), convert_to_tensor(np.int32(1)))


# ---- static shapes


def test_static_shapes() -> None:
    with Graph().as_default():
        x = _placeholder([None, 3])
        assert arithmetic.add(x, _placeholder([3])).shape.as_list() == [None, 3]
        assert reduce.reduce_sum(x, 0).shape.as_list() == [3]
        assert reduce.reduce_sum(x, [-1], keepdims=True).shape.as_list() == [None, 1]
        assert reduce.reduce_mean(x).shape.as_list() == []
        assert reduce.reduce_sum(_placeholder(None)).shape.rank == 0
        assert matmul.matmul(x, _placeholder([3, 7])).shape.as_list() == [None, 7]
        assert matmul.matmul(x, x, transpose_a=True).shape.as_list() == [3, 3]
        stack = matmul.matmul(_placeholder([5, 1, 2, 3]), _placeholder([4, 3, 6]))
        assert stack.shape.as_list() == [5, 4, 2, 6]
        assert reduce.argmax(x, 1).shape.as_list() == [None]
        sums = segment.unsorted_segment_sum(x, _placeholder([None], "int32"), 4)
        assert sums.shape.as_list() == [4, 3]
        assert ranges.range(2, 11, 3).shape.as_list() == [3]
        batch, weights = _placeholder([None, 2, 3]), _placeholder([3, 4])
        assert einsum.einsum("bij,jk->bik", batch, weights).shape.as_list() == [None, 2, 4]
        chosen = apply_op(
            "Select", _placeholder([4], "bool"), _placeholder([None, 2]), _placeholder([None, 2])
        )
        assert chosen.shape.as_list() == [4, 2]


# ---- operators


def test_python_operators_build_the_ops() -> None:
    with Graph().as_default():
        x, n = _placeholder([2, 2]), _placeholder([2], "int32")
        flags = _placeholder([2], "bool")
        built = {
            "AddV2": [x + 1, 1 + x, x + x],
            "Sub": [x - 1, 1 - x],
            "Mul": [x * 2, 2 * x, np.float32(2) * x],
            "RealDiv": [x / 2, 1 / x, n / 2],
            "FloorDiv": [x // 2, n // 2],
            "FloorMod": [x % 2, 5 % n],
            "Pow": [x**2, 2**x],
            "MatMul": [x @ x],
            "Neg": [-x],
            "Abs": [abs(x)],
            "Less": [x < 1],
            "GreaterEqual": [x >= x],
            "LogicalAnd": [flags & flags, flags & True],
            "LogicalOr": [flags | flags],
            "BitwiseXor": [n ^ 1],
            "LogicalNot": [~flags],
            "Invert": [~n],
        }
        for kind, tensors in built.items():
            assert [t.op.type for t in tensors] == [kind] * len(tensors)
        assert (n / 2).dtype is dtypes.float64
        assert (x * 3).dtype is dtypes.float32
        assert (x == x) is True
        assert [(x + 1).op.name.split("_")[0], (x * 2).op.name.split("_")[0]] == ["add", "mul"]


def test_operators_compute() -> None:
    x = np.float32([[1, 2], [3, 4]])
    assert _value(lambda: (convert_to_tensor(x) @ x + 1) / 2).tolist() == [[4, 5.5], [8, 11.5]]
    assert _value(lambda: 7 - convert_to_tensor(np.int32([1, 2]))).tolist() == [6, 5]
    flags = np.array([True, False])
    assert _value(lambda: convert_to_tensor(flags) ^ True).tolist() == [False, True]


# ---- public functions


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: division.divide(np.int32([7]), np.int32([2])), [3.5]),
        (lambda: division.div(np.int32([-7]), np.int32([2])), [-4]),
        (lambda: arithmetic.accumulate_n([np.float32([1]), np.float32([2])]), [3]),
        (lambda: arithmetic.add(np.array([b"a"], object), "b"), [b"ab"]),
        (lambda: casts.cast([1.8, -1.8], "int32"), [1, -1]),
        (lambda: casts.saturate_cast([300.0, -5.0, 7.0], "uint8"), [255, 0, 7]),
        (lambda: casts.saturate_cast([3e10, -3e10], "int32"), [2147483520, -2147483648]),
        (lambda: casts.real(np.complex64([1 + 2j])), [1.0]),
        (lambda: casts.to_float(np.int64([3])), [3.0]),
        (lambda: comparison.logical_xor([True, False], [True, True]), [False, True]),
        (lambda: comparison.is_non_decreasing([1, 1, 3]), True),
        (lambda: comparison.is_strictly_increasing([1, 1, 3]), False),
        (lambda: comparison.is_strictly_increasing(np.zeros(0, np.float32)), True),
        (lambda: elementwise.reciprocal_no_nan(np.float32([0, 4])), [0, 0.25]),
        (lambda: elementwise.round([2.5, 3.5, -0.4]), [2.0, 4.0, -0.0]),
        (lambda: reduce.count_nonzero([[0, 1], [2, 0]], axis=1), [1, 1]),
        (lambda: reduce.reduce_std([1.0, 3.0]), 1.0),
        (lambda: reduce.reduce_sum([[1, 2], [3, 4]], reduction_indices=[0]), [4, 6]),
        (lambda: reduce.argmax([3, 9, 9]), 1),
        (lambda: reduce.trace(np.float32([[1, 2], [3, 4]])), 5.0),
        (lambda: reduce.norm([[3.0, 4.0]], axis=1), [5.0]),
        (lambda: reduce.norm([[3.0, -4.0]], np.inf), 4.0),
        (lambda: reduce.norm([[1.0, 2.0], [3.0, -9.0]], 1, axis=[0, 1]), 11.0),
        (lambda: counting.confusion_matrix([0, 1, 1], [0, 1, 0]), [[1, 0], [1, 1]]),
        (lambda: ranges.range(3, dtype="float32"), [0.0, 1.0, 2.0]),
        (lambda: ranges.linspace(0.0, 1.0, 3), [0.0, 0.5, 1.0]),
        (lambda: ranges.linspace([0.0, 2.0], [1.0, 4.0], 3), [[0.0, 2.0], [0.5, 3.0], [1.0, 4.0]]),
        (lambda: counting.bincount([1, 1, 3]), [0, 2, 0, 1]),
        (lambda: counting.bincount([1, 1, 3], minlength=6), [0, 2, 0, 1, 0, 0]),
        (lambda: counting.bincount([1, 1, 3], maxlength=2), [0, 2]),
        (lambda: counting.bincount(np.zeros(0, np.int32)), []),
        (lambda: clip.clip_by_value([-3.0, 0.5, 9.0], -1.0, 1.0), [-1.0, 0.5, 1.0]),
        (lambda: clip.clip_by_norm([3.0, 4.0], 1.0), [np.float32(0.6), np.float32(0.8)]),
        (lambda: clip.clip_by_norm([0.0, 0.0], 1.0), [0.0, 0.0]),
        (lambda: clip.global_norm([[3.0], None, [4.0]]), 5.0),
        (lambda: segment.unsorted_segment_mean([2.0, 4.0, 9.0], [0, 0, 2], 3), [3.0, 0.0, 9.0]),
        (lambda: special.lbeta([[1.0, 1.0]]), [0.0]),
        (lambda: einsum.tensordot([[1.0, 2.0]], [[3.0], [4.0]], 1), [[11.0]]),
        (lambda: matmul.matvec([[1.0, 2.0]], [3.0, 4.0]), [11.0]),
    ],
)
def test_public_functions(build: Any, expected: Any) -> None:
    assert _value(build).tolist() == expected


def test_reduce_logsumexp_neither_overflows_nor_loses_infinities() -> None:
    found = _value(lambda: reduce.reduce_logsumexp([[1000.0, 1000.0], [-np.inf, -np.inf]], 1))
    assert found[0] == pytest.approx(1000 + np.log(2), rel=1e-6)
    assert found[1] == -np.inf


def test_clip_by_global_norm_scales_all_and_shows_what_is_not_finite() -> None:
    with Graph().as_default(), np.errstate(all="ignore"):
        clipped, norm = clip.clip_by_global_norm([[3.0], None, [4.0]], 1.0)
        assert clipped[1] is None
        found = evaluate([clipped[0], clipped[2], norm])
        np.testing.assert_allclose([*found[0], *found[1], found[2]], [0.6, 0.8, 5], rtol=1e-6)
        bad, _ = clip.clip_by_global_norm([[np.inf], [4.0]], 1.0)
        assert np.isnan(evaluate([bad[1]])[0]).all()


def test_slices_stay_slices_under_scaling_clipping_and_casts() -> None:
    with Graph().as_default():
        slices = IndexedSlices(
            convert_to_tensor([[3.0], [4.0]]), convert_to_tensor([0, 2]), convert_to_tensor([5, 1])
        )
        made = [
            arithmetic.scalar_mul(2.0, slices),
            convert_to_tensor(2.0) * slices,
            casts.cast(slices, "float64"),
            clip.clip_by_norm(slices, 1.0),
            clip.clip_by_global_norm([slices], 1.0)[0][0],
        ]
        assert all(isinstance(m, IndexedSlices) and m.indices is slices.indices for m in made)
        found = evaluate([m.values for m in made])
        for value, expected in zip(found, ([6, 8], [6, 8], [3, 4], [0.6, 0.8], [0.6, 0.8])):
            np.testing.assert_allclose(value[:, 0], expected, rtol=1e-6)


def test_reductions_refuse_both_names_of_an_argument() -> None:
    with Graph().as_default(), pytest.raises(ValueError, match="reduction_indices"):
        reduce.reduce_sum([1.0], axis=0, reduction_indices=0)


def test_matmul_of_a_row_major_transpose_is_one_op() -> None:
    with Graph().as_default() as graph:
        matmul.matmul(_placeholder([3, 2]), _placeholder([3, 4]), transpose_a=True)
        assert [op.type for op in graph.get_operations()].count("MatMul") == 1
        with pytest.raises(ValueError, match="adjoint_a"):
            matmul.matmul(_placeholder([2, 2]), _placeholder([2, 2]), True, adjoint_a=True)


def test_names_of_the_v1_api() -> None:
    names = exports()
    for name in (
        "add",
        "math.add",
        "matmul",
        "linalg.matmul",
        "reduce_sum",
        "math.reduce_sum",
        "cast",
        "to_float",
        "range",
        "argmax",
        "clip_by_global_norm",
        "global_norm",
        "einsum",
        "tensordot",
        "unsorted_segment_sum",
        "math.segment_sum",
        "bitwise.invert",
        "mod",
        "div",
        "div_no_nan",
        "math.divide_no_nan",
        "squared_difference",
        "saturate_cast",
        "cumsum",
        "is_nan",
        "lgamma",
        "complex",
        "conj",
        "count_nonzero",
        "scalar_mul",
        "accumulate_n",
    ):
        assert callable(names[name]), name
