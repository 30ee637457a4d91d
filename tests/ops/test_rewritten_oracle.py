"""Ops that only TensorFlow's own rewriting makes, compared with the ops that they stand for."""

from __future__ import annotations

import dataclasses

import pytest

from ops.harness import check_against_tensorflow
from ops.test_every_type_oracle import first_cases
from tideflow.graph.op_def import registered_ops

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]


def plain_name(name: str) -> str | None:
    """Return the op that a rewritten one computes; None where no single op does."""
    for prefix in ("_MklNative", "_Mkl"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return None


CASES = first_cases()
# What these give besides is a workspace, or more than one op gives: see test_nn.py.
OTHERS = ("MaxPool", "Fused", "WithBias", "Swish")
REWRITTEN = [
    name
    for name in registered_ops()
    if plain_name(name) in CASES and not any(part in name for part in OTHERS)
]


@pytest.mark.parametrize("name", REWRITTEN)
def test_it_gives_what_the_plain_op_gives(name: str) -> None:
    case = CASES[plain_name(name) or ""]
    check_against_tensorflow(dataclasses.replace(case, op=name, oracle=plain_name(name) or ""))
