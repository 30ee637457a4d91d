"""The primitives of v1 control flow: Switch, Merge, and the five that make loops.

They are declared without kernels: the frames executor (tideflow.runtime) carries them out, since
they decide what runs at all rather than compute.  A value is dead where its branch was not taken;
deadness spreads to whatever depends on it and ends at Merge.

Source: runtime facts, section 7; tensorflow/core/ops/control_flow_ops.cc for shapes.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph import roles, shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import declare
from tideflow.graph.shape_rules import ShapeContext, no_outputs, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import TensorLike


def _switch_shape(c: ShapeContext) -> list[Dims]:
    if c.shape(1) not in (None, ()):
        raise ValueError(f"pred must be a scalar; its shape is {shapes.format_dims(c.shape(1))}")
    return [c.shape(0), c.shape(0)]


def _merge_shape(c: ShapeContext) -> list[Dims]:
    """Whichever input comes, its shape fits: what all agree on."""
    found = c.shape(0)
    for dims in c.inputs[1:]:
        found = shapes.relax(found, dims)
    return [found, ()]


def _enter_shape(c: ShapeContext) -> list[Dims]:
    """A loop variable may change its shape; the front end sets what its invariant says."""
    return [c.shape(0) if c.attrs["is_constant"] else None]


def _scalar_pred(c: ShapeContext) -> list[Dims]:
    if c.shape(0) not in (None, ()):
        raise ValueError(f"the condition must be a scalar, not {shapes.format_dims(c.shape(0))}")
    return [()]


def _switch_n_shape(c: ShapeContext) -> list[Dims]:
    return [c.shape(0)] * int(c.attrs["num_outs"])


for _prefix, _kind, _uninitialized in (("", "", False), ("Ref", "Ref ", True)):
    declare(
        f"""
        {_prefix}Switch(data: {_kind}T, pred: bool) -> output_false: {_kind}T, output_true: {_kind}T
        T: type
        """,
        shape_rule=_switch_shape,
        role=roles.SWITCH,
        allows_uninitialized_input=_uninitialized,
    )
    declare(
        f"""
        {_prefix}Merge(inputs: {_kind}N * T) -> output: {_kind}T, value_index: int32
        T: type
        N: int >= 1
        """,
        shape_rule=_merge_shape,
        role=roles.MERGE,
    )
    declare(
        f"""
        {_prefix}Enter(data: {_kind}T) -> output: {_kind}T
        T: type
        frame_name: string
        is_constant: bool = false
        parallel_iterations: int = 10
        """,
        shape_rule=_enter_shape,
        role=roles.ENTER,
    )
    for _name, _role in (("Exit", roles.EXIT), ("NextIteration", roles.NEXT_ITERATION)):
        declare(
            f"""
            {_prefix}{_name}(data: {_kind}T) -> output: {_kind}T
            T: type
            """,
            shape_rule=same_as(0),
            role=_role,
        )

declare("LoopCond(input: bool) -> output: bool", shape_rule=_scalar_pred, role=roles.LOOP_COND)
declare("ControlTrigger()", shape_rule=no_outputs, role=roles.CONTROL_TRIGGER)
declare(
    """
    _SwitchN(data: T, output_index: int32) -> outputs: num_outs * T
    num_outs: int >= 1
    T: type
    """,
    shape_rule=_switch_n_shape,
    role=roles.SWITCH_N,
)


def switch(data: TensorLike, pred: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Pass data to output 1 where pred is true, to output 0 where it is false.

    Returns: (output_false, output_true), of which one is dead at run time.
    """
    data = convert_to_tensor(data)
    op_name = "RefSwitch" if data.dtype.is_ref_dtype else "Switch"
    output_false, output_true = apply_op(op_name, data, pred, name=name or "Switch")
    return output_false, output_true


def merge(inputs: list[Any], name: str | None = None) -> tuple[Tensor, Tensor]:
    """Pass on the one input that is alive.  Returns: (value, its index, int32)."""
    tensors = [convert_to_tensor(item) for item in inputs]
    all_refs = all(t.dtype.is_ref_dtype for t in tensors)
    value, index = apply_op("RefMerge" if all_refs else "Merge", tensors, name=name or "Merge")
    return value, index


def enter(
    data: Tensor,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:
    """Bring a value into a loop's frame; is_constant: for all of its iterations."""
    entered: Tensor = apply_op(
        "RefEnter" if data.dtype.is_ref_dtype else "Enter",
        data,
        frame_name=frame_name,
        is_constant=is_constant,
        parallel_iterations=parallel_iterations,
        name=name,
    )
    return entered


def exit_loop(data: Tensor, name: str | None = None) -> Tensor:
    """Bring a value out of a loop's frame."""
    left: Tensor = apply_op("RefExit" if data.dtype.is_ref_dtype else "Exit", data, name=name)
    return left


def next_iteration(data: Tensor, name: str | None = None) -> Tensor:
    """Pass a value to the loop's next iteration."""
    op_name = "RefNextIteration" if data.dtype.is_ref_dtype else "NextIteration"
    passed: Tensor = apply_op(op_name, data, name=name)
    return passed


def loop_cond(pred: Tensor, name: str | None = None) -> Tensor:
    """Mark the condition of a loop."""
    marked: Tensor = apply_op("LoopCond", pred, name=name)
    return marked


def control_trigger(name: str | None = None) -> Operation:
    """Make an op that runs when its control inputs are there, dead or alive."""
    made: Operation = apply_op("ControlTrigger", name=name)
    return made
