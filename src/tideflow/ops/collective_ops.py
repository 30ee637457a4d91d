"""Collective ops: devices of one or many tasks compute together.

Each member of a group runs an op of the same kind with the same group and instance keys.  The
kernels say what is to be done; the session's `Collectives` find the other members and do it.

Source: collective_ops.cc and collective_ops.py of TensorFlow 2.21; runtime facts on collectives.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as, scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.collective_calls import CollectiveCall, Kind
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


async def _run(ctx: Any, step: Any, value: Any, dtype: DType, **facts: Any) -> Any:
    """Take part in a collective; a scalar result comes as NumPy's scalar."""
    call = CollectiveCall(device=ctx.device, dtype=dtype, **facts)
    if call.group_size < 1:
        raise errors.InvalidArgumentError(
            f"group_size is {call.group_size}; it must be the number of members, at least 1"
        )
    found = await ctx.collectives.run(call, step.step_id, value)
    return found if np.ndim(found) else found[()]


def _keys(group_size: Any, group_key: Any, instance_key: Any) -> dict[str, int]:
    """Return the keys of a call whose op takes them as inputs.

    Raises: InvalidArgumentError for one that is no scalar.
    """
    named = {"group_size": group_size, "group_key": group_key, "instance_key": instance_key}
    for name, value in named.items():
        if np.ndim(value):
            raise errors.InvalidArgumentError(
                f"{name} has shape {list(np.shape(value))}; it must be a scalar"
            )
    return {name: int(value) for name, value in named.items()}


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


# ---- keys as attrs


@op(
    """
    CollectiveReduce(input: T) -> data: T
    T: type in {bfloat16, float, half, double, int32, int64}
    group_size: int
    group_key: int
    instance_key: int
    merge_op: string in {'Min', 'Max', 'Mul', 'Add'}
    final_op: string in {'Id', 'Div'}
    subdiv_offsets: list(int)
    wait_for: list(int) = []
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=same_as(),
    stateful=True,
)
async def collective_reduce(
    ctx: Any,
    step: Any,
    input: Any,
    *,
    T: DType,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str,
    final_op: str,
    subdiv_offsets: list[int],
    timeout_seconds: float,
) -> Any:
    """Return the inputs of all members merged, element by element."""
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.REDUCE,
        name=f"{ctx.node.name}: Reduce({merge_op},{final_op})",
        group_size=group_size,
        group_key=group_key,
        instance_key=instance_key,
        shape=np.shape(input),
        merge_op=merge_op,
        final_op=final_op,
        subdivisions=tuple(subdiv_offsets),
        timeout_s=timeout_seconds,
    )


def _gathered(c: ShapeContext) -> list[Dims]:
    return [c.node.attrs["shape"].dims]


@op(
    """
    CollectiveGather(input: T) -> data: T
    T: type in {float, half, double, int32, int64}
    group_size: int
    group_key: int
    instance_key: int
    shape: shape
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=_gathered,
    stateful=True,
)
async def collective_gather(
    ctx: Any,
    step: Any,
    input: Any,
    *,
    T: DType,
    group_size: int,
    group_key: int,
    instance_key: int,
    timeout_seconds: float,
) -> Any:
    """Return the inputs of all members, joined along the first dimension in the order of ranks."""
    given = np.shape(input)
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.GATHER,
        name=f"{ctx.node.name}: Gather",
        group_size=group_size,
        group_key=group_key,
        instance_key=instance_key,
        shape=(_rows(given, "a gather") * group_size, *given[1:]),
        timeout_s=timeout_seconds,
    )


@op(
    """
    CollectiveBcastSend(input: T) -> data: T
    T: type in {bool, float, half, double, int32, int64}
    group_size: int
    group_key: int
    instance_key: int
    shape: shape
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=_gathered,
    stateful=True,
)
async def collective_bcast_send(
    ctx: Any,
    step: Any,
    input: Any,
    *,
    T: DType,
    group_size: int,
    group_key: int,
    instance_key: int,
    shape: TensorShape,
    timeout_seconds: float,
) -> Any:
    """Send the input to all other members; return it."""
    wanted = _known_shape(shape)
    if np.shape(input) != wanted:
        raise errors.InvalidArgumentError(
            f"the shape of the broadcast is declared as {list(wanted)}; its input has shape "
            f"{list(np.shape(input))}"
        )
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.BROADCAST,
        name=f"{ctx.node.name}: Broadcast(1)",
        group_size=group_size,
        group_key=group_key,
        instance_key=instance_key,
        shape=wanted,
        is_source=True,
        timeout_s=timeout_seconds,
    )


@op(
    """
    CollectiveBcastRecv() -> data: T
    T: type in {bool, float, half, double, int32, int64}
    group_size: int
    group_key: int
    instance_key: int
    shape: shape
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=_gathered,
    stateful=True,
)
async def collective_bcast_recv(
    ctx: Any,
    step: Any,
    *,
    T: DType,
    group_size: int,
    group_key: int,
    instance_key: int,
    shape: TensorShape,
    timeout_seconds: float,
) -> Any:
    """Return what the member that sends gives."""
    return await _run(
        ctx,
        step,
        None,
        T,
        kind=Kind.BROADCAST,
        name=f"{ctx.node.name}: Broadcast(0)",
        group_size=group_size,
        group_key=group_key,
        instance_key=instance_key,
        shape=_known_shape(shape),
        timeout_s=timeout_seconds,
    )


# ---- keys as inputs


@op(
    """
    CollectiveReduceV2(input: T, group_size: int32, group_key: int32, instance_key: int32,
        ordering_token: Nordering_token * resource) -> data: T
    T: type in {bfloat16, float, half, double, int32, int64}
    merge_op: string in {'Min', 'Max', 'Mul', 'Add'}
    final_op: string in {'Id', 'Div'}
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    is_stateless: bool = false
    Nordering_token: int >= 0 = 0
    max_subdivs_per_device: int = -1
    """,
    shape=same_as(),
    stateful=True,
)
async def collective_reduce_v2(
    ctx: Any,
    step: Any,
    input: Any,
    group_size: Any,
    group_key: Any,
    instance_key: Any,
    ordering_token: list[Any],
    *,
    T: DType,
    merge_op: str,
    final_op: str,
    timeout_seconds: float,
    max_subdivs_per_device: int,
) -> Any:
    """Return the inputs of all members merged, element by element."""
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.REDUCE,
        name=f"{ctx.node.name}: ReduceV2({merge_op},{final_op})",
        shape=np.shape(input),
        merge_op=merge_op,
        final_op=final_op,
        most_subdivisions=max_subdivs_per_device,
        timeout_s=timeout_seconds,
        **_keys(group_size, group_key, instance_key),
    )


def _scattered_by_input(c: ShapeContext) -> list[Dims]:
    dims, size = c.inputs[0], c.value(1)
    if dims is None or not dims:
        return [None]
    rows = None if dims[0] is None or size is None else dims[0] // max(int(size), 1)
    return [(rows, *dims[1:])]


@op(
    """
    CollectiveReduceScatterV2(input: T, group_size: int32, group_key: int32, instance_key: int32,
        ordering_token: Nordering_token * resource) -> data: T
    T: type in {bfloat16, float, half, double, int32, int64}
    merge_op: string in {'Min', 'Max', 'Mul', 'Add'}
    final_op: string in {'Id', 'Div'}
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    is_stateless: bool = false
    Nordering_token: int >= 0 = 0
    max_subdivs_per_device: int = -1
    """,
    shape=_scattered_by_input,
    stateful=True,
)
async def collective_reduce_scatter_v2(
    ctx: Any,
    step: Any,
    input: Any,
    group_size: Any,
    group_key: Any,
    instance_key: Any,
    ordering_token: list[Any],
    *,
    T: DType,
    merge_op: str,
    final_op: str,
    timeout_seconds: float,
) -> Any:
    """Return this member's rows, by its rank, of the inputs of all members merged."""
    keys = _keys(group_size, group_key, instance_key)
    rows = _rows(np.shape(input), "a reduce-scatter")
    if rows % max(keys["group_size"], 1):
        raise errors.InvalidArgumentError(
            f"a reduce-scatter among {keys['group_size']} members needs an input whose first "
            f"dimension is a multiple of that; it has {rows} rows"
        )
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.REDUCE_SCATTER,
        name=f"{ctx.node.name}: ReduceScatterV2({merge_op},{final_op})",
        shape=np.shape(input),
        merge_op=merge_op,
        final_op=final_op,
        timeout_s=timeout_seconds,
        **keys,
    )


def _gathered_by_input(c: ShapeContext) -> list[Dims]:
    dims, size = c.inputs[0], c.value(1)
    if dims is None or not dims:
        return [None]
    rows = None if dims[0] is None or size is None else dims[0] * int(size)
    return [(rows, *dims[1:])]


@op(
    """
    CollectiveGatherV2(input: T, group_size: int32, group_key: int32, instance_key: int32,
        ordering_token: Nordering_token * resource) -> data: T
    T: type in {float, half, double, int32, int64}
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    is_stateless: bool = false
    Nordering_token: int >= 0 = 0
    """,
    shape=_gathered_by_input,
    stateful=True,
)
async def collective_gather_v2(
    ctx: Any,
    step: Any,
    input: Any,
    group_size: Any,
    group_key: Any,
    instance_key: Any,
    ordering_token: list[Any],
    *,
    T: DType,
    timeout_seconds: float,
) -> Any:
    """Return the inputs of all members, joined along the first dimension in the order of ranks."""
    keys = _keys(group_size, group_key, instance_key)
    given = np.shape(input)
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.GATHER,
        name=f"{ctx.node.name}: GatherV2",
        shape=(_rows(given, "a gather") * keys["group_size"], *given[1:]),
        timeout_s=timeout_seconds,
        **keys,
    )


@op(
    """
    CollectiveBcastSendV2(input: T, group_size: int32, group_key: int32, instance_key: int32)
        -> data: T
    T: type in {bool, float, half, double, int32, int64}
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=same_as(),
    stateful=True,
)
async def collective_bcast_send_v2(
    ctx: Any,
    step: Any,
    input: Any,
    group_size: Any,
    group_key: Any,
    instance_key: Any,
    *,
    T: DType,
    timeout_seconds: float,
) -> Any:
    """Send the input to all other members; return it."""
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.BROADCAST,
        name=f"{ctx.node.name}: Broadcast(1)",
        shape=np.shape(input),
        is_source=True,
        timeout_s=timeout_seconds,
        **_keys(group_size, group_key, instance_key),
    )


def _asked_shape(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(3)]


@op(
    """
    CollectiveBcastRecvV2(group_size: int32, group_key: int32, instance_key: int32, shape: Tshape)
        -> data: T
    T: type in {bool, float, half, double, int32, int64}
    Tshape: type in {int32, int64} = int32
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=_asked_shape,
    stateful=True,
)
async def collective_bcast_recv_v2(
    ctx: Any,
    step: Any,
    group_size: Any,
    group_key: Any,
    instance_key: Any,
    shape: Any,
    *,
    T: DType,
    timeout_seconds: float,
) -> Any:
    """Return what the member that sends gives."""
    return await _run(
        ctx,
        step,
        None,
        T,
        kind=Kind.BROADCAST,
        name=f"{ctx.node.name}: Broadcast(0)",
        shape=tuple(int(size) for size in np.ravel(shape)),
        timeout_s=timeout_seconds,
        **_keys(group_size, group_key, instance_key),
    )


def _require_a_row_each(given: tuple[int, ...], group_size: int) -> None:
    if not given or given[0] != group_size:
        raise errors.InvalidArgumentError(
            f"an all-to-all among {group_size} members needs an input whose first dimension is "
            f"that; it has shape {list(given)}"
        )


@op(
    """
    CollectiveAllToAllV2(input: T, group_size: int32, group_key: int32, instance_key: int32,
        ordering_token: Nordering_token * resource) -> data: T
    T: type in {bfloat16, float, half, double, int32, int64}
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    is_stateless: bool = false
    Nordering_token: int >= 0 = 0
    """,
    shape=same_as(),
    stateful=True,
)
async def collective_all_to_all_v2(
    ctx: Any,
    step: Any,
    input: Any,
    group_size: Any,
    group_key: Any,
    instance_key: Any,
    ordering_token: list[Any],
    *,
    T: DType,
    timeout_seconds: float,
) -> Any:
    """Give each member the row of its rank; return what each gives to this one."""
    keys = _keys(group_size, group_key, instance_key)
    _require_a_row_each(np.shape(input), keys["group_size"])
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.ALL_TO_ALL,
        name=f"{ctx.node.name}: AllToAllV2",
        shape=np.shape(input),
        timeout_s=timeout_seconds,
        **keys,
    )


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
)
def collective_assign_group_v2(
    ctx: Any, group_assignment: Any, device_index: Any, base_key: Any
) -> Any:
    """Return size and key of the group, a row of the table, that a device belongs to."""
    if np.ndim(group_assignment) != 2:
        raise errors.InvalidArgumentError(
            f"group_assignment has shape {list(np.shape(group_assignment))}; it must be a table "
            "with a row for each group"
        )
    rows = np.flatnonzero((group_assignment == device_index).any(axis=1))
    if not len(rows):
        raise errors.InvalidArgumentError(
            f"device {int(device_index)} is in no group of {group_assignment.tolist()}"
        )
    return np.int32(group_assignment.shape[1]), np.int32(int(base_key) + int(rows[0]))


# ---- communicators


class Communicator:
    """A member's place in a group, and the number of its next collective."""

    def __init__(self, group_key: int, group_size: int, rank: int) -> None:
        self.group_key = group_key
        self.group_size = group_size
        self.rank = rank
        self._instances = itertools.count()

    def next_call(self) -> dict[str, int]:
        """Return what the next call is known by."""
        return {
            "group_key": self.group_key,
            "group_size": self.group_size,
            "instance_key": next(self._instances),
            "rank": self.rank,
        }


@op(
    """
    CollectiveInitializeCommunicator(group_key: int32, rank: int32, group_size: int32)
        -> communicator: resource
    communication_hint: string = 'auto'
    timeout_seconds: float = 0.0
    """,
    shape=scalar,
    stateful=True,
)
async def collective_initialize_communicator(
    ctx: Any,
    group_key: Any,
    rank: Any,
    group_size: Any,
    *,
    timeout_seconds: float,
) -> Any:
    """Wait until all members of a group are there; return a handle to this one's place in it."""
    made = Communicator(int(group_key), int(group_size), int(rank))
    if not 0 <= made.rank < made.group_size:
        raise errors.InvalidArgumentError(
            f"rank is {made.rank}; it must be at least 0 and less than the size of the group, "
            f"{made.group_size}"
        )
    await ctx.collectives.join(
        CollectiveCall(
            kind=Kind.REDUCE,
            name=ctx.node.name,
            device=ctx.device,
            group_key=made.group_key,
            group_size=made.group_size,
            instance_key=0,
            dtype=dtypes.float32,
            shape=(),
            timeout_s=timeout_seconds,
            rank=made.rank,
        )
    )
    handle = ctx.resources.anonymous_handle(Communicator)
    ctx.resources.create(handle.container, handle.name, made)
    return handle


def _communicator(ctx: Any, handle: Any, group_assignment: Any) -> Communicator:
    wanted = handle.item() if isinstance(handle, np.ndarray) else handle
    found: Communicator = ctx.resources.lookup(wanted, Communicator)
    if np.ndim(group_assignment) != 2 or np.shape(group_assignment) != (1, found.group_size):
        raise errors.InvalidArgumentError(
            f"group_assignment has shape {list(np.shape(group_assignment))}; it must be [1, "
            f"{found.group_size}], one row with all members of the communicator"
        )
    return found


@op(
    """
    CollectiveReduceV3(input: T, communicator: resource, group_assignment: int32) -> data: T
    T: type in {bfloat16, float, half, double, int32, int64}
    reduction: string in {'Min', 'Max', 'Mul', 'Add'}
    timeout_seconds: float = 0.0
    """,
    shape=same_as(),
    stateful=True,
)
async def collective_reduce_v3(
    ctx: Any,
    step: Any,
    input: Any,
    communicator: Any,
    group_assignment: Any,
    *,
    T: DType,
    reduction: str,
    timeout_seconds: float,
) -> Any:
    """Return the inputs of all members of a communicator merged, element by element."""
    found = _communicator(ctx, communicator, group_assignment)
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.REDUCE,
        name=f"{ctx.node.name}: ReduceV3({reduction})",
        shape=np.shape(input),
        merge_op=reduction,
        timeout_s=timeout_seconds,
        **found.next_call(),
    )


@op(
    """
    CollectiveAllToAllV3(input: T, communicator: resource, group_assignment: int32) -> data: T
    T: type in {bfloat16, float, half, double, int32, int64}
    timeout_seconds: float = 0.0
    """,
    shape=same_as(),
    stateful=True,
)
async def collective_all_to_all_v3(
    ctx: Any,
    step: Any,
    input: Any,
    communicator: Any,
    group_assignment: Any,
    *,
    T: DType,
    timeout_seconds: float,
) -> Any:
    """Give each member of a communicator the row of its rank; return what each gives to this."""
    found = _communicator(ctx, communicator, group_assignment)
    _require_a_row_each(np.shape(input), found.group_size)
    return await _run(
        ctx,
        step,
        input,
        T,
        kind=Kind.ALL_TO_ALL,
        name=f"{ctx.node.name}: AllToAllV3",
        shape=np.shape(input),
        timeout_s=timeout_seconds,
        **found.next_call(),
    )
