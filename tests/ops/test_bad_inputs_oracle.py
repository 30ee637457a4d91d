"""Each op with cases of its own, again with inputs spoilt one at a time: both must end alike.

TensorFlow runs in a process of its own, because some of its kernels end it on bad input (see
tensorflow_calls.py).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as ours
from ops import compared
from ops.harness import Case
from ops.outcomes import ABORTED, REFUSED, Call, Outcome, outcome
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


def _code(ended: Outcome) -> str:
    if not isinstance(ended, str):
        return "answered"
    return "InvalidArgumentError" if ended == REFUSED else ended


def _same(mine: list[Any], theirs: list[Any]) -> bool:
    for x, y in zip(mine, theirs, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype.kind in "OSU":
            if x.tolist() != y.tolist():
                return False
        elif not np.allclose(
            x.astype(complex), y.astype(complex), rtol=1e-2, atol=1e-3, equal_nan=True
        ):
            return False
    return True


@pytest.fixture(scope="module")
def on_tensorflow() -> Iterator[Callable[[list[Call]], list[Outcome]]]:
    """Give a function that tells how calls end on TensorFlow."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("tensorflow_calls.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Kernels of oneDNN answer bad input with ABORTED, or end the process.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TF_ENABLE_ONEDNN_OPTS": "0",
        },
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(calls: list[Call]) -> list[Outcome]:
            pickle.dump(calls, process.stdin)
            process.stdin.flush()
            found: list[Outcome] = pickle.load(process.stdout)
            return found

        yield ask
        process.kill()


@pytest.mark.parametrize("op", sorted(set(FIRST) - set(KNOWN_DIFFERENCES)))
def test_bad_inputs_end_alike(
    on_tensorflow: Callable[[list[Call]], list[Outcome]], op: str
) -> None:
    case = FIRST[op]
    # Types are inferred; one that is given would only be in the way.
    attrs = {name: value for name, value in case.attrs.items() if name != "T"}
    named = list(spoilt(case))
    calls = [Call(op, inputs, attrs) for _, inputs in named]
    different = {}
    for (what, _), call, theirs in zip(named, calls, on_tensorflow(calls), strict=True):
        if theirs is None or theirs == ABORTED or theirs == "ResourceExhaustedError":
            continue
        with np.errstate(all="ignore"):
            mine = outcome(ours, call)
        if _code(mine) != _code(theirs):
            different[what] = f"{_code(mine)}, TensorFlow: {_code(theirs)}"
        elif isinstance(mine, list) and not _same(mine, theirs):  # type: ignore[arg-type]
            different[what] = f"{mine}, TensorFlow: {theirs}"
        elif isinstance(mine, str):
            compared.refused(op)
    assert not different
