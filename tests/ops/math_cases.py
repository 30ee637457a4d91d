"""Rows for the math ops: inputs and attrs on which both tiers must agree with TensorFlow."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ops.harness import Case

_random = np.random.default_rng(7)
_HALF = ("float16", ml_dtypes.bfloat16)


def _numbers(dtype: Any, *shape: int) -> Any:
    kind = np.dtype(dtype).kind
    if kind in "iu":
        low = 1 if kind == "u" else -9
        return _random.integers(low, 10, shape).astype(dtype)
    if kind == "c":
        return (_random.normal(size=shape) + 1j * _random.normal(size=shape)).astype(dtype)
    if kind == "b":
        return _random.random(shape) < 0.5
    return _random.normal(size=shape).astype(dtype)


def _nonzero(x: Any) -> Any:
    return np.where(x == 0, np.ones_like(x), x)


SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 3e38], np.float32)
_FLOATS = ("float32", "float64", *_HALF)
_BINARY = {
    "AddV2": (*_FLOATS, "int32", "uint8", "int64", "complex64"),
    "Add": ("float32", "int32"),
    "Sub": (*_FLOATS, "int32", "int8", "complex128"),
    "Mul": (*_FLOATS, "int32", "uint16", "complex64"),
    "RealDiv": (*_FLOATS, "complex64"),
    "Div": ("float32", "int32", "uint8"),
    "FloorDiv": (*_FLOATS, "int32", "int64", "uint8"),
    "FloorMod": (*_FLOATS, "int32", "int64"),
    "TruncateDiv": ("int32", "int64", "uint8"),
    "TruncateMod": ("int32", "float32"),
    "Mod": ("int32", "float32"),
    "Maximum": (*_FLOATS, "int32", "uint8"),
    "Minimum": (*_FLOATS, "int32", "int64"),
    "SquaredDifference": (*_FLOATS, "int32", "complex64"),
    "DivNoNan": (*_FLOATS, "complex64"),
    "MulNoNan": ("float32", "float64", "complex64"),
    "Less": (*_FLOATS, "int32"),
    "LessEqual": ("float32", "int64"),
    "Greater": ("float32", "uint8"),
    "GreaterEqual": ("float32", ml_dtypes.bfloat16),
    "Equal": ("float32", "int32", "bool", "complex64"),
    "NotEqual": ("float32", "int32", "bool"),
    "Xdivy": ("float32",),
    "Atan2": ("float32", "float64"),
}
_SHAPES = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,)), ((0, 3), (1, 3)))


def binary_cases() -> list[Case]:
    """Return each elementwise op of two operands on types and shapes."""
    made = []
    for op, types in _BINARY.items():
        for dtype in types:
            x, y = _numbers(dtype, 2, 3), _nonzero(_numbers(dtype, 2, 3))
            made.append(Case(op, [x, y], id=f"{op}-{np.dtype(dtype).name}"))
        for a, b in _SHAPES:
            x, y = _numbers(types[0], *a), _nonzero(_numbers(types[0], *b))
            made.append(Case(op, [x, y]))
        if types[0] == "float32":
            for y in (SPECIAL, SPECIAL[::-1].copy(), np.float32(2), np.float32(np.inf)):
                made.append(Case(op, [SPECIAL, y], id=f"{op}-special"))
    whole = np.arange(-6, 6)
    made += [
        Case("Pow", [np.abs(_numbers("float32", 2, 3)), _numbers("float32", 3)]),
        Case("Pow", [whole.astype(np.int32), np.array(3, np.int32)]),
        Case("Pow", [SPECIAL, np.float32(2)], id="Pow-special"),
        Case("Xlogy", [_numbers("float32", 3), np.abs(_numbers("float32", 2, 3))]),
        Case("Xlogy", [np.zeros(2, np.float32), np.array([0, np.nan], np.float32)], id="Xlogy-0"),
        Case("Xlog1py", [_numbers("float64", 3), np.abs(_numbers("float64", 2, 3))]),
        Case("FloorDiv", [np.float32([1, -1, 7]), np.float32([0.1, 0.1, -2])], id="FloorDiv-near"),
        Case("FloorDiv", [whole.astype(np.int32), np.array(-4, np.int32)]),
        Case("FloorMod", [whole.astype(np.int32), np.array(-4, np.int32)]),
        Case("TruncateDiv", [whole.astype(np.int32), np.array(-4, np.int32)]),
        Case("ApproximateEqual", [np.float32([1, 1]), np.float32([1.0000001, 1.1])]),
        Case("Add", [np.array([b"a", b"b"], object), np.array(b"c", object)], jit=False),
        Case("Equal", [np.array([b"a", b"b"], object), np.array(b"b", object)], jit=False),
        Case("Equal", [np.zeros(2), np.zeros(3)], {"incompatible_shape_error": False}),
        Case("NotEqual", [np.zeros(2), np.zeros(3)], {"incompatible_shape_error": False}),
        Case("AddN", [[_numbers("float32", 2, 3)]]),
        Case("AddN", [[_numbers("int32", 2, 3) for _ in range(4)]]),
        Case("NextAfter", [SPECIAL[:4], np.float32(1)]),
    ]
    for op in ("LogicalAnd", "LogicalOr"):
        made.append(Case(op, [_numbers("bool", 2, 3), _numbers("bool", 3)]))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in ("int32", "uint8"):
            made.append(Case(op, [_numbers(dtype, 2, 3), _numbers(dtype, 3)]))
    for op in ("LeftShift", "RightShift"):
        made.append(Case(op, [_numbers("int32", 6), np.array([0, 1, 5, 31, 2, 3], np.int32)]))
    return made


_UNARY = {
    "Neg": (*_FLOATS, "int32", "complex64"),
    "Abs": (*_FLOATS, "int32", "int64"),
    "Sign": (*_FLOATS, "int32", "complex64"),
    "Square": (*_FLOATS, "int32", "uint8", "complex64"),
    "Reciprocal": (*_FLOATS, "complex64"),
    "Inv": ("float32",),
    "Exp": (*_FLOATS, "complex64"),
    "Expm1": ("float32", "float64", ml_dtypes.bfloat16),
    "Tanh": (*_FLOATS, "complex64"),
    "Sigmoid": (*_FLOATS, "complex64"),
    "Floor": _FLOATS,
    "Ceil": _FLOATS,
    "Rint": ("float32", "float64"),
    "Round": _FLOATS,
    "IsNan": _FLOATS,
    "IsInf": ("float32", ml_dtypes.bfloat16),
    "IsFinite": ("float32", "float16"),
    "Invert": ("int32", "uint8"),
    "PopulationCount": ("int32", "uint8", "int64"),
    "Conj": ("complex64", "complex128"),
}
_POSITIVE = {
    "Sqrt": (*_FLOATS, "complex64"),
    "Rsqrt": (*_FLOATS, "complex64"),
    "Log": (*_FLOATS, "complex64"),
    "Log1p": ("float32", "float64", ml_dtypes.bfloat16),
}
_SLOPES = ("SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "TanhGrad", "SigmoidGrad")


def unary_cases() -> list[Case]:
    """Return each elementwise op of one operand on types and special values."""
    made = []
    for op, types in {**_UNARY, **_POSITIVE}.items():
        for dtype in types:
            x = _numbers(dtype, 2, 5)
            if op in _POSITIVE and np.dtype(dtype).kind != "c":
                x = np.abs(x)
            made.append(Case(op, [x], id=f"{op}-{np.dtype(dtype).name}"))
        if types[0] == "float32":
            made.append(Case(op, [SPECIAL], id=f"{op}-special"))
            made.append(Case(op, [np.float32(0.25)], id=f"{op}-scalar"))
            made.append(Case(op, [np.zeros((0, 2), np.float32)], id=f"{op}-empty"))
    halves = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    made += [Case(op, [halves], id=f"{op}-halves") for op in ("Round", "Rint")]
    made.append(Case("LogicalNot", [_numbers("bool", 4)]))
    for op in _SLOPES:
        for dtype in ("float32", "float64", "complex64"):
            pair = [_nonzero(_numbers(dtype, 2, 3)), _numbers(dtype, 2, 3)]
            made.append(Case(op, pair, id=f"{op}-{dtype}"))
    for wide, narrow in (("complex64", "float32"), ("complex128", "float64")):
        made += [
            Case(op, [_numbers(wide, 2, 3)], {"T": wide, "Tout": narrow}, id=f"{op}-{wide}")
            for op in ("Real", "Imag", "ComplexAbs", "Angle")
        ]
        parts = [_numbers(narrow, 2, 3), _numbers(narrow, 3)]
        made.append(Case("Complex", parts, {"T": narrow, "Tout": wide}))
    return made


def cast_cases() -> list[Case]:
    """Return casts between types."""
    values = np.array([0.0, 1.0, -1.7, 2.5, 100.9], np.float64)
    types = (
        "float32",
        "float64",
        "float16",
        ml_dtypes.bfloat16,
        "int32",
        "int64",
        "int8",
        "bool",
        "complex64",
    )
    made = []
    for source in types:
        for target in types:
            names = f"{np.dtype(source).name}-{np.dtype(target).name}"
            made.append(Case("Cast", [values.astype(source)], {"DstT": np.dtype(target)}, id=names))
    precise = np.array([1 / 3, -2 / 3, 1e-3, 65000.7], np.float32)
    made += [
        Case("Cast", [precise], {"DstT": target, "Truncate": True}, id=f"Cast-truncate-{target}")
        for target in ("bfloat16", "float16")
    ]
    made.append(Case("Cast", [np.array([np.nan, np.inf], np.float32)], {"DstT": "bool"}))
    return made


def choice_cases() -> list[Case]:
    """Return Select and SelectV2 on conditions of all kinds."""
    made = []
    for dtype in ("float32", "int64", "bool", ml_dtypes.bfloat16):
        x, y = _numbers(dtype, 2, 3), _numbers(dtype, 2, 3)
        for condition in (np.array(True), np.array([True, False]), _numbers("bool", 2, 3)):
            made.append(Case("Select", [condition, x, y]))
        for condition in (np.array(False), np.array([True, False, True]), _numbers("bool", 2, 1)):
            made.append(Case("SelectV2", [condition, x, y]))
    words = np.array([b"a", b"b"], object)
    made.append(Case("SelectV2", [np.array([True, False]), words, words[::-1].copy()], jit=False))
    return made


def reduction_cases() -> list[Case]:
    """Return reductions along axes, over nothing, of every kind."""
    made = []
    axes: list[Any] = [0, 1, -1, [0], [0, 2], [-1, 0], [0, 1, 2], []]
    for op in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"):
        for keep in (False, True):
            for axis in axes:
                x = _numbers("float32", 2, 3, 2)
                made.append(_reduce(op, x, axis, keep))
        for dtype in ("float64", "int32", *_HALF):
            made.append(_reduce(op, _numbers(dtype, 3, 4), 1, False))
        made.append(_reduce(op, np.zeros((2, 0), np.float32), 1, False))
        made.append(_reduce(op, np.zeros((0, 3), np.float32), 1, True))
        made.append(_reduce(op, SPECIAL, 0, False))
        made.append(_reduce(op, np.float32(3), [], False))
    made += [_reduce(op, _numbers("complex64", 2, 3), 0, False) for op in ("Sum", "Mean", "Prod")]
    for op in ("Max", "Min"):
        made.append(_reduce(op, np.zeros((2, 0), np.int32), 1, False))
        made.append(_reduce(op, np.float32([np.nan, 1]), 0, False))
    for op in ("All", "Any"):
        for axis in (0, [0, 1], []):
            made.append(_reduce(op, _numbers("bool", 3, 2), axis, False))
        made.append(_reduce(op, np.zeros((0, 2), bool), 0, True))
    for op in ("ArgMax", "ArgMin"):
        for axis in (0, 1, -1):
            made.append(Case(op, [_numbers("float32", 3, 4), np.int32(axis)]))
        tie = np.int32([[1, 5, 5], [0, 0, 2]])
        made.append(Case(op, [tie, np.int32(1)], {"output_type": "int32"}))
    return made


def _reduce(op: str, x: Any, axis: Any, keep: bool) -> Case:
    name = f"{op}-{x.dtype.name}-{'x'.join(map(str, x.shape))}-{axis}-{keep}"
    atol = 1e-3 if x.dtype.itemsize < 4 else 1e-6
    axes = np.array(axis, np.int32)
    return Case(op, [x, axes], {"keep_dims": keep}, id=name, rtol=3e-5, atol=atol)


def matmul_cases() -> list[Case]:
    """Return products of matrices and of stacks."""
    made = []
    for dtype in (*_FLOATS, "int32", "complex64"):
        a, b = _numbers(dtype, 3, 4), _numbers(dtype, 4, 2)
        for turn_a in (False, True):
            for turn_b in (False, True):
                attrs = {"transpose_a": turn_a, "transpose_b": turn_b}
                pair = [a.T.copy() if turn_a else a, b.T.copy() if turn_b else b]
                name = f"MatMul-{np.dtype(dtype).name}-{turn_a}-{turn_b}"
                made.append(Case("MatMul", pair, attrs, id=name, atol=1e-5))
    made.append(Case("MatMul", [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)]))
    stacks = (((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 1)))
    for a, b in stacks:
        for dtype in ("float32", "complex64"):
            pair = [_numbers(dtype, *a), _numbers(dtype, *b)]
            made.append(Case("BatchMatMulV2", pair, atol=1e-5))
            pair = [pair[0].swapaxes(-1, -2).copy(), pair[1].swapaxes(-1, -2).copy()]
            made.append(Case("BatchMatMulV2", pair, {"adj_x": True, "adj_y": True}, atol=1e-5))
    made.append(Case("BatchMatMul", [_numbers("float32", 2, 3, 4), _numbers("float32", 2, 4, 1)]))
    pair = [_numbers("int8", 2, 3), _numbers("int8", 3, 2)]
    made.append(Case("BatchMatMulV3", pair, {"Tout": "int32"}))
    a, b = np.maximum(_numbers("float32", 3, 4), 0), _numbers("float32", 4, 2)
    for hint in ("a_is_sparse", "b_is_sparse"):
        for turn in (False, True):
            attrs = {hint: True, "transpose_a": turn, "transpose_b": turn}
            pair = [a.T.copy(), b.T.copy()] if turn else [a, b]
            made.append(Case("SparseMatMul", pair, attrs, id=f"SparseMatMul-{hint}-{turn}"))
    return made


def sequence_cases() -> list[Case]:
    """Return ranges and running sums."""
    bounds = [(0, 5, 1), (3, 18, 4), (5, 0, -2), (2, 2, 1)]
    made = [
        Case("Range", [np.array(v, d) for v in b], id=f"Range-{d}-{b}")
        for b in bounds
        for d in ("int32", "int64", "float32", "float64")
    ]
    made.append(Case("Range", [np.float32(0), np.float32(1), np.float32(0.1)], id="Range-tenths"))
    for count in (1, 2, 7):
        made.append(Case("LinSpace", [np.float32(-1), np.float32(3), np.int32(count)]))
    for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp"):
        for exclusive in (False, True):
            for reverse in (False, True):
                attrs = {"exclusive": exclusive, "reverse": reverse}
                for axis in (0, 1, -1):
                    x = _numbers("float32", 3, 4)
                    name = f"{op}-{exclusive}-{reverse}-{axis}"
                    made.append(Case(op, [x, np.int32(axis)], attrs, id=name))
        made.append(Case(op, [np.zeros((0, 2), np.float32), np.int32(0)], id=f"{op}-empty"))
    made.append(Case("Cumsum", [_numbers("int8", 5), np.int32(0)]))
    return made


def segment_cases() -> list[Case]:
    """Return sorted and unsorted segments, with gaps and dropped rows."""
    made = []
    for kind in ("Sum", "Prod", "Max", "Min"):
        op = f"UnsortedSegment{kind}"
        for dtype in ("float32", "int32", "float64", ml_dtypes.bfloat16):
            ids = np.int32([2, 0, -1, 2, 0])
            made.append(Case(op, [_numbers(dtype, 5, 3), ids, np.int32(4)]))
        ids = np.int64([[0, 1], [3, 1]])
        made.append(Case(op, [_numbers("float32", 2, 2, 2), ids, np.int32(4)]))
        made.append(Case(op, [_numbers("float32", 2, 2), ids, np.int32(4)]))
        empty = [np.zeros((0, 2), np.float32), np.zeros(0, np.int32), np.int32(3)]
        made.append(Case(op, empty))
        narrow = [np.zeros((2, 0), np.float32), np.int32([5, 1]), np.int32(3)]
        made.append(Case(op, narrow, id=f"{op}-without-columns"))
        draw = np.random.default_rng(0)
        for count, size in ((4, 70), (40, 80), (200, 70)):
            many = draw.integers(-1, count, size).astype(np.int32)
            rows = draw.uniform(0.5, 2, (size, 3)).astype(np.float32)
            name = f"{op}-{size}-in-{count}"
            made.append(Case(op, [rows, many, np.int32(count)], id=name))
    for kind in ("Sum", "Mean", "Prod", "Max", "Min"):
        ids = np.int32([0, 0, 2, 3, 3])
        for dtype in ("float32", "int32"):
            made.append(Case(f"Segment{kind}", [_numbers(dtype, 5, 2), ids]))
        made.append(Case(f"Segment{kind}", [_numbers("float64", 5), ids.astype(np.int64)]))
    return made


# TensorFlow has no half kernel for these, or one that is far from exact.
_FLOAT_ONLY = ("Acosh", "Asinh", "Atanh", "Erfinv", "Ndtri", "BesselI0", "BesselI1")


def special_cases() -> list[Case]:
    """Return trigonometry and the special functions on their domains."""
    made = []
    inside = np.float32([-0.9, -0.3, 0.0, 0.2, 0.75])
    above = np.float32([1.1, 2.0, 3.5, 0.4 + 1, 9.0])
    anywhere = np.float32([-2.5, -0.4, 0.3, 1.7, 6.0])
    domains = {
        "Sin": anywhere,
        "Cos": anywhere,
        "Tan": anywhere,
        "Asin": inside,
        "Acos": inside,
        "Atan": anywhere,
        "Sinh": anywhere,
        "Cosh": anywhere,
        "Asinh": anywhere,
        "Acosh": above,
        "Atanh": inside,
        "Erf": anywhere,
        "Erfc": anywhere,
        "Erfinv": inside,
        "Ndtri": np.abs(inside[[0, 1, 3, 4]]),
        "Lgamma": anywhere,
        "Digamma": above,
        "BesselI0": anywhere,
        "BesselI1": anywhere,
        "BesselI0e": anywhere,
        "BesselI1e": anywhere,
    }
    for op, x in domains.items():
        for dtype in ("float32", "float64", "float16"):
            if dtype == "float16" and op in _FLOAT_ONLY:
                continue
            rtol = 1e-4 if dtype == "float32" else 1e-6
            made.append(Case(op, [x.astype(dtype)], rtol=rtol, atol=1e-5, id=f"{op}-{dtype}"))
    made += [
        Case("Polygamma", [np.float32([1, 2, 3]), np.float32([1.5, 2, 4])], rtol=1e-4),
        Case("Zeta", [np.float32([1.5, 2, 4]), np.float32([1, 2, 3])], rtol=1e-4),
        Case("Igamma", [np.float32([0.5, 2, 4]), np.float32([1, 2, 3])], rtol=1e-4),
        Case("Igammac", [np.float32([0.5, 2, 4]), np.float32([1, 2, 3])], rtol=1e-4),
        Case(
            "Betainc", [np.float32([0.5, 2]), np.float32([1, 2]), np.float32([0.2, 0.7])], rtol=1e-4
        ),
    ]
    return made


def composed_cases() -> list[Case]:
    """Return contractions and clipping."""
    a, b, c = (_numbers("float32", *s) for s in ((2, 3), (3, 4), (5, 2, 3)))
    made = [
        Case("Einsum", [[x, y]], {"equation": e}, id=f"Einsum-{e}", atol=1e-5)
        for e, x, y in (
            ("ij,jk->ik", a, b),
            ("ij,kij->k", a, c),
            ("ij,jk->", a, b),
            ("...ij,jk->...ik", c, b),
            ("ij,ij->ij", a, a),
        )
    ]
    made += [
        Case("Einsum", [[c]], {"equation": "ijk->ki"}),
        Case("ClipByValue", [_numbers("float32", 4), np.float32(-0.5), np.float32(0.5)]),
        Case("ClipByValue", [np.int32([1, 5, 9]), np.int32([2, 2, 2]), np.int32(6)]),
        Case("ClipByValue", [np.float32([1, 5]), np.float32(4), np.float32(2)], id="Clip-crossed"),
    ]
    return made


def counting_cases() -> list[Case]:
    """Return sparse segments, counts and histograms."""
    made = []
    indices, ids = np.int32([4, 0, 0, 2]), np.int32([0, 0, 2, 2])
    for kind in ("Sum", "Mean", "SqrtN"):
        data = _numbers("float32", 5, 3)
        made += [
            Case(f"SparseSegment{kind}", [data, indices, ids]),
            Case(f"SparseSegment{kind}WithNumSegments", [data, indices, ids, np.int32(5)]),
            Case(f"SparseSegment{kind}Grad", [data[:3], indices, ids, np.int32(6)]),
        ]
    nothing = np.zeros(0, np.float32)
    made += [
        Case("Bincount", [np.int32([1, 3, 1, 9]), np.int32(4), nothing]),
        Case("Bincount", [np.int32([1, 3, 1]), np.int32(5), _numbers("float32", 3)]),
        Case("DenseBincount", [np.int64([[1, 0], [2, 2]]), np.int64(3), np.zeros(0, np.int32)]),
        Case("DenseBincount", [np.int32([2, 2, 7]), np.int32(3), nothing], {"binary_output": True}),
        Case(
            "HistogramFixedWidth",
            [np.float32([-1, 0, 1.5, 2, 5, 15]), np.float32([0, 5]), np.int32(5)],
        ),
        Case(
            "Bucketize",
            [np.int32([[-5, 10000], [150, 10], [5, 100]])],
            {"boundaries": [0.0, 10.0, 100.0]},
        ),
        Case("Bucketize", [np.float32([0.1, 0.2, 0.3])], {"boundaries": [0.1, 0.2]}),
        Case("Cross", [_numbers("float32", 2, 3), _numbers("float32", 2, 3)]),
    ]
    return made
