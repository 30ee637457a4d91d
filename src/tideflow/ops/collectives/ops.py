"""Collective ops: devices of one or many tasks compute together.

Each member of a group runs an op of the same kind with the same group and instance keys.  The
kernels say what is to be done; the session's `Collectives` find the other members and do it.

Source: collective_ops.cc and collective_ops.py of TensorFlow 2.21; runtime facts on collectives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.collectives.calls import CollectiveCall, Kind
from tideflow.wire import errors

# ---- what the signatures have in common

_SENT = "{bool, float, half, double, int32, int64}"
_GATHERED = "{float, half, double, int32, int64}"
MERGED = "{bfloat16, float, half, double, int32, int64}"
MERGES = "{'Min', 'Max', 'Mul', 'Add'}"

_KEY_ATTRS = """
    group_size: int
    group_key: int
    instance_key: int
"""
_KEY_INPUTS = "group_size: int32, group_key: int32, instance_key: int32"
# Ordering tokens are control edges that a compiler sees; the kernels need not look at them.
_ORDERED_INPUTS = f"{_KEY_INPUTS}, ordering_token: Nordering_token * resource"
_ORDERED_ATTRS = """
    is_stateless: bool = false
    Nordering_token: int >= 0 = 0
"""
_MERGE_ATTRS = f"""
    merge_op: string in {MERGES}
    final_op: string in {{'Id', 'Div'}}
"""
WAIT_ATTRS = """
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
"""


# ---- what the kernels have in common


async def run_call(
    ctx: KernelContext,
    step: StepContext,
    value: object,
    kind: Kind,
    what: str,
    keys: dict[str, Any],
    shape: tuple[int, ...],
    **facts: Any,
) -> Any:
    """Take part in a collective; a scalar result comes as NumPy's scalar."""
    call = CollectiveCall(
        kind=kind,
        name=f"{ctx.node.name}: {what}",
        device=ctx.device,
        dtype=ctx.node.attrs["T"],
        shape=shape,
        timeout_s=ctx.node.attrs["timeout_seconds"],
        **keys,
        **facts,
    )
    if call.group_size < 1:
        raise errors.InvalidArgumentError(
            f"group_size is {call.group_size}; it must be the number of members, at least 1"
        )
    found = await ctx.collectives.run(call, step.step_id, value)
    return found if np.ndim(found) else found[()]


_KEYS = ("group_size", "group_key", "instance_key")


def _keys_of_attrs(ctx: KernelContext) -> dict[str, int]:
    """Return the keys of a call whose op has them as attrs."""
    return {name: ctx.node.attrs[name] for name in _KEYS}


def _keys_of_inputs(inputs: tuple[Any, ...]) -> dict[str, int]:
    """Return the keys of a call whose op takes them as inputs, before any others.

    Raises: InvalidArgumentError for one that is no scalar.
    """
    return {name: _scalar(value, name) for name, value in zip(_KEYS, inputs)}


def _scalar(value: Any, name: str) -> int:
    if np.ndim(value):
        raise errors.InvalidArgumentError(
            f"{name} has shape {list(np.shape(value))}; it must be a scalar"
        )
    return int(value)


def _known_shape(shape: TensorShape) -> tuple[int, ...]:
    if not shape.is_fully_defined():
        raise errors.InvalidArgumentError(
            f"the shape of a broadcast is {shape}; each of its sizes must be known"
        )
    return tuple(int(size) for size in shape.as_list() if size is not None)


def _rows(shape: tuple[int, ...], what: str) -> int:
    if not shape:
        raise errors.InvalidArgumentError(f"{what} needs an input of at least one dimension")
    return shape[0]


def _joined_shape(given: tuple[int, ...], group_size: int) -> tuple[int, ...]:
    return (_rows(given, "a gather") * group_size, *given[1:])


def require_a_row_each(given: tuple[int, ...], group_size: int) -> None:
    if not given or given[0] != group_size:
        raise errors.InvalidArgumentError(
            f"an all-to-all among {group_size} members needs an input whose first dimension is "
            f"that; it has shape {list(given)}"
        )


# ---- static shapes


def _declared(c: ShapeContext) -> list[Dims]:
    return [c.node.attrs["shape"].sizes]


def _asked(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(3)]


def _with_rows(rows_of: Callable[[int, int], int]) -> Callable[[ShapeContext], list[Dims]]:
    """Return the rule for as many rows as follow from the input's and the size of the group."""

    def rule(c: ShapeContext) -> list[Dims]:
        dims, size = c.inputs[0], c.value(1)
        if dims is None or not dims:
            return [None]
        rows = None if dims[0] is None or size is None else rows_of(dims[0], int(size))
        return [(rows, *dims[1:])]

    return rule


# ---- reductions


@op(
    f"""
    CollectiveReduce(input: T) -> data: T
    T: type in {MERGED}
    {_KEY_ATTRS}
    {_MERGE_ATTRS}
    subdiv_offsets: list(int)
    wait_for: list(int) = []
    {WAIT_ATTRS}
    """,
    shape=same_as(),
    stateful=True,
    role=roles.COLLECTIVE,
    effects=Effects.UNORDERED,
)
async def collective_reduce(
    ctx: KernelContext,
    step: StepContext,
    input: Array,
    *,
    merge_op: str,
    final_op: str,
    subdiv_offsets: list[int],
) -> Any:
    """Return the inputs of all members merged, element by element."""
    what = f"Reduce({merge_op},{final_op})"
    merge = {"merge_op": merge_op, "final_op": final_op, "subdivisions": tuple(subdiv_offsets)}
    keys = _keys_of_attrs(ctx)
    return await run_call(ctx, step, input, Kind.REDUCE, what, keys, np.shape(input), **merge)


@op(
    f"""
    CollectiveReduceV2(input: T, {_ORDERED_INPUTS}) -> data: T
    T: type in {MERGED}
    {_MERGE_ATTRS}
    {WAIT_ATTRS}
    {_ORDERED_ATTRS}
    max_subdivs_per_device: int = -1
    """,
    shape=same_as(),
    stateful=True,
    role=roles.COLLECTIVE,
)
async def collective_reduce_v2(
    ctx: KernelContext,
    step: StepContext,
    input: Array,
    *keys_and_tokens: Array,
    merge_op: str,
    final_op: str,
    max_subdivs_per_device: int,
) -> Any:
    """Return the inputs of all members merged, element by element."""
    what = f"ReduceV2({merge_op},{final_op})"
    merge = {
        "merge_op": merge_op,
        "final_op": final_op,
        "most_subdivisions": max_subdivs_per_device,
    }
    keys = _keys_of_inputs(keys_and_tokens)
    return await run_call(ctx, step, input, Kind.REDUCE, what, keys, np.shape(input), **merge)


@op(
    f"""
    CollectiveReduceScatterV2(input: T, {_ORDERED_INPUTS}) -> data: T
    T: type in {MERGED}
    {_MERGE_ATTRS}
    {WAIT_ATTRS}
    {_ORDERED_ATTRS}
    max_subdivs_per_device: int = -1
    """,
    shape=_with_rows(lambda rows, size: rows // max(size, 1)),
    stateful=True,
    role=roles.COLLECTIVE,
)
async def collective_reduce_scatter_v2(
    ctx: KernelContext,
    step: StepContext,
    input: Array,
    *keys_and_tokens: Array,
    merge_op: str,
    final_op: str,
) -> Any:
    """Return this member's rows, by its rank, of the inputs of all members merged."""
    keys = _keys_of_inputs(keys_and_tokens)
    given = np.shape(input)
    rows = _rows(given, "a reduce-scatter")
    if rows % max(keys["group_size"], 1):
        raise errors.InvalidArgumentError(
            f"a reduce-scatter among {keys['group_size']} members needs an input whose first "
            f"dimension is a multiple of that; it has {rows} rows"
        )
    what = f"ReduceScatterV2({merge_op},{final_op})"
    merge = {"merge_op": merge_op, "final_op": final_op}
    return await run_call(ctx, step, input, Kind.REDUCE_SCATTER, what, keys, given, **merge)


# ---- gathers


@op(
    f"""
    CollectiveGather(input: T) -> data: T
    T: type in {_GATHERED}
    {_KEY_ATTRS}
    shape: shape
    {WAIT_ATTRS}
    """,
    shape=_declared,
    stateful=True,
    role=roles.COLLECTIVE,
    effects=Effects.UNORDERED,
)
async def collective_gather(ctx: KernelContext, step: StepContext, input: Array) -> Any:
    """Return the inputs of all members, joined along the first dimension in the order of ranks."""
    keys = _keys_of_attrs(ctx)
    shape = _joined_shape(np.shape(input), keys["group_size"])
    return await run_call(ctx, step, input, Kind.GATHER, "Gather", keys, shape)


@op(
    f"""
    CollectiveGatherV2(input: T, {_ORDERED_INPUTS}) -> data: T
    T: type in {_GATHERED}
    {WAIT_ATTRS}
    {_ORDERED_ATTRS}
    """,
    shape=_with_rows(lambda rows, size: rows * size),
    stateful=True,
    role=roles.COLLECTIVE,
)
async def collective_gather_v2(
    ctx: KernelContext, step: StepContext, input: Array, *keys_and_tokens: Array
) -> Any:
    """Return the inputs of all members, joined along the first dimension in the order of ranks."""
    keys = _keys_of_inputs(keys_and_tokens)
    shape = _joined_shape(np.shape(input), keys["group_size"])
    return await run_call(ctx, step, input, Kind.GATHER, "GatherV2", keys, shape)


# ---- broadcasts


async def _send(ctx: KernelContext, step: StepContext, input: Array, keys: dict[str, int]) -> Any:
    shape = np.shape(input)
    return await run_call(
        ctx, step, input, Kind.BROADCAST, "Broadcast(1)", keys, shape, is_source=True
    )


async def _receive(
    ctx: KernelContext, step: StepContext, keys: dict[str, int], shape: tuple[int, ...]
) -> Any:
    return await run_call(ctx, step, None, Kind.BROADCAST, "Broadcast(0)", keys, shape)


@op(
    f"""
    CollectiveBcastSend(input: T) -> data: T
    T: type in {_SENT}
    {_KEY_ATTRS}
    shape: shape
    {WAIT_ATTRS}
    """,
    shape=_declared,
    stateful=True,
    role=roles.COLLECTIVE,
    effects=Effects.UNORDERED,
)
async def collective_bcast_send(
    ctx: KernelContext, step: StepContext, input: Array, *, shape: TensorShape
) -> Any:
    """Send the input to all other members; return it."""
    wanted = _known_shape(shape)
    if np.shape(input) != wanted:
        raise errors.InternalError(
            f"the shape of the broadcast is declared as {list(wanted)}; its input has shape "
            f"{list(np.shape(input))}"
        )
    return await _send(ctx, step, input, _keys_of_attrs(ctx))


@op(
    f"""
    CollectiveBcastRecv() -> data: T
    T: type in {_SENT}
    {_KEY_ATTRS}
    shape: shape
    {WAIT_ATTRS}
    """,
    shape=_declared,
    stateful=True,
    role=roles.COLLECTIVE,
    effects=Effects.UNORDERED,
)
async def collective_bcast_recv(
    ctx: KernelContext, step: StepContext, *, shape: TensorShape
) -> Any:
    """Return what the member that sends gives."""
    return await _receive(ctx, step, _keys_of_attrs(ctx), _known_shape(shape))


@op(
    f"""
    CollectiveBcastSendV2(input: T, {_KEY_INPUTS}) -> data: T
    T: type in {_SENT}
    {WAIT_ATTRS}
    """,
    shape=same_as(),
    stateful=True,
    role=roles.COLLECTIVE,
    effects=Effects.UNORDERED,
)
async def collective_bcast_send_v2(
    ctx: KernelContext, step: StepContext, input: Array, *keys: Array
) -> Any:
    """Send the input to all other members; return it."""
    return await _send(ctx, step, input, _keys_of_inputs(keys))


@op(
    f"""
    CollectiveBcastRecvV2({_KEY_INPUTS}, shape: Tshape) -> data: T
    T: type in {_SENT}
    Tshape: type in {{int32, int64}} = int32
    {WAIT_ATTRS}
    """,
    shape=_asked,
    stateful=True,
    role=roles.COLLECTIVE,
    effects=Effects.UNORDERED,
)
async def collective_bcast_recv_v2(
    ctx: KernelContext, step: StepContext, *keys_and_shape: Array
) -> Any:
    """Return what the member that sends gives."""
    keys = _keys_of_inputs(keys_and_shape)
    sizes = np.ravel(keys_and_shape[-1])
    return await _receive(ctx, step, keys, tuple(int(size) for size in sizes))


# ---- exchanges


@op(
    f"""
    CollectiveAllToAllV2(input: T, {_ORDERED_INPUTS}) -> data: T
    T: type in {MERGED}
    {WAIT_ATTRS}
    {_ORDERED_ATTRS}
    """,
    shape=same_as(),
    stateful=True,
    role=roles.COLLECTIVE,
)
async def collective_all_to_all_v2(
    ctx: KernelContext, step: StepContext, input: Array, *keys_and_tokens: Array
) -> Any:
    """Give each member the row of its rank; return what each gives to this one."""
    keys = _keys_of_inputs(keys_and_tokens)
    given = np.shape(input)
    require_a_row_each(given, keys["group_size"])
    return await run_call(ctx, step, input, Kind.ALL_TO_ALL, "AllToAllV2", keys, given)


# ---- groups from tables


def _sizes(c: ShapeContext) -> list[Dims]:
    return [(), ()]


@op(
    """
    CollectiveAssignGroupV2(group_assignment: int32, device_index: int32, base_key: int32)
        -> group_size: int32, group_key: int32
    """,
    shape=_sizes,
    stateful=True,
    effects=Effects.UNORDERED,
)
def collective_assign_group_v2(
    ctx: KernelContext, group_assignment: Array, device_index: Array, base_key: Array
) -> Any:
    """Return size and key of the group, a row of the table, that a device belongs to."""
    if np.ndim(group_assignment) != 2:
        raise errors.InvalidArgumentError(
            f"group_assignment has shape {list(np.shape(group_assignment))}; it must be a table "
            "with a row for each group"
        )
    device, key = _scalar(device_index, "device_index"), _scalar(base_key, "base_key")
    for number, row in enumerate(group_assignment.tolist()):
        if not key + number:
            raise errors.InvalidArgumentError(
                f"base_key {key} gives group {number} the key 0, which is reserved"
            )
        for member in row:
            if not 0 <= member < group_assignment.size:
                raise errors.InvalidArgumentError(
                    f"there is no device {member} in groups of {group_assignment.size} devices"
                )
            if member == device:
                return np.int32(len(row)), np.int32(key + number)
    raise errors.InvalidArgumentError(
        f"device {device} is in no group of {group_assignment.tolist()}"
    )
