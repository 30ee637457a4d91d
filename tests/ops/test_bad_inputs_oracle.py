"""Each op with cases of its own, again with inputs spoilt one at a time: both must end alike.

TensorFlow runs in a process of its own, because some of its kernels end it on bad input (see
tensorflow_calls.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ops.bad_calls import Ask, differences
from ops.harness import Case
from ops.outcomes import Call
from ops.test_every_type_oracle import FIRST

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]

# Why an op is left out: what TensorFlow does with such inputs is not to be wished for.
KNOWN_DIFFERENCES = {
    "AvgPoolGrad": "reads four of the five sizes that it is given",
    "BatchToSpaceND": "its client takes no block_shape of unknown rank",
    "Conv2D": "takes images of rank 5 for images of rank 4; gives empty batches the wrong depth",
    "Conv2DBackpropFilter": "answers for filters without elements",
    "Conv2DBackpropInput": "answers for filters without elements",
    "DepthwiseConv2dNative": "as Conv2D",
    "DepthwiseConv2dNativeBackpropFilter": "answers for filters without elements",
    "DepthwiseConv2dNativeBackpropInput": "answers for filters without elements",
    "Fill": "takes a scalar for a vector of one, and the other way round",
    "FusedBatchNormV3": "gives NaN moments of no elements",
    "SpaceToBatchND": "its client takes no block_shape of unknown rank",
    "SparseSegmentMeanGrad": "answers for outputs without rows",
    "SparseSegmentSqrtNGrad": "answers for outputs without rows",
    "SparseSegmentSumGrad": "answers for outputs without rows",
    "TruncateDiv": "calls a division by zero an internal error",
    "TruncateMod": "calls a division by zero an internal error",
    **dict.fromkeys(
        ("InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"),
        "goes by the number of elements, whatever their shapes",
    ),
}


def spoilt(case: Case) -> Iterator[tuple[str, list[Any]]]:
    """Give inputs of which one has another rank, size or value."""
    for i, value in enumerate(case.inputs):
        if isinstance(value, list):
            continue
        for what, changed in _changes(np.asarray(value)):
            yield f"{i} {what}", [*case.inputs[:i], changed, *case.inputs[i + 1 :]]


def _changes(a: Any) -> Iterator[tuple[str, Any]]:
    yield "in a list", a[None]
    if a.ndim:
        yield "scalar", a.reshape(-1)[0] if a.size else np.zeros((), a.dtype)
        if len(a):
            yield "empty", a[:0]
        yield (
            "longer",
            np.concatenate([a, a[:1]]) if len(a) else np.ones((2, *a.shape[1:]), a.dtype),
        )
        if a.shape[-1]:
            yield "wider", np.concatenate([a, a[..., :1]], axis=-1)
    if a.dtype in (np.int32, np.int64):
        for value in (-1, -5, 0, 1, 7):
            yield f"all {value}", np.full_like(a, value)


@pytest.mark.parametrize("op", sorted(set(FIRST) - set(KNOWN_DIFFERENCES)))
def test_bad_inputs_end_alike(on_tensorflow: Ask, op: str) -> None:
    case = FIRST[op]
    # Types are inferred; one that is given would only be in the way.
    attrs = {name: value for name, value in case.attrs.items() if name != "T"}
    named = list(spoilt(case))
    calls = [Call(op, inputs, attrs) for _, inputs in named]
    assert not differences([what for what, _ in named], calls, on_tensorflow(calls))
