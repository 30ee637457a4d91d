"""The node: one op in a graph, as every pass and plan sees it.

`Node` is what travels: name, op, edges, attrs, device.  The front end's `Operation` is a Node
that also belongs to a Graph.  Attr values are plain Python: int, float, bool, str, DType,
TensorShape, numpy arrays (or whatever holds a tensor), FunctionRef, or lists of these.  Strings
are str with surrogate escapes for bytes that are not UTF-8, so any bytes survive the round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tideflow.graph import roles
from tideflow.graph.op_def import ArgDef, OpDef
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

Edge: TypeAlias = "tuple[Node, int]"


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function named by an attr, with the attrs that instantiate it.

    definition: what the name means, where it is to live as long as the attr; else None.
    """

    name: str
    attrs: dict[str, Any] = field(default_factory=dict, hash=False)
    definition: Any = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OwnFunctionRef(FunctionRef):
    """A function that is found, with those that it calls, in a library of its own."""

    library: dict[str, Any] = field(default_factory=dict, hash=False)


class Node:
    """One op of a graph.

    Attributes:
      name: unique in its graph.
      op_def: what the op takes and gives.
      edges: data edges as (producer, output index), in the op's order.
      controls: nodes that must have run before.
      attrs: attr values by name; defaults are filled in.
      device: the requested device, later the assigned one; "" for none.
    """

    __slots__ = ("_output_types", "attrs", "controls", "device", "edges", "name", "op_def")

    def __init__(
        self,
        name: str,
        op_def: OpDef,
        inputs: list[Edge],
        controls: list[Node],
        attrs: dict[str, Any],
        device: str = "",
    ) -> None:
        self.name = name
        self.op_def = op_def
        self.edges = inputs
        self.controls = controls
        self.attrs = attrs
        self.device = device
        self._output_types: tuple[DType, ...] | None = None

    @property
    def op(self) -> str:
        """The op's name, such as "MatMul"."""
        return self.op_def.name

    @property
    def output_types(self) -> tuple[DType, ...]:
        """Element types of the outputs; reference types where the op gives references."""
        if self._output_types is None:
            self._output_types = arg_types(self.op_def.outputs, self.attrs)
        return self._output_types

    def copy(self, inputs: list[Edge], controls: list[Node]) -> Node:
        """Return a plain node like this one with other edges."""
        made = Node(self.name, self.op_def, inputs, controls, self.attrs, self.device)
        made._output_types = self._output_types
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.op}>"


# A few bytes can name any number; no argument of a real graph stands for so many tensors.
_MOST_TENSORS = 1 << 17


def tensor_count(arg: ArgDef, attrs: dict[str, Any]) -> int:
    """Return how many tensors of one type an argument stands for.

    Raises: InvalidArgumentError for more than can be meant.
    """
    count: int = attrs[arg.number_attr]
    if count > _MOST_TENSORS:
        raise errors.InvalidArgumentError(
            f"attr {arg.number_attr!r} says that argument {arg.name!r} is {count} tensors; an "
            f"argument has at most {_MOST_TENSORS}"
        )
    return count


def arg_types(args: Iterable[ArgDef], attrs: dict[str, Any]) -> tuple[DType, ...]:
    """Return one element type for each tensor that the arguments stand for.

    Raises: InvalidArgumentError for an argument of more tensors than can be meant.
    """
    types: list[DType] = []
    for arg in args:
        if arg.type_list_attr:
            found = list(attrs[arg.type_list_attr])
        else:
            dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr]
            found = [dtype] * (tensor_count(arg, attrs) if arg.number_attr else 1)
        types.extend(t.as_ref for t in found) if arg.is_ref else types.extend(found)
    return tuple(types)


def arg_sizes(args: Iterable[ArgDef], attrs: dict[str, Any]) -> list[int | None]:
    """Return for each argument how many tensors it holds, None where it is a single tensor."""
    sizes: list[int | None] = []
    for arg in args:
        if arg.type_list_attr:
            sizes.append(len(attrs[arg.type_list_attr]))
        else:
            sizes.append(tensor_count(arg, attrs) if arg.number_attr else None)
    return sizes


def grouped(flat: Sequence[Any], sizes: Iterable[int | None]) -> Any:
    """Return tensors as an op's arguments stand for them: a list where a size says how many.

    sizes: as of `arg_sizes`.
    Returns: one item for each argument; that item itself where there is just one.
    """
    found: list[Any] = []
    at = 0
    for size in sizes:
        found.append(flat[at] if size is None else flat[at : at + size])
        at += 1 if size is None else size
    return found[0] if len(found) == 1 else found


def topological_order(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes, each after those that it needs, otherwise in the order given.

    Edges from outside the given nodes do not count, nor do the back edges of v1 loops (from
    NextIteration to Merge).
    Raises: InvalidArgumentError for a cycle, naming nodes on it.
    """
    given = list(nodes)
    position = {id(node): i for i, node in enumerate(given)}
    waiting = [0] * len(given)
    consumers: list[list[int]] = [[] for _ in given]
    for i, node in enumerate(given):
        for source in _sources(node):
            j = position.get(id(source))
            if j is not None:
                waiting[i] += 1
                consumers[j].append(i)
    ready = [i for i, count in enumerate(waiting) if not count]
    order: list[Node] = []
    for i in ready:  # grows while it is walked
        order.append(given[i])
        for consumer in consumers[i]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    if len(order) != len(given):
        stuck = [given[i] for i, count in enumerate(waiting) if count]
        raise errors.InvalidArgumentError(
            f"the graph has a cycle: {' -> '.join(_find_cycle(stuck))}; only NextIteration may "
            "lead back, to a Merge"
        )
    return order


def _sources(node: Node) -> Iterable[Node]:
    is_merge = node.op_def.role is roles.MERGE
    for source, _ in node.edges:
        if not (is_merge and source.op_def.role is roles.NEXT_ITERATION):
            yield source
    yield from node.controls


def _find_cycle(stuck: list[Node]) -> list[str]:
    """Walk backwards from a node that never became ready until a node comes twice."""
    members = {id(node) for node in stuck}
    path: list[Node] = [stuck[0]]
    seen = {id(stuck[0]): 0}
    while True:
        source = next(s for s in _sources(path[-1]) if id(s) in members)
        if id(source) in seen:
            cycle = [*path[seen[id(source)] :], source]
            return [node.name for node in reversed(cycle)]
        seen[id(source)] = len(path)
        path.append(source)
