"""Ops on quantised numbers, beside TensorFlow's kernels: levels, ranges and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ops.bad_inputs.comparison import Ask, check_ends_alike
from ops.outcomes import Call

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(3)
KINDS = {"qint8": "i1", "quint8": "u1", "qint16": "i2", "quint16": "u2", "qint32": "i4"}
RANGES = [(-1.0, 3.0), (0.0, 6.0), (-2.5, -0.5), (0.5, 0.5), (-7.25, 7.25), (0.001, 0.0015)]
FLOATS = F([[-7.5, -2.5, -1, -0.02, 0], [0.02, 0.5, 1.03, 5.99, 8]])


def levels(kind, *shape):
    """Return levels all over a quantised type, as an array of TensorFlow's NumPy type for it."""
    plain = np.dtype(KINDS[kind])
    info = np.iinfo(plain)
    found = RNG.integers(info.min, info.max, shape, endpoint=True).astype(plain)
    return as_levels(found, kind)


def as_levels(array, kind):
    return np.asarray(array, KINDS[kind]).astype(np.dtype([(kind, KINDS[kind])]))


def limits(*ends):
    return [F(end) for end in ends]


QUANTIZE = [
    *(
        Call("QuantizeV2", [FLOATS, *limits(*ends)], {"T": kind, "mode": mode})
        for kind in KINDS
        for ends in RANGES
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    ),
    *(
        Call("QuantizeV2", [FLOATS, *limits(-3, 5)], {"T": kind, "mode": "SCALED", **more})
        for kind in KINDS
        for more in ({"round_mode": "HALF_TO_EVEN"}, {"narrow_range": True})
    ),
    *(
        Call("QuantizeV2", [FLOATS, F([-1, -2]), F([3, 2])], {"T": kind, "mode": mode, "axis": 0})
        for kind in ("qint8", "quint8", "qint32")
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    ),
    Call("QuantizeV2", [FLOATS, *limits(-1, 3)], {"T": "quint8", "ensure_minimum_range": 0.0}),
    Call("QuantizeV2", [FLOATS, *limits(0, 0)], {"T": "qint8", "ensure_minimum_range": 2.0}),
    Call("QuantizeV2", [FLOATS, *limits(3, -1)], {"T": "quint8"}),
    Call("QuantizeV2", [FLOATS, F([0]), F([1])], {"T": "quint8"}),
    Call("QuantizeV2", [FLOATS, F([0, 1]), F(1)], {"T": "quint8"}),
    Call("QuantizeV2", [FLOATS, F([0]), F([1])], {"T": "quint8", "axis": 0}),
    Call("QuantizeV2", [FLOATS, F([0]), F([1])], {"T": "quint8", "axis": 2}),
    Call("QuantizeV2", [FLOATS, *limits(-1, 3)], {"T": "quint8", "round_mode": "HALF_TO_EVEN"}),
    *(
        Call("Dequantize", [levels(kind, 3, 7), *limits(*ends)], {"mode": mode})
        for kind in KINDS
        for ends in RANGES
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    ),
    *(
        Call(
            "Dequantize",
            [levels(kind, 3, 2), F([-1, -2]), F([3, 2])],
            {"mode": mode, "axis": 1},
            fixed=fixed,
        )
        for kind in ("qint8", "quint8", "qint32")
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for fixed in (True, False)
    ),
    *(
        Call("Dequantize", [levels(kind, 5), *limits(-1, 3)], {"dtype": "bfloat16", "mode": mode})
        for kind in KINDS
        for mode in ("MIN_COMBINED", "SCALED")
    ),
    Call(
        "Dequantize",
        [levels("qint8", 5), *limits(-1, 3)],
        {"mode": "SCALED", "narrow_range": True},
    ),
    Call("Dequantize", [levels("qint8", 5), F([-1, 0]), F(3)]),
]

WIDE = levels("qint32", 2, 3, 4)
SMALL = as_levels(RNG.integers(-70000, 90000, (2, 3, 4)), "qint32")

REQUANTIZE = [
    *(
        Call("QuantizeDownAndShrinkRange", [x, *limits(*ends)], {"out_type": "quint8"})
        for x in (WIDE, SMALL, WIDE[:0])
        for ends in RANGES
    ),
    *(
        Call("RequantizationRange", [x, *limits(*ends)])
        for x in (WIDE, SMALL, WIDE[:0])
        for ends in RANGES
    ),
    *(
        Call("Requantize", [x, *limits(*given, *wanted)], {"out_type": kind})
        for x in (WIDE, SMALL)
        for given in RANGES
        for wanted in ((-1, 2), (0, 0.001), (0, 0), (-3, -1), (1, 2))
        for kind in ("quint8", "qint8")
    ),
    Call("Requantize", [WIDE, F([0, 1]), *limits(1, 0, 1)], {"out_type": "quint8"}),
]

BYTES = levels("quint8", 2, 3, 4)
PAIRS = [
    (BYTES, levels("quint8", 2, 3, 4)),
    (BYTES, levels("quint8", 4)),
    (levels("quint8", 3, 4), BYTES),
    (BYTES, levels("quint8")),
    (levels("quint8", 1), BYTES),
    (BYTES, levels("quint8", 2, 1, 4)),
    (BYTES, levels("quint8", 3)),
    (levels("quint8", 0), levels("quint8", 0)),
    (levels("quint8", 2, 0), levels("quint8", 0)),
]
ENDS = [(-1.0, 3.0, -2.0, 2.0), (0.0, 6.0, -0.5, 0.1), (1.0, 2.0, -3.0, -1.0), (0.0, 0.0, 0.0, 1.0)]
MATRICES = [
    ([3, 4], [4, 2], {}),
    ([4, 3], [4, 2], {"transpose_a": True}),
    ([3, 4], [2, 4], {"transpose_b": True}),
    ([3, 4], [3, 2], {}),
    ([4], [4, 2], {}),
]

ARITHMETIC = [
    *(
        Call(op, [*pair, *limits(*ENDS[0])])
        for op in ("QuantizedAdd", "QuantizedMul")
        for pair in PAIRS
    ),
    *(Call(op, [*PAIRS[1], *limits(*e)]) for op in ("QuantizedAdd", "QuantizedMul") for e in ENDS),
    *(
        Call(
            "QuantizedBiasAdd",
            [levels(kind, 2, 3), levels(kind, 3), *limits(*e)],
            {"out_type": "qint32"},
        )
        for kind in ("qint8", "quint8")
        for e in ENDS
    ),
    *(
        Call(
            "QuantizedBiasAdd",
            [levels("qint8", *a), levels("qint8", *b), *limits(*ENDS[0])],
            {"out_type": "qint32"},
        )
        for a, b in [((3,), (3,)), ((2, 3), (1, 3)), ((2, 3), (2,)), ((2, 5, 3), (3,))]
    ),
    *(
        Call(
            "QuantizedMatMul",
            [levels("quint8", *a), levels("quint8", *b), *limits(*ENDS[0])],
            attrs,
        )
        for a, b, attrs in MATRICES
    ),
    *(
        Call("QuantizedMatMul", [levels("quint8", 3, 4), levels("quint8", 4, 2), *limits(*e)])
        for e in ENDS
    ),
    *(
        Call(op, [levels(kind, 4, 50), *limits(*ends)], {"out_type": kind})
        for op in ("QuantizedRelu", "QuantizedRelu6")
        for kind in ("quint8", "qint32")
        for ends in RANGES
    ),
    Call("QuantizedRelu", [BYTES, F([0]), F(1)], {"out_type": "quint8"}),
    *(
        Call("QuantizedReshape", [levels(kind, 2, 6), np.array(to, of), *limits(-1, 2)])
        for kind in ("quint8", "qint32")
        for to in ([3, -1], [12], [5, 2])
        for of in (np.int32, np.int64)
    ),
    *(
        Call(
            "QuantizedConcat",
            [np.int32(axis), [levels(kind, 2, 3), levels(kind, 2, 3)], [F(-1), F(a)], [F(3), F(b)]],
        )
        for kind in ("quint8", "qint32")
        for axis, a, b in [(0, -1, 3), (1, -2, 1), (1, 0, 5), (2, 0, 1), (-1, 0, 1)]
    ),
    Call("QuantizedConcat", [np.int32(0), [BYTES, BYTES[:, :2]], [F(0), F(0)], [F(1), F(1)]]),
]

IMAGES = levels("quint8", 2, 7, 8, 3)
LAYERS = [
    *(
        Call(
            "QuantizedConv2D",
            [IMAGES, levels("quint8", *filter, 3, 2), *limits(*ends)],
            {"strides": [1, stride, stride, 1], "padding": padding},
        )
        for filter in ((2, 3), (1, 1), (3, 3))
        for ends in ENDS[:3]
        for stride in (1, 2, 4)
        for padding in ("SAME", "VALID")
    ),
    *(
        Call(
            op,
            [levels(kind, 2, 7, 8, 3), *limits(-1, 3)],
            {"ksize": [1, *k, 1], "strides": [1, *s, 1], "padding": padding},
        )
        for op in ("QuantizedMaxPool", "QuantizedAvgPool")
        for kind in ("quint8", "qint8")
        for k, s in [((2, 2), (2, 2)), ((3, 2), (1, 2))]
        for padding in ("SAME", "VALID")
    ),
    *(
        Call(
            "QuantizedBatchNormWithGlobalNormalization",
            [
                IMAGES, *limits(-1, 3), levels("quint8", 3), *limits(-1, 1),
                levels("quint8", 3), *limits(0.5, 2), levels("quint8", 3), *limits(-1, 2),
                levels("quint8", 3), *limits(0.1, 3),
            ],
            {"out_type": "qint32", "variance_epsilon": 0.001, "scale_after_normalization": scale},
        )
        for scale in (True, False)
    ),
    *(
        Call("QuantizedInstanceNorm", [IMAGES, *limits(-1, 3)], attrs)
        for attrs in (
            {},
            {"output_range_given": True, "given_y_min": -1.0, "given_y_max": 2.0},
            {"output_range_given": True, "given_y_min": 1.0, "given_y_max": 1.0},
            {"min_separation": 20.0, "variance_epsilon": 0.5},
        )
    ),
    *(
        Call(
            "RequantizationRangePerChannel",
            [x, F([-1, -2, -3, -1]), F([1, 3, 2, 5])],
            {"clip_value_max": clip},
        )
        for x in (WIDE[None], SMALL[None])
        for clip in (6.0, 0.001)
    ),
    *(
        Call(
            "RequantizePerChannel",
            [x, F([-1, -2, -3, -1]), F([1, 3, 2, 5]), *limits(*wanted)],
            {"out_type": kind},
        )
        for x in (WIDE[None], SMALL[None])
        for wanted in ((-1, 1), (0, 0.01), (-2, 1))
        for kind in ("quint8", "qint8")
    ),
]  # fmt: skip

RESIZED = [
    *(
        Call(
            "QuantizedResizeBilinear",
            [pixels, np.int32(size), F(-1), F(3)],
            {"align_corners": corners, "half_pixel_centers": half},
            fixed=True,
        )
        for pixels in (
            IMAGES,
            levels("quint8", 1, 5, 6, 1),
            levels("qint32", 2, 3, 4, 2),
            np.float32(RNG.normal(size=(2, 3, 4, 2))),
        )
        for size in ([2, 6], [14, 16], [7, 8], [1, 1], [9, 5])
        for corners in (False, True)
        for half in (False, True)
    ),
    *(
        Call("QuantizedResizeBilinear", [IMAGES, np.int32(size), *map(np.asarray, ends)])
        for size, ends in [
            ([0, 3], (F(0), F(1))),
            ([3, 3, 1], (F(0), F(1))),
            ([3, 3], (F([0]), F(1))),
            ([3, 3], (F(0), F([1]))),
        ]
    ),
    Call("QuantizedResizeBilinear", [IMAGES[0], np.int32([3, 3]), F(0), F(1)], id="rank"),
    Call("QuantizedResizeBilinear", [IMAGES[:, :0], np.int32([3, 3]), F(0), F(1)], id="empty"),
]


# Kernels of oneDNN, which TensorFlow puts in the place of some of these on some processors, round
# otherwise: the process that is asked does without them.
@pytest.mark.parametrize("call", [*QUANTIZE, *REQUANTIZE, *ARITHMETIC, *LAYERS, *RESIZED], ids=str)
def test_ends_as_on_tensorflow(on_tensorflow: Ask, call: Call) -> None:
    check_ends_alike(on_tensorflow, f"{call.op} as given", [("as given", call)])
