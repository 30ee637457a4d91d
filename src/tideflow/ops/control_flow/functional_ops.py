"""Ops that run functions: calls, and the functional forms of branches and loops.

Source: tensorflow/core/ops/functional_ops.cc, core/kernels/functional_ops.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.blocking import Turns
from tideflow.graph import roles
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Runs
from tideflow.graph.shape_rules import ShapeContext, from_attr, scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _declared_shapes(c: ShapeContext) -> list[Dims]:
    count = len(c.node.output_types)
    given = c.attrs.get("output_shapes") or []
    return [shape.sizes for shape in given] if len(given) == count else [None] * count


def _call_signature(name: str) -> str:
    return f"""
    {name}(args: *Tin) -> output: *Tout
    Tin: list(type) >= 0
    Tout: list(type) >= 0
    f: func
    config: string = ''
    config_proto: string = ''
    executor_type: string = ''
    """


@op(
    _call_signature("PartitionedCall"),
    shape=_declared_shapes,
    role=roles.CALL,
    runs=Runs.FUNCTION,
    host_inputs=0,
)
@op(
    _call_signature("StatefulPartitionedCall"),
    shape=_declared_shapes,
    stateful=True,
    role=roles.CALL,
    runs=Runs.FUNCTION,
    host_inputs=0,
    checked_outputs=0,
)
async def partitioned_call(
    ctx: KernelContext, step: StepContext, args: list[Any], *, f: FunctionRef
) -> Any:
    """Run a function."""
    function = await ctx.ready(f)
    return await function(step, *args)


@op(
    """
    RemoteCall(target: string, args: *Tin) -> output: *Tout
    Tin: list(type) >= 1
    Tout: list(type) >= 1
    f: func
    """,
    shape=_declared_shapes,
    stateful=True,
    role=roles.HIGHER_ORDER,
    any_device=False,
    checked_outputs=0,
)
async def remote_call(
    ctx: KernelContext, step: StepContext, target: Array | bytes, args: list[Any], *, f: FunctionRef
) -> Any:
    """Run a function on the device named, which must be of the op's own task."""
    wanted = target if isinstance(target, bytes) else np.asarray(target).item()
    function = await ctx.ready(f, wanted.decode())
    return await function(step, *args)


def truth(value: object) -> bool:
    """Return what a value means as a condition: for a scalar that it is not zero or empty, for
    anything else that it has elements."""
    if isinstance(value, (bytes, str)):
        return bool(value)
    array = np.asarray(value)
    return bool(array[()]) if array.ndim == 0 else array.size > 0


@op("ToBool(input: T) -> output: bool\nT: type", shape=scalar, any_device=True)
def to_bool(ctx: KernelContext, value: Array) -> Any:
    """Return what a value means as a condition."""
    return np.bool_(truth(value))


def _if_signature(name: str) -> str:
    return f"""
    {name}(cond: Tcond, input: *Tin) -> output: *Tout
    Tcond: type
    Tin: list(type) >= 0
    Tout: list(type) >= 0
    then_branch: func
    else_branch: func
    output_shapes: list(shape) = []
    """


@op(
    _if_signature("StatelessIf"),
    shape=_declared_shapes,
    role=roles.HIGHER_ORDER,
    runs=Runs.BRANCH,
    host_inputs=1,
    checked_outputs=0,
)
@op(
    _if_signature("If"),
    shape=_declared_shapes,
    stateful=True,
    role=roles.HIGHER_ORDER,
    runs=Runs.BRANCH,
    host_inputs=1,
    checked_outputs=0,
)
async def if_kernel(
    ctx: KernelContext,
    step: StepContext,
    cond: Array,
    inputs: list[Any],
    *,
    then_branch: FunctionRef,
    else_branch: FunctionRef,
) -> Any:
    """Run one of two functions."""
    branch = await ctx.ready(then_branch if truth(cond) else else_branch)
    return await branch(step, *inputs)


def _case_signature(name: str) -> str:
    return f"""
    {name}(branch_index: int32, input: *Tin) -> output: *Tout
    Tin: list(type) >= 0
    Tout: list(type) >= 0
    branches: list(func) >= 1
    output_shapes: list(shape) = []
    """


@op(
    _case_signature("StatelessCase"),
    shape=_declared_shapes,
    role=roles.HIGHER_ORDER,
    runs=Runs.CASE,
    host_inputs=1,
)
@op(
    _case_signature("Case"),
    shape=_declared_shapes,
    stateful=True,
    role=roles.HIGHER_ORDER,
    runs=Runs.CASE,
    host_inputs=1,
)
async def case_kernel(
    ctx: KernelContext,
    step: StepContext,
    branch_index: Array,
    inputs: list[Any],
    *,
    branches: list[FunctionRef],
) -> Any:
    """Run one of several functions; the last for an index that none has."""
    index = int(branch_index)
    chosen = branches[index] if 0 <= index < len(branches) else branches[-1]
    branch = await ctx.ready(chosen)
    return await branch(step, *inputs)


def _while_shape(c: ShapeContext) -> list[Dims]:
    given = c.attrs["output_shapes"]
    return [shape.sizes for shape in given] if given else [None] * len(c.inputs)


def _while_signature(name: str) -> str:
    return f"""
    {name}(input: *T) -> output: *T
    T: list(type) >= 0
    cond: func
    body: func
    output_shapes: list(shape) = []
    parallel_iterations: int = 10
    """


@op(
    _while_signature("StatelessWhile"),
    shape=_while_shape,
    role=roles.HIGHER_ORDER,
    runs=Runs.WHILE,
    host_inputs=0,
)
@op(
    _while_signature("While"),
    shape=_while_shape,
    stateful=True,
    role=roles.HIGHER_ORDER,
    runs=Runs.WHILE,
    host_inputs=0,
    checked_outputs=0,
)
async def while_kernel(
    ctx: KernelContext,
    step: StepContext,
    inputs: list[Any],
    *,
    cond: FunctionRef,
    body: FunctionRef,
) -> Any:
    """Run body on its own results while cond of them holds."""
    holds, advance = await ctx.ready(cond), await ctx.ready(body)
    values = inputs
    turns = Turns()
    while truth((await holds(step, *values))[0]):
        values = await advance(step, *values)
        # Functions that never wait would keep the loop, and could not be cancelled.
        await turns.pause()
    return values


def for_range(start: Any, limit: Any, delta: Any) -> range:
    """Return the numbers that a For runs its body on.

    Raises: InvalidArgumentError where they would have no end.
    """
    if delta == 0:
        raise errors.InvalidArgumentError("For: delta must not be 0")
    if (int(limit) - int(start)) * int(delta) < 0:
        raise errors.InvalidArgumentError(
            f"For: from start {int(start)}, delta {int(delta)} leads away from limit {int(limit)}"
        )
    return range(int(start), int(limit), int(delta))


@op(
    """
    For(start: int32, limit: int32, delta: int32, input: *T) -> output: *T
    T: list(type) >= 0
    body: func
    """,
    shape=_declared_shapes,
    role=roles.HIGHER_ORDER,
    runs=Runs.RANGE,
    host_inputs=3,
)
async def for_kernel(
    ctx: KernelContext,
    step: StepContext,
    start: Array,
    limit: Array,
    delta: Array,
    inputs: list[Any],
    *,
    body: FunctionRef,
) -> Any:
    """Run body on a counter and its own results."""
    indices = for_range(start, limit, delta)
    advance = await ctx.ready(body)
    values = inputs
    turns = Turns()
    for index in indices:
        values = await advance(step, np.int32(index), *values)
        await turns.pause()
    return values


@op("FakeParam() -> output: dtype\ndtype: type\nshape: shape", shape=from_attr("shape"))
def fake_param(ctx: KernelContext, *, dtype: DType, shape: TensorShape) -> Any:
    """Return something for a result that the branch taken does not have, and nobody reads."""
    if dtype in (dtypes.resource, dtypes.variant, dtypes.string):
        return b""
    sizes = [size or 0 for size in shape.sizes or ()]
    return np.zeros(sizes, dtype.as_numpy_dtype)
