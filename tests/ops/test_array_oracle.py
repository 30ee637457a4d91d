"""Array, random and string ops beside TensorFlow's own kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.ops.array.diagonals
import tideflow.ops.array.padding
import tideflow.ops.array.scattering
import tideflow.ops.array.searching
import tideflow.ops.array.slicing
import tideflow.ops.framework.constants
import tideflow.ops.nn.blocks
import tideflow.ops.random.stateless
import tideflow.ops.strings.formatting  # noqa: F401
from ops.harness import Case, check_against_tensorflow
from ops.outcomes import Call, as_array, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)
WIDE = np.arange(30, dtype=np.float64).reshape(2, 3, 5)
EMPTY = np.zeros((0, 3), np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def strings(*values: str) -> np.ndarray:
    return np.array([value.encode() for value in values], object)


I32 = np.int32

SHAPES = [
    Case("Identity", [CUBE]),
    Case("IdentityN", [[CUBE, ints(1)]]),
    Case("Shape", [CUBE]),
    Case("Shape", [np.float32(3)], {"out_type": "int64"}),
    Case("ShapeN", [[CUBE, EMPTY]]),
    Case("Size", [EMPTY]),
    Case("Rank", [CUBE]),
    Case("ZerosLike", [CUBE]),
    Case("ZerosLike", [strings("a", "b")], jit=False),
    Case("OnesLike", [CUBE.astype(np.complex64)]),
    Case("Fill", [ints(2, 0, 3), np.float64(2)]),
    Case("Fill", [ints(2), np.array(b"x", object)], jit=False),
    Case("Fill", [ints(), np.float32(1)]),
    Case("Reshape", [CUBE, ints(4, -1)]),
    Case("Reshape", [EMPTY, ints(3, 0, 5)]),
    Case("Reshape", [np.float32(2), ints(1, 1)]),
    Case("ExpandDims", [CUBE, I32(-1)]),
    Case("ExpandDims", [CUBE, I32(0)]),
    Case("BroadcastTo", [CUBE[:1, :, :1], ints(5, 2, 3, 4)]),
    Case("BroadcastTo", [np.float32(3), ints(0, 2)]),
    Case("BroadcastArgs", [ints(2, 1, 3), ints(4, 1)]),
    Case("BroadcastGradientArgs", [ints(2, 1, 3), ints(4, 1)]),
    Case("BroadcastGradientArgs", [ints(1, 1, 3), ints(3)]),
    Case("BroadcastGradientArgs", [ints(1, 2), ints(1, 2)]),
    Case("BroadcastGradientArgs", [ints(), ints(2, 3)]),
    Case("BroadcastGradientArgs", [ints(1, 1), ints(1, 2)]),
    Case("Transpose", [CUBE, ints(2, 0, 1)]),
    Case("InvertPermutation", [ints(2, 0, 1)]),
    Case("Bitcast", [CUBE], {"type": "int32"}),
    Case("Bitcast", [CUBE], {"type": "uint8"}),
    Case("Bitcast", [CUBE], {"type": "complex128"}, jit=False),
]

JOINING = [
    Case("Pack", [[CUBE, CUBE]], {"axis": 1}),
    Case("Pack", [[CUBE, CUBE]], {"axis": -1}),
    Case("Pack", [[np.float32(1), np.float32(2)]]),
    Case("Pack", [[strings("a"), strings("b")]], jit=False),
    Case("Unpack", [CUBE], {"num": 3, "axis": 1}),
    Case("Unpack", [strings("a", "b")], {"num": 2}, jit=False),
    Case("ConcatV2", [[CUBE, CUBE[:, :1]], I32(1)]),
    Case("ConcatV2", [[CUBE, CUBE, CUBE], I32(-3)]),
    Case("ConcatV2", [[EMPTY, CUBE[0].T], I32(0)]),
    Case("Concat", [I32(1), [CUBE, CUBE[:, :1]]]),
    Case("Concat", [I32(0), [strings("a"), strings("b", "c")]], jit=False),
    Case("ConcatOffset", [I32(1), [ints(2, 3), ints(2, 5), ints(2, 0)]]),
    Case("Split", [I32(-1), CUBE], {"num_split": 2}),
    Case("SplitV", [CUBE, np.array([1, -1, 1]), I32(2)], {"num_split": 3}),
    Case("Tile", [CUBE, ints(2, 1, 3)]),
    Case("Tile", [strings("a"), ints(0)], jit=False),
    Case("Pad", [CUBE, ints(1, 0, 0, 2, 1, 1).reshape(3, 2)]),
    Case("PadV2", [CUBE, ints(1, 0, 0, 2, 1, 1).reshape(3, 2), np.float32(7)]),
    Case("MirrorPad", [SQUARE, ints(1, 3, 2, 0).reshape(2, 2)], {"mode": "REFLECT"}),
    Case("MirrorPad", [SQUARE, ints(4, 3, 2, 0).reshape(2, 2)], {"mode": "SYMMETRIC"}),
    Case("MirrorPadGrad", [SQUARE, ints(1, 1, 0, 0).reshape(2, 2)], {"mode": "SYMMETRIC"}),
    Case("MirrorPadGrad", [SQUARE, ints(1, 0, 0, 1).reshape(2, 2)], {"mode": "REFLECT"}),
    Case("ReverseV2", [CUBE, ints(0, -1)]),
    Case("ReverseV2", [CUBE, ints()]),
    Case("Roll", [CUBE, ints(1, -2), ints(0, 2)]),
    Case("ReverseSequence", [SQUARE, np.array([0, 2, 3, 4])], {"seq_dim": 1}),
    Case("ReverseSequence", [CUBE, np.array([1, 2, 3, 0])], {"seq_dim": 1, "batch_dim": 2}),
    Case("SpaceToBatchND", [CUBE.reshape(2, 3, 4, 1), ints(2, 2), ints(1, 0, 0, 0).reshape(2, 2)]),
    Case("BatchToSpaceND", [CUBE.reshape(4, 3, 2, 1), ints(2, 2), ints(1, 0, 0, 1).reshape(2, 2)]),
    Case("DepthToSpace", [CUBE.reshape(1, 2, 3, 4)], {"block_size": 2}),
    Case("SpaceToDepth", [CUBE.reshape(1, 2, 6, 2)], {"block_size": 2}),
]

INDEXING = [
    Case("StridedSlice", [CUBE, ints(0, -1), ints(2, 0), ints(1, -1)]),
    Case("StridedSlice", [CUBE, ints(1, 0), ints(2, 3), ints(1, 1)], {"shrink_axis_mask": 1}),
    Case("StridedSlice", [CUBE, ints(0, 1), ints(0, 9), ints(1, 2)], {"ellipsis_mask": 1}),
    Case("StridedSlice", [CUBE, ints(0, 1), ints(0, 2), ints(1, 1)], {"new_axis_mask": 1}),
    Case(
        "StridedSlice",
        [CUBE, ints(0, 0, 0), ints(0, 0, 0), ints(1, 2, -1)],
        {"begin_mask": 7, "end_mask": 7},
    ),
    Case(
        "StridedSlice",
        [strings("a", "b"), ints(1), ints(2), ints(1)],
        {"shrink_axis_mask": 1},
        jit=False,
    ),
    Case("StridedSlice", [CUBE, ints(1), ints(1), ints(1)]),
    Case(
        "StridedSliceGrad",
        [ints(2, 3, 4), ints(1, 0), ints(2, 3), ints(1, 2), np.ones((2, 4), np.float32)],
        {"shrink_axis_mask": 1},
    ),
    Case("Slice", [CUBE, ints(1, 0, 2), ints(1, -1, 2)]),
    Case("Slice", [CUBE, ints(2, 0, 0), ints(0, 3, 4)]),
    Case("GatherV2", [CUBE, ints(2, 0, 0).reshape(3, 1), I32(1)]),
    Case("GatherV2", [CUBE, I32(1), I32(-1)]),
    Case("GatherV2", [strings("a", "b"), I32(1), I32(0)], jit=False),
    Case("GatherV2", [CUBE, ints(0, 2, 1, 1).reshape(2, 2), I32(2)], {"batch_dims": 1}),
    Case("GatherV2", [CUBE, ints(0, 2, 1, 1).reshape(2, 2), I32(1)], {"batch_dims": -1}),
    Case("GatherV2", [EMPTY, ints(), I32(0)]),
    Case("Gather", [CUBE, ints(1, 0)]),
    Case("GatherNd", [CUBE, ints(1, 2, 0, 0).reshape(2, 2)]),
    Case("GatherNd", [CUBE, np.zeros((2, 0), np.int32)]),
    Case("ScatterNd", [ints(1, 3, 1).reshape(3, 1), CUBE[0], ints(5, 4)]),
    Case("ScatterNd", [ints(1, 2, 0, 0).reshape(2, 2), np.float32([5, 6]), ints(2, 3)]),
    Case("TensorScatterUpdate", [SQUARE, ints(1, 3).reshape(2, 1), CUBE[0, :2]]),
    Case("TensorScatterAdd", [SQUARE, ints(1, 1).reshape(2, 1), CUBE[0, :2]]),
    Case("TensorScatterSub", [SQUARE, ints(1, 1).reshape(2, 1), CUBE[0, :2]]),
    Case("TensorScatterMin", [SQUARE, ints(3, 3).reshape(2, 1), CUBE[0, :2]]),
    Case("TensorScatterMax", [SQUARE, ints(0, 0).reshape(2, 1), CUBE[0, :2]]),
    Case("OneHot", [ints(0, -1, 3), I32(3), np.float32(5), np.float32(-1)]),
    Case("OneHot", [ints(0, 2).reshape(1, 2), I32(3), np.int64(1), np.int64(0)], {"axis": 1}),
    Case("Where", [CUBE % 2 == 0]),
    Case("Unique", [ints(3, 1, 3, 2, 1)]),
    Case("Unique", [strings("b", "a", "b")], {"out_idx": "int64"}),
    Case("Unique", [np.zeros(0, np.float32)]),
    Case("Unique", [np.random.default_rng(0).integers(-30, 30, 80)]),
    Case("Unique", [np.float32([2, np.nan, 0, -0.0, np.nan, 2])]),
    Case("UniqueWithCounts", [np.float32([3, 1, 3])]),
    Case("UniqueV2", [ints(1, 2, 1, 2, 3, 4).reshape(3, 2), np.array([0])]),
    Case("UniqueWithCountsV2", [ints(1, 2, 1, 2, 3, 4).reshape(3, 2), np.array([0])]),
    Case("UniqueWithCountsV2", [strings("b", "a", "b"), np.zeros(0, np.int64)], jit=False),
    Case("UniqueWithCountsV2", [ints(3, 1, 3), ints(-1)], {"out_idx": "int64"}),
    Case("ListDiff", [ints(3, 1, 2, 3), ints(1, 9)]),
]

MATRICES = [
    Case("MatrixBandPart", [SQUARE, np.int64(1), np.int64(-1)]),
    Case("MatrixBandPart", [WIDE, np.int64(0), np.int64(2)]),
    Case("Diag", [CUBE[0, :, 0]]),
    Case("DiagPart", [SQUARE]),
    *[
        Case("MatrixDiagPartV3", [WIDE, ints(*k), np.float64(9)], {"align": align})
        for k in ((0,), (1,), (-2, 1), (-1, 3))
        for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")
    ],
    Case("MatrixDiagV3", [CUBE[0], ints(0), I32(-1), I32(-1), np.float32(0)]),
    Case("MatrixDiagV3", [CUBE[0], ints(1), I32(-1), I32(7), np.float32(3)]),
    Case("MatrixDiagV3", [CUBE, ints(-1, 1), I32(-1), I32(-1), np.float32(3)]),
    Case("MatrixDiagV3", [CUBE[0], ints(-1, 1), I32(4), I32(5), np.float32(3)]),
    Case("MatrixSetDiagV3", [WIDE, np.ones((2, 3)), ints(0)]),
    Case("MatrixSetDiagV3", [SQUARE, -CUBE[0], ints(-1, 1)], {"align": "LEFT_RIGHT"}),
]

STRINGS = [
    Case("StringJoin", [[strings("a", "b"), np.array(b"-", object)]], {"separator": "/"}),
    Case("ReduceJoin", [strings("a", "b", "c", "d").reshape(2, 2), ints(1, 0)], {"separator": ","}),
    Case("ReduceJoin", [strings("a", "b").reshape(1, 2), ints(-1)], {"keep_dims": True}),
    Case("StaticRegexFullMatch", [strings("ab", "b")], {"pattern": "a.*"}),
    Case("RegexFullMatch", [strings("ab", "b"), np.array(b"[ab]", object)]),
    Case(
        "StaticRegexReplace",
        [strings("aab", "b")],
        {"pattern": "(a)", "rewrite": r"<\1\0>", "replace_global": False},
    ),
    *[
        Case(
            "RegexReplace",
            [strings("baac", "", "ab cd"), np.array(pattern, object), np.array(rewrite, object)],
            {"replace_global": every},
            id=f"{pattern!r}-{rewrite!r}-{every}",
        )
        for every in (True, False)
        for pattern in (b"a*", b"(a)|(b)", b"x*|a", b"$", rb"\b", b"")
        for rewrite in (
            b"-",
            rb"<\0>",
            rb"\1x",
            rb"\1\2",
            rb"\3",
            rb"x\q\0",
            b"x\\",
            rb"\\0",
            rb"\10",
        )
    ],
    Case("AsString", [np.float32([1.5, -2, 1e10, np.nan])]),
    Case("AsString", [np.float64([1.5, -2, 1e10])], {"precision": 3, "scientific": True}),
    Case("AsString", [np.float64([0.1, 1e10])], {"shortest": True}),
    Case("AsString", [ints(3, -4)], {"width": 5, "fill": "0"}),
    Case("AsString", [np.array([True, False])]),
    Case("AsString", [np.complex64([1 + 2j])]),
    Case("StringToNumber", [strings("1.5", " -2 ", "1e3")]),
    Case("StringToNumber", [strings("15", "-2")], {"out_type": "int64"}),
    Case("StringLength", [strings("añb", "")]),
    Case("StringLength", [strings("añb", "")], {"unit": "UTF8_CHAR"}),
    Case("Substr", [strings("hello", "world"), I32(1), I32(3)]),
    Case("Substr", [strings("hello", "wörld"), ints(-2, 1), ints(9, 2)], {"unit": "UTF8_CHAR"}),
    Case("StringLower", [strings("AbC")]),
    Case("StringUpper", [strings("abñ")], {"encoding": "utf-8"}),
    Case("StringStrip", [strings(" a b \n")]),
    Case("StringSplitV2", [strings("a b  c", "", "d"), np.array(b"", object)]),
    Case("StringSplitV2", [strings("a,b,,c", "d"), np.array(b",", object)], {"maxsplit": 2}),
    Case("EncodeBase64", [strings("hello?>")]),
    Case("EncodeBase64", [strings("hello")], {"pad": True}),
    Case("DecodeBase64", [strings("aGVsbG8_Pg")]),
    Case("StringFormat", [[CUBE[0, 0], ints(7)]], {"template": "a %s b %s"}),
    Case("StringFormat", [[np.arange(20).reshape(2, 10)]], {"summarize": 2}),
    Case("StringFormat", [[np.float64([0.1, 1e-7, 3])]]),
]


@pytest.mark.parametrize("case", SHAPES + JOINING + INDEXING + MATRICES + STRINGS, ids=str)
def test_matches_tensorflow(case: Case) -> None:
    check_against_tensorflow(case)


KEY = np.array([0x123456789ABCDEF0], np.uint64)
COUNTER = np.array([0xFFFFFFFFFFFFFFFE, 7], np.uint64)
ALG = np.int32(1)


@pytest.mark.parametrize("seed", [[1, 2], [-5, 2**40], [0, 0]])
def test_key_and_counter_are_tensorflows(seed: list[int]) -> None:
    check_against_tensorflow(Case("StatelessRandomGetKeyCounter", [np.array(seed, np.int64)]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(7,), (3, 5), (0,), (1000,)], ids=str)
def test_stateless_floats_are_tensorflows(dtype: str, sizes: tuple[int, ...]) -> None:
    inputs = [ints(*sizes), KEY, COUNTER, ALG]
    exact = {"rtol": 0.0, "atol": 0.0} if dtype in ("float32", "float64") else {}
    check_against_tensorflow(Case("StatelessRandomUniformV2", inputs, {"dtype": dtype}, **exact))
    check_against_tensorflow(Case("StatelessRandomNormalV2", inputs, {"dtype": dtype}))
    check_against_tensorflow(Case("StatelessTruncatedNormalV2", inputs, {"dtype": dtype}))


@pytest.mark.parametrize("seed_type", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(7,), (3, 5), (0,), ()], ids=str)
def test_stateless_floats_of_a_seed_are_tensorflows(
    dtype: str, sizes: tuple[int, ...], seed_type: str
) -> None:
    inputs = [ints(*sizes), np.array([12, -7], seed_type)]
    exact = {"rtol": 0.0, "atol": 0.0} if dtype in ("float32", "float64") else {}
    check_against_tensorflow(Case("StatelessRandomUniform", inputs, {"dtype": dtype}, **exact))
    check_against_tensorflow(Case("StatelessRandomNormal", inputs, {"dtype": dtype}))


@pytest.mark.parametrize("seed_type", ["int32", "int64"])
def test_all_that_a_seed_gives_is_tensorflows(seed_type: str) -> None:
    given = np.array([12, -7], seed_type)
    check_against_tensorflow(Case("StatelessRandomGetKeyCounterAlg", [given]))
    check_against_tensorflow(Case("StatelessRandomGetAlg", []))


@pytest.mark.parametrize(
    "call",
    [
        Call("StatelessRandomGetKeyCounterAlg", [np.array([1, 2, 3])]),
        *[
            Call(name, inputs)
            for name in ("StatelessRandomUniform", "StatelessRandomNormal")
            for inputs in (
                [ints(3), np.array([1, 2, 3])],
                [ints(-3), np.array([1, 2])],
                [ints(3).reshape(1, 1), np.array([1, 2])],
            )
        ],
        *[
            Call("Concat", [axis, [CUBE, other]])
            for axis, other in (
                (I32(3), CUBE),
                (I32(-4), CUBE),
                (I32(0), CUBE[:, :2]),
                (I32(0), CUBE[0]),
                (ints(0, 1), CUBE),
            )
        ],
        *[
            Call("UniqueWithCountsV2", [SQUARE, axis])
            for axis in (ints(2), ints(-3), ints(0, 1), I32(0), ints())
        ],
        *[
            Call("RegexReplace", [strings("aab", "b"), *map(as_array, given)])
            for given in (["(a", "x"], [["a", "b"], "x"], ["a", ["x", "y"]])
        ],
    ],
    ids=str,
)
def test_what_does_not_fit(call: Call) -> None:
    check_ends_alike(tensorflow, call)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_stateless_integers_are_tensorflows(dtype: str) -> None:
    inputs = [ints(3, 5), KEY, COUNTER, ALG]
    number = np.dtype(dtype).type
    bounds = [number(-3), number(1000)]
    check_against_tensorflow(
        Case("StatelessRandomUniformIntV2", [*inputs, *bounds], {"dtype": dtype})
    )
    check_against_tensorflow(
        Case("StatelessRandomUniformFullIntV2", inputs, {"dtype": "u" + dtype})
    )


def test_bad_indices_are_ignored_where_the_policy_says_so():
    attrs = {"bad_indices_policy": "IGNORE"}
    for op in ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax"):
        inputs = [SQUARE, ints(1, 9).reshape(2, 1), CUBE[0, :2]]
        check_against_tensorflow(Case(op, inputs, attrs))
    outside = ints(1, 2, -1, 0).reshape(2, 2)
    check_against_tensorflow(
        Case("ScatterNd", [outside, np.float32([5, 6]), ints(2, 3)], attrs, jit=False)
    )
    outside = ints(1, 0, 5, 0).reshape(2, 2)
    check_against_tensorflow(Case("GatherNd", [CUBE, outside], attrs))
    text = np.array([[b"a", b"b"], [b"c", b"d"]], object)
    check_against_tensorflow(Case("GatherNd", [text, outside], attrs, jit=False))
