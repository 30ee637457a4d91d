"""Batch norm and top-k kernels beside TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.ops.framework.constants
import tideflow.ops.nn.batch_norm
import tideflow.ops.nn.response_norm
import tideflow.ops.nn.top_values  # noqa: F401 - registers ops
from ops.harness import Case, check_against_tensorflow, run

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(17)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def positive(*shape):
    return np.abs(normal(*shape)) + np.float32(0.5)


EMPTY = np.zeros(0, np.float32)
TIES = np.array([[1, 3, 3, 2], [0, 0, 0, 0]], np.float32)
SCORES = np.array([[0.1, 0.9, 0.5], [np.inf, 0.0, 1.0], [0.3, 0.3, 0.3]], np.float32)

IMAGE = normal(1, 2, 2, 7)
LRN_ATTRS = {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.75}
LRN = run(Case("LRN", [IMAGE], LRN_ATTRS))[0]

CASES = [
    Case("FusedBatchNormV3", [normal(2, 3, 3, 4), positive(4), normal(4), EMPTY, EMPTY], atol=1e-5),
    Case(
        "FusedBatchNormV3",
        [normal(2, 3, 3, 4), positive(4), normal(4), normal(4), positive(4)],
        {"exponential_avg_factor": 0.25, "epsilon": 0.01},
        atol=1e-5,
        id="running",
    ),
    Case(
        "FusedBatchNormV3",
        [normal(2, 3, 3, 4), positive(4), normal(4), normal(4), positive(4)],
        {"is_training": False},
        atol=1e-5,
        id="inference",
    ),
    Case("LRN", [normal(2, 3, 3, 7)], {"depth_radius": 2, "bias": 1.5, "alpha": 0.3}),
    Case("LRN", [normal(1, 2, 2, 3, dtype=np.float16)]),
    Case(
        "LRNGrad",
        [normal(1, 2, 2, 7), IMAGE, LRN],
        LRN_ATTRS,
        atol=1e-5,
    ),
    Case("TopKV2", [normal(3, 6), np.int32(2)]),
    Case("TopKV2", [TIES, np.int32(3)]),
    Case("TopKV2", [np.array([3, 250, 7], np.uint8), np.int32(3)]),
    Case("TopKV2", [normal(2, 3, 4), np.int64(4)], {"index_type": "int64"}),
    Case("TopKV2", [normal(2, 3), np.int32(0)]),
    *[
        Case("InTopKV2", [SCORES, np.array(targets, kind), kind(k)], id=f"in-{i}")
        for i, (targets, k, kind) in enumerate([
            ([1, 1, 2], 1, np.int32), ([2, 0, 0], 2, np.int64), ([5, -1, 0], 3, np.int32),
        ])
    ],
    Case("InTopK", [SCORES, np.array([2, 0, 0], np.int32)], {"k": 2}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_tensorflow(case):
    check_against_tensorflow(case)


@pytest.mark.parametrize("is_training", [True, False])
def test_batch_norm_gradient_matches_tensorflow(is_training):
    case = Case(
        "FusedBatchNormGradV3",
        [normal(2, 3, 3, 4), normal(2, 3, 3, 4), positive(4), normal(4), positive(4), EMPTY],
        {"is_training": is_training},
        atol=1e-4,
    )
    check_against_tensorflow(case)
