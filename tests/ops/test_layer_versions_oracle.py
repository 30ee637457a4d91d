"""Versions of pools, norms, blocks and layouts that older programs and graphs have."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.gradients_alike import check_gradients_alike
from ops.outcomes import Call, check_ends_alike, make

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F, I32 = np.float32, np.int32
RNG = np.random.default_rng(3)
IMAGES = RNG.integers(-2, 3, size=(2, 5, 6, 3)).astype(F)
POOLED = RNG.normal(size=(2, 3, 3, 3)).astype(F)
SIZES = [I32([1, 2, 2, 1]), I32([1, 2, 2, 1])]
SAME, VALID = {"padding": "SAME"}, {"padding": "VALID"}


def greatest(x):
    wide = np.pad(x, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=-9)
    return wide.reshape(2, 3, 2, 3, 2, 3).max(axis=(2, 4)).astype(x.dtype)


CHANNELS = [RNG.normal(size=3).astype(F), np.abs(RNG.normal(size=3)).astype(F)]
SCALE = F([1, 2, 0.5])
EVEN = [F([0, 1, -1]), F([2, 4, 3])]
ROWS = RNG.normal(size=(3, 5)).astype(F)
SQUARE = np.arange(2 * 4 * 4 * 3, dtype=F).reshape(2, 4, 4, 3)
BLOCKS = np.arange(4 * 2 * 3 * 2, dtype=F).reshape(4, 2, 3, 2)
EDGES = I32([[0, 0], [1, 1]])

CALLS = [
    *(
        # The others have one shape or another, depending on the processor.
        Call(
            op,
            [dy, IMAGES.astype(kind), SCALE, *EVEN],
            {"is_training": training},
            atol=1e-4,
            outputs=3,
        )
        for training in (True, False)
        for op, kind in [("FusedBatchNormGradV2", np.float16)]
        for dy in [RNG.integers(-3, 4, size=IMAGES.shape).astype(kind)]
    ),
    Call("MaxPoolV2", [IMAGES, *SIZES], SAME),
    Call("MaxPoolV2", [IMAGES, *SIZES], VALID),
    Call("MaxPoolV2", [IMAGES, *SIZES], SAME, fixed=True),
    Call("MaxPoolGradV2", [IMAGES, greatest(IMAGES), POOLED, *SIZES], SAME),
    Call("MaxPoolGradGradV2", [IMAGES, greatest(IMAGES), IMAGES * 2, *SIZES], SAME),
    *(Call("MaxPoolV2", [IMAGES.astype(t), *SIZES], SAME) for t in (np.int32, np.int8, np.float64)),
    Call("SpaceToBatch", [SQUARE, I32([[0, 0], [0, 0]])], {"block_size": 2}),
    Call("SpaceToBatch", [SQUARE, I32([[0, 2], [1, 1]])], {"block_size": 2}, fixed=True),
    Call("SpaceToBatch", [SQUARE, EDGES[:, :1]], {"block_size": 2}),
    Call("BatchToSpace", [BLOCKS, EDGES], {"block_size": 2}),
    Call("BatchToSpace", [BLOCKS, EDGES], {"block_size": 2}, fixed=True),
    Call("Reverse", [SQUARE, np.array([True, False, True, False])]),
    Call("Reverse", [SQUARE.astype(np.int64), np.array([False, True, False, False])], fixed=True),
    *(
        Call("NthElement", [ROWS.astype(kind), I32(1)], {"reverse": reverse})
        for kind in (F, np.float64, np.int32, np.float16, np.int8)
        for reverse in (False, True)
    ),
    Call("NthElement", [ROWS, I32(4)], {"reverse": False}, fixed=True),
    Call("DataFormatDimMap", [I32([0, 1, 2, 3, -1, -4])]),
    Call("DataFormatDimMap", [np.int64([4, 1])], {"src_format": "NDHWC", "dst_format": "NCDHW"}),
    *(
        Call("DataFormatDimMap", [I32([1, 3])], {"src_format": "NHWC", "dst_format": to})
        for to in ("NHHC", "NHW", "ABCD", "NCDHW", "HWNC")
    ),
    Call("DataFormatVecPermute", [I32([1, 2, 3, 4])]),
    *(
        Call("DataFormatVecPermute", [x], {"src_format": one, "dst_format": other})
        for x, one, other in [
            (I32([1, 2]), "NHWC", "WHNC"),
            (I32([[1, 2], [3, 4]]), "NHWC", "WHNC"),
            (np.int64([[1, 2], [3, 4], [5, 6], [7, 8]]), "NHWC", "NCHW"),
            (I32([1, 2, 3]), "NDHWC", "NCWHD"),
            (I32([1, 2, 3, 4, 5]), "NDHWC", "NCDHW"),
            (I32([1, 2, 3, 4]), "ABCD", "BADC"),
            (I32([1, 2]), "ABCD", "BADC"),
            (I32([1, 2]), "NHWC", "NHW"),
            (I32(1), "NHWC", "NCHW"),
        ]
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


NORM = [IMAGES, SCALE, SCALE, *CHANNELS]
EMPTY = np.zeros(0, F)


@pytest.mark.parametrize(
    ("call", "at"),
    [
        *(
            (Call(op, [IMAGES, SCALE, SCALE, EMPTY, EMPTY]), (0, 1, 2))
            for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
        ),
        *(
            (Call(op, NORM, {"is_training": False}), (0, 1, 2))
            for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
        ),
        (Call("MaxPoolV2", [IMAGES, *SIZES], SAME), (0,)),
        (Call("MaxPoolGradV2", [IMAGES, greatest(IMAGES), POOLED, *SIZES], SAME), (0, 1, 2)),
        (Call("SpaceToBatch", [SQUARE, I32([[0, 0], [0, 0]])], {"block_size": 2}), (0,)),
        (Call("BatchToSpace", [BLOCKS, EDGES], {"block_size": 2}), (0,)),
        (Call("Reverse", [SQUARE, np.array([True, False, True, False])]), (0,)),
        (Call("NthElement", [ROWS, I32(1)], {"reverse": False}), (0,)),
    ],
    ids=str,
)
def test_gradients_agree(call: Call, at: tuple[int, ...]) -> None:
    check_gradients_alike(tf, call, at)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norms_have_the_same_second_gradients(version, training):
    moments = [np.zeros(0, F)] * 2 if training else CHANNELS
    images = RNG.normal(size=(2, 3, 2, 3)).astype(F)
    inputs = [images, SCALE, F([0.5, 0, -1]), *moments]
    weights = RNG.normal(size=images.shape).astype(F)
    found = []
    for api in (ours, tf.compat.v1):
        with api.Graph().as_default(), api.Session() as session:
            given = [api.constant(each) for each in inputs]
            call = Call(f"FusedBatchNorm{version}", inputs, {"is_training": training})
            y = make(ours if api is ours else tf, call, given)[0]
            first = api.gradients(api.reduce_sum(api.tanh(y) * weights), given[:3])
            cubes = api.add_n([api.reduce_sum(one * one * one) for one in first])
            found.append(session.run(api.gradients(cubes, given[:3])))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
