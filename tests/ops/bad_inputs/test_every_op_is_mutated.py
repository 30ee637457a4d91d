"""Every op with a kernel has mutated calls beside TensorFlow, or a reason why it has none."""

from __future__ import annotations

from ops.bad_inputs.further_calls import further_calls
from ops.bad_inputs.mutations import first_calls
from ops.bad_inputs.not_mutated import NOTHING_TO_FEED, OTHERS, REWRITTEN
from ops.bad_inputs.program_builds import BUILDS
from tideflow.graph.op_def import OpDef, get_op_def, registered_ops

# What a graph can only pass on from where it was made.
HANDLES = ("resource", "variant")


def ops_with_kernels() -> set[str]:
    # Tests of one process may have registered ops of their own.
    names = (op for op in registered_ops() if not op.startswith("Test"))
    return {op for op in names if get_op_def(op).kernel is not None}


def mutated_ops() -> set[str]:
    return {*first_calls(), *(name.split()[0] for name in (*further_calls(), *BUILDS))}


def is_same_op(one: OpDef, other: OpDef) -> bool:
    """Whether two names stand for one kernel with the same inputs."""
    types = [[(arg.dtype, arg.is_list) for arg in given.inputs] for given in (one, other)]
    return one.kernel is other.kernel and types[0] == types[1]


def test_every_op_with_a_kernel_is_mutated_or_has_a_reason() -> None:
    mutated = mutated_ops()
    kernels = {get_op_def(op).kernel: get_op_def(op) for op in mutated}
    left = {
        op
        for op in ops_with_kernels() - mutated - NOTHING_TO_FEED - REWRITTEN - set(OTHERS)
        if not is_same_op(get_op_def(op), kernels.get(get_op_def(op).kernel, get_op_def("NoOp")))
    }
    assert not left


def test_reasons_are_of_ops_that_are_not_mutated() -> None:
    listed = NOTHING_TO_FEED | REWRITTEN | set(OTHERS)
    assert listed <= ops_with_kernels()
    assert not listed & mutated_ops()


def test_what_has_nothing_to_feed_takes_handles_at_most() -> None:
    for op in NOTHING_TO_FEED:
        for arg in get_op_def(op).inputs:
            is_handle = arg.dtype is not None and arg.dtype.name in HANDLES
            assert arg.is_ref or is_handle, f"{op}: {arg.name} can be fed"


def test_what_rewriting_makes_has_a_name_of_its_own() -> None:
    assert all(op.startswith(("_Mkl", "_Fused")) for op in REWRITTEN)
