"""Every op with a kernel is spoilt beside TensorFlow, or there is a reason why it is not."""

from __future__ import annotations

from ops.spoilt_builds import BUILDS
from ops.spoilt_calls import first_calls
from ops.spoilt_further_calls import further_calls
from ops.spoilt_reasons import NOTHING_TO_FEED, OTHERS, REWRITTEN
from tideflow.graph.op_def import OpDef, get_op_def, registered_ops

# What a graph can only pass on from where it was made.
HANDLES = ("resource", "variant")


def ops_with_kernels() -> set[str]:
    return {op for op in registered_ops() if get_op_def(op).kernel is not None}


def spoilt_ops() -> set[str]:
    return {*first_calls(), *(name.split()[0] for name in (*further_calls(), *BUILDS))}


def is_same_op(one: OpDef, other: OpDef) -> bool:
    """Whether two names stand for one kernel with the same inputs."""
    types = [[(arg.dtype, arg.is_list) for arg in given.inputs] for given in (one, other)]
    return one.kernel is other.kernel and types[0] == types[1]


def test_every_op_with_a_kernel_is_spoilt_or_has_a_reason() -> None:
    spoilt = spoilt_ops()
    kernels = {get_op_def(op).kernel: get_op_def(op) for op in spoilt}
    left = {
        op
        for op in ops_with_kernels() - spoilt - NOTHING_TO_FEED - REWRITTEN - set(OTHERS)
        if not is_same_op(get_op_def(op), kernels.get(get_op_def(op).kernel, get_op_def("NoOp")))
    }
    assert not left


def test_reasons_are_of_ops_that_are_not_spoilt() -> None:
    listed = NOTHING_TO_FEED | REWRITTEN | set(OTHERS)
    assert listed <= ops_with_kernels()
    assert not listed & spoilt_ops()


def test_what_has_nothing_to_feed_takes_handles_at_most() -> None:
    for op in NOTHING_TO_FEED:
        for arg in get_op_def(op).inputs:
            is_handle = arg.dtype is not None and arg.dtype.name in HANDLES
            assert arg.is_ref or is_handle, f"{op}: {arg.name} can be fed"


def test_what_rewriting_makes_has_a_name_of_its_own() -> None:
    assert all(op.startswith(("_Mkl", "_Fused")) for op in REWRITTEN)
