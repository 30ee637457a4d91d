"""Communicators: a member joins a group once, and its later collectives need no keys.

Source: collective_ops.cc of TensorFlow 2.21 (the ops of version 3).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import same_as, scalar
from tideflow.graph.types import Array
from tideflow.ops.collectives.calls import CollectiveCall, Kind
from tideflow.ops.collectives.ops import MERGED, MERGES, WAIT_ATTRS, require_a_row_each, run_call
from tideflow.ops.node_resources import add_anonymous
from tideflow.wire import dtypes, errors


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
    f"""
    CollectiveInitializeCommunicator(group_key: int32, rank: int32, group_size: int32)
        -> communicator: resource
    {WAIT_ATTRS}
    """,
    shape=scalar,
    stateful=True,
    effects=Effects.UNORDERED,
)
async def collective_initialize_communicator(
    ctx: KernelContext,
    group_key: Array,
    rank: Array,
    group_size: Array,
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
    return add_anonymous(ctx, Communicator, made)


def _communicator(ctx: KernelContext, handle: object, group_assignment: Array) -> Communicator:
    found: Communicator = ctx.resources.lookup(handle, Communicator)
    if np.ndim(group_assignment) != 2 or np.shape(group_assignment) != (1, found.group_size):
        raise errors.InvalidArgumentError(
            f"group_assignment has shape {list(np.shape(group_assignment))}; it must be [1, "
            f"{found.group_size}], one row with all members of the communicator"
        )
    return found


_COMMUNICATOR_INPUTS = "communicator: resource, group_assignment: int32"


@op(
    f"""
    CollectiveReduceV3(input: T, {_COMMUNICATOR_INPUTS}) -> data: T
    T: type in {MERGED}
    reduction: string in {MERGES}
    timeout_seconds: float = 0.0
    """,
    shape=same_as(),
    stateful=True,
    role=roles.COLLECTIVE,
)
async def collective_reduce_v3(
    ctx: KernelContext,
    step: StepContext,
    input: Array,
    communicator: Array,
    group_assignment: Array,
    *,
    reduction: str,
) -> Any:
    """Return the inputs of all members of a communicator merged, element by element."""
    keys = _communicator(ctx, communicator, group_assignment).next_call()
    what = f"ReduceV3({reduction})"
    given = np.shape(input)
    return await run_call(ctx, step, input, Kind.REDUCE, what, keys, given, merge_op=reduction)


@op(
    f"""
    CollectiveAllToAllV3(input: T, {_COMMUNICATOR_INPUTS}) -> data: T
    T: type in {MERGED}
    timeout_seconds: float = 0.0
    """,
    shape=same_as(),
    stateful=True,
    role=roles.COLLECTIVE,
)
async def collective_all_to_all_v3(
    ctx: KernelContext,
    step: StepContext,
    input: Array,
    communicator: Array,
    group_assignment: Array,
) -> Any:
    """Give each member of a communicator the row of its rank; return what each gives to this."""
    found = _communicator(ctx, communicator, group_assignment)
    given = np.shape(input)
    require_a_row_each(given, found.group_size)
    keys = found.next_call()
    return await run_call(ctx, step, input, Kind.ALL_TO_ALL, "AllToAllV3", keys, given)
