"""What a graph with v1 control flow consists of, and what is known of its frames while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tideflow.blocking import Durations, weight_of
from tideflow.graph.node import Node


class _Dead:
    """What stands in for a value that never came to be."""

    def __repr__(self) -> str:
        return "<dead>"


DEAD = _Dead()


@dataclass(slots=True)
class Item:
    """What is known of a node before the run."""

    node: Node
    index: int
    input_count: int
    control_count: int
    # Dead data inputs that make a Merge dead in iteration 0.
    merge_inputs: int = 0
    consumers: list[list[tuple[Item, int]]] = field(default_factory=list)
    control_consumers: list[Item] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    call: Any = None
    key: str = ""
    frame_name: str = ""
    # Whether it runs a loop of functions, which may take any time.
    has_loops: bool = False
    # How long its kernel takes, if it has one that does not wait.
    durations: Durations | None = None

    def is_short(self, values: Sequence[Any]) -> bool:
        """Whether the node may have the loop for a run on these inputs."""
        if self.durations is None:
            return True
        if self.node.op_def.blocks or self.has_loops:
            return False
        return self.durations.is_short(weight_of(values))


class Arrivals:
    """The inputs of one node in one iteration, as they come."""

    __slots__ = ("controls", "dead", "dead_inputs", "fired", "missing", "values")

    def __init__(self, item: Item) -> None:
        self.values: list[Any] = [None] * item.input_count
        self.missing = item.input_count + item.control_count
        self.controls = item.control_count
        self.dead = False
        self.dead_inputs = 0
        self.fired = False


class Iteration:
    """One iteration of a frame."""

    __slots__ = ("arrivals", "children", "frame", "number", "outstanding")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number
        self.outstanding = 0
        self.children = 0
        self.arrivals: dict[int, Arrivals] = {}


class Frame:
    """A loop that runs, or the root."""

    __slots__ = (
        "dead_exits", "deferred", "frame_id", "invariants", "iterations", "live_iterations",
        "missing_enters", "name", "parallel", "parent",
    )  # fmt: skip

    def __init__(
        self, name: str, frame_id: int, parent: Iteration | None, enters: int, parallel: int
    ) -> None:
        self.name = name
        self.frame_id = frame_id
        self.parent = parent
        self.missing_enters = enters
        self.parallel = parallel
        self.iterations: dict[int, Iteration] = {}
        self.invariants: list[tuple[Item, Any]] = []
        self.deferred: list[tuple[Item, Any]] = []
        self.dead_exits: dict[int, Item] = {}
        self.live_iterations = 0
