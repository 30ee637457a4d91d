"""Activations, biases and softmax kernels beside TensorFlow's."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import tideflow.ops.framework.constants
import tideflow.ops.nn.activations
import tideflow.ops.nn.bias
import tideflow.ops.nn.softmax_ops  # noqa: F401 - registers ops
from ops.harness import Case, check_against_tensorflow

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(7)
SPECIAL = np.array([[-np.inf, -2.5, -0.0, 0.0], [1e-8, 5.9, 6.0, np.inf]], np.float32)
NANS = np.array([np.nan, -1.0, 1.0], np.float32)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype) * dtype(3)


ACTIVATIONS = ["Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign"]
GRADS = ["ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad",
         "SoftsignGrad"]  # fmt: skip

CASES = [
    *[Case(name, [SPECIAL]) for name in ACTIVATIONS if name != "Softsign"],
    *[
        Case(name, [normal(3, 5, dtype=dtype)], id=f"{name}-{np.dtype(dtype)}")
        for name in ACTIVATIONS
        for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
    ],
    *[Case(name, [normal(0, 3)]) for name in ACTIVATIONS],
    *[Case(name, [NANS]) for name in ("Relu", "Softplus", "Elu")],
    *[
        Case(name, [normal(4, 3, dtype=dtype), normal(4, 3, dtype=dtype)], id=f"{name}-{dtype}")
        for name in GRADS
        for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
    ],
    Case("Relu", [np.array([-3, 0, 4], np.int8)]),
    Case("Relu", [np.array([3, 0, 4], np.uint64)]),
    Case("Relu6", [np.array([-3, 0, 400], np.int32)]),
    Case("ReluGrad", [np.array([5, 6, 7], np.int16), np.array([-3, 0, 4], np.int16)]),
    Case("LeakyRelu", [normal(4)], {"alpha": 0.7}),
    Case("LeakyReluGrad", [normal(4), normal(4)], {"alpha": 1.7}),
    Case("Relu", [np.float32(-2.0)]),
    Case("BiasAdd", [normal(2, 3), normal(3)]),
    Case("BiasAdd", [normal(2, 4, 5, 3), normal(3)]),
    Case("BiasAdd", [normal(0, 3), normal(3)]),
    Case("BiasAdd", [normal(2, 3, 4, 5), normal(3)], {"data_format": "NCHW"}),
    Case("BiasAdd", [np.ones((2, 3), np.int32), np.arange(3, dtype=np.int32)]),
    Case("BiasAddV1", [normal(2, 3), normal(3)]),
    Case("BiasAddGrad", [normal(6, 3)]),
    Case("BiasAddGrad", [normal(0, 3)]),
    Case("BiasAddGrad", [normal(2, 4, 5, 3, dtype=np.float64)]),
    Case("BiasAddGrad", [normal(2, 3, 4, 5)], {"data_format": "NCHW"}),
    Case("BiasAddGrad", [normal(9, 3, dtype=ml_dtypes.bfloat16)]),
    Case("BiasAddGrad", [np.arange(6, dtype=np.int16).reshape(2, 3)]),
    Case("L2Loss", [normal(3, 4)]),
    Case("L2Loss", [normal(3, 4, dtype=np.float16)]),
    Case("L2Loss", [normal(0)]),
    *[
        Case(name, [values], id=f"{name}-{i}")
        for name in ("Softmax", "LogSoftmax")
        for i, values in enumerate([
            normal(4), normal(3, 5), normal(2, 3, 4), normal(0, 4), normal(3, 0),
            normal(3, 5, dtype=np.float64), normal(3, 5, dtype=np.float16),
            normal(3, 5, dtype=ml_dtypes.bfloat16), normal(2, 3) * np.float32(1e4),
            np.array([[-np.inf, 0.0], [2.0, 1.0]], np.float32),
        ])
    ],
    Case("SoftmaxCrossEntropyWithLogits", [normal(3, 4), np.eye(4, dtype=np.float32)[:3]]),
    Case("SoftmaxCrossEntropyWithLogits", [normal(3, 4), np.eye(4, dtype=np.float32)[:1]]),
    Case("SoftmaxCrossEntropyWithLogits", [normal(0, 4), normal(0, 4)]),
    Case("SoftmaxCrossEntropyWithLogits", [normal(2, 4, dtype=np.float64), np.ones((2, 4))]),
    Case(
        "SoftmaxCrossEntropyWithLogits",
        [normal(2, 4, dtype=np.float16), np.eye(4, dtype=np.float16)[:2]],
    ),
    *[
        Case(
            "SparseSoftmaxCrossEntropyWithLogits",
            [normal(3, 4, dtype=dtype), np.array([0, 3, 1], kind)],
            id=f"sparse-{np.dtype(dtype)}-{np.dtype(kind)}",
        )
        for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
        for kind in (np.int32, np.int64)
    ],
    Case("SparseSoftmaxCrossEntropyWithLogits", [normal(0, 4), np.zeros(0, np.int32)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_tensorflow(case):
    # 8 bits of mantissa: TensorFlow rounds every step of a formula, we only its end.
    if any(getattr(value, "dtype", None) == ml_dtypes.bfloat16 for value in case.inputs):
        case = dataclasses.replace(case, rtol=0.07, atol=0.01)
    check_against_tensorflow(case)
