"""Quantised numbers by scales and zero points, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike
from tideflow.wire import messages as pb

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(8)
FLOATS = RNG.uniform(-9, 9, (4, 3, 2)).astype(F)
LIMITS = {
    "qint8": {"quantization_min_val": -128, "quantization_max_val": 127},
    "quint8": {"quantization_min_val": 0, "quantization_max_val": 255},
    "qint32": {"quantization_min_val": -(2**31), "quantization_max_val": 2**31 - 1},
}
KINDS = {"qint8": "i1", "quint8": "u1", "qint32": "i4"}
SCALES, ZEROS = F([0.1, 0.25, 3]), np.int32([3, 0, -7])


def quantized(x=FLOATS, scales=0.07, zeros=3, kind="qint8", **attrs):
    inputs = [x, F(scales), np.int32(zeros)]
    return Call("UniformQuantize", inputs, {"Tout": kind, **LIMITS[kind], **attrs})


def numbers(kind, *shape, least=0, most=120):
    """Return quantised numbers, as an array of TensorFlow's NumPy type for them."""
    plain = RNG.integers(least, most, shape).astype(KINDS[kind])
    return plain.astype(np.dtype([(kind, KINDS[kind])]))


def dequantized(scales=0.07, zeros=3, kind="qint8", **attrs):
    x = numbers(kind, 4, 3, 2)
    inputs = [x, F(scales), np.int32(zeros)]
    return Call("UniformDequantize", inputs, {"Tout": "float32", **LIMITS[kind], **attrs})


CALLS = [
    *(make(kind=kind) for make in (quantized, dequantized) for kind in KINDS),
    *(
        make(scales=SCALES, zeros=ZEROS, kind=kind, quantization_axis=1)
        for make in (quantized, dequantized)
        for kind in KINDS
    ),
    quantized(quantization_min_val=-127),
    quantized(quantization_min_val=-20, quantization_max_val=20),
    *(make(scales=-1.0) for make in (quantized, dequantized)),
    *(make(scales=SCALES) for make in (quantized, dequantized)),
    *(make(scales=SCALES, zeros=ZEROS) for make in (quantized, dequantized)),
    *(
        make(scales=SCALES, zeros=ZEROS, quantization_axis=axis)
        for make in (quantized, dequantized)
        for axis in (0, 2, 3, -2)
    ),
]


def limits(**kinds):
    """Return the attrs that say what numbers of operands may be, all that their types hold."""
    found = {}
    for what, kind in kinds.items():
        found |= {f"{what}_{name}": value for name, value in LIMITS[kind].items()}
    return found


def steps(scales, zeros):
    return [F(scales), np.int32(zeros)]


ONE = steps(0.07, 3)
EACH = steps(SCALES, ZEROS)


def requantized(given=ONE, wanted=(0.3, -5), kind="qint8", x=None, **attrs):
    x = numbers(kind, 4, 3, 2, least=-128) if x is None else x
    return Call(
        "UniformRequantize",
        [x, *given, *steps(*wanted)],
        {"Tout": "qint8", **limits(input=kind, output="qint8"), **attrs},
    )


OF_INPUT, OF_OUTPUT = {"input_quantization_axis": 1}, {"output_quantization_axis": 1}
REQUANTIZED = [
    *(requantized(kind=kind) for kind in ("qint8", "qint32")),
    *(
        call
        for kind in ("qint8", "qint32")
        for call in (
            requantized(EACH, kind=kind, **OF_INPUT),
            requantized(ONE, (SCALES, ZEROS), kind, **OF_OUTPUT),
            requantized(EACH, ([0.5, 0.2, 0.1], [0, 1, 2]), kind, **OF_INPUT, **OF_OUTPUT),
        )
    ),
    requantized(wanted=(1e-9, 0)),
    requantized(wanted=(1e30, 0)),
    requantized(steps(1e-30, 0), (1e30, 0)),
    requantized(steps(1e30, 0), (1e-30, 0)),
    requantized(x=numbers("qint32", 50, least=-(2**31), most=2**31), kind="qint32"),
    requantized(output_quantization_min_val=-7, output_quantization_max_val=9),
    requantized(wanted=(0.0, 0)),
    requantized(steps(-1, 0)),
    requantized(EACH),
    requantized(EACH, input_quantization_axis=0),
    requantized(EACH, input_quantization_axis=3),
    requantized(EACH, (SCALES, ZEROS), input_quantization_axis=1, output_quantization_axis=0),
]


def added(lhs=(4, 3, 2), rhs=(4, 3, 2), given=(ONE, ONE), wanted=ONE, **attrs):
    x, y = (numbers("qint32", *shape, least=-3000, most=3000) for shape in (lhs, rhs))
    kinds = limits(lhs="qint32", rhs="qint32", output="qint32")
    return Call("UniformQuantizedAdd", [x, y, *given[0], *given[1], *wanted], {**kinds, **attrs})


AXES = {f"{what}_quantization_axis": 1 for what in ("lhs", "rhs", "output")}
ADDED = [
    added(),
    added(given=(steps(0.2, 1), steps(0.01, -9)), wanted=steps(0.05, 7)),
    added(rhs=(3, 2)),
    added(rhs=()),
    added(lhs=(2,)),
    added(rhs=(4, 1, 2)),
    added(rhs=(4, 2)),
    added(given=(EACH, EACH), wanted=EACH, **AXES),
    added(given=(EACH, ONE), wanted=EACH, lhs_quantization_axis=1, output_quantization_axis=1),
    added(
        rhs=(3, 2),
        given=(EACH, EACH),
        wanted=EACH,
        **(AXES | {"rhs_quantization_axis": 0}),
    ),
    added(rhs=(3, 2), given=(EACH, EACH), wanted=EACH, **AXES),
    added(given=(EACH, ONE), lhs_quantization_axis=1),
    added(output_quantization_min_val=-70, output_quantization_max_val=90),
    added(given=(steps(0, 0), ONE)),
    added(given=(ONE, EACH)),
    added(lhs_quantization_axis=-2),
]


def clipped(ends, given=ONE, **attrs):
    low, high = (as_numbers("qint32", end) for end in ends)
    x = numbers("qint32", 4, 3, 2, least=-300, most=300)
    return Call(
        "UniformQuantizedClipByValue", [x, low, high, *given], {**LIMITS["qint32"], **attrs}
    )


def as_numbers(kind, values):
    return np.asarray(values, KINDS[kind]).astype(np.dtype([(kind, KINDS[kind])]))


CLIPPED = [
    clipped((-20, 50)),
    clipped((50, -20)),
    clipped(([-20, 0, 5], [30, 4, 100]), EACH, quantization_axis=1),
    clipped(([-20, 0, 5], 30), EACH, quantization_axis=1),
    clipped(([-20, 0, 5], [30, 4, 100])),
    clipped((-20, 50), steps(0, 0)),
]

MATRICES = limits(lhs="qint8", rhs="qint8", output="qint32")


def product(lhs=(5, 4), rhs=(4, 3), given=(ONE, ONE), wanted=ONE, **attrs):
    x, y = (numbers("qint8", *shape, least=-128, most=128) for shape in (lhs, rhs))
    return Call(
        "UniformQuantizedDot",
        [x, y, *given[0], *given[1], *wanted],
        {"Tout": "qint32", **MATRICES, **attrs},
    )


def product_of_floats(lhs=(5, 4), rhs=(4, 3), given=ONE, x=None, **attrs):
    x = RNG.uniform(-9, 9, lhs).astype(F) if x is None else F(x)
    return Call(
        "UniformQuantizedDotHybrid",
        [x, numbers("qint8", *rhs, least=-128, most=128), *given],
        {"Tout": "float32", **limits(rhs="qint8"), **attrs},
    )


OF_RHS = {"rhs_quantization_axis": 1}
BOTH = OF_RHS | {"output_quantization_axis": 1}
PRODUCTS = [
    product(),
    product(given=(steps(0.1, -9), steps(2, 100)), wanted=steps(0.5, 4)),
    product(given=(ONE, EACH), **OF_RHS),
    product(given=(ONE, EACH), wanted=EACH, **BOTH),
    product(wanted=EACH, output_quantization_axis=1),
    product(given=(EACH, ONE)),
    product(rhs=(3, 3)),
    product(lhs=(4,)),
    product(lhs=(0, 4)),
    product(lhs=(5, 0), rhs=(0, 3)),
    product(output_quantization_min_val=-70, output_quantization_max_val=90),
    product(given=(steps(0, 0), ONE)),
    *(product(**{f"{what}_quantization_axis": 0}) for what in ("lhs", "rhs", "output")),
    product_of_floats(),
    product_of_floats(given=EACH, **OF_RHS),
    product_of_floats(x=[[1, 2, 3, 4], [-1, -2, -3, -4], [0, 0, 0, 0], [1e-44, 0, 0, 0]]),
    product_of_floats(x=[[-0.01, 5, 2, 3], [-9, 0.1, 0, 0], [1e30, -1e30, 5, 4]]),
    product_of_floats(rhs=(3, 3)),
    product_of_floats(rhs_quantization_axis=0),
    product_of_floats(lhs=(5, 0), rhs=(0, 3)),
]


def convolved(lhs=(2, 3, 7, 6), rhs=(4, 3, 2, 3), given=(ONE, ONE), wanted=ONE, **attrs):
    x, y = (numbers("qint8", *shape, least=-128, most=128) for shape in (lhs, rhs))
    return Call(
        "UniformQuantizedConvolution",
        [x, y, *given[0], *given[1], *wanted],
        {"Tout": "qint32", "padding": "VALID", **MATRICES, **attrs},
    )


def convolved_floats(lhs=(2, 3, 7, 6), rhs=(4, 3, 2, 3), given=ONE, **attrs):
    return Call(
        "UniformQuantizedConvolutionHybrid",
        [
            RNG.uniform(-9, 9, lhs).astype(F),
            numbers("qint8", *rhs, least=-128, most=128),
            *given,
        ],
        {"Tout": "float32", "padding": "VALID", **limits(rhs="qint8"), **attrs},
    )


# Images as [batch, height, width, features], a filter as [height, width, features, made].
LAST = pb.UniformQuantizedConvolutionDimensionNumbersAttr(
    input_batch_dimension=0,
    input_feature_dimension=3,
    input_spatial_dimensions=[1, 2],
    kernel_input_feature_dimension=2,
    kernel_output_feature_dimension=3,
    kernel_spatial_dimensions=[0, 1],
    output_batch_dimension=0,
    output_feature_dimension=3,
    output_spatial_dimensions=[2, 1],
).SerializeToString()
FOUR = steps([0.1, 0.25, 3, 0.5], [3, 0, -7, 1])
IN_GROUPS = {"rhs": (4, 1, 2, 3), "lhs": (2, 2, 7, 6), "feature_group_count": 2}
CONVOLVED = [
    make(**how)
    for make in (convolved, convolved_floats)
    for how in (
        {},
        {"padding": "SAME"},
        {"padding": "SAME", "window_strides": [2, 3]},
        {"padding": "EXPLICIT", "explicit_padding": [1, 0, 2, 3]},
        {"padding": "SAME", "lhs_dilation": [2, 1], "rhs_dilation": [1, 2]},
        {"lhs": (2, 3, 5), "rhs": (4, 3, 2)},
        {"lhs": (2, 3, 5, 4, 3), "rhs": (4, 3, 2, 1, 2), "window_strides": [2, 1, 1]},
        IN_GROUPS,
        {"rhs": (4, 2, 2, 3), "lhs": (6, 2, 7, 6), "batch_group_count": 2},
        IN_GROUPS | {"batch_group_count": 2},
        {"lhs": (2, 7, 6, 3), "rhs": (2, 3, 3, 4), "dimension_numbers": LAST},
        {"rhs": (4, 3, 9, 3)},
        {"rhs": (4, 3, 8, 3)},
        {"rhs": (4, 2, 2, 3)},
        {"rhs": (4, 3, 2)},
        {"window_strides": [1]},
        {"window_strides": [0, 1]},
        {"padding": "EXPLICIT"},
        {"padding": "OTHER"},
        {"explicit_padding": [1, 1, 1, 1]},
        {"dimension_numbers": b"\xff"},
        {"batch_group_count": 3},
        {"feature_group_count": 0},
        {"rhs_quantization_axis": 1},
    )
] + [
    convolved(given=(steps(0.1, -9), steps(2, 100)), wanted=steps(0.5, 4), padding="SAME"),
    convolved(given=(ONE, FOUR), rhs_quantization_axis=0, padding="SAME"),
    convolved(given=(ONE, FOUR), wanted=FOUR, rhs_quantization_axis=0, output_quantization_axis=1),
    convolved(given=(ONE, FOUR), wanted=FOUR, rhs_quantization_axis=0),
    convolved(wanted=FOUR, output_quantization_axis=1),
    convolved(given=(steps(0.1, 300), ONE), padding="SAME"),
    convolved(lhs_quantization_axis=0),
    convolved_floats(given=FOUR, rhs_quantization_axis=0, padding="SAME"),
]


@pytest.mark.parametrize(
    "call", [*CALLS, *REQUANTIZED, *ADDED, *CLIPPED, *PRODUCTS, *CONVOLVED], ids=str
)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
