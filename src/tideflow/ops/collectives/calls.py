"""What the kernels of collective ops ask of the runtime: one member's part in one collective.

Source: collective.h of TensorFlow 2.21; runtime facts on collectives.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tideflow.graph.types import TensorLike
from tideflow.wire.dtypes import DType


class Kind(enum.IntEnum):
    """What a collective does; the numbers are the wire's."""

    REDUCE = 0
    BROADCAST = 1
    GATHER = 2
    ALL_TO_ALL = 4
    REDUCE_SCATTER = 5


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One member's part in one collective.

    Attributes:
      kind: what is done.
      name: the node and what it does, as other members and the leader are told.
      device: the member, by its full name.
      group_key, group_size: the group; all its members give the same.
      instance_key: the collective among those of the group.
      dtype: of the elements.
      shape: that all members must agree on: of the input, for a gather of the output.
      merge_op: Add, Mul, Min or Max; "" where nothing is reduced.
      final_op: Id, or Div to divide a reduction by the size of the group.
      is_source: whether this member sends, in a broadcast.
      timeout_s: how long the other members may take; 0 waits for ever.
      subdivisions: offsets of rings within a task, chosen by the runtime where empty.
      most_subdivisions: how many it may choose for each device; 0 for two, -1 for one in all.
      rank: this member's place in the group; None for the order of the devices' names.
    """

    kind: Kind
    name: str
    device: str
    group_key: int
    group_size: int
    instance_key: int
    dtype: DType
    shape: tuple[int, ...]
    merge_op: str = ""
    final_op: str = "Id"
    is_source: bool = False
    timeout_s: float = 0.0
    subdivisions: Sequence[int] = ()
    most_subdivisions: int = 0
    rank: int | None = None

    @property
    def exec_key(self) -> str:
        """What the keys of the collective's buffers begin with."""
        return f"{self.group_key}:{self.instance_key}:0:0"

    @property
    def description(self) -> str:
        """What must be the same at all members, in words."""
        dims = ",".join(map(str, self.shape))
        merge = f" ({self.merge_op}, {self.final_op})" if self.merge_op else ""
        return f"{self.kind.name.lower()}{merge} of {self.dtype.name} [{dims}]"


class Collectives(Protocol):
    """The other members, as the kernels of one session see them."""

    async def run(self, call: CollectiveCall, step_id: int, value: TensorLike) -> Any:
        """Take part in a collective; return this member's result.

        value: the member's input; None for one that only receives.
        Raises: what is wrong with the call, or between the members; UnavailableError or
        AbortedError that names the member for one that is lost; DeadlineExceededError.
        """

    async def join(self, call: CollectiveCall) -> None:
        """Wait until the call's group is complete; errors as in `run`."""
