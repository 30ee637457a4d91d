"""Products and convolutions of levels with what follows them, beside kernels of oneDNN.

TensorFlow has no others, so a process with these is asked.  They take filters that are constants
of the graph, and write over their summands, which must be the results of other ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.bad_inputs.comparison import Ask, asking_tensorflow
from ops.bad_inputs.programs import Program

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(6)
LEVELS = {"qint8": np.int8, "quint8": np.uint8, "qint32": np.int32}


def levels(kind, *shape):
    """Return levels all over a type, but for the least of those with a sign."""
    info = np.iinfo(LEVELS[kind])
    return RNG.integers(max(info.min, -info.max), info.max, shape, endpoint=True).astype(
        LEVELS[kind]
    )


IMAGES = levels("quint8", 2, 5, 4, 3)
SIGNED = levels("qint8", 2, 5, 4, 3)
FILTER, DEPTHWISE = levels("qint8", 2, 3, 3, 4), levels("qint8", 2, 3, 3, 2)
BIAS, LONG_BIAS = F([1.5, -2, 3, 0.5]), F([1.5, -2, 3, 0.5, 1, 2])
WHOLE = np.int32([500, -700, 20, 9])
A, B = levels("quint8", 3, 40), levels("qint8", 40, 4)

ONE = {"min_filter": F(-2), "max_filter": F(1.5)}
EACH = {"min_filter": F([-2, -1, -0.5, -3]), "max_filter": F([1, 1, 1, 1])}
EACH_OF_SIX = {"min_filter": F([-2, -1, -1, -3, -0.5, -1]), "max_filter": F([1, 1, 1, 1, 0.1, 1])}
RANGE = {"min_freezed_output": F(-10), "max_freezed_output": F(12)}
OF_SUMMAND = {"min_summand": F(-4), "max_summand": F(5)}
PLAIN = {"strides": [1, 1, 1, 1], "padding": "SAME"}


FED = ("input", "a", "summand")


def program(op: str, out: str, **given: Any) -> Program:
    """Return a graph of one op, whose levels are fed and given back as plain numbers."""
    feeds: dict[str, Any] = {}
    kinds = {np.dtype(plain): kind for kind, plain in LEVELS.items()}

    def operand(name: str, value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)):
            return value
        kind = kinds.get(value.dtype)
        if name not in FED:
            return ours.constant(value, kind and ours.as_dtype(kind))
        x = ours.placeholder(ours.as_dtype(value.dtype), value.shape, name=name)
        feeds[x.name] = value
        if name == "summand":
            x = ours.reverse(ours.reverse(x, [0]), [0])
        return ours.bitcast(x, ours.as_dtype(kind)) if kind else x

    with ours.Graph().as_default() as graph:
        arguments = {name: operand(name, value) for name, value in given.items()}
        of_type = "Toutput" if "MatMul" in op else "out_type"
        made = getattr(ours.raw_ops, op)(**arguments, **{of_type: ours.as_dtype(out)})
        flat = list(made) if isinstance(made, tuple) else [made]
        if out in LEVELS:
            flat[0] = ours.bitcast(flat[0], ours.as_dtype(LEVELS[out]))
        names = [x.name for x in flat]
        return Program(op, graph.as_graph_def().SerializeToString(), [names], feeds)


def convolved(op: str, out: str = "qint32", **given: Any) -> Program:
    images = {"input": IMAGES, "filter": FILTER, "min_input": F(-1), "max_input": F(3)}
    range_of_result = RANGE if op.endswith("Requantize") else {}
    return program(op, out, **{**images, **ONE, **PLAIN, **range_of_result, **given})


def multiplied(op: str, out: str = "qint32", **given: Any) -> Program:
    ranges = {"min_a": F(-1), "max_a": F(3), "min_b": F(-2), "max_b": F(1.5)}
    range_of_result = RANGE if op.endswith(("Requantize", "Dequantize")) else {}
    matrices = {"a": A, "b": B, "bias": BIAS}
    return program(op, out, **{**matrices, **ranges, **range_of_result, **given})


CONV, MATMUL = "QuantizedConv2D", "QuantizedMatMulWithBias"
DEEP = "QuantizedDepthwiseConv2D"
SUMMAND = {"summand": levels("quint8", 2, 5, 4, 4), **OF_SUMMAND}
SIGNED_SUMMAND = {"summand": levels("qint8", 2, 5, 4, 4), **OF_SUMMAND}
FLOATS = RNG.uniform(-50, 50, (2, 5, 4, 4)).astype(F)
OF_SIX = {"filter": DEPTHWISE, "bias": LONG_BIAS}

PROGRAMS = {
    "relu": convolved(f"{CONV}AndRelu"),
    "dilated": convolved(f"{CONV}AndRelu", dilations=[1, 2, 2, 1]),
    "in steps": convolved(f"{CONV}AndRelu", strides=[1, 2, 2, 1]),
    "valid, in steps": convolved(f"{CONV}AndRelu", strides=[1, 2, 1, 1], padding="VALID"),
    "padded": convolved(f"{CONV}AndRelu", padding_list=[0, 0, 1, 0, 2, 3, 0, 0]),
    "relu, to a range": convolved(f"{CONV}AndReluAndRequantize", "quint8"),
    "by channels, relu, to a range": convolved(f"{CONV}AndReluAndRequantize", "quint8", **EACH),
    "to a range": convolved(f"{CONV}AndRequantize", "qint8"),
    "by channels": convolved(f"{CONV}PerChannel", **EACH),
    "by channels of one range": convolved(f"{CONV}PerChannel"),
    **{
        f"bias, {by}, {images.dtype}": convolved(
            f"{CONV}WithBias{more}", input=images, bias=BIAS, **ranges
        )
        for by, ranges, more in (("one range", ONE, ""), ("by channels", EACH, "AndRelu"))
        for images in (IMAGES, SIGNED)
    },
    **{
        f"bias {bias.dtype}, {by}, {images.dtype}, {out}": convolved(
            f"{CONV}WithBias{more}", out, input=images, bias=bias, **ranges
        )
        for by, ranges in (("one range", ONE), ("by channels", EACH))
        for images in (IMAGES, SIGNED)
        for bias in (BIAS, WHOLE)
        for out, more in (("quint8", "AndReluAndRequantize"), ("qint8", "AndRequantize"))
    },
    "summand of floats": convolved(f"{CONV}WithBiasSumAndRelu", bias=BIAS, summand=FLOATS),
    **{
        f"summand and bias {bias.dtype}": convolved(
            f"{CONV}WithBiasSumAndReluAndRequantize", "quint8", bias=bias, **SUMMAND, **EACH
        )
        for bias in (BIAS, WHOLE)
    },
    **{
        f"signed summand and bias {bias.dtype}": convolved(
            f"{CONV}WithBiasSignedSumAndReluAndRequantize", "quint8", bias=bias, **SIGNED_SUMMAND
        )
        for bias in (BIAS, WHOLE)
    },
    "by depth": convolved(DEEP, filter=DEPTHWISE),
    "by depth and channels": convolved(DEEP, filter=DEPTHWISE, **EACH_OF_SIX),
    "by depth, bias": convolved(f"{DEEP}WithBias", **OF_SIX),
    "by depth, bias, relu": convolved(f"{DEEP}WithBiasAndRelu", **OF_SIX, strides=[1, 2, 2, 1]),
    **{
        f"by depth, bias {bias.dtype}, to a range": convolved(
            f"{DEEP}WithBiasAndReluAndRequantize", "quint8", filter=DEPTHWISE, bias=bias
        )
        for bias in (LONG_BIAS, np.int32([500, -700, 20, 9, 0, 1]))
    },
    **{f"product, bias {bias.dtype}": multiplied(MATMUL, bias=bias) for bias in (BIAS, WHOLE)},
    "product, scaled": multiplied(MATMUL, input_quant_mode="SCALED", bias=WHOLE),
    "product of nothing": multiplied(MATMUL, a=A[:0]),
    "product, relu": multiplied(f"{MATMUL}AndRelu", min_a=F(0)),
    **{
        f"product, bias {bias.dtype}, from {low}, {more}": multiplied(
            f"{MATMUL}{more}", out, bias=bias, min_a=F(low)
        )
        for bias in (BIAS, WHOLE)
        for low in (0, -1)
        for out, more in (
            ("quint8", "AndRequantize"),
            ("quint8", "AndReluAndRequantize"),
            ("float32", "AndDequantize"),
        )
    },
    **{
        f"product, bias {bias.dtype}, scaled, to floats": multiplied(
            f"{MATMUL}AndDequantize", "float32", bias=bias, input_quant_mode="SCALED"
        )
        for bias in (BIAS, WHOLE)
    },
}


@pytest.fixture(scope="module")
def on_onednn() -> Iterator[Ask]:
    with asking_tensorflow(has_onednn=True) as ask:
        yield ask


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_gives_what_onednn_gives(on_onednn: Ask, name: str) -> None:
    given = PROGRAMS[name]
    theirs, mine = on_onednn([given])[0], given.end(ours)
    assert [x.shape for x in mine] == [x.shape for x in theirs]
    assert [x.dtype for x in mine] == [x.dtype for x in theirs]
    # oneDNN goes by floats of 32 bits, and rounds at each step: a level may be the next one.
    steps = 0 if mine[0].dtype == F else 1
    np.testing.assert_allclose(
        mine[0].astype(float), theirs[0].astype(float), rtol=1e-6, atol=steps + 1e-6
    )
    for x, y in zip(mine[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
