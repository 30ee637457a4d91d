"""Leave out of While loops the variables that a step needs nothing of.

`prune` takes a While for one node, so that a step which fetches one of its results computes all of
them.  Here a loop keeps the variables whose results are used, those that its condition or something
with effects reads, and those that these are computed from; what made the others goes with them.
A loop that something waits for, or that is a target, stays whole.

Source: tensorflow/core/common_runtime/lower_while_op.cc, after which pruning sees each variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tideflow.compile.inline import Definition
from tideflow.compile.made_functions import MadeFunction, sources
from tideflow.compile.prune import ClientGraph
from tideflow.graph import roles
from tideflow.graph.node import FunctionRef, Node, OwnFunctionRef
from tideflow.graph.op_traits import Effects, Runs

# They speak of variables by their numbers, and only to those who build graphs.
_STALE = ("_num_original_outputs", "_read_only_resource_inputs")

_ENDS = (roles.ARGUMENT, roles.RESULT)


def prune_loops(graph: ClientGraph, find: Callable[[str], Definition | None]) -> list[MadeFunction]:
    """Return the functions of the loops that became smaller; the graph is changed in place.

    Args:
      find: gives a function by name; a loop of one that it does not know stays whole.
    """
    if not any(node.op_def.runs is Runs.WHILE for node in graph.nodes):
        return []
    pruner = _Pruner(graph, find)
    pruner.prune()
    return pruner.made


class _Pruner:
    """Walks a graph from its ends to its beginnings."""

    def __init__(self, graph: ClientGraph, find: Callable[[str], Definition | None]) -> None:
        self.graph = graph
        self.find = find
        self.made: list[MadeFunction] = []
        self._waited = {id(node) for node in (*graph.retvals, *graph.targets)}
        self._used: dict[int, set[int]] = {}
        # What the outputs of smaller loops are now, by what they were.
        self._numbers: dict[int, dict[int, int]] = {}

    def prune(self) -> None:
        """Make loops smaller, and drop what nothing needs any more."""
        left = [node for node in reversed(self.graph.nodes) if self._is_needed(node)]
        if not self._numbers:
            return
        for node in left:
            node.edges = [
                (source, self._numbers[id(source)][port])
                if id(source) in self._numbers
                else (source, port)
                for source, port in node.edges
            ]
        left.reverse()
        kept = set(map(id, left))
        self.graph.nodes = left
        self.graph.args = [arg if id(arg) in kept else None for arg in self.graph.args]

    def _is_needed(self, node: Node) -> bool:
        used = self._used.get(id(node), set())
        is_waited = id(node) in self._waited
        # The Merge that takes from a NextIteration comes before it.
        if not used and not is_waited and node.op_def.role is not roles.NEXT_ITERATION:
            return False
        if node.op_def.runs is Runs.WHILE and not is_waited and len(used) < len(node.edges):
            self._prune_loop(node, used)
        for source, port in node.edges:
            self._used.setdefault(id(source), set()).add(port)
        self._waited.update(map(id, node.controls))
        return True

    def _prune_loop(self, loop: Node, used: set[int]) -> None:
        condition, body = (self._nodes_of(loop.attrs[name]) for name in ("cond", "body"))
        if condition is None or body is None:
            return
        kept = sorted(_needed_variables(condition, body, used))
        if len(kept) == len(loop.edges):
            return
        attrs = {name: value for name, value in loop.attrs.items() if name not in _STALE}
        attrs["T"] = [loop.attrs["T"][i] for i in kept]
        if attrs["output_shapes"]:
            attrs["output_shapes"] = [loop.attrs["output_shapes"][i] for i in kept]
        # The same variables of the same function make the same name.
        suffix = f"_keeps_{sum(1 << i for i in kept):x}"
        results = [0], kept
        for name, nodes, wanted in zip(("cond", "body"), (condition, body), results):
            made = MadeFunction(loop.attrs[name].name + suffix, _narrowed(nodes, kept, wanted))
            self.made.append(made)
            attrs[name] = made.ref()
        loop.edges = [loop.edges[i] for i in kept]
        loop.attrs = attrs
        loop._output_types = None
        self._numbers[id(loop)] = {i: number for number, i in enumerate(kept)}

    def _nodes_of(self, ref: FunctionRef) -> list[Node] | None:
        # What instantiates a function is no part of its name.
        found = None if ref.attrs or isinstance(ref, OwnFunctionRef) else self.find(ref.name)
        return None if found is None else found.instantiate({})


def _needed_variables(condition: list[Node], body: list[Node], used: set[int]) -> set[int]:
    """Return the numbers of the variables that give those used, or decide or change something."""
    results = {node.attrs["index"]: node for node in body if node.op_def.role is roles.RESULT}
    ends = [node for node in condition if node.op_def.role is roles.RESULT]
    found = used | _arguments(_reached([*ends, *_with_effects(condition)]))
    found |= _arguments(_reached(_with_effects(body)))
    while True:
        more = _arguments(_reached(results[i] for i in found))
        if more <= found:
            return found
        found |= more


def _with_effects(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        op_def = node.op_def
        if not op_def.is_stateful or op_def.only_reads or op_def.draws is not None:
            continue
        if op_def.effects is not Effects.UNSEEN and op_def.role not in _ENDS:
            yield node


def _reached(ends: Iterable[Node]) -> dict[int, Node]:
    """Return the nodes that others need, those others among them, by id."""
    stack = list(ends)
    found: dict[int, Node] = {}
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += sources(node)
    return found


def _arguments(nodes: dict[int, Node]) -> set[int]:
    return {one.attrs["index"] for one in nodes.values() if one.op_def.role is roles.ARGUMENT}


def _narrowed(nodes: list[Node], kept: Sequence[int], wanted: Sequence[int]) -> list[Node]:
    """Return what is left of a function that takes and gives some of its values only."""
    ends = [n for n in nodes if n.op_def.role is roles.RESULT and n.attrs["index"] in wanted]
    needed = _reached([*ends, *_with_effects(nodes)])
    left = []
    for node in nodes:
        is_kept = node.op_def.role is roles.ARGUMENT and node.attrs["index"] in kept
        if not is_kept and id(node) not in needed:
            continue
        numbers = {roles.ARGUMENT: kept, roles.RESULT: wanted}.get(node.op_def.role)
        if numbers is not None:
            node.attrs = {**node.attrs, "index": numbers.index(node.attrs["index"])}
        left.append(node)
    return left
