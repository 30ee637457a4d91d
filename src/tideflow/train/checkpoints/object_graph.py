"""Objects as checkpoints see them: which hold which, under what names, and what each saves.

A checkpoint of objects finds a variable by the path that leads to it from the root, so it does not
depend on names of nodes.  Other kinds of objects derive from `Trackable`.

Source: tensorflow/python/checkpoint/graph_view.py, trackable/*.py; recorded files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideflow.ops.framework import SavedPart, Trackable
from tideflow.ops.state import Variable
from tideflow.train.checkpoints.serialized_parts import serialized_parts
from tideflow.train.optimizers import Optimizer
from tideflow.wire import messages as pb

VALUE = "VARIABLE_VALUE"


def children_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that a thing holds, by name."""
    if isinstance(thing, Trackable):
        yield from thing._checkpoint_children().items()
    elif isinstance(thing, Mapping):
        yield from ((name, value) for name, value in thing.items() if isinstance(name, str))
    elif isinstance(thing, (list, tuple)):
        yield from ((str(i), value) for i, value in enumerate(thing))


def has_value(thing: Any) -> bool:
    """Whether a thing is a variable, perhaps in parts."""
    return isinstance(thing, Variable) or getattr(thing, "is_sharded_variable", False)


def saved_parts(thing: Any) -> list[SavedPart]:
    """Return the tensors of a thing that is no variable and yet has a value, such as a table."""
    own = getattr(thing, "saved_parts", None)
    if own is not None:
        return list(own)
    if isinstance(thing, Trackable) and not has_value(thing):
        return serialized_parts(thing)
    return []


def full_name(thing: Any) -> str:
    """Return the name that a variable has without checkpoints of objects."""
    has_name = has_value(thing) or isinstance(thing, SavedPart)
    named: str = thing.name.partition(":")[0] if has_name else thing.op.name
    return named


def is_tracked(thing: Any) -> bool:
    """Whether a checkpoint takes a thing up."""
    return isinstance(thing, (Trackable, Mapping, list, tuple))


def _escape(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


def value_key(path: tuple[str, ...], name: str = VALUE) -> str:
    """Return the key of a value of the object that a path leads to."""
    return "/".join([*map(_escape, path), ".ATTRIBUTES", _escape(name)])


@dataclass
class Node:
    """One object of the graph.

    Attributes: path, names from the root; children, their numbers by name; key, of its value in
    the checkpoint (None for an object that has none); slots, of an optimizer: number of the
    variable, name, number of the slot's variable; part_of, for one tensor of an object: the number
    of the object's node.  Such nodes come last, and the checkpoint has attributes in their place.
    """

    thing: Any
    path: tuple[str, ...]
    children: list[tuple[str, int]] = field(default_factory=list)
    key: str | None = None
    slots: list[tuple[int, str, int]] = field(default_factory=list)
    part_of: int | None = None


def object_nodes(root: Any) -> list[Node]:
    """Return the objects that a root leads to, breadth first, then the slots of optimizers."""
    nodes = [Node(root, ())]
    numbers = {id(root): 0}
    waiting = deque([0])
    while waiting:
        node = nodes[waiting.popleft()]
        for name, child in children_of(node.thing):
            if not is_tracked(child):
                continue
            if id(child) not in numbers:
                numbers[id(child)] = len(nodes)
                waiting.append(len(nodes))
                nodes.append(Node(child, (*node.path, name)))
            node.children.append((name, numbers[id(child)]))
    for node in list(nodes):
        if has_value(node.thing):
            node.key = value_key(node.path)
    for node in [node for node in nodes if isinstance(node.thing, Optimizer)]:
        _add_slots(nodes, node)
    for number, node in enumerate(list(nodes)):
        for part in saved_parts(node.thing):
            key = value_key(node.path, part.attribute)
            nodes.append(Node(part, node.path, key=key, part_of=number))
    return nodes


def _add_slots(nodes: list[Node], owner: Node) -> None:
    variables = [(i, n) for i, n in enumerate(nodes) if isinstance(n.thing, Variable)]
    for name in owner.thing.get_slot_names():
        for number, node in variables:
            slot = owner.thing.get_slot(node.thing, name)
            if slot is None:
                continue
            owner.slots.append((number, name, len(nodes)))
            key = slot_key(node.path, owner.path, name)
            nodes.append(Node(slot, (), key=key))


def slot_key(variable: tuple[str, ...], optimizer: tuple[str, ...], slot: str) -> str:
    """Return the key of an optimizer's variable beside another one."""
    parts = [*map(_escape, variable), ".OPTIMIZER_SLOT", *map(_escape, optimizer), _escape(slot)]
    return "/".join([*parts, ".ATTRIBUTES", VALUE])


def object_graph(nodes: list[Node]) -> pb.TrackableObjectGraph:
    """Return the message that a checkpoint keeps of its objects."""
    graph_pb = pb.TrackableObjectGraph()
    for node in nodes:
        if node.part_of is not None:
            graph_pb.nodes[node.part_of].attributes.add(
                name=node.thing.attribute,
                full_name=full_name(node.thing),
                checkpoint_key=node.key,
            )
            continue
        node_pb = graph_pb.nodes.add()
        node_pb.has_checkpoint_values.value = True
        for name, number in node.children:
            node_pb.children.add(node_id=number, local_name=name)
        if node.key is not None:
            node_pb.attributes.add(
                name=VALUE, full_name=full_name(node.thing), checkpoint_key=node.key
            )
        for original, name, number in node.slots:
            node_pb.slot_variables.add(
                original_variable_node_id=original,
                slot_name=name,
                slot_variable_node_id=number,
            )
    return graph_pb


@dataclass
class Match:
    """What objects and a checkpoint have in common.

    Attributes: keys, of the checkpoint by number of the object's node; unmatched, paths of objects
    that the checkpoint lacks; unused, keys that no object takes; slots, those that the checkpoint
    has and the program has not made: optimizer, variable, name, key.
    """

    keys: list[tuple[str, Any]] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    slots: list[tuple[Optimizer, Any, str, str]] = field(default_factory=list)


def match_objects(nodes: list[Node], graph_pb: pb.TrackableObjectGraph) -> Match:
    """Find each object's counterpart, along the names from the root."""
    found = Match()
    theirs: dict[int, int] = {0: 0}
    waiting = deque([0])
    while waiting:
        number = waiting.popleft()
        names = {c.local_name: c.node_id for c in graph_pb.nodes[theirs[number]].children}
        for name, child in nodes[number].children:
            if name in names and child not in theirs:
                theirs[child] = names[name]
                waiting.append(child)
    for number, node in enumerate(nodes):
        if isinstance(node.thing, Optimizer) and number in theirs:
            node_pb = graph_pb.nodes[theirs[number]]
            _match_slots(node, node_pb, theirs)
            found.slots += _slots_to_come(node, node_pb, nodes, theirs, graph_pb)
    taken: set[str] = set()
    for number, node in enumerate(nodes):
        if node.key is None:
            continue
        at = theirs.get(number if node.part_of is None else node.part_of)
        attributes = graph_pb.nodes[at].attributes if at is not None else ()
        name = VALUE if node.part_of is None else node.thing.attribute
        keys = {a.name: a.checkpoint_key for a in attributes}
        if name in keys:
            found.keys.append((keys[name], node.thing))
            taken.add(keys[name])
        elif node.part_of is not None and (stem := name.removesuffix(node.thing.suffix)) in keys:
            # TensorFlow gives a table one attribute, whose key those of its parts begin with.
            found.keys.append((keys[stem] + node.thing.suffix, node.thing))
            taken.add(keys[stem])
        else:
            found.unmatched.append(node.key)
    every = [a.checkpoint_key for node_pb in graph_pb.nodes for a in node_pb.attributes]
    found.unused = [key for key in every if key not in taken]
    return found


def _match_slots(node: Node, node_pb: Any, theirs: dict[int, int]) -> None:
    there = {
        (s.original_variable_node_id, s.slot_name): s.slot_variable_node_id
        for s in node_pb.slot_variables
    }
    for original, name, number in node.slots:
        if original in theirs and (theirs[original], name) in there:
            theirs[number] = there[theirs[original], name]


def _slots_to_come(
    node: Node, node_pb: Any, nodes: list[Node], theirs: dict[int, int], graph_pb: Any
) -> Iterator[tuple[Optimizer, Any, str, str]]:
    """Yield the slots of an optimizer that only the checkpoint has."""
    ours = {their: nodes[number].thing for number, their in theirs.items()}
    for slot_pb in node_pb.slot_variables:
        variable = ours.get(slot_pb.original_variable_node_id)
        if not isinstance(variable, Variable):
            continue
        for attribute in graph_pb.nodes[slot_pb.slot_variable_node_id].attributes:
            if node.thing.get_slot(variable, slot_pb.slot_name) is None:
                yield node.thing, variable, slot_pb.slot_name, attribute.checkpoint_key
