"""Give every node a device.

Rule 1: nodes that must be together form a group: those that name the same `loc:@` class, a
        consumer of a reference or resource with its producer.
Rule 2: a group's device is what its members ask for together.  Where a reference or resource
        lives wins, silently, over what its consumers ask for.
Rule 3: of the devices that match and can run a node, accelerators come first, then those of the
        client device's task, then name order.
Rule 4: a source (constant, random number) that asks for nothing goes with its only consumer, a
        shape-like node with its input.
Source: runtime facts on placement; tensorflow/core/common_runtime/placer.cc
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tideflow.compile.device_types import is_accelerator, priority, runs_on_accelerator
from tideflow.graph.node import Node
from tideflow.wire import dtypes, errors
from tideflow.wire.device_name import (
    DeviceSpec,
    matches,
    merge,
    parse_device_name,
    task_name,
)


def place(
    nodes: Sequence[Node],
    devices: Sequence[str],
    allow_soft_placement: bool,
    placed: Mapping[str, Node] | None = None,
) -> None:
    """Assign a full device name to every node, in place.

    Args:
      nodes: in topological order; a node's requested device is replaced.
      devices: full names; the first is the client device, the default.
      allow_soft_placement: whether a device type or index that is not there may be dropped.
      placed: by name, earlier nodes of the graph, which stay where they are.
    Raises: InvalidArgumentError for a device that is not there or cannot run the node, listing
    those that are, or for nodes that must be together but ask for different devices.
    """
    _Placer(nodes, devices, allow_soft_placement, placed or {}).place()


class _Placer:
    def __init__(
        self,
        nodes: Sequence[Node],
        devices: Sequence[str],
        soft: bool,
        placed: Mapping[str, Node],
    ) -> None:
        self.nodes = nodes
        self.placed = placed
        self.soft = soft
        own = task_name(devices[0])
        rest = sorted(devices[1:], key=lambda name: (task_name(name) != own, name))
        self.devices = [devices[0], *rest]
        self.known = set(devices)
        self._found: dict[tuple[str, bool], str | None] = {}
        self.accelerators = {name for name in devices if is_accelerator(name)}
        if self.accelerators:
            self.devices.sort(key=lambda name: -priority(name))
        self.hosts = [name for name in self.devices if name not in self.accelerators]

    def place(self) -> None:
        groups = _Groups(self.nodes, self.placed)
        for members in groups.shared():
            self._place_group(members, groups.fixed)
        grouped = groups.member_ids()
        known = self.known
        free = []
        for node in self.nodes:
            if grouped and id(node) in grouped:
                continue
            if not node.device:
                free.append(node)
            elif node.device not in known or node.device in self.accelerators:
                node.device = self._device(node, node.device, self._may_leave_host([node]))
        if free:
            self._place_unconstrained(free)

    # ---- groups

    def _place_group(self, members: list[Node], fixed: Mapping[int, Node]) -> None:
        owners = [node for node in members if id(node) in fixed or not _follows(node)]
        spec = self._merge_owners(owners or members)
        for node in members:
            if node.device and id(node) not in fixed and _follows(node):
                wanted = self._spec(node)
                try:
                    spec = merge(spec, wanted)
                except errors.InvalidArgumentError:
                    continue  # rule 2: the producer's device stands
        device = self._device(members[0], spec.to_string(), self._may_leave_host(members), members)
        for node in members:
            if id(node) not in fixed:
                node.device = device

    def _merge_owners(self, owners: list[Node]) -> DeviceSpec:
        spec = DeviceSpec()
        first: Node | None = None
        for node in owners:
            if not node.device:
                continue
            try:
                spec = merge(spec, self._spec(node), soft=self.soft)
            except errors.InvalidArgumentError:
                if self.soft:
                    continue
                assert first is not None
                raise errors.InvalidArgumentError(
                    f"{node.op} {node.name!r} and {first.op} {first.name!r} must be on one device, "
                    f"but ask for {node.device!r} and {first.device!r}",
                    node=node.name,
                ) from None
            first = first or node
        return spec

    def _spec(self, node: Node) -> DeviceSpec:
        try:
            return parse_device_name(node.device)
        except errors.InvalidArgumentError as error:
            raise error.with_message(
                f"{node.op} {node.name!r}: {error.message}", node=node.name
            ) from None

    # ---- devices

    def _may_leave_host(self, nodes: Sequence[Node]) -> bool:
        """Whether all of the nodes can run on an accelerator, if there is one."""
        return bool(self.accelerators) and all(runs_on_accelerator(node) for node in nodes)

    def _device(
        self, node: Node, wanted: str, leaves_host: bool, members: Sequence[Node] = ()
    ) -> str:
        """Return the device for a wish.  Raises: InvalidArgumentError when none will do."""
        if wanted in self.known and (leaves_host or wanted not in self.accelerators):
            return wanted
        key = wanted, leaves_host
        if key not in self._found:
            self._found[key] = self._match(node, wanted, leaves_host)
        found = self._found[key]
        if found is None:
            raise self._misplaced(node, wanted, members)
        return found

    def _misplaced(
        self, node: Node, wanted: str, members: Sequence[Node]
    ) -> errors.InvalidArgumentError:
        """Return the error for a wish that no device fulfils."""
        if not any(matches(wanted, name) for name in self.devices):
            return errors.InvalidArgumentError(
                f"operation {node.name!r} asks for device {wanted!r}, which is not there; the "
                f"devices are {', '.join(self.devices)}",
                node=node.name,
            )
        culprit = next((one for one in members if not runs_on_accelerator(one)), node)
        together = "" if culprit is node else f", which must be with {node.op} {node.name!r},"
        return errors.InvalidArgumentError(
            f"Cannot assign a device for operation {culprit.name}: {culprit.op} "
            f"{culprit.name!r}{together} asks for {wanted!r}, where only what can be compiled "
            f"runs; it can run on {', '.join(self.hosts)}. allow_soft_placement=True puts such "
            "operations there",
            node=culprit.name,
        )

    def _match(self, node: Node, wanted: str, leaves_host: bool) -> str | None:
        try:
            spec = parse_device_name(wanted)
        except errors.InvalidArgumentError as error:
            raise error.with_message(
                f"{node.op} {node.name!r}: {error.message}", node=node.name
            ) from None
        able = self.devices if leaves_host else self.hosts
        found = next((d for d in able if matches(spec, d)), None)
        if found is None and self.soft:
            softened = DeviceSpec(spec.job, spec.replica, spec.task)
            found = next((d for d in able if matches(softened, d)), None)
        return found

    # ---- nodes that ask for nothing

    def _place_unconstrained(self, nodes: list[Node]) -> None:
        best, host = self.devices[0], self.hosts[0]
        able = {id(n): self._may_leave_host([n]) for n in nodes} if self.accelerators else {}

        def fits(node: Node, device: str) -> bool:
            return able.get(id(node), True) or device not in self.accelerators

        sources = {id(n): n for n in nodes if not n.edges and len(n.output_types) == 1}
        consumers = self._sole_consumers(sources)
        for node in nodes:
            if id(node) in sources:
                continue
            if node.op_def.static_value is not None and node.edges and node.edges[0][0].device:
                node.device = node.edges[0][0].device
            else:
                node.device = best if fits(node, best) else host
        for key, node in sources.items():
            consumer = consumers.get(key)
            if consumer is not None and consumer.device and fits(node, consumer.device):
                node.device = consumer.device
            else:
                node.device = best if fits(node, best) else host

    def _sole_consumers(self, sources: dict[int, Node]) -> dict[int, Node]:
        """Return the consumer of each source that has exactly one."""
        if not sources:
            return {}
        found: dict[int, Node] = {}
        several: set[int] = set()
        for node in self.nodes:
            for source, _ in node.edges:
                key = id(source)
                if key in sources and found.setdefault(key, node) is not node:
                    several.add(key)
            for source in node.controls:
                several.add(id(source))
        return {key: node for key, node in found.items() if key not in several}


def _follows(node: Node) -> bool:
    """Whether the node goes where one of its inputs lives."""
    return any(_binds(source, port, node) for source, port in node.edges)


def _binds(source: Node, port: int, consumer: Node) -> bool:
    """Whether an edge ties its consumer to its producer's device."""
    dtype = source.output_types[port]
    if dtype is dtypes.resource:
        return True
    return dtype.is_ref_dtype and any(arg.is_ref for arg in consumer.op_def.inputs)


class _Groups:
    """Nodes that must be together, by union of pairs.

    Attributes:
      fixed: earlier nodes of the graph that are in a group, by id.
    """

    def __init__(self, nodes: Sequence[Node], placed: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._placed = placed
        self._parent: dict[int, int] = {}
        self._joined: dict[int, Node] = {}
        self.fixed: dict[int, Node] = {}
        classed = []
        binding = _BindingTypes()
        for node in nodes:
            for source, port in node.edges:
                if binding.may_bind(source) and _binds(source, port, node):
                    self._join(node, source)
            if "_class" in node.attrs:
                classed.append(node)
        if classed:
            self._join_classes(classed)
        if placed:
            self._fix()

    def _join_classes(self, classed: Sequence[Node]) -> None:
        by_name = {node.name: node for node in self._nodes}
        classes: dict[str, Node] = {}
        for node in classed:
            for entry in node.attrs["_class"] or ():  # a peer may send it without a value
                if not entry.startswith("loc:@"):
                    continue
                name = entry[5:]
                if name == node.name:
                    continue
                target = by_name.get(name) or self._placed.get(name)
                target = target or classes.setdefault(name, node)
                if target is not node:
                    self._join(node, target)

    def _fix(self) -> None:
        """Find the members that are none of the nodes to be placed."""
        own = {id(node) for node in self._nodes}
        for key, node in self._joined.items():
            if key not in own:
                self.fixed[key] = node

    def _root(self, key: int) -> int:
        parent = self._parent
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    def _join(self, a: Node, b: Node) -> None:
        self._joined[id(a)], self._joined[id(b)] = a, b
        self._parent[self._root(id(a))] = self._root(id(b))

    def shared(self) -> list[list[Node]]:
        """Return the groups of more than one node, members in graph order."""
        found: dict[int, list[Node]] = {}
        if self._parent:
            for node in (*self.fixed.values(), *self._nodes):
                if id(node) in self._parent:
                    found.setdefault(self._root(id(node)), []).append(node)
        return list(found.values())

    def member_ids(self) -> set[int]:
        """Return the ids of all nodes that are in a group."""
        return set(self._parent)


class _BindingTypes:
    """Tells quickly of most nodes that no consumer is tied to them."""

    def __init__(self) -> None:
        # By the id of a node's attrs, which many nodes may share.
        self._found: dict[tuple[str, int], bool] = {}

    def may_bind(self, source: Node) -> bool:
        """Whether a node gives a reference or a resource."""
        key = source.op_def.name, id(source.attrs)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = any(
                dtype is dtypes.resource or dtype.is_ref_dtype for dtype in source.output_types
            )
        return found
